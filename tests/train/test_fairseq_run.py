"""Runs carried to fairseq's checkpoint and back; what cannot be carried is refused."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import load_model
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.train import train
from roberta_hub.train.config import compose
from roberta_hub.train.data.fairseq_batches import plan_as_fairseq
from roberta_hub.train.loop.fairseq_run import read_run
from roberta_hub.train.to_fairseq import write_run

TEXT = "".join(f"Line {i} of a text, {'long ' * (i % 5)}and short.\n" for i in range(40))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    small_roberta(dropout=0.0).save(tmp_path / "model")
    (tmp_path / "text.txt").write_text(TEXT)
    rows = "".join(f"{'Good' if i % 2 else 'Bad'} film {i}\t{i % 2}\n" for i in range(20))
    (tmp_path / "table.tsv").write_text("sentence\tlabel\n" + rows)
    return tmp_path


TASKS = {
    "masked_lm": ["task.name=masked_lm", "data.train=text.txt", "task.options.unit=fairseq"],
    "classification": ["task.name=classification", "data.train=table.tsv"],
}


def settings(place: Path, output: str, task: str, *more: str) -> list[str]:
    return [
        *(own.replace("data.train=", f"data.train={place}/") for own in TASKS[task]),
        f"output={place / output}",
        "batch.order=fairseq",
        "batch.batch_size=4",
        "batch.max_tokens=null",
        "optimizer.lr=1e-3",
        "optimizer.warmup_updates=2",
        "optimizer.total_updates=20",
        "loop.max_updates=20",
        "loop.max_epochs=null",
        "loop.log_every=1",
        "loop.progress=false",
        *more,
    ]


def losses(output: Path) -> list[float]:
    with open(output / "log.csv", newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


@pytest.mark.system
@pytest.mark.parametrize("task", TASKS)
def test_there_and_back(place: Path, task: str) -> None:
    """The losses go on as in a run that nobody carried away."""
    model = f"model={place}/model"
    train(compose(settings(place, "whole", task, model, "loop.max_updates=12")))
    train(compose(settings(place, "first", task, model, "loop.max_updates=7")))
    write_run(place / "first", place / "there")
    assert sorted(path.name for path in (place / "there").iterdir()) == [
        "checkpoint_last.pt",
        "dict.txt",
    ]
    again = [f"model={place}/there/checkpoint_last.pt", "restore=true", "loop.max_updates=12"]
    train(compose(settings(place, "again", task, *again)))
    assert losses(place / "again") == losses(place / "whole")[7:]
    # Started once more it goes on from its own state, not from fairseq's.
    more = [*again[:2], "loop.max_updates=13"]
    train(compose(settings(place, "again", task, *more)))
    assert len(losses(place / "again")) == 6


def optimizer_of(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["last_optimizer_state"]
    return found


def moments(content: dict[str, Any], **changed: object) -> None:
    optimizer_of(content)["state"][0].update(changed)


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "it has no optimizer": lambda c: c.pop("last_optimizer_state"),
    "its num_updates is -1": lambda c: c["optimizer_history"][-1].update(num_updates=-1),
    "its num_updates is None": lambda c: c.update(optimizer_history=[]),
    "its epoch is True": lambda c: c["extra_state"]["train_iterator"].update(epoch=True),
    "its iterations_in_epoch is 9007199254740992": lambda c: c["extra_state"][
        "train_iterator"
    ].update(iterations_in_epoch=2**53),
    "in one group of parameters": lambda c: optimizer_of(c).update(param_groups=[{}, {}]),
    "not Adam's state in one": lambda c: optimizer_of(c).update(state={}),
    "no exp_avg and exp_avg_sq": lambda c: moments(c, exp_avg=None),
    "of one shape": lambda c: moments(c, exp_avg=torch.zeros(3)),
    "claims more elements than are stored": lambda c: moments(
        c,
        exp_avg=torch.zeros(1).expand(2**40),
        exp_avg_sq=torch.zeros(1).expand(2**40),
    ),
    "its step is nan": lambda c: moments(c, step=torch.tensor(float("nan"))),
    "an optimizer of 5 parameters": lambda c: optimizer_of(c)["param_groups"][0].update(
        params=list(range(5))
    ),
    "moments of 3 numbers": lambda c: optimizer_of(c).update(
        param_groups=[{"params": [0]}],
        state={0: {"step": 1, "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}},
    ),
    "it has no moments of encoder": lambda c: optimizer_of(c)["state"].pop(0),
    "moments of roberta.encoder": lambda c: moments(
        c, exp_avg=torch.zeros(3), exp_avg_sq=torch.zeros(3)
    ),
}


@pytest.mark.system
def test_a_file_that_lies_is_refused(place: Path) -> None:
    own = settings(place, "run", "masked_lm", f"model={place}/model", "loop.max_updates=1")
    train(compose(own))
    write_run(place / "run", place / "there")
    file = place / "there/checkpoint_last.pt"
    good = torch.load(file, weights_only=True)
    for number, (said, damage) in enumerate(DAMAGE.items()):
        content = torch.load(file, weights_only=True)
        damage(content)
        torch.save(content, file)
        more = [f"model={file}", "restore=true"]
        with pytest.raises(CheckpointError) as error:
            train(compose(settings(place, f"run{number}", "masked_lm", *more)))
        assert said in str(error.value), (said, str(error.value))
        assert "leave restore=true out" in str(error.value) or "than are stored" in said
        torch.save(good, file)
    assert read_run(file).updates == 1


@pytest.mark.system
def test_what_cannot_be_carried_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="no run with a state"):
        write_run(place / "nothing", place / "there")
    with pytest.raises(InputError, match=r"is no file; give model=RUN/checkpoint_last\.pt"):
        more = [f"model={place}/model", "restore=true"]
        train(compose(settings(place, "run", "masked_lm", *more)))
    own = [f"model={place}/model", "loop.max_updates=1", "batch.order=random"]
    train(compose([*settings(place, "multi", "classification", *own), "task.name=multi_label"]))
    with pytest.raises(InputError, match="fairseq has no task 'multi_label'"):
        write_run(place / "multi", place / "there")
    assert not (place / "there").exists()
    for name, how in (
        ("span_boundary", "unit: span"),
        ("sentence_order", "sentences: segment_pair"),
    ):
        objective = f"task.options={{{how}, objectives: [{name}]}}"
        train(compose([*settings(place, name, "masked_lm", *own), objective]))
        with pytest.raises(InputError, match=f"learns words alone, and this run {name} too"):
            write_run(place / name, place / "there")
    assert not (place / "there").exists()
    with pytest.raises(InputError, match=r"batch\.order=fairseq is for masked_lm, classification"):
        train(compose([*settings(place, "run", "masked_lm"), "task.name=tokens"]))


@pytest.mark.system
def test_a_run_without_fairseqs_fields_goes_on(place: Path) -> None:
    """A state of a version before `batch.order` and `batch.multiple`."""
    own = [f"model={place}/model", "batch.order=random"]
    train(compose(settings(place, "run", "masked_lm", *own, "loop.max_updates=2")))
    path = next((place / "run").glob("state-*")) / "run.pt"
    content = torch.load(path, weights_only=True)
    for name in ("batch.order", "batch.multiple"):
        del content["identity"][name]
    torch.save(content, path)
    train(compose(settings(place, "run", "masked_lm", *own, "loop.max_updates=3")))
    assert len(losses(place / "run")) == 3


def test_a_plan_leaves_out_what_has_no_tokens() -> None:
    plan = plan_as_fairseq([3, 0, 3, 3], None, seed=1, epoch=0, batch_size=2)
    assert sorted(i for update in plan for micro in update for i in micro) == [0, 2, 3]
    assert len(plan) == 2
    with pytest.raises(InputError, match="no training examples"):
        plan_as_fairseq([0], None, seed=1, epoch=0, batch_size=2)
    with pytest.raises(InputError, match="neither max_tokens nor batch_size"):
        plan_as_fairseq([3], None, seed=1, epoch=0)
    with pytest.raises(InputError, match=r"has 9 tokens, over batch\.max_tokens 8"):
        plan_as_fairseq([3, 9], 8, seed=1, epoch=0)


@pytest.mark.system
def test_a_vocabulary_of_the_data_begins_a_model(place: Path) -> None:
    """`pretrained=false` with a folder of fairseq's: as many embeddings as its dict.txt says."""
    from roberta_hub.train.data.indexed_files import IndexedWriter
    from roberta_hub.train.run import make_model

    with IndexedWriter(place / "train", torch.uint16) as writer:
        writer.add(torch.tensor([4, 5, 2]), [3])
    (place / "dict.txt").write_text("13 9\n262 8\nmadeupword0000 0\nmadeupword0001 0\n")
    own = ["task.name=masked_lm", f"data.train={place}", "model=roberta.base", "pretrained=false"]
    sizes = "architecture={embed_dim: 32, ffn_dim: 64, num_layers: 1, num_heads: 4}"
    made = make_model(compose([*own, sizes, "loop.max_updates=1"]))
    assert made.model.encoder.sentence_encoder.embed_tokens.num_embeddings == 9
    assert made.task.source_dictionary.symbols[4:6] == ["13", "262"]
    made.save(place / "saved")
    assert load_model(place / "saved").task.source_dictionary.symbols[-1] == "<mask>"
