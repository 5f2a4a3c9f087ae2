"""Small SentencePiece models, trained by the library itself, the same every time."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Iterator
from typing import Any

SCRIPTS = (
    ("b c d f g l m n p r s t v ch th qu".split(), "a e i o u ai ou".split()),
    ("B D G L M P R S T".split(), "a e i o u é è à ç".split()),
    ("к т н с р в л м".split(), "а о е и у я".split()),
    ("م ر ح ب ع ل س ن".split(), "ا و ي".split()),
    ("न म स त र क".split(), "ा ि े ो".split()),
    ("你 好 世 界 我 们 大 学 中 国".split(), "的 是 了 不".split()),
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
