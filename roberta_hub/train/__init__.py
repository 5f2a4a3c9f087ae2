"""Pre-trains and fine-tunes models, from text or tables to what `load_model` loads.

Example:
    >>> from roberta_hub.train.config import compose
    >>> config = compose(["finetune=rte", "data.train=RTE/train.tsv", "data.valid=RTE/dev.tsv"])
    >>> roberta = train(config)  # doctest: +SKIP
"""

from roberta_hub.train.run import train

__all__ = ["train"]
