"""Makes fairseq's names importable, as ours, in this process and those of its multiprocessing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from roberta_hub.at_padding import compute_states
from roberta_hub.errors import RobertaHubError, UnknownAttributeError, UnknownNameError, close_names
from roberta_hub.fairseq_names.offered import ELSEWHERE, MODULES, RECIPES, not_offered

ORIGIN = "roberta_hub"
"""Where the modules say that they come from."""
_TOPS = {name.partition(".")[0] for name in (*MODULES, *ELSEWHERE)}
_REPOSITORIES = ("pytorch/fairseq", "facebookresearch/fairseq")
_IN_A_CLONE = os.path.join("fairseq", "models", "roberta", "hub_interface.py")


def as_fairseq() -> None:
    """Make `import fairseq` and torch.hub's 'pytorch/fairseq' use this package.

    Call it before the first import of fairseq. A script or notebook that was written for fairseq
    then runs unchanged. `roberta-hub run` runs a script without this call. The imported names are
    this package's own classes and functions, so a pickle does not refer to fairseq. Any other
    module raises an ImportError, and any other attribute an AttributeError; the message says what
    to do instead. An installed fairseq is hidden and stays as it is; a line on standard error says
    so. This also holds in processes that multiprocessing starts, but not in other programs. Hidden
    states at padding are fairseq's too, not zeros: a script may average over them.

    Raises:
        RobertaHubError: fairseq itself is imported already.

    Example:
        >>> import roberta_hub
        >>> roberta_hub.as_fairseq()                        # doctest: +SKIP
        >>> from fairseq.models.roberta import RobertaModel  # doctest: +SKIP
    """
    installed = _ask()
    if installed is not None:
        print(
            f"roberta_hub: `import fairseq` means roberta_hub in this process, not {installed}",
            file=sys.stderr,
        )


def _ask() -> str | None:
    """Put the names in; return the folder of an installed fairseq, which they hide."""
    if any(isinstance(finder, _Names) for finder in sys.meta_path):
        return None
    real = sys.modules.get("fairseq")
    if real is not None:
        raise RobertaHubError(
            f"fairseq itself is imported already, from {getattr(real, '__file__', None)}; call "
            "roberta_hub.as_fairseq() before the first import of fairseq, in a new process"
        )
    spec = PathFinder.find_spec("fairseq")
    sys.meta_path.insert(0, _Names())
    compute_states()
    for name, change in _LATER.items():
        if name in sys.modules:
            change(sys.modules[name])
    folders = spec.submodule_search_locations if spec is not None and spec.origin else None
    return next(iter(folders), None) if folders else None


class _Names(MetaPathFinder, Loader):
    """Finds and makes fairseq's modules, and changes two of others once they are imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _LATER:
            return _changed_later(PathFinder.find_spec(fullname, path, target))
        if fullname.partition(".")[0] not in _TOPS:
            return None
        if fullname.partition(".")[0] == "examples" and not _is_recipe(fullname):
            real = PathFinder.find_spec(fullname, path, target)
            if real is not None or not (fullname in MODULES or fullname.startswith(f"{RECIPES}.")):
                return real  # a folder of the script's own, or a clone of fairseq
        if fullname not in MODULES:
            raise not_offered(fullname)
        return spec_from_loader(fullname, self, origin=ORIGIN, is_package=True)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        names = MODULES[module.__name__]()
        vars(module).update(names)
        vars(module)["__all__"] = [name for name in names if not name.startswith("_")]
        vars(module)["__getattr__"] = partial(_missing, module.__name__)


def _is_recipe(name: str) -> bool:
    """Whether it is one of fairseq's recipes that import its trainer, in a clone of it too."""
    return name in MODULES and name.startswith(f"{RECIPES}.")


def _missing(module: str, name: str) -> object:
    """Import a module below on first use, as `import fairseq` has them all; else say what to do."""
    inner = f"{module}.{name}"
    if inner in MODULES:
        return import_module(inner)  # not ours
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    raise UnknownAttributeError(str(not_offered(inner)))


# ---- what asks again: torch.hub, and processes of multiprocessing ----


def _changed_later(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Change a module once it is imported: importing it now may be for nothing."""
    if spec is None or spec.loader is None:
        return spec
    execute = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _LATER[module.__name__](module)

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def _answer_hub(hub: ModuleType) -> None:
    """Let torch.hub's repository of fairseq mean our models."""
    load, listed, told = hub.load, hub.list, hub.help

    @wraps(load)
    def load_ours(
        repo_or_dir: str, model: str, *args: Any, source: str = "github", **keywords: Any
    ) -> Any:
        if not _is_fairseq(repo_or_dir, source):
            return load(repo_or_dir, model, *args, source=source, **keywords)
        _record(model)
        for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
            keywords.pop(name, None)  # of the repository's code, which is not fetched
        from roberta_hub.hub import RobertaModel

        return RobertaModel.from_pretrained(model, *args, **keywords)

    @wraps(listed)
    def list_ours(github: str, *args: Any, **keywords: Any) -> list[str]:
        if not _is_fairseq(github, "github"):
            return list(listed(github, *args, **keywords))
        from roberta_hub.checkpoint.fetch.records import available_models

        return available_models()

    @wraps(told)
    def help_ours(github: str, model: str, *args: Any, **keywords: Any) -> str:
        if not _is_fairseq(github, "github"):
            return str(told(github, model, *args, **keywords))
        record = _record(model)
        return "\n".join((record.summary, *record.details))

    hub.load, hub.list, hub.help = load_ours, list_ours, help_ours  # type: ignore[attr-defined]


def _is_fairseq(repository: object, source: str) -> bool:
    """Whether torch.hub is asked for fairseq, of any branch, or for a clone of it."""
    if source == "local":
        return os.path.isfile(os.path.join(str(repository), _IN_A_CLONE))
    return str(repository).partition(":")[0].lower() in _REPOSITORIES


def _record(model: object) -> Any:
    """Return the record of a model that fairseq's hub and ours have."""
    from roberta_hub.checkpoint.fetch.records import MODELS

    known = {name: record for record in MODELS for name in (record.name, *record.aliases)}
    if model not in known:
        near = close_names(str(model), known)
        raise UnknownNameError(
            f"torch.hub: no model {model!r} of fairseq's is offered by roberta_hub, which has "
            + (f"{near}" if near else f"{', '.join(known)}")
            + "; its translators and other models need fairseq itself"
        )
    return known[model]


class _Asked:
    """Read in a process that multiprocessing starts, before its main module runs again."""

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return _ask, ()


def _tell_children(spawn: ModuleType) -> None:
    """Let the processes that multiprocessing starts ask as this one did."""
    prepare = spawn.get_preparation_data

    @wraps(prepare)
    def prepared(name: str) -> dict[str, object]:
        return {"roberta_hub": _Asked(), **prepare(name)}

    spawn.get_preparation_data = prepared  # type: ignore[attr-defined]


_LATER = {"torch.hub": _answer_hub, "multiprocessing.spawn": _tell_children}
