"""Text to XLM-R's ids: megabytes a second on one core, against the bare sentencepiece.

    python benchmarks/unigram.py               # about a minute

XLM-R's vocabulary comes from `vocab/xlmr.model.xz` of the shared folder (`$ROBERTA_HUB_SHARED`, or
`../shared`). Bare is the library's list call, in lists of the length that `encode_batch` takes at
once and whole; ours adds the checks, `<s>` and `</s>`, the model's ids, and tensors. By turns.
Writes `benchmarks/results/unigram.{md,json}`.
"""

from __future__ import annotations

import lzma
import os
import random
from functools import partial
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1"}

import torch
from lib.corpus import corpus, shared_file
from lib.report import about, write
from lib.timing import by_turns

from roberta_hub.text import Dictionary, Tokenizer
from roberta_hub.text.sentencepiece_file import parse_model
from roberta_hub.text.unigram import SentencePiece

WORDS = 30
CHUNK = 256
"""Texts that `encode_batch` gives an engine at once."""


def tokenizer() -> Tokenizer:
    """XLM-R's."""
    data = lzma.decompress(shared_file("vocab/xlmr.model.xz").read_bytes())
    engine = SentencePiece(parse_model(data, "xlmr.model"))
    dictionary = Dictionary()
    for text in engine.model.texts[3:]:
        dictionary.add_symbol(text)
    dictionary.add_symbol("<mask>")
    return Tokenizer(engine, dictionary)


def texts() -> tuple[str, dict[str, list[str]]]:
    """Where they are from; English sentences, paragraphs, and words of many scripts."""
    source, found = corpus(4000)
    plain = [t if isinstance(t, str) else " ".join(t) for t in found]
    short = [
        " ".join(t.split()[i : i + WORDS]) for t in plain for i in range(0, len(t.split()), WORDS)
    ]
    rng = random.Random(0)
    blocks = [(0x400, 0x45F), (0x620, 0x64A), (0x905, 0x939), (0x4E00, 0x5E00), (0xE01, 0xE2E)]
    mixed = [
        " ".join(
            "".join(chr(rng.randint(*block)) for _ in range(rng.randint(2, 8)))
            for block in rng.choices(blocks, k=15)
        )
        for _ in range(5000)
    ]
    return source, {
        "English sentences": short[:20_000],
        "English documents": plain[:4000],
        "words of five other scripts": mixed,
    }


def bare_in_lists(library: Any, own: list[str]) -> list[list[int]]:
    """The library on lists as long as `encode_batch` gives it."""
    found: list[list[int]] = []
    for start in range(0, len(own), CHUNK):
        found += library.encode(own[start : start + CHUNK], num_threads=1)
    return found


def main() -> None:
    """Measure, print, and write the result."""
    import sentencepiece

    ours = tokenizer()
    library = sentencepiece.SentencePieceProcessor(model_proto=ours.engine.model.serialized())
    source, kinds = texts()
    lines = ["| texts | MB | engine | MB/s | time beside the bare list call | samples |"]
    lines += ["|---|--:|---|--:|--:|---|"]
    numbers: dict[str, dict[str, float]] = {}
    for kind, own in kinds.items():
        size = sum(len(text.encode()) for text in own) / 1e6
        ids = [row[1:-1].sub(1).tolist() for row in ours.encode_batch(own[:500])]
        expected = library.encode(own[:500])  # unknown is 0 there, and 3 here: 2 after `sub`
        assert ids == [[piece or 2 for piece in row] for row in expected], kind
        ways = {
            "roberta_hub, encode_batch": partial(ours.encode_batch, own),
            "sentencepiece, one list": partial(library.encode, own, num_threads=1),
            f"sentencepiece, lists of {CHUNK}": partial(bare_in_lists, library, own),
            "sentencepiece, text by text": lambda own=own: [library.encode(text) for text in own],
        }
        samples = by_turns(ways, 7)
        whole = samples["sentencepiece, one list"].median
        numbers[kind] = {}
        for name, found in samples.items():
            numbers[kind][name] = size / found.median
            lines.append(
                f"| {kind} | {size:.1f} | {name} | {size / found.median:.2f} | "
                f"{found.median / whole:.2f} x | {found} |"
            )
    page = (
        "# Text to XLM-R's ids, one core\n\n"
        f"{source}, and random words. Instruction sets of this CPU: "
        f"{torch.backends.cpu.get_cpu_capability()}. Again: `python benchmarks/unigram.py`.\n\n"
        + "\n".join(lines)
        + "\n\nThe goal: within 1.10 x of the bare library."
    )
    print(page)
    write("unigram", page, {"about": about("torch", "sentencepiece"), "mb_per_second": numbers})


if __name__ == "__main__":
    main()
