"""Lists the models that can be loaded by name: what they are, and where their files lie.

This file imports the standard library alone. hubconf.py runs it by its path, before it knows
whether the rest can be imported, and without a place in `sys.modules`. Dataclasses look up
annotations there when they are strings, so `from __future__ import annotations` must not be used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

BASE_URL = "https://dl.fbaipublicfiles.com/fairseq/models"
"""Where fairseq publishes. Its own code asks over plain http; the same files are served over
https."""
HUGGINGFACE = "https://huggingface.co"
"""Where the same weights lie a second time, as safetensors."""


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


Kind = Literal["fairseq", "huggingface", "package"]
"""fairseq's server, Hugging Face's, or this package itself."""


@dataclass(frozen=True)
class Origin:
    """A place that has a model's files."""

    kind: Kind
    files: tuple[Remote, ...] = ()
    """Of fairseq one .tar.gz with `model.pt` and `dict.txt`; of Hugging Face `config.json` and
    `model.safetensors`; none for the model in the package."""


def archive(name: str, size: int | None = None, sha256: str | None = None) -> Origin:
    """Return the origin of a model on fairseq's server.

    Args:
        name: of the .tar.gz.
        size: its bytes, once a maintainer has pinned them.
        sha256: its digest, likewise.

    Example:
        >>> archive("roberta.base.tar.gz").files[0].url
        'https://dl.fbaipublicfiles.com/fairseq/models/roberta.base.tar.gz'
    """
    return Origin("fairseq", (Remote(f"{BASE_URL}/{name}", size, sha256),))


Pin = tuple[int, str]
"""Size and sha256 of a file, recorded by a maintainer."""


def repository(name: str, *, config: Pin | None = None, model: Pin | None = None) -> Origin:
    """Return the origin of a model in a repository on Hugging Face.

    Args:
        name: `owner/model`.
        config: size and sha256 of config.json, once a maintainer has pinned them.
        model: the same of model.safetensors.

    Example:
        >>> repository("FacebookAI/roberta-base").files[1].url
        'https://huggingface.co/FacebookAI/roberta-base/resolve/main/model.safetensors'
    """
    at = f"{HUGGINGFACE}/{name}/resolve/main"
    return Origin(
        "huggingface",
        (
            Remote(f"{at}/config.json", *config or ()),
            Remote(f"{at}/model.safetensors", *model or ()),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of a model before a byte of it is read."""

    name: str
    """The canonical dotted name; also the name of its folder in the cache."""
    aliases: tuple[str, ...] = ()
    """Other names that load it. The first is a Python identifier."""
    origins: tuple[Origin, ...]
    """Where the files are asked for, in this order."""
    shape: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of `RobertaConfig` in which the model differs from roberta.base."""
    unsure: tuple[str, ...] = ()
    """Fields of the configuration for which the checkpoint's word counts, not this row's."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Classification head -> what its outputs mean, in order: fairseq's files carry numbers
    only."""
    own_head: str | None = None
    """The head that the model was trained for; None: it was trained for none."""
    inputs: Mapping[str, Literal["one", "pair"]] = field(default_factory=dict)
    """What each head was trained on: single texts or pairs."""
    task: str = "masked_lm"
    """fairseq's name of the task the model was trained on."""
    licence: str = "MIT"
    """Of the weights, which fairseq puts under the licence of its code."""
    summary: str = ""
    """The first line of `torch.hub.help`: what the model is, and how much is downloaded."""
    details: tuple[str, ...] = ()
    """Lines below it."""
    example: tuple[str, ...] = ()
    """Lines that follow `roberta = torch.hub.load(...)` and `roberta.eval()` in the example."""


_LARGE = {"num_layers": 24, "embed_dim": 1024, "ffn_dim": 4096, "num_heads": 16}
_NLI = ("contradiction", "neutral", "entailment")

MODELS: tuple[Record, ...] = (
    Record(
        name="roberta.base",
        aliases=("roberta_base",),
        origins=(archive("roberta.base.tar.gz"), repository("FacebookAI/roberta-base")),
        summary="RoBERTa base: 125 M parameters, 12 layers, 768 dimensions; 0.2 GB download.",
        example=(
            '>>> roberta.encode("Hello world!")',
            "tensor([    0, 31414,   232,   328,     2])",
        ),
    ),
    Record(
        name="roberta.large",
        aliases=("roberta_large",),
        origins=(archive("roberta.large.tar.gz"), repository("FacebookAI/roberta-large")),
        shape=_LARGE,
        summary="RoBERTa large: 355 M parameters, 24 layers, 1024 dimensions; 0.7 GB download.",
        example=(
            '>>> roberta.extract_features(roberta.encode("Hello world!")).shape',
            "torch.Size([1, 5, 1024])",
        ),
    ),
    Record(
        name="roberta.large.mnli",
        aliases=("roberta_large_mnli",),
        origins=(archive("roberta.large.mnli.tar.gz"), repository("FacebookAI/roberta-large-mnli")),
        shape=_LARGE,
        labels={"mnli": _NLI},
        own_head="mnli",
        inputs={"mnli": "pair"},
        summary='RoBERTa large fine-tuned on MNLI, with the head "mnli"; 0.7 GB download.',
        details=("Its classes are contradiction, neutral and entailment.",),
        example=(
            '>>> tokens = roberta.encode("Roberta is heavily optimized.", '
            '"Roberta is not optimized.")',
            '>>> roberta.predict("mnli", tokens).argmax().item()  # 0: contradiction',
            "0",
        ),
    ),
    Record(
        name="roberta.large.wsc",
        aliases=("roberta_large_wsc",),
        origins=(archive("roberta.large.wsc.tar.gz"),),
        shape=_LARGE,
        task="wsc",
        summary="RoBERTa large fine-tuned on Winograd schemas, for `disambiguate_pronoun`; "
        "0.7 GB download.",
        details=("fairseq's `user_dir` is not needed: its task is built in.",),
        example=(
            ">>> roberta.disambiguate_pronoun(",
            '...     "The _trophy_ would not fit in the brown suitcase because [it] was too big.",',
            '...     candidates=["the brown suitcase"])',
            "True",
        ),
    ),
    Record(
        name="roberta.tiny",
        aliases=("roberta_tiny",),
        origins=(Origin("package"),),
        shape={
            **{"num_layers": 4, "embed_dim": 256, "embedding_dim": 128},
            **{"ffn_dim": 1024, "num_heads": 4},
        },
        labels={"mnli": _NLI},
        own_head="mnli",
        inputs={"mnli": "pair"},
        licence="MIT; trained on CC BY-SA text, see its MODEL_CARD.md and NOTICE",
        summary='RoBERTa tiny, with 10 M parameters and the head "mnli", in the package; '
        "no download.",
        details=(
            "It has 4 layers and 256 dimensions. Made with this package's own training code; its",
            "MODEL_CARD.md says of what, and how good it is.",
        ),
        example=('>>> roberta.fill_mask("The capital of France is <mask>.", topk=3)',),
    ),
)
"""The one table of names. A new published model is a new row."""


def available_models() -> list[str]:
    """Return every canonical name, in the order of the table.

    Example:
        >>> available_models()
        ['roberta.base', 'roberta.large', 'roberta.large.mnli', 'roberta.large.wsc', 'roberta.tiny']
    """
    return [record.name for record in MODELS]
