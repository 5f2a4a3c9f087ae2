"""Imports an installed fairseq on today's Python, and converts models between it and us.

fairseq is a peer to compare with, never a dependency.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import io
import tempfile
import threading
from argparse import Namespace
from types import ModuleType
from typing import Any

from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.fairseq_names.importing import ORIGIN
from roberta_hub.formats.fairseq import fairseq_family, fairseq_state, read_state
from roberta_hub.formats.foreign_heads import advise_of_vectors, held_by_fairseq
from roberta_hub.formats.saving import checkpoint_of
from roberta_hub.formats.tokenizer_files import fairseq_dictionary
from roberta_hub.formats.upgrade import is_stale
from roberta_hub.hub import RobertaModel, build_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.sentencepiece_file import parse_model
from roberta_hub.text.task import Task
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.unigram import SentencePiece
from roberta_hub.text.unigram_family import CAMEMBERT, XLM_R

_IMPORTING = threading.RLock()


def import_fairseq() -> ModuleType:
    """Import stock fairseq 0.12.2 on today's Python.

    Since Python 3.11 a dataclass refuses a default that has no hash, and fairseq's configs are
    full of them (`common: CommonConfig = CommonConfig()`): a plain `import fairseq` dies. The
    check is relaxed for fairseq's own classes during the import and restored afterwards.
    """
    with _IMPORTING:
        try:
            spec = importlib.util.find_spec("fairseq")
            if spec is None or spec.origin is None:  # no origin: a mere folder of that name
                raise ModuleNotFoundError("No module named 'fairseq'", name="fairseq")
            if spec.origin == ORIGIN:
                raise InputError(
                    "fairseq's names mean roberta_hub in this process, by as_fairseq() or "
                    "`roberta-hub run`; import fairseq itself in a process that did not ask"
                )
            strict = dataclasses._get_field  # type: ignore[attr-defined]

            def eased(cls: type, name: str, *rest: object) -> object:
                default = getattr(cls, name, None)
                if isinstance(default, dataclasses.Field):
                    default = default.default
                kind = type(default)
                if kind.__hash__ is not None or not kind.__module__.startswith("fairseq."):
                    return strict(cls, name, *rest)
                kind.__hash__ = object.__hash__  # all that the check looks at
                try:
                    return strict(cls, name, *rest)
                finally:
                    kind.__hash__ = None

            dataclasses._get_field = eased  # type: ignore[attr-defined]
            try:
                return importlib.import_module("fairseq")
            finally:
                dataclasses._get_field = strict  # type: ignore[attr-defined]
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"fairseq cannot be imported: {error.name!r} is not installed. Run `pip install "
                "--no-deps fairseq==0.12.2` and `pip install hydra-core omegaconf bitarray "
                "sacrebleu regex tqdm numpy`"
            ) from error


def to_fairseq(ours: RobertaHubInterface | Roberta) -> Any:
    """Return a real fairseq model with a copy of our weights."""
    interface = ours if isinstance(ours, RobertaHubInterface) else None
    model = ours.model if isinstance(ours, RobertaHubInterface) else ours
    tokenizer = interface.tokenizer if interface else Tokenizer.shipped()
    known = interface._heads.known if interface else {}
    task = interface and interface.task
    default = interface.default_head if interface else None
    checkpoint = checkpoint_of(model, known, tokenizer, task, default)
    state = fairseq_state(held_by_fairseq(checkpoint))
    advise_of_vectors(checkpoint, "fairseq's")
    import_fairseq()
    from fairseq.data import Dictionary as TheirDictionary
    from fairseq.models.roberta import RobertaHubInterface as TheirInterface
    from fairseq.models.roberta import RobertaModel as TheirModel
    from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

    words = io.StringIO(fairseq_dictionary(tokenizer, checkpoint.config.vocab_size).decode())
    task = MaskedLMTask(MaskedLMConfig(), TheirDictionary.load(words))  # adds <mask>
    theirs = TheirModel.build_model(Namespace(**state["cfg"]["model"]), task)
    weights = dict(state["model"])
    for head, (classes, inner) in checkpoint.heads().items():
        theirs.register_classification_head(head, classes, inner)
    # 0.12.2 keeps an unused second copy of every layer, which no file has to hold.
    kept = {name: tensor for name, tensor in theirs.state_dict().items() if is_stale(name)}
    theirs.load_state_dict(weights | kept)
    theirs.train(model.training)
    if interface is None:
        return theirs
    hub = TheirInterface(Namespace(bpe=None), task, theirs)
    hub.bpe = interface.bpe  # the same methods; fairseq's own would download its tables
    return hub.train(interface.training)


def from_fairseq(theirs: Any) -> RobertaHubInterface | RobertaModel:
    """Our model with a copy of a real fairseq model's weights."""
    model = getattr(theirs, "model", theirs)
    arguments = model.args
    if not isinstance(arguments, Namespace):  # omegaconf
        arguments = Namespace(**{str(key): arguments[key] for key in arguments})
    state = {"args": arguments, "model": model.state_dict()}
    checkpoint = read_state(state, f"{type(model).__module__}.{type(model).__name__}", {})
    ours = build_model(checkpoint).train(model.training)
    if model is theirs:
        return ours
    bpe = _engine(theirs)
    labels = getattr(theirs.task, "label_dictionary", None)
    task = Task(
        Dictionary.of(theirs.task.source_dictionary),
        Dictionary.of(labels) if labels is not None else None,
        name=checkpoint.task,
        init_token=checkpoint.init_token,
    )
    family = fairseq_family(bpe, task.source_dictionary, ours.config)
    hub = RobertaHubInterface(ours.config, task, ours, bpe=bpe, source="fairseq", family=family)
    return hub.train(theirs.training)


def _engine(theirs: Any) -> SubwordTokenizer | None:
    """Return our engine for what cuts texts in fairseq's interface; None: GPT-2's BPE."""
    bpe = theirs.bpe
    if bpe is None or isinstance(bpe, SubwordTokenizer):
        return bpe
    kind = type(bpe).__name__
    if kind == "GPT2BPE":
        return None
    if kind == "SentencepieceBPE" and not bpe.enable_sampling:
        symbols = theirs.task.source_dictionary.symbols
        family = CAMEMBERT if symbols.count("<s>") > 1 else XLM_R
        return SentencePiece(parse_model(bpe.sp.serialized_model_proto(), "fairseq"), family)
    if kind == "HuggingFaceByteLevelBPE":
        with tempfile.TemporaryDirectory() as folder:
            paths = bpe.bpe.save_model(folder)  # vocab.json and merges.txt
            prefix = bool(bpe.bpe._parameters["add_prefix_space"])
            return GPT2BPE.from_files(*paths, add_prefix_space=prefix)
    raise InputError(
        f"fairseq's {kind} cuts texts here, and is not read; build the model with an engine of "
        "your own: RobertaHubInterface(cfg, task, model, bpe=...)"
    )
