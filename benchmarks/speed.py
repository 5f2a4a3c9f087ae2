"""Our encoder against every peer: a ragged corpus, and one text at a time.

The same random weights in every engine.

    python benchmarks/speed.py corpus              # base, 1,000 texts; 20 minutes on two cores
    python benchmarks/speed.py corpus --size large --items 72
    python benchmarks/speed.py text                # 8 to 128 tokens
    python benchmarks/speed.py profile             # where our time goes, and what is left to gain
    python benchmarks/speed.py quick               # what `make bench-quick` guards, three minutes

Peers come with `pip install -e ".[bench]"`; fairseq as the README says. Each has a process of its
own, and stands there as it comes and at each precision that ours has. They run by turns; no text
comes twice, so the first meeting of a shape counts; what counts is the median of the rounds in
which nobody else used the machine (`timing.py`). The ceiling is the speed of the layers' own matrix
products on prepacked weights, measured in the same run, for the FLOPs of the real tokens. Writes
`benchmarks/results/speed_*_CPU.{md,json,png}`, `quick` nothing; a table that lacks a peer, rounds
or the CPU's instruction sets is refused (`demands.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from lib.alone import AS_GIVEN, ONE_BY_ONE, OURS, Alone, Call
from lib.corpus import corpus, padding
from lib.demands import AS_IT_COMES, LEAST_ROUNDS, engine_of, precision, write_table
from lib.engines import Ids, export, makers_here, random_model
from lib.flops import flops, linear_flops
from lib.guard import judge, short_name, this_cpu
from lib.pages import HALF, against, gain, plot, profile_table, ratio, summary, table, text_table
from lib.report import about, instruction_sets, write
from lib.rounds import dealt, sampled_in_rounds, tokens
from lib.timing import Sample, sample, sampled
from torch import Tensor

from roberta_hub import RobertaHubInterface
from roberta_hub.model.matrices import prepare_matrix

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "transformers", "fairseq", "onnxruntime", "openvino", "ctranslate2")
TOLERANCE = 2e-5
"""Between float32 engines, largest difference of a feature."""
PAUSE = 0.05
"""Seconds between two texts, in which the threads of the engine before stop spinning."""
LENGTHS = (8, 16, 32, 48, 128)
PROFILED = (16, 48)
HELD_OUT = 16
"""Texts that warm the engines up and are compared, and are not timed."""
LARGE = ("roberta_hub", "ONNX Runtime", "OpenVINO", "transformers, sdpa")
"""Of roberta.large no other peers, for each holds its own weights; and in float32 and int8 alone:
with these ten engines 24 GiB are full."""
DEFAULTS = ("transformers, sdpa", "fairseq", "nn.TransformerEncoder")
"""Engines that have no settings but how they are called."""
Ways = dict[str, tuple[Alone, Call]]


def products(roberta: RobertaHubInterface, tokens: int = 512) -> tuple[Callable[[], object], float]:
    """A layer's products on prepacked weights, one thread beside the other, and their FLOPs."""
    from roberta_hub.inference.threads import spread

    c = roberta.model.config
    shapes = [(3 * c.embed_dim, c.embed_dim), (c.embed_dim, c.embed_dim)]
    shapes += [(c.ffn_dim, c.embed_dim), (c.embed_dim, c.ffn_dim)]
    made = [
        (prepare_matrix(torch.randn(n, k), torch.zeros(n), None), torch.randn(tokens, k))
        for n, k in shapes
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
def engines(size: str, names: list[str]) -> Iterator[tuple[dict[str, Alone], dict[str, str]]]:
    """Those of the named engines that start here, and what the others said."""
    found: dict[str, Alone] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        random_model(size).save(folder, format="huggingface")
        if any(name.startswith(("ONNX Runtime", "OpenVINO")) for name in names):
            with suppress(RuntimeError):  # else the engines say what is wrong
                export(Path(folder))  # takes much memory, so it comes before those who keep theirs
        try:
            for name in names:
                try:
                    found[name] = Alone(name, size, Path(folder))
                except RuntimeError as error:
                    missing[name] = str(error)
                    print(f"{name}: not measured, {error}", flush=True)
            yield found, missing
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
        if AS_IT_COMES in name:
            ways[name] = (engine, AS_GIVEN)
            continue
        ways[f"{name}, by length"] = (engine, Call())
        if name.startswith(("ONNX Runtime", "OpenVINO")):  # they compute padding
            ways[f"{name}, one by one"] = (engine, ONE_BY_ONE)
        if name in DEFAULTS:
            ways[f"{engine_of(name)}, {AS_IT_COMES}"] = (engine, AS_GIVEN)
    return ways


def calls_of_one(found: Mapping[str, Alone]) -> Ways:
    """Every engine with one text a call."""
    ways: Ways = {}
    for name, engine in found.items():
        ways[name] = (engine, OURS if name.startswith("roberta_hub") else ONE_BY_ONE)
        if name in DEFAULTS:
            ways[f"{engine_of(name)}, {AS_IT_COMES}"] = ways[name]
    return ways


def timed(ways: Ways) -> dict[str, Callable[[Ids], Sample]]:
    """What `sampled_in_rounds` runs."""
    return {name: partial(_time, *way) for name, way in ways.items()}


def _time(engine: Alone, call: Call, ids: Ids) -> Sample:
    return engine.time(ids, call)


def agreement(found: list[Tensor], wanted: list[Tensor]) -> tuple[float, float]:
    """(largest difference, least cosine of a token)."""
    ours, theirs = torch.cat(found).float(), torch.cat(wanted).float()
    return float((ours - theirs).abs().max()), float(torch.cosine_similarity(ours, theirs).min())


def check(ways: Ways, ids: Ids) -> dict[str, tuple[float, float]]:
    """How near every engine is to our plain one; float32 must be within TOLERANCE."""
    found = {name: engine.features(ids, call) for name, (engine, call) in ways.items()}
    near = {name: agreement(f, found["roberta_hub, plain"]) for name, f in found.items()}
    exact = {n: d for n, (d, _) in near.items() if precision(n) == "float32" and n != HALF}
    off = {n: d for n, d in exact.items() if d > TOLERANCE}
    assert not off, f"these engines compute something else: {off}"
    return near


# ---- a corpus ----


def run_corpus(size: str, items: int, rounds: int, only: str | None = None) -> None:
    """The table of the ragged corpus."""
    torch.manual_seed(0)
    source, texts = corpus(items // 2)
    roberta = random_model(size)
    ids = [t[:512] for t in roberta.encode_batch(texts)]
    step = max(1, len(ids) // HELD_OUT)
    parts = dealt([t for i, t in enumerate(ids) if i % step], rounds)
    lengths = [len(t) for part in parts for t in part]
    # OpenVINO calibrated to int8 takes more memory with each shape: 24 GB beside the others.
    names = [n for n in makers_here() if n not in (HALF, "OpenVINO, int8, calibrated")]
    if size == "large":
        short = ("float32", "int8", AS_IT_COMES)
        names = [n for n in names if n.startswith(LARGE) and precision(n) in short]
    names = [n for n in names if n.startswith("roberta_hub") or not only or only in n]
    with engines(size, names) as (found, missing):
        ways = calls(found)
        near = check(ways, ids[::step])
        gemm, work = products(roberta)
        count = sum(lengths) / rounds

        def same_for_all(part: Ids) -> Sample:
            seconds, is_clean = sample(gemm)
            return seconds * tokens(part) / count, is_clean  # `sampled_in_rounds` takes it out

        samples = sampled_in_rounds({"ceiling": same_for_all} | timed(ways), parts)
    ceiling = work / samples.pop("ceiling").median
    real = flops(roberta, [t for part in parts for t in part]) / rounds
    numbers = {
        "about": about(*_installed()),
        "size": size,
        "texts": len(lengths),
        "tokens": count,
        "padding": {"given": padding(lengths), "sorted": padding(sorted(lengths))},
        "ceiling_gflops": ceiling / 1e9,
        "rounds": rounds,
        "seconds": {name: s.seconds for name, s in samples.items()},
        "medians": {name: s.median for name, s in samples.items()},
        "agreement": near,
        "missing": missing,
    }
    page = (
        f"# Ragged corpus, {size}\n\n{instruction_sets()}.\n"
        f"{len(lengths)} texts ({source}), {sum(lengths):,} tokens, dealt to {rounds} rounds; no "
        f"text comes twice. Batches of 32 have {padding(lengths):.2f} slots a token in the given "
        f"order, {padding(sorted(lengths)):.2f} sorted by length.\n"
        f"{sampled(rounds)}\n"
        f"Ceiling: {ceiling / 1e9:.0f} GFLOPS of prepacked float32 products in the same run.\n"
        f"Again: `python benchmarks/speed.py corpus --size {size} --items {items} --rounds "
        f"{rounds}`.\n\n"
        + table(samples, near, count, real, ceiling)
        + "\n\n"
        + summary(samples, real / ceiling)
    )
    print(page)
    if not only:
        name = f"speed_corpus_{size}_{short_name(this_cpu())}"
        write_table(name, page, numbers, parts)
        plot(name, {n: count / s.median for n, s in samples.items()})


# ---- one text ----


def run_text(rounds: int, lengths: Sequence[int], only: str | None = None) -> None:
    """Latency of one text."""
    torch.manual_seed(0)
    names = [n for n in makers_here() if n.startswith("roberta_hub") or not only or only in n]
    pages: list[str] = []
    medians: dict[int, dict[str, float]] = {}
    seconds: dict[str, list[float]] = {}
    agreements: dict[int, dict[str, tuple[float, float]]] = {}
    every: list[Ids] = [[] for _ in range(rounds)]
    with engines("base", names) as (found, missing):
        ways = calls_of_one(found)
        for length in lengths:
            parts = dealt([torch.randint(4, 50_000, (length,)) for _ in range(rounds)], rounds)
            every = [[*own, *part] for own, part in zip(every, parts, strict=True)]
            near = agreements[length] = check(ways, [torch.randint(4, 50_000, (length + 3,))])
            samples = sampled_in_rounds(timed(ways), parts, PAUSE)
            medians[length] = {n: s.median for n, s in samples.items()}
            seconds |= {f"{n}, {length} tokens": s.seconds for n, s in samples.items()}
            pages += [text_table(length, samples, near), "\n".join(against(samples))]
            for name in ("roberta_hub", "roberta_hub, int8"):
                if name in found and length in PROFILED:
                    profile = found[name].operators(parts[0], OURS)
                    pages.append(profile_table(f"{name}, {length} tokens", profile))
    page = (
        f"# One text, base\n\n{instruction_sets()}.\n{sampled(rounds)}\n"
        "Each round has another text of as many tokens; `first` is the first such text, after one "
        "that is 3 tokens longer.\n"
        f"Again: `python benchmarks/speed.py text --rounds {rounds}`.\n\n"
    ) + "\n\n".join(pages)
    print(page)
    if not only:
        numbers: dict[str, Any] = {"about": about(*_installed()), "rounds": rounds}
        numbers |= {"medians": medians, "seconds": seconds, "agreement": agreements}
        numbers["missing"] = missing
        name = f"speed_text_{short_name(this_cpu())}"
        write_table(name, page, numbers, every)
        plot(name, {n: 1 / s for n, s in medians[lengths[len(lengths) // 2]].items()})


# ---- what is left ----


def run_profile() -> None:
    """Where our time goes on the corpus, a core's view of it."""
    torch.manual_seed(0)
    roberta = random_model("base")
    ids = [t[:512] for t in roberta.encode_batch(corpus(50)[1])]
    work = linear_flops(roberta) * sum(map(len, ids))
    pages, shares = [], {}
    with engines("base", ["roberta_hub", "roberta_hub, int8"]) as (found, _):
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


QUICK = ("roberta_hub, plain", "roberta_hub", "roberta_hub, int8", "transformers, sdpa")
QUICK += ("ONNX Runtime", "ONNX Runtime, int8")


def run_quick(names: Sequence[str] = QUICK, rounds: int = 5, texts: int = 24) -> int:
    """Fewer texts, fewer peers; 1 if a ratio is below what it must be, or a peer did not run."""
    torch.manual_seed(0)
    source = corpus((rounds + 1) * texts // 2)[1]
    ids = [t[:256] for t in random_model("base").encode_batch(source)]
    warm, *parts = dealt(ids, rounds + 1)
    found: dict[str, float | None] = {}
    with engines("base", list(names)) as (engine, missing):
        ways = calls(engine)
        sampled_in_rounds(timed(ways), [warm])
        many = sampled_in_rounds(timed(ways), parts)
        slower = ratio(many, "roberta_hub", "transformers")
        slots = sum(padding(sorted(map(len, part))) * tokens(part) for part in parts)
        found["corpus: transformers, a slot"] = slower and slower / (
            slots / sum(map(tokens, parts))
        )
        found["corpus: our float32, int8"] = gain(many)
        few = {"corpus": many}
        one = calls_of_one({n: e for n, e in engine.items() if n != "transformers, sdpa"})
        for length in (16, 48):
            singles = dealt(
                [torch.randint(4, 50_000, (length,)) for _ in range(3 * rounds)], 3 * rounds
            )
            few[f"{length} tokens"] = sampled_in_rounds(timed(one), singles, PAUSE)
    for what, samples in few.items():
        found[f"{what}: our plain"] = ratio(samples, "roberta_hub", "roberta_hub, plain")
        float32 = {n: s for n, s in samples.items() if "int8" not in n}
        int8 = {n: s for n, s in samples.items() if "int8" in n}
        found[f"{what}: ONNX Runtime"] = ratio(float32, "roberta_hub", "ONNX Runtime")
        found[f"{what}: ONNX Runtime, int8"] = ratio(int8, "roberta_hub, int8", "ONNX Runtime")
    lines, faults = judge(found, this_cpu(), missing)
    print("\n".join([instruction_sets(), sampled(rounds), *lines, *faults]))
    return int(bool(faults))


def main() -> int:
    """Run one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["corpus", "text", "profile", "quick"])
    parser.add_argument("--size", choices=["base", "large"], default="base")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--rounds", type=int, help="3 of a corpus, 15 of one text")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of one text")
    parser.add_argument("--only", help="peers with this in their name; writes no result")
    options = parser.parse_args()
    rounds = options.rounds or (15 if options.table == "text" else LEAST_ROUNDS)
    if rounds < LEAST_ROUNDS and not options.only:
        parser.error(f"a table has medians of {LEAST_ROUNDS} rounds or more")
    if options.table == "quick":
        return run_quick()
    if options.table == "profile":
        run_profile()
    elif options.table == "corpus":
        run_corpus(options.size, options.items, rounds, options.only)
    else:
        run_text(rounds, options.lengths, options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
