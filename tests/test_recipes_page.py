"""The blocks of docs/guides/libraries.md run as they are, and print what the page says."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from scripts import TOOLS, load_script

PAGE = (Path(__file__).resolve().parents[1] / "docs/guides/libraries.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
ANSWERS = load_script(TOOLS / "answers.py")
NEEDS = {
    "pandas": ("pandas",),
    "polars": ("polars",),
    "scikit-learn": ("sklearn",),
    "datasets": ("datasets",),
    "sentence-transformers": ("sentence_transformers",),
    "transformers": ("transformers",),
    "LangChain": ("langchain_core",),
}
"""What each recipe imports beside us."""


def of_pandas(names: dict[str, Any], printed: str) -> None:
    table = names["reviews"]
    assert list(table.columns) == ["text", "label", "positive", "negative"]
    wanted = table[["positive", "negative"]].idxmax(axis="columns")
    assert list(table["label"]) == list(wanted)
    assert "What a wonderful film!" in printed


def of_polars(names: dict[str, Any], printed: str) -> None:
    assert names["again"].columns == ["text", "vector"]
    stored = torch.tensor(names["again"]["vector"].to_numpy())
    assert torch.equal(stored, names["roberta"].embed(names["reviews"]["text"]))
    assert re.match(r"0\.\d\d corpus\[\d\]", printed)


def of_scikit_learn(names: dict[str, Any], printed: str) -> None:
    from sklearn.base import clone

    pipeline, texts = names["pipeline"], names["texts"]
    assert re.fullmatch(r"\['(good|bad)' '(good|bad)'\]\n", printed)
    assert list(pipeline.predict(texts)) == ["good", "good", "bad", "bad"]
    again = pickle.loads(pickle.dumps(pipeline))
    assert (again.predict_proba(texts) == pipeline.predict_proba(texts)).all()
    anew = clone(pipeline).fit(texts, ["bad", "bad", "good", "good"])
    assert list(anew.predict(texts)) == ["bad", "bad", "good", "good"]
    assert list(pipeline.predict(texts)) == ["good", "good", "bad", "bad"]


def of_datasets(names: dict[str, Any], printed: str) -> None:
    assert eval(printed).keys() == {"text", "label", "score"}
    assert len(names["reviews"].map(names["label"], batched=True, batch_size=1)) == 2


def of_langchain(names: dict[str, Any], printed: str) -> None:
    assert printed in ("A goal in the last minute.\n", "Prices rose again.\n")
    found = names["store"].similarity_search_with_score("Prices rose again.", k=2)
    assert found[0][0].page_content == "Prices rose again."
    assert found[0][1] == pytest.approx(1, abs=1e-5)


def said_true(names: dict[str, Any], printed: str) -> None:
    assert printed == "True\n"


CHECKS: dict[str, Callable[[dict[str, Any], str], None]] = {
    "pandas": of_pandas,
    "polars": of_polars,
    "scikit-learn": of_scikit_learn,
    "datasets": of_datasets,
    "sentence-transformers": said_true,
    "transformers": said_true,
    "LangChain": of_langchain,
}


def test_every_recipe_is_run_and_short() -> None:
    assert list(BLOCKS) == list(NEEDS) == list(CHECKS)
    assert PAGE.count("```python") == len(BLOCKS)
    for name, block in BLOCKS.items():
        assert len([line for line in block.splitlines() if line.strip()]) <= 15, name
        assert "load_model()" in block


@pytest.mark.system
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.timeout(600)
def test_a_recipe_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for package in NEEDS[name]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(BLOCKS[name], f"docs/guides/libraries.md, {name}", "exec"), names)
    printed = capsys.readouterr().out
    shown = "".join(re.findall(r"^# (.*\n)", BLOCKS[name], re.MULTILINE))
    assert not shown or ANSWERS.same(shown, printed, 0.02)
    CHECKS[name](names, printed)
