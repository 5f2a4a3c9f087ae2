"""Small SentencePiece models, trained by the library itself, the same every time."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Iterator
from typing import Any

SCRIPTS = (
    ("bcdfglmnprstvh", "aeiou"),
    ("BDGLMPRST", "aeiouéèàç"),
    ("ктнсрвлм", "аоеуя"),
    ("مرحبعلسن", "اوي"),
    ("नमसतरक", "ािेो"),
    ("你好世界我们大学中国", "的是了不"),
)
"""Beginnings and ends of syllables."""
ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
KINDS: dict[str, dict[str, Any]] = {
    "unigram": {"vocab_size": 2000},
    "albert": {
        **{"vocab_size": 1000, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], **ALBERT},
        "user_defined_symbols": ["(", ")", '"', "-", ".", "–", "£", "€"],
    },
    "bpe": {"vocab_size": 600, "model_type": "bpe", "byte_fallback": True},
}


def lines(count: int = 4000) -> Iterator[str]:
    """Sentences of made words in six scripts, with numbers and punctuation."""
    rng = random.Random(15)
    words = [
        "".join(rng.choice(first) + rng.choice(last) for _ in range(rng.randint(1, 3)))
        for first, last in SCRIPTS
        for _ in range(300)
    ]
    for _ in range(count):
        own = rng.choices(words, k=rng.randint(3, 9))
        if rng.random() < 0.4:
            own.insert(1, f"{rng.randrange(100)},{rng.choice(('', '000', '5'))}")
        yield " ".join(own) + rng.choice((".", "!", " ?", ",", ""))


@functools.cache
def trained(kind: str) -> bytes:
    """A `.model` file of one of `KINDS`."""
    import sentencepiece

    model = io.BytesIO()
    settings = {"seed_sentencepiece_size": 8000, "num_sub_iterations": 1, "minloglevel": 2}
    lower = (line.lower() for line in lines()) if kind == "albert" else lines()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lower,
        model_writer=model,
        hard_vocab_limit=False,
        num_threads=1,
        **settings,
        **KINDS[kind],
    )
    return model.getvalue()


@functools.cache
def with_rules(name: str) -> bytes:
    """A `.model` file of few pieces with one of the library's own character maps."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines(200),
        model_writer=model,
        vocab_size=200,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        normalization_rule_name=name,
    )
    return model.getvalue()
