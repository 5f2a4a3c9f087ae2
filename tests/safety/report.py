"""The table for people, and all that is behind it as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from . import rows
from .case import DOWN, ENGINES, FORCED, GRADES, HARMED, HF, OURS, RAW, SAFE, STOCK, WRONG, Outcome

SIGNS = {SAFE: "✓", RAW: "~", WRONG: "✗", HARMED: "☠", DOWN: "⏱", "broken": "?"}
MEANINGS = {
    SAFE: "safe and clear",
    RAW: "raw error",
    WRONG: "wrong, without an error",
    HARMED: "harmed",
    DOWN: "hung, crashed or out of memory",
}
HEADINGS = {STOCK: "fairseq", HF: "transformers, huggingface_hub", OURS: "roberta_hub"}

NOTES = (
    "Limits of each run: 3 GB of memory above the start, 10 s for a hostile file, 400 s for row 3, "
    "else 30 to 120 s; all on a shared machine, so near misses of a time limit may differ.",
    "fairseq is stock 0.12.2 but for its import, which Python 3.11 refuses "
    "(`roberta_hub.fairseq_bridge`).",
    "Rows 1 to 11: `fairseq.file_utils.cached_path`, `huggingface_hub.hf_hub_download`, "
    "`roberta_hub.checkpoint.fetch.download.fetch_model`, which also unpacks.",
    "Row 4, digest announced: a record with a sha256 for us, an ETag for huggingface_hub; fairseq "
    "has no place for one. Our own catalogue holds digests only where its `sha256` is filled in.",
    "Row 10: the limit is RLIMIT_FSIZE (EFBIG), a stand-in for ENOSPC. Row 15: without root's "
    "capabilities.",
    "Rows 17 to 23, 28, 31: the files of `tests/attacks`, for Hugging Face put into a directory as "
    "its weights; of ours the error has to be about the attack, else it counts as raw. "
    "transformers starts with random weights where names do not fit and logs it: wrong, with a "
    "warning.",
    "Some hostile files of rows 17 to 23 lack what fairseq wants of any file (`best_loss`); its "
    "KeyError about that counts as a raw error, which is in its favour.",
    "Rows 45 and 51 on CUDA: no sample, the table is made on CPU.",
)


@dataclass(frozen=True)
class Table:
    """Outcomes by case and engine, and what is said around them."""

    found: dict[tuple[int, str], dict[str, Outcome]]
    versions: dict[str, str]
    wanted: set[int]

    def of(self, row: int, engine: str) -> list[Outcome]:
        """Outcomes of a row; fairseq forced is fairseq itself where no checkpoint is loaded."""
        row_ = [found for (number, _), found in self.found.items() if number == row]
        fallback = STOCK if engine == FORCED else engine
        return [
            found.get(engine, found.get(fallback))
            for found in row_
            if engine in found or fallback in found
        ]  # type: ignore[misc]

    def differs(self, row: int) -> bool:
        """Whether fairseq forced was run on its own."""
        return any(FORCED in found for (number, _), found in self.found.items() if number == row)

    def grade(self, row: int, engine: str) -> str | None:
        """The worst of a row; None if it does not apply."""
        grades = {outcome.grade for outcome in self.of(row, engine)}
        return next((grade for grade in ("broken", *GRADES) if grade in grades), None)


def markdown(table: Table) -> str:
    shown = sorted(table.wanted)
    lines = [
        "# Faults and attacks, side by side",
        "",
        *_about(table),
        "",
        "| # | case | " + " | ".join(HEADINGS.values()) + " |",
        "|--:|---|---|---|---|",
        *(_line(table, row) for row in shown),
        "",
        "## Summary",
        "",
        "Rows by their worst case; row 0 is a control and not counted. In brackets: single cases.",
        "",
        *_summary(table),
        "",
        "## Notes",
        "",
        *(f"- {note}" for note in NOTES),
        "",
    ]
    return "\n".join(lines)


def _about(table: Table) -> list[str]:
    signs = ", ".join(f"{SIGNS[grade]} {MEANINGS[grade]}" for grade in reversed(GRADES))
    versions = ", ".join(f"{name} {version}" for name, version in _versions(table).items())
    part = f" --rows {','.join(map(str, sorted(table.wanted)))}" if len(table.wanted) < 57 else ""
    return [
        f"{datetime.date.today()}; {versions}; {platform.system()}, CPU. Again: `python "
        f"tests/safety/audit.py{part}`.",
        "",
        f"{signs}. `3×` counts cases; every case with its whole message is in the .json beside "
        "this file. An error is clear if the engine raised it on purpose (`raise`, or a class of "
        "its own), raw if it came from below it (torch, requests, pickle, an assert).",
        "",
        "**forced**: fairseq with `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1`. Stock 0.12.2 cannot load "
        "any RoBERTa with torch ≥ 2.6, its own files included, so this is what its users set; from "
        "row 38 on fairseq's model was loaded this way. The payloads only touch a file in a "
        "temporary folder.",
    ]


def _line(table: Table, row: int) -> str:
    cells = [_cell(table, row, STOCK), _cell(table, row, HF), _cell(table, row, OURS)]
    if table.differs(row):
        forced = _cell(table, row, FORCED)
        cells[0] += f"<br>forced: {'the same' if forced == cells[0] else forced}"
    title = rows.TITLES[row].replace("|", "\\|")
    return f"| {row} | {title} | " + " | ".join(cells) + " |"


def _cell(table: Table, row: int, engine: str) -> str:
    outcomes = table.of(row, engine)
    if not outcomes:
        return f"n/a: {rows.NOT_APPLICABLE.get((row, engine), 'no sample could be made')}"
    grades = Counter(outcome.grade for outcome in outcomes)
    order = [grade for grade in ("broken", *GRADES) if grade in grades]
    return "<br>".join(_group(outcomes, grade) for grade in order)


def _group(outcomes: list[Outcome], grade: str) -> str:
    """All cases of a grade in a line.

    The most frequent way they ended, and how many more ways there were.
    """
    ends = [outcome.says for outcome in outcomes if outcome.grade == grade]
    kinds = Counter(end.partition(":")[0] for end in ends)
    count = f"{len(ends)}× " if len(outcomes) > 1 else ""
    if len(set(ends)) == 1:
        return f"{SIGNS[grade]} {count}{_escaped(ends[0])}"
    listed = [kind for kind, _ in kinds.most_common(3)]
    more = ", …" if len(kinds) > 3 else ""
    return f"{SIGNS[grade]} {count}{_escaped(', '.join(listed))}{more}"


def _escaped(text: str) -> str:
    for char in "\\|<>*_`":
        text = text.replace(char, f"\\{char}")
    return text


def _summary(table: Table) -> list[str]:
    lines = [
        "| engine | " + " | ".join(MEANINGS[grade] for grade in reversed(GRADES)) + " | n/a |",
        "|---|" + "--:|" * (len(GRADES) + 1),
    ]
    counted = sorted(table.wanted - {0})
    for engine in ENGINES:
        worst = Counter(table.grade(row, engine) for row in counted)
        single = Counter(o.grade for row in counted for o in table.of(row, engine))
        cells = [f"{worst[grade]} ({single[grade]})" for grade in reversed(GRADES)]
        lines.append(f"| {engine} | {' | '.join(cells)} | {worst[None]} |")
    return lines


def _versions(table: Table) -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    git = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    return {"roberta_hub": f"at {commit}", **table.versions}


def as_json(table: Table) -> str:
    cases = [
        {
            "row": row,
            "case": name,
            "engine": engine,
            **{k: v for k, v in vars(outcome).items() if k != "value"},
        }
        for (row, name), found in table.found.items()
        for engine, outcome in found.items()
    ]
    about = {
        "date": str(datetime.date.today()),
        "command": " ".join(["python", os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
        "versions": _versions(table),
    }
    return json.dumps({**about, "cases": cases}, indent=1, ensure_ascii=False) + "\n"
