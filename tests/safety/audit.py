"""What fairseq, Hugging Face and roberta_hub do with 56 kinds of faults and attacks, side by side.

    python tests/safety/audit.py                 # all rows, about a quarter of an hour
    python tests/safety/audit.py --rows 1,2,17-20

Every cell comes from runs of this script: real fairseq, real transformers and huggingface_hub, a
real HTTP server on this machine, each case in a process of its own with limits of time and memory.
Writes `benchmarks/results/safety.md` and `.json` (every single case with its whole message).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
# In place of this folder, whose modules are imported as a package.
sys.path[:1] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "checkpoint")]

from safety import report, rows  # noqa: E402
from safety.bench import Bench  # noqa: E402
from safety.case import (  # noqa: E402
    FORCED,
    HF,
    OURS,
    STOCK,
    WRONG,
    Case,
    Outcome,
    Place,
)
from safety.web import HubServer  # noqa: E402

Found = dict[tuple[int, str], dict[str, Outcome]]
"""Outcomes by case and engine."""
PARTS = {STOCK: (STOCK, FORCED), HF: (HF,), OURS: (OURS,)}


def numbers(text: str) -> set[int]:
    """`1,2,17-20` as a set."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def make_kit(folder: Path) -> None:
    """Sound material: tests/data's RoBERTa as real fairseq wrote it, and for Hugging Face."""
    import torch
    from parity.vocabularies import shipped_tokens, write_bpe

    import roberta_hub
    from roberta_hub.text.dictionary import Dictionary

    (folder / "fairseq").mkdir(parents=True)
    sample = ROOT / "tests" / "data" / "fairseq" / "model.pt"
    state = torch.load(sample, weights_only=False)  # this repository's own file
    state["model"] = {name: tensor.float() for name, tensor in state["model"].items()}
    torch.save(state, folder / "fairseq" / "model.pt")
    dictionary = Dictionary.roberta().dumps(with_mask=False)
    (folder / "fairseq" / "dict.txt").write_bytes(dictionary)
    write_bpe(shipped_tokens(), folder / "bpe")
    twin = roberta_hub.load_model(folder / "fairseq")
    del twin.model.classification_heads["mnli"]  # one that transformers' masked LM would warn of
    twin.save(folder / "huggingface", "huggingface")


def run_engine(
    engine: str, cases: Iterable[Case], home: Path, server: HubServer, out: Found
) -> dict[str, str]:
    """Run all cases of one engine, and return its versions."""
    bench = Bench(engine, server.url, home / "kit")
    for number, case in enumerate(cases):
        for part in PARTS[engine]:
            if part not in case.engines:
                continue
            prefix = f"r{case.row}v{number}/{part.replace(', ', '-').replace(' ', '-')}"
            place = Place(home / prefix, home / "kit", server.url, prefix)
            place.home.mkdir(parents=True)
            case.serve(server, prefix)
            outcome = bench.run(case.row, case.name, place, part)
            outcome.requests = server.asked(prefix)
            out[case.row, case.name][part] = outcome
            print(f"{case.row:>2} {part:16} {case.name[:50]:50} {outcome.says}", file=sys.stderr)
            clear_away(place.home)
    return bench.versions()


def clear_away(folder: Path) -> None:
    """By the system's own commands: an attack's folders nest deeper than a path may be long."""
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def agree(cases: Iterable[Case], out: Found) -> None:
    """Where the same value is wanted of all, fairseq's is the measure."""
    for case in cases:
        found = out[case.row, case.name]
        if not case.agrees or STOCK not in found or found[STOCK].value is None:
            continue
        for outcome in found.values():
            if outcome.value is not None and outcome.value != found[STOCK].value:
                outcome.grade, outcome.says = WRONG, "another answer than fairseq's"


def run(cases: list[Case]) -> tuple[Found, dict[str, str]]:
    """Run the engines side by side."""
    out: Found = {(case.row, case.name): {} for case in cases}
    versions: dict[str, str] = {}
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="safety-")))
        server = stack.enter_context(HubServer())
        os.environ["TORCH_HOME"] = str(home / "torch")  # not the cache of the person who runs this
        if any(case.row == 0 or case.row > 20 for case in cases):
            make_kit(home / "kit")

        def work(engine: str) -> dict[str, str]:
            return run_engine(engine, cases, home, server, out)

        with ThreadPoolExecutor(len(PARTS)) as pool:
            for found in pool.map(work, PARTS):
                versions |= found
    agree(cases, out)
    return out, versions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=numbers, help="such as 1,2,17-20; default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    wanted = options.rows or set(rows.TITLES)
    cases = [case for case in rows.cases().values() if case.row in wanted]
    out, versions = run(cases)
    table = report.Table(out, versions, wanted & set(rows.TITLES))
    options.out.mkdir(parents=True, exist_ok=True)
    name = "safety" if options.rows is None else "safety-part"
    (options.out / f"{name}.md").write_text(report.markdown(table), encoding="utf-8")
    (options.out / f"{name}.json").write_text(report.as_json(table), encoding="utf-8")
    print(report.markdown(table))
    broken = [key for key, found in out.items() for o in found.values() if o.grade == "broken"]
    print(f"broken cases: {broken}" if broken else "", file=sys.stderr)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
