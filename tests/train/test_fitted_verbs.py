"""A model that `fit` made has one head, and no verb, in Python or a shell, wants its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from learning import ANIMALS
from shell.running import Run, runner

import roberta_hub
from roberta_hub import RobertaHubInterface

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
WORDS = list(ANIMALS)
PAIR = ("A cat.", "It is a cat.")
TABLES: dict[str, list[dict[str, Any]]] = {
    "labels": [{"text": f"A {WORDS[i % 2]} {i}.", "label": WORDS[i % 2]} for i in range(24)],
    "several": [{"text": f"A {WORDS[i % 2]} {i}.", "label": [WORDS[i % 2]]} for i in range(24)],
    "pairs": [
        {"a": f"A {WORDS[i % 2]} {i}.", "b": "A cat.", "label": ("no", "yes")[i % 2]}
        for i in range(24)
    ],
    "scores": [
        {"query": f"A {WORDS[i % 2]} {i}?", "text": "A cat.", "label": i % 2 + 0.5}
        for i in range(24)
    ],
    "spans": [{"text": f"A cat {i}.", "spans": [[2, 5, "ANIMAL"]]} for i in range(24)],
}
COLUMNS = {"pairs": ["a", "b"], "scores": ["query", "text"]}


@pytest.fixture(scope="module")
def fitted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of each kind that `fit` makes, as a folder."""
    folder = tmp_path_factory.mktemp("fitted")
    for name, rows in TABLES.items():
        given: dict[str, Any] = {"text": COLUMNS.get(name), "model": base, "progress": False}
        given["task"] = "regression" if name == "scores" else None
        roberta_hub.fit(rows, output=folder / name, epochs=1, **given)
    return {name: folder / name for name in TABLES}


ASKED: dict[str, list[Callable[[RobertaHubInterface, dict[str, Any]], Any]]] = {
    "labels": [
        lambda r, head: r.classify("A cat.", **head),
        lambda r, head: r.predict_proba(["A cat."], **head).tolist(),
        lambda r, head: r.explain("A cat.", **head).to_dict(),
    ],
    "several": [
        lambda r, head: r.classify("A cat.", **head),
        lambda r, head: r.explain("A cat.", **head).to_dict(),
    ],
    "pairs": [
        lambda r, head: r.classify([PAIR], **head),
        lambda r, head: r.explain(PAIR, **head).to_dict(),
        lambda r, head: r.rank("A cat?", ["A cat.", "A dog."], label="yes", **head),
    ],
    "scores": [
        lambda r, head: r.classify([PAIR], **head),
        lambda r, head: r.explain(PAIR, **head).to_dict(),
        lambda r, head: r.rank("A cat?", ["A cat.", "A dog."], **head),
        lambda r, head: r.choose("A cat?", ["A cat.", "A dog."], **head),
    ],
    "spans": [lambda r, head: r.tag("A cat sat.", **head)],
}


@pytest.mark.system
@pytest.mark.parametrize("name", ASKED)
def test_in_python(name: str, fitted: dict[str, Path], tmp_path: Path) -> None:
    mine = roberta_hub.load_model(fitted[name]).eval()
    head = {"head": mine.default_head}
    for ask in ASKED[name]:
        assert ask(mine, {}) == ask(mine, head)
    assert roberta_hub.evaluate(mine, TABLES[name], text=COLUMNS.get(name)).numbers
    mine.save(tmp_path / "there", format="huggingface")
    there = roberta_hub.load_model(tmp_path / "there")
    for ask in ASKED[name]:
        ask(there, {})


COMMANDS = {
    "labels": ["classify", "A cat."],
    "several": ["classify", "A cat."],
    "pairs": ["classify", "--pair", *PAIR],
    "scores": ["rank", "--pair", *PAIR],
    "spans": ["tag", "A cat sat."],
}


@pytest.mark.system
@pytest.mark.parametrize("name", COMMANDS)
def test_in_a_shell(
    name: str,
    fitted: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run: Run = runner(monkeypatch, capsys)
    verb, *rest = COMMANDS[name]
    status, out, err = run(verb, "-m", fitted[name], *rest)
    assert status == 0 and json.loads(out), err
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in TABLES[name]))
    columns = ("--text", ",".join(COLUMNS[name])) if name in COLUMNS else ()
    status, out, err = run("evaluate", fitted[name], table, *columns)
    assert status == 0 and out, err
    if name in ("labels", "pairs"):
        status, out, err = run("compare", fitted[name], fitted[name], "-i", table, *columns)
        assert status == 0 and out, err
