"""Lists models at Hugging Face that people name without their owner, each under its owner.

Most had no owner when they were published, and were moved to one in 2024; sentence-transformers
takes its own names so. A name that is not here, and has no owner, is never asked for.
"""

from __future__ import annotations

import re

OWNERS: dict[str, tuple[str, ...]] = {
    "FacebookAI": (
        "xlm-roberta-large-finetuned-conll02-dutch",
        "xlm-roberta-large-finetuned-conll02-spanish",
        "xlm-roberta-large-finetuned-conll03-english",
        "xlm-roberta-large-finetuned-conll03-german",
    ),
    "TurkuNLP": ("bert-base-finnish-cased-v1", "bert-base-finnish-uncased-v1"),
    "distilbert": (
        "distilbert-base-cased",
        "distilbert-base-cased-distilled-squad",
        "distilbert-base-german-cased",
        "distilbert-base-multilingual-cased",
        "distilbert-base-uncased-distilled-squad",
        "distilbert-base-uncased-finetuned-sst-2-english",
        "distilroberta-base",
    ),
    "google-bert": (
        "bert-base-cased-finetuned-mrpc",
        "bert-base-german-cased",
        "bert-large-cased-whole-word-masking-finetuned-squad",
        "bert-large-uncased-whole-word-masking-finetuned-squad",
    ),
    "openai-community": ("roberta-base-openai-detector", "roberta-large-openai-detector"),
    "sentence-transformers": (
        "LaBSE",
        "all-MiniLM-L12-v1",
        "all-MiniLM-L12-v2",
        "all-MiniLM-L6-v1",
        "all-distilroberta-v1",
        "all-roberta-large-v1",
        "distiluse-base-multilingual-cased-v1",
        "distiluse-base-multilingual-cased-v2",
        "msmarco-MiniLM-L12-cos-v5",
        "msmarco-MiniLM-L6-cos-v5",
        "msmarco-bert-base-dot-v5",
        "msmarco-distilbert-base-tas-b",
        "msmarco-distilbert-base-v4",
        "msmarco-distilbert-cos-v5",
        "msmarco-distilbert-dot-v5",
        "multi-qa-MiniLM-L6-cos-v1",
        "multi-qa-MiniLM-L6-dot-v1",
        "multi-qa-distilbert-cos-v1",
        "multi-qa-distilbert-dot-v1",
        "nli-roberta-base-v2",
        "paraphrase-MiniLM-L12-v2",
        "paraphrase-MiniLM-L3-v2",
        "paraphrase-MiniLM-L6-v2",
        "paraphrase-albert-small-v2",
        "paraphrase-distilroberta-base-v1",
        "paraphrase-distilroberta-base-v2",
        "paraphrase-multilingual-MiniLM-L12-v2",
        "paraphrase-xlm-r-multilingual-v1",
        "stsb-distilroberta-base-v2",
        "stsb-roberta-base",
        "stsb-roberta-base-v2",
        "stsb-roberta-large",
    ),
}
"""Owner -> the names of its models that are known without it; all are of families that we read.

Sources: the pages of the owners, and the list of models in sentence-transformers' documentation.
Names of the catalogue (`records.py`) are not repeated."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
"""What a name at Hugging Face looks like: `owner/model`."""


def full_name(name: str) -> str | None:
    """Return a model's name at Hugging Face with its owner; None: it cannot be one.

    Example:
        >>> full_name("distilroberta-base"), full_name("BAAI/bge-small-en-v1.5")
        ('distilbert/distilroberta-base', 'BAAI/bge-small-en-v1.5')
        >>> full_name("no-such-model"), full_name("./folder"), full_name("a/b/c")
        (None, None, None)
    """
    if _NAME.fullmatch(name) and "--" not in name and ".." not in name:
        return name
    return next((f"{owner}/{name}" for owner, names in OWNERS.items() if name in names), None)


def known_names() -> list[str]:
    """Return every name of the table with its owner.

    Example:
        >>> "sentence-transformers/all-MiniLM-L12-v2" in known_names()
        True
    """
    return [f"{owner}/{name}" for owner, names in OWNERS.items() for name in names]
