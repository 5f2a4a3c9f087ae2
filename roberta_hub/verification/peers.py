"""Who a model is compared with, and how each is asked: models in memory, folders and files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub import extras
from roberta_hub.arguments import kind_of, path_of, short_repr
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError, RobertaHubError
from roberta_hub.export.graph import ExportedAnswer
from roberta_hub.files import read_note
from roberta_hub.inference.embed import embed, within_limit
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.known_head import outputs_of
from roberta_hub.settings import SentenceSettings
from roberta_hub.terminal import without_secrets
from roberta_hub.text.tokenizer import Text
from roberta_hub.verification.servers import server
from roberta_hub.verification.setup import Setup

PEERS = (
    "an ONNX file, a folder that transformers or sentence-transformers reads, a .gguf file, the "
    "http address of a server, a model of one of these libraries, or a function from texts to "
    "vectors"
)
"""What a peer may be, in words."""


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
    answer: ExportedAnswer | None = None
    """What the one stage is; None: the stages are all hidden states."""
    vectors: Callable[[Sequence[str]], list[Tensor]] | None = None
    """From the texts of a batch to a vector of each."""
    dtype: str = "float32"
    """What it says of its own precision."""
    shared: bool = False
    """Whether several callers may ask at once, as of a server."""


def peer_of(value: Any, setup: Setup) -> Peer:
    """Find out how a peer is asked.

    Args:
        value: see `PEERS`.
        setup: of our model, whose limits and special ids a peer is asked with.

    Raises:
        InputTypeError: it is none of them.
        InputError: a file or folder that is none of them.
        MissingExtraError: the library that reads it is not installed.
    """
    if isinstance(value, Peer):
        return value
    if isinstance(value, RobertaHubInterface):
        return _ours(value)
    if isinstance(value, (str, os.PathLike)):
        return _at(os.fspath(value), setup)
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(value).__mro__}
    if "sentence_transformers.SentenceTransformer" in kinds:
        return _sentence_transformers(value, setup, "a SentenceTransformer")
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
    try:
        found = function(list(texts))
    except RobertaHubError:
        raise
    except Exception as error:
        raise InputError(
            f"the function that is compared with raised {type(error).__name__}: "
            f"{str(error)[:200]}; it takes a list of texts and gives a vector of each"
        ) from error
    return _rows(found, len(texts))


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


def _rows(found: Any, count: int) -> list[Tensor]:
    """Vectors of a batch, in float64."""
    if isinstance(found, Tensor):
        rows = found.detach().double().cpu()
    else:
        given = [row.detach().cpu().tolist() if isinstance(row, Tensor) else row for row in found]
        rows = torch.as_tensor(given, dtype=torch.float64)
    if rows.dim() != 2 or len(rows) != count:
        raise InputError(
            f"the peer answers {count} texts with numbers of shape {tuple(rows.shape)}; one vector "
            "for each is needed"
        )
    return list(rows)


# ---- ours ----


def _ours(roberta: RobertaHubInterface) -> Peer:
    """Another model of ours, as it answers: optimized, say, or on another device."""
    settings = roberta.sentence or SentenceSettings()
    prompt = settings.find_prompt(None, None)
    runner = within_limit(roberta._runner(truncate=True, progress=False), settings)

    def vectors(texts: Sequence[str]) -> list[Tensor]:
        return _rows(embed(runner, texts, settings, prompt), len(texts))

    def ids(texts: Sequence[Text]) -> list[Tensor]:
        return list(roberta._runner(truncate=True).ids(list(texts)))

    dtype = roberta.optimized.dtype if roberta.optimized else None
    reader = f"roberta_hub, {roberta.optimized}" if roberta.optimized else "roberta_hub"
    return Peer(roberta.source, reader, ids=ids, vectors=vectors, dtype=dtype or "float32")


# ---- transformers and sentence-transformers ----


def _folder(path: Path, setup: Setup) -> Peer:
    transformers = _need("transformers", f"comparing with the folder {path}")
    transformers.utils.logging.disable_progress_bar()
    try:
        model = transformers.AutoModel.from_pretrained(str(path)).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(path))
    except Exception as error:
        raise InputError(
            f"{path}: transformers cannot read this folder ({type(error).__name__}: "
            f"{str(error)[:300]})"
        ) from error
    peer = _transformers(model, tokenizer, setup, str(path))
    if not (path / "modules.json").is_file():
        return peer
    if find_spec("sentence_transformers") is None:
        said = f"{peer.reader} (sentence-transformers, for its modules.json, is not installed)"
        return replace(peer, reader=said)
    package = _need("sentence-transformers", "its modules.json")
    theirs = package.SentenceTransformer(str(path), device="cpu")
    vectors = _sentence_transformers(theirs, setup, str(path))
    return replace(peer, reader=f"{peer.reader} and {vectors.reader}", vectors=vectors.vectors)


def _transformers(model: Any, tokenizer: Any, setup: Setup, name: str) -> Peer:
    body = model.base_model.eval()
    depth = setup.model.transformer.num_layers
    names = ("embeddings", *(f"layer {number}" for number in range(1, depth + 1)))

    def states(sequences: Sequence[Tensor]) -> list[list[Tensor]]:
        device = next(body.parameters()).device
        given = {k: v.to(device) for k, v in _padded(sequences, setup).items()}
        with torch.no_grad():
            out = body(**given, output_hidden_states=True)
        found = (*out.hidden_states[:-1], out.last_hidden_state)
        if len(found) != len(names):
            raise InputError(f"{name} has {len(found) - 1} layers, and our model has {depth}")
        return [_unpadded(state, sequences) for state in found]

    dtype = str(next(body.parameters()).dtype).removeprefix("torch.")
    kind = type(model).__name__
    peer = Peer(name, f"{_called('transformers')}, {kind}", stages=names, states=states)
    peer = replace(peer, dtype=dtype)
    return peer if tokenizer is None else replace(peer, ids=_ids_of(tokenizer, setup.limit))


def _ids_of(tokenizer: Any, longest: int) -> Callable[[Sequence[Text]], list[Tensor]]:
    limit = min(int(tokenizer.model_max_length), longest)

    def ids(texts: Sequence[Text]) -> list[Tensor]:
        rows = [(text,) if isinstance(text, str) else text for text in texts]
        options = {"truncation": True, "max_length": limit}
        return [torch.tensor(tokenizer(*row, **options)["input_ids"]) for row in rows]

    return ids


def _padded(sequences: Sequence[Tensor], setup: Setup) -> dict[str, Tensor]:
    """What a padded model takes of a batch, padded on the right."""
    padding, longest = setup.model.config.padding_idx, max(map(len, sequences))
    ids = torch.full((len(sequences), longest), padding, dtype=torch.long)
    for row, own in zip(ids, sequences, strict=True):
        row[: len(own)] = own
    mask = (torch.arange(longest) < torch.tensor([[len(own)] for own in sequences])).long()
    given = {"input_ids": ids, "attention_mask": mask}
    if setup.model.transformer.separator_idx is not None:
        given["token_type_ids"] = setup.tokenizer.layout.segments(ids) * mask
    return given


def _unpadded(rows: Tensor, sequences: Sequence[Tensor]) -> list[Tensor]:
    return [row[: len(own)].double().cpu() for row, own in zip(rows, sequences, strict=True)]


def _sentence_transformers(model: Any, setup: Setup, name: str) -> Peer:
    def vectors(texts: Sequence[str]) -> list[Tensor]:
        found = model.encode(
            list(texts), convert_to_tensor=True, show_progress_bar=False, batch_size=len(texts)
        )
        return _rows(found, len(texts))

    return Peer(name, _called("sentence-transformers"), vectors=vectors)


# ---- ONNX ----


def _onnx(path: Path, setup: Setup) -> Peer:
    runtime = _need("onnxruntime", f"running {path}", extras.install("onnx"))
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    takes = {given.name for given in session.get_inputs()}
    known = {"input_ids", "attention_mask", "token_type_ids"}
    if not {"input_ids"} <= takes <= known:
        raise InputError(
            f"{path} takes {', '.join(sorted(takes))}; a model with input_ids, attention_mask and "
            "token_type_ids can be compared"
        )
    output, answer = _answer_of(session.get_outputs(), setup, path)

    def states(sequences: Sequence[Tensor]) -> list[list[Tensor]]:
        given = _padded(sequences, setup)
        if "token_type_ids" in takes:
            given.setdefault("token_type_ids", torch.zeros_like(given["input_ids"]))
        feed = {name: ids.numpy() for name, ids in given.items() if name in takes}
        (found,) = session.run([output.name], feed)
        rows = torch.from_numpy(found)
        if answer.kind in ("pooled", "classification"):
            return [list(rows.double())]
        return [_unpadded(rows, sequences)]

    dtype = output.type.removeprefix("tensor(").removesuffix(")").replace("float", "float32")
    dtype = {"float3216": "float16", "bfloat3216": "bfloat16"}.get(dtype, dtype)
    stages = (output.name,)
    name, reader = str(path), _called("onnxruntime")
    peer = Peer(name, reader, stages=stages, states=states, answer=answer, dtype=dtype)
    beside = path.with_name("tokenizer.json")
    if not beside.is_file() or find_spec("transformers") is None:
        return peer
    transformers = _need("transformers", "its tokenizer.json")
    about = read_note(path.with_name("tokenizer_config.json"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(beside))
    tokenizer.model_max_length = about.get("model_max_length") or setup.limit
    return replace(peer, ids=_ids_of(tokenizer, setup.limit))


def _answer_of(outputs: Sequence[Any], setup: Setup, path: Path) -> tuple[Any, ExportedAnswer]:
    """Tell which of our answers an output is, by its name and its width."""
    by_name = {output.name: output for output in outputs}
    for name in ("last_hidden_state", "token_embeddings"):
        if name in by_name:
            return by_name[name], ExportedAnswer("features")
    if "sentence_embedding" in by_name:
        return by_name["sentence_embedding"], ExportedAnswer("pooled")
    model = setup.model
    if "logits" in by_name and "start_logits" not in by_name:
        output = by_name["logits"]
        rank, width = len(output.shape), output.shape[-1]
        if rank == 2:
            heads = model.classification_heads.items()
            fit = _of_labels([n for n, head in heads if outputs_of(head) == width], setup, path)
            if len(fit) == 1:
                return output, ExportedAnswer("classification", fit[0])
        elif width == model.config.vocab_size and model.encoder.lm_head is not None:
            return output, ExportedAnswer("language")
        else:
            fit = [name for name, head in model.token_heads.items() if outputs_of(head) == width]
            if len(fit) == 1:
                return output, ExportedAnswer("token", fit[0])
    raise InputError(
        f"{path} answers {', '.join(by_name)}, and it is not clear which answer of our model that "
        "is; last_hidden_state, sentence_embedding, and logits of the one head of that width can "
        "be compared"
    )


def _of_labels(heads: list[str], setup: Setup, path: Path) -> list[str]:
    """Keep of several heads those whose labels the config.json beside a file names, if it does."""
    named = read_note(path.with_name("config.json")).get("id2label")
    labels = [*named.values()] if isinstance(named, dict) else []
    alike = [head for head in heads if [*setup.labels.get(head, ())] == labels]
    return alike if len(heads) > 1 else heads


# ---- GGUF ----


def _gguf(path: Path, setup: Setup) -> Peer:
    """Whether vectors get length 1 is what the caller asks, and not in the file."""
    package = _need("llama-cpp-python", f"running {path}")
    model = package.Llama(model_path=str(path), embedding=True, verbose=False)
    normalize = setup.settings.normalize

    def vectors(texts: Sequence[str]) -> list[Tensor]:
        return _rows([model.embed(text, normalize=normalize) for text in texts], len(texts))

    return Peer(str(path), _called("llama-cpp-python"), vectors=vectors)
