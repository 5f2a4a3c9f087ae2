"""What changes weights: pre-training and fine-tuning, from text and tables to a model that `load_model` loads.

Example:
    >>> from roberta_hub.train.config import compose
    >>> config = compose(["finetune=rte", "data.train=RTE/train.tsv", "data.valid=RTE/dev.tsv"])
    >>> roberta = train(config)  # doctest: +SKIP
"""

from roberta_hub.train.run import train

__all__ = ["train"]
