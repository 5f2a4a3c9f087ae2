"""Pre-trains and fine-tunes models, from text or tables to what `load_model` loads.

Example:
    >>> from roberta_hub.train.config import compose
    >>> config = compose(["finetune=rte", "data.train=RTE/train.tsv", "data.valid=RTE/dev.tsv"])
    >>> roberta = train(config)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roberta_hub.train.run import train

__all__ = ["train"]


def __getattr__(name: str) -> object:
    """Import `train` when it is first used: what reads settings needs no torch (PEP 562)."""
    if name != "train":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from roberta_hub.train.run import train

    return train
