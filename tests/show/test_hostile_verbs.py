"""What every verb shows stays text, whatever text, label or name it is given."""

from __future__ import annotations

from typing import Any

import pytest
from hostile_strings import hostile_strings
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError
from roberta_hub.show.display import Display
from roberta_hub.show.markup import harmless
from roberta_hub.terminal import width_of

pytest.importorskip("html5lib", reason="no html5lib; pip install '.[test]'")
from test_markup import parsed, text_of

HOSTILE = hostile_strings()


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    made = small_roberta(num_layers=1, embed_dim=8, num_heads=2, ffn_dim=8, max_positions=400)
    names = [name for name in HOSTILE if name.strip() and "\ud800" not in name]
    made.register_classification_head("mnli", labels=["contradiction", "neutral", "entailment"])
    made.register_classification_head("odd", labels=[text[:60] for text in names[:20]])
    made.register_token_head("ner", labels=["O", *(text[:60] for text in names[:20])])
    made.register_span_head("squad")
    made.source = "".join(HOSTILE[:40])
    return made.eval()


def is_text(shown: Any, text: str) -> None:
    """The display's HTML is sound, and its text form fits; both hold the text, up to a cut."""
    held = text_of(parsed(shown._repr_html_()))
    assert harmless(text, "\n\t").strip() in held or harmless(text).strip() in held, text
    if isinstance(shown, Display):
        assert all(width_of(line) <= 80 for line in str(shown).splitlines()), text


@pytest.mark.system
@pytest.mark.parametrize("first", range(0, 200, 40))
def test_texts(roberta: RobertaHubInterface, first: int) -> None:
    for text in HOSTILE[first : first + 40]:
        try:
            short = len(roberta.encode(text)) <= 120
        except InputError:
            assert any("\ud800" <= c <= "\udfff" for c in text)  # which no vocabulary has
            continue
        is_text(roberta.token_strip(text), "")
        is_text(roberta.explain(text, "odd", truncate=True), text)
        is_text(roberta.tag(text, "ner", truncate=True), "")
        is_text(roberta.search(text, [text, (text, text)], truncate=True), text)
        if short:
            is_text(roberta.explain((text, "b")), text)
            is_text(roberta.attention(text, 1, 0), "")
            is_text(roberta.attention(text), "")
            is_text(roberta.fill_mask(f"{text} <mask>", topk=2), text)
            is_text(roberta.classify([text], "odd"), text)
            if text.strip():
                is_text(roberta.zero_shot(["a"], [text, "b"], head="mnli"), text)
                is_text(roberta.answer("who?", text, "squad", no_answer=False), text)


def test_the_card(roberta: RobertaHubInterface) -> None:
    is_text(roberta, roberta.source)
