"""Tables of speed say what they are, or are not written; `bench-quick` fails without a peer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import small  # noqa: E402
import speed  # noqa: E402
from lib import demands, guard, report  # noqa: E402
from lib.demands import faults, precision, write_table  # noqa: E402
from lib.engines import MAKERS  # noqa: E402
from lib.pages import against  # noqa: E402
from lib.rounds import dealt, sampled_in_rounds  # noqa: E402
from lib.sentence_engines import ENGINES  # noqa: E402
from lib.timing import Samples  # noqa: E402

WAYS = [
    "roberta_hub",
    "roberta_hub, int8",
    "roberta_hub, auto",
    "OpenVINO, one by one",
    "OpenVINO, int8, by length",
    "OpenVINO, as it comes",
    "transformers, sdpa, by length",
    "transformers, as it comes",
]
PARTS = dealt([torch.arange(length) for length in range(3, 33)], 3)


def numbers(ways: list[str] = WAYS, rounds: int = 3) -> dict[str, Any]:
    """A table with all that it must have."""
    return {
        "about": report.about("torch"),
        "rounds": rounds,
        "seconds": {name: [1.0] * rounds for name in ways},
        "missing": {},
    }


# ---- rounds ----


def test_every_text_is_dealt_once_in_rounds_alike() -> None:
    texts = [torch.arange(length % 7 + 3) + length for length in range(50)]
    parts = dealt([*texts, *texts[:9]], 4)
    dealt_out = [tuple(t.tolist()) for part in parts for t in part]
    assert sorted(dealt_out) == sorted({tuple(t.tolist()) for t in texts})
    sizes = [sum(map(len, part)) for part in parts]
    assert len(parts) == 4 and max(sizes) - min(sizes) <= 9
    starts = [[int(t[0]) for t in part] for part in parts]
    assert starts == [sorted(own) for own in starts]  # in the given order
    assert dealt(["a", "bb", "a"], 2) == [["bb"], ["a"]]


def test_rounds_are_interleaved_and_scaled() -> None:
    met: list[tuple[str, int]] = []

    def way(name: str) -> Any:
        def run(part: list[str]) -> tuple[float, bool]:
            met.append((name, len(part)))
            return sum(map(len, part)) * 2.0, len(part) > 1

        return run

    found = sampled_in_rounds({"a": way("a"), "b": way("b")}, [["xx", "yy"], ["z" * 8], ["wwww"]])
    assert met == [("a", 2), ("b", 2), ("a", 1), ("b", 1), ("a", 1), ("b", 1)]
    assert found["a"].seconds == pytest.approx([32 / 3] * 3)  # two a letter, of the mean round
    assert len(found["b"].clean) == 1


# ---- demands ----


def test_a_table_with_all_that_it_must_have(tmp_path: Path, monkeypatch: Any) -> None:
    assert faults(numbers(), PARTS) == []
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    write_table("speed", "# A page", numbers(), PARTS)
    sets = report.instruction_sets()
    assert sets in (tmp_path / "results/speed.md").read_text()
    found = json.loads((tmp_path / "results/speed.json").read_text())
    assert found["about"]["instruction_sets"] == sets != ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda n: n["about"].pop("instruction_sets"), "instruction sets are not named"),
        (lambda n: n["about"].update(instruction_sets=""), "instruction sets are not named"),
        (lambda n: n.update(rounds=2), "3 rounds or more"),
        (lambda n: n["seconds"]["OpenVINO, as it comes"].pop(), "has 2 samples of 3 rounds"),
        (lambda n: n["seconds"].pop("OpenVINO, as it comes"), "OpenVINO is not there in as it"),
        (lambda n: n["seconds"].pop("OpenVINO, int8, by length"), "OpenVINO is not there in int8"),
        (lambda n: n["seconds"].pop("transformers, sdpa, by length"), "not there in float32"),
        (
            lambda n: n["seconds"].update({"roberta_hub, bfloat16": [1.0] * 3}),
            "OpenVINO is not there in bfloat16; transformers is not there in bfloat16",
        ),
        (
            lambda n: n["missing"].update({"CTranslate2": "No module"}),
            "CTranslate2 did not run: No",
        ),
    ],
)
def test_a_table_that_lacks_something_is_not_written(
    change: Any, said: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    lacking = numbers()
    change(lacking)
    with pytest.raises(ValueError, match=said):
        write_table("speed", "# A page", lacking, PARTS)
    assert list(tmp_path.iterdir()) == []


def test_texts_that_come_twice_are_refused() -> None:
    twice = [*PARTS[:2], [*PARTS[2][:-1], PARTS[0][0]]]
    assert faults(numbers(), twice) == ["1 of 30 texts come twice"]
    assert "these of 2" in faults(numbers(), PARTS[:2])[0]


def test_every_peer_can_be_in_a_table() -> None:
    """The names that the programs give their engines are those that the demands know."""
    for names in (MAKERS, ENGINES):
        peers = {demands.engine_of(name) for name in names} - {"roberta_hub"}
        assert peers <= demands.PEERS.keys()
        for peer in peers:
            there = {precision(name) for name in names if demands.engine_of(name) == peer}
            if any(name in speed.DEFAULTS for name in names if demands.engine_of(name) == peer):
                there.add(demands.AS_IT_COMES)  # `speed.calls` makes that way
            assert {demands.AS_IT_COMES, *demands.PEERS[peer]} <= there, peer


def test_ours_is_held_against_the_same_precision() -> None:
    seconds = dict(zip(WAYS, [2, 1, 1, 3, 1.5, 4, 2.5, 9], strict=True))
    lines = against({name: Samples([s], [s]) for name, s in seconds.items()})
    assert lines == [
        "- float32, over the fastest peer in it: 1.25 (transformers, sdpa, by length)",
        "- int8, over the fastest peer in it: 1.50 (OpenVINO, int8, by length)",
        "- auto, over the fastest peer as it comes: 4.00 (OpenVINO, as it comes)",
    ]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (speed, ["corpus", "--rounds", "2"]),
        (speed, ["text", "--rounds", "1"]),
        (small, ["--rounds", "2"]),
        (small, ["--singles", "2"]),
    ],
)
def test_too_few_rounds_are_refused_before_any_work(
    program: Any, told: list[str], monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *told])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    assert stopped.value.code == 2 and "medians of 3 rounds or more" in capsys.readouterr().err


# ---- quick ----


def test_quick_fails_where_a_peer_is_missing(monkeypatch: Any, capsys: Any) -> None:
    @contextmanager
    def none_starts(size: str, names: list[str]) -> Iterator[Any]:
        yield {}, dict.fromkeys(names, "ModuleNotFoundError: No module named 'onnxruntime'")

    from roberta_hub import load_model

    monkeypatch.setattr(speed, "engines", none_starts)
    tiny = load_model("roberta.tiny", device="meta", pretrained=False)
    monkeypatch.setattr(speed, "random_model", lambda size: tiny)
    assert speed.run_quick() == 1
    said = capsys.readouterr().out
    for name in speed.QUICK:
        assert f"{name} did not start: ModuleNotFoundError" in said
    assert report.instruction_sets() in said


def test_a_missing_engine_is_a_fault_beside_good_ratios() -> None:
    good: dict[str, float | None] = dict(guard.MEASURED["AMD Zen 4"])
    assert guard.judge(good, None, {})[1] == []
    assert guard.judge(good, None, {"OpenVINO": "gone"})[1] == ["OpenVINO did not start: gone"]


@pytest.mark.system
@pytest.mark.slow
def test_an_engine_that_is_not_there_is_told(monkeypatch: Any) -> None:
    """In processes: ours answers, the other says why it does not."""
    names = ["roberta_hub", "no such engine"]
    with speed.engines("tiny", names) as (found, missing):
        assert list(found) == names[:1] and "KeyError" in missing["no such engine"]
        ways = speed.timed(speed.calls(found))
        part = [torch.arange(5, 25), torch.arange(4, 9)]
        samples = sampled_in_rounds(ways, [part])
    assert len(samples["roberta_hub"].seconds) == 1


# ---- small ----


def test_sentences_differ() -> None:
    found = small.sentences(40)
    assert len(found) == len(set(found)) == 40


def test_an_environment_that_is_not_there_is_told(tmp_path: Path) -> None:
    found, missing = small.started(["fastembed"], tmp_path, tmp_path)
    assert found == {} and "lake_environments.py builds it" in missing["fastembed"]
