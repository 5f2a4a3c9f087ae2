"""Groups of near-duplicates are those of brute force; what is kept is near to no other."""

from __future__ import annotations

import csv
import json
import random
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("datasketch")

import forks
from indexed import WORDS

import roberta_hub
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.indexing.near_words import bands_of, shingles
from roberta_hub.text.learnt import folded


def near_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of which many are earlier ones with a word changed, or in another case."""
    draw = random.Random(seed)
    texts: list[str] = []
    for n in range(count):
        if texts and draw.random() < 0.4:
            words = draw.choice(texts).split()
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            texts.append(" ".join(words) if draw.random() < 0.8 else " ".join(words).upper())
        else:
            texts.append(" ".join([*draw.choices(WORDS, k=draw.randint(1, 40)), str(n)]))
    return texts


def jaccard(a: str, b: str) -> float:
    left, right = shingles(a), shingles(b)
    return len(left & right) / len(left | right)


def by_brute_force(texts: list[str], threshold: float) -> list[int]:
    """The group of each text, each compared with all that are kept."""
    sets, kept, groups = [shingles(text) for text in texts], list[int](), list[int]()
    for row, own in enumerate(sets):
        scores = [(len(own & sets[k]) / len(own | sets[k]), -k) for k in kept]
        best = max(scores, default=(0.0, 0))
        groups.append(-best[1] if best[0] >= threshold else row)
        kept += [row] if groups[-1] == row else []
    return groups


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_groups_are_those_of_brute_force(threshold: float) -> None:
    texts = near_texts(400)
    found = roberta_hub.duplicates(iter(texts), threshold=threshold)
    wanted = by_brute_force(texts, threshold)
    differ = sum(mine != its for mine, its in zip(found.group, wanted, strict=True))
    assert differ <= 0.02 * len(texts)  # MinHash misses a pair in a hundred at the threshold
    assert found.equal + found.near + len(found.kept) == found.rows == 400
    assert found.near > 30
    for row, (group, similarity) in enumerate(zip(found.group, found.similarity, strict=True)):
        assert similarity == pytest.approx(jaccard(texts[row], texts[group]))
        assert similarity >= threshold
        assert group <= row
        assert found.group[group] == group


def test_equal_is_equal_in_any_case_space_and_unicode_form() -> None:
    texts = ["Caf\u00e9 noir", "Cafe\u0301  NOIR", "Caf\u00e9 noir!", "tea", "TEA\n"]
    found = roberta_hub.duplicates(texts)
    assert list(found.group) == [0, 0, 0, 3, 3]
    assert (found.equal, found.near, found.kept) == (2, 1, [0, 3])
    assert json.loads(json.dumps(found.to_dict()))["group"] == [0, 0, 0, 3, 3]


def test_texts_of_scripts_without_spaces() -> None:
    found = roberta_hub.duplicates(
        ["我喜欢在公园里和我的狗一起玩。", "我喜欢在公园里和我的猫一起玩。", "今天下雨"],
        threshold=0.5,
    )
    assert list(found.group) == [0, 0, 2]


def test_no_text_is_lost_where_all_are_strange() -> None:
    texts = ["", "!!!", "\0", "\ud800", "!!!", " "]
    assert list(roberta_hub.duplicates(texts).group) == [0, 1, 2, 3, 1, 0]


def test_bands_find_a_pair_at_the_threshold() -> None:
    for threshold in (0.05, 0.3, 0.5, 0.7, 0.9, 1.0):
        bands, rows = bands_of(threshold)
        assert bands * rows <= 128
        assert 1 - (1 - threshold**rows) ** bands >= 0.98


@pytest.mark.parametrize("path", ["reviews.csv", Path("reviews.csv")])
def test_the_path_of_a_file_is_no_text(path: object) -> None:
    with pytest.raises(InputTypeError, match=r"reviews\.csv.*one text; pass several, or the path"):
        roberta_hub.duplicates(path)


@pytest.mark.parametrize("threshold", [0, 1.5, True, "0.8", float("nan")])
def test_a_threshold_that_is_none(threshold: object) -> None:
    with pytest.raises(InputError, match="threshold is"):
        roberta_hub.duplicates(["a"], threshold=threshold)


def test_vectors_are_those_of_an_index() -> None:
    with pytest.raises(InputError, match="by vectors, duplicates are found in an index"):
        roberta_hub.duplicates(["a"], by="vectors")


@pytest.mark.system
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_shell_writes_every_row_with_its_group(tmp_path: Path, ending: str) -> None:
    texts = near_texts(200)
    texts[7] = ""
    with open(tmp_path / "in.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *enumerate(texts)])
    words = ["duplicates", "-i", "in.csv", "-o", f"out.{ending}", "--threshold", "0.6"]
    done = forks.run("-m", "roberta_hub", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr  # the row without a text is named
    assert "in.csv:9" in done.stderr
    rows = read(tmp_path / f"out.{ending}")
    assert [int(row["id"]) for row in rows] == list(range(200))
    wanted = roberta_hub.duplicates([*texts[:7], "\0alone", *texts[8:]], threshold=0.6)
    for row, group in zip(rows, wanted.group, strict=True):
        if row["id"] not in (7, "7"):
            assert int(row["group"]) == group
            assert str(row["kept"]).lower() == str(int(row["id"]) == group).lower()
    assert rows[7]["group"] in (None, "")


def read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    pq = pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, object]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.system
@pytest.mark.usefixtures("_in_process")
@pytest.mark.parametrize("indexed", [False, True])
def test_by_vectors_as_brute_force(
    tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    pytest.importorskip("lancedb")
    from indexed import write_csv

    from roberta_hub.indexing import duplicates, near_vectors, store

    monkeypatch.setattr(store, "INDEXED_ROWS", 300 if indexed else 10**9)
    monkeypatch.setattr(duplicates, "ALL_COMPARED", 300 if indexed else 10**9)
    monkeypatch.setattr(near_vectors, "CANDIDATES", 4)  # asked for more where all are near
    texts, target = near_texts(400), tmp_path / "t.lance"
    roberta_hub.index(write_csv(tmp_path / "in.csv", texts), target, model=encoder, truncate=True)
    found = roberta_hub.duplicates(target, by="vectors", threshold=0.9)
    roberta = roberta_hub.load_model(encoder).eval()
    vectors = roberta.embed(texts, prompt_name="document", truncate=True)
    cosines = vectors @ vectors.T
    seen: set[str] = set()
    for row, (group, similarity) in enumerate(zip(found.group, found.similarity, strict=True)):
        assert similarity >= 0.9
        if folded(texts[row]) not in seen:  # else its similarity is that of the equal text
            assert similarity == pytest.approx(float(cosines[row, group]), abs=1e-4)
        seen.add(folded(texts[row]))
    kept = found.kept
    near = sum(float(cosines[a, b]) >= 0.9 + 1e-5 for a, b in combinations(kept, 2))
    assert near <= (0.02 * len(texts) if indexed else 0)
