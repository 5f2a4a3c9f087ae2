"""Answers a call that does not fit, by its keywords, arguments or name, with what is meant."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from roberta_hub.arguments import short_repr
from roberta_hub.errors import (
    InputTypeError,
    UnknownAttributeError,
    close_names,
    near_names,
    slipped_names,
)
from roberta_hub.other_names import (
    ASKED,
    CALLS,
    FITTERS,
    FITTING,
    KEYWORDS,
    LOADING,
    METHODS,
    OF_A_VERB,
    OF_SENTENCE,
    READ_ONLY,
)

Class = TypeVar("Class", bound=type)
Call = TypeVar("Call", bound=Callable[..., Any])


def checks_keywords(cls: Class) -> Class:
    """Make a class's public methods check their keywords, and say which argument is missing.

    Keywords are checked before Python binds the arguments. So `zero_shot(texts,
    candidate_labels=...)` fails with the word `labels`, and not with a missing argument.
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, checked(method))
    return cls


def checked(method: Call) -> Call:
    """Make one function or method do what `checks_keywords` does for all methods of a class."""
    signature = inspect.signature(method)
    parameters = signature.parameters.values()
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known.discard("self")
    name_of_class = method.__qualname__.rpartition(".")[0]
    verb = name_of_class if method.__name__ == "__init__" else method.__name__
    takes_options = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @functools.wraps(method)
    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            names = known | (OPTIONS if takes_options else set())
            for name in keywords:
                if name not in names:
                    raise unknown_keyword(verb, name, names)
        try:
            return method(*args, **keywords)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # of the method itself; Python's, of the arguments, has no deeper frame
            advice = CALLS.get(method.__qualname__, "")
            raise _unbound(verb, signature, args, keywords, advice) from None

    return cast(Call, call)  # its types are the method's


def _unbound(
    verb: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    advice: str,
) -> InputTypeError:
    """Make the error for arguments that are too few or too many."""
    reason = "its arguments do not fit"
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        reason = str(error)
    named = [
        p for p in signature.parameters.values() if p.name != "self" and p.kind != p.VAR_KEYWORD
    ]
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in named[:4]]
    shape = f"{verb}({', '.join(shown)})"
    return InputTypeError(
        f"{verb}: {reason}; call it as {shape}" + (f"; {advice}" if advice else "")
    )


def names_others(cls: Class) -> Class:
    """Make a class say what is meant by an attribute that it does not have."""

    def missing(self: object, name: str) -> Any:
        there = inspect.getattr_static(type(self), name, None)
        if isinstance(there, property) and there.fget is not None:
            return there.fget(self)  # whose own error it is
        if name.startswith("_"):  # Python asks for such names itself, to copy and to pickle
            raise AttributeError(f"a {type(self).__name__} has no {name!r}")
        raise unknown_attribute(type(self), name)

    cls.__getattr__ = missing  # type: ignore[attr-defined]
    return cls


def unknown_attribute(owner: type, name: str) -> UnknownAttributeError:
    """Make the error for a method or an attribute that an object does not have.

    Example:
        >>> print(unknown_attribute(str, "jion"))
        a str has no 'jion'; did you mean join?
    """
    fields = getattr(owner, "__dataclass_fields__", ())
    known = [own for own in {*dir(owner), *fields} if not own.startswith("_")]
    near = close_names(name, known)
    shown = _SHOWN.get(owner.__name__, owner.__name__)
    advice = (
        ASKED.get(owner.__name__, {}).get(name)
        or _elsewhere(owner, name)
        or (f"did you mean {near}?" if near else f"help(...) lists what it has: help({shown})")
    )
    return UnknownAttributeError(f"a {owner.__name__} has no {short_repr(name)}; {advice}")


def check_assigned(thing: object, name: str, ours: Iterable[str]) -> None:
    """Refuse to set an attribute that other libraries have, or that is nearly one of ours.

    It would change nothing. What is there can be set, and so can names of the caller's own.
    """
    owner = type(thing)
    there = inspect.getattr_static(owner, name, None)
    if isinstance(there, property) and there.fset is None:
        advice = READ_ONLY.get(name, "it follows from what the object holds")
        raise UnknownAttributeError(f"{name} of a {owner.__name__} cannot be set; {advice}")
    if name.startswith("_") or there is not None or name in vars(thing) or name in ours:
        return
    advice = _elsewhere(owner, name)
    near = slipped_names(name, [*ours, *_OTHERS])
    if not advice and near:
        advice = f"did you mean {' or '.join(near)}?"
    if advice:
        raise UnknownAttributeError(f"a {owner.__name__} has no {short_repr(name)}; {advice}")


def frozen(how: str) -> Callable[[Class], Class]:
    """Make a frozen dataclass say how another one is had, where a field of it is set."""

    def refuse(self: object, name: str, value: object) -> None:
        owner, names = type(self), [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        if name not in names:
            advice = _elsewhere(owner, name) or f"it has {', '.join(names)}"
            raise UnknownAttributeError(f"a {owner.__name__} has no {short_repr(name)}; {advice}")
        raise UnknownAttributeError(f"{name} of a {owner.__name__} cannot be set; {how}")

    def refusing(cls: Class) -> Class:
        cls.__setattr__ = refuse  # type: ignore[assignment, method-assign]
        return cls

    return refusing


_SHOWN = {
    "Fitted": "roberta.fitted",
    "RobertaHubInterface": "roberta",
    "Scores": "roberta.fitted.scores",
    "Task": "roberta.task",
    "Tokenizer": "roberta.tokenizer",
}
"""What users write for an object of a class."""
_OTHERS = {*METHODS, *OF_SENTENCE}
"""Attributes of other libraries, of which some are misspelt."""


def _elsewhere(owner: type, name: str) -> str:
    """Say what does the work of another library's attribute, or of a call's argument; "": none."""
    if owner.__name__ in FITTERS and name in FITTING:
        return _renamed(*FITTING[name])
    if name in OF_SENTENCE:
        return f"roberta.{name} is set for embed"
    if found := METHODS.get(name) or LOADING.get(name):
        return found
    ours, means = KEYWORDS.get(name, ("", ""))
    if ours or means:
        return f"the call of a verb takes {_renamed(ours, means)[4:]}" if ours else means
    if verb := _options_of(owner).get(name):
        return f"it goes into a call: {verb}(..., {name}=...)"
    return ""


def _renamed(ours: str, means: str) -> str:
    """Say which of our keywords it is, and what to know of it."""
    return means if not ours else f"say {ours}=" + (f": {means}" if means else "")


@functools.cache
def _options_of(owner: type) -> Mapping[str, str]:
    """Return the options of a class's methods, each with a method that takes it."""
    found: dict[str, str] = {}
    for name, method in vars(owner).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            parameters = inspect.signature(method).parameters.values()
            kinds = {p.kind for p in parameters}
            options = OPTIONS if inspect.Parameter.VAR_KEYWORD in kinds else set()
            own = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
            found = dict.fromkeys(own | options, name) | found
    return found


OPTIONS = {"batch_tokens", "progress", "truncate", "stride"}
"""Keywords that every verb on texts takes; `inference.batching.Options` has their types."""


def unknown_keyword(verb: str, name: str, known: set[str]) -> InputTypeError:
    """Make the error for a keyword that a verb does not have.

    Example:
        >>> print(unknown_keyword("fill_mask", "top_k", {"masked_input", "topk"}))
        fill_mask has no argument 'top_k'; say topk=
        >>> print(unknown_keyword("features", "poling", {"texts", "pooling"}))
        features has no argument 'poling'; did you mean pooling=? It takes pooling, texts
    """
    others = {**KEYWORDS, **FITTING} if verb in FITTERS else KEYWORDS
    ours, means = others.get(name, ("", ""))
    if (verb, name) in OF_A_VERB:
        advice = OF_A_VERB[verb, name]
    elif ours in known:
        advice = _renamed(ours, means)
    elif means and not ours:
        advice = means
    else:
        near = near_names(name, sorted(known))
        advice = f"did you mean {'= or '.join(near)}=? " if near else ""
        advice += f"{'It' if near else 'it'} takes {', '.join(sorted(known))}"
    return InputTypeError(f"{verb} has no argument {short_repr(name)}; {advice}")
