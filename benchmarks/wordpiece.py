"""Text to ids with WordPiece: megabytes a second on one core, against tokenizers and transformers.

    python benchmarks/wordpiece.py                # about a minute

Some megabytes of English in ASCII, a paragraph a text, with the vocabulary of bert-base-uncased as
the blingfire wheel has it. From `str` to ids: ours first with nothing remembered, then with what it
remembers of these texts; `encode_batch` gives tensors with `[CLS]` and `[SEP]`. In seconds of the
processor, since other processes may use the machine; engines by turns. Writes
`benchmarks/results/wordpiece.{md,json}`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from lib.corpus import paragraphs
from lib.report import about, write

from roberta_hub.folder import Folder
from roberta_hub.text import Tokenizer
from roberta_hub.text.wordpiece import WordPiece
from roberta_hub.text.wordpiece_files import read
from tools.build_vocabulary import installed_blingfire, read_i2w, read_source

ROUNDS = 5
COUNT = 24_000
"""Paragraphs."""


def vocabulary() -> list[str]:
    """The pieces of bert-base-uncased; a token with a blank in front begins a word."""
    tokens = read_i2w(read_source(installed_blingfire(), "bert_base_tok.i2w"))
    pieces = [t[1:].decode() if t[:1] == b" " else f"##{t.decode()}" for t in tokens]
    return [p.upper() if p in ("[unk]", "[cls]", "[sep]", "[mask]") else p for p in pieces]


def engines(folder: Path) -> dict[str, Callable[[list[str]], object]]:
    """Each as its users call it for many texts."""
    from transformers import BertTokenizer

    names = vocabulary()
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
    ours, fast = Tokenizer(*read(Folder(folder))), BertTokenizer.from_pretrained(folder)

    def fresh(texts: list[str]) -> list[list[int]]:
        engine = WordPiece(names)
        return [engine.encode_ids(text) for text in texts]

    return {
        "roberta_hub, nothing remembered": fresh,
        "roberta_hub, encode_ids": lambda texts: list(map(ours.engine.encode_ids, texts)),
        "roberta_hub, encode_batch": ours.encode_batch,
        "tokenizers, encode_batch": fast.backend_tokenizer.encode_batch,
        "transformers, BertTokenizer": lambda texts: fast(texts)["input_ids"],
    }


def main() -> None:
    """Measure, print, and write the result."""
    source, found = paragraphs(COUNT)
    texts = [text for text in found if text.isascii()]
    size = sum(map(len, texts)) / 1e6
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        ways = engines(Path(folder))
        theirs = ways["tokenizers, encode_batch"](texts[:500])
        ours = ways["roberta_hub, encode_batch"](texts[:500])
        assert [ids.tolist() for ids in ours] == [t.ids for t in theirs]  # type: ignore[attr-defined]
        for number in range(ROUNDS + 1):
            for name, way in ways.items():
                start = time.process_time()
                way(texts)
                if number:  # the first round warms up
                    seconds.setdefault(name, []).append(time.process_time() - start)
    speed = {name: size / median(own) for name, own in seconds.items()}
    peer = speed["tokenizers, encode_batch"]
    lines = ["| engine | MB/s | beside tokenizers | fastest, slowest |", "|---|--:|--:|---|"]
    lines += [
        f"| {name} | {value:.2f} | {value / peer:.1f} x | {size / min(seconds[name]):.2f}, "
        f"{size / max(seconds[name]):.2f} |"
        for name, value in speed.items()
    ]
    page = (
        f"# WordPiece, one core\n\n{source}: {len(texts):,} paragraphs in ASCII, {size:.1f} MB; "
        "the vocabulary of bert-base-uncased. Medians of "
        f"{ROUNDS} rounds, in seconds of the processor. Again: `python benchmarks/wordpiece.py`."
        + "\n\n"
        + "\n".join(lines)
        + f"\n\nGoal: 5 MB/s. Instruction sets: {torch.backends.cpu.get_cpu_capability()}."
    )
    print(page)
    names = ("torch", "tokenizers", "transformers", "blingfire")
    write("wordpiece", page, {"about": about(*names), "mb_per_second": speed})


if __name__ == "__main__":
    main()
