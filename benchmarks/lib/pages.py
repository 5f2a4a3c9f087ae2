"""Writes what `speed.py` measured: tables, ratios to peers, pictures."""

from __future__ import annotations

from collections.abc import Mapping

from lib.demands import AS_IT_COMES, engine_of, precision
from lib.report import RESULTS
from lib.timing import Samples

HALF = "roberta_hub, weights that float16 holds"
"""Of other weights than all others."""


def ratio(samples: Mapping[str, Samples], ours: str, *names: str) -> float | None:
    """How many times as fast as the fastest of the named engines that ran; names are beginnings."""
    theirs = [s.median for n, s in samples.items() if n.startswith(names) and AS_IT_COMES not in n]
    return min(theirs) / samples[ours].median if theirs and ours in samples else None


def over_peers(samples: Mapping[str, Samples], ours: str) -> tuple[float, str] | None:
    """How many times as fast as the fastest peer of the same precision, and which that is.

    "auto" is held against the fastest peer as it comes.
    """
    wanted = AS_IT_COMES if precision(ours) == "auto" else precision(ours)
    theirs = {
        name: s.median
        for name, s in samples.items()
        if engine_of(name) != "roberta_hub" and precision(name) == wanted
    }
    if not theirs or ours not in samples:
        return None
    fastest = min(theirs, key=lambda name: theirs[name])
    return theirs[fastest] / samples[ours].median, fastest


def gain(samples: Mapping[str, Samples]) -> float | None:
    """How many times as fast as our float32 our int8 is."""
    both = [samples[n] for n in ("roberta_hub", "roberta_hub, int8") if n in samples]
    return both[0].median / both[1].median if len(both) == 2 else None


def table(
    samples: Mapping[str, Samples],
    near: Mapping[str, tuple[float, float]],
    tokens: float,
    real: float,
    ceiling: float,
) -> str:
    """Fastest first."""
    lines = [
        "| engine | tokens/s | of the ceiling | least cosine | largest difference | samples |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for name, s in sorted(samples.items(), key=lambda item: item[1].median):
        off, cosine = near[name]
        share = f"{100 * real / s.median / ceiling:.0f} %"
        lines.append(
            f"| {name} | {tokens / s.median:,.0f} | {share} | {cosine:.5f} | {off:.0e} | {s} |"
        )
    return "\n".join(lines)


def summary(samples: Mapping[str, Samples], ideal: float) -> str:
    """The ratios that are asked for."""
    share = 100 * ideal / samples["roberta_hub"].median
    lines = [*against(samples), f"- int8, over our float32: {_times(gain(samples))}"]
    return "\n".join([*lines, f"- float32, share of the ceiling: {share:.0f} %"])


def against(samples: Mapping[str, Samples]) -> list[str]:
    """Each of our precisions against the fastest peer of the same, and "auto" as peers come."""
    lines = []
    for ours in ("roberta_hub", "roberta_hub, bfloat16", "roberta_hub, int8", "roberta_hub, auto"):
        if (found := over_peers(samples, ours)) is not None:
            kind = "auto, over the fastest peer as it comes"
            kind = kind if "auto" in ours else f"{precision(ours)}, over the fastest peer in it"
            lines.append(f"- {kind}: {found[0]:.2f} ({found[1]})")
    return lines


def _times(found: float | None) -> str:
    return "not measured" if found is None else f"{found:.2f}"


def profile_table(title: str, operators: Mapping[str, tuple[float, float]]) -> str:
    """Where our time goes, under a profiler that itself takes some; without pauses."""
    total = sum(ms for ms, _ in operators.values())
    shown = list(operators.items())[:7]
    rest = list(operators.values())[7:]
    shown.append(("all others", (sum(ms for ms, _ in rest), sum(count for _, count in rest))))
    lines = [
        f"Where it goes, {title}:",
        "",
        "| operator | ms | share | calls |",
        "|---|--:|--:|--:|",
    ]
    lines += [
        f"| `{op}` | {ms:.2f} | {100 * ms / total:.0f} % | {count:.0f} |"
        for op, (ms, count) in shown
    ]
    return "\n".join(lines)


def text_table(
    length: int, samples: Mapping[str, Samples], near: Mapping[str, tuple[float, float]]
) -> str:
    """Fastest first."""
    lines = [f"## {length} tokens", ""]
    lines += ["| engine | ms | first | least cosine | samples |", "|---|--:|--:|--:|---|"]
    for name, s in sorted(samples.items(), key=lambda item: item[1].median):
        cosine = "other weights" if name == HALF else f"{near[name][1]:.5f}"
        first = f"{1000 * s.seconds[0]:.1f}"
        lines.append(f"| {name} | {1000 * s.median:.1f} | {first} | {cosine} | {s} |")
    return "\n".join(lines)


def plot(name: str, speeds: Mapping[str, float]) -> None:
    """Bars, longest the fastest; ours in a colour of their own."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ranked = sorted(speeds.items(), key=lambda item: item[1])
    figure, axis = plt.subplots(figsize=(8, 0.32 * len(ranked) + 1), layout="constrained")
    colours = ["tab:red" if n.startswith("roberta_hub") else "0.7" for n, _ in ranked]
    bars = axis.barh([n for n, _ in ranked], [s for _, s in ranked], color=colours)
    axis.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axis.set_xlabel("texts a second" if "text" in name else "tokens a second")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.1)
    figure.savefig(RESULTS / f"{name}.png", dpi=150)
