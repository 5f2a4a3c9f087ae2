"""Reads and writes what config.json says of a model's one head, and finds the head in a file."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.checkpoint import (
    HEADS,
    REPLACED_HEAD,
    SPAN_HEADS,
    TOKEN_HEADS,
    Checkpoint,
    distinct_labels,
    plain_inputs,
)
from roberta_hub.checkpoint.names.table import REPLACED, HeadNames, NameTable
from roberta_hub.errors import CheckpointError, InputError, Remedy
from roberta_hub.formats.foreign_heads import facts_elsewhere
from roberta_hub.model.nli_labels import entailment_index
from roberta_hub.settings import Head, HeadKind, HeadType, check_fact

INPUTS = "roberta_hub_inputs"
"""Our key in config.json, which transformers keeps and does not read."""
KIND = "problem_type"
"""transformers' key for the kind of a head for sentences."""
_KINDS: dict[HeadKind, str] = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
"""Our name of a kind -> transformers'."""


def heads_in(table: NameTable, keys: Container[str], architectures: object) -> list[HeadNames]:
    """Find which of a family's heads a file holds.

    Two classes may save the same names: `classifier` is a classifier of tokens or of choices. Such
    a module belongs to the head of the class that config.json names, else to the first in the table
    whose modules are all there.

    Example:
        >>> from roberta_hub.checkpoint.names.roberta import ROBERTA
        >>> keys = ["roberta.pooler.dense.weight", "classifier.weight"]
        >>> heads_in(ROBERTA, keys, ["RobertaForMultipleChoice"])[0].suffix
        'ForMultipleChoice'
        >>> heads_in(ROBERTA, keys, None)[0].suffix
        'ForTokenClassification'
    """
    uses = Counter(module for head in table.heads for module in head.modules.values())
    named = [head for head in table.heads if architectures == [table.class_prefix + head.suffix]]
    whole = [
        head
        for head in table.heads
        if all(f"{module}.weight" in keys for module in head.modules.values())
    ]
    # Reading such a head where it is not whole says what it lacks.
    alone = [head for head in table.heads if all(uses[m] == 1 for m in head.modules.values())]
    found: list[HeadNames] = []
    for head in (*named, *whole, *alone):
        claimed = {module for other in found for module in other.modules.values()}
        taken = any((other.kind, other.name) == (head.kind, head.name) for other in found)
        if not taken and claimed.isdisjoint(head.modules.values()):
            found.append(head)
    return found


def read_heads(hf: dict[str, Any], checkpoint: Checkpoint, found: Sequence[HeadNames]) -> None:
    """Put what is known of the heads into the checkpoint: labels, what they were trained on."""
    fixed = {head.name: head.labels for head in found if head.labels}
    known = checkpoint.known_heads
    for head, (count, _) in checkpoint.heads().items():
        if len(fixed.get(head, ())) == count:  # BERT and ALBERT were pre-trained on pairs
            known[head] = Head(labels=fixed[head], inputs="pair")
            continue
        known[head] = Head(
            labels=_labels(hf, count, head, checkpoint.source),
            inputs=plain_inputs({head: hf.get(INPUTS)}).get(head),
            kind=_kind(hf.get(KIND), checkpoint.source),
            **_facts(hf, "classification", head, count, checkpoint.source),
        )
        checkpoint.task = "sentence_prediction"
    for head, count in checkpoint.token_heads().items():
        known[head] = Head(
            labels=_labels(hf, count, head, checkpoint.source),
            **_facts(hf, "token", head, count, checkpoint.source),
        )


def _kind(given: object, source: str) -> HeadKind | None:
    """Read the kind of a head for sentences; None: the file does not say it."""
    if given is None:
        return None
    for ours, theirs in _KINDS.items():
        if given == theirs:
            return ours
    raise CheckpointError(
        f"{source}: problem_type in config.json is {brief(given)}; transformers knows "
        f"{', '.join(_KINDS.values())}, and null where it is unknown"
    )


def _facts(
    hf: dict[str, Any], kind: HeadType, head: str, count: int, source: str
) -> dict[str, Any]:
    """Read the facts under keys of ours; CheckpointError: one has no such value."""
    found = {}
    for key, fact in facts_elsewhere(kind).items():
        try:
            if key in hf:
                found[fact.name] = check_fact(fact, head, hf[key], count)
        except InputError as error:
            raise CheckpointError(f"{key} in config.json: {error}", place=source) from None
    return found


def _labels(hf: dict[str, Any], num_classes: int, head: str, source: str) -> tuple[str, ...]:
    """Return the names of a head's classes; LABEL_0 and so on where the file names none."""
    count, table = hf.get("num_labels"), hf.get("id2label")
    if count is not None and count != num_classes:
        raise CheckpointError(
            f"num_labels in config.json is {brief(count)}, and head {head!r} has {num_classes} "
            "outputs",
            place=source,
        )
    table = table if isinstance(table, dict) else {}
    plain = [f"LABEL_{i}" for i in range(num_classes)]
    numbers = {str(i) for i in range(num_classes)}
    if table.keys() != numbers and any(
        name != f"LABEL_{i}" for i, name in table.items()
    ):  # transformers' own two labels say nothing
        raise CheckpointError(
            f"id2label in config.json is {brief(table)}, and head {head!r} has {num_classes} "
            f"outputs, 0 to {num_classes - 1}",
            place=source,
        )
    if all(name == f"LABEL_{i}" for i, name in table.items()):
        # transformers' zero-shot pipeline takes the class for entailment from here.
        named = hf.get("label2id")
        turned = {str(i): name for name, i in named.items()} if isinstance(named, dict) else {}
        known = [turned[str(i)] for i in range(num_classes) if str(i) in turned]
        if len(turned) == len(known) == num_classes and entailment_index(known) is not None:
            table = turned
    shown = [str(table.get(str(i), name)) for i, name in enumerate(plain)]
    return distinct_labels(shown, head, source)


def head_to_write(table: NameTable, checkpoint: Checkpoint, head: str | None) -> HeadNames | None:
    """Choose the head to save, and the names it gets; None: the model has none."""
    kinds = {
        **dict.fromkeys(checkpoint.heads(), HEADS),
        **dict.fromkeys(checkpoint.token_heads(), TOKEN_HEADS),
        **dict.fromkeys(checkpoint.span_heads(), SPAN_HEADS),
    }
    if checkpoint.has(REPLACED_HEAD):
        kinds[REPLACED] = REPLACED_HEAD
    classes = {name: count for name, (count, _) in checkpoint.heads().items()}
    first = {REPLACED} | {
        names.name for names in table.heads if len(names.labels) == classes.get(names.name, -1)
    }
    trained = [name for name in kinds if name not in first]
    name = _chosen(list(kinds), trained, head, checkpoint.default_head)
    if name is None:
        return None
    has_lm_head = checkpoint.config.lm_head
    alike = [
        names
        for names in table.heads
        if names.kind == kinds[name]
        and (names.name == name if name in first else not names.labels)
        and names.lm_head in (None, has_lm_head)
    ]
    if not alike:
        lm_head = "an" if has_lm_head else "no"
        raise CheckpointError(
            f"transformers has no class of {table.title} with head {name!r} and {lm_head} LM head",
            remedy=Remedy(
                "choose another head with head=..., or save as 'roberta_hub'",
                "choose another head with --head, or give --to roberta_hub",
            ),
        )
    return dataclasses.replace(alike[0], name=name)


def _chosen(
    heads: Sequence[str], trained: Sequence[str], head: str | None, default: str | None
) -> str | None:
    """Return the head that was asked for, else of those trained, or of all, the default or only."""
    if head is not None and head not in heads:
        raise CheckpointError(f"no head {head!r} to save; there are {', '.join(heads) or 'none'}")
    able = trained or heads
    if head is None and default in able:
        return default
    if head is None and len(able) > 1:
        raise CheckpointError(
            f"a Hugging Face model holds one classifier and this one has {len(heads)}",
            remedy=Remedy(
                f"choose with save(..., head=...) among {', '.join(heads)}",
                f"choose with --head among {', '.join(heads)}",
            ),
        )
    return head or next(iter(able), None)


def about_head(table: NameTable, head: HeadNames, checkpoint: Checkpoint) -> dict[str, Any]:
    """Make what config.json says of a head, in place of what it says of a model without one."""
    about: dict[str, Any] = {"architectures": [table.class_prefix + head.suffix]}
    if head.labels or head.kind in (SPAN_HEADS, REPLACED_HEAD):
        return about
    is_token = head.kind == TOKEN_HEADS
    count = checkpoint.token_heads()[head.name] if is_token else checkpoint.heads()[head.name][0]
    known = checkpoint.known(head.name)
    shown = known.labels or ()
    if len(shown) != count:
        shown = tuple(f"LABEL_{i}" for i in range(count))
    about["id2label"] = {str(i): label for i, label in enumerate(shown)}
    about["label2id"] = {label: i for i, label in enumerate(shown)}
    if known.inputs is not None:
        about[INPUTS] = known.inputs
    if known.kind is not None:
        about[KIND] = _KINDS[known.kind]
    plain, keys = known.to_dict(), facts_elsewhere("token" if is_token else "classification")
    return about | {k: plain[fact.name] for k, fact in keys.items() if fact.name in plain}
