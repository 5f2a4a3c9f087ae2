"""An index holds each row once, finds what an exact search finds, and refuses mixed vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lancedb")

import forks
from indexed import rows_of, sentences, write_csv, write_encoder

import roberta_hub
from roberta_hub.errors import InputError, LakeError, RobertaHubError
from roberta_hub.indexing import store

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("_in_process")]
ROWS = 120


@pytest.fixture
def made(tmp_path: Path, encoder: Path) -> Path:
    """An index of texts with a key."""
    source = write_csv(tmp_path / "in.csv", sentences(ROWS))
    found = roberta_hub.index(source, tmp_path / "t.lance", key="id", model=encoder, unit_rows=50)
    assert (found.rows, found.taken) == (ROWS, ROWS)
    return tmp_path / "t.lance"


def test_hits_are_those_of_search(made: Path, encoder: Path) -> None:
    texts, queries = sentences(ROWS), ["two dogs", "old snow and rain"]
    roberta = roberta_hub.load_model(encoder).eval()
    index = roberta_hub.open_index(made)
    assert len(index) == ROWS
    for mine, its in zip(index.search(queries, 7), roberta.search(queries, texts, 7), strict=True):
        assert [(hit.index, hit.text) for hit in mine] == [(hit.index, hit.text) for hit in its]
        assert [hit.score for hit in mine] == pytest.approx([hit.score for hit in its], abs=1e-5)
        assert mine[0].row == {"id": str(mine[0].index), "lang": "en"}
    [hit] = index.search("two dogs", topk=1)
    assert isinstance(hit, roberta_hub.Hit)
    assert json.dumps(hit.to_dict())
    assert index.search(roberta.embed(["two dogs"], prompt_name="query"), 1) == [[hit]]


def test_the_same_call_adds_nothing(made: Path) -> None:
    before = roberta_hub.open_index(made).table.version
    assert roberta_hub.index(made.with_name("in.csv"), made).taken == 0
    assert roberta_hub.open_index(made).table.version == before
    assert sorted(path.name for path in made.parent.iterdir()) == ["in.csv", "t.lance"]


def test_rows_are_updated_and_added_by_their_key(made: Path, tmp_path: Path) -> None:
    changed = write_csv(tmp_path / "more.csv", ["a new text", "another"], first=ROWS - 1, lang="de")
    assert roberta_hub.index(changed, made).rows == ROWS + 1
    rows = dict(rows_of(made))
    assert len(rows) == ROWS + 1
    assert (rows[str(ROWS - 1)], rows[str(ROWS)]) == ("a new text", "another")
    index = roberta_hub.open_index(made)
    assert [hit.text for hit in index.search("a new text", 9, where="lang = 'de'")] == [
        "a new text",
        "another",
    ]


def test_without_a_key_no_row_is_taken_twice(tmp_path: Path, encoder: Path) -> None:
    source, target = write_csv(tmp_path / "in.csv", ["a dog", "some rain"]), tmp_path / "t.lance"
    roberta_hub.index(source, target, model=encoder)
    write_csv(source, ["a dog", "some rain", "snow"])
    with pytest.raises(InputError, match=r"in\.csv was taken .* has changed since.* --?key|key="):
        roberta_hub.index(source, target)
    more = write_csv(tmp_path / "more.csv", ["snow"], first=2)
    assert roberta_hub.index(more, target).rows == 3
    assert [hit.index for hit in roberta_hub.open_index(target).search("snow", 1)] == [2]


def test_keys_are_there_once(tmp_path: Path, encoder: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\n1,a dog\n1,some rain\n")
    with pytest.raises(InputError, match="2 rows have the id '1'; a key names one row"):
        roberta_hub.index(source, tmp_path / "t.lance", key="id", model=encoder)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_rows_without_a_text_are_named_and_the_others_indexed(
    tmp_path: Path, encoder: Path
) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "t.lance"
    source.write_text("id,text\n1,a dog\n2,\n3,some rain\n")
    with pytest.raises(LakeError, match=r"in\.csv:3"):
        roberta_hub.index(source, target, model=encoder)
    assert rows_of(target) == [("1", "a dog"), ("3", "some rain")]
    assert [hit.index for hit in roberta_hub.open_index(target).search("some rain", 1)] == [2]


MIXED = {
    "another model": ({"model": "OTHER"}, "by .*other"),
    "another pooling": ({"model": "POOLING"}, "by .*pooling.*two models cannot be compared"),
    "another prompt": ({"prompt": "x: "}, "the prompt of its texts is 'text: ', and would be 'x"),
    "another query prompt": ({"query_prompt": ""}, "the prompt of queries"),
    "another dtype": ({"dtype": "float16"}, "the dtype of its vectors"),
    "another width": ({"truncate_dim": 8}, "the width of its vectors is 32, and would be 8"),
    "another precision of the model": ({"optimize": "int8"}, "how its model computes is none"),
    "another key": ({"key": "lang"}, "the key is 'id', and would be 'lang'"),
    "another text": ({"text": "lang"}, "the column with the texts"),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_mixed_index_is_refused(made: Path, other: Path, tmp_path: Path, case: str) -> None:
    given, said = MIXED[case]
    if given.get("model") == "OTHER":
        given = {"model": other}
    if given.get("model") == "POOLING":  # the same weights
        given = {"model": write_encoder(tmp_path / "pooling", pooling=("cls",))}
    more, before = write_csv(tmp_path / "more.csv", ["x"], first=999), rows_of(made)
    with pytest.raises(InputError, match=said):
        roberta_hub.index(more, made, **given)
    assert rows_of(made) == before
    assert not made.with_name("t.lance.units").exists()


def test_a_changed_model_at_the_same_path_is_refused(tmp_path: Path) -> None:
    source, target = write_csv(tmp_path / "in.csv", ["a dog"]), tmp_path / "t.lance"
    folder = write_encoder(tmp_path / "mine")
    roberta_hub.index(source, target, model=folder)
    write_encoder(tmp_path / "mine", seed=5)
    from roberta_hub.scale import models

    models._load.cache_clear()
    with pytest.raises(InputError, match=r"digest \w{12}\), and the query is by .*digest \w{12}"):
        roberta_hub.open_index(target).search("a dog")
    with pytest.raises(InputError, match="vectors of two models cannot be compared"):
        roberta_hub.index(write_csv(tmp_path / "more.csv", ["b"]), target)


def test_a_query_by_another_model_names_both(made: Path, encoder: Path, other: Path) -> None:
    with pytest.raises(InputError, match=f"vectors of {encoder}.*the query is by {other}"):
        roberta_hub.open_index(made, other)
    with pytest.raises(InputError, match="two models cannot be compared"):
        roberta_hub.open_index(made, roberta_hub.load_model(other))
    assert len(roberta_hub.open_index(made, encoder).search("dog", 2)) == 2
    with pytest.raises(InputError, match="width"):
        roberta_hub.open_index(made).search(roberta_hub.load_model().embed(["a"]))


def test_conditions_that_cannot_be_asked(made: Path) -> None:
    index = roberta_hub.open_index(made)
    for where in ("colour = 'red'", "id = = 3", "lang"):
        with pytest.raises(InputError, match="Its columns: id, text, lang"):
            index.search("dog", where=where)


def test_a_vector_index_of_many_rows_finds_what_is_exact(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store, "INDEXED_ROWS", 300)
    more = write_csv(tmp_path / "more.csv", sentences(400, seed=1), first=ROWS)
    assert roberta_hub.index(more, made).rows == ROWS + 400
    index = roberta_hub.open_index(made)
    assert any("vector" in each.columns for each in index.table.list_indices())
    last = write_csv(tmp_path / "last.csv", sentences(50, seed=2), first=ROWS + 400)
    roberta_hub.index(last, made)
    index = roberta_hub.open_index(made)
    assert not any(each.num_unindexed_rows for each in index.table.list_indices())
    queries = sentences(40, seed=3)
    pairs = zip(index.search(queries, 10), index.search(queries, 10, exact=True), strict=True)
    shared = [len({h.index for h in a} & {h.index for h in b}) for a, b in pairs]
    assert sum(shared) >= 0.95 * 400


def test_half_the_bytes_and_the_first_numbers(tmp_path: Path, encoder: Path) -> None:
    source = write_csv(tmp_path / "in.csv", sentences(30))
    roberta_hub.index(source, tmp_path / "t.lance", model=encoder, dtype="float16", truncate_dim=8)
    index = roberta_hub.open_index(tmp_path / "t.lance")
    assert str(index.table.schema.field("vector").type).startswith(
        "fixed_size_list<item: halffloat"
    )
    roberta = roberta_hub.load_model(encoder).eval()
    vectors = roberta.embed(sentences(30), prompt_name="document", truncate_dim=8)
    query = roberta.embed(["a dog"], prompt_name="query", truncate_dim=8)
    [hits] = roberta.search(query, vectors, topk=5)
    found = index.search("a dog", 5)
    assert [hit.index for hit in found] == [hit.index for hit in hits]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in hits], abs=2e-3)


def test_columns_stay_those_of_the_index(tmp_path: Path, encoder: Path) -> None:
    source, target = write_csv(tmp_path / "in.csv", ["a dog"]), tmp_path / "t.lance"
    roberta_hub.index(source, target, model=encoder, keep=["id"])
    more = write_csv(tmp_path / "more.csv", ["snow"], first=1)
    roberta_hub.index(more, target)
    assert [hit.row for hit in roberta_hub.open_index(target).search("snow", 1)] == [{"id": "1"}]
    with pytest.raises(InputError, match=r"'lang' holds None, .* would hold string"):
        roberta_hub.index(write_csv(tmp_path / "b.csv", ["x"]), target, keep=["id", "lang"])
    (tmp_path / "c.csv").write_text("text,lang\nx,en\n")
    with pytest.raises(RobertaHubError, match=r"no column 'id'"):
        roberta_hub.index(tmp_path / "c.csv", target)
    assert not target.with_name("t.lance.units").exists()


def test_what_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no index there"):
        roberta_hub.open_index(tmp_path / "none.lance")
    with pytest.raises(InputError, match=r"ends in \.lance"):
        roberta_hub.open_index(tmp_path / "none.parquet")
    import lancedb
    import pyarrow as pa

    lancedb.connect(tmp_path).create_table("foreign", data=pa.table({"a": [1]}))
    with pytest.raises(InputError, match="does not say which model its vectors are of"):
        roberta_hub.open_index(tmp_path / "foreign.lance")


def shell(*words: object, cwd: Path) -> Any:
    return forks.run("-m", "roberta_hub", *map(str, words), cwd=cwd)


def test_the_shell(made: Path, other: Path, tmp_path: Path) -> None:
    found = shell("similar", "a dog", "-i", "t.lance", "-k", 2, "-f", "jsonl", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    hits = json.loads(found.stdout)["hits"]
    mine = roberta_hub.open_index(made).search("a dog", 2)
    assert [hit["index"] for hit in hits] == [hit.index for hit in mine]
    assert hits[0]["row"] == mine[0].row
    found = shell("similar", "a dog", "-i", "t.lance", "--where", "lang = 'fr'", cwd=tmp_path)
    assert (found.returncode, json.loads(found.stdout)["hits"]) == (0, [])
    found = shell("similar", "a dog", "-i", "t.lance", "-m", other, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (1, "")
    assert "two models cannot be compared" in found.stderr
    write_csv(tmp_path / "more.csv", ["x"], first=999)
    found = shell("index", "more.csv", "-m", other, "-o", "t.lance", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (1, "")
    assert "two models cannot be compared" in found.stderr
    found = shell("duplicates", "-i", "t.lance", "--by", "vectors", "-m", other, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert "no model is asked here" in found.stderr
    found = shell("similar", "a dog", "-i", "in.csv", "--exact", cwd=tmp_path)
    assert found.returncode == 2
    assert "for an index" in found.stderr
    found = shell("index", "in.csv", "-o", "t.lance", "-f", "json", cwd=tmp_path)
    assert (found.returncode, json.loads(found.stdout)["taken"]) == (0, 0), found.stderr
