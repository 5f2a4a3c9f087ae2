"""rank orders texts by a cross-encoder; predict_proba gives what classify says, as a tensor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.scale import Verb
from roberta_hub.shell.main import main

NLI = ("contradiction", "neutral", "entailment")
QUERY, TEXTS = "a dog", ["Goal!", "A dog ran.", "Goal!", "It rained."]


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    heads = {"mnli": 3, "grade": 1, "tags": 2}
    made = small_roberta(heads=heads, labels={"mnli": NLI, "tags": ("a", "b")}, max_positions=80)
    made.kinds["tags"] = "multi_label"
    return made.eval()


def test_the_score_is_the_sigmoid_and_equals_keep_their_order(roberta: RobertaHubInterface) -> None:
    hits = roberta.rank(QUERY, TEXTS)
    pairs = [(QUERY, text) for text in TEXTS]
    wanted = [p.score for p in roberta.classify(pairs, "grade", multi_label=True)]
    assert [hit.score for hit in hits] == sorted(wanted, reverse=True)
    assert all(hit.text == TEXTS[hit.index] for hit in hits)
    assert [hit.score for hit in hits] == [wanted[hit.index] for hit in hits]
    assert [hit.index for hit in hits if hit.text == "Goal!"] == [0, 2]
    assert roberta.rank(QUERY, TEXTS, 2) == hits[:2]
    assert roberta.rank(QUERY, []) == [] and roberta.rank(QUERY, "Goal!")[0].index == 0
    assert QUERY in hits._repr_html_()  # type: ignore[attr-defined]


def test_a_head_of_several_wants_a_label(roberta: RobertaHubInterface) -> None:
    hits = roberta.rank(QUERY, TEXTS, head="mnli", label="entailment")
    found = roberta.classify([(QUERY, hit.text) for hit in hits], "mnli")  # type: ignore[misc]
    assert [hit.score for hit in hits] == pytest.approx([p.scores["entailment"] for p in found])
    with pytest.raises(InputError, match="no label is given, and head 'mnli' has contradiction"):
        roberta.rank(QUERY, TEXTS, head="mnli")
    with pytest.raises(InputError, match="label is 'entails', and head 'mnli'"):
        roberta.rank(QUERY, TEXTS, head="mnli", label="entails")


def test_what_rank_refuses(roberta: RobertaHubInterface) -> None:
    with pytest.raises(InputError, match=r"^texts\[1\]: too long"):
        roberta.rank(QUERY, ["a", "long " * 90])
    assert len(roberta.rank(QUERY, ["a", "long " * 90], stride=8)) == 2
    with pytest.raises(InputTypeError, match="rank takes single texts"):
        roberta.rank(QUERY, [("a", "b")])  # type: ignore[list-item]
    with pytest.raises(InputTypeError, match="query"):
        roberta.rank(["a"], TEXTS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="topk"):
        roberta.rank(QUERY, TEXTS, 0)
    with pytest.raises(UnknownNameError, match="rank needs a classification head with one output"):
        small_roberta(heads={"mnli": 3}).rank(QUERY, TEXTS)


def test_shell_and_lake_say_what_python_says(
    roberta: RobertaHubInterface, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    roberta.save(tmp_path / "model")
    model = str(tmp_path / "model")
    wanted = {hit.text: hit.score for hit in roberta.rank(QUERY, TEXTS)}
    pairs = [part for text in TEXTS for part in ("--pair", QUERY, text)]
    assert main(["rank", "-m", model, *pairs, "-f", "jsonl"]) == 0
    rows: list[dict[str, Any]] = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert [row["score"] for row in rows] == pytest.approx([wanted[text] for text in TEXTS])
    assert [row["text"] for row in rows] == TEXTS and rows[0]["query"] == QUERY
    table = {"query": [QUERY] * 4, "text": TEXTS}
    found = Verb("rank", model, text=("query", "text"))(table)
    assert found["score"] == pytest.approx([wanted[text] for text in TEXTS])


def test_probabilities_are_those_of_classify(roberta: RobertaHubInterface) -> None:
    pairs = [(QUERY, text) for text in TEXTS]
    found = roberta.predict_proba(pairs, "mnli")
    for row, prediction in zip(found.tolist(), roberta.classify(pairs, "mnli"), strict=True):
        assert dict(zip(NLI, row, strict=True)) == prediction.scores
    both = roberta.predict_proba(TEXTS, "tags")
    assert both.shape == (4, 2) and bool((both.sum(1) != 1).all())
    torch.testing.assert_close(roberta.predict_proba(TEXTS[1], "tags"), both[1])
    assert roberta.predict_proba([], "mnli").shape == (0, 3)
    with pytest.raises(InputError, match="head 'grade' gives a number"):
        roberta.predict_proba(pairs, "grade")
