"""Answers a keyword that a method does not have with the keyword of ours that is meant."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from roberta_hub.arguments import shown
from roberta_hub.errors import InputTypeError

Class = TypeVar("Class", bound=type)

OURS = {
    "aggregation_strategy": ("", "tag labels a word by its first piece and joins B- and I-"),
    "batch_size": ("batch_tokens", "a batch is so many tokens, not texts"),
    "candidate_labels": ("labels", ""),
    "convert_to_numpy": ("", "what comes out is a torch tensor; .numpy() converts it"),
    "convert_to_tensor": ("", "what comes out is a torch tensor"),
    "device": ("", "the model runs where it lies: load_model(..., device=...) or .to(device)"),
    "doc_stride": ("stride", ""),
    "handle_impossible_answer": ("no_answer", ""),
    "hypothesis_template": ("hypothesis", ""),
    "inputs": ("texts", ""),
    "is_split_into_words": ("", "pass whole texts"),
    "max_answer_len": ("max_answer_tokens", ""),
    "max_length": ("truncate", "truncate=True cuts at the model's length"),
    "max_seq_len": ("truncate", "truncate=True cuts at the model's length"),
    "multi_class": ("multi_label", ""),
    "num_workers": ("", "torch.set_num_threads says how many cores work"),
    "padding": ("", "nothing is padded here; collate_tokens pads ids to a batch"),
    "return_all_scores": ("", "Prediction.scores has them all"),
    "return_tensors": ("", "what comes out is a torch tensor"),
    "sentences": ("texts", ""),
    "show_progress_bar": ("progress", ""),
    "text": ("texts", ""),
    "text_pair": ("", "a pair is a tuple: [(first, second)]"),
    "top_k": ("topk", ""),
    "truncation": ("truncate", "truncate=True cuts texts that are too long"),
}
"""Keywords of transformers and sentence-transformers, each with (our keyword, what to know of it).

Where our keyword is "", there is none, and the second part says what to do instead."""


def checks_keywords(cls: Class) -> Class:
    """Make a class's public methods check their keywords.

    The check comes before Python binds the arguments. So `zero_shot(texts, candidate_labels=...)`
    is told to say `labels`, and not that an argument is missing.
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _checked(method))
    return cls


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(method).parameters.values()
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known.discard("self")
    takes_options = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @functools.wraps(method)
    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            names = known | (OPTIONS if takes_options else set())
            for name in keywords:
                if name not in names:
                    raise unknown_keyword(method.__name__, name, names)
        return method(*args, **keywords)

    return call


OPTIONS = {"batch_tokens", "progress", "truncate", "stride"}
"""Keywords that every verb on texts takes; `inference.batching.Options` has their types."""


def unknown_keyword(verb: str, name: str, known: set[str]) -> InputTypeError:
    """Make the error for a keyword that a verb does not have.

    Args:
        verb: name of the method.
        name: the keyword.
        known: the keywords that the method has.

    Example:
        >>> print(unknown_keyword("classify", "top_k", {"texts", "topk"}))
        classify has no argument 'top_k'; say topk=
        >>> print(unknown_keyword("features", "poling", {"texts", "pooling"}))
        features has no argument 'poling'; did you mean pooling=? It takes pooling, texts
    """
    ours, means = OURS.get(name, ("", ""))
    if ours in known:
        advice = f"say {ours}=" + (f": {means}" if means else "")
    elif means and not ours:
        advice = means
    else:
        near = difflib.get_close_matches(name, known, n=2)
        advice = f"did you mean {'= or '.join(near)}=? " if near else ""
        advice += f"It takes {', '.join(sorted(known))}"
    return InputTypeError(f"{verb} has no argument {shown(name)}; {advice}")
