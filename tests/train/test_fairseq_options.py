"""Commands and yaml files of fairseq's recipes, as they stand in its READMEs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import load_model
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.train.config import compose
from roberta_hub.train.data.indexed_files import IndexedWriter
from roberta_hub.train.fairseq_options import DEFAULTS, OPTIONS, as_overrides, table, translate
from roberta_hub.train.run import command
from roberta_hub.train.settings import Config

ROOT = Path(__file__).resolve().parents[2]
FINETUNING = (
    "--dropout 0.1 --attention-dropout 0.1 --weight-decay 0.01 --optimizer adam "
    "--adam-betas '(0.9, 0.98)' --adam-eps 1e-06 --lr-scheduler polynomial_decay --lr 1e-05 "
    "--reset-optimizer --reset-dataloader --reset-meters --no-epoch-checkpoints "
    "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric --seed 1 "
    "--restore-file /path/to/roberta/model.pt --arch roberta_large --max-positions 512 "
)


def composed(words: str) -> tuple[Config, list[str]]:
    settings, said = translate(shlex.split(words))
    return compose(as_overrides(settings)), said


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("IMDB-bin/input0/dict.txt", "IMDB-bin/input0/valid.idx", "WSC/val.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_the_command_of_imdb(there: Path) -> None:
    config, said = composed(
        "CUDA_VISIBLE_DEVICES=0 fairseq-train IMDB-bin/ --task sentence_prediction --init-token 0 "
        "--separator-token 2 --criterion sentence_prediction --classification-head-name imdb_head "
        "--num-classes 2 --total-num-update 7812 --warmup-updates 469 --max-epoch 10 "
        "--batch-size 8 --max-tokens 4400 --required-batch-size-multiple 1 --update-freq 4 "
        "--fp16 --fp16-init-scale 4 --threshold-loss-scale 1 --fp16-scale-window 128 "
        "--shorten-method truncate --find-unused-parameters --clip-norm 0.0 " + FINETUNING
    )
    assert (config.task.name, config.task.head) == ("classification", "imdb_head")
    assert config.task.options == {"truncate": True, "max_length": 512}
    assert (config.data.train, config.data.valid) == ("IMDB-bin/", "IMDB-bin/valid")
    assert (config.model, config.pretrained, config.restore) == (
        "/path/to/roberta/model.pt", True, False
    )  # fmt: skip
    own = config.optimizer
    assert (own.lr, own.betas, own.eps, own.weight_decay) == (1e-5, [0.9, 0.98], 1e-6, 0.01)
    assert (own.warmup_updates, own.total_updates, own.decay) == (469, 7812, "fairseq")
    batch = config.batch
    assert (batch.batch_size, batch.max_tokens, batch.update_freq, batch.multiple) == (
        8,
        4400,
        4,
        1,
    )
    assert (config.loop.max_epochs, config.loop.precision) == (10, "fp16")
    assert config.architecture == {"dropout": 0.1, "attention_dropout": 0.1}
    assert config.output == "checkpoints"
    assert said[0] == "CUDA_VISIBLE_DEVICES=0: set it before roberta-hub, as for any program"
    assert "--num-classes: the labels of the folder say it" in said


def test_the_commands_of_wsc_and_commonsense_qa(there: Path) -> None:
    config, _ = composed(
        "fairseq-train WSC/ --valid-subset val --fp16 --ddp-backend legacy_ddp --user-dir wsc "
        "--task wsc --criterion wsc --wsc-cross-entropy --bpe gpt2 --warmup-updates 250 "
        "--total-num-update 2000 --batch-size 16 --max-update 2000 --log-format simple "
        "--log-interval 100 --no-last-checkpoints --no-save-optimizer-state " + FINETUNING
    )
    assert (config.task.name, config.data.train) == ("wsc", "WSC/train.jsonl")
    assert config.data.valid == "WSC/val.jsonl"
    assert config.task.options["cross_entropy"] is True
    assert config.task.options["init_token"] is False
    config, _ = composed(
        "fairseq-train --fp16 --ddp-backend=legacy_ddp data/CommonsenseQA --user-dir csqa "
        "--task commonsense_qa --init-token 0 --bpe gpt2 --criterion sentence_ranking "
        "--num-classes 5 --warmup-updates 150 --total-num-update 3000 --max-update 3000 "
        "--batch-size 16 " + FINETUNING
    )
    assert (config.task.name, config.data.format) == ("choice", "commonsense_qa")
    assert config.data.train == "data/CommonsenseQA/train.jsonl"
    config, _ = composed(
        "fairseq-train winogrande_1.0/ --task winogrande --criterion winogrande "
        "--wsc-margin-alpha 5.0 --wsc-margin-beta 0.4 --warmup-updates 2375 --max-update 23750 "
        "--total-num-update 23750 --batch-size 32 " + FINETUNING
    )
    assert config.task.options["margin_alpha"] == 5.0


def test_race_is_refused_with_the_recipe_that_reads_its_files() -> None:
    with pytest.raises(InputError, match=r"sentence_ranking cannot be had here; finetune=race"):
        translate(shlex.split("race-bin --task sentence_ranking --criterion sentence_ranking"))


PLAIN = "data-bin --task masked_lm --max-tokens 4096 --max-update 10"
STARTED = {
    "fairseq-train": [],
    "/usr/bin/fairseq-train": [],
    "python train.py": [],
    "python3.10 -u fairseq_cli/train.py": [],
    "python -m fairseq_cli.train": [],
    "nohup env python3 ../fairseq/train.py": [],
    "CUDA_VISIBLE_DEVICES=0,1 fairseq-train": ["CUDA_VISIBLE_DEVICES=0,1"],
    "NCCL_P2P_DISABLE=1 OMP_NUM_THREADS=4 python train.py": [
        "NCCL_P2P_DISABLE=1",
        "OMP_NUM_THREADS=4",
    ],
    "python -m torch.distributed.launch --nproc_per_node=8 --master_port=12345 "
    "$(which fairseq-train)": [
        "python -m torch.distributed.launch --nproc_per_node=8 --master_port=12345"
    ],
    "torchrun --nproc_per_node 8 train.py": ["torchrun --nproc_per_node 8"],
    "srun -N 2 --gres=gpu:8 python -u train.py": ["srun -N 2 --gres=gpu:8 python -u"],
    "\\\nfairseq-train \\\n": [],
    "\\\r\n   fairseq-train \\\r\n ": [],
}
"""What stands before fairseq's own words, and of what of it is said that it has no effect."""


@pytest.mark.parametrize("start", STARTED)
def test_what_starts_the_command_is_taken_away(start: str) -> None:
    settings, said = translate(shlex.split(f"{start} {PLAIN}"))
    assert settings["data.train"] == "data-bin"
    assert settings["loop.max_updates"] == 10
    assert [sentence.partition(": ")[0] for sentence in said] == STARTED[start]
    if STARTED[start] and "=" not in STARTED[start][0].split()[0]:
        assert "one process trains here" in said[0]
        assert "-m roberta_hub train --fairseq" in said[0]


def test_lines_of_a_paste_are_one_command() -> None:
    words = ["fairseq-train", "\\", "data-bin", "\\", "\n--task", "masked_lm", " ", "\r", "\\\n"]
    words += ["--max-tokens", "4096", "--shorten-data-split-list", ""]  # an empty value is one
    assert translate(words)[0]["data.train"] == "data-bin"
    assert translate([f"fairseq-train \\\n {PLAIN}"]) == translate(shlex.split(PLAIN))


def test_a_starter_without_a_program_of_fairseqs_is_refused() -> None:
    """`$(which fairseq-train)` is empty where fairseq is not installed."""
    for start in ("python -m torch.distributed.launch --nproc_per_node=8", "torchrun", "srun -N 1"):
        with pytest.raises(InputError, match="none of fairseq's follows; write fairseq-train"):
            translate(shlex.split(f"{start} {PLAIN}"))
    with pytest.raises(InputError, match="no closing quotation; close the quote"):
        translate(["fairseq-train 'data-bin --task masked_lm"])


@pytest.mark.parametrize("name", ["2024_01_05", "007", "1e5", "1_0", "true", "None", "inf", "1.0"])
def test_text_stays_text(name: str, tmp_path: Path) -> None:
    """An option's type is fairseq's, on a command line and in a yaml file."""
    (tmp_path / "base.yaml").write_text(
        YAML.replace("data: '???'", "data: bin").replace(
            "checkpoint: {no_", f"checkpoint: {{save_dir: {name}, restore_file: {name}, no_"
        )
    )
    hydra = f"fairseq-hydra-train --config-dir {tmp_path} --config-name base"
    for words in (
        f"fairseq-train {name} --save-dir {name} --restore-file {name} --task sentence_prediction "
        f"--init-token 0 --classification-head-name {name} --max-tokens 9 --max-update 1",
        hydra,
        f"{hydra} checkpoint.save_dir={name} +checkpoint.restore_file={name} task.data={name}",
    ):
        config, _ = composed(words)
        assert (config.output, config.model) == (name, name)
        assert config.task.head in (name, "sentence_classification_head")
        assert config.data.train in (name, "bin")


def test_numbers_are_numbers() -> None:
    own = "--max-update 1_000 --warmup-updates 1e2 --dropout 1 --lr [1e-5] --update-freq [4] "
    settings, _ = translate(shlex.split(f"data-bin --task masked_lm {own} --adam-betas (0.9,0.98)"))
    assert settings["loop.max_updates"] == 1000
    assert settings["optimizer.warmup_updates"] == 100
    assert (settings["optimizer.lr"], settings["batch.update_freq"]) == (1e-5, 4)
    assert settings["architecture.dropout"] == 1.0
    assert settings["optimizer.betas"] == [0.9, 0.98]
    for words, said in {
        "--max-update 1.5": "--max-update 1.5: must be a whole number, as fairseq has it",
        "--max-update many": "--max-update many: must be a whole number",
        "--dropout high": "--dropout high: must be a number",
        "--lr fast": "--lr fast: must be a number",
    }.items():
        with pytest.raises(InputError, match=re.escape(said)):
            translate(shlex.split(f"data-bin --task masked_lm {words}"))


YAML = """# @package _group_
common: {fp16: true, log_format: json, log_interval: 200}
checkpoint: {no_epoch_checkpoints: true}
task: {_name: masked_lm, data: '???', sample_break_mode: complete, tokens_per_sample: 512}
criterion: masked_lm
dataset: {batch_size: 16, ignore_unused_valid_subsets: true}
optimizer: {_name: adam, weight_decay: 0.01, adam_betas: "(0.9,0.98)", adam_eps: 1e-06}
lr_scheduler: {_name: polynomial_decay, warmup_updates: 10000}
optimization: {clip_norm: 0, lr: [0.0005], max_update: 125000, update_freq: [16]}
model: {_name: roberta, max_positions: 512, dropout: 0.1, attention_dropout: 0.1}
"""
"""The settings of fairseq's base.yaml."""


def test_the_yaml_of_pretraining(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(YAML)
    words = f"fairseq-hydra-train -m --config-dir {tmp_path} --config-name base "
    with pytest.raises(InputError, match=r"task\.data is not set; add task\.data=VALUE"):
        translate(shlex.split(words))
    config, _ = composed(f"{words} task.data=data-bin optimization.update_freq='[4]' common.fp16=0")
    assert (config.model, config.pretrained) == ("roberta.base", False)
    assert config.task.options == {"sentences": "complete", "block_size": 512, "unit": "fairseq"}
    assert (config.optimizer.lr, config.optimizer.warmup_updates) == (5e-4, 10_000)
    assert (config.batch.batch_size, config.batch.update_freq) == (16, 4)
    assert (config.batch.order, config.batch.multiple) == ("fairseq", 8)
    assert (config.loop.max_updates, config.loop.precision) == (125_000, "no")
    assert config.architecture["max_positions"] == 512
    with pytest.raises(InputError, match="--fp16 maybe: must be true or false"):
        translate(shlex.split(f"{words} task.data=data-bin common.fp16=maybe"))


def test_a_reference_in_a_yaml_is_followed_and_a_resolver_refused(tmp_path: Path) -> None:
    words = f"fairseq-hydra-train --config-dir {tmp_path} --config-name base task.data=data-bin"
    written = YAML.replace("warmup_updates: 10000", "warmup_updates: '${optimization.max_update}'")
    (tmp_path / "base.yaml").write_text(written)
    assert composed(words)[0].optimizer.warmup_updates == 125_000
    for secret in SECRETS:
        (tmp_path / "base.yaml").write_text(YAML.replace("'???'", secret))
        with pytest.raises(InputError, match="is not resolved; write the value itself") as error:
            translate(shlex.split(words.removesuffix(" task.data=data-bin")))
        assert str(Path.home()) not in str(error.value)
    (tmp_path / "base.yaml").write_text(YAML)
    for secret in ("${oc.env:HOME}", "\\${oc.env:HOME}", "${${a}.env:HOME}"):
        with pytest.raises(InputError, match="is not resolved; write the value itself"):
            translate([*shlex.split(words)[:-1], f"task.data={secret}"])


SECRETS = (
    "'${oc.env:HOME}'",
    "'${ oc.decode: x}'",
    "'${oc.env:HOME,${task._name}}'",
    "'${mine:1}'",
    '"\\x24{oc.env:HOME}"',
    '"\\u0024\\x7boc.env:HOME}"',
    "'${oc.${task._name}:HOME}'",
    "'${${task._name}.env:HOME}'",
    "'a \\${oc.env:HOME}'",
    "['${oc.env:HOME}']",
    "{a: '${oc.env:HOME}'}",
    "{'${oc.env:HOME}': a}",
)
"""Values of a yaml file that ask for what is no setting."""


def test_no_two_steps_make_a_resolver(tmp_path: Path) -> None:
    """A dollar from one setting, and what follows it from another."""
    written = YAML.replace("'???'", "'${common.log_format}{oc.env:HOME}'")
    written = written.replace("log_format: json", "log_format: '$'")
    (tmp_path / "base.yaml").write_text(written)
    words = f"fairseq-hydra-train --config-dir {tmp_path} --config-name base"
    with pytest.raises(InputError, match="is not resolved; write the value itself"):
        composed(words)


def test_a_yaml_that_grows_is_refused(tmp_path: Path) -> None:
    words = ["--config-dir", str(tmp_path), "--config-name", "base"]
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(3))
    (tmp_path / "base.yaml").write_text(bomb)
    with pytest.raises(InputError, match=r"has aliases of YAML \(\*name\)"):
        translate(words)
    (tmp_path / "base.yaml").write_text("# " + "x" * 100_000)
    with pytest.raises(InputError, match="100,002 bytes; a recipe has at most 100,000"):
        translate(words)


REFUSED = {
    "--no-such-thing 5": "fairseq's option --no-such-thing is not known here; ",
    "--max-token 5": "did you mean max_tokens",
    "--optimizer sgd": "--optimizer sgd cannot be had here; give adam",
    "--lr 1e-3,1e-4": "--lr 1e-3,1e-4 cannot be had here; give one number",
    "--lr-scheduler inverse_sqrt": "there are polynomial_decay and fixed",
    "--arch xlm": "there are roberta, roberta_base, roberta_large",
    "--criterion adaptive_loss": "masked_lm learns with masked_lm",
    "--mask-stdev 1.5": "task.options.unit=span masks runs of words",
    "--shorten-method truncate": "--sample-break-mode none cuts lines",
    "--shorten-method random_crop": "truncate cuts at the end",
    "--freq-weighted-replacement": "tokens are drawn evenly",
    "--best-checkpoint-metric accuracy": "add --maximize-best-checkpoint-metric",
    "--maximize-best-checkpoint-metric": "leave out --maximize-best-checkpoint-metric",
    "--valid-subset valid,valid1": "name one split",
    "--fp16 --bf16": "exclude each other",
    "--skip-invalid-size-inputs-valid-test": "nothing is skipped",
    "--dropout": "--dropout needs a value",
    "other-bin": "the data is data-bin already",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_had_is_refused_by_name(words: str) -> None:
    with pytest.raises((InputError, UnknownNameError)) as error:
        translate(shlex.split(f"fairseq-train data-bin --task masked_lm {words}"))
    assert REFUSED[words] in str(error.value)


def test_refusals_of_the_whole_command(tmp_path: Path) -> None:
    for words, said in {
        "--task masked_lm": "no folder of data",
        "data-bin": "--task translation cannot be had here",
        "data-bin --task sentence_prediction": "--init-token None cannot be had here; give 0",
        "": "--task is missing",
        "fairseq-train": "--task is missing",
        "fairseq-validate RTE-bin --path x.pt": "fairseq-validate is no trainer; `roberta-hub eva",
        "fairseq-preprocess --only-source": "no trainer; `roberta-hub preprocess` writes",
        "python fairseq_cli/preprocess.py --only-source": "`roberta-hub preprocess` writes",
        "CUDA_VISIBLE_DEVICES=0 python -m fairseq_cli.eval_lm d": "`roberta-hub score` says",
        "fairseq-hydra-train task.data=x": "needs --config-dir and --config-name",
        f"fairseq-hydra-train --config-dir {tmp_path} --config-name no": "no.yaml: no such file",
    }.items():
        with pytest.raises(InputError, match=re.escape(said)):
            translate(shlex.split(words))
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"bad\.yaml: "):
        translate(["--config-dir", str(tmp_path), "--config-name", "bad"])


def test_names_of_other_versions_and_slips(tmp_path: Path) -> None:
    for words, said in {
        "--truncate-sequence": "say --shorten-method truncate",
        "--max-sentence 4": "did you mean max_sentences",
        "--batchsize 4": "did you mean batch_size",
    }.items():
        with pytest.raises(UnknownNameError, match=re.escape(said)):
            translate(shlex.split(f"data-bin --task masked_lm {words}"))


def test_a_command_without_a_size_or_weights_is_answered_in_its_own_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data-bin").mkdir()
    with IndexedWriter(tmp_path / "data-bin/train", torch.uint16) as writer:
        writer.add(torch.tensor([4, 5, 2]), [3])
    Dictionary.roberta().save(tmp_path / "data-bin/dict.txt", with_mask=False)
    words = shlex.split("data-bin --task masked_lm --max-update 1 --optimizer adam --cpu")
    with pytest.raises(InputError, match=re.escape("--batch-size (--max-sentences) or --max-tok")):
        command(["--fairseq", *words])
    lost = [*words, "--batch-size", "1", "--restore-file", "/path/roberta/model.pt"]
    with pytest.raises(InputError, match=r"pretrained weights by .*--reset-optimizer.* model\.pt"):
        command(["--fairseq", *lost])
    named = ["batch.batch_size=1", "--fairseq", *words, "--restore-file", "/path/model.pt"]
    with pytest.raises(InputError, match=r"model=/path/model\.pt is no file"):
        command(named)


def test_every_setting_that_an_option_becomes_exists() -> None:
    from roberta_hub.train.config import _OPEN, fields

    known = {*fields()}
    named = {option.setting for option in OPTIONS.values() if option.setting} | {*DEFAULTS}
    for setting in named:
        assert setting in known or setting.startswith(_OPEN), setting


def test_the_page_has_the_table_of_the_record() -> None:
    """Anew: python -c 'from roberta_hub.train.fairseq_options import table; print(table())'."""
    page = (ROOT / "docs/reference/fairseq_options.md").read_text("utf-8")
    assert table() in page


@pytest.mark.system
def test_a_pasted_command_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_roberta(dropout=0.0).save(tmp_path / "start", "fairseq")
    tokenizer = load_model(tmp_path / "start").tokenizer
    words = tokenizer.words.nonzero().squeeze(1)[:6]
    for split in ("train", "valid"):
        (tmp_path / "data-bin").mkdir(exist_ok=True)
        with IndexedWriter(tmp_path / "data-bin" / split, torch.uint16) as writer:
            for _ in range(12):
                writer.add(torch.tensor([*words.tolist(), 2]), [7])
    tokenizer.dictionary.save(tmp_path / "data-bin/dict.txt", with_mask=False)
    own = ["loop.progress=false", "output=mine", "--fairseq"]
    theirs = (
        "fairseq-train data-bin --task masked_lm --criterion masked_lm --restore-file "
        "start/model.pt --reset-optimizer --sample-break-mode eos --tokens-per-sample 16 "
        "--batch-size 4 --optimizer adam --lr 1e-3 --max-update 3 --num-workers 2 --cpu --fp16"
    )
    assert command([*own, *shlex.split(theirs)]) == 0
    said = capsys.readouterr().err
    assert "without effect: --num-workers: batches are made" in said
    assert "the same as: train optimizer.lr=0.001" in said
    assert (tmp_path / "mine/last").is_dir()
    assert (tmp_path / "mine/valid.csv").is_file()  # the folder has the split, as fairseq judges
