"""Every model that can be loaded by name: where its files lie, and what they leave unsaid."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roberta_hub.checkpoint.checkpoint import HEADS, PRUNING, Checkpoint
from roberta_hub.config import BASE, FAIRSEQ_FIELDS, LARGE, TINY, Inputs, RobertaConfig
from roberta_hub.errors import CheckpointError

BASE_URL = "https://dl.fbaipublicfiles.com/fairseq/models"
"""Where fairseq publishes. Its own code asks over plain http; the same files are served over
https."""
HUGGINGFACE = "https://huggingface.co"
"""Where the same weights lie a second time, as safetensors."""
SHAPE = (
    *("vocab_size", "padding_idx", "max_positions", "embed_dim", "embedding_dim", "ffn_dim"),
    *("num_layers", "num_unique_layers", "num_heads"),
    *("normalize_before", "layernorm_embedding", "untie_weights"),
)
"""Fields of the configuration in which a model must be what its record says."""


@dataclass(frozen=True)
class Remote:
    """A file to download, and what its publisher says of it.

    Fields are None where nothing is said, never a guess.
    """

    url: str
    size: int | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Its name without folders."""
        return self.url.rpartition("/")[2]


def repository(name: str, **known: tuple[int, str]) -> tuple[Remote, Remote]:
    """The files of a repository on Hugging Face that make up a model.

    Args:
        name: `owner/model`.
        known: size and sha256 of `config` and `model`, once a maintainer has pinned them.

    Example:
        >>> repository("FacebookAI/roberta-base")[1].url
        'https://huggingface.co/FacebookAI/roberta-base/resolve/main/model.safetensors'
    """
    at = f"{HUGGINGFACE}/{name}/resolve/main"
    return (
        Remote(f"{at}/config.json", *known.get("config", ())),
        Remote(f"{at}/model.safetensors", *known.get("model", ())),
    )


@dataclass(frozen=True, kw_only=True)
class Record:
    """One published model, as the rest of the package needs to know it."""

    name: str
    """The canonical dotted name; also the name of its folder in the cache."""
    url: str = ""
    """Of a `.tar.gz` that holds `model.pt` and `dict.txt`; "": the model is in the package."""
    config: RobertaConfig
    """The shape of the network, known before a byte is downloaded (`pretrained=False`)."""
    unsure: tuple[str, ...] = ()
    """Fields of `config` for which the checkpoint's word counts, not this row's."""
    heads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Classification head -> what its outputs mean, in order: fairseq's files carry numbers
    only."""
    own_head: str | None = None
    """The head that the model was trained for; None: it was trained for none."""
    inputs: Mapping[str, Inputs] = field(default_factory=dict)
    """What each head was trained on: single texts or pairs."""
    task: str = "masked_lm"
    """fairseq's name of the task the model was trained on."""
    size: int | None = None
    """Published size of the archive in bytes; None where the publisher gives none."""
    sha256: str | None = None
    """Published digest of the archive; None where the publisher gives none."""
    licence: str = "MIT"
    """Of the weights, which fairseq puts under the licence of its code."""
    second: tuple[Remote, ...] | None = None
    """config.json and model.safetensors of the same weights elsewhere; None: they are nowhere
    else."""

    @property
    def archive(self) -> Remote:
        """The archive as a file to download."""
        return Remote(self.url, self.size, self.sha256)


MODELS: tuple[Record, ...] = (
    Record(
        name="roberta.base",
        url=f"{BASE_URL}/roberta.base.tar.gz",
        config=BASE,
        second=repository("FacebookAI/roberta-base"),
    ),
    Record(
        name="roberta.large",
        url=f"{BASE_URL}/roberta.large.tar.gz",
        config=LARGE,
        second=repository("FacebookAI/roberta-large"),
    ),
    Record(
        name="roberta.large.mnli",
        url=f"{BASE_URL}/roberta.large.mnli.tar.gz",
        config=LARGE,
        heads={"mnli": ("contradiction", "neutral", "entailment")},
        own_head="mnli",
        inputs={"mnli": "pair"},
        second=repository("FacebookAI/roberta-large-mnli"),
    ),
    Record(
        name="roberta.large.wsc",
        url=f"{BASE_URL}/roberta.large.wsc.tar.gz",
        config=LARGE,
        task="wsc",
        second=None,
    ),
    Record(
        name="roberta.tiny",
        config=TINY,
        heads={"mnli": ("contradiction", "neutral", "entailment")},
        own_head="mnli",
        inputs={"mnli": "pair"},
        licence="MIT; trained on CC BY-SA text, see its MODEL_CARD.md and NOTICE",
    ),
)
"""The one table of names. A new published model is a new row."""


PUBLISHED = tuple(record for record in MODELS if record.url)
"""Those that are downloaded."""


def embedded(record: Record) -> Path:
    """The folder in the package of a model that ships with it.

    Example:
        >>> sorted(path.name for path in embedded(MODELS[-1]).glob("*.safetensors"))
        ['model.safetensors']
    """
    return Path(__file__).resolve().parents[2] / "models" / record.name.rpartition(".")[2]


def available_models() -> list[str]:
    """Return every canonical name, in the order of the table.

    Example:
        >>> available_models()
        ['roberta.base', 'roberta.large', 'roberta.large.mnli', 'roberta.large.wsc', 'roberta.tiny']
    """
    return [record.name for record in MODELS]


def alias(name: str) -> str:
    """Return the form of a dotted name that is a Python identifier.

    Example:
        >>> alias("roberta.large.mnli")
        'roberta_large_mnli'
    """
    return name.replace(".", "_")


def find(name: str) -> Record | None:
    """Return the record of a dotted name or of its alias, None when there is no such model.

    Example:
        >>> find("roberta_large_mnli").name
        'roberta.large.mnli'
        >>> find("bert-base") is None
        True
    """
    return next((record for record in MODELS if name in (record.name, alias(record.name))), None)


def suggest(name: str) -> list[str]:
    """Return the canonical names that look most like `name`, nearest first: for "did you mean".

    Example:
        >>> suggest("roberta-large-mnli")[0]
        'roberta.large.mnli'
        >>> suggest("Roberta_Base")[0]
        'roberta.base'
        >>> suggest("FacebookAI/roberta-base")[0]
        'roberta.base'
        >>> suggest("gpt2")
        []
    """
    # Hugging Face's names have their owner in front, fairseq's archives an ending behind.
    bare = name[-200:].rstrip("/").rpartition("/")[2].lower().removesuffix(".tar.gz")
    wanted = bare.replace("_", ".").replace("-", ".")
    return difflib.get_close_matches(wanted, available_models(), n=3, cutoff=0.7)


def name_heads(record: Record, checkpoint: Checkpoint) -> None:
    """Give the heads of a named model what its record says of them, whichever source they have.

    fairseq's files do not name the labels. Hugging Face's do not name the head, and shout:
    `CONTRADICTION`.
    """
    theirs = [head for head in checkpoint.heads() if head not in record.heads]
    lacking = [head for head in record.heads if head not in checkpoint.heads()]
    if len(theirs) == len(lacking) == 1:
        (old,), (new,) = theirs, lacking
        for key in [key for key in checkpoint.weights if key.startswith(f"{HEADS}{old}.")]:
            checkpoint.weights[HEADS + new + key[len(HEADS + old) :]] = checkpoint.weights.pop(key)
        if old in checkpoint.inputs:
            checkpoint.inputs[new] = checkpoint.inputs.pop(old)
        labels = tuple(label.lower() for label in checkpoint.labels.pop(old, ()))
        # The file's order, if it does name them.
        if sorted(labels) == sorted(record.heads[new]):
            checkpoint.labels[new] = labels
    checkpoint.labels = {**record.heads, **checkpoint.labels}
    checkpoint.inputs = {**record.inputs, **checkpoint.inputs}
    checkpoint.own_head = checkpoint.own_head or record.own_head


def check_shape(
    record: Record, checkpoint: Checkpoint, overrides: Mapping[str, object], folder: Path
) -> None:
    """Refuse a checkpoint that is another model than the one of that name.

    Args:
        record: whose `config` is compared, but for the fields it is unsure of.
        checkpoint: as read, with `overrides`.
        overrides: what the caller wants otherwise is no contradiction.
        folder: where it was read from, for the message.

    Raises:
        CheckpointError: a field differs; the message has both values.
    """
    asked = {FAIRSEQ_FIELDS.get(name) for name in overrides}
    asked |= {"num_layers"} if PRUNING in overrides else set()
    for name in SHAPE:
        found, stated = getattr(checkpoint.config, name), getattr(record.config, name)
        if found != stated and name not in record.unsure and name not in asked:
            remedy = (
                f"delete {folder} and load again, or load it by its path as the model that it is"
                if record.url
                else "reinstall roberta-hub"
            )
            raise CheckpointError(
                f"{folder} holds another model than {record.name}: its {name} is {found}, that of "
                f"{record.name} is {stated}; {remedy}"
            )
