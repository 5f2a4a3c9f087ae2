"""Says how a model makes one vector of a text, and how such vectors compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError, Remedy, UnknownNameError

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len")
"""The vector of `<s>`, the largest value of each dimension, the mean over all tokens, and their sum
divided by the root of their number. Several of them lie side by side in one vector."""
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
"""How two vectors compare; the last two are distances with a minus, so that more is nearer."""
MAX_LENGTH = 1_000_000
"""Largest limit in tokens; more stands in files for "no limit"."""


@dataclass(frozen=True, kw_only=True)
class SentenceSettings:
    """How a sentence encoder makes one vector of a text (Reimers and Gurevych 2019).

    The defaults are those of sentence-transformers for a model without settings of its own.

    Example:
        >>> SentenceSettings(pooling="cls", normalize=True, prompts={"query": "query: "})
        SentenceSettings(pooling=('cls',), normalize=True, max_length=None, prompts={'query': \
'query: '}, default_prompt=None, lower_case=False, similarity='cosine')
        >>> SentenceSettings(pooling="middle")
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: pooling is ('middle',); choose of cls, max, mean, \
mean_sqrt_len
    """

    pooling: tuple[str, ...] = ("mean",)
    """Of `POOLINGS`, at least one; a single name may be given as str."""
    normalize: bool = False
    """Whether vectors get length 1."""
    max_length: int | None = None
    """Longest text in tokens, specials included; None: what the model takes."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Texts that are put before a text, by name: {"query": "query: "}."""
    default_prompt: str | None = None
    """The name of the prompt that a text gets if no other is asked for."""
    lower_case: bool = False
    """Whether a text is lower-cased before the tokenizer reads it."""
    similarity: str = "cosine"
    """Of `SIMILARITIES`."""

    def __post_init__(self) -> None:
        pooling = (self.pooling,) if isinstance(self.pooling, str) else self.pooling
        if not isinstance(pooling, (list, tuple)) or not pooling:
            raise InputError(
                f"pooling is {shown(pooling)}; give one or more of {_listed(POOLINGS)}"
            )
        if not all(isinstance(name, str) and name in POOLINGS for name in pooling):
            raise InputError(f"pooling is {shown(pooling)}; choose of {_listed(POOLINGS)}")
        object.__setattr__(self, "pooling", tuple(pooling))
        for name in ("normalize", "lower_case"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {shown(getattr(self, name))}, must be true or false")
        length = self.max_length
        if length is not None and (type(length) is not int or not 1 <= length <= MAX_LENGTH):
            raise InputError(f"max_length is {shown(length)}, must lie in 1..{MAX_LENGTH:,}")
        self._check_prompts()
        if not isinstance(self.similarity, str) or self.similarity not in SIMILARITIES:
            raise InputError(
                f"similarity is {shown(self.similarity)}; choose {_listed(SIMILARITIES)}"
            )

    def _check_prompts(self) -> None:
        prompts = self.prompts
        if not isinstance(prompts, Mapping) or not all(
            isinstance(part, str) for pair in prompts.items() for part in pair
        ):
            raise InputError(f"prompts is {shown(prompts)}; give texts by name, as str")
        object.__setattr__(self, "prompts", dict(prompts))
        name = self.default_prompt
        if name is not None and not (isinstance(name, str) and name in prompts):
            raise InputError(
                f"default_prompt is {shown(name)}, which is none of the prompts: "
                f"{_listed(prompts) or 'there are none'}"
            )

    def find_prompt(self, prompt: str | None, name: str | None) -> str:
        """Return the text that is put before each text.

        Args:
            prompt: the text itself; None: it was not given.
            name: of one of `prompts`; None: none was named.

        Raises:
            InputError: both are given; or the text is the name of a prompt.
            UnknownNameError: no prompt has this name; the message lists those there are.

        Example:
            >>> settings = SentenceSettings(prompts={"query": "query: "})
            >>> settings.find_prompt(None, "query"), settings.find_prompt(None, None)
            ('query: ', '')
        """
        if prompt is not None and name is not None:
            raise InputError("prompt is a text and prompt_name names one; give one of the two")
        if prompt is not None:
            text = shown(self.prompts.get(prompt, ""))
            if prompt in self.prompts and self.prompts[prompt] != prompt:
                raise InputError(
                    f"prompt is {shown(prompt)}, which is the name of a prompt",
                    remedy=Remedy(
                        f"say prompt_name={shown(prompt)} for its text {text}",
                        f"say --prompt-name for its text {text}",
                    ),
                )
            return prompt
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            raise UnknownNameError(
                f"no prompt is named {shown(name)}; this model has "
                f"{_listed(self.prompts) or 'none'}",
                remedy=Remedy(
                    "prompt= takes a text of your own", "--prompt takes a text of your own"
                ),
            )
        return self.prompts[name]

    def summary(self, longest: int) -> str:
        """Say it in a line.

        Args:
            longest: what the model takes, in tokens.

        Example:
            >>> SentenceSettings(normalize=True, max_length=256).summary(512)
            'mean pooling, normalized, at most 256 tokens'
        """
        limit = longest if self.max_length is None else min(longest, self.max_length)
        parts = [" + ".join(self.pooling) + " pooling", f"at most {limit} tokens"]
        if self.normalize:
            parts.insert(1, "normalized")
        if self.lower_case:
            parts.append("lower-cased")
        if self.similarity != "cosine":
            parts.append(f"compared by {self.similarity}")
        if named := [name for name, text in self.prompts.items() if text]:
            default = f" (default {self.default_prompt})" if self.default_prompt in named else ""
            parts.append(f"prompts {shown(', '.join(named))[1:-1]}{default}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, object]:
        """Plain values for a JSON file; `SentenceSettings(**d)` restores them."""
        return dataclasses.asdict(self)


def _listed(names: object) -> str:
    listed = [str(name)[:40] for name in list(names)[:20]]  # type: ignore[call-overload]
    return ", ".join(listed)
