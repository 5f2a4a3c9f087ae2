"""Random folders of every family and random texts, beside transformers and sentence-transformers.

`python -m tests.fuzz.folders` runs the same for as long as one likes; tests/fuzz/FOLDERS.md is what
it found in an hour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("transformers").logging.set_verbosity_error()
pytest.importorskip("sentence_transformers")
pytest.importorskip("sentencepiece")

from fuzz.folder_cases import run_case  # noqa: E402
from fuzz.folder_models import PREFIXES  # noqa: E402

import roberta_hub.formats.huggingface as formats  # noqa: E402
from roberta_hub.text import huggingface  # noqa: E402
from roberta_hub.text.added_token import AddedToken  # noqa: E402

pytestmark = pytest.mark.parity
FAMILIES = sorted(PREFIXES)
SEED, CASES = 7, 8
"""Cases of a family."""


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_or_refused(family: str) -> None:
    first = FAMILIES.index(family)
    outcomes = [run_case(SEED, first + n * len(FAMILIES)) for n in range(CASES)]
    assert {outcome.family for outcome in outcomes} == {family}
    for outcome in outcomes:
        assert outcome.found.different == [], (outcome.number, outcome.about)
    assert sum(outcome.kind == "equal" for outcome in outcomes) >= CASES // 2


def ignored_side(patch: pytest.MonkeyPatch) -> None:
    """Texts are cut on the right, whatever truncation_side says."""
    read = huggingface._limited

    def right(*given: Any) -> Any:
        return dataclasses.replace(read(*given), truncation_side="right")

    patch.setattr(huggingface, "_limited", right)


def lost_lstrip(patch: pytest.MonkeyPatch) -> None:
    """White space before an added word is text."""
    read = AddedToken.of

    def without(*given: Any, **more: Any) -> AddedToken:
        return dataclasses.replace(read(*given, **more), lstrip=False)

    patch.setattr(AddedToken, "of", without)


def wrong_pooling(patch: pytest.MonkeyPatch) -> None:
    """The last token's vector is taken for the first's."""
    read = formats.read_sentence_settings

    def other(*given: Any) -> Any:
        found = read(*given)
        if found is None:
            return None
        modes = tuple("cls" if own == "last_token" else own for own in found.pooling)
        return dataclasses.replace(found, pooling=modes)

    patch.setattr(formats, "read_sentence_settings", other)


@pytest.mark.parametrize("fault", [ignored_side, lost_lstrip, wrong_pooling])
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert any(run_case(SEED, number).found.different for number in range(150))
