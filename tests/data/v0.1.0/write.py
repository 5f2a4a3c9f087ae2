"""Writes this folder. Run by 0.1.0 (commit 8c6c988), and not again: every later version loads it.

In a checkout of that commit: `python .../tests/data/v0.1.0/write.py`. It leaves a small classifier
in the three formats, and the state of its training after half of its updates.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import roberta_hub
from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
from roberta_hub.text import Dictionary, Task
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.train.config import compose
from roberta_hub.train.run import train

HERE = Path(__file__).parent
WORDS = ["a", "good", "great", "bad", "dull", "film", "book", "meal"]
LABELS = {"good": "positive", "great": "positive", "bad": "negative", "dull": "negative"}
TEXTS = ["a good film", "a dull meal"]
UPDATES = 120


def table() -> str:
    """The examples, as TSV."""
    rows = [f"a {w} {n}\t{label}" for n in ("film", "book", "meal") for w, label in LABELS.items()]
    return "\n".join(["sentence\tlabel", *rows, ""])


def settings(model: Path, data: Path, output: Path, until: int) -> list[str]:
    """Of the run, whose learning rate ends after `UPDATES`."""
    return [
        f"model={model}",
        "task.name=classification",
        "task.head=sentiment",
        f"data.train={data}",
        f"data.valid={data}",
        f"output={output}",
        f"loop.max_updates={until}",
        "loop.max_epochs=null",
        "loop.evaluate_every=60",
        "loop.progress=false",
        "optimizer.lr=0.005",
        "optimizer.warmup_updates=0",
        f"optimizer.total_updates={UPDATES}",
        "batch.batch_size=4",
    ]


def beginning() -> RobertaHubInterface:
    """Random weights and a vocabulary of bytes and a few words."""
    merges: list[tuple[bytes, bytes]] = []
    for word in WORDS:
        token = b" " + word.encode()
        pairs = [(token[: end - 1], token[end - 1 : end]) for end in range(2, len(token) + 1)]
        merges += [pair for pair in pairs if pair not in merges]
    bpe, dictionary = GPT2BPE(merges), Dictionary()
    for number in range(bpe.max_id + 1):
        dictionary.add_symbol(str(number), n=bpe.max_id + 1 - number)
    dictionary.add_symbol("<mask>")
    torch.manual_seed(7)
    shape = RobertaConfig(
        vocab_size=len(dictionary),
        embed_dim=16,
        ffn_dim=32,
        num_layers=2,
        num_heads=2,
        max_positions=64,
    )
    model = RobertaModel(shape)
    return RobertaHubInterface(model.config, Task(dictionary), model, bpe=bpe)


def write(work: Path) -> None:
    """Train, and save on the way."""
    data = work / "reviews.tsv"
    data.write_text(table(), encoding="utf-8")
    beginning().save(work / "start")
    train(compose(settings(work / "start", data, work / "run", UPDATES // 2)))
    (state,) = (work / "run").glob("state-*")
    shutil.copytree(state, HERE / "run" / state.name)
    train(compose(settings(work / "start", data, work / "run", UPDATES)))
    roberta = roberta_hub.load_model(work / "run" / "last").eval()
    for format in ("roberta_hub", "fairseq", "huggingface"):
        roberta.save(HERE / format, format=format)
    ids = roberta.encode_batch(TEXTS)
    expected = {
        "version": roberta_hub.__version__,
        "ids": [own.tolist() for own in ids],
        "labels": list(roberta.head_labels("sentiment")),
        "logits": [
            roberta.predict("sentiment", own, return_logits=True)[0].tolist() for own in ids
        ],
        "features": [roberta.extract_features(own)[0, 0].tolist() for own in ids],
    }
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        write(Path(folder))
