"""Labelled spans out of the exports of annotation tools and published layouts, known by content."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from learning import parquet

from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.train.data.tagged_words import read_words
from roberta_hub.train.fitting.span_layouts import span_table
from roberta_hub.train.fitting.spans import Annotated, checked

TEXT = "Ada Lovelace lived in London."
SPANS = [(0, 12, "PER"), (22, 28, "LOC")]
NONE = "It rained."


def read(table: Any, **given: Any) -> tuple[list[Annotated], LeftOut]:
    found = span_table(table, **given)
    assert found is not None
    left = LeftOut()
    return checked(found.read(), left), left


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def task(text: str, spans: list[Any], **more: Any) -> dict[str, Any]:
    """A task of Label Studio with one annotation."""
    result = [
        {
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "value": {"start": s, "end": e, "text": text[s:e], "labels": [label]},
        }
        for s, e, label in spans
    ]
    annotation = {"id": 1, "result": result, "was_cancelled": False, **more}
    return {"id": 7, "data": {"text": text, "source": "a.txt"}, "annotations": [annotation]}


def texts_with_spans(folder: Path) -> dict[str, Path]:
    """The same two texts as each tool exports texts with spans."""
    lists = [list(span) for span in SPANS]
    named = [{"start": s, "end": e, "label": label} for s, e, label in SPANS]
    offsets = [
        {"id": i, "label": label, "start_offset": s, "end_offset": e}
        for i, (s, e, label) in enumerate(SPANS)
    ]
    empty: dict[str, Any] = {"text": NONE}
    csv = f'text,spans\n"{TEXT}","{lists!r}"\n{NONE},[]\n'
    (folder / "pandas.csv").write_text(csv)
    tasks = [task(TEXT, SPANS), task(NONE, [])]
    (folder / "one-line.json").write_text(json.dumps(tasks))
    (folder / "pretty.json").write_text(json.dumps(tasks, indent=2))
    (folder / "minimal.json").write_text(
        json.dumps(
            [
                {"text": TEXT, "label": [t["value"] for t in tasks[0]["annotations"][0]["result"]]},
                {**empty, "label": []},
            ]
        )
    )
    (folder / "spacy2.json").write_text(
        json.dumps([[TEXT, {"entities": lists}], [NONE, {"entities": []}]])
    )
    return {
        "doccano's lists": written(
            folder / "admin.jsonl",
            {"id": 1, "text": TEXT, "label": lists, "Comments": []},
            {"id": 2, **empty, "label": [], "Comments": []},
        ),
        "doccano's entities": written(
            folder / "all.jsonl",
            {"text": TEXT, "entities": offsets, "relations": [], "Comments": []},
            {**empty, "entities": [], "relations": [], "Comments": []},
        ),
        "Prodigy": written(
            folder / "ner.jsonl",
            {
                "text": TEXT,
                "tokens": [{"text": "Ada", "id": 0}],
                "spans": named,
                "answer": "accept",
            },
            {**empty, "spans": [], "answer": "accept"},
        ),
        "JSONL under another name": written(
            folder / "notes.json", {"text": TEXT, "spans": named}, {**empty, "spans": []}
        ),
        "Label Studio, one line": folder / "one-line.json",
        "Label Studio": folder / "pretty.json",
        "Label Studio, minimal": folder / "minimal.json",
        "Label Studio as JSONL": written(folder / "ls.jsonl", *tasks),
        "pandas' CSV": folder / "pandas.csv",
        "spaCy 2's pairs": folder / "spacy2.json",
    }


KINDS = ("doccano's lists", "doccano's entities", "Prodigy", "JSONL under another name")
KINDS += ("Label Studio, one line", "Label Studio", "Label Studio, minimal")
KINDS += ("Label Studio as JSONL", "pandas' CSV", "spaCy 2's pairs")


@pytest.mark.parametrize("kind", KINDS)
def test_every_tool_gives_the_same_spans(tmp_path: Path, kind: str) -> None:
    made = texts_with_spans(tmp_path)
    assert set(made) == set(KINDS)
    found, left = read(made[kind])
    assert [(e.text, e.spans) for e in found] == [(TEXT, tuple(SPANS)), (NONE, ())]
    assert not left.notes()


@pytest.mark.parametrize("package", ["list", "columns", "pandas", "polars", "parquet", "pairs"])
def test_tables_in_memory(tmp_path: Path, package: str) -> None:
    rows: Any = [
        {"text": TEXT, "spans": [{"start": s, "end": e, "label": la} for s, e, la in SPANS]},
        {"text": NONE, "spans": []},
    ]
    table: Any = rows
    if package == "columns":
        table = {"text": [TEXT, NONE], "spans": [SPANS, []]}
    elif package == "parquet":
        table = parquet(tmp_path / "x.parquet", rows)
    elif package == "pairs":
        table = [(TEXT, {"entities": SPANS}), (NONE, {"entities": []})]
    elif package != "list":
        table = pytest.importorskip(package).DataFrame(rows)
    found, _ = read(table)
    assert [(e.text, e.spans) for e in found] == [(TEXT, tuple(SPANS)), (NONE, ())]


def test_spacys_documents(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    docs = [nlp(TEXT), nlp(NONE)]
    docs[0].ents = [docs[0].char_span(*span[:2], label=span[2]) for span in SPANS]
    spacy.tokens.DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    found, _ = read(tmp_path / "train.spacy")
    assert [(e.text, e.spans) for e in found] == [(TEXT, tuple(SPANS)), (NONE, ())]
    (tmp_path / "torn.spacy").write_bytes((tmp_path / "train.spacy").read_bytes()[:60])
    with pytest.raises(InputError, match=r"torn\.spacy: not a readable \.spacy file"):
        read(tmp_path / "torn.spacy")


def test_spacys_documents_without_spacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.spacy").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"a \.spacy file needs spaCy .*words"):
        span_table(tmp_path / "x.spacy")


# ---- words with tags ----

WORDS = ["Ada", "Lovelace", "met", "Bob", "Carol", "in", "New", "York", "."]
MET = "Ada Lovelace met Bob Carol in New York ."
FOUND = ((0, 12, "PER"), (17, 20, "PER"), (21, 26, "PER"), (30, 38, "LOC"))
SCHEMES = {
    "IOB1": "I-PER I-PER O I-PER B-PER O I-LOC I-LOC O",
    "IOB2": "B-PER I-PER O B-PER B-PER O B-LOC I-LOC O",
    "BILOU": "B-PER L-PER O U-PER U-PER O B-LOC L-LOC O",
    "IOBES": "B-PER E-PER O S-PER S-PER O B-LOC E-LOC O",
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("layout", ["two", "four", "tabs", "tokens", "csv", "csv, each row"])
def test_schemes_of_tags(tmp_path: Path, scheme: str, layout: str) -> None:
    tags = SCHEMES[scheme].split()
    if layout == "tokens":
        table = written(tmp_path / "x.jsonl", {"tokens": WORDS, "ner_tags": tags})
    elif layout.startswith("csv"):
        ids = ["Sentence: 1"] + ["Sentence: 1" if "each" in layout else ""] * 8
        rows = [f"{i},{w},NN,{t}\n" for i, w, t in zip(ids, WORDS, tags, strict=True)]
        table = tmp_path / "ner.csv"
        table.write_text("Sentence #,Word,POS,Tag\n" + "".join(rows) + "Sentence: 2,Hm,UH,O\n")
    else:
        between = {"two": " ", "four": " NN I-NP ", "tabs": "\t"}[layout]
        rows = [f"{w}{between}{t}\n" for w, t in zip(WORDS, tags, strict=True)]
        table = tmp_path / "train.txt"
        table.write_text("-DOCSTART- -X- -X- O\n\n# id 7 domain=en\n" + "".join(rows) + "\n\n")
    found, _ = read(table)
    assert (found[0].text, found[0].spans) == (MET, FOUND)
    assert [e.text for e in found[1:]] == (["Hm"] if layout.startswith("csv") else [])


def test_lines_that_begin_with_a_hash_are_words_where_they_have_a_tag(tmp_path: Path) -> None:
    path = tmp_path / "tweets.conll"
    path.write_text("# newdoc id = 3\n#London\tB-LOC\n#\tO\nrocks\tO\n\n# text = a b\nAda\tB-PER\n")
    found, _ = read(path)
    assert [e.text for e in found] == ["#London # rocks", "Ada"]
    assert [e.where for e in found] == [f"{path}:2", f"{path}:7"]


def test_parts_of_speech_are_a_span_a_word(tmp_path: Path) -> None:
    path = tmp_path / "pos.conll"
    path.write_text("Ada NOUN\nKing NOUN\nsings VERB\n")
    ((found,), _) = read(path)
    assert found.spans == ((0, 3, "NOUN"), (4, 8, "NOUN"), (9, 14, "VERB"))


def test_a_line_without_a_tag_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("Ada B-PER\nsings O\nwell\n. O\n")
    with pytest.raises(InputError, match=r"x\.conll:3: 'well' is not a word and a label"):
        read(path)


def test_numbers_as_tags_have_the_names_of_the_data_set(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    rows = {"tokens": [["in", "New", "York"]], "ner_tags": [[0, 1, 2]]}
    names = ["O", "B-LOC", "I-LOC"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    about = json.dumps({"info": {"features": {"ner_tags": feature}}})
    table = pa.table(rows).replace_schema_metadata({"huggingface": about})
    pa.parquet.write_table(table, tmp_path / "named.parquet")
    ((found,), _) = read(tmp_path / "named.parquet")
    assert found.spans == ((3, 11, "LOC"),)
    with pytest.raises(InputError) as caught:
        read(written(tmp_path / "x.jsonl", {k: v[0] for k, v in rows.items()}))
    said = "x.jsonl:1: the tag 0 is a number, and nothing names it; write names in place of"
    assert said in str(caught.value)


# ---- rows that are not learnt ----


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([[0, 99, "PER"]], "a span outside the text: x.jsonl:2 ([0, 99, 'PER'] of 29 characters)"),
        ([[-3, 5, "PER"]], "a span outside the text: x.jsonl:2 ([-3, 5, 'PER'] of 29 characters)"),
        ([[5, 2, "PER"]], "a span that ends before it begins: x.jsonl:2 ([5, 2, 'PER'])"),
        ([[5, 5, "PER"]], "an empty span: x.jsonl:2 ([5, 5, 'PER'])"),
        ([[3, 4, "PER"]], "a span of nothing but blanks: x.jsonl:2 ([3, 4, 'PER'])"),
        ([[0, 3, ""]], "a span without a label: x.jsonl:2 ([0, 3, ''])"),
        ([["0", 3, "PER"]], "a span without a start and an end: x.jsonl:2 (['0', 3, 'PER'])"),
        (
            [[0, 3, "PER"], [2, 12, "PER"]],
            "spans that overlap: x.jsonl:2 ([0, 3, 'PER'] and [2, 12, 'PER'])",
        ),
        (
            [[0, 3, "PER"], [0, 3, "ORG"]],
            "two labels for one span: x.jsonl:2 ([0, 3, 'ORG'] and [0, 3, 'PER'])",
        ),
        (
            [{"start": 0, "end": 3, "label": "PER", "text": "Bob"}],
            "a span whose text is another: x.jsonl:2 ([0, 3, 'PER'] is 'Ada', not 'Bob')",
        ),
        (None, "nothing in the column of spans: x.jsonl:2"),
        ("PER", "its spans are no list: x.jsonl:2"),
    ],
)
def test_what_is_wrong_with_a_row_is_named(tmp_path: Path, spans: Any, said: str) -> None:
    good = [{"text": f"{TEXT} {i}", "spans": SPANS} for i in range(9)]
    odd = {"text": TEXT, "spans": spans}
    found, left = read(written(tmp_path / "x.jsonl", good[0], odd, *good[1:]), label="spans")
    assert left.notes() == [f"1 row not learnt, {said}"]
    assert [e.text for e in found] == [row["text"] for row in good]


def test_blanks_at_the_edges_of_a_span_are_taken_off() -> None:
    rows = [{"text": TEXT, "spans": [[0, 13, "PER"], [21, 28, "LOC"], [0, 12, "PER"]]}]
    (found,), left = read(rows)
    assert found.spans == tuple(SPANS)
    assert left.notes() == ["2 spans with blanks at an edge, which are taken off; first table:1"]


def test_rejected_and_ignored_rows_of_prodigy_are_not_learnt(tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 3, "label": "PER"}]
    answers = ["accept", "reject", "ignore", "reject"]
    rows = [{"text": f"Ada {i}", "spans": spans, "answer": a} for i, a in enumerate(answers)]
    found, left = read(written(tmp_path / "x.jsonl", *rows))
    assert [e.text for e in found] == ["Ada 0"]
    assert left.notes() == [
        "2 rows not learnt, its answer is 'reject': x.jsonl:2, x.jsonl:4",
        "1 row not learnt, its answer is 'ignore': x.jsonl:3",
    ]


def test_tasks_of_label_studio_that_say_nothing_are_not_learnt(tmp_path: Path) -> None:
    waiting = {"id": 2, "data": {"text": TEXT}, "annotations": []}
    tasks = [task(TEXT, SPANS), waiting, task(NONE, [], was_cancelled=True)]
    (tmp_path / "x.json").write_text(json.dumps(tasks))
    found, left = read(tmp_path / "x.json")
    assert [e.spans for e in found] == [tuple(SPANS)]
    assert left.notes() == [
        "1 row not learnt, it was not annotated: x.json:2",
        "1 row not learnt, it was skipped: x.json:3",
    ]


def test_places_that_a_browser_counted_are_counted_in_characters() -> None:
    text = "🙂🙂 Ada"  # five units of UTF-16 before the name, three characters
    moved = task(text, [])
    value = {"start": 5, "end": 8, "text": "Ada", "labels": ["PER"]}
    moved["annotations"][0]["result"] = [{"to_name": "text", "type": "labels", "value": value}]
    (found,), _ = read([moved])
    assert found.spans == ((3, 6, "PER"),)


# ---- what holds no spans ----


@pytest.mark.parametrize(
    "table",
    [
        [{"text": "Fine film.", "label": "good"}],
        [{"text": "Fine film.", "label": ["good", "film"]}],
        [{"text": "Fine film.", "label": [1, 2, 3]}],
        [{"text": "Fine film.", "label": "good", "spans": [[0, 4, "X"]]}],
        [{"word": "bank", "sentence": "A bank of sand.", "label": "place"}],
        [{"text": "Fine film.", "spans": []}],
    ],
)
def test_other_tables_are_not_taken_for_spans(tmp_path: Path, table: Any) -> None:
    assert span_table(table) is None
    assert span_table(written(tmp_path / "x.jsonl", *table)) is None


def test_plain_text_is_not_taken_for_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("It was a fine day.\nNobody came O\n")
    assert span_table(path) is None
    assert span_table(tmp_path / "none.txt") is None


def test_spans_beside_other_labels_are_learnt_where_they_are_named() -> None:
    rows = [{"text": TEXT, "label": "bio", "spans": SPANS, "more": [[0, 3, "X"]]}]
    (found,), _ = read(rows, label="spans")
    assert found.spans == tuple(SPANS)
    del rows[0]["label"]
    rows[0]["entities"] = rows[0].pop("more")
    with pytest.raises(InputError, match="spans, entities could each hold the spans"):
        read(rows)


def test_words_without_sentences_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("word,tag\nAda,B-PER\nsings,O\n")
    with pytest.raises(InputError, match="no column says which sentence a word is in"):
        read(path)


def test_json_is_no_word_of_conll(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([task(TEXT, SPANS)]))
    with pytest.raises(
        InputError, match=r"x\.json:1: JSON, and no word with a label; `roberta-hub fit"
    ):
        read_words(tmp_path / "x.json")


# ---- odd rows of the tools ----

VALUE = {"start": 0, "end": 12, "text": "Ada Lovelace", "labels": ["PER"]}
HTML = {"start": "/p[1]", "end": "/p[1]", "startOffset": 0, "endOffset": 3}
NO_LABELS = "its result is no list of labels: x.json:2"
RESULTS: list[tuple[Any, str]] = [
    (None, NO_LABELS),
    ({}, NO_LABELS),
    ("abc", NO_LABELS),
    ([None], NO_LABELS),
    ([{"type": "labels"}], "a label without a value: x.json:2"),
    ([{"type": "labels", "value": None}], "a label without a value: x.json:2"),
    ([{"type": "labels", "value": [1]}], "a label without a value: x.json:2"),
    ([{"value": {**VALUE, "end": 99}}], "a span outside the text: x.json:2"),
    ([{"value": {**VALUE, "start": None}}], "a span without a start and an end: x.json:2"),
    ([{"value": {**VALUE, "start": "0"}}], "a span without a start and an end: x.json:2"),
    ([{"value": {**VALUE, "labels": None}}], "a span without a label: x.json:2"),
    ([{"value": {**VALUE, "labels": ["A", "B"]}}], "two labels for one span: x.json:2"),
    ([{"value": {**HTML, "hypertextlabels": ["PER"]}}], "its spans are hypertextlabels, whose"),
    ([{"type": "hypertextlabels", "value": {**HTML}}], "its spans are hypertextlabels, whose"),
    ([{"value": {**HTML, "paragraphlabels": ["PER"]}}], "its spans are paragraphlabels, whose"),
]


@pytest.mark.parametrize(("result", "said"), RESULTS)
def test_odd_results_of_label_studio_are_named(tmp_path: Path, result: Any, said: str) -> None:
    odd = {"data": {"text": TEXT}, "annotations": [{"result": result}]}
    (tmp_path / "x.json").write_text(json.dumps([task(TEXT, SPANS), odd]))
    found, left = read(tmp_path / "x.json")
    assert [e.spans for e in found] == [tuple(SPANS)]
    (note,) = left.notes()
    assert note.startswith(f"1 row not learnt, {said}")


def test_choices_and_relations_beside_labels_are_no_spans() -> None:
    one = task(TEXT, SPANS)
    one["annotations"][0]["result"] += [
        {"type": "choices", "value": {"choices": ["good"]}},
        {"type": "relation", "from_id": "a", "to_id": "b"},
    ]
    (found,), left = read([one])
    assert found.spans == tuple(SPANS) and not left.notes()


def test_predictions_are_no_annotations() -> None:
    guessed = {"data": {"text": TEXT}, "predictions": [{"result": [{"value": VALUE}]}]}
    _, left = read([task(TEXT, SPANS), guessed])
    assert left.notes() == ["1 row not learnt, it has predictions, which nobody accepted: table:2"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((TEXT, {"entities": None}), "its entities are no list"),
        ((TEXT, {"entities": 3}), "its entities are no list"),
        ((TEXT, {"entities": {"PER": [[0, 3]]}}), "its entities are no list"),
        ((TEXT, {"ents": []}), "no pair of a text and its entities"),
        ((TEXT, None), "no pair of a text and its entities"),
        ((TEXT,), "no pair of a text and its entities"),
        (None, "no pair of a text and its entities"),
        ((None, {"entities": []}), "no text"),
        ((TEXT, {"entities": [None]}), "a span without a start and an end"),
        ((TEXT, {"entities": [[[0, 3, "PER"]]]}), "a span without a start and an end"),
        ((TEXT, {"entities": [("0", "3", "PER")]}), "a span without a start and an end"),
        ((TEXT, {"entities": [(0, 300, "PER")]}), "a span outside the text"),
        ((TEXT, {"entities": [(0, 3, None)]}), "a span without a label"),
    ],
)
def test_odd_pairs_of_spacy_are_named(row: Any, said: str) -> None:
    good = (TEXT, {"entities": SPANS})
    found, left = read([good, row, good])
    assert [e.spans for e in found] == [tuple(SPANS)] * 2
    (note,) = left.notes()
    assert note.startswith(f"1 row not learnt, {said}: table:2")


@pytest.mark.parametrize(
    "value",
    [
        [["0", "3", "PER"]],
        [[0, 3]],
        [[[0, 3, "PER"]]],
        [{"start": 0, "end": 3}],
        [{"label": "PER", "token_start": 0, "token_end": 1}],
        {"entities": [[0, 3, "PER"]]},
    ],
)
@pytest.mark.parametrize("column", ["label", "entities", "spans"])
def test_a_column_of_what_is_nearly_a_span_is_named(column: str, value: Any) -> None:
    rows = [{"text": f"{TEXT} {i}", column: value} for i in range(9)]
    with pytest.raises(InputError, match=rf"^table:1: {column} holds .* which is no span; write"):
        span_table(rows)


def test_a_row_with_more_words_than_tags_costs_no_other_row() -> None:
    rows = [{"tokens": ["in", "Rome"], "ner_tags": ["O", "B-LOC"]} for _ in range(3)]
    found, left = read([*rows, {"tokens": ["in", "Bonn"], "ner_tags": ["O"]}])
    assert [row.spans for row in found] == [((3, 7, "LOC"),)] * 3
    assert left.notes() == ["1 row not learnt, not as many tags as words: table:4"]
