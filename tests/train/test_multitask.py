"""A task learnt with rehearsal: the head is as good, and the language model is not forgotten."""

import random

import pytest
import torch
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.train.config import Config, DataConfig, TaskConfig, compose
from roberta_hub.train.run import make_task, run
from roberta_hub.train.tasks.build import build_task
from roberta_hub.train.tasks.multitask import MultitaskBatch

pytestmark = pytest.mark.system
ANIMALS = {" cat": " white", " dog": " black", " cow": " brown", " bird": " green"}
"""One token each."""


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A language model that knows the colours of animals, its text, and labelled sentences.

    The sentences have other words.
    """
    folder = tmp_path_factory.mktemp("rehearsal")
    draw = random.Random(0)
    lines = [f"The{a} is{ANIMALS[a]} now." for a in draw.choices(sorted(ANIMALS), k=400)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    rows = [(draw.choice(["one", "two", "three", "four"]), draw.choice("xyz")) for _ in range(200)]
    body = "".join(f"It is {c} {n}.\t{'warm' if c == 'one' else 'cold'}\n" for c, n in rows)
    (folder / "x.tsv").write_text("sentence\tlabel\n" + body)
    small_roberta(num_layers=2, dropout=0.0).save(folder / "start")
    settings = [
        "pretrain=base",
        f"model={folder}/start",
        "pretrained=true",
        f"data.train={folder}/text.txt",
        f"output={folder}/lm",
        "batch.max_tokens=512",
        "batch.update_freq=1",
        "optimizer.lr=1e-2",
        "optimizer.warmup_updates=5",
        "optimizer.total_updates=null",
        "optimizer.clip_norm=1.0",
        "loop.max_updates=80",
        "loop.evaluate_every=0",
        "loop.precision=no",
        "loop.progress=false",
    ]
    run(compose(settings))
    return folder


def settings(folder, output, *more):
    return [
        "finetune=sst_2",
        f"model={folder}/lm/last",
        f"data.train={folder}/x.tsv",
        f"data.valid={folder}/x.tsv",
        "data.format=tsv",
        f"output={output}",
        "optimizer.lr=1e-2",
        "optimizer.warmup_updates=5",
        "optimizer.total_updates=null",
        "optimizer.clip_norm=1.0",
        "loop.max_updates=60",
        "loop.max_epochs=null",
        "loop.evaluate_every=60",
        "loop.progress=false",
        *more,
    ]


def forgotten(material, folder):
    """The masked LM's loss on its own text."""
    tokens = f"{material}/lm/tokens/train"
    config = Config(
        output=str(folder),
        data=DataConfig(train=tokens, valid=tokens),
        task=TaskConfig(name="masked_lm"),
    )
    return build_task(config, roberta_hub.load_model(folder)).evaluate()["loss"]


def test_the_language_model_is_kept(material, tmp_path):
    losses = {"before": forgotten(material, material / "lm/last")}
    for name, options in (
        ("plain", "{truncate: true}"),
        ("rehearsed", f"{{truncate: true, rehearse: {material}/lm/tokens/train}}"),
    ):
        more = [f"task.options={options}"]
        report = run(compose(settings(material, tmp_path / name, *more)))
        assert report.metrics["accuracy"] > 0.95
        losses[name] = forgotten(material, tmp_path / name / "last")
    assert losses["rehearsed"] < losses["before"] + 0.1, losses
    assert losses["plain"] > losses["before"] + 0.5, losses


def test_batches_depend_on_seed_epoch_and_examples_alone(material, tmp_path):
    more = [f"task.options={{rehearse: {material}/text.txt}}"]
    task = make_task(compose(settings(material, tmp_path, *more)))
    first, again = task.batch([3, 1, 2], 0), task.batch([3, 1, 2], 0)
    other = task.batch([1, 2, 3], 0)
    assert isinstance(first, MultitaskBatch)
    assert torch.equal(first.side_batches[0].packed.ids, again.side_batches[0].packed.ids)
    assert not torch.equal(
        first.side_batches[0].packed.ids[:20], other.side_batches[0].packed.ids[:20]
    )
    share = len(first.side_batches[0].packed.ids) / len(first.packed.ids)
    assert 0.3 < share < 4  # a block is about as long as three sentences
    more = [f"task.options={{rehearse: {material}/text.txt, rehearse_share: 20}}"]
    task = make_task(compose(settings(material, tmp_path / "share", *more)))
    batch = task.batch([3, 1, 2], 0)
    assert 15 < len(batch.side_batches[0].packed.ids) / len(batch.packed.ids) < 25
    with pytest.raises(InputError, match="rehearse_share is -1"):
        make_task(
            compose([*settings(material, tmp_path / "x", *more), "task.options.rehearse_share=-1"])
        )


def test_the_loss_is_the_tasks_and_the_weighted_lms(material, tmp_path):
    totals = {}
    for weight in (0.0, 0.5, 1.0):
        more = [f"task.options={{rehearse: {material}/text.txt, rehearse_weight: {weight}}}"]
        task = make_task(compose(settings(material, tmp_path / str(weight), *more)))
        task.module.eval()
        totals[weight] = float(task.module(task.batch([0, 1, 2, 3], 0)).total.detach())
    assert totals[1.0] - totals[0.5] == pytest.approx(totals[0.5] - totals[0.0], rel=1e-4)
    assert totals[1.0] > totals[0.0]


def beside(material, output, entries):
    return [*settings(material, output), f"task.options={{beside: {entries}}}"]


def test_several_tasks_are_told_apart_in_the_log(material, tmp_path):
    text = f"name: masked_lm, train: {material}/text.txt, options: {{block_size: 32}}"
    labels = f"name: multi_label, train: {material}/x.tsv, format: tsv, head: many"
    entries = f"[{{{text}}}, {{{text}, share: 0.5}}, {{{labels}, weight: 0.3}}]"
    task = make_task(compose(beside(material, tmp_path, entries)))
    task.module.eval()
    batch = task.batch([0, 1, 2, 3], 0)
    loss = task.module(batch)
    first, second, third = (
        float(loss.logs[f"{name}_loss"]) for name in ("masked_lm_1", "masked_lm_2", "multi_label")
    )
    alone = float(task._task.module(batch).total)
    total = float(loss.total.detach())
    assert total == pytest.approx(alone + first + second + 0.3 * third, rel=1e-5)
    assert "many" in task.finish().model.classification_heads


def test_a_side_task_learns_probabilities_in_the_order_of_its_own_labels(material, tmp_path):
    path = tmp_path / "seen.tsv"
    path.write_text("sentence\tlabel\tp\n" + "The cat.\tno\t0.25 0.75\n" * 8)
    columns = "columns: {sentence: sentence, label: label, probabilities: p}"
    entry = f"{{name: classification, head: seen, train: {path}, {columns}, labels: [yes, no]}}"
    task = make_task(compose(beside(material, tmp_path / "run", f"[{entry}]")))
    task.module.eval()
    batch = task.batch([0, 1, 2, 3], 0)
    (side,) = batch.side_batches
    assert side.targets["labels"].unique(dim=0).tolist() == [[0.25, 0.75]]
    assert float(task.module(batch).logs["classification_loss"]) > 0.5  # the entropy is 0.56
    assert task.finish().head_labels("seen") == ("yes", "no")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("[{train: x}]", "a task in task.options.beside has no name"),
        ("[{name: masked_lm}]", "a task in task.options.beside has no train"),
        ("[masked_lm]", r"task\.options\.beside is a list of \{name: \.\.\., train: \.\.\.\}"),
        ("[{name: masked_lm, train: x, weigth: 1}]", "no option task.options.beside.weigth; did"),
        ("[{name: masked_lm, train: x, share: -1}]", "share of masked_lm .* is -1, must be at"),
        ("[{name: masked_ml, train: x}]", "task.name is 'masked_ml'; did you mean"),
        ("{name: masked_lm, train: x}", "task.options.beside is .*must be list"),
        ("[{name: masked_lm, train: nothing.txt}]", "nothing.txt"),
    ],
)
def test_entries_that_cannot_be(material, tmp_path, entries, words):
    with pytest.raises(roberta_hub.RobertaHubError, match=words):
        make_task(compose(beside(material, tmp_path, entries)))


def test_the_head_of_the_runs_own_task_stays_the_models_own(material, tmp_path):
    path = tmp_path / "other.tsv"
    path.write_text("sentence\tlabel\n" + "The cat.\tx\nThe dog.\ty\nThe cow.\tz\n" * 4)
    entry = f"{{name: classification, train: {path}, head: other}}"
    roberta = make_task(compose(beside(material, tmp_path / "run", f"[{entry}]"))).finish()
    assert roberta.default_head == "sst_2"
    assert roberta.head_labels("other") == ("x", "y", "z")
    assert roberta.eval().classify("It is two x.").label in ("warm", "cold")


@pytest.mark.filterwarnings("ignore:re-registering", "ignore:.*it starts from scratch")
@pytest.mark.parametrize("labels", ["xyz", "xy"])
def test_two_tasks_with_one_head_and_other_labels(material, tmp_path, labels):
    path = tmp_path / "other.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f"The cat {n}.\t{n}\n" for n in labels) * 4)
    head = "sst_2"
    entry = f"{{name: classification, train: {path}, head: {head}}}"
    with pytest.raises(InputError, match="would learn in the head 'sst_2'"):
        make_task(compose(beside(material, tmp_path / "run", f"[{entry}]")))
