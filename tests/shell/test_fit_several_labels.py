"""What `roberta-hub fit` tells to type next gives each text the labels that it has, or none."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from running import runner, write_model

WORDS = ("bread", "soup", "tea")


@pytest.mark.system
def test_from_a_table_to_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run, model = runner(monkeypatch, capsys), write_model(tmp_path / "model")
    rows = [
        {"text": f"{' and '.join(own) or 'nothing'} for {i}", "label": own}
        for i in range(2400)  # so many are learnt once, without choosing how
        for own in [[word for k, word in enumerate(WORDS) if i % 8 >> k & 1]]
    ]
    Path("meals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = (
        "-m",
        model,
        "--epochs",
        2,
        "--learning-rate",
        0.02,
        "--batch-size",
        32,
        "-o",
        "meals",
    )
    status, printed, error = run("fit", "meals.jsonl", *options)
    assert (status, error) == (0, "") and "task: multi-label" in printed
    asked = printed.splitlines()[-1].partition(" | ")[2]
    texts = b"bread and tea for 9\nsoup for 10\nnothing for 16\n"
    status, printed, _ = run(*shlex.split(asked)[1:], stdin=texts)
    answers = [json.loads(line) for line in printed.splitlines()]
    assert status == 0 and [{*answer["labels"]} for answer in answers] == [
        {"bread", "tea"},
        {"soup"},
        set(),
    ]
    assert all(0 <= p <= 1 for answer in answers for p in answer["scores"].values())
