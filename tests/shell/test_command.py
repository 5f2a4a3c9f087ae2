"""The command itself: how it ends, what it says beside results, and the verbs on files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import click
import pytest
import torch
from safetensors.torch import save_file
from shell.running import Run, runner
from small_models import small_roberta

from roberta_hub import load_model
from roberta_hub.errors import Advice, InputError, Remedy
from roberta_hub.shell import main as shell
from roberta_hub.shell.options import parse_list

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["A dog ran.", "Goal!"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


@pytest.mark.system
@pytest.mark.parametrize("form", ["fairseq", "huggingface", "roberta_hub"])
def test_convert_writes_what_loads_alike(run: Run, tmp_path: Path, form: str) -> None:
    heads = {"topic": ("art", "sport"), "other": ("a", "b", "c")}
    sizes = {name: len(labels) for name, labels in heads.items()}
    roberta = small_roberta(heads=sizes, labels=heads, num_layers=2)
    roberta.default_head = "topic"
    roberta.save(tmp_path / "model")
    options = ("--head", "topic") if form == "huggingface" else ()
    status, out, err = run("convert", "model", "new", "--to", form, *options)
    assert (status, out) == (0, "") and err.splitlines()[-1].startswith("new: ")
    assert ("gets head 'topic' of this model, without 'other'" in err) == (form == "huggingface")
    before, after = load_model(tmp_path / "model"), load_model(tmp_path / "new")
    for one, two in zip(before.features(TEXTS), after.features(TEXTS), strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=0)
    assert after.classify(TEXTS)[0].label == before.classify(TEXTS)[0].label
    (tmp_path / "new/note.txt").write_text("mine")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    status, _, err = run("convert", "model", "new", "--to", form, *options)
    assert status == 1 and "give a folder that is new or empty" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == kept


def test_convert_merges_an_adapter(run: Run, tmp_path: Path) -> None:
    """The command says how to say it; the sum of ones is 2 / 1 in every place."""
    small_roberta(num_layers=1).save(tmp_path / "model")
    folder, module = tmp_path / "lora", "roberta.encoder.layer.0.attention.self.query"
    folder.mkdir()
    about = {"peft_type": "LORA", "r": 1, "lora_alpha": 2, "base_model_name_or_path": "model"}
    (folder / "adapter_config.json").write_text(json.dumps(about))
    ones = {"A": torch.ones(1, 32), "B": torch.ones(32, 1)}
    named = {f"base_model.model.{module}.lora_{part}.weight": one for part, one in ones.items()}
    save_file(named, folder / "adapter_model.safetensors")
    status, _, err = run("convert", "lora", "new", "--to", "roberta_hub")
    assert status == 1 and "LoRA adapter of 'model'" in err
    assert "`roberta-hub convert FOLDER NEW --to roberta_hub --adapter`" in err
    query = "encoder.sentence_encoder.layers.0.self_attn.q_proj.weight"
    found = {}
    for option in ("--adapter", "--no-adapter"):
        assert run("convert", "lora", f"new{option}", "--to", "roberta_hub", option)[0] == 0
        found[option] = load_model(tmp_path / f"new{option}").model.state_dict()[query]
    torch.testing.assert_close(
        found["--adapter"] - found["--no-adapter"], torch.full((32, 32), 2.0)
    )


def test_convert_leaves_nothing_of_what_cannot_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, words in (
        (("none", "new"), "no model and no path 'none'"),
        (("roberta.tiny", "file"), "file is a file"),
    ):
        status, _, err = run("convert", *arguments, "--to", "fairseq")
        assert status == 1 and words in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert run("convert", "roberta.tiny", "new", "--to", "onnx")[0] == 2


def test_download_checks_every_name_before_the_first(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    status, out, err = run("download", "roberta.base", "robrta.large")
    assert (status, out) == (1, "") and "did you mean roberta.large" in err
    status, out, _ = run("download", "roberta.tiny")
    assert status == 0 and (Path(out.strip()) / "model.safetensors").is_file()
    status, out, err = run("download", "roberta.base")
    assert (status, out) == (1, "") and "ROBERTA_HUB_OFFLINE forbids it" in err
    assert err.count("\n") == 1


class TestEnds:
    """One verb that fails in every way there is."""

    @pytest.fixture(autouse=True)
    def verb(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> int:
            raise self.error

        broken = click.Command("models", callback=fail)
        monkeypatch.setattr(shell, "verb", lambda name: broken)

    error: BaseException = KeyboardInterrupt()

    @pytest.mark.parametrize(
        ("error", "status", "said"),
        [
            (KeyboardInterrupt(), 130, "roberta-hub: interrupted\n"),
            (click.Abort(), 130, "roberta-hub: interrupted\n"),
            (InputError("line 1\nline \x1b2"), 1, "roberta-hub: line 1 line \\x1b2\n"),
            (OSError(28, "No space left on device", "x"), 1, "roberta-hub: x: No space left"),
            (OSError("odd"), 1, "roberta-hub: odd\n"),
            (click.UsageError("wrong"), 2, "roberta-hub models: wrong\nroberta-hub models --h"),
        ],
        ids=["Ctrl-C", "abort", "ours", "disk", "system", "usage"],
    )
    def test_each_end_has_its_status_and_one_line(
        self, run: Run, error: BaseException, status: int, said: str
    ) -> None:
        type(self).error = error
        found, out, err = run("models")
        assert (found, out) == (status, "") and err.startswith(said)

    def test_what_is_a_fault_of_ours_is_not_hidden(self, run: Run) -> None:
        type(self).error = ZeroDivisionError("ours")
        with pytest.raises(ZeroDivisionError):
            run("models")


def test_a_warning_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> int:
        remedy = Remedy("pass multi_label=True", "give --multi-label")
        warnings.warn(Advice("beware \x1b", remedy), stacklevel=1)
        return 0

    monkeypatch.setattr(shell, "verb", lambda name: click.Command("models", callback=warn))
    status, out, err = run("models")
    assert (status, out) == (0, "")
    assert err == "roberta-hub: note: beware \\x1b; give --multi-label\n"


def test_without_standard_input_texts_are_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(sys, "stdin", None)
        shell.main(["score"])
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("value", "names"),
    [("a,b", ("a", "b")), ('"a, b", c', ("a, b", "c")), ("a b", ("a b",)), (None, ())],
)
def test_a_list_is_a_line_of_a_csv(value: str | None, names: tuple[str, ...]) -> None:
    context = click.Context(shell.command)
    assert parse_list(context, click.Option(["--labels"]), value) == names


@pytest.mark.parametrize("value", ["", "a,,b", "a,a", 'a,"b', "a\nb"])
def test_what_is_no_list_is_refused(value: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_list(click.Context(shell.command), click.Option(["--labels"]), value)


def completed(words: str) -> list[str]:
    """What bash offers for the last of some words."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_ROBERTA_HUB_COMPLETE": "bash_complete",
    }
    code = (
        "import sys; from roberta_hub.shell.main import main; main([]); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split()


@pytest.mark.system
def test_a_shell_completes_verbs_options_models_and_files() -> None:
    assert completed("roberta-hub zer") == ["plain,zero-shot"]
    assert "plain,--column" in completed("roberta-hub classify --co")
    assert completed("roberta-hub embed -m roberta.ti") == ["plain,roberta.tiny"]
    assert completed("roberta-hub embed -m ./mi") == ["file,./mi"]


def test_a_list_of_verbs_is_what_help_shows(run: Run) -> None:
    _, out, _ = run("--help")
    for name, summary in shell.VERBS.items():
        assert f"  {name} " in out and summary[:40] in out
    status, out, _ = run("--version")
    assert status == 0 and json.dumps(out.strip())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-V", "--version shows the version"),
        ("-v", "--version shows the version"),
        ("login", "done by `hf auth login`"),
        ("classify --batch-size 8 x", "A batch is so many tokens"),
        ("fit t.csv --batch-siz 8", "Did you mean '--batch-size'"),
    ],
)
def test_options_and_commands_of_habit_are_named(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        shell.main(words.split())
    assert said in capsys.readouterr().err
