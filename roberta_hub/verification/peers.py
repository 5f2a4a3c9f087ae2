"""Who a model is compared with, and how each is asked: models in memory, folders and files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub import extras
from roberta_hub.arguments import kind_of, path_of, short_repr
from roberta_hub.checkpoint.checkpoint import HEADS, REPLACED_HEAD, SPAN_HEADS, TOKEN_HEADS
from roberta_hub.checkpoint.names.families import FAMILIES
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError, RobertaHubError
from roberta_hub.export.check import answer_packed
from roberta_hub.export.graph import AnswerKind, ExportedAnswer
from roberta_hub.files import read_note
from roberta_hub.formats.huggingface_heads import KIND
from roberta_hub.inference.batching import packing_model
from roberta_hub.inference.embed import text_vectors, within_limit
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.settings import Head, HeadKind, SentenceSettings
from roberta_hub.terminal import without_secrets
from roberta_hub.text.tokenizer import Text
from roberta_hub.verification.servers import rows_of, server
from roberta_hub.verification.setup import VECTORS, Setup, heads_of

POOLER = ExportedAnswer("pooled", "pooler")
"""What BERT's pooler makes of the first token."""
PEERS = (
    "an ONNX file, a folder that transformers or sentence-transformers reads, a .gguf file, the "
    "http address of a server, a model of one of these libraries, or a function from texts to "
    "vectors"
)
"""What a peer may be, in words."""


Rows = Callable[[Sequence[Tensor]], "list[Tensor]"]
"""From the ids of a batch to an answer of each sequence."""


@dataclass(frozen=True)
class Given:
    """An answer that a peer makes of ids."""

    answer: ExportedAnswer
    """As our model makes it; of a head without the head's name."""
    ask: Rows
    head: Head | None = None
    """What its numbers mean; None: it is of no head with a name."""
    stage: str = ""
    """Name of the output in a file; "": it has none."""


@dataclass(frozen=True)
class Peer:
    """What can be asked of a peer; None: nothing of that kind."""

    name: str
    """As the caller gave it."""
    reader: str
    """What answers, with its version."""
    ids: Callable[[Sequence[Text]], list[Tensor]] | None = None
    """Ids of texts and pairs, cut where the peer cuts them."""
    stages: tuple[str, ...] = ()
    """Names of what `states` gives."""
    states: Callable[[Sequence[Tensor]], list[list[Tensor]]] | None = None
    """From the ids of a batch to each stage's rows of each sequence."""
    answers: tuple[Given, ...] = ()
    """Further answers, the hidden states of a file first."""
    vectors: Callable[[Sequence[str]], list[Tensor]] | None = None
    """From the texts of a batch to a vector of each."""
    dtype: str = "float32"
    """What it says of its own precision."""
    shared: bool = False
    """Whether several callers may ask at once, as of a server."""
    whole: bool = False
    """Whether it is a whole model, which has a head where ours has one."""
    lacks: str = ""
    """What is wrong with its head, before anything is asked."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """Answers that it gives and that are not asked here, each with the reason."""


def peer_of(value: Any, setup: Setup) -> Peer:
    """Find out how a peer is asked."""
    if isinstance(value, Peer):
        return value
    if isinstance(value, RobertaHubInterface):
        return _ours(value)
    if isinstance(value, (str, os.PathLike)):
        return _at(os.fspath(value), setup)
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(value).__mro__}
    if "sentence_transformers.SentenceTransformer" in kinds:
        return _sentence_transformers(value, setup, "a SentenceTransformer")
    if "sentence_transformers.CrossEncoder" in kinds:
        return _transformers(value.model, value.tokenizer, setup, "a CrossEncoder")
    if "transformers.PreTrainedModel" in kinds:
        return _transformers(value, None, setup, f"a {type(value).__name__}")
    if callable(value) and not isinstance(value, type):
        name = getattr(value, "__name__", kind_of(value))
        return Peer(name, "a function", vectors=partial(_called_with, value))
    raise InputTypeError(f"{short_repr(value)} is a {kind_of(value)}; compare with {PEERS}")


def _at(place: str, setup: Setup) -> Peer:
    if place.startswith(("http://", "https://")):
        protocol, vectors = server(place, normalize=setup.settings.normalize)
        return Peer(without_secrets(place), protocol, vectors=vectors, shared=True)
    path = path_of("b", place)
    if path.suffix.lower() == ".onnx" and os.path.isfile(path):
        return _onnx(path, setup)
    if path.suffix.lower() == ".gguf" and os.path.isfile(path):
        return _gguf(path, setup)
    if os.path.isdir(path):
        return _folder(path, setup)
    what = "is no file or folder" if not os.path.exists(path) else "is no .onnx and no .gguf file"
    raise InputError(f"{place[:300]} {what}; compare with {PEERS}")


def _called_with(function: Callable[[list[str]], Any], texts: Sequence[str]) -> list[Tensor]:
    with _answering(
        "the function that is compared with", "takes a list of texts, and gives a list"
    ):
        found = function(list(texts))
        found = list(found) if isinstance(found, Iterator) else found
    return rows_of(found, len(texts), "the peer")


@contextmanager
def _answering(who: str, does: str) -> Iterator[None]:
    """Say who of the others failed, and with what."""
    try:
        yield
    except (RobertaHubError, MemoryError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{who} raised {type(error).__name__}: {said}; it {does}") from error


def _need(package: str, what: str, how: str | None = None) -> Any:
    """Import a peer's library."""
    name = package.replace("-", "_").removesuffix("_python")
    if find_spec(name) is None:
        install = how or f"pip install {package}"
        raise MissingExtraError(f"{what} needs {package}, which is not installed: {install}")
    return importlib.import_module(name)  # not ours


def _called(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


# ---- ours ----


def _ours(roberta: RobertaHubInterface) -> Peer:
    """Another model of ours, as it answers: optimized, say, or on another device."""
    settings = roberta.sentence or SentenceSettings()
    prompt = settings.find_prompt(None, None)
    runner = within_limit(roberta._runner(truncate=True, progress=False), settings)

    def vectors(texts: Sequence[str]) -> list[Tensor]:
        return rows_of(text_vectors(runner, texts, settings, prompt), len(texts), "the peer")

    def ids(texts: Sequence[Text]) -> list[Tensor]:
        return list(roberta._runner(truncate=True).ids(list(texts)))

    optimized = roberta.optimized
    reader = f"roberta_hub, {optimized}" if optimized else "roberta_hub"
    model = packing_model(roberta.model)
    peer = Peer(roberta.source, reader, ids=ids, vectors=vectors, whole=roberta.sentence is None)
    if optimized is not None and optimized.dtype is not None:
        peer = replace(peer, dtype=optimized.dtype)
    if model is None:
        return replace(peer, unasked={"heads": "a model of fairseq's own is asked for vectors"})
    return replace(peer, answers=tuple(_answers_of_ours(model, roberta)))


def _answers_of_ours(model: Roberta, roberta: RobertaHubInterface) -> Iterator[Given]:
    def asked(answer: ExportedAnswer) -> Rows:
        def ask(sequences: Sequence[Tensor]) -> list[Tensor]:
            ids = _padded_ids(sequences, model.config.padding_idx).to(roberta.device)
            with evaluating(model):
                (rows, *_) = answer_packed(model, answer, ids)
            one = answer.kind in ("pooled", "classification")
            return list(rows.double().cpu()) if one else _unpadded(rows, sequences)

        return ask

    plain = [ExportedAnswer("features")]
    if model.pooler is not None:
        plain.append(POOLER)
    if model.encoder.lm_head is not None:
        plain.append(ExportedAnswer("language"))
    if model.replaced_head is not None:
        plain.append(ExportedAnswer("replaced"))
    for answer in plain:
        yield Given(answer, asked(answer))
    for head in heads_of(roberta):
        yield Given(ExportedAnswer(head.type), asked(ExportedAnswer(head.type, head.name)), head)


# ---- transformers and sentence-transformers ----


def _folder(path: Path, setup: Setup) -> Peer:
    transformers = _need("transformers", f"comparing with the folder {path}")
    transformers.utils.logging.disable_progress_bar()
    with _reading(f"{path}: transformers cannot read this folder"):
        model, told = transformers.AutoModel.from_pretrained(str(path), output_loading_info=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(path))
    peer = _transformers(model.eval(), tokenizer, setup, str(path))
    if any("pooler" in name for name in told["missing_keys"]):  # it made a random one
        peer = replace(peer, answers=tuple(g for g in peer.answers if g.answer != POOLER))
    peer = _with_its_class(peer, transformers, model.config, path, setup)
    if not (path / "modules.json").is_file():
        return replace(peer, whole=True)
    if find_spec("sentence_transformers") is None:
        why = "sentence-transformers is not installed: pip install sentence-transformers"
        return replace(peer, unasked={**peer.unasked, "vectors": why})
    if read_note(path / "config_sentence_transformers.json").get("model_type") == "CrossEncoder":
        return peer
    package = _need("sentence-transformers", "its modules.json")
    with _reading(f"{path}: sentence-transformers cannot read this folder"):
        theirs = package.SentenceTransformer(str(path), device="cpu")
    vectors = _sentence_transformers(theirs, setup, str(path))
    return replace(peer, reader=f"{peer.reader} and {vectors.reader}", vectors=vectors.vectors)


def _with_its_class(peer: Peer, transformers: Any, config: Any, path: Path, setup: Setup) -> Peer:
    """Add the answers of the class that a folder's config.json names, which may have a head."""
    (name, *_) = getattr(config, "architectures", None) or [""]
    if not name or name == peer.reader.rpartition(", ")[2]:
        return peer
    kind = getattr(transformers, name, None)
    if kind is None:
        why = f"transformers has no class {name}, which config.json names"
        return replace(peer, unasked={f"answers of {name}": why})
    with _reading(f"{path}: transformers cannot read this folder as {name}"):
        model, told = kind.from_pretrained(str(path), output_loading_info=True)
    reader = f"{_called('transformers')}, {name}"
    if missing := sorted(told["missing_keys"]):
        lacks = (
            f"has no {missing[0]}{' and others' if len(missing) > 1 else ''} among its weights, "
            f"which {name} of config.json needs"
        )
        return replace(peer, reader=reader, lacks=lacks)
    more, unasked = _answers_of_theirs(model.eval(), setup, str(path))
    return replace(peer, reader=reader, answers=(*peer.answers, *more), unasked=unasked)


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Say which file or folder another library cannot read."""
    try:
        yield
    except (RobertaHubError, MemoryError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {str(error)[:300]}"
        raise InputError(f"{what} ({said})") from error


def _transformers(model: Any, tokenizer: Any, setup: Setup, name: str) -> Peer:
    body = model.base_model.eval()
    depth = setup.model.transformer.num_layers
    names = ("embeddings", *(f"layer {number}" for number in range(1, depth + 1)))

    def states(sequences: Sequence[Tensor]) -> list[list[Tensor]]:
        out = _run(body, sequences, setup, name, output_hidden_states=True)
        found = (*out.hidden_states[:-1], out.last_hidden_state)
        if len(found) != len(names):
            raise InputError(f"{name} has {len(found) - 1} layers, and our model has {depth}")
        return [_unpadded(state, sequences) for state in found]

    def pooled(sequences: Sequence[Tensor]) -> list[Tensor]:
        return list(_run(body, sequences, setup, name).pooler_output.double().cpu())

    dtype = str(next(body.parameters()).dtype).removeprefix("torch.")
    kind = type(model).__name__
    more, unasked = _answers_of_theirs(model.eval(), setup, name)
    if getattr(body, "pooler", None) is not None:
        more = (Given(POOLER, pooled), *more)
    reader = f"{_called('transformers')}, {kind}"
    peer = Peer(name, reader, stages=names, states=states, answers=more, unasked=unasked)
    peer = replace(peer, dtype=dtype)
    return peer if tokenizer is None else replace(peer, ids=_ids_of(tokenizer, setup.limit))


def _run(model: Any, sequences: Sequence[Tensor], setup: Setup, name: str, **options: Any) -> Any:
    """Run a model of transformers on the ids of a batch."""
    device = next(model.parameters()).device
    given = {k: v.to(device) for k, v in _padded(sequences, setup).items()}
    if type(model).__name__.endswith("ForMultipleChoice"):  # (B, choices, T)
        given = {k: v[:, None] for k, v in given.items()}
    with torch.no_grad(), _answering(name, "is asked with the ids of our model's tokenizer"):
        return model(**given, **options)


_KINDS: dict[str, AnswerKind] = {
    HEADS: "classification",
    TOKEN_HEADS: "token",
    SPAN_HEADS: "span",
    REPLACED_HEAD: "replaced",
}


def _answers_of_theirs(
    model: Any, setup: Setup, name: str
) -> tuple[tuple[Given, ...], Mapping[str, str]]:
    """List the answers of a class of transformers beyond hidden states, and what is not asked."""
    kind, config = type(model).__name__, model.config

    def asked(answer: AnswerKind, *fields: str) -> Given:
        def ask(sequences: Sequence[Tensor]) -> list[Tensor]:
            out = _run(model, sequences, setup, name)
            found = [out[field] for field in fields if field in out]
            rows = torch.stack(found, -1) if answer == "span" else found[0]
            one = answer == "classification"
            return list(rows.double().cpu()) if one else _unpadded(rows, sequences)

        if answer in ("language", "replaced"):
            return Given(ExportedAnswer(answer), ask)
        return Given(ExportedAnswer(answer), ask, _head_of_config(answer, config.to_dict()))

    if kind.endswith("Model"):
        return (), {}
    heads = {
        table.class_prefix + head.suffix: head
        for table in FAMILIES.values()
        for head in table.heads
    }
    head = heads.get(kind)
    if kind.endswith("ForMaskedLM"):
        return (asked("language", "logits"),), {}
    if head is None:
        return (), {f"answers of {kind}": "what this class answers is not known here"}
    if head.labels:
        own = asked("classification", "seq_relationship_logits", "sop_logits", "logits")
        made = Head(name=head.name, type="classification", labels=head.labels, kind="single_label")
        words = (asked("language", "prediction_logits"),) if head.lm_head else ()
        return (replace(own, head=made), *words), {}
    answer = _KINDS[head.kind]
    fields = ("start_logits", "end_logits") if answer == "span" else ("logits",)
    return (asked(answer, *fields),), {}


def _head_of_config(kind: AnswerKind, config: Mapping[str, Any]) -> Head:
    """Read what config.json says of a head's numbers."""
    if kind == "span":
        return Head(type="span")
    named = config.get("id2label")
    labels = None
    if isinstance(named, dict) and {str(i) for i in named} == {str(i) for i in range(len(named))}:
        labels = tuple(
            str(label) for _, label in sorted(named.items(), key=lambda one: int(one[0]))
        )
    if kind == "token":
        return Head(type="token", labels=labels)
    kinds: dict[object, HeadKind] = {
        "multi_label_classification": "multi_label",
        "regression": "regression",
    }
    own = None if labels is None else kinds.get(config.get(KIND), "single_label")
    return Head(type="classification", labels=labels, kind=own)


def _ids_of(tokenizer: Any, longest: int) -> Callable[[Sequence[Text]], list[Tensor]]:
    limit = min(int(tokenizer.model_max_length), longest)

    def ids(texts: Sequence[Text]) -> list[Tensor]:
        rows = [(text,) if isinstance(text, str) else text for text in texts]
        options = {"truncation": True, "max_length": limit}
        return [torch.tensor(tokenizer(*row, **options)["input_ids"]) for row in rows]

    return ids


def _padded(sequences: Sequence[Tensor], setup: Setup) -> dict[str, Tensor]:
    """What a padded model takes of a batch, padded on the right."""
    ids = _padded_ids(sequences, setup.model.config.padding_idx)
    mask = (torch.arange(ids.size(1)) < torch.tensor([[len(own)] for own in sequences])).long()
    given = {"input_ids": ids, "attention_mask": mask}
    if setup.model.transformer.separator_idx is not None:
        given["token_type_ids"] = setup.tokenizer.layout.segments(ids) * mask
    return given


def _padded_ids(sequences: Sequence[Tensor], padding: int) -> Tensor:
    ids = torch.full((len(sequences), max(map(len, sequences))), padding, dtype=torch.long)
    for row, own in zip(ids, sequences, strict=True):
        row[: len(own)] = own
    return ids


def _unpadded(rows: Tensor, sequences: Sequence[Tensor]) -> list[Tensor]:
    return [row[: len(own)].double().cpu() for row, own in zip(rows, sequences, strict=True)]


def _sentence_transformers(model: Any, setup: Setup, name: str) -> Peer:
    def vectors(texts: Sequence[str]) -> list[Tensor]:
        with _answering(name, "is asked for vectors by encode"):
            found = model.encode(
                list(texts), convert_to_tensor=True, show_progress_bar=False, batch_size=len(texts)
            )
        return rows_of(found, len(texts), name)

    return Peer(name, _called("sentence-transformers"), vectors=vectors)


# ---- ONNX ----


def _onnx(path: Path, setup: Setup) -> Peer:
    runtime = _need("onnxruntime", f"running {path}", extras.install("onnx"))
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = torch.get_num_threads()
    with _reading(f"{path}: onnxruntime cannot read this file"):
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    takes = {given.name for given in session.get_inputs()}
    known = {"input_ids", "attention_mask", "token_type_ids"}
    if not {"input_ids"} <= takes <= known:
        raise InputError(
            f"{path} takes {', '.join(sorted(takes))}; a model with input_ids, attention_mask and "
            "token_type_ids can be compared"
        )
    outputs = {output.name: output for output in session.get_outputs()}

    def asked(answer: ExportedAnswer, *names: str) -> Given:
        def ask(sequences: Sequence[Tensor]) -> list[Tensor]:
            given = _padded(sequences, setup)
            if "token_type_ids" in takes:
                given.setdefault("token_type_ids", torch.zeros_like(given["input_ids"]))
            feed = {name: ids.numpy() for name, ids in given.items() if name in takes}
            with _answering(str(path), "is asked with the ids of our model's tokenizer"):
                found = [torch.from_numpy(own) for own in session.run(list(names), feed)]
            rows = torch.stack(found, -1) if len(found) > 1 else found[0]
            if answer.kind in ("pooled", "classification"):
                return list(rows.double())
            return _unpadded(rows, sequences)

        head = None
        if answer.kind in ("classification", "token", "span"):
            head = _head_of_config(answer.kind, read_note(path.with_name("config.json")))
        return Given(answer, ask, head, names[0])

    told = _answers_of_file(outputs, setup)
    if not told:
        raise InputError(
            f"{path} answers {', '.join(outputs)}, and it is not clear which answer of our model "
            "that is; last_hidden_state, sentence_embedding, pooler_output and logits can be "
            "compared"
        )
    used = {name for names in told.values() for name in names}
    # optimum and our own exports write these twice.
    passing = ("logits", "hidden_states", "attentions", "token_embeddings")
    unread = [name for name in outputs if name not in used and not name.startswith(passing)]
    unasked = {f"output {name}": "what this output is is not known here" for name in unread}
    types = {outputs[name].type for names in told.values() for name in names}
    dtype = types.pop().removeprefix("tensor(").removesuffix(")").replace("float", "float32")
    dtype = {"float3216": "float16", "bfloat3216": "bfloat16"}.get(dtype, dtype)
    answers = tuple(asked(answer, *names) for answer, names in told.items())
    peer = Peer(str(path), _called("onnxruntime"), answers=answers, dtype=dtype, unasked=unasked)
    beside = path.with_name("tokenizer.json")
    if not beside.is_file() or find_spec("transformers") is None:
        return peer
    transformers = _need("transformers", "its tokenizer.json")
    about = read_note(path.with_name("tokenizer_config.json"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(beside))
    tokenizer.model_max_length = about.get("model_max_length") or setup.limit
    return replace(peer, ids=_ids_of(tokenizer, setup.limit))


def _answers_of_file(
    outputs: Mapping[str, Any], setup: Setup
) -> dict[ExportedAnswer, tuple[str, ...]]:
    """Tell which answers a file's outputs are, by their names and widths."""
    found: dict[ExportedAnswer, tuple[str, ...]] = {}
    for name in ("last_hidden_state", "token_embeddings"):
        if name in outputs:
            found.setdefault(ExportedAnswer("features"), (name,))
    if "sentence_embedding" in outputs:
        found[VECTORS] = ("sentence_embedding",)
    if "pooler_output" in outputs:
        found[POOLER] = ("pooler_output",)
    if {"start_logits", "end_logits"} <= {*outputs}:
        found[ExportedAnswer("span")] = ("start_logits", "end_logits")
    elif "logits" in outputs:
        rank, width = len(outputs["logits"].shape), outputs["logits"].shape[-1]
        kind: AnswerKind = "classification" if rank == 2 else "token"
        if rank == 2 and setup.model.replaced_head is not None and not isinstance(width, int):
            kind = "replaced"
        elif rank == 3 and width == setup.model.config.vocab_size:
            kind = "language"
        found[ExportedAnswer(kind)] = ("logits",)
    return found


# ---- GGUF ----


def _gguf(path: Path, setup: Setup) -> Peer:
    """Whether vectors get length 1 is what the caller asks, and not in the file."""
    package = _need("llama-cpp-python", f"running {path}")
    with _reading(f"{path}: llama-cpp-python cannot read this file"):
        model = package.Llama(model_path=str(path), embedding=True, verbose=False)
    normalize = setup.settings.normalize

    def vectors(texts: Sequence[str]) -> list[Tensor]:
        with _answering(str(path), "is asked for vectors by llama-cpp-python"):
            found = [model.embed(text, normalize=normalize) for text in texts]
        return rows_of(found, len(texts), str(path))

    return Peer(str(path), _called("llama-cpp-python"), vectors=vectors)
