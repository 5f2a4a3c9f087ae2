"""task.name=sentences: vectors that are learnt, measured, saved, and taken from another model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from families import SENTENCES, write_family
from learning import ANIMALS, both, learn, tsv, two
from safetensors.torch import load_file
from small_models import assert_close

import roberta_hub
from roberta_hub import SentenceSettings
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.settings import SentenceLayer
from roberta_hub.train.config import compose
from roberta_hub.train.run import make_task, result, run
from roberta_hub.train.tasks.training_task import TrainingTask

MOODS = {"glad": "happy", "sad": "unhappy", "hungry": "eager for food", "old": "of great age"}


def pair(draw: Random) -> list[str]:
    """What is said of an animal, said in other words, and what is said of another one."""
    (animal, other), mood = draw.sample(sorted(ANIMALS), 2), draw.choice(sorted(MOODS))
    first = f"The {animal} is {mood}."
    return [first, *(f"What {ANIMALS[a]} is {MOODS[mood]}." for a in (animal, other))]


def scored(draw: Random) -> list[str]:
    """Of animal and mood, how many are the same: 0, 2.5 or 5."""
    first, second = ([draw.choice(sorted(kind)[:2]) for kind in (ANIMALS, MOODS)] for _ in range(2))
    score = 2.5 * sum(a == b for a, b in zip(first, second, strict=True))
    other = f"What {ANIMALS[second[0]]} is {MOODS[second[1]]}."
    return [f"The {first[0]} is {first[1]}.", other, f"{score}"]


TRIPLE, SCORED = ("sentence", "sentence2", "sentence3"), ("sentence", "sentence2", "score")


def settings(folder: Path, model: Path | str, *more: str) -> list[str]:
    """A run that begins anew, of a few updates."""
    return [
        "finetune=sentences",
        f"model={model}",
        f"output={folder}/run",
        "optimizer.lr=1e-3",
        "batch.batch_size=8",
        "loop.max_updates=4",
        "loop.max_epochs=null",
        "loop.progress=false",
        *more,
    ]


def task_of(folder: Path, model: Path | str, rows: Sequence[Sequence[Any]], *more: str) -> Any:
    """The task on a table of these rows, a header first."""
    header, *own = rows
    path = tsv(folder / "train.tsv", [str(name) for name in header], own)
    task: TrainingTask = make_task(compose(settings(folder, model, f"data.train={path}", *more)))
    return task


# ---- what is learnt ----


@pytest.mark.system
def test_pairs(base: Path, tmp_path: Path) -> None:
    """Sixteen meanings, in two ways of saying them."""
    files = two(pair, tmp_path, "tsv", lambda path, rows: tsv(path, TRIPLE, rows))
    trained, found = learn(base, tmp_path, "sentences", files, updates=50)
    assert set(found) == {"accuracy", "loss", "triplet_accuracy"}
    assert found["accuracy"] > 0.9  # one in sixteen at random
    assert found["triplet_accuracy"] > 0.9
    wanted = SentenceSettings(pooling="mean", normalize=True)
    corpus = [f"What {sound} is {mood}." for sound in ANIMALS.values() for mood in MOODS.values()]
    vectors = trained.embed(corpus)
    for roberta in both(trained, tmp_path):
        assert roberta.sentence == wanted
        assert torch.equal(roberta.embed(corpus), vectors)
        (hit,) = roberta.search("The cow is sad.", corpus, topk=1)
        assert hit.text == "What moos is unhappy."


@pytest.mark.system
def test_scores(base: Path, tmp_path: Path) -> None:
    files = two(scored, tmp_path, "tsv", lambda path, rows: tsv(path, SCORED, rows), (200, 60))
    trained, found = learn(base, tmp_path, "sentences", files, updates=80)
    assert set(found) == {"spearman", "pearson"}
    assert found["spearman"] > 0.75  # of a model that knows nothing about 0
    others = ["What meows is happy.", "What moos is happy.", "What moos is eager for food."]
    near, half, far = trained.similarity("The cat is glad.", others)[0]
    assert near > half > far


@pytest.mark.system
def test_sentence_transformers_opens_what_is_saved(base: Path, tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    task = task_of(tmp_path, base, [TRIPLE, *(pair(Random(i)) for i in range(8))])
    roberta = task.finish().eval()
    roberta.save(tmp_path / "theirs", format="huggingface")
    peer = package.SentenceTransformer(str(tmp_path / "theirs"), device="cpu")
    texts = list(SENTENCES[:6])
    theirs = peer.encode(texts, convert_to_tensor=True, show_progress_bar=False)
    assert_close(roberta.embed(texts), theirs.float())
    assert float(theirs.norm(dim=1).max()) == pytest.approx(1, abs=1e-5)


# ---- what the objective sees ----


LAYERS = (SentenceLayer(kind="dense", activation="relu"), SentenceLayer(kind="layer_norm"))


def test_layers_learn(base: Path, tmp_path: Path) -> None:
    """They are the model's, and go with it into a run's folder."""
    model = roberta_hub.load_model(base)
    model.model.add_sentence_layers(LAYERS, {"sentence_layers.0.linear.weight": (12, 32)}, 32)
    model.sentence = SentenceSettings(layers=LAYERS, truncate_dim=8)
    model.save(tmp_path / "model")
    files = two(pair, tmp_path, "tsv", lambda path, rows: tsv(path, TRIPLE, rows))
    trained, _ = learn(tmp_path / "model", tmp_path, "sentences", files, updates=3)
    before, after = model.model.sentence_layers, trained.model.sentence_layers
    assert before is not None and after is not None
    assert not torch.equal(before[0].linear.weight, after[0].linear.weight)
    assert trained.embed("The cow is sad.").shape == (8,)


def test_unpooled_prompts_are_not_learnt(base: Path, tmp_path: Path) -> None:
    model = roberta_hub.load_model(base)
    model.sentence = SentenceSettings(
        prompts={"all": "Text: "}, default_prompt="all", include_prompt=False
    )
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"include_prompt=False.*no default_prompt"):
        task_of(tmp_path, tmp_path / "model", [TRIPLE, pair(Random(0))])


@pytest.mark.system
@pytest.mark.parametrize(
    "sentence",
    [
        None,
        SentenceSettings(pooling="cls", similarity="dot", normalize=True),
        SentenceSettings(pooling=("max", "mean_sqrt_len"), lower_case=True, max_length=9),
        SentenceSettings(prompts={"all": "Text: "}, default_prompt="all"),
        SentenceSettings(pooling=("weighted_mean", "last_token", "pooler")),
        SentenceSettings(layers=LAYERS, normalize=True),
    ],
)
def test_its_vectors_are_those_of_embed(
    base: Path, tmp_path: Path, sentence: SentenceSettings | None
) -> None:
    model = roberta_hub.load_model(base)
    model.sentence = sentence
    model.model.add_pooler()
    if sentence is not None and sentence.layers:
        model.model.add_sentence_layers(LAYERS, {"sentence_layers.0.linear.weight": (12, 32)}, 32)
    model.save(tmp_path / "model")
    rows = [(a, b) for a, b in zip(SENTENCES[:6:2], SENTENCES[1:6:2], strict=True)]
    task = task_of(tmp_path, tmp_path / "model", [TRIPLE[:2], *rows])
    roberta = task.finish().eval()
    assert roberta.sentence == (sentence or SentenceSettings(normalize=True))
    order = [2, 0, 1]
    with torch.no_grad():
        batch = task.batch(order, 0)
        found = task.module.objective.logits(task.roberta, batch)
    wanted = roberta.embed([text for i in order for text in rows[i]], truncate=True)
    if roberta.sentence.normalize:
        found = torch.nn.functional.normalize(found, dim=-1)
    assert_close(found, wanted)


def test_a_batch_is_a_function_of_its_rows(base: Path, tmp_path: Path) -> None:
    rows = [TRIPLE, ("a b", "c d", "e f"), ("g", "h", ""), ("a b", "c", ""), ("i", "C d", "a b!")]
    task = task_of(tmp_path, base, rows)
    batch, again = task.batch([3, 0, 1, 2], 0), task.batch([3, 0, 1, 2], 5)
    assert torch.equal(batch.packed.ids, again.packed.ids) and batch.count == 4
    assert list(task.lengths(0)) == [len(task.batch([i], 0).packed.ids) for i in range(4)]
    for name, wanted in {
        "anchors": [0, 3, 6, 8],
        "positives": [1, 4, 7, 9],
        "negatives": [2, 5],
    }.items():
        assert batch.targets[name].tolist() == wanted == again.targets[name].tolist()
    # "a b" is the anchor of two rows: neither row's positive is wrong for the other.
    assert batch.targets["alike"].int().tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]


def test_a_row_that_comes_twice_teaches_as_one_does(base: Path, tmp_path: Path) -> None:
    rows = [("one", "two"), ("one", "two")]
    task = task_of(tmp_path, base, [TRIPLE[:2], *rows])
    loss = task.module(task.batch([0, 1], 0))
    assert float(loss.total.detach()) == 0.0
    loss.total.backward()
    gradients = [p.grad for p in task.module.parameters() if p.grad is not None]
    assert gradients and all(not gradient.any() for gradient in gradients)


@pytest.mark.system
def test_options_count(base: Path, tmp_path: Path) -> None:
    rows = [TRIPLE, *(pair(Random(i)) for i in range(8))]

    def loss(*more: str) -> float:
        task = task_of(tmp_path, base, rows, *more)
        return float(task.module.eval()(task.batch(range(8), 0)).total.detach())

    plain = loss()
    assert loss() == plain
    assert loss("task.options.scale=5") != plain != loss("task.options.symmetric=true")
    for setting, words in {
        "scale=0": "scale is 0",
        "scale=-1": "scale is -1",
        "teacher_weight=-1": "teacher_weight is -1",
        "symmetric=1": "symmetric is 1, must be bool",
        "temperature=1": "no option task.options.temperature",
    }.items():
        with pytest.raises((InputError, UnknownNameError), match=words):
            loss(f"task.options.{setting}")


# ---- another model's vectors ----


@pytest.fixture(scope="module")
def teachers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Tiny BERTs, of the student's width and of another, with a vocabulary of their own."""
    folder = tmp_path_factory.mktemp("teachers")
    return {
        width: write_family("bert", folder / str(width), hidden_size=width, seed=width)
        for width in (32, 48)
    }


ENGLISH = [text for text in SENTENCES if text.isascii()]


@pytest.mark.system
@pytest.mark.parametrize("width", [32, 48])
def test_a_teacher_of_another_family(
    base: Path, tmp_path: Path, teachers: dict[int, Path], width: int
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(ENGLISH) + "\n")
    more = [f"task.options.teacher={teachers[width]}", "batch.max_tokens=null"]
    trained, found = learn(base, tmp_path, "sentences", (path, path), *more, updates=60)
    assert set(found) == {"spearman", "pearson"} and found["pearson"] > 0.8
    teacher = roberta_hub.load_model(teachers[width])
    if width == 32:
        near = torch.cosine_similarity(trained.embed(ENGLISH), teacher.embed(ENGLISH))
        assert float(near.min()) > 0.8
    for roberta in both(trained, tmp_path):
        assert roberta.model.config.vocab_size == 50265 and roberta.family == "roberta"


def test_the_teacher_is_no_part_of_what_is_trained(
    base: Path, tmp_path: Path, teachers: dict[int, Path]
) -> None:
    rows = [TRIPLE, *(pair(Random(i)) for i in range(8))]
    alone = task_of(tmp_path, base, rows)
    task = task_of(tmp_path, base, rows, f"task.options.teacher={teachers[32]}")
    names = [name for name, _ in alone.module.named_parameters()]
    assert [name for name, _ in task.module.named_parameters()] == names
    assert list(task.module.state_dict()) == list(alone.module.state_dict())
    batch, again = task.batch([4, 1, 0], 0), task.batch([4, 1, 0], 7)
    wanted = batch.targets["teacher"]
    assert not wanted.requires_grad and torch.equal(wanted, again.targets["teacher"])
    texts = [text for i in (4, 1, 0) for text in rows[i + 1]]
    assert_close(wanted, roberta_hub.load_model(teachers[32]).embed(texts))
    loss = task.module.eval()(batch)
    contrast = alone.module.eval()(alone.batch([4, 1, 0], 0))
    added = float(loss.total.detach() - contrast.total.detach())
    assert added == pytest.approx(float(loss.logs["teacher"]), abs=1e-4)
    heavy = task_of(
        tmp_path, base, rows, f"task.options={{teacher: {teachers[32]}, teacher_weight: 3}}"
    )
    total = float(heavy.module.eval()(heavy.batch([4, 1, 0], 0)).total.detach())
    assert total - float(contrast.total.detach()) == pytest.approx(3 * added, abs=1e-3)


def test_a_teacher_cuts_long_texts(base: Path, tmp_path: Path, teachers: dict[int, Path]) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a big brown dog\n" + "dog " * 46 + "\n" + "unhappinesses " * 20 + "\n")
    more = [f"data.train={path}", f"task.options.teacher={teachers[32]}"]
    task = make_task(compose(settings(tmp_path, base, *more)))
    assert torch.isfinite(task.batch([0, 1, 2], 0).targets["teacher"]).all()


@pytest.mark.system
def test_a_run_that_stops_goes_on_in_the_same_weights(
    base: Path, tmp_path: Path, teachers: dict[int, Path]
) -> None:
    path = tsv(tmp_path / "train.tsv", TRIPLE, [pair(Random(i)) for i in range(30)])
    more = [f"data.train={path}", f"task.options.teacher={teachers[48]}", "loop.precision=bf16"]
    more += ["architecture.dropout=0.1", "optimizer.total_updates=8"]
    weights = []
    for name, stops in {"whole": (8,), "parts": (3, 8)}.items():
        for stop in stops:
            own = [f"loop.max_updates={stop}", f"output={tmp_path}/{name}"]
            run(compose(settings(tmp_path, base, *more, *own)))
        weights.append(load_file(tmp_path / name / "last/model.safetensors"))
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.system
def test_beside_another_task(base: Path, tmp_path: Path, teachers: dict[int, Path]) -> None:
    """One model labels and embeds; its batches are functions of their rows."""
    tsv(tmp_path / "pairs.tsv", TRIPLE, [pair(Random(i)) for i in range(30)])
    labels = [(pair(Random(i))[0], "xy"[i % 2]) for i in range(20)]
    path = tsv(tmp_path / "labels.tsv", ("sentence", "label"), labels)
    side = f"name: sentences, train: {tmp_path}/pairs.tsv, options: {{teacher: {teachers[48]}}}"
    more = ["task.name=classification", "task.head=which", f"data.train={path}"]
    config = compose(settings(tmp_path, base, *more, f"task.options={{beside: [{{{side}}}]}}"))
    task: Any = make_task(config)
    first, again, other = (task.batch(rows, 0).side_batches[0] for rows in ([3, 4], [3, 4], [4, 3]))
    assert torch.equal(first.packed.ids, again.packed.ids)
    assert torch.equal(first.targets["teacher"], again.targets["teacher"])
    assert not torch.equal(first.packed.ids[:9], other.packed.ids[:9])
    logs = task.module(task.batch([0, 1], 0)).logs
    assert {"sentences_loss", "sentences_correct", "sentences_teacher"} <= logs.keys()
    trained = result(run(config)).eval()
    for roberta in both(trained, tmp_path):
        assert roberta.sentence == SentenceSettings(normalize=True)
        assert roberta.classify("The dog is old.").label in "xy"


# ---- what is refused ----


@pytest.mark.system
def test_what_cannot_be_learnt_says_why(base: Path, tmp_path: Path) -> None:
    pairs = [TRIPLE[:2], ("a", "b"), ("c", "d")]
    with pytest.raises(InputError, match=r"data\.train has single sentences .*options\.teacher="):
        task_of(tmp_path, base, [("sentence",), ("a",), ("b",)])
    single = tmp_path / "held.txt"
    single.write_text("One.\nTwo.\n")
    with pytest.raises(InputError, match=r"data\.valid has single sentences"):
        task_of(tmp_path, base, pairs, f"data.valid={single}")
    with pytest.raises(InputError, match=r"batch\.batch_size is 1, and a pair is contrasted"):
        task_of(tmp_path, base, pairs, "batch.batch_size=1")
    with pytest.raises(InputError, match=r"train\.tsv:3: \d+ tokens > 48; task\.options\.trunc"):
        rows = [TRIPLE[:2], ("a", "b"), ("long " * 60, "b")]
        task_of(tmp_path, base, rows, "task.options.truncate=false")
    with pytest.raises(UnknownNameError, match=r"task\.metric is 'spearman'; there are accuracy"):
        more = [f"data.valid={tmp_path}/train.tsv", "task.metric=spearman"]
        task_of(tmp_path, base, pairs, *more)
    model = roberta_hub.load_model(base)
    model.sentence = SentenceSettings(pooling="cls", similarity="dot")
    model.save(tmp_path / "dot")
    with pytest.raises(InputError, match="compare by 'dot' and are not normalized"):
        task_of(tmp_path, tmp_path / "dot", pairs)
