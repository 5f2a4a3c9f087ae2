"""Folds hold every row once, no text twice, and the labels alike."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roberta_hub.errors import InputError
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.split import folds, group_duplicates

NAMES = st.sampled_from("abcde")


def rows(texts: list[int], labels: list[tuple[str, ...]]) -> list[LabelledText]:
    pairs = zip(texts, labels, strict=True)
    return [LabelledText(f"text {text}", own, f"t:{i}") for i, (text, own) in enumerate(pairs, 1)]


def made(found: list[LabelledText], count: int, task: str, seed: int = 1) -> list[list[int]]:
    groups = group_duplicates(found, [])
    parts = folds(found, groups, count, seed, task)
    assert len(parts) == count and all(part == sorted(part) for part in parts)
    assert sorted(i for part in parts for i in part) == list(range(len(found)))
    where = {i: k for k, part in enumerate(parts) for i in part}
    assert all(len({where[i] for i in group}) == 1 for group in groups)
    assert folds(found, groups, count, seed, task) == parts
    return parts


@settings(deadline=None)
@given(st.data(), st.integers(2, 6), st.integers(0, 9))
def test_classes_are_in_every_fold(data: st.DataObject, count: int, seed: int) -> None:
    """Texts may have several rows; here all rows of a text have one class."""
    texts = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=120))
    texts += range(41, 41 + count)
    label = {text: data.draw(NAMES) for text in sorted(set(texts))}
    found = rows(texts, [(label[text],) for text in texts])
    parts = made(found, count, "classification", seed)
    largest = max(Counter(texts).values())
    for name in set(label.values()):
        held = [sum(found[i].labels == (name,) for i in part) for part in parts]
        if sum(own == name for own in label.values()) >= count:
            assert min(held) > 0
        assert max(held) - min(held) <= largest
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= largest * len(set(label.values()))


@settings(deadline=None)
@given(st.lists(NAMES, min_size=6, max_size=200), st.integers(2, 6))
def test_without_doubled_texts_folds_differ_by_one_row(labels: list[str], count: int) -> None:
    found = rows(list(range(len(labels))), [(label,) for label in labels])
    sizes = [len(part) for part in made(found, count, "classification")]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(st.data(), st.integers(2, 5))
def test_several_labels(data: st.DataObject, count: int) -> None:
    labels = data.draw(st.lists(st.sets(NAMES), min_size=count, max_size=80))
    found = rows(list(range(len(labels))), [tuple(sorted(own)) for own in labels])
    parts = made(found, count, "multi_label")
    rarest, rows_of_it = min(
        Counter(name for own in labels for name in own or {""}).items(), key=lambda item: item[::-1]
    )
    held = [sum(rarest in (found[i].labels or ("",)) for i in part) for part in parts]
    assert max(held) - min(held) <= 1 and sum(held) == rows_of_it


def test_many_labels_are_spread_better_than_by_chance() -> None:
    """Forty labels of falling frequency; a row has two or three of them, every ninth none."""
    labels = [
        tuple({f"l{(i * i) % 7}", f"l{(i * 13) % 40}", f"l{i % 3}"}) if i % 9 else ()
        for i in range(400)
    ]
    found = rows(list(range(400)), labels)
    parts = made(found, 5, "multi_label")
    for name in {name for own in labels for name in own}:
        held = [sum(name in found[i].labels for i in part) for part in parts]
        assert min(held) > 0 or sum(held) < 5
        assert max(held) - min(held) <= 5, (name, held)
    assert [sum(not found[i].labels for i in part) for part in parts] == [9] * 5
    assert all(76 <= len(part) <= 84 for part in parts)


def test_numbers_are_spread_by_their_order() -> None:
    found = rows(list(range(100)), [(repr(i * i / 7),) for i in range(100)])
    parts = made(found, 5, "regression")
    assert [len(part) for part in parts] == [20] * 5
    for part in parts:  # one of every five that follow each other
        assert [i // 5 for i in part] == list(range(20))
    firsts = [sum(i % 5 for i in part) for part in parts]
    assert max(firsts) - min(firsts) < 40  # and not always the least of the five


def test_the_seed_decides() -> None:
    found = rows(list(range(60)), [("ab"[i % 2],) for i in range(60)])
    assert made(found, 3, "classification", 1) != made(found, 3, "classification", 2)


def test_texts_with_several_classes_are_spread_too() -> None:
    found = rows([i // 2 for i in range(60)], [("ab"[i % 2],) for i in range(60)])
    for part in made(found, 5, "classification"):
        assert Counter(found[i].labels[0] for i in part) == {"a": 6, "b": 6}


def test_more_folds_than_texts() -> None:
    found = rows([0, 0, 1], [("a",), ("a",), ("b",)])
    with pytest.raises(InputError, match="3 folds of 2 different texts; there are too few"):
        folds(found, group_duplicates(found, []), 3, 1, "classification")
