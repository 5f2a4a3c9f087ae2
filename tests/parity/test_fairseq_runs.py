"""A run that real fairseq began goes on here, and one of ours there: the same losses.

Both read the data-bin in fairseq's order, hide the same tokens, and have no dropout.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from roberta_hub import load_model
from roberta_hub.formats.upgrade import is_stale
from roberta_hub.train import train
from roberta_hub.train.config import compose
from roberta_hub.train.fairseq_options import OPTIONS, as_overrides, translate
from roberta_hub.train.loop.fairseq_run import (
    optimizer_of_fairseq,
    parameters_of_fairseq,
    read_run,
)
from roberta_hub.train.loop.optimizer import make_optimizer

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
STILL = {"dropout": 0.0, "attention_dropout": 0.0}
TASKS = {
    "masked_lm": [
        "task.name=masked_lm",
        "task.options.sentences=complete",
        "task.options.unit=fairseq",
        "task.options.block_size=64",
    ],
    "sentence_prediction": ["task.name=classification"],
}


@pytest.fixture(scope="module", params=TASKS)
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven updates of real fairseq, into the second epoch of masked_lm."""
    task = request.param
    return peers.train(tmp_path_factory.mktemp("runs") / task, task, updates=7, **STILL)


def settings(data: Path, output: Path, *more: str) -> list[str]:
    """The settings of `peers.train`, in our words."""
    return [
        *TASKS[data.name],
        f"data.train={data}",
        f"output={output}",
        "batch.order=fairseq",
        "batch.batch_size=4",
        "batch.max_tokens=null",
        "optimizer.lr=1e-3",
        "optimizer.warmup_updates=1",
        "optimizer.total_updates=100",
        "optimizer.weight_decay=0",
        "optimizer.decay=fairseq",
        "architecture={dropout: 0.0, attention_dropout: 0.0}",
        "loop.max_epochs=null",
        "loop.log_every=1",
        "loop.evaluate_every=0",
        "loop.progress=false",
        *more,
    ]


def losses(output: Path) -> list[float]:
    """Of each update, in fairseq's bits."""
    with open(output / "log.csv", newline="") as file:
        return [float(row["loss"]) / math.log(2) for row in csv.DictReader(file)]


def assert_alike(ours: Sequence[float], theirs: Sequence[float]) -> None:
    assert len(ours) == len(theirs) == 10
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert len({round(loss, 3) for loss in ours}) > 5  # it learns, batch after batch


def test_a_run_of_fairseqs_goes_on_here(begun: Path, tmp_path: Path) -> None:
    file = begun / "checkpoint_last.pt"
    theirs = peers.continue_training(file, begun, begun.name, updates=17, reset=False, **STILL)
    own = [f"model={file}", "restore=true", "loop.max_updates=17"]
    train(compose(settings(begun, tmp_path / "run", *own)))
    assert_alike(losses(tmp_path / "run"), theirs)
    fresh = [f"model={file}", "loop.max_updates=10"]  # the weights alone, and the first batches
    train(compose(settings(begun, tmp_path / "fresh", *fresh)))
    assert losses(tmp_path / "fresh") != pytest.approx(theirs, abs=1e-2)


def test_a_run_of_ours_goes_on_there_and_here(begun: Path, tmp_path: Path) -> None:
    """Begun here from random weights, in the vocabulary of the folder of data."""
    sizes = "embed_dim: 32, ffn_dim: 64, num_layers: 2, num_heads: 4, max_positions: 64"
    still = f"architecture={{{sizes}, dropout: 0.0, attention_dropout: 0.0}}"
    own = [*settings(begun, tmp_path / "run"), "model=roberta.base", "pretrained=false", still]
    train(compose([*own, "loop.max_updates=7"]))
    assert shell(["convert", f"{tmp_path}/run", f"{tmp_path}/out", "--to=fairseq", "--optimizer"])
    assert not (tmp_path / "out/model.pt").exists()
    file = tmp_path / "out/checkpoint_last.pt"
    theirs = peers.continue_training(
        file, begun, begun.name, updates=17, reset=False, stock=True, **STILL
    )
    train(compose([*own, "loop.max_updates=17"]))
    assert_alike(losses(tmp_path / "run")[7:], theirs)


def shell(words: list[str]) -> bool:
    command = [sys.executable, "-m", "roberta_hub", *words]
    return subprocess.run(command, check=True, timeout=120).returncode == 0


@pytest.mark.parametrize("arch", ["roberta_base", "roberta_prenorm"])
@pytest.mark.parametrize("untied", [False, True])
def test_the_order_of_the_parameters_is_fairseqs(tmp_path: Path, arch: str, untied: bool) -> None:
    peers.dictionary(tmp_path, 60)
    theirs = peers.fairseq_model(
        tmp_path, arch, heads={"mine": 3}, untie_weights_roberta=untied or None
    )
    peers.save_era(theirs, tmp_path / "model", "plain")
    ours = load_model(tmp_path / "model")
    wanted = {name: tensor.shape for name, tensor in theirs.model.named_parameters()}
    found = parameters_of_fairseq(ours.model, ["mine"])
    assert list(found.items()) == list(wanted.items())


def test_moments_of_fp16_in_one_piece(tmp_path: Path) -> None:
    """As FP16Optimizer keeps them, by fairseq's own Adam: that class itself wants a GPU."""
    peers.dictionary(tmp_path, 60)
    peer = peers.fairseq_model(tmp_path)
    from fairseq import optim

    model = peer.model
    parameters = [p for p in model.parameters() if p.requires_grad]
    sizes = [p.numel() for p in parameters]
    flat = torch.nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
    optimizer = optim.build_optimizer(peer.cfg.optimizer, [flat])
    flat.grad = torch.randn(flat.shape, generator=torch.Generator().manual_seed(1))
    optimizer.step()
    content = {"model": model.half().state_dict(), "optimizer_history": [{"num_updates": 1}]}
    state = {**optimizer.state_dict(), "loss_scale": 128.0}
    torch.save({**content, "last_optimizer_state": state, "extra_state": {}}, tmp_path / "last.pt")
    run = read_run(tmp_path / "last.pt")
    assert (run.updates, run.epoch, run.batches, run.loss_scale) == (1, 0, 0, 128.0)
    pieces = dict(
        zip([n for n, _ in model.named_parameters()], torch.split(flat.grad, sizes), strict=True)
    )
    for name, parameter in model.named_parameters():
        wanted = 0.1 * pieces[name].view(parameter.shape)
        assert torch.allclose(run.moments[name]["exp_avg"], wanted, atol=1e-7), name
    peers.save_era(peers.fairseq_model(tmp_path), tmp_path / "model", "plain")
    module = torch.nn.Module()
    module.roberta = load_model(tmp_path / "model").model
    ours = make_optimizer(module, lr=1e-3, decay="fairseq")
    own = run.optimizer_state(module, ours.state_dict())
    back = optimizer_of_fairseq(module, own, [], loss_scale=run.loss_scale)
    again = torch.split(back["state"][0]["exp_avg"], sizes)
    for piece, (name, parameter) in zip(again, model.named_parameters(), strict=True):
        if is_stale(name):
            assert not piece.any()
        else:
            assert torch.equal(piece.view(parameter.shape), run.moments[name]["exp_avg"]), name
    optimizer.load_state_dict({key: back[key] for key in ("state", "param_groups")})


def test_the_same_command_goes_on_in_both(begun: Path, tmp_path: Path) -> None:
    """The words of fairseq-train, after `roberta-hub train --fairseq`."""
    file = begun / "checkpoint_last.pt"
    more = {"restore_file": file, "save_dir": tmp_path / "theirs", **STILL}
    words = peers.training_words(begun, tmp_path / "theirs", begun.name, 17, **more)
    theirs = peers.continue_training(file, begun, begun.name, updates=17, reset=False, **STILL)
    ours = [f"output={tmp_path}/run", "loop.log_every=1", "loop.progress=false", "--fairseq"]
    assert shell(["train", *ours, "fairseq-train", *words])
    assert_alike(losses(tmp_path / "run"), theirs)


def test_every_recipe_of_fairseqs_is_translated() -> None:
    """The yaml files in its package, and the options of the commands in its READMEs."""
    examples = Path(str(peers.real_fairseq().__file__)).parent / "examples/roberta"
    files = sorted((examples / "config").glob("*/*.yaml"))
    assert len(files) == 9
    for file in files:
        words = ["--config-dir", str(file.parent), "--config-name", file.stem, "task.data=x"]
        if file.parent.name == "finetuning":
            words.append("checkpoint.restore_file=model.pt")
        settings, _ = translate(words)
        config = compose(as_overrides(settings))
        recipe = "pretrain=base" if file.stem == "base" else f"finetune={file.stem}"
        ours = compose([recipe, "data.train=x.txt"])
        for name in ("weight_decay", "betas", "eps", "clip_norm", "schedule", "decay", "lr"):
            assert getattr(config.optimizer, name) == getattr(ours.optimizer, name), (file, name)
        assert config.optimizer.warmup_updates == ours.optimizer.warmup_updates
        assert config.loop.max_updates == ours.loop.max_updates
        assert config.task.name == ours.task.name
        if file.stem != "base":  # ours counts the tokens of 128 times 16 blocks
            assert config.batch.batch_size == ours.batch.batch_size
            assert config.batch.max_tokens == ours.batch.max_tokens
    commands = [
        block
        for page in examples.glob("**/README*.md")
        for block in re.findall(r"```bash\n(.*?)```", page.read_text("utf-8"), re.S)
        if "fairseq-train" in block
    ]
    assert len(commands) >= 5
    for block in commands:
        told = block[block.index("fairseq-train") :]
        for flag in re.findall(r"(?<=\s)--([a-z0-9-]+)", told):
            assert flag.replace("-", "_") in OPTIONS, (flag, block)


def test_the_type_of_an_option_is_fairseqs() -> None:
    """By its own parsers; those of wsc, which register themselves, are not imported."""
    peers.real_fairseq()
    from fairseq import options
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models.roberta import RobertaModel
    from fairseq.optim.adam import FairseqAdam
    from fairseq.optim.lr_scheduler.polynomial_decay_schedule import PolynomialDecayLRSchedule
    from fairseq.tasks import TASK_REGISTRY

    names = ("masked_lm", "sentence_prediction", "sentence_ranking")
    own = [registry[name] for registry in (TASK_REGISTRY, CRITERION_REGISTRY) for name in names]
    parsers = [options.get_training_parser()]
    for kind in (RobertaModel, FairseqAdam, PolynomialDecayLRSchedule, *own):
        parsers.append(argparse.ArgumentParser(conflict_handler="resolve"))
        kind.add_args(parsers[-1])
    actions = {flag: a for parser in parsers for a in parser._actions for flag in a.option_strings}
    checked = 0
    for name, option in OPTIONS.items():
        action = actions.get(f"--{name.replace('_', '-')}")
        if action is None or option.becomes.startswith("without effect") or callable_list(action):
            continue
        wanted = bool if action.nargs == 0 else action.type or str
        if name == "total_num_update":  # an interpolation, whose type its parser does not know
            wanted = int
        assert option.kind is wanted, name
        checked += 1
    assert checked > 60


def callable_list(action: argparse.Action) -> bool:
    """Whether it reads a list of numbers, as --lr does."""
    return getattr(action.type, "__name__", "") == "<lambda>"


def test_what_is_not_given_is_as_in_fairseq(tmp_path: Path) -> None:
    peers.dictionary(tmp_path, 60)
    peers.real_fairseq()
    from fairseq import options

    words = [str(tmp_path), "--task", "masked_lm", "--criterion", "masked_lm"]
    words += ["--arch", "roberta_base", "--optimizer", "adam"]
    theirs = options.parse_args_and_arch(options.get_training_parser(), words)
    settings, _ = translate(words)
    assert [settings["optimizer.lr"]] == theirs.lr
    assert tuple(settings["optimizer.betas"]) == theirs.adam_betas or str(
        tuple(settings["optimizer.betas"])
    ) == str(theirs.adam_betas)
    for setting, option in {
        "optimizer.eps": "adam_eps",
        "optimizer.weight_decay": "weight_decay",
        "optimizer.clip_norm": "clip_norm",
        "optimizer.warmup_updates": "warmup_updates",
        "optimizer.schedule": "lr_scheduler",
        "batch.batch_size": "batch_size",
        "batch.max_tokens": "max_tokens",
        "batch.multiple": "required_batch_size_multiple",
        "loop.log_every": "log_interval",
        "output": "save_dir",
        "seed": "seed",
        "task.options.sentences": "sample_break_mode",
        "task.options.block_size": "tokens_per_sample",
    }.items():
        assert settings[setting] == getattr(theirs, option), setting
