"""Answers a call that does not fit, by its keywords, arguments or name, with what is meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputTypeError, UnknownAttributeError, close_names, near_names
from roberta_hub.other_names import CALLS, FITTERS, FITTING, KEYWORDS, METHODS, OF_A_VERB

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


def unknown_attribute(owner: type, name: str) -> UnknownAttributeError:
    """Make the error for a method or an attribute that an object does not have.

    Args:
        owner: the object's class.
        name: what was asked for.

    Example:
        >>> print(unknown_attribute(str, "jion"))
        a str has no 'jion'; did you mean join?
    """
    known = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
    near = close_names(name, known)
    advice = METHODS.get(name) or (
        f"did you mean {near}?" if near else "help(...) lists what it has"
    )
    return UnknownAttributeError(f"a {owner.__name__} has no {short_repr(name)}; {advice}")


OPTIONS = {"batch_tokens", "progress", "truncate", "stride"}
"""Keywords that every verb on texts takes; `inference.batching.Options` has their types."""


def unknown_keyword(verb: str, name: str, known: set[str]) -> InputTypeError:
    """Make the error for a keyword that a verb does not have.

    Args:
        verb: name of the method.
        name: the keyword.
        known: the keywords that the method has.

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
        advice = f"say {ours}=" + (f": {means}" if means else "")
    elif means and not ours:
        advice = means
    else:
        near = near_names(name, sorted(known))
        advice = f"did you mean {'= or '.join(near)}=? " if near else ""
        advice += f"{'It' if near else 'it'} takes {', '.join(sorted(known))}"
    return InputTypeError(f"{verb} has no argument {short_repr(name)}; {advice}")
