"""What guards the speed: its limits are below what was measured, and nothing missing passes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from lib import guard  # noqa: E402
from lib.timing import Samples, sampled, sampled_by_turns  # noqa: E402

RESULTS = ROOT / "benchmarks/results"
ZEN_4 = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu avx2 avx512_vnni\n"
KINDS = [*guard.MEASURED, "Intel with AMX", None]


def medians(table: str) -> Any:
    return json.loads((RESULTS / f"{table}.json").read_text())["medians"]


def best(seconds: dict[str, float], *names: str) -> float:
    return min(s for n, s in seconds.items() if n.startswith(names) and "given" not in n)


def test_limits_are_below_what_the_committed_tables_measured() -> None:
    corpus, measured = medians("speed_corpus_base"), guard.MEASURED["AMD Zen 4"]
    slots = json.loads((RESULTS / "speed_corpus_base.json").read_text())["padding"]["sorted"]
    ours, int8 = corpus["roberta_hub"], corpus["roberta_hub, int8"]
    said = {
        "corpus: transformers, a slot": best(corpus, "transformers, sdpa") / ours / slots,
        "corpus: ONNX Runtime": best(corpus, "ONNX Runtime, by", "ONNX Runtime, one") / ours,
        "corpus: ONNX Runtime, int8": best(corpus, "ONNX Runtime, int8") / int8,
        "corpus: our float32, int8": ours / int8,
    }
    for length, found in medians("speed_text").items():
        for kind in ("", ", int8"):
            said[f"{length} tokens: ONNX Runtime{kind}"] = (
                found[f"ONNX Runtime{kind}"] / found[f"roberta_hub{kind}"]
            )
    for what, ratio in measured.items():
        assert ratio == pytest.approx(said[what], rel=0.01), what
        for kind in KINDS:
            assert guard.limits(kind)[what] < said[what], (what, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_as_fast_as_measured_passes(kind: str | None) -> None:
    found: dict[str, float | None] = dict(guard.MEASURED["AMD Zen 4"])
    lines, faults = guard.judge(found, kind)
    assert faults == []
    assert ("No measurement of this CPU" in lines[-1]) == (kind not in guard.MEASURED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", guard.MEASURED["AMD Zen 4"])
def test_one_slow_ratio_or_one_missing_peer_fails(what: str, kind: str | None) -> None:
    least = guard.limits(kind)[what]
    for ratio, word in ((0.99 * least, "is the least"), (None, "did not run")):
        found = {**guard.MEASURED["AMD Zen 4"], what: ratio}
        (fault,) = guard.judge(found, kind)[1]
        assert fault.startswith(f"{what}: ") and word in fault
    del found[what]
    assert len(guard.judge(found, kind)[1]) == 1
    assert len(guard.judge({}, kind)[1]) == len(guard.MEASURED["AMD Zen 4"])


@pytest.mark.parametrize(
    ("cpuinfo", "kind"),
    [
        (ZEN_4, "AMD Zen 4"),
        (ZEN_4.replace(" avx512_vnni", ""), None),
        ("vendor_id : GenuineIntel\nflags : avx512_vnni amx_int8\n", "Intel with AMX"),
        ("vendor_id : GenuineIntel\nflags : avx512_vnni\n", "Intel with AVX-512 VNNI"),
        ("vendor_id : GenuineIntel\nflags : avx2\n", None),
        ("processor : 0\nFeatures : neon\n", None),
        ("", None),
    ],
)
def test_kinds_of_cpu(cpuinfo: str, kind: str | None) -> None:
    assert guard.kind_of_cpu(cpuinfo) == kind


def test_results_say_how_many_rounds_they_are_of() -> None:
    assert "single sample" in sampled(1) and "no medians" in sampled(1)
    assert "no medians" in sampled(2)
    assert "medians of 3 rounds" in sampled(3)
    for name in ("base", "large"):
        page = (RESULTS / f"speed_corpus_{name}.md").read_text()
        rounds = {len(s) for s in seconds_of(name).values()}
        assert [sampled(n) in page for n in rounds] == [True]
    assert sampled(15) in (RESULTS / "speed_text.md").read_text()


def seconds_of(name: str) -> Any:
    return json.loads((RESULTS / f"speed_corpus_{name}.json").read_text())["seconds"]


def test_turns_are_interleaved() -> None:
    order = ""

    def way(name: str) -> Any:
        def run() -> tuple[float, bool]:
            nonlocal order
            order += name
            return float(len(order)), name == "a"

        return run

    found = sampled_by_turns({"a": way("a"), "b": way("b")}, 3)
    assert order == "ababab"
    assert found["a"] == Samples([1.0, 3.0, 5.0], [1.0, 3.0, 5.0]) and found["a"].median == 3
    assert found["b"] == Samples([2.0, 4.0, 6.0], []) and found["b"].median == 4
