"""Text to ids: megabytes a second on one thread, against tokenizers, tiktoken and fairseq.

    python benchmarks/tokens.py                # about a minute

From `str` to what a model is given: ids with `<s>` and `</s>`, for ours as tensors, for the others
as they return them. Short: sentences of the corpus (`corpus.py`), cut to at most 30 words. Long:
whole documents of that text. By turns; caches are warm, since every engine has seen the texts once.
Writes `benchmarks/results/tokens.{md,json}`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from functools import partial

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}

from lib.corpus import corpus
from lib.report import about, write
from lib.timing import by_turns

import roberta_hub

WORDS = 30
Encode = Callable[[list[str]], object]


def texts() -> tuple[str, dict[str, list[str]]]:
    """Where they are from; short and long ones."""
    source, found = corpus(4000)
    plain = [t if isinstance(t, str) else " ".join(t) for t in found]
    short = [
        " ".join(t.split()[i : i + WORDS]) for t in plain for i in range(0, len(t.split()), WORDS)
    ]
    everything = "\n".join(plain)
    size = 100_000
    return source, {
        "short": short[:20_000],
        "long": [everything[i : i + size] for i in range(0, len(everything), size)][:10],
    }


def engines(roberta: roberta_hub.RobertaHubInterface, folder: str) -> dict[str, Encode]:
    """Each as its users call it for many texts."""
    import tiktoken
    from transformers import RobertaTokenizerFast

    from roberta_hub.fairseq_bridge import to_fairseq
    from roberta_hub.text import GPT2BPE

    roberta.save(folder, format="huggingface")
    fast = RobertaTokenizerFast.from_pretrained(folder)
    backend = fast.backend_tokenizer
    backend.no_truncation()
    bpe = GPT2BPE.shipped()
    ranks = {bpe.token_bytes(i): i for i in range(50_256)}
    encoding = tiktoken.Encoding(
        "gpt2",
        pat_str=r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        mergeable_ranks=dict(sorted(ranks.items(), key=lambda item: item[1])),
        special_tokens={},
    )
    fairseq = to_fairseq(roberta)
    return {
        "roberta_hub, encode_batch": roberta.encode_batch,
        "tokenizers, encode_batch": backend.encode_batch,
        "tiktoken, encode_ordinary, GPT-2 ids": lambda t: [encoding.encode_ordinary(x) for x in t],
        "transformers, RobertaTokenizerFast": lambda t: fast(t)["input_ids"],
        "fairseq, encode": lambda t: [fairseq.encode(x) for x in t[: max(1, len(t) // 10)]],
    }


def main() -> None:
    """Measure, print, and write the result."""
    roberta = roberta_hub.load_model("roberta.tiny")
    source, kinds = texts()
    pages, numbers = [], {}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(None):
        ways = engines(roberta, folder)
        for kind, own in kinds.items():
            for name in ("tokenizers, encode_batch", "transformers, RobertaTokenizerFast"):
                theirs = ways[name](own[:200])
                ids = [getattr(t, "ids", t) for t in theirs]  # type: ignore[attr-defined]
                assert [t.tolist() for t in roberta.encode_batch(own[:200])] == ids, name
            samples = by_turns({n: partial(w, own) for n, w in ways.items()}, 7)
            speed = {}
            for name, s in samples.items():
                part = own[: max(1, len(own) // 10)] if "fairseq" in name else own
                speed[name] = sum(len(t.encode()) for t in part) / 1e6 / s.median
            ours = speed["roberta_hub, encode_batch"]
            lines = [
                f"## {kind}: {len(own):,} texts, {sum(len(t.encode()) for t in own) / 1e6:.1f} MB",
                "",
            ]
            lines += ["| engine | MB/s | ours is faster | samples |", "|---|--:|--:|---|"]
            lines += [
                f"| {n} | {v:.2f} | {ours / v:.1f} x | {samples[n]} |" for n, v in speed.items()
            ]
            pages.append("\n".join(lines))
            numbers[kind] = speed
    page = (
        f"# Text to ids, one thread\n\n{source}. Again: `python benchmarks/tokens.py`.\n\n"
        + "\n\n".join(pages)
    )
    short = next(iter(numbers.values()))
    engine, peer = (
        next(v for n, v in short.items() if name in n) for name in ("tiktoken", "fairseq")
    )
    page += (
        "\n\nGoals on short texts: 6 MB/s, 3 times tokenizers' batch call, 12 times fairseq's "
        "`encode`. Pieces are cut and "
        f"merged by tiktoken's engine in ours too, which alone, without tensors, is "
        f"{engine / peer:.1f} times fairseq's."
    )
    print(page)
    names = ("torch", "tiktoken", "tokenizers", "transformers", "fairseq")
    write("tokens", page, {"about": about(*names), "mb_per_second": numbers})


if __name__ == "__main__":
    main()
