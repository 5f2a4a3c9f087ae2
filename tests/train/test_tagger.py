"""`fit` makes a tagger of texts with spans: what it learns, how it is scored, and what it keeps."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.inference.tag import split_words, treebank_words, word_parts
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.spans import Annotated
from roberta_hub.train.fitting.tag_examples import TagExamples, read_tag_examples
from roberta_hub.train.fitting.tag_scores import look_up, looked_up
from roberta_hub.train.fitting.tagger import HEAD, prepare_tagger, tagging_of
from roberta_hub.train.settings import Config, TaskConfig

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
NAMES = {"Ada": "PER", "Bob": "PER", "Berlin": "LOC", "Rome": "LOC"}
Rows = list[dict[str, Any]]


def notes(count: int, seed: int = 1) -> Rows:
    """Texts in which some words are spans, some of them inside of words of treebanks."""
    draw, rows = random.Random(seed), []
    for i in range(count):
        name = draw.choice(list(NAMES))
        before = f"Note {i}: "
        text = before + name + draw.choice(["-based work", " came", "'s note", "."])
        rows.append({"text": text, "spans": [[len(before), len(before) + len(name), NAMES[name]]]})
        if i % 8 == 0:
            rows.append({"text": f"Nothing came in row {i}.", "spans": []})
    return rows


def written(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def examples_of(table: Any, **given: Any) -> TagExamples:
    found = read_tag_examples(table, **given)
    assert found is not None
    return found


# ---- what is labelled ----


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a £20-note", ["a", "£", "20", "-", "note"]),
        ("Berlin-based", ["Berlin", "-", "based"]),
        ("snake_case, é", ["snake", "_", "case", ",", "é"]),
        ("東京に ada", ["東", "京", "に", "ada"]),
        (" \n", []),
        ("🙂🙂", ["🙂", "🙂"]),
    ],
)
def test_parts_of_a_text(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in word_parts(text)] == parts
    assert split_words(text, "parts") == word_parts(text)
    assert split_words(text) == treebank_words(text)


@pytest.mark.system
def test_a_heads_rule_of_words_is_kept(tmp_path: Path) -> None:
    roberta = small_roberta()
    roberta.register_token_head("ner", labels=["O", "B-X"])
    with torch.no_grad():
        roberta.model.token_heads["ner"].out_proj.bias.copy_(torch.tensor([-9.0, 9.0]))
    text = "a £20-note"
    assert [span.text for span in roberta.tag(text)] == ["a", "£20-note"]
    roberta.word_rules["ner"] = "parts"
    pieces = ["a", "£", "20", "-", "note"]
    assert [span.text for span in roberta.tag(text)] == pieces
    for format in ("roberta_hub", "huggingface"):
        roberta.save(tmp_path / format, format)
        again = roberta_hub.load_model(tmp_path / format)
        (head,) = again.model.token_heads
        assert again.word_rules == {head: "parts"}
        assert [span.text for span in again.tag(text)] == pieces
    about = json.loads((tmp_path / "roberta_hub/config.json").read_text())
    assert about["heads"] == {"ner": {"words": "parts"}} and about["version"] == 2
    roberta.register_token_head("ner2", labels=["O", "B-X"])
    assert roberta._heads.words("ner2") == "words"
    about["heads"]["ner"]["words"] = "syllables"
    (tmp_path / "roberta_hub/config.json").write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="words is 'syllables'; choose 'words'"):
        roberta_hub.load_model(tmp_path / "roberta_hub")


def test_a_model_without_a_rule_is_written_as_before(tmp_path: Path) -> None:
    roberta = small_roberta()
    roberta.register_token_head("ner", labels=["O", "B-X"])
    roberta.word_rules["ner"] = "words"
    roberta.save(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    assert "heads" not in about and about["version"] == 1


@pytest.mark.parametrize("limit", [8, 11, 64])
def test_each_part_of_a_long_text_is_learnt_once(base: Path, limit: int) -> None:
    roberta = roberta_hub.load_model(base)
    row = Annotated("Ada met Bob, and Bob met Ada; then Rome. " * 3, ((0, 3, "PER"),), "x:1")
    names = ("O", "B-PER", "I-PER")
    roberta.register_token_head(HEAD, labels=names)
    config = Config(task=TaskConfig(name="tokens", head=HEAD, options={"max_length": limit}))
    task = tagging_of(config, roberta, names, [row])
    lengths = task.lengths(0)
    assert max(lengths) <= limit
    batch = task.batch(range(len(lengths)), epoch=0)
    labels = batch.targets["labels"].tolist()
    assert len(labels) == batch.count == len(word_parts(row.text))
    assert labels.count(1) == 1 and labels.count(2) == 0
    # Where it says the first label, the first piece of the text stands.
    ids = torch.cat([task._train.sequences[i][0] for i in range(len(lengths))])
    place = int(batch.targets["rows"][labels.index(1)])
    assert int(ids[place]) == int(roberta.encode(row.text)[1])


# ---- rows ----


def test_tokens_are_hidden_anew_in_each_epoch_and_labels_stay(base: Path) -> None:
    roberta = roberta_hub.load_model(base)
    rows = [
        Annotated("Ada met Bob and Bob met Ada in Rome", ((0, 3, "PER"),), f"x:{i}")
        for i in range(8)
    ]
    names = ("O", "B-PER", "I-PER")
    roberta.register_token_head(HEAD, labels=names)
    config = Config(task=TaskConfig(name="tokens", head=HEAD, options={"max_length": 64}))
    whole = tagging_of(config, roberta, names, rows).batch(range(8), epoch=0)
    task = tagging_of(config, roberta, names, rows, 0.2)
    first, again, later = (task.batch(range(8), epoch) for epoch in (0, 0, 1))
    hidden = first.packed.ids.eq(roberta.tokenizer.mask_idx)
    assert 0.1 < hidden.float().mean() < 0.3
    assert first.packed.ids[~hidden].equal(whole.packed.ids[~hidden])  # <s> and </s> among them
    assert not hidden[whole.packed.starts].any()
    assert first.packed.ids.equal(again.packed.ids)
    assert not first.packed.ids.equal(later.packed.ids)
    assert first.targets["labels"].equal(whole.targets["labels"])
    assert first.targets["rows"].equal(whole.targets["rows"])


@pytest.mark.parametrize(("words", "batch", "hidden"), [(3, 8, True), (60, 16, False)])
def test_short_texts_are_learnt_by_smaller_updates(
    base: Path, words: int, batch: int, hidden: bool
) -> None:
    rows = [{"text": f"Ada {i}" + " so" * words, "spans": [[0, 3, "PER"]]} for i in range(240)]
    ready = prepare_tagger(examples_of(rows), model=base)
    assert ready.config.batch.batch_size == batch and (ready.hidden > 0) == hidden
    asked = prepare_tagger(examples_of(rows), model=base, options=LearningOptions(batch_size=12))
    assert asked.config.batch.batch_size == 12


def test_a_span_that_cuts_a_word_or_a_piece_leaves_its_row_unlearnt(base: Path) -> None:
    rows = notes(20)
    rows[3]["spans"] = [[0, 2, "PER"]]  # "No" of "Note"
    rows[5] = {"text": "Wait... no", "spans": [[0, 5, "PER"]]}  # "..." is one piece
    found = examples_of(rows, valid=[{"text": "Quite other: Rome", "spans": [[13, 17, "LOC"]]}])
    assert "1 row not learnt, a span that cuts a word: table:4 ([0, 2, 'PER'] in 'Note')" in (
        found.notes
    )
    ready = prepare_tagger(found, model=base)
    assert ready.notes == [
        "1 row not learnt, a span that cuts a piece of the model's: table:6 ('..')"
    ]
    assert len(ready.train_on) == len(found.train) - 1 == len(rows) - 2


def test_long_texts_are_said(base: Path) -> None:
    rows = notes(30)
    rows[2]["text"] += " and so on" * 40
    ready = prepare_tagger(examples_of(rows), model=base, options=LearningOptions(max_length=40))
    (note,) = ready.notes
    assert note.startswith("1 of 34 texts have more than 40 tokens and are read in windows, first")


def test_the_same_text_stays_on_one_side_and_rows_without_spans_are_learnt() -> None:
    rows = [*notes(40), *notes(40)]
    found = examples_of(rows, valid=0.25)
    assert not {row.text for row in found.train} & {row.text for row in found.valid}
    assert any(not row.spans for row in found.train)
    assert len(found.train) + len(found.valid) == len(rows)
    again = examples_of(rows, valid=0.25)
    assert again.train == found.train
    assert examples_of(rows, valid=0.25, seed=2).valid != found.valid


def test_what_cannot_be_learnt_is_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no row to learn from has a span"):
        examples_of([{"text": f"Row {i}.", "spans": []} for i in range(9)], label="spans")
    with pytest.raises(InputError, match=r"the table: no spans were found; give JSONL with a col"):
        roberta_hub.fit([{"text": "Fine.", "label": "x"}], model=base, task="tagging")
    with pytest.raises(InputError, match="a tagger reads single texts, not a and b"):
        rows = [{"a": "x y", "b": "y z", "spans": [[0, 1, "X"]]}]
        roberta_hub.fit(rows, text=["a", "b"], label="spans", model=base)
    given = {"minutes": 1, "balance": True, "pooling": "mean", "trials": 3}
    for name, value in given.items():
        with pytest.raises(InputError) as caught:
            roberta_hub.fit(notes(20), model=base, **{name: value})  # type: ignore[arg-type]
        assert str(caught.value) == f"{name} means nothing to a tagger; leave out {name}=..."
        assert caught.value.in_shell().endswith(f"; leave out --{name}")


@pytest.mark.system
def test_a_table_with_spans_can_be_classified_too(base: Path) -> None:
    rows = [{**row, "kind": "some" if row["spans"] else "none"} for row in notes(40)]
    found = roberta_hub.fit(rows, label="kind", model=base, epochs=1, progress=False)
    assert set(found.head_labels(found.default_head or "")) == {"none", "some"}


# ---- the model ----


@pytest.fixture(scope="module")
def made(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("made")
    table = written(folder / "notes.jsonl", notes(80))
    mine = roberta_hub.fit(
        table, model=base, output=folder / "tagger", epochs=8, learning_rate=8e-3, progress=False
    )
    return mine, folder


@pytest.mark.system
def test_it_learns_and_tags(made: Any) -> None:
    mine, folder = made
    scores = mine.fitted.scores
    assert scores.numbers["F1"] > 0.8
    assert list(scores.numbers) == ["F1", "precision", "recall"] and scores.task == "tagging"
    assert scores.interval[0] <= scores.numbers["F1"] <= scores.interval[1]
    for model in (mine, roberta_hub.load_model(folder / "tagger")):
        assert model.default_head == HEAD and model.word_rules == {HEAD: "clusters"}
        assert model.head_labels(HEAD) == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
        (found,) = model.tag("Note 7: Berlin-based work")
        assert (found.label, found.text) == ("LOC", "Berlin")


@pytest.mark.system
def test_the_scores_are_those_of_tag(made: Any) -> None:
    mine, folder = made
    valid = examples_of(folder / "notes.jsonl").valid
    assert [row.text for row in mine.fitted.rows] == [row.text for row in valid]
    for row in mine.fitted.rows:
        spans = tuple((s.start, s.end, s.label) for s in mine.tag(row.text))
        assert row.answered == spans
    right = sum(len({*row.answered} & {*row.wanted}) for row in mine.fitted.rows)
    assert right == sum(n for (_, kind), n in mine.fitted.confusion.items() if kind == "right")


@pytest.mark.system
def test_the_card_is_true(made: Any, base: Path) -> None:
    mine, folder = made
    card = (folder / "tagger/README.md").read_text()
    for words in ("Finds spans in a text: LOC, PER.", mine.fitted.scores.headline(), "90 texts"):
        assert words in " ".join(card.split())
    exec(card.split("```python\n")[1].split("```")[0].replace("print(", "answer = ("), names := {})
    assert isinstance(names["answer"], list)
    assert (
        f"roberta-hub fit {folder}/notes.jsonl --model {base} --output "
        f"{folder}/tagger --task tagging --epochs 8 --learning-rate 0.008 --seed 1"
    ) in card


def test_mistakes_stand_in_their_context(base: Path) -> None:
    rows = notes(30)
    mine = roberta_hub.fit(rows, model=base, epochs=1, learning_rate=1e-6, progress=False)
    assert mine.fitted.mistakes
    for wrong in mine.fitted.mistakes:
        assert "[" in wrong.text and wrong.where.startswith("table:")
        assert wrong.wanted == "nothing" or wrong.wanted.split()[0] in ("PER", "LOC")
    assert "surest mistakes:" in mine.fitted.scores.summary()
    assert max(map(len, mine.fitted.scores.summary().splitlines())) <= 80


@pytest.mark.system
def test_it_learns_on_from_ones_own(made: Any) -> None:
    mine, folder = made
    again = roberta_hub.fit(notes(30, seed=5), model=folder / "tagger", epochs=1, progress=False)
    assert again.head_labels(HEAD) == mine.head_labels(HEAD)
    assert again.tag("Note 7: Rome came")[0].label == "LOC"


# ---- the simplest rival ----


def test_spans_are_looked_up_by_their_texts() -> None:
    learnt = [
        Annotated("New York is new", ((0, 8, "LOC"),), "x:1"),
        Annotated("York lies there", ((0, 4, "LOC"),), "x:2"),
        Annotated("I may come in May", ((14, 17, "DATE"),), "x:3"),
        Annotated("It is it and it", ((0, 2, "X"),), "x:4"),
        Annotated("It is It and It", (), "x:5"),
    ]
    known = looked_up(learnt)
    assert known == {"New York": "LOC", "York": "LOC", "May": "DATE"}
    text = "May New York, York and Yorkshire"
    assert sorted(look_up(text, known)) == [(0, 3, "DATE"), (4, 12, "LOC"), (14, 18, "LOC")]
    assert look_up(text, {}) == set()
