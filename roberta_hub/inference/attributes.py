"""Checks what is assigned to a model, and takes what other libraries call our attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from roberta_hub.arguments import advise, kind_of, one_of, short_repr, text_of, whole_number
from roberta_hub.checkpoint.names.families import FAMILIES
from roberta_hub.errors import InputError, InputTypeError, Remedy
from roberta_hub.inference.embed import kept_of, vector_width
from roberta_hub.inference.heads import HeadFact
from roberta_hub.model.known_head import (
    heads_of,
    kind_of_head,
    list_heads,
)
from roberta_hub.other_names import OF_SENTENCE
from roberta_hub.settings import SentenceSettings, ZeroShotSettings
from roberta_hub.text.tokenizer import Tokenizer

# ---- our own attributes ----


def _of_type(kind: type, *, optional: bool = False, hint: str = "") -> Callable[..., Any]:
    def check(roberta: Any, name: str, value: Any) -> Any:
        if not (isinstance(value, kind) or (optional and value is None)):
            wanted = f"{kind.__name__}{' or None' if optional else ''}"
            raise InputTypeError(f"{name} is a {kind_of(value)}; give {wanted}{hint}")
        return value

    return check


def _default_head(roberta: Any, name: str, value: Any) -> Any:
    if value is not None and kind_of_head(roberta.model, text_of(name, value)) is None:
        advise(f"default_head is {value!r}, and this model has {list_heads(roberta.model)}")
    return value


def _family(roberta: Any, name: str, value: Any) -> Any:
    one_of(name, value, tuple(FAMILIES))
    return value


def _text(roberta: Any, name: str, value: Any) -> Any:
    return text_of(name, value)


_CHECKS: dict[str, Callable[[Any, str, Any], Any]] = {
    "model": _of_type(nn.Module),
    "tokenizer": _of_type(Tokenizer, hint="; roberta.bpe = ... takes another engine"),
    "sentence": _of_type(SentenceSettings, optional=True),
    "zero_shot_settings": _of_type(ZeroShotSettings, optional=True),
    "default_head": _default_head,
    "family": _family,
    "source": _text,
}
"""Attributes of a model, each with its check."""
CHECKED = ("labels", *_CHECKS)
"""Attributes that `checked_attribute` checks."""
OWN = (*_CHECKS, "task", "cfg", "bpe", "fitted", "learnt", "optimized")
"""Attributes of a model that are set, without the facts of heads."""


def settable(owner: type) -> list[str]:
    """List the attributes of a model that are set."""
    return [*(name for name, own in vars(owner).items() if isinstance(own, HeadFact)), *OWN]


def checked_attribute(roberta: Any, name: str, value: Any) -> Any:
    """Return what is assigned to one of our own attributes, as it is kept."""
    if name != "labels":
        return _CHECKS[name](roberta, name, value)
    listed = isinstance(value, (list, tuple))
    return {**roberta.labels, labelled_head(roberta): value} if listed else value


# ---- names of other libraries ----


def labelled_head(roberta: Any) -> str:
    """Return the head that labels without a head's name are of: the default, or the only one."""
    able = [*heads_of(roberta.model), *heads_of(roberta.model, "token")]
    if roberta.default_head in able:
        return str(roberta.default_head)
    if len(able) != 1:
        raise InputError(
            f"these labels name no head, and this model has {list_heads(roberta.model)}",
            remedy=Remedy("roberta.labels[head] = [...] sets those of one"),
        )
    return str(able[0])


def _set_id2label(roberta: Any, value: Any) -> None:
    _set_named(roberta, "id2label", value, "0 to n - 1 to their labels")


def _set_label2id(roberta: Any, value: Any) -> None:
    ids = {i: label for label, i in value.items()} if isinstance(value, Mapping) else value
    _set_named(roberta, "label2id", ids, "labels to 0 to n - 1")


def _set_named(roberta: Any, name: str, value: Any, form: str) -> None:
    ids = {str(i): label for i, label in value.items()} if isinstance(value, Mapping) else {}
    order = [str(i) for i in range(len(ids))]
    if not ids or {*order} != {*ids}:
        raise InputError(f"{name} is {short_repr(value)}; give a dict from {form}")
    roberta.labels[labelled_head(roberta)] = [ids[i] for i in order]


def _id2label(roberta: Any) -> dict[int, str]:
    return dict(enumerate(roberta.head_labels(labelled_head(roberta))))


def _label2id(roberta: Any) -> dict[str, int]:
    return {label: i for i, label in _id2label(roberta).items()}


def _of_sentence(roberta: Any, name: str) -> Any:
    if name == "max_seq_length":
        return roberta._sentence_runner()[1].limit
    return getattr(roberta.sentence or SentenceSettings(), OF_SENTENCE[name])


def _set_sentence(roberta: Any, name: str, value: Any) -> None:
    if name == "max_seq_length" and value is not None:
        value = whole_number(name, value, 1, int(roberta.model.max_positions()))
    settings = roberta.sentence or SentenceSettings()
    if name == "truncate_dim" and value is not None:
        value = kept_of(vector_width(roberta._runner(), settings), value)
    if name == "prompts" and isinstance(value, Mapping):
        _check_default_prompt(settings.default_prompt, value)
    value = getattr(value, "value", value)  # of sentence-transformers' SimilarityFunction
    roberta.sentence = dataclasses.replace(settings, **{OF_SENTENCE[name]: value})


def _check_default_prompt(name: str | None, prompts: Mapping[str, Any]) -> None:
    if name is not None and name not in prompts:
        raise InputError(
            f"prompts is {short_repr(dict(prompts))}, without {name!r}, the default prompt; set "
            "roberta.default_prompt_name = None first"
        )


_LABELS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    "id2label": (_id2label, _set_id2label),
    "label2id": (_label2id, _set_label2id),
}
TAKEN = frozenset((*OF_SENTENCE, *_LABELS))
"""Attributes of other libraries that are another name of ours."""


def taken(roberta: Any, name: str) -> Any:
    """Return what another library's attribute is here."""
    return _LABELS[name][0](roberta) if name in _LABELS else _of_sentence(roberta, name)


def take(roberta: Any, name: str, value: Any) -> None:
    """Set what another library's attribute is here."""
    if name in _LABELS:
        _LABELS[name][1](roberta, value)
    else:
        _set_sentence(roberta, name, value)
