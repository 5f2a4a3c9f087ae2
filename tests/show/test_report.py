"""Each result is shown by one report: a face that one of them has, all have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roberta_hub.errors import InputError
from roberta_hub.evaluation.comparison import Comparison, Slice
from roberta_hub.evaluation.records import GROUPS_SHOWN, Evaluation, Evaluations, Group
from roberta_hub.export.folder import Exported
from roberta_hub.scale.status import Report as LakeReport
from roberta_hub.scale.work import Done
from roberta_hub.show.report import Reported
from roberta_hub.verification.records import Finding, Stage, Verification

HOSTILE = "<script>`x`|\x1b[31m"
FAULT = Finding("fault", "activation", f"computes | {HOSTILE}", "layer 1", 0.5, 1e-7, (HOSTILE,))
GROUPS = tuple(Group("label", f"{HOSTILE}{i}", i, {"f1": 0.5}) for i in range(GROUPS_SHOWN + 3))
ONE = Evaluation(
    "mine", HOSTILE, "labels", "classify", "", "rows", 4, {"accuracy": 0.5}, None, GROUPS, ("note",)
)
WHOLE = Slice("all rows", 400, 0.05, (0.91, 0.88), (14, 2), 0.0042, (0.02, 0.05))
FAILED = Done(2, "input", errors=(InputError(HOSTILE),))
RESULTS: dict[str, tuple[Reported, int]] = {
    "verification": (
        Verification("mine", HOSTILE, "onnxruntime", (Stage("ids", 0.5, False),), (FAULT,), 4),
        1,
    ),
    "comparison": (Comparison("v1", HOSTILE, "mails.csv", "classify", WHOLE, (WHOLE,), ()), 1),
    "evaluation": (ONE, 0),
    "evaluations": (Evaluations((ONE, ONE)), 0),
    "export": (Exported(Path("out"), (HOSTILE,), ("input_ids",), ("logits",), None, "no"), 0),
    "lake": (LakeReport(HOSTILE, 2, (Done(1, "done", 5),), (FAILED,), seconds=1.0), 0),
}


@pytest.mark.parametrize(("found", "status"), RESULTS.values(), ids=RESULTS)
def test_every_face_says_it(found: Reported, status: int) -> None:
    report, html, page = found.report(), found._repr_html_(), found.to_markdown()
    assert str(found) == str(report) and report.exit == status
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert page.startswith("## ") and "\n\n" in page and "\x1b" not in page
    assert "<script" not in html and "&lt;script" in html and "\x1b" not in html
    assert found.display().to_dict() == found.to_dict()


@pytest.mark.parametrize(("found", "status"), RESULTS.values(), ids=RESULTS)
def test_a_cell_of_markdown_ends_no_column(found: Reported, status: int) -> None:
    lines = found.to_markdown().splitlines()
    for head, below in zip(lines, lines[1:], strict=False):
        if head.startswith("|") and below.startswith("|"):
            assert head.replace("\\|", "").count("|") == below.replace("\\|", "").count("|")


def test_what_is_not_shown_is_counted_on_every_face() -> None:
    for face in (str(ONE), ONE.to_markdown(), ONE._repr_html_(), str(ONE.display())):
        assert "and 3 more groups" in face


def test_notes_of_several_tasks_are_on_every_face() -> None:
    several = Evaluations((ONE, ONE))
    for face in (str(several), several.to_markdown(), str(several.display())):
        assert face.count("note") == 2


def test_it_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = ONE.png(tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes() == picture and picture.size[1] > 500
