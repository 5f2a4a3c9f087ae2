"""Offers RoBERTa and its relatives as fairseq's torch.hub did.

The names below, and those of `roberta_hub.scale` and `roberta_hub.ui`, are the whole API.

A name is imported when it is first used, so `import roberta_hub` takes no time and no torch.
"""

from importlib import import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roberta_hub.checkpoint.fetch.records import available_models
    from roberta_hub.config import RobertaConfig
    from roberta_hub.errors import RobertaHubError
    from roberta_hub.evaluation.compare import compare
    from roberta_hub.evaluation.evaluate import evaluate
    from roberta_hub.evaluation.mteb_encoder import as_mteb
    from roberta_hub.fairseq_names.importing import as_fairseq
    from roberta_hub.hub import CamembertModel, GottbertModel, RobertaModel, XLMRModel, load_model
    from roberta_hub.indexing.build import index
    from roberta_hub.indexing.duplicates import duplicates
    from roberta_hub.indexing.opened import open_index
    from roberta_hub.inference.answer import Answer
    from roberta_hub.inference.classify import Prediction
    from roberta_hub.inference.search import Hit
    from roberta_hub.inference.tag import Span
    from roberta_hub.interface import RobertaHubInterface
    from roberta_hub.model.packing import collate_tokens
    from roberta_hub.server.run import serve
    from roberta_hub.settings import SentenceSettings, ZeroShotSettings
    from roberta_hub.train.fitting.estimator import RobertaClassifier
    from roberta_hub.train.fitting.fit import fit
    from roberta_hub.verification.verify import verify

__version__ = "0.4.0.dev0"

__all__ = [
    "Answer",
    "CamembertModel",
    "GottbertModel",
    "Hit",
    "Prediction",
    "RobertaClassifier",
    "RobertaConfig",
    "RobertaHubError",
    "RobertaHubInterface",
    "RobertaModel",
    "SentenceSettings",
    "Span",
    "XLMRModel",
    "ZeroShotSettings",
    "as_fairseq",
    "as_mteb",
    "available_models",
    "collate_tokens",
    "compare",
    "duplicates",
    "evaluate",
    "fit",
    "index",
    "load_model",
    "open_index",
    "serve",
    "verify",
]

_HOMES = {
    "Answer": "roberta_hub.inference.answer",
    "CamembertModel": "roberta_hub.hub",
    "GottbertModel": "roberta_hub.hub",
    "Hit": "roberta_hub.inference.search",
    "Prediction": "roberta_hub.inference.classify",
    "RobertaClassifier": "roberta_hub.train.fitting.estimator",
    "RobertaConfig": "roberta_hub.config",
    "RobertaHubError": "roberta_hub.errors",
    "RobertaHubInterface": "roberta_hub.interface",
    "RobertaModel": "roberta_hub.hub",
    "SentenceSettings": "roberta_hub.settings",
    "Span": "roberta_hub.inference.tag",
    "XLMRModel": "roberta_hub.hub",
    "ZeroShotSettings": "roberta_hub.settings",
    "as_fairseq": "roberta_hub.fairseq_names.importing",
    "as_mteb": "roberta_hub.evaluation.mteb_encoder",
    "available_models": "roberta_hub.checkpoint.fetch.records",
    "collate_tokens": "roberta_hub.model.packing",
    "compare": "roberta_hub.evaluation.compare",
    "duplicates": "roberta_hub.indexing.duplicates",
    "evaluate": "roberta_hub.evaluation.evaluate",
    "fit": "roberta_hub.train.fitting.fit",
    "index": "roberta_hub.indexing.build",
    "load_model": "roberta_hub.hub",
    "open_index": "roberta_hub.indexing.opened",
    "serve": "roberta_hub.server.run",
    "verify": "roberta_hub.verification.verify",
}
"""The module of each public name, as the imports above say it to type checkers."""


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Import a public name, or a module of the package, when it is first used (PEP 562)."""
        home = _HOMES.get(name, f"{__name__}.{name}")
        is_word = name.isidentifier() and not name.startswith("_")
        if not is_word or _find_spec(home) is None:
            if _is_imported():
                raise ImportError(f"cannot import name {name!r} from {__name__!r}; {_hint(name)}")
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {_hint(name)}")
        found = import_module(home)  # on request
        if name in _HOMES:
            found = globals()[name] = getattr(found, name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _is_imported() -> bool:
    """Whether `from roberta_hub import NAME` asks: Python drops the words of an AttributeError."""
    import sys
    from opcode import opmap

    frame = sys._getframe(2)
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _hint(name: str) -> str:
    from roberta_hub.errors import close_names
    from roberta_hub.other_names import class_advice

    near = close_names(name, __all__)
    known = f"did you mean {near}?" if near else f"it has {', '.join(__all__)}"
    return class_advice(name) or known
