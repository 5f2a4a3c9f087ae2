"""A Verb answers every kind of table as the plain call answers its texts."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow")

from lakes import TEXT, pairs, write_model  # noqa: E402

from roberta_hub import RobertaHubInterface  # noqa: E402
from roberta_hub.errors import (  # noqa: E402
    Advice,
    InputError,
    InputTypeError,
    RobertaHubError,
    UnknownNameError,
)
from roberta_hub.hub import load_model  # noqa: E402
from roberta_hub.inference.batching import Options  # noqa: E402
from roberta_hub.scale import Verb  # noqa: E402
from roberta_hub.scale.columns import SHARED_OPTIONS  # noqa: E402
from roberta_hub.verbs.table import QUESTIONS  # noqa: E402

ROWS = 12
SINGLE = [row["premise"] for row in pairs(ROWS)]
PAIRS = [(row["premise"], row["hypothesis"]) for row in pairs(ROWS)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def roberta(model: Path) -> RobertaHubInterface:
    return load_model(model)


@pytest.fixture(scope="module")
def table() -> Any:
    return pa.Table.from_pylist(pairs(ROWS))


@pytest.fixture(scope="module")
def classify(model: Path) -> Verb:
    return Verb("classify", model, text=TEXT)


def test_every_kind_of_table_gets_the_same_answers(classify: Verb, table: Any) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    wanted = classify(table)
    assert wanted.column_names == ["id", *TEXT, "label", "score"]
    batch = table.to_batches()[0]
    assert isinstance(classify(batch), pa.RecordBatch)
    assert pa.Table.from_batches([classify(batch)]).equals(wanted)
    stream = classify(iter([batch, batch.slice(0, 0), batch]))
    assert [len(part) for part in stream] == [ROWS, 0, ROWS]
    frame = table.to_pandas()
    frame.index = range(100, 100 + ROWS)
    found = classify(frame)
    assert isinstance(found, pandas.DataFrame) and list(found.index) == list(frame.index)
    assert list(found["label"]) == wanted["label"].to_pylist()
    found = classify(polars.from_arrow(table))
    assert isinstance(found, polars.DataFrame)
    assert found["score"].to_list() == wanted["score"].to_pylist()
    lists = classify({name: table[name].to_pylist() for name in table.column_names})
    assert lists == wanted.to_pydict()
    arrays = classify({name: np.array(table[name].to_pylist()) for name in table.column_names})
    assert arrays["label"].tolist() == wanted["label"].to_pylist()
    assert arrays["score"].dtype == np.float32


def test_vectors_are_lists_of_a_fixed_size(model: Path, roberta: Any, table: Any) -> None:
    wanted = roberta.embed(SINGLE)
    for vectors, dtype, kind in (
        ("float32", np.float32, pa.float32()),
        ("float16", np.float16, pa.float16()),
    ):
        verb = Verb("embed", model, text="premise", vectors=vectors)
        found = verb(table)
        assert found.schema.field("vector").type == pa.list_(kind, 32)
        arrays = verb({"premise": np.array(SINGLE)})["vector"]
        assert (arrays.shape, arrays.dtype) == ((ROWS, 32), dtype)
        assert np.allclose(arrays, wanted.numpy(), atol=2e-3 if vectors == "float16" else 1e-6)
    cut = Verb("embed", model, text="premise", truncate_dim=8)(table)
    assert cut.schema.field("vector").type == pa.list_(pa.float32(), 8)
    with pytest.warns(Advice, match="1 row of the table without a text: 1; their answers are null"):
        hole = verb({"premise": np.array(["a", None], dtype=object)})["vector"]
    assert np.isnan(hole[1]).all() and not np.isnan(hole[0]).any()


@pytest.mark.system
def test_every_verb_answers_as_the_plain_call(model: Path, roberta: Any, table: Any) -> None:
    def near(found: Any, wanted: Any) -> None:
        assert np.allclose(np.array(found, float), np.array(wanted, float), atol=1e-5)

    def ask(verb: str, text: Any = "premise", **options: Any) -> Any:
        return Verb(verb, model, text=text, **options)(table)

    found = ask("zero_shot", labels=["art", "sport"], scores=True)
    wanted = roberta.zero_shot(SINGLE, ["art", "sport"])
    assert found["label"].to_pylist() == [p.label for p in wanted]
    near([row["art"] for row in found["scores"].to_pylist()], [p.scores["art"] for p in wanted])
    for by in ("meaning", "both"):
        found = Verb("zero_shot", labels=["art", "sport"], text="premise", by=by)(table)
        wanted = load_model("roberta.tiny").zero_shot(SINGLE, ["art", "sport"], by=by)
        near(found["score"].to_pylist(), [p.score for p in wanted])
    found, wanted = (
        ask("classify", TEXT, multi_label=True),
        roberta.classify(PAIRS, multi_label=True),
    )
    near(found["score"].to_pylist(), [p.score for p in wanted])
    near(
        ask("features", TEXT, pooling="cls")["vector"].to_pylist(),
        roberta.features(PAIRS, pooling="cls").tolist(),
    )
    near(
        ask("similarity", TEXT)["similarity"].to_pylist(),
        [roberta.similarity(a, b).item() for a, b in PAIRS],
    )
    found = ask("score")
    near(found["score"].to_pylist(), roberta.score(SINGLE))
    assert found.schema.field("score").type == pa.float64()
    assert found["tokens"].to_pylist() == [len(roberta.tokenize(text)) for text in SINGLE]
    masked = pa.table({"text": ["a <mask> ran", "<mask> and <mask>"]})
    words = Verb("fill_mask", model, topk=2)(masked)["words"].to_pylist()
    assert [(w["mask"], w["filled"]) for w in words[0]] == [
        (1, filled) for filled, _, _ in roberta.fill_mask("a <mask> ran", topk=2)
    ]
    assert [w["mask"] for w in words[1]] == [1, 1, 2, 2]
    spans = ask("tag")["spans"].to_pylist()
    wanted = [[span.to_dict() for span in spans] for spans in roberta.tag(SINGLE)]
    assert [[s["text"] for s in row] for row in spans] == [[s["text"] for s in r] for r in wanted]
    found = ask("answer", TEXT, no_answer=False)
    wanted = [roberta.answer(*pair, no_answer=False) for pair in PAIRS]
    assert found["answer"].to_pylist() == [a.text for a in wanted]
    assert found["start"].to_pylist() == [a.start for a in wanted]
    found = ask("answer", TEXT, topk=2)
    best = [roberta.answer(*pair, topk=2) for pair in PAIRS]
    assert [[a["answer"] for a in row] for row in found["answers"].to_pylist()] == [
        [a.text for a in row] for row in best
    ]
    assert found["end"].to_pylist() == [row[0].end for row in best]
    found = ask("choose", options=["in water", "in trees"], head="race")
    wanted = [roberta.choose(text, ["in water", "in trees"], "race") for text in SINGLE]
    assert found["label"].to_pylist() == [p.label for p in wanted]
    own = pa.table({"q": ["Where?"], "a": ["in water"], "b": ["in trees"]})
    assert len(Verb("choose", model, text=["q", "a", "b"], head="race")(own)["options"][0]) == 2


def test_score_counts_the_tokens_that_were_read(model: Path, roberta: RobertaHubInterface) -> None:
    found = Verb("score", model, truncate=True)({"text": ["long " * 60]})
    assert found["tokens"] == [roberta.max_positions - 2]
    assert found["per_token"][0] == pytest.approx(found["score"][0] / found["tokens"][0])


def test_options_are_those_of_the_interface() -> None:
    shared = {"progress", "texts", "masked_input", "question", "context", "self", "settings"}
    for verb, question in QUESTIONS.items():
        takes = set(inspect.signature(getattr(RobertaHubInterface, verb)).parameters)
        own = takes - shared - {"a", "b"} - ({"options"} if verb != "choose" else set())
        own -= {"query", "topk"} if verb == "rank" else set()  # of all texts of a query
        assert question.keywords == own | ({"scores"} if "multi_label" in own else set()), verb
    assert set(Options.__annotations__) == SHARED_OPTIONS | {"progress"}


def test_nulls_and_rows_at_fault(model: Path, table: Any) -> None:
    texts = ["a dog ran", None, "long " * 60, "", 5]
    rows = {"text": texts}
    verb = Verb("embed", model, errors="column")
    found = verb(rows)
    assert [v is None for v in found["vector"]] == [False, True, True, False, True]
    assert [e is None for e in found["error"]] == [True, False, False, True, False]
    assert found["error"][1] == "nothing in the column 'text'"
    assert "too long" in found["error"][2] and "holds 5" in found["error"][4]
    with pytest.raises(InputError, match="row 2 of the table: too long"):
        Verb("embed", model)(rows)
    assert Verb("embed", model, truncate=True, errors="column")(rows)["error"][2] is None
    assert found["vector"][0] == pytest.approx(
        Verb("embed", model)({"text": texts[:1]})["vector"][0]
    )
    empty = verb(pa.table({"text": pa.array([], pa.string())}))
    assert empty.schema == pa.schema([("text", pa.string()), *verb.schema()])
    assert verb({"text": [None, None]})["error"] == ["nothing in the column 'text'"] * 2
    pandas = pytest.importorskip("pandas")
    holes = pandas.DataFrame({"text": ["a", None, float("nan"), pandas.NA]})
    assert verb(holes)["vector"].isna().tolist() == [False, True, True, True]


def test_a_verb_holds_names_only(classify: Verb, table: Any, model: Path) -> None:
    classify(table)
    data = pickle.dumps(classify)
    assert len(data) < 1000
    assert pickle.loads(data)(table).equals(classify(table))
    assert "premise" in repr(classify)


def test_threads_are_set_for_the_call_only(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    seen = []
    question = QUESTIONS["embed"]

    def spy(*given: Any, **options: Any) -> Any:
        seen.append(torch.get_num_threads())
        return question.answers(*given, **options)

    monkeypatch.setitem(QUESTIONS, "embed", replace(question, answers=spy))
    Verb("embed", model, threads=2)({"text": ["a"]})
    Verb("embed", model)({"text": ["a"]})
    assert set(seen) == {2, 1} and torch.get_num_threads() == before


def test_what_a_verb_refuses(model: Path, roberta: Any, table: Any) -> None:
    for make, error, said in (
        (lambda: Verb("clasify", model), UnknownNameError, "did you mean classify"),
        (lambda: Verb("search", model), UnknownNameError, "answers a row by itself"),
        (lambda: Verb("classify", roberta), InputTypeError, "pass a name, or the folder"),
        (lambda: Verb("classify", model, heads="x"), InputTypeError, "did you mean head="),
        (lambda: Verb("classify", model, text=[]), InputError, "text is"),
        (lambda: Verb("tag", model, text=TEXT), InputError, "tag takes 1"),
        (lambda: Verb("answer", model), InputError, 'text=\\("question", "context"\\)'),
        (lambda: Verb("choose", model, text=TEXT), InputError, "choose takes 3 or more"),
        (lambda: Verb("embed", model, vectors="float64"), InputError, "vectors"),
        (lambda: Verb("embed", model, optimize="int4"), InputError, "optimize"),
        (lambda: Verb("embed", model, threads=0), InputError, "threads"),
        (lambda: Verb("embed", model, errors="ignore"), InputError, "errors"),
        (lambda: Verb("embed", model)(table), InputError, "which column holds the texts"),
        (lambda: Verb("embed", model, text="x")(table), UnknownNameError, "Its columns: id"),
        (lambda: Verb("embed", model)(["a"]), InputTypeError, "the table is a list"),
        (lambda: Verb("embed", model)("a"), InputTypeError, "the table is a str"),
        (lambda: Verb("features", model)({"text": ["a"]}), InputError, 'pass pooling="mean"'),
        (lambda: Verb("embed", "no.such")({"text": ["a"]}), RobertaHubError, "no.such"),
        (lambda: Verb("classify", model, text=TEXT, head="no")(table), UnknownNameError, "'no'"),
        (lambda: Verb("embed", model)({"text": ["a"], "vector": [1]}), InputError, "prefix=TEXT"),
    ):
        with pytest.raises(error, match=said):
            make()
    polars = pytest.importorskip("polars")
    with pytest.raises(InputTypeError, match="collect"):
        Verb("embed", model)(polars.LazyFrame({"text": ["a"]}))


def test_hostile_arguments_of_a_verb(model: Path) -> None:
    values: list[Any] = [None, -1, 10**400, float("nan"), "", "a\0b", "\ud800", b"x", [], (), {}]
    values += [set(), object(), 1j, True, [None], lambda: None, ["a"], torch.ones(2)]
    names = ["verb", "model", "text", "optimize", "device", "dtype", "threads", "vectors", "errors"]
    names += ["prefix", "labels", "hypothesis", "head", "multi_label", "scores", "truncate"]
    names += ["by"]
    names += ["stride", "batch_tokens"]
    for name in names:
        for value in values:
            told: dict[str, Any] = {"verb": "zero_shot", "model": model, "labels": ["a", "b"]}
            try:
                Verb(**{**told, name: value})({"text": ["a dog"]})
            except RobertaHubError as error:
                assert str(error)


def test_old_names_of_methods_warn() -> None:
    verb = Verb("score", threads=1)
    with pytest.warns(DeprecationWarning, match=r"Verb\.arguments"):
        assert verb.names() == verb.arguments()
    with pytest.warns(DeprecationWarning, match=r"Verb\.replace"):
        assert verb.but(threads=2).arguments() == {**verb.arguments(), "threads": 2}
