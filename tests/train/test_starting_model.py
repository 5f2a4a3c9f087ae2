"""The model that a table teaches: what its texts cost it, and what it keeps of before."""

from __future__ import annotations

import pytest
from small_models import small_roberta

from roberta_hub import ZeroShotSettings
from roberta_hub.errors import InputError
from roberta_hub.model.known_head import heads_of
from roberta_hub.train.fitting.starting_model import count_tokens, keep_head


@pytest.mark.parametrize(("kind", "name"), [("classification", "topic"), ("token", "pos")])
def test_what_other_heads_knew_is_forgotten(kind: str, name: str) -> None:
    roberta = small_roberta(heads={"topic": 2, "mood": 2})
    roberta.register_token_head("pos", labels=["O", "B-X"])
    roberta.register_span_head("squad")
    for head in ("topic", "mood"):
        roberta.kinds[head], roberta.thresholds[head] = "multi_label", (0.5, 0.5)
        roberta.inputs[head], roberta.labels[head] = "one", ("a", "b")
    roberta.word_rules["pos"] = "parts"
    roberta.zero_shot_settings = ZeroShotSettings(by="meaning")
    keep_head(roberta, kind, name)  # type: ignore[arg-type]
    kinds = ("classification", "token", "span")
    assert {k: list(heads_of(roberta.model, k)) for k in kinds} == {
        k: [name] if k == kind else [] for k in kinds
    }
    assert roberta.zero_shot_settings is None
    assert set(roberta.labels) == {name}
    known = (roberta.kinds, roberta.thresholds, roberta.inputs, roberta.word_rules)
    assert all(set(own) <= {name} for own in known)


def test_a_text_that_cannot_be_read_is_named() -> None:
    roberta = small_roberta()
    assert count_tokens(roberta, ["Hello", "Hello world!"], ["a:1", "a:2"])[0] >= 3
    with pytest.raises(InputError, match="a:2"):
        count_tokens(roberta, ["Hello", "wrong \ud800"], ["a:1", "a:2"])
