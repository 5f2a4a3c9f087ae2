"""Type checkers see one answer for one str and a list for many, of every public verb."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typed_verbs
from small_models import small_roberta

from roberta_hub import RobertaHubInterface, SentenceSettings

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(typed_verbs.__file__)
HEADS = {"mnli": 3, "topic": 2, "grade": 1}


@pytest.mark.system
@pytest.mark.timeout(900)  # where mypy has no cache, it reads torch for minutes
def test_mypy_agrees() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("no mypy; `make check` installs it")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", str(SOURCE)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no issues found in 1 source file" in ran.stdout


def test_no_public_verb_is_forgotten() -> None:
    named = {
        node.attr
        for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }
    public = {
        name
        for kind in RobertaHubInterface.__mro__
        if kind.__module__.startswith("roberta_hub")
        for name, value in vars(kind).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
        if "deprecated" not in (value.__doc__ or "")
    }
    assert len(public) > 20
    assert public <= named


@pytest.mark.system
def test_the_calls_are_real(tmp_path: Path) -> None:
    roberta = small_roberta(
        heads=HEADS, labels={"mnli": ("contradiction", "neutral", "entailment")}
    )
    roberta.register_token_head("ner", labels=["O", "B-X"])
    roberta.register_span_head("squad")
    roberta.sentence = SentenceSettings()  # for zero_shot by meaning
    typed_verbs.ids(roberta)
    typed_verbs.vectors(roberta)
    typed_verbs.sentences(roberta)
    typed_verbs.language(roberta)
    typed_verbs.exports(roberta, tmp_path)
    typed_verbs.heads(roberta)
    typed_verbs.displays(roberta)
    typed_verbs.registration(roberta, tmp_path)


def test_the_words_are_real() -> None:
    pytest.importorskip("spacy")
    typed_verbs.words(small_roberta())
