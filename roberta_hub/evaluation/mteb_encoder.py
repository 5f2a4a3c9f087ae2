"""Lets mteb run our models: its protocol of encoders, answered by `embed`."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.arguments import kind_of, path_text, short_repr, switch, text_of, whole_number
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError
from roberta_hub.hub import load_model
from roberta_hub.inference.embed import similarities
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.settings import SentenceSettings

_PAIRS = 64
"""Vectors of a chunk that are compared one with one."""
_BY_TYPE = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""From mteb's type of a text to the names of prompts that it gets, as `search` gives them."""


class MtebEncoder:
    """A model as mteb's `EncoderProtocol`; `as_mteb` makes it.

    mteb calls `encode`, `similarity` and `similarity_pairwise`, and reads `mteb_model_meta`.
    """

    def __init__(
        self,
        model_name: RobertaHubInterface | str | os.PathLike[str],
        revision: str | None = None,
        *,
        device: str | None = None,
        name: str | None = None,
        truncate_dim: int | None = None,
        truncate: bool = True,
        batch_tokens: int | None = None,
    ) -> None:
        """Wrap a model; the first three arguments are those of mteb's protocol.

        Args:
            model_name: a model, or its name or path.
            revision: of a name at Hugging Face; None: the pinned or newest.
            device: where it computes; None: where it is, or the CPU.
            name: what mteb's results call it; None: its own name.
            truncate_dim: see `RobertaHubInterface.embed`.
            truncate: cut texts that are too long.
            batch_tokens: number of tokens in a batch.

        Raises:
            InputError: the model or a number cannot be used.
            InputTypeError: an argument of another type.
        """
        self.roberta = _loaded(model_name, revision, device)
        self.settings = self.roberta.sentence or SentenceSettings()
        width = int(self.roberta.embed(["a"]).size(1))
        if truncate_dim is not None:
            truncate_dim = whole_number("truncate_dim", truncate_dim, 1, width)
        self.name = _name(model_name if name is None else text_of("name", name), self.roberta)
        self.truncate_dim, self.truncate = truncate_dim, switch("truncate", truncate)
        self.batch_tokens = batch_tokens
        self.width = width if truncate_dim is None else truncate_dim
        self.roberta._runner(batch_tokens=batch_tokens)  # checks it
        self._meta: Any = None
        self._digest: tuple[Any, str] = (None, "")

    def __repr__(self) -> str:
        return f"<{self.name} for mteb>"

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: Any = None,
        **options: Any,
    ) -> Any:
        """Compute one vector of each text.

        Args:
            inputs: batches, each a dict whose "text" is a list.
            task_metadata: mteb's, with the name and the type of the task, which choose a prompt.
            hf_split: part of the data; it changes nothing.
            hf_subset: the same.
            prompt_type: whether texts are queries or documents; None: neither.
            options: mteb's for batches and bars: `show_progress_bar` is honoured, the size of a
                batch is not, for batches here are of tokens.

        Returns:
            (n, C) float32, an array of numpy.

        Raises:
            InputTypeError: inputs that are no texts.
        """
        texts: list[str] = []
        for batch in inputs:
            found = batch.get("text") if isinstance(batch, Mapping) else None
            if not isinstance(found, (list, tuple)):
                raise InputTypeError(
                    f"mteb gave {kind_of(batch)} without texts; only texts are read"
                )
            texts += found
        vectors = self.roberta.embed(
            texts,
            self.prompt_of(task_metadata, prompt_type),
            truncate_dim=self.truncate_dim,
            truncate=self.truncate,
            batch_tokens=self.batch_tokens,
            progress=True if options.get("show_progress_bar") else None,
        )
        return vectors.float().cpu().numpy()

    def prompt_of(self, task_metadata: Any, prompt_type: Any) -> str | None:
        """Find the prompt of a task's texts; None: the model's default.

        The names of the model's prompts are looked up in mteb's order: the task and the type of the
        text ("NFCorpus-query"), the task, its kind and the type, its kind, the type. Documents also
        get a prompt that is called "passage" or "corpus".

        Args:
            task_metadata: mteb's.
            prompt_type: its type of the texts, or None.
        """
        kind = getattr(prompt_type, "value", prompt_type)
        prompts = self.settings.prompts
        names: list[Any] = []
        for about in (getattr(task_metadata, "name", None), getattr(task_metadata, "type", None)):
            names += [f"{about}-{kind}", about] if kind else [about]
        names += _BY_TYPE.get(str(kind), ())
        found = next((prompts[name] for name in names if name in prompts), None)
        if found is None and kind is not None:  # as `search`: no prompt, and not the default
            return ""
        return found

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Compare each vector with each of others, as the model's settings say: (m, n).

        Args:
            embeddings1: (m, C) or (C,)
            embeddings2: (n, C) or (C,)
        """
        return similarities(_rows(embeddings1), _rows(embeddings2), self.settings.similarity)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Compare each vector with the one of the same place: (n,).

        Args:
            embeddings1: (n, C)
            embeddings2: (n, C)
        """
        a, b = _rows(embeddings1), _rows(embeddings2)
        parts = [
            self.similarity(a[i : i + _PAIRS], b[i : i + _PAIRS]).diagonal()
            for i in range(0, len(a), _PAIRS)
        ]
        return torch.cat(parts) if parts else a.new_empty(0)

    @property
    def revision(self) -> str:
        """A digest of weights and settings, so that mteb takes no result of other weights."""
        weights = self.roberta.model.state_dict()
        about = (self.settings, self.truncate_dim, self.truncate, str(self.roberta.optimized))
        state = [(key, value.data_ptr(), value._version) for key, value in weights.items()]
        if self._digest[0] != (state, about):  # mteb asks often, and large weights take seconds
            digest = hashlib.sha256(repr(about).encode())
            for key, value in weights.items():
                digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
                flat = value.detach().cpu().contiguous().flatten()
                digest.update(flat.view(torch.uint8).numpy())
            self._digest = ((state, about), digest.hexdigest()[:40])
        return self._digest[1]

    @property
    def mteb_model_meta(self) -> Any:
        """The record by which mteb knows the model.

        Raises:
            MissingExtraError: mteb is not installed.
        """
        if self._meta is not None:
            return self._meta
        try:
            from mteb.models.model_meta import ModelMeta, ScoringFunction
        except ImportError as error:
            raise MissingExtraError(f"mteb is not installed ({error}): pip install mteb") from None

        def load(
            name: str,
            revision: str | None = None,
            *,
            device: str | None = None,
            embed_dim: int | None = None,
        ) -> MtebEncoder:
            return self._changed(device, embed_dim)  # a function, for mteb copies all else

        return ModelMeta.create_empty(
            {
                "name": self.name,
                "revision": self.revision,
                "loader": load,
                "embed_dim": self.width,
                "max_tokens": self.settings.max_length or self.roberta.max_positions,
                "n_parameters": sum(p.numel() for p in self.roberta.model.parameters()),
                "similarity_fn_name": ScoringFunction(self.settings.similarity),
                "use_instructions": bool(self.settings.prompts),
                "framework": ["PyTorch"],
            }
        )

    @mteb_model_meta.setter
    def mteb_model_meta(self, meta: Any) -> None:
        self._meta = meta

    def _changed(self, device: str | None, embed_dim: int | None) -> MtebEncoder:
        """The same model in another place, or with vectors of another width."""
        found = copy.copy(self)
        if device is not None:
            found.roberta = self.roberta.to(device)
        if embed_dim is not None and embed_dim != self.width:
            found.truncate_dim = found.width = whole_number("embed_dim", embed_dim, 1, self.width)
        return found


def as_mteb(
    model: RobertaHubInterface | str | os.PathLike[str],
    *,
    name: str | None = None,
    truncate_dim: int | None = None,
    truncate: bool = True,
    batch_tokens: int | None = None,
) -> MtebEncoder:
    """Make a model that mteb runs: `mteb.evaluate(roberta_hub.as_mteb("mine"), tasks)`.

    Queries and documents get the model's prompts, vectors its pooling and normalization, and pairs
    its similarity, as with `search` and `embed`.

    Args:
        model: a model, or its name or path.
        name: what mteb's results call it, "owner/name"; None: the model's own.
        truncate_dim: keep this many numbers of each vector; see `RobertaHubInterface.embed`.
        truncate: cut texts that are too long, as sentence-transformers does; False: refuse them.
        batch_tokens: number of tokens in a batch; mteb's own size of batches counts texts, and is
            not used.

    Returns:
        An encoder by mteb's protocol. Its revision is a digest of weights and settings.

    Raises:
        InputError: a model, name or number that cannot be used.
        InputTypeError: an argument of another type.

    Example:
        >>> import roberta_hub
        >>> roberta_hub.as_mteb("roberta.tiny", name="mine/tiny")
        <mine/tiny for mteb>
    """
    return MtebEncoder(
        model, name=name, truncate_dim=truncate_dim, truncate=truncate, batch_tokens=batch_tokens
    )


def _loaded(model: Any, revision: str | None, device: str | None) -> RobertaHubInterface:
    if isinstance(model, RobertaHubInterface):
        return model if device is None else model.to(device)
    return load_model(path_text("model", model), device=device, revision=revision)


def _name(model: Any, roberta: RobertaHubInterface) -> str:
    """What mteb calls the model: an owner and a name, of characters that folders take."""
    said = model if isinstance(model, (str, os.PathLike)) else roberta.source.partition(" (")[0]
    text = path_text("name", said)
    parts = [part for part in Path(text).parts if part not in ("/", ".", "..")]
    if not parts or not text.isprintable() or len(text) > 300:
        raise InputError(f"name is {short_repr(text)}; give owner/name")
    return "/".join(parts[-2:]) if len(parts) > 1 else f"roberta_hub/{parts[0]}"


def _rows(vectors: Any) -> Tensor:
    found = torch.as_tensor(vectors)
    return found[None] if found.dim() == 1 else found
