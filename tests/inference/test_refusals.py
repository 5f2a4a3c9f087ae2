"""A head refuses what it is not certain of: in every way to ask, to save and to measure."""

from __future__ import annotations

import base64
import csv
import json
import math
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from shell.running import Run, runner
from small_models import copied, small_roberta

from roberta_hub import RobertaHubInterface, compare, evaluate, fit, load_model
from roberta_hub.errors import Advice, CheckpointError, InputError
from roberta_hub.evaluation.compare import _measures
from roberta_hub.inference.certainty import KNOWN_POWER, pack_pieces
from roberta_hub.inference.classify import Prediction
from roberta_hub.measures.refusals import auroc
from roberta_hub.scale import Verb
from roberta_hub.scale.models import LoadedModel
from roberta_hub.settings import REJECTED, Head
from roberta_hub.verbs.predictions import _best, _shares

LABELS = ("art", "sport", "war")
TEXTS = [f"{word} and {other}" for word in ("hello", "world", "a b", "x") for other in "cdef"]


@pytest.fixture(scope="module")
def plain() -> RobertaHubInterface:
    """A model that never refuses."""
    return small_roberta(heads={"topic": 3}, labels={"topic": LABELS}, num_layers=2).eval()


@pytest.fixture(scope="module")
def made(plain: RobertaHubInterface) -> RobertaHubInterface:
    """It knows the pieces of every second text, and refuses half of the texts; the first too."""
    found = copied(plain)
    found._heads.note("topic", known_pieces=pack_pieces(map(found.encode, TEXTS[1::2])))
    found.reject_below["topic"] = 0.0
    sure = sorted(one.certainty for one in found.classify(TEXTS))
    found.reject_below["topic"] = sure[len(sure) // 2]
    return found


def test_what_is_not_certain_has_no_label(
    made: RobertaHubInterface, plain: RobertaHubInterface
) -> None:
    below = made.reject_below["topic"]
    known = {int(i) for text in TEXTS[1::2] for i in made.encode(text)}
    found = made.classify(TEXTS)
    for text, one, before in zip(TEXTS, found, plain.classify(TEXTS), strict=True):
        ids = made.encode(text).tolist()
        share = sum(i in known for i in ids) / len(ids)
        entropy = -sum(p * math.log(p) for p in before.scores.values())
        certainty = one.certainty
        assert certainty == pytest.approx(share**KNOWN_POWER / math.exp(entropy), abs=1e-5)
        assert one.rejected is (certainty < below)
        assert one.label == (None if one.rejected else before.label)
        assert (one.best, one.score, one.scores) == (before.label, before.score, before.scores)
        assert made.classify(text) == pytest.approx(one) or made.classify(text).best == one.best
    assert {one.rejected for one in found} == {True, False}
    assert all(one.rejected is None and one.certainty is None for one in plain.classify(TEXTS))
    assert torch.equal(made.predict_proba(TEXTS), plain.predict_proba(TEXTS))


def test_a_threshold_by_hand_needs_no_pieces(plain: RobertaHubInterface) -> None:
    own = copied(plain)
    own.reject_below["topic"] = 1.0
    assert all(one.rejected for one in own.classify(TEXTS))
    del own.reject_below["topic"]
    assert own.classify(TEXTS) == plain.classify(TEXTS)
    with pytest.raises(InputError, match="reject_below is 2; give a number from 0 to 1"):
        own.reject_below["topic"] = 2
        own.classify(TEXTS)
    own.reject_below["topic"], own.kinds["topic"] = 0.5, "multi_label"
    with pytest.raises(InputError, match="of kind 'multi_label'"):
        own.classify(TEXTS)


def test_it_says_so_in_words_and_records(made: RobertaHubInterface) -> None:
    found = next(one for one in made.classify(TEXTS) if one.rejected)
    assert str(found) == f"rejected ({found.best} {found.score:.2f})"
    assert "label=None" in repr(found) and "rejected=True" in repr(found)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["label"] is None and told["rejected"] is True and set(told["scores"]) == {*LABELS}
    assert "rejected (" in found._repr_html_()
    plain = Prediction.of(["a", "b"], [0.6, 0.4])
    assert plain.to_dict() == {"label": "a", "score": 0.6, "scores": {"a": 0.6, "b": 0.4}}


def test_tables_of_every_kind_have_the_column(
    made: RobertaHubInterface,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    run: Run = runner(monkeypatch, capsys)
    made.save(tmp_path / "model")
    wanted = [one.label for one in made.classify(TEXTS)]
    assert wanted[0] is None  # the first answer says what the columns are
    source = tmp_path / "texts.csv"
    source.write_text("\n".join(["text", *TEXTS]) + "\n")
    for form in ("csv", "jsonl", "parquet"):
        target = tmp_path / f"found.{form}"
        status, _, said = run(
            "classify", "-m", tmp_path / "model", "-i", source, "--text", "text", "-o", target
        )
        assert status == 0, said
        if form == "csv":
            with target.open(newline="") as file:
                rows = list(csv.DictReader(file))
            assert [row["label"] or None for row in rows] == wanted
            assert [row["rejected"] == "True" for row in rows] == [own is None for own in wanted]
        elif form == "jsonl":
            rows = [json.loads(line) for line in target.read_text().splitlines()]
        else:
            rows = arrow.read_table(target).to_pylist()
        if form != "csv":
            assert [row["label"] for row in rows] == wanted
            assert [row["rejected"] for row in rows] == [own is None for own in wanted]
    status, out, _ = run("classify", "-m", tmp_path / "model", *TEXTS[:2])
    assert status == 0 and "(rejected)" not in out  # each label below its text
    status, out, _ = run("classify", "-m", tmp_path / "model", stdin="\n".join(TEXTS).encode())
    assert status == 0
    found = Verb("classify", tmp_path / "model")({"text": TEXTS})
    assert (found["label"], found["rejected"]) == (wanted, [own is None for own in wanted])


def test_our_format_keeps_it_and_others_say_that_they_cannot(
    made: RobertaHubInterface, plain: RobertaHubInterface, tmp_path: Path
) -> None:
    made.save(tmp_path / "own")
    again = load_model(tmp_path / "own").eval()
    assert again.classify(TEXTS) == made.classify(TEXTS)
    assert again.reject_below == made.reject_below
    assert LoadedModel(again).digest == LoadedModel(made).digest != LoadedModel(plain).digest
    for form in ("huggingface", "fairseq"):
        with pytest.warns(Advice, match="no place for reject_below, so that head 'topic' gives"):
            made.save(tmp_path / form, format=form)
        assert not load_model(tmp_path / form).reject_below
    for value, words in ((2, "reject_below is 2"), ("x", "reject_below is 'x'")):
        about = json.loads((tmp_path / "own/config.json").read_text())
        about["heads"]["topic"]["reject_below"] = value
        (tmp_path / "own/config.json").write_text(json.dumps(about))
        with pytest.raises(CheckpointError, match=words):
            load_model(tmp_path / "own")


def test_damaged_pieces_are_an_error_that_names_the_file(
    made: RobertaHubInterface, tmp_path: Path
) -> None:
    made.save(tmp_path / "own")
    config = tmp_path / "own/config.json"
    about = json.loads(config.read_text())
    whole = about["heads"]["topic"]["known_pieces"]
    bomb = base64.b64encode(zlib.compress(bytes(1 << 22))).decode()
    for damaged in ("zzz!", whole[:-4], "", base64.b64encode(b"text").decode(), bomb):
        about["heads"]["topic"]["known_pieces"] = damaged
        config.write_text(json.dumps(about))
        said = "head 'topic': known_pieces is no text that `fit` wrote"
        with pytest.raises(CheckpointError, match=re.escape(said)) as error:
            load_model(tmp_path / "own")
        assert str(config) in str(error.value)


def test_the_note_of_a_head_that_cannot_refuse_there_says_what_keeps_it(
    made: RobertaHubInterface, tmp_path: Path
) -> None:
    for form in ("huggingface", "fairseq"):
        with pytest.warns(Advice, match="gives every text a label there; format='roberta_hub'"):
            made.save(tmp_path / form, format=form)


def test_a_fitted_head_of_pooled_vectors_is_refused_by_its_pooling(tmp_path: Path) -> None:
    """What `fit` makes by itself reads no <s>, so that it never comes to the note."""
    rows = [{"text": f"A {word} film, part {i}.", "label": word}
            for i in range(20) for word in ("good", "bad")]  # fmt: skip
    mine = fit(rows, minutes=1e-6, reject=0.05, progress=False)
    assert mine.reject_below
    for form in ("huggingface", "fairseq"):
        with pytest.raises(CheckpointError, match=r"and .* reads <s> alone"):
            mine.save(tmp_path / form, format=form)


def test_pieces_that_nobody_wrote_are_refused(plain: RobertaHubInterface) -> None:
    own = copied(plain)
    own._known_heads["topic"] = Head(labels=LABELS, reject_below=0.1, known_pieces="no base64!")
    with pytest.raises(InputError, match="known_pieces is no text that `fit` wrote"):
        own.classify(TEXTS)


# ---- measured ----


def test_evaluate_counts_refusals(made: RobertaHubInterface, tmp_path: Path) -> None:
    answers = made.classify(TEXTS)
    right = [one.best if i % 4 else LABELS[i % 3] for i, one in enumerate(answers)]
    table: dict[str, Any] = {"text": TEXTS, "label": right}
    found: Any = evaluate(made, table)
    given = [i for i, one in enumerate(answers) if not one.rejected]
    hits = sum(answers[i].label == right[i] for i in given)
    assert found["coverage"] == len(given) / len(TEXTS)
    assert found["accuracy_answered"] == pytest.approx(hits / len(given))
    assert found["accuracy"] == pytest.approx(hits / len(TEXTS))
    assert "auroc_out_of_scope" not in found.numbers
    assert found.curve[0].coverage == 1.0 and len(found.curve) == 7
    assert found.curve[0].accuracy == pytest.approx(
        sum(one.best == label for one, label in zip(answers, right, strict=True)) / len(TEXTS)
    )
    assert "least certainty" in str(found) and "| least certainty |" in found.to_markdown()
    found.png(tmp_path / "curve.png")
    assert json.loads(json.dumps(found.to_dict()))["curve"][0]["coverage"] == 1.0


def test_evaluate_knows_what_is_out_of_scope(
    made: RobertaHubInterface, plain: RobertaHubInterface
) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    answers = made.classify(TEXTS)
    right = ["peace" if i % 3 == 0 else one.best for i, one in enumerate(answers)]
    table: dict[str, Any] = {"text": TEXTS, "label": right}
    found: Any = evaluate(made, table)
    inside = [label != "peace" for label in right]
    sure = [one.certainty for one in answers]
    assert found["auroc_out_of_scope"] == pytest.approx(sklearn.roc_auc_score(inside, sure))
    good = [one.rejected if label == "peace" else one.label == label
            for one, label in zip(answers, right, strict=True)]  # fmt: skip
    assert found["accuracy"] == pytest.approx(sum(good) / len(good))
    assert any("out of scope" in note and "'peace' (6)" in note for note in found.notes)
    assert REJECTED in [group.name for group in found.groups]
    with pytest.raises(InputError, match="does not know: 'peace'"):
        evaluate(plain, table)
    with pytest.raises(InputError, match="does not know: 'peace'"):  # none of its labels
        evaluate(made, {"text": TEXTS, "label": ["peace"] * len(TEXTS)})


def test_equal_numbers_count_half() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    draw = torch.Generator().manual_seed(1)
    first, other = ((torch.rand(n, generator=draw) * 9).round().tolist() for n in (40, 30))
    wanted = sklearn.roc_auc_score([1] * 40 + [0] * 30, first + other)
    assert auroc(first, other) == pytest.approx(wanted)


def test_compare_goes_on(made: RobertaHubInterface, plain: RobertaHubInterface) -> None:
    answers = plain.classify(TEXTS)
    table: dict[str, Any] = {"text": TEXTS, "label": [one.label for one in answers]}
    found = compare(plain, made, table)
    refused = sum(bool(one.rejected) for one in made.classify(TEXTS))
    assert found.changed == refused / len(TEXTS)
    assert {one.new for one in found.mistakes} == {REJECTED}
    assert found.whole.accuracy == (1.0, 1 - refused / len(TEXTS))


# ---- zero_shot(none=) ----


@pytest.mark.parametrize("by", ["entailment", "meaning", "both"])
def test_zero_shot_gives_none_where_no_label_fits(by: Any) -> None:
    tiny = load_model("roberta.tiny").eval()
    texts = ["The team won the final after extra time.", "asdf qwer zxcv", "Stir the soup gently."]
    labels = ["sport", "politics"]
    plain = tiny.zero_shot(texts, labels, by=by)
    alone = tiny.zero_shot(texts, labels, by=by, multi_label=True)
    found = tiny.zero_shot(texts, labels, by=by, none="other")
    for one, before, own in zip(found, plain, alone, strict=True):
        assert one.rejected is (not own.labels)
        assert one.certainty == pytest.approx(own.score, abs=1e-5)
        assert one.label == ("other" if one.rejected else before.label)
        assert one.scores == pytest.approx(before.scores, abs=1e-5)
    assert found[0].label == "sport" or by != "both"


def test_zero_shot_refuses_a_none_that_says_nothing() -> None:
    tiny = load_model("roberta.tiny").eval()
    for none, words in (("art", "one of the labels"), (" ", "give a label for texts")):
        with pytest.raises(InputError, match=words):
            tiny.zero_shot("Goal!", ["art", "sport"], none=none)
    with pytest.raises(InputError, match="with several, a text that no label fits has none"):
        tiny.zero_shot("Goal!", ["art", "sport"], none="other", multi_label=True)


def test_a_table_draws_the_refusal_above_the_shares() -> None:
    record = {"label": "other", "score": 0.6, "scores": {"a": 0.6, "b": 0.4}, "rejected": True}
    drawn = [cells[0] for cells in _shares(record)]
    assert drawn == ["other", "a", "b"]
    assert _shares({**record, "label": None})[0][0] == REJECTED
    assert _best(record)[:1] == ("other",)
    assert _shares({**record, "rejected": False})[0][0] == "a"


def test_macro_f1_has_no_class_of_refusals_unless_rows_have_it() -> None:
    right, given = [{"a"}, {"b"}, {"b"}], [{"a"}, {"b"}, {REJECTED}]
    assert _measures(right, given, given)["f1_macro"][1] == pytest.approx(5 / 6)
    right[2] = {REJECTED}
    assert _measures(right, given, given)["f1_macro"][1] == 1


def test_evaluate_counts_a_refusal_as_a_miss_and_no_class(made: RobertaHubInterface) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    found = made.classify(TEXTS)
    right = [one.best for one in found]
    given = [one.label or REJECTED for one in found]
    table = [{"text": text, "label": label} for text, label in zip(TEXTS, right, strict=True)]
    classes = sorted({*right})
    wanted = sklearn.f1_score(right, given, labels=classes, average="macro", zero_division=0)
    assert REJECTED in given and wanted < 1
    assert evaluate(made, table)["f1_macro"] == pytest.approx(wanted)
