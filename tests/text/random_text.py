"""Random text that breaks tokenizers."""

from bpe_twin import shared_characters
from hypothesis import strategies as st

from roberta_hub.text.bpe import BEGIN, END

# What the pattern treats in a special way, and what breaks tokenizers.
FRAGMENTS = [
    "hello",
    " world",
    "The",
    "don't",
    "I'LL",
    "we've",
    "'s",
    "''",
    "s'",
    "can’t",
    "1999",
    " 3.14",
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\t",
    "\u00a0",
    "\u2028",
    "\u3000",
    "\ufeff",
    "\0",
    "\x1c",
    "\x85",
    "é",
    "e\u0301",
    "ß",
    "İ",
    "ﬁ",
    "你好",
    "नमस्ते",
    "مرحبا",
    "🙂",
    "👩‍👩‍👧",
    "²",
    "Ⅷ",
    "٣",
    "<s>",
    "</s>",
    "<mask>",
    "<pad>",
    "<unk>",
    "<|endoftext|>",
    "madeupword0000",
    BEGIN,
    END,
]


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    """Text of common fragments and of characters from all over Unicode."""
    piece = st.one_of(
        st.sampled_from(FRAGMENTS),
        st.text(st.characters(codec="ascii"), max_size=6),
        st.deferred(lambda: st.sampled_from(shared_characters())),
    )
    return st.lists(piece, max_size=max_size).map("".join)
