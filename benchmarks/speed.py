"""Our encoder beside every peer: a ragged corpus, and one text at a time.

The same random weights in every engine.

    python benchmarks/speed.py corpus              # base, float32 and int8; 20 minutes on two cores
    python benchmarks/speed.py corpus --size large --items 24
    python benchmarks/speed.py text                # 16, 48 and 128 tokens
    python benchmarks/speed.py profile             # where our time goes, and what is left to gain
    python benchmarks/speed.py quick               # what `make bench-quick` guards, three minutes

Peers come with `pip install -e ".[bench]"`; fairseq as the README says. Each has a process of its
own, and they run by turns; what counts is the median of the samples in which nobody else used the
machine (`timing.py`). The ceiling is the speed of the layers' own matrix products on prepacked
weights, measured in the same run, for the FLOPs of the real tokens. Writes
`benchmarks/results/speed_*.{md,json,png}`, `quick` nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from lib.alone import AS_GIVEN, ONE_BY_ONE, OURS, Alone, Call
from lib.corpus import corpus, padding
from lib.engines import MAKERS, Ids, random_model
from lib.flops import flops, linear_flops
from lib.guard import judge, this_cpu
from lib.report import about, write
from lib.timing import Sample, Samples, sample, sampled, sampled_by_turns
from torch import Tensor

from roberta_hub import RobertaHubInterface
from roberta_hub.model.matrices import matrix

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "transformers", "fairseq", "onnxruntime", "openvino", "ctranslate2")
TOLERANCE = 2e-5
"""Between float32 engines, largest difference of a feature."""
PAUSE = 0.05
"""Seconds between two texts, in which the threads of the engine before stop spinning."""
LENGTHS = (16, 48, 128)
PROFILED = (16, 48)
HALF = "roberta_hub, weights that float16 holds"
"""Of other weights than all others."""
LARGE = ("ONNX Runtime", "OpenVINO", "transformers, sdpa")
LARGE += ("roberta_hub, int8", "roberta_hub", "roberta_hub, plain")
"""Of roberta.large no more, for each holds its own weights; first those that are converted in some
10 GB of memory."""
Ways = dict[str, tuple[Alone, Call]]


def products(roberta: RobertaHubInterface, tokens: int = 512) -> tuple[Callable[[], object], float]:
    """A layer's products on prepacked weights, one thread beside the other, and their FLOPs."""
    from roberta_hub.inference.threads import spread

    c = roberta.model.config
    shapes = [(3 * c.embed_dim, c.embed_dim), (c.embed_dim, c.embed_dim)]
    shapes += [(c.ffn_dim, c.embed_dim), (c.embed_dim, c.ffn_dim)]
    made = [
        (matrix(torch.randn(n, k), torch.zeros(n), None), torch.randn(tokens, k)) for n, k in shapes
    ]
    turns = list(range(24 * torch.get_num_threads()))  # two seconds

    def layer(_: int) -> None:  # keeps no result: fresh memory would cost a third of the speed
        for multiply, x in made:
            multiply(x)

    def run() -> None:
        for _ in spread(layer, turns):
            pass

    return run, len(turns) * sum(2 * tokens * n * k for n, k in shapes)


@contextmanager
def engines(size: str, names: Iterator[str] | list[str]) -> Iterator[dict[str, Alone]]:
    """Those of the named engines that start here; what is missing or breaks is said."""
    found: dict[str, Alone] = {}
    with tempfile.TemporaryDirectory() as folder:
        random_model(size).save(folder, format="huggingface")
        try:
            for name in names:
                try:
                    found[name] = Alone(name, size, Path(folder))
                except RuntimeError as error:
                    print(f"{name}: not measured, {error}", flush=True)
            yield found
        finally:
            for engine in found.values():
                engine.close()


def calls(found: Mapping[str, Alone]) -> Ways:
    """Every engine in the ways of calling it that are compared."""
    ways: Ways = {}
    for name, engine in found.items():
        if name.startswith("roberta_hub"):
            ways[name] = (engine, OURS)
            continue
        ways[f"{name}, by length"] = (engine, Call())
        if name.startswith(("ONNX Runtime", "OpenVINO")):  # they compute padding
            ways[f"{name}, one by one"] = (engine, ONE_BY_ONE)
        if name == "transformers, sdpa":
            ways[f"{name}, as given"] = (engine, AS_GIVEN)
    return ways


def timed(ways: Ways, ids: Ids) -> dict[str, Callable[[], Sample]]:
    """What `sampled_by_turns` runs."""
    return {name: partial(engine.time, ids, call) for name, (engine, call) in ways.items()}


def agreement(found: list[Tensor], wanted: list[Tensor]) -> tuple[float, float]:
    """(largest difference, least cosine of a token)."""
    ours, theirs = torch.cat(found).float(), torch.cat(wanted).float()
    return float((ours - theirs).abs().max()), float(torch.cosine_similarity(ours, theirs).min())


def check(ways: Ways, ids: Ids) -> dict[str, tuple[float, float]]:
    """How near every engine is to our plain one; float32 must be within TOLERANCE."""
    found = {name: engine.features(ids, call) for name, (engine, call) in ways.items()}
    near = {name: agreement(f, found["roberta_hub, plain"]) for name, f in found.items()}
    off = {n: d for n, (d, _) in near.items() if "int8" not in n and n != HALF and d > TOLERANCE}
    assert not off, f"these engines compute something else: {off}"
    return near


def ratio(samples: Mapping[str, Samples], ours: str, *names: str) -> float | None:
    """How many times as fast as the fastest of the named engines that ran; names are beginnings."""
    theirs = [s.median for n, s in samples.items() if n.startswith(names) and "given" not in n]
    return min(theirs) / samples[ours].median if theirs and ours in samples else None


def gain(samples: Mapping[str, Samples]) -> float | None:
    """How many times as fast as our float32 our int8 is."""
    both = [samples[n] for n in ("roberta_hub", "roberta_hub, int8") if n in samples]
    return both[0].median / both[1].median if len(both) == 2 else None


# ---- a corpus ----


def run_corpus(size: str, items: int, rounds: int, only: str | None = None) -> None:
    """The table of the ragged corpus."""
    torch.manual_seed(0)
    source, texts = corpus(items // 2)
    roberta = random_model(size)
    ids = [t[:512] for t in roberta.encode_batch(texts)]
    lengths = [len(t) for t in ids]
    names = list(LARGE) if size == "large" else [n for n in MAKERS if n != HALF]
    names = [n for n in names if n.startswith("roberta_hub") or not only or only in n]
    with engines(size, names) as found:
        ways = calls(found)
        near = check(ways, ids[:8] + ids[-8:])
        gemm, work = products(roberta)
        turns: dict[str, Callable[[], Sample]] = {"ceiling": partial(sample, gemm)}
        turns |= timed(ways, ids)
        samples = sampled_by_turns(turns, rounds)
    ceiling = work / samples.pop("ceiling").median
    real = flops(roberta, ids)
    numbers = {
        "about": about(*_installed()),
        "size": size,
        "texts": len(ids),
        "tokens": sum(lengths),
        "padding": {"given": padding(lengths), "sorted": padding(sorted(lengths))},
        "ceiling_gflops": ceiling / 1e9,
        "rounds": rounds,
        "seconds": {name: s.seconds for name, s in samples.items()},
        "medians": {name: s.median for name, s in samples.items()},
        "agreement": near,
    }
    page = (
        f"# Ragged corpus, {size}\n\n{len(ids)} texts ({source}), {sum(lengths):,} tokens; batches "
        f"of 32 have "
        f"{padding(lengths):.2f} slots a token in the given order, {padding(sorted(lengths)):.2f} "
        f"sorted by length.\n"
        f"{sampled(rounds)}\n"
        f"Ceiling: {ceiling / 1e9:.0f} GFLOPS of prepacked float32 products in the same run.\n"
        f"Again: `python benchmarks/speed.py corpus --size {size} --items {items} --rounds "
        f"{rounds}`.\n\n"
        + table(samples, near, sum(lengths), real, ceiling)
        + "\n\n"
        + summary(samples, real / ceiling)
    )
    print(page)
    if not only:
        write(f"speed_corpus_{size}", page, numbers)
        plot(f"speed_corpus_{size}", {n: sum(lengths) / s.median for n, s in samples.items()})


def table(
    samples: Mapping[str, Samples],
    near: Mapping[str, tuple[float, float]],
    tokens: int,
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
    int8 = [f"{peer}, int8" for peer in ("ONNX Runtime", "OpenVINO", "CTranslate2")]
    asked = {
        "float32, over transformers sorted by length (goal 1.45)": ratio(
            samples, "roberta_hub", "transformers"
        ),
        "float32, over CTranslate2 and nn.TransformerEncoder, the faster (goal 1.3)": ratio(
            samples, "roberta_hub", "CTranslate2, by", "nn.TransformerEncoder"
        ),
        "float32, over ONNX Runtime at its best (goal 1.5)": ratio(
            samples, "roberta_hub", "ONNX Runtime, by", "ONNX Runtime, one"
        ),
        "float32, over OpenVINO at its best (goal 1.5)": ratio(
            samples, "roberta_hub", "OpenVINO, by", "OpenVINO, one"
        ),
        "int8, over the fastest int8 peer (goal 1.3)": ratio(samples, "roberta_hub, int8", *int8),
        "int8, over ONNX Runtime's (goal 1.6)": ratio(samples, "roberta_hub, int8", int8[0]),
    }
    asked["int8, over our float32 (goal 1.7)"] = gain(samples)
    lines = [
        f"- {what}: {'not measured' if r is None else f'{r:.2f}'}" for what, r in asked.items()
    ]
    share = 100 * ideal / samples["roberta_hub"].median
    return "\n".join([*lines, f"- float32, share of the ceiling (goal 82 %): {share:.0f} %"])


# ---- one text ----


def run_text(rounds: int, only: str | None = None) -> None:
    """Latency of one text."""
    torch.manual_seed(0)
    names = [n for n in MAKERS if n.startswith("roberta_hub") or not only or only in n]
    pages, medians, agreements = [], {}, {}
    with engines("base", names) as found:
        ways = {
            name: (engine, OURS if name.startswith("roberta_hub") else ONE_BY_ONE)
            for name, engine in found.items()
        }
        for length in LENGTHS:
            ids = [torch.randint(4, 50_000, (length,))]
            near = agreements[length] = check(ways, ids)
            samples = sampled_by_turns(timed(ways, ids), rounds, PAUSE)  # `check` warmed them up
            medians[length] = {n: s.median for n, s in samples.items()}
            pages.append(text_table(length, samples, near))
            for name in ("roberta_hub", "roberta_hub, int8"):
                if name in found and length in PROFILED:
                    profile = found[name].operators(ids, OURS)
                    pages.append(profile_table(f"{name}, {length} tokens", profile))
    page = f"# One text, base\n\n{sampled(rounds)}\nAgain: `python benchmarks/speed.py text`.\n\n"
    page += "\n\n".join(pages)
    print(page)
    if not only:
        numbers = {"about": about(*_installed()), "rounds": rounds, "medians": medians}
        numbers["agreement"] = agreements
        write("speed_text", page, numbers)
        plot("speed_text", {n: 1 / s for n, s in medians[LENGTHS[1]].items()})


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
    lines += ["| engine | ms | least cosine | samples |", "|---|--:|--:|---|"]
    for name, s in sorted(samples.items(), key=lambda item: item[1].median):
        cosine = "other weights" if name == HALF else f"{near[name][1]:.5f}"
        lines.append(f"| {name} | {1000 * s.median:.1f} | {cosine} | {s} |")
    return "\n".join(lines)


# ---- what is left ----


def run_profile() -> None:
    """Where our time goes on the corpus, a core's view of it."""
    torch.manual_seed(0)
    roberta = random_model("base")
    ids = [t[:512] for t in roberta.encode_batch(corpus(50)[1])]
    work = linear_flops(roberta) * sum(map(len, ids))
    pages, shares = [], {}
    with engines("base", ["roberta_hub", "roberta_hub, int8"]) as found:
        for name, engine in found.items():
            operators = shares[name] = engine.operators(ids, OURS, one_thread=True)
            total = sum(ms for ms, _ in operators.values())
            products = sum(ms for op, (ms, _) in operators.items() if "linear" in op)
            pages += [
                profile_table(f"{name}, {len(ids)} texts on one thread", operators),
                f"Products run at {work / products / 1e6:.0f} giga-operations a second; with all "
                f"else free the corpus would be done {total / products:.2f} times as fast.",
            ]
    page = "# Where our time goes, base\n\nOne run of each.\n"
    page += "Again: `python benchmarks/speed.py profile`.\n\n"
    page += "\n\n".join(pages)
    print(page)
    write("speed_profile", page, {"about": about("torch"), "operators": shares})


# ---- shared ----


def _installed() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            version(name)
            found.append(name)
        except PackageNotFoundError:
            pass
    return found


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
    figure.savefig(ROOT / "benchmarks/results" / f"{name}.png", dpi=150)


QUICK = ("roberta_hub", "roberta_hub, int8", "transformers, sdpa")
QUICK += ("ONNX Runtime", "ONNX Runtime, int8")


def run_quick() -> int:
    """Fewer texts, fewer peers; 1 if a ratio is below what it must be, or a peer did not run."""
    torch.manual_seed(0)
    _, texts = corpus(12)
    ids = [t[:256] for t in random_model("base").encode_batch(texts)]
    found: dict[str, float | None] = {}
    with engines("base", list(QUICK)) as engine:
        ways = calls(engine)
        sampled_by_turns(timed(ways, ids), 1)  # warms up
        many = sampled_by_turns(timed(ways, ids), 5)
        slower, slots = ratio(many, "roberta_hub", "transformers"), padding(sorted(map(len, ids)))
        found["corpus: transformers, a slot"] = slower and slower / slots
        found["corpus: our float32, int8"] = gain(many)
        few = {"corpus": many}
        one = {n: (e, ONE_BY_ONE) for n, e in engine.items() if n != "transformers, sdpa"}
        for length in (16, 48):
            text = [torch.randint(4, 50_000, (length,))]
            few[f"{length} tokens"] = sampled_by_turns(timed(one, text), 15, PAUSE)
    for what, samples in few.items():
        float32 = {n: s for n, s in samples.items() if "int8" not in n}
        int8 = {n: s for n, s in samples.items() if "int8" in n}
        found[f"{what}: ONNX Runtime"] = ratio(float32, "roberta_hub", "ONNX Runtime")
        found[f"{what}: ONNX Runtime, int8"] = ratio(int8, "roberta_hub, int8", "ONNX Runtime")
    lines, faults = judge(found, this_cpu())
    print("\n".join([sampled(len(many["roberta_hub"].seconds)), *lines, *faults]))
    return int(bool(faults))


def main() -> int:
    """Run one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["corpus", "text", "profile", "quick"])
    parser.add_argument("--size", choices=["base", "large"], default="base")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="peers with this in their name; writes no result")
    options = parser.parse_args()
    if options.table == "quick":
        return run_quick()
    if options.table == "profile":
        run_profile()
    elif options.table == "corpus":
        run_corpus(options.size, options.items, options.rounds, options.only)
    else:
        run_text(max(options.rounds, 15), options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
