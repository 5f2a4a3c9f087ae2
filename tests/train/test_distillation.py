"""A model learns another one's hidden states, of the same text in other pieces."""

from pathlib import Path

import pytest
import torch
from families import write_family
from small_models import small_roberta
from torch.testing import assert_close

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.inference.mode import evaluating
from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task, run
from roberta_hub.train.tasks.distillation import DistillationBatch, Distilled

TEXT = (
    "The train from Hamburg was late, so we had 2 cups of coffee.\n"
    "Nobody knew why the dog barked at the old letter box.\n"
    "\n"
    "Unbelievable: naïve CAFÉS in 東京 sold 12,500 crêpes 👍🏽 — déjà vu!\n"
    "It was raining when they walked home over the bridge.\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student, a BERT of the same width that may teach it, and text."""
    place = tmp_path_factory.mktemp("teacher")
    (place / "text.txt").write_text(TEXT * 6, encoding="utf-8")
    write_family("bert", place / "bert")
    sizes = {"embed_dim": 32, "ffn_dim": 48, "num_layers": 2, "max_positions": 64, "dropout": 0.0}
    small_roberta(seed=1, attention_dropout=0.0, **sizes).save(place / "student")
    return place


def settings(folder: Path, output: Path, teacher: str, *more: str) -> list[str]:
    return [
        "pretrain=base",
        f"model={folder}/student",
        "pretrained=true",
        f"data.train={folder}/text.txt",
        f"output={output}",
        f"task.options={{block_size: 48, teacher: '{folder / teacher}', teacher_weight: 2.0}}",
        "batch.max_tokens=256",
        "batch.update_freq=1",
        "optimizer.lr=3e-3",
        "optimizer.warmup_updates=3",
        "optimizer.total_updates=null",
        "loop.max_updates=40",
        "loop.evaluate_every=0",
        "loop.precision=no",
        "loop.progress=false",
        *more,
    ]


def test_pieces_that_share_letters_belong_together(folder, tmp_path):
    task = make_task(compose(settings(folder, tmp_path, "bert")))
    batch = task.batch([0, 1, 2, 3], 0)
    assert isinstance(batch, DistillationBatch)
    teacher = task.teacher.interface.tokenizer
    student = task.interface.tokenizer
    seen = 0
    for number, ids in enumerate(task._shards[0].sequences([0, 1, 2, 3])):
        row, lesson = sum(batch.packed.lengths[:number]), sum(batch.teacher_input.lengths[:number])
        lines = [student.decode(part) for part in split(ids[1:].tolist(), student.eos)]
        text = " ".join(lines)
        # Where each token lies, found again from the text of the lines alone.
        places, start = {}, 0
        at = 1
        for line, part in zip(lines, split(ids[1:].tolist(), student.eos), strict=True):
            spans = student.offsets(line)
            assert len(spans) == len(part)
            for (a, b), offset in zip(spans, range(len(part)), strict=True):
                a += len(line[a:b]) - len(line[a:b].lstrip())
                places[row + at + offset] = (start + a, start + b)
            start, at = start + len(line) + 1, at + len(part) + 1
        spans = teacher.offsets(text)
        wanted = {
            (token, lesson + 1 + n)
            for token, (a, b) in places.items()
            for n, (c, d) in enumerate(spans)
            if max(a, c) < min(b, d)
        }
        taught, pieces = batch.targets["aligned"], batch.targets["pieces"]
        found = {(int(taught[i]), int(r)) for i, r in pieces.t().tolist()}
        end = row + len(ids)
        own = {pair for pair in found if row <= pair[0] < end}
        assert own == wanted
        seen += len(own)
    assert seen == batch.targets["pieces"].size(1) > 100


def split(ids: list[int], eos: int) -> list[list[int]]:
    """The lines of a block; a separator between documents is an empty one."""
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == eos:
            lines.append([])
        else:
            lines[-1].append(token)
    return lines


def test_a_teacher_with_the_same_pieces_gives_its_states(folder, tmp_path):
    task = make_task(compose(settings(folder, tmp_path, "student")))
    batch = task.batch([0], 0)
    (ids,) = task._shards[0].sequences([0])
    lines = split(ids[1:].tolist(), task.interface.tokenizer.eos)
    text = " ".join(task.interface.tokenizer.decode(line) for line in lines)
    states = task.teacher.states(batch)
    (theirs,) = roberta_hub.load_model(folder / "student").features([text.rstrip()])
    place, row = batch.targets["pieces"]
    alone = torch.bincount(place).eq(1)  # parts of one character have each other's states too
    assert alone.sum() > 20
    assert_close(states[alone], theirs[row[alone[place]]], atol=1e-5, rtol=1e-5)


def test_the_error_is_relative_and_weighted(folder, tmp_path):
    task = make_task(compose(settings(folder, tmp_path, "bert")))
    batch = task.batch([0, 1], 0)
    module = task.module
    assert isinstance(module, Distilled)
    loss = module(batch)
    with torch.no_grad(), evaluating(module):
        wanted = task.teacher.states(batch)
        states = module.roberta.features(batch.packed)[batch.targets["aligned"]]
        error = (states - wanted).square().sum() / wanted.square().sum()
        words = module(batch).total  # evaluation: the masked LM alone
    assert_close(loss.logs["state_error"] / batch.count, error)
    assert_close(loss.total.detach(), words + 2.0 * batch.count * error, rtol=1e-4, atol=1e-4)


@pytest.mark.system
def test_the_states_are_learnt_and_the_teacher_stays(folder, tmp_path):
    before = (folder / "bert" / "model.safetensors").read_bytes()
    report = run(compose(settings(folder, tmp_path / "run", "bert", "loop.log_every=1")))
    rows = (tmp_path / "run" / "log.csv").read_text().splitlines()
    column = rows[0].split(",").index("state_error")
    errors = [float(row.split(",")[column]) for row in rows[1:]]
    assert errors[-1] < 0.6 * errors[0]
    assert report.update == 40
    assert (folder / "bert" / "model.safetensors").read_bytes() == before
    trained = roberta_hub.load_model(tmp_path / "run" / "last")
    start = roberta_hub.load_model(folder / "student")
    assert trained.model.state_dict().keys() == start.model.state_dict().keys()


@pytest.mark.system
def test_a_run_goes_on_exactly(folder, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(compose(settings(folder, whole, "bert", "loop.max_updates=6", "optimizer.total_updates=6")))
    for updates in (3, 6):
        run(
            compose(
                [
                    *settings(folder, parts, "bert", "optimizer.total_updates=6"),
                    f"loop.max_updates={updates}",
                ]
            )
        )
    a, b = (roberta_hub.load_model(p / "last").model.state_dict() for p in (whole, parts))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_teachers_that_cannot_be(folder, tmp_path):
    write_family("bert", tmp_path / "wide", hidden_size=40)
    with pytest.raises(InputError, match="teacher's hidden states have 40 dimensions, the model's"):
        make_task(compose(settings(folder, tmp_path, str(tmp_path / "wide"))))
    more = ["task.name=replaced_tokens", "task.metric=null"]
    with pytest.raises(InputError, match=r"goes with task\.name=masked_lm"):
        make_task(compose(settings(folder, tmp_path, "bert", *more)))
    with pytest.raises(roberta_hub.RobertaHubError, match="nothing_here"):
        make_task(compose(settings(folder, tmp_path, "nothing_here")))
