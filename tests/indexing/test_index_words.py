"""In an index, words and vectors are joined, and a cross-encoder looks again, as in `search`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lancedb")

import forks
from indexed import sentences, write_csv
from lancedb.query import MatchQuery
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.inference.word_index import RANKED, words_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("_in_process")]
ROWS = 200
QUERIES = ["two dogs 17", "old snow and rain 3", "unknown"]
HOSTILE = {
    "quotes": '"dog" \'rain',
    "operators": "dog AND NOT rain OR",
    "a field": "text:dog lang:en",
    "brackets": "dog) OR (id > 3 --",
    "a pattern": "do* d?g dog~2 dog^9 +dog -dog",
    "an escape": "dog\\ \\",
    "empty": "",
    "white space": " \n\t",
    "only punctuation": "?! ... ¿",
    "a zero": "dog\0rain",
    "emoji": "🙂🙂",
    "Chinese": "我喜欢狗",
    "Thai": "ภาษาไทยง่ายมาก",
}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judge")
    small_roberta(heads={"grade": 1}).save(folder)
    return folder


@pytest.fixture
def made(tmp_path: Path, encoder: Path) -> Path:
    """An index of texts in two languages."""
    write_csv(tmp_path / "a.csv", sentences(ROWS))
    write_csv(tmp_path / "b.csv", sentences(40, seed=1), first=ROWS, lang="de")
    source = [tmp_path / "a.csv", tmp_path / "b.csv"]
    roberta_hub.index(source, tmp_path / "t.lance", key="id", model=encoder)
    return tmp_path / "t.lance"


def by_brute_force(
    index: Any, encoder: Path, query: str, where: str | None = None
) -> list[tuple[int, float]]:
    """Join LanceDB's ranking of the words with that of all cosines, as Cormack et al. say."""
    rows = index.table.search().where(where or "true").to_arrow().sort_by("_number").to_pylist()
    roberta = roberta_hub.load_model(encoder).eval()
    asked = roberta.embed(query, prompt_name="query")
    vectors = roberta.embed([row["text"] for row in rows], prompt_name="document")
    cosines = (vectors @ asked.flatten()).tolist()
    numbers = [row["_number"] for row in rows]
    near = sorted(zip(numbers, cosines, strict=True), key=lambda pair: -pair[1])
    found = index.table.search(MatchQuery(query, "text"), query_type="fts")
    words = found.where(where or "true").limit(RANKED).to_arrow().to_pylist()
    words.sort(key=lambda row: (-row["_score"], row["_number"]))
    sums = dict.fromkeys(numbers, 0.0)
    for ranking in ([number for number, _ in near], [row["_number"] for row in words]):
        for rank, number in enumerate(ranking, 1):
            sums[number] += 1 / (60 + rank)
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.parametrize("where", [None, "lang = 'de'"])
def test_two_rankings_are_joined(made: Path, encoder: Path, where: str | None) -> None:
    index = roberta_hub.open_index(made)
    for query, hits in zip(QUERIES, index.search(QUERIES, 8, words=True, where=where), strict=True):
        wanted = by_brute_force(index, encoder, query, where)[:8]
        assert [(hit.index, hit.score) for hit in hits] == wanted
        assert {hit.row["lang"] for hit in hits} <= ({"de"} if where else {"de", "en"})
        assert all(hit.row["id"] == str(hit.index) for hit in hits)
    assert (
        index.search(QUERIES[0], 8, words=True, where=where)
        == index.search(QUERIES[:1], 8, words=True, where=where)[0]
    )


def test_words_find_what_vectors_do_not(made: Path) -> None:
    index = roberta_hub.open_index(made)
    [hit] = index.search("zzz 117", 1, words=True)
    assert "117" in words_of(hit.text)


def test_rows_that_came_later_are_found_by_their_words(made: Path, tmp_path: Path) -> None:
    more = write_csv(tmp_path / "more.csv", ["an unheard xylophone"], first=900)
    roberta_hub.index(more, made)
    index = roberta_hub.open_index(made)
    assert index.search("Xylophone?", 1, words=True)[0].row["id"] == "900"
    replaced = write_csv(tmp_path / "new.csv", ["a drum"], first=900)
    roberta_hub.index(replaced, made)
    texts = [hit.text for hit in roberta_hub.open_index(made).search("drum", 300, words=True)]
    assert texts[0] == "a drum"
    assert "an unheard xylophone" not in texts
    row = {
        **index.table.search().limit(1).to_list()[0],
        "id": "901",
        "text": "a lute",
        "_number": 999,
    }
    index.table.add([row])  # by LanceDB itself, which leaves its index of the words as it is
    assert roberta_hub.open_index(made).search("lute", 1, words=True)[0].row["id"] == "901"


@pytest.mark.parametrize("kind", HOSTILE)
def test_queries_are_texts_and_no_syntax(made: Path, kind: str) -> None:
    index = roberta_hub.open_index(made)
    query = HOSTILE[kind]
    plain = " ".join(words_of(query))
    found, near = index.search([query], 300, words=True)[0], index.search([query], 300)[0]
    assert {hit.index for hit in found} == {hit.index for hit in near} == {*range(ROWS + 40)}
    sharing = index.table.search(MatchQuery(plain, "text"), query_type="fts").limit(RANKED)
    scores = {hit.index: hit.score for hit in found}
    sums = {hit.index: 1 / (60 + rank) for rank, hit in enumerate(near, 1)}
    more = {number for number in scores if scores[number] > sums[number]}
    assert more == {row["_number"] for row in sharing.to_list()}
    assert bool(more) == ("dog" in query)


def test_a_query_of_many_words(made: Path) -> None:
    index = roberta_hub.open_index(made)
    query = " ".join(sentences(3000))
    assert len(words_of(query)) > 10_000
    with pytest.raises(InputError, match=r"too long|tokens"):
        index.search(query, words=True)
    assert len(index.search(query, 5, words=True, truncate=True)) == 5


def test_a_text_of_another_script_is_found_by_one_word(tmp_path: Path, encoder: Path) -> None:
    source = write_csv(tmp_path / "in.csv", ["A dog", "我喜欢狗", "ภาษาไทยง่ายมาก", "Ein Café"])
    roberta_hub.index(source, tmp_path / "t.lance", model=encoder)
    index = roberta_hub.open_index(tmp_path / "t.lance")
    for query, place in (("狗", 1), ("ง่าย", 2), ("CAFE\u0301", 3)):
        [hit] = index.search(query, 1, words=True)
        assert hit.index == place


@pytest.mark.parametrize("words", [False, True])
def test_a_second_look(made: Path, encoder: Path, judge: Path, words: bool) -> None:
    index, second = roberta_hub.open_index(made), roberta_hub.load_model(judge).eval()
    found = index.search(QUERIES, 3, rerank=second, words=words)
    for query, hits, first in zip(
        QUERIES, found, index.search(QUERIES, 20, words=words), strict=True
    ):
        wanted = second.rank(query, [hit.text for hit in first], 3)
        assert [(hit.index, hit.row) for hit in hits] == [
            (first[hit.index].index, first[hit.index].row) for hit in wanted
        ]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], abs=1e-6)
    if not words:
        texts = [*sentences(ROWS), *sentences(40, seed=1)]
        its = roberta_hub.load_model(encoder).eval().search(QUERIES, texts, 3, rerank=second)
        assert [[hit.index for hit in own] for own in found] == [
            [hit.index for hit in own] for own in its
        ]


def test_what_is_refused(made: Path, judge: Path) -> None:
    index, second = roberta_hub.open_index(made), roberta_hub.load_model(judge).eval()
    vectors = index._model().embed(["a"])
    tries: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"words": "no"}, InputTypeError, "words is 'no'"),
        ({"queries": vectors, "words": True}, InputTypeError, "words, and queries is vectors"),
        ({"queries": vectors, "rerank": second}, InputTypeError, "and queries is vectors"),
        ({"queries": [("a", "b")], "rerank": second}, InputTypeError, r"queries\[0\]: a pair"),
        ({"rerank": "a.name"}, InputTypeError, "rerank is a str; pass a cross-encoder"),
        ({"rerank": small_roberta()}, UnknownNameError, "one output"),
        ({"words": True, "where": "colour = 'red'"}, InputError, "Its columns: id, text, lang"),
        ({"words": True, "topk": 0}, InputError, "topk"),
    ]
    for changes, error, says in tries:
        with pytest.raises(error, match=says):
            index.search(**{"queries": ["a"], **changes})
    assert isinstance(second, RobertaHubInterface)


def test_the_shell_joins_and_looks_again(made: Path, judge: Path, tmp_path: Path) -> None:
    index, second = roberta_hub.open_index(made), roberta_hub.load_model(judge).eval()
    mine = index.search("two dogs 17", 2, words=True, rerank=second, where="lang = 'en'")
    given = ["similar", "two dogs 17", "-i", "t.lance", "-k", "2", "-f", "jsonl"]
    given += ["--words", "--rerank", str(judge), "--where", "lang = 'en'"]
    found = forks.run("-m", "roberta_hub", *given, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    hits = json.loads(found.stdout)["hits"]
    assert [(hit["index"], hit["row"]) for hit in hits] == [(hit.index, hit.row) for hit in mine]
    assert [hit["score"] for hit in hits] == pytest.approx([hit.score for hit in mine], abs=1e-5)
    found = forks.run("-m", "roberta_hub", *given[:4], "--truncate-dim", "8", cwd=tmp_path)
    assert found.returncode == 2
    assert "an index knows its width" in found.stderr
