"""What the tests of the shell share: a small model with a head of each kind, and a way to run."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_models import small_roberta

from roberta_hub.shell.main import main

Run = Callable[..., tuple[int, str, str]]
PYTHON = re.compile(
    r"(?<!roberta-hub train )\b[a-z_]+=(?!\d)|\b[a-z_]+\([a-z_'\".]*\)|\bpass \b|\broberta\.own"
    r"|\btexts?\[\d|\btext \d"
)
"""What an error advises or names in Python, and a shell has no use for."""
LABELS = {
    "topic": ("art", "sport"),
    "nli": ("contradiction", "neutral", "entailment"),
}


def write_model(folder: Path) -> Path:
    """A model of two layers whose own head is for single texts, with a head for every verb."""
    roberta = small_roberta(
        heads={"topic": 2, "nli": 3, "race": 1}, labels=LABELS, num_layers=2, max_positions=48
    )
    roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    roberta.register_span_head("squad")
    roberta.default_head = "topic"
    roberta.inputs["topic"] = "one"
    roberta.save(folder)
    return folder


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process: (status, standard output, standard error)."""

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = int(end.code or 0)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        if arguments[:1] != ("train",):  # whose settings are written name=value
            ours = captured.err
            for word in filter(lambda word: len(word) > 3, map(str, arguments)):
                ours = ours.replace(word, "")  # the user's own
            assert not PYTHON.search(ours), captured.err
        return status, captured.out, captured.err

    return run
