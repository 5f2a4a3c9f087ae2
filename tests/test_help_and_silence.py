"""`help(roberta)` begins with our verbs; library calls print nothing."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_models import small_roberta
from test_any_argument import VERBS, public_methods

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError


def test_help_begins_with_every_verb() -> None:
    roberta = small_roberta()
    told = pydoc.render_doc(roberta, renderer=pydoc.plaintext)
    first = told[: told.index("Method resolution order")]
    assert "text goes in, answers come out" in first[:900]
    for name in public_methods():
        lines = [line for line in first.splitlines() if re.search(rf"\b{name}\b", line)]
        assert lines and len(lines[0].strip(" |")) > len(name) + 10, name
    assert "register_forward_hook" not in first  # torch's own come last
    ours = re.search(r"zero_shot\([\s|]*self", told)  # Python 3.13 breaks long signatures
    assert ours and ours.start() < told.index("Methods inherited from torch.nn")


@pytest.mark.parametrize("name", public_methods())
def test_each_says_in_one_line_what_it_does(name: str) -> None:
    line = (inspect.getdoc(getattr(RobertaHubInterface, name)) or "").splitlines()[0]
    assert 15 < len(line) <= 96 and line[0].isupper() and line[-1] in ".:"


@pytest.fixture(scope="module")
def _roberta() -> RobertaHubInterface:
    labels = {"mnli": ("contradiction", "neutral", "entailment")}
    roberta = small_roberta(heads={"mnli": 3, "grade": 1}, labels=labels)
    roberta.register_token_head("ner", labels=["O", "B-X"])
    roberta.register_span_head("squad")
    roberta.model.add_replaced_head()
    return roberta.eval()


@pytest.mark.system
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_prints_nothing(
    _roberta: RobertaHubInterface,
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    call = dict(VERBS[verb])
    if verb.startswith("register_"):
        call["name"] = verb
    if "texts" in call:
        call["texts"] = [("a", "b")] if call.get("head") == "mnli" else ["a", "b c"]
    if "text" in call and call.get("head") == "mnli":
        call["text"] = ("a", "b")
    if verb == "cuda" and not torch.cuda.is_available():
        with pytest.raises(InputError, match="CUDA"):
            _roberta.cuda()
    else:
        getattr(_roberta, verb)(**call)
    assert capfd.readouterr() == ("", "")


@pytest.mark.system
def test_a_program_prints_what_it_prints(tmp_path: Path) -> None:
    """From the first import to a saved model that is loaded again, in a fresh Python."""
    code = """
import roberta_hub
roberta = roberta_hub.load_model()
found = roberta.zero_shot("A goal in the last minute.", ["sport", "art"])
roberta.fill_mask("A <mask>."), roberta.embed(["a"] * 70), roberta.optimize()
roberta.save("saved")
assert roberta_hub.load_model("saved").zero_shot("a", ["b", "c"]).label in "bc"
print(found)
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(roberta_hub.__file__).parents[1]),
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI",  # else optimize() says what AMX would give
        },
    )
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"(sport|art) [01]\.\d\d\n", run.stdout)
    assert run.stderr == ""
