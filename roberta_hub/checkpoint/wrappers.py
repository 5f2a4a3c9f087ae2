"""Removes the prefixes that wrappers of a model put into the names of its tensors.

DataParallel writes `module.`, torch.compile `_orig_mod.`, and a class that holds the model the name
of its attribute: `model.`, `backbone.`. FSDP and activation checkpointing put a part inside a name.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from roberta_hub.arguments import advise
from roberta_hub.errors import CheckpointError, Remedy

_FRONT = ("module", "model", "backbone")
"""Parts that are taken off at the beginning of a name alone: they could be a module's inside."""
_ANYWHERE = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_EMBEDDINGS = ("word_embeddings.weight", "embed_tokens.weight")
"""How the name ends of the one tensor that every model has."""
_NO_WEIGHTS = ("_float_tensor",)
"""What fairseq's hub interface has besides its model: a zero that says the device."""


def unwrap(weights: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    """Return the tensors under the names that they have without wrappers; a warning says which."""
    bare = {name: _bare(name) for name in weights}
    front = _front([name for name in bare.values() if name.endswith(_EMBEDDINGS)])
    if not front and all(name == short for name, short in bare.items()):
        return weights
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if bare[name] in _NO_WEIGHTS:
            continue
        if not bare[name].startswith(front):
            raise CheckpointError(
                f"{source}: the model is in {front!r}, and tensor {name[:120]!r} is not, so it "
                "belongs to a class of your own, and nothing says what it does there",
                remedy=Remedy(
                    f"save the model alone: outer.{front}save_pretrained(folder), or "
                    f"torch.save(outer.{front}state_dict(), file)",
                    "save the model alone, without the class that holds it",
                ),
            )
        short = bare[name][len(front) :]
        if short in found:
            raise CheckpointError(f"{source}: {name[:120]!r} and another tensor are both {short!r}")
        found[short] = tensor
    off = [f"{part}." for part in (*front.split(".")[:-1], *_ANYWHERE) if _has(weights, part)]
    advise(
        f"{source}: {' and '.join(off)} {'is' if len(off) == 1 else 'are'} taken off the names of "
        "its tensors; a wrapper put it there"
    )
    return found


def _bare(name: str) -> str:
    """Take the parts out of a name that may be anywhere in it."""
    if not any(part in name for part in _ANYWHERE):
        return name
    return ".".join(part for part in name.split(".") if part not in _ANYWHERE)


def _front(embeddings: Sequence[str]) -> str:
    """Return the wrappers before the name of the token embedding: "module.model."."""
    front = ""
    for part in embeddings[0].split(".") if embeddings else ():
        if part not in _FRONT:
            break
        front += f"{part}."
    return front


def _has(weights: dict[str, Tensor], part: str) -> bool:
    return any(name.startswith(f"{part}.") or f".{part}." in name for name in weights)
