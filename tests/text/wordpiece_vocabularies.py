"""Real BERT vocabularies, rebuilt from the blingfire 0.1.8 wheel; nothing of them is committed.

The wheel holds them in `.i2w` files: a token with a blank in front begins a word, one without goes
on with it, and special words have the blank too.
"""

from __future__ import annotations

import functools
import hashlib

import pytest

SHA256 = {
    "bert_base_tok": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "bert_base_cased_tok": "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
    "bert_multi_cased": "fe0fda7c425b48c516fc8f160d594c8022a0808447475c1a7c6d6479763f310c",
    "bert_chinese": "45bbac6b341c319adc98a532532882e91a9cefc0329aa57bac9ae761c27b291c",
}
"""Of the published vocab.txt of bert-base-uncased, -cased, -multilingual-cased and -chinese."""
LINE_SEPARATOR = {343: "\u2028", 13502: "##\u2028"}
"""Pieces of Chinese BERT that blingfire lost."""


@functools.lru_cache
def vocabulary(name: str) -> bytes:
    """The bytes of a published vocab.txt; skips where the wheel is not installed."""
    pytest.importorskip("blingfire")
    from tools.build_vocabulary import installed_blingfire, read_i2w, read_source

    pieces = []
    for number, token in enumerate(read_i2w(read_source(installed_blingfire(), f"{name}.i2w"))):
        text = token.decode()
        piece = text[1:] if text.startswith(" ") else f"##{text}"
        if name == "bert_base_tok" and piece in ("[unk]", "[cls]", "[sep]", "[mask]"):
            piece = piece.upper()
        if name == "bert_chinese":
            piece = LINE_SEPARATOR.get(number, piece)
        pieces.append(piece)
    data = "".join(f"{piece}\n" for piece in pieces).encode()
    assert hashlib.sha256(data).hexdigest() == SHA256[name]
    return data


def names(name: str) -> list[str]:
    """The pieces of such a vocabulary."""
    return vocabulary(name).decode().removesuffix("\n").split("\n")
