"""`mine.fitted.next`: texts worth labelling, against a plain search over all choices."""

import copy
import csv
import itertools
import json
import pickle
from pathlib import Path

import forks
import pytest
import torch

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.train.fitting.next_texts import CANDIDATES, facility_location

FILMS = ("A lovely film", "A dull film", "What a film", "The worst play", "The best play")
ROWS = [
    {"text": f"{film} of {i}.", "label": "bad" if k % 2 else "good"}
    for i in range(4)
    for k, film in enumerate(FILMS)
]
POOL = [
    *(
        f"The {thing} is {word}."
        for thing in ("film", "play", "bus")
        for word in ("bad", "red", "mine")
    ),
    *(f"Number {i} came late." for i in range(30)),
]


@pytest.fixture(scope="module")
def mine() -> RobertaHubInterface:
    return roberta_hub.fit(ROWS, minutes=1e-6, progress=False)


def unsure(roberta: RobertaHubInterface, text: str) -> float:
    least, most = sorted(roberta.classify(text).scores.values())
    return 1 - (most - least)


def test_they_are_of_the_least_sure_and_stand_for_them(mine: RobertaHubInterface) -> None:
    found = mine.fitted.next(POOL, n=2)
    least_sure = sorted(POOL, key=lambda text: -unsure(mine, text))[: 2 * CANDIDATES]
    weights = torch.tensor([unsure(mine, text) for text in least_sure])
    vectors = torch.nn.functional.normalize(mine.embed(least_sure), dim=1)
    near = (vectors @ vectors.T).clamp(min=0)

    def worth(*places: int) -> float:
        return float(weights @ near[:, list(places)].amax(1))

    first = max(range(len(least_sure)), key=worth)
    second = max(set(range(len(least_sure))) - {first}, key=lambda k: worth(first, k))
    assert [one.text for one in found] == [least_sure[first], least_sure[second]]
    best = max(worth(*pair) for pair in itertools.combinations(range(len(least_sure)), 2))
    assert worth(first, second) > (1 - 1 / 2.7183) * best  # Nemhauser et al. 1978
    for one in found:
        assert POOL[one.index] == one.text and one.label == mine.classify(one.text).label
        assert one.uncertainty == pytest.approx(unsure(mine, one.text), abs=1e-4)


def test_each_text_once_and_none_that_is_known(mine: RobertaHubInterface) -> None:
    pool = ["A bus.", ROWS[0]["text"].upper(), "", "a  BUS.", "   ", "A red car."]
    found = mine.fitted.next(pool, n=9)
    assert sorted(one.index for one in found) == [0, 5]
    assert mine.fitted.next([ROWS[1]["text"], ""]) == []
    assert found == mine.fitted.next(pool, n=9)
    assert len(mine.fitted.next(POOL)) == 20


def test_what_it_cannot_rank_is_said(mine: RobertaHubInterface) -> None:
    with pytest.raises(InputError, match="n is 0"):
        mine.fitted.next(POOL, n=0)
    with pytest.raises(InputTypeError, match=r"next has no argument 'k'; did you mean n=\?"):
        mine.fitted.next(POOL, k=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"texts\[1\]: too long: 903 tokens"):
        mine.fitted.next([ROWS[0]["text"], "word " * 900])
    assert mine.fitted.next(["word " * 900], truncate=True)[0].index == 0
    numbers = [{"text": row["text"], "label": i / 7} for i, row in enumerate(ROWS)]
    scored = roberta_hub.fit(numbers, minutes=1e-6, progress=False)
    with pytest.raises(InputError, match="classes of which a text has one"):
        scored.fitted.next(POOL)
    spans = [{"text": f"To {city}.", "spans": [[3, 7, "place"]]} for city in ("Rome", "Oslo") * 4]
    tagger = roberta_hub.fit(spans, label="spans", valid=0.5, epochs=1, progress=False)
    with pytest.raises(InputError, match="classes of which a text has one"):
        tagger.fitted.next(POOL)
    with pytest.raises(AttributeError, match=r"fitted\.next\(texts\)"):
        mine.next(POOL)


def test_refused_texts_have_a_likeliest_label(mine: RobertaHubInterface) -> None:
    rows = ROWS + [{"text": f"{row['text']} Again.", "label": row["label"]} for row in ROWS]
    picky = roberta_hub.fit(rows, minutes=1e-6, reject=0.05, progress=False)
    assert picky.classify("Xkqz vbn.").rejected
    [found] = picky.fitted.next(["Xkqz vbn."])
    assert found.label in ("good", "bad")


def test_the_record_stays_a_record(mine: RobertaHubInterface) -> None:
    json.dumps(mine.fitted.to_dict())
    apart = pickle.loads(pickle.dumps(mine.fitted))
    assert apart == mine.fitted and len(pickle.dumps(mine.fitted)) < 100_000
    with pytest.raises(InputError, match=r"apart from its model.*roberta-hub next -m FOLDER"):
        apart.next(POOL)
    assert copy.deepcopy(mine).fitted == mine.fitted


def test_a_model_without_a_record_says_who_chooses(mine: RobertaHubInterface) -> None:
    """`fitted` of a loaded model is None; what it is asked instead is where users look."""
    loaded = copy.deepcopy(mine)
    loaded.fitted = None
    with pytest.raises(AttributeError, match="of a loaded one, `roberta-hub next -m FOLDER"):
        loaded.next(POOL)
    for doc in (RobertaHubInterface.__doc__, type(mine.fitted).next.__doc__):
        assert doc and "roberta-hub next -m FOLDER" in " ".join(doc.split())


@pytest.mark.system
def test_the_shell_writes_their_rows(mine: RobertaHubInterface, tmp_path: Path) -> None:
    mine.save(tmp_path / "mine")
    pool = [*POOL[:5], "", *POOL[5:], POOL[0]]
    with open(tmp_path / "pool.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *((f"r{i}", t) for i, t in enumerate(pool))])
    words = ["next", "-m", "mine", "-i", "pool.csv", "-n", "7", "-o", "out.jsonl"]
    done = forks.run("-m", "roberta_hub", *words, "--errors", "column", cwd=tmp_path)
    assert done.returncode == 0 and "1 row of 41 without an answer" in done.stderr, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    wanted = mine.fitted.next(pool, n=7)
    assert [row["index"] for row in rows] == [one.index for one in wanted]
    for row, one in zip(rows, wanted, strict=True):
        assert (row["id"], row["text"], row["label"]) == (f"r{one.index}", one.text, one.label)
        assert row["uncertainty"] == pytest.approx(one.uncertainty, abs=1e-4)
    done = forks.run("-m", "roberta_hub", *words, cwd=tmp_path)
    assert done.returncode == 1 and "pool.csv:7: nothing in the column" in done.stderr


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-i", "a.txt"], "give the model that labels the texts"),
        (["-m", "mine", "A bus."], "give a file with -i"),
        (["-m", "roberta.tiny", "-i", "a.txt"], "judges pairs"),
        (["-m", "mine", "-i", "a.txt", "-n", "0"], "0 is not in the range"),
    ],
)
def test_the_shell_says_what_is_missing(words: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A bus.\nA film.\n")
    done = forks.run("-m", "roberta_hub", "next", *words, cwd=tmp_path)
    assert done.returncode and says in done.stderr, done.stderr


def test_greedy_choice_of_few() -> None:
    assert facility_location(torch.ones(2), torch.eye(2), 5).tolist() == [0, 1]
