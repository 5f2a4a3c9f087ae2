"""Records of the models that can be loaded by name, with the addresses of their files.

This file imports the standard library alone. hubconf.py runs it by its path, before it knows
whether the rest can be imported, and without a place in `sys.modules`. Dataclasses look up
annotations there when they are strings, so `from __future__ import annotations` must not be used.
The rows of RoBERTa's relatives are in relatives.py, which this file runs by its path in turn.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

BASE_URL = "https://dl.fbaipublicfiles.com/fairseq/models"
"""Where fairseq publishes. Its own code asks over plain http; the same files are served over
https."""
ARCHIVES = (BASE_URL, "https://dl.gottbert.de/fairseq/models")
"""Every server that has archives; a mirror replaces each."""
HUGGINGFACE = "https://huggingface.co"
"""Mirror of the same weights, as safetensors."""
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
"""The weights in a repository there, in the form that is asked for first, and in the old one."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
"""Files of a relative's repository that say more of its tokenizer, where they are."""
SENTENCES = (
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
"""How a sentence encoder makes one vector of a text."""


_MAIN = "/resolve/main/"
"""Between the name of a repository and that of a file."""


@dataclass(frozen=True)
class Remote:
    """A file to download, and what its publisher says of it.

    Fields are None where they are unknown, never a guess.
    """

    url: str
    size: int | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Its name; of a file in a repository with its folders there: `1_Pooling/config.json`.

        Example:
            >>> Remote("https://huggingface.co/o/m/resolve/main/1_Pooling/config.json").name
            '1_Pooling/config.json'
        """
        below = self.url.partition(_MAIN)[2]
        return below or self.url.rpartition("/")[2]


Kind = Literal["fairseq", "huggingface", "package"]
"""fairseq's server, Hugging Face's, or this package itself."""


@dataclass(frozen=True)
class Origin:
    """A place that has a model's files."""

    kind: Kind
    files: tuple[Remote, ...] = ()
    """For fairseq one .tar.gz with `model.pt` and `dict.txt`; for Hugging Face `config.json`, the
    weights and the vocabulary, if that is not RoBERTa's; none for the model in the package."""
    optional: tuple[Remote, ...] = ()
    """Files that are taken where they are."""
    instead: Mapping[str, Remote] = field(default_factory=dict)
    """Name of one of `files` -> the file that is taken where that one is not there."""


def archive(
    name: str, size: int | None = None, sha256: str | None = None, *, base: str = BASE_URL
) -> Origin:
    """Return the origin of a model on fairseq's server, or on one that is like it.

    Example:
        >>> archive("roberta.base.tar.gz").files[0].url
        'https://dl.fbaipublicfiles.com/fairseq/models/roberta.base.tar.gz'
    """
    return Origin("fairseq", (Remote(f"{base}/{name}", size, sha256),))


Pin = tuple[int, str]
"""Size and sha256 of a file, recorded by a maintainer."""


def repository(name: str, *, config: Pin | None = None, model: Pin | None = None) -> Origin:
    """Return the origin of a model in a repository on Hugging Face.

    Example:
        >>> repository("FacebookAI/roberta-base").files[1].url
        'https://huggingface.co/FacebookAI/roberta-base/resolve/main/model.safetensors'
    """
    at = f"{HUGGINGFACE}/{name}{_MAIN.rstrip('/')}"
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
    """The canonical name, fairseq's where it has one; also the name of its folder in the cache."""
    aliases: tuple[str, ...] = ()
    """Other names that torch.hub lists and `load_model` takes."""
    elsewhere: tuple[str, ...] = ()
    """Its names at Hugging Face, with the old owner and the new one; `load_model` takes them."""
    origins: tuple[Origin, ...]
    """Where the files are asked for, in this order."""
    shape: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of `RobertaConfig` in which the model differs from roberta.base."""
    unsure: tuple[str, ...] = ()
    """What could not be looked up: fields of the configuration, for which the checkpoint's word
    counts and not this row's, and of this record."""
    family: str = "roberta"
    """Whose names its tensors have at Hugging Face: `model_type` there."""
    vocabulary: tuple[str, ...] = ()
    """Files from which its tokenizer is read; none: the vocabulary is RoBERTa's, in the package."""
    pooler: bool = False
    """Whether it has a layer over the first token's state that belongs to no head."""
    replaced_head: bool = False
    """Whether it has the head that tells replaced tokens."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Classification head -> what its outputs mean, in order: fairseq's files carry numbers
    only."""
    default_head: str | None = None
    """The head that the model was trained for; None: it was trained for none."""
    inputs: Mapping[str, Literal["one", "pair"]] = field(default_factory=dict)
    """What each head was trained on: single texts or pairs."""
    task: str = "masked_lm"
    """fairseq's name of the task the model was trained on."""
    licence: str = "MIT"
    """Licence of the weights, which fairseq puts under that of its code."""
    notice: str = ""
    """What a user must be told of the licence when the model is loaded."""
    parameters: str = ""
    """How many numbers are trained, for people."""
    languages: str = "English"
    """Languages of the text that it was trained on."""
    download: str = ""
    """How much is downloaded, for people."""
    summary: str = ""
    """The first line of `torch.hub.help`: what the model is, and how much is downloaded."""
    details: tuple[str, ...] = ()
    """Lines below it."""
    example: tuple[str, ...] = ()
    """Lines that follow `roberta = torch.hub.load(...)` and `roberta.eval()` in the example."""

    @property
    def identifier(self) -> str:
        """The canonical name as Python can write it.

        Example:
            >>> MODELS[2].identifier
            'roberta_large_mnli'
        """
        return self.name.replace(".", "_").replace("-", "_")


_LARGE = {"num_layers": 24, "embed_dim": 1024, "ffn_dim": 4096, "num_heads": 16}
_NLI = ("contradiction", "neutral", "entailment")

ROBERTA: tuple[Record, ...] = (
    Record(
        name="roberta.base",
        aliases=("roberta_base",),
        parameters="125 M",
        download="0.2 GB",
        elsewhere=("FacebookAI/roberta-base", "roberta-base"),
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
        parameters="355 M",
        download="0.7 GB",
        elsewhere=("FacebookAI/roberta-large", "roberta-large"),
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
        parameters="356 M",
        download="0.7 GB",
        elsewhere=("FacebookAI/roberta-large-mnli", "roberta-large-mnli"),
        origins=(archive("roberta.large.mnli.tar.gz"), repository("FacebookAI/roberta-large-mnli")),
        shape=_LARGE,
        labels={"mnli": _NLI},
        default_head="mnli",
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
        parameters="355 M",
        download="0.7 GB",
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
        parameters="24 M",
        download="none",
        origins=(Origin("package"),),
        shape={
            **{"num_layers": 6, "embed_dim": 384, "embedding_dim": 256},
            **{"ffn_dim": 1536, "num_heads": 12},
        },
        labels={"mnli": _NLI},
        default_head="mnli",
        inputs={"mnli": "pair"},
        licence="Apache-2.0; trained on CC BY-SA text, see its MODEL_CARD.md and NOTICE",
        summary='RoBERTa tiny, with 24 M parameters and the head "mnli", in the package; '
        "no download.",
        details=(
            "It has 6 layers and 384 dimensions. It began as all-MiniLM-L6-v2 and was trained on",
            "with this package; its MODEL_CARD.md says of what, and how good it is.",
        ),
        example=('>>> roberta.fill_mask("The capital of France is <mask>.", topk=3)',),
    ),
)
"""RoBERTa's own rows."""


def _relatives() -> tuple[Record, ...]:
    """Make records of the rows in relatives.py.

    It is run by its path, as hubconf.py runs this file: to import it would be to import the
    package, which may be missing then, or be another copy.
    """
    path = Path(__file__).with_name("relatives.py")
    spec = importlib.util.spec_from_file_location("_roberta_hub_relatives", path)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return tuple(_record(row, module.PINS) for row in module.ROWS)


def _record(row: Mapping[str, Any], pins: Mapping[str, Pin]) -> Record:
    """Make the record of a row, whose addresses become origins."""
    row = {"aliases": (row["name"].replace(".", "_"),), **row}
    keys = ("archive", "base", "repository", "weights", "vocabulary_of", "sentences")
    tar, base, owner, weights, vocabulary_of, sentences = (row.pop(key, None) for key in keys)
    origins = []
    if tar is not None:
        url = f"{base or BASE_URL}/{tar}"
        origins.append(Origin("fairseq", (Remote(url, *pins.get(url, ())),)))
    if owner is not None:

        def remote(name: str, of: str = owner) -> Remote:
            url = f"{HUGGINGFACE}/{of}{_MAIN}{name}"
            return Remote(url, *pins.get(url, ()))

        instead = {} if weights else {SAFETENSORS: remote(PICKLE)}
        if vocabulary_of is not None:
            instead |= {name: remote(name, vocabulary_of) for name in row["vocabulary"]}
        files = ("config.json", weights or SAFETENSORS, *row["vocabulary"])
        optional = (*TOKENIZER, *(SENTENCES if sentences else ()))
        origins.append(
            Origin(
                "huggingface",
                tuple(map(remote, files)),
                optional=tuple(map(remote, optional)),
                instead=instead,
            )
        )
    return Record(origins=tuple(origins), **row)


RELATIVES: tuple[Record, ...] = _relatives()
"""XLM-R, CamemBERT, GottBERT, BERT, ALBERT, ELECTRA, SpanBERT, and a sentence encoder."""
MODELS: tuple[Record, ...] = (*ROBERTA, *RELATIVES)
"""The one table of names. A new published model is a new row."""


def available_models() -> list[str]:
    """Return every canonical name, in the order of the table.

    Example:
        >>> available_models()[:5]
        ['roberta.base', 'roberta.large', 'roberta.large.mnli', 'roberta.large.wsc', 'roberta.tiny']
        >>> [name for name in available_models() if name.startswith("electra.small")]
        ['electra.small.discriminator', 'electra.small.generator']
    """
    return [record.name for record in MODELS]
