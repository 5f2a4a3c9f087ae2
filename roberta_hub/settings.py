"""Defines the settings of a model's answers: those of its heads, sentence vectors and `zero_shot`.

`Head` belongs to a head, `SentenceSettings` to `embed`, `ZeroShotSettings` to `zero_shot`.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, get_args

from roberta_hub.arguments import kind_of, one_of, short_repr, text_of
from roberta_hub.errors import InputError, InputTypeError, Remedy, UnknownNameError
from roberta_hub.keywords import frozen

HeadType = Literal["classification", "token", "span"]
"""What a head labels: texts, their tokens, or start and end of an answer."""
Inputs = Literal["one", "pair"]
"""What a head was trained on: single texts, or pairs of them."""
HeadPooling = Literal["cls", "mean"]
"""What a head reads: the vector of `<s>`, or the mean of the vectors of all tokens."""
Pooling = Literal["cls", "mean", "max", "pooler"]
"""What makes one vector of a text in `features`: the vector of `<s>`, the mean over all tokens, the
largest value of each dimension, or the model's own pooler."""
HeadKind = Literal["single_label", "multi_label", "regression"]
"""What a head was trained for: one label of several, any number of labels, or numbers."""
WordRule = Literal["words", "clusters", "parts"]
"""What a token head labels: words as treebanks cut them; runs of letters with their marks and of
digits, as `fit` learns them; or such runs cut at their marks, as an older `fit` did."""
Aggregation = Literal["word", "first", "average", "max", "piece"]
"""How the labels of pieces become those of words in `tag`."""
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
DEFAULT_HEAD = "sentence_classification_head"
"""fairseq's name for the head of a model that was fine-tuned for one task."""
DEFAULT_THRESHOLD = 0.5
"""Threshold of a label for which none is stored."""
MOST_PIECE_BYTES = 1 << 20
"""Bytes with a bit for each id of a vocabulary are fewer."""
REJECTED = "(rejected)"
"""What tables say in place of a label where an answer is refused."""
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len", "weighted_mean", "last_token", "pooler")
"""The vector of `<s>`; the largest value of each dimension; the mean over all tokens, their sum
divided by the root of their number, and the mean with weights 1, 2, 3 and so on; the vector of the
last token, which is `</s>`; and what the model's own pooler makes of `<s>`, tanh(W x + b). Several
of them are concatenated in one vector."""
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
"""How two vectors compare; the last two are distances with a minus, so that more is nearer."""
_LATER = ("include_prompt", "truncate_dim", "layers")
"""Fields of `SentenceSettings` that 0.2.0 had not: a model without them keeps its file, and its
digest in a lake."""
VectorDtype = Literal["float32", "float16", "int8", "binary", "ubinary"]
"""How `embed` writes a vector: as floating-point numbers, as int8 between ranges, or as a bit a
number, eight in a byte: "binary" as int8 and "ubinary" as uint8, as sentence-transformers does."""
VECTOR_DTYPES: tuple[VectorDtype, ...] = get_args(VectorDtype)
LayerKind = Literal["dense", "layer_norm", "normalize", "dropout"]
"""Layers over pooled vectors."""
MAX_LAYERS = 16
"""Most of them; models have one or two."""
MAX_LENGTH = 1_000_000
"""Largest limit in tokens; larger numbers in files mean "no limit"."""
Way = Literal["entailment", "meaning", "both"]
"""What `zero_shot` asks: a head for entailment, the nearest label's vector, or both."""
WAYS: tuple[Way, ...] = get_args(Way)
HYPOTHESIS = "This example is {}."
"""What the head for entailment is asked of each label, unless told otherwise."""
MAX_ANSWER = 30
"""Longest answer in tokens, unless told otherwise."""
MAX_FACTOR = 1000
"""Largest factor of a cosine, and largest temperature."""


# ---- heads: what each fact may be ----


def check_normalize(head: object, normalize: Any) -> bool:
    """Return whether a head reads vectors of length 1."""
    if not isinstance(normalize, bool):
        raise InputError(
            f"head {short_repr(head)}: normalize is {short_repr(normalize)}; give True or False"
        )
    return normalize


def check_pooling(head: object, pooling: Any) -> HeadPooling:
    """Return what a head reads."""
    if not isinstance(pooling, str) or pooling not in get_args(HeadPooling):
        raise InputError(
            f"head {short_repr(head)}: pooling is {short_repr(pooling)}; choose 'cls', the vector "
            "of <s>, or 'mean', that of all tokens"
        )
    return pooling  # type: ignore[return-value]


def check_kind(head: object, kind: Any) -> HeadKind | None:
    """Kind of a head; None: unknown."""
    if kind is not None and (not isinstance(kind, str) or kind not in get_args(HeadKind)):
        raise InputError(
            f"head {short_repr(head)}: kind is {short_repr(kind)}; choose 'single_label', "
            "'multi_label' or 'regression', or None where nobody knows it"
        )
    return kind  # type: ignore[return-value]


def check_words(head: object, words: Any) -> WordRule:
    """Return how a text is cut for a token head."""
    if not isinstance(words, str) or words not in get_args(WordRule):
        raise InputError(
            f"head {short_repr(head)}: words is {short_repr(words)}; choose 'words', as treebanks "
            "cut them, 'clusters', runs of letters and digits, or 'parts', such runs cut at marks"
        )
    return words  # type: ignore[return-value]


def check_thresholds(
    head: object, thresholds: Any, count: int | None = None
) -> tuple[float, ...] | None:
    """Return the thresholds of a head's labels as floats; None: there are none.

    Example:
        >>> check_thresholds("topic", [0.5, 1], 2)
        (0.5, 1.0)
    """
    if thresholds is None:
        return None
    needs = "one number from 0 to 1 for each label" if count is None else _needs(count)
    if isinstance(thresholds, (str, bytes, dict, set)) or not hasattr(thresholds, "__iter__"):
        raise InputError(
            f"head {short_repr(head)}: thresholds is {short_repr(thresholds)}; give {needs}"
        )
    given = list(thresholds)
    for number in given:
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number) or not 0 <= number <= 1:
            raise InputError(
                f"head {short_repr(head)}: threshold {short_repr(number)}; give {needs}"
            )
    if count is not None and len(given) != count:
        raise InputError(
            f"head {short_repr(head)}: {len(given)} thresholds {short_repr(given)} for {count} "
            f"labels; give {needs}"
        )
    return tuple(map(float, given))


def check_reject_below(head: object, certainty: Any) -> float | None:
    """Return the certainty below which a head refuses to answer; None: it always answers.

    Example:
        >>> check_reject_below("topic", 0.25)
        0.25
    """
    if certainty is None:
        return None
    is_number = isinstance(certainty, Real) and not isinstance(certainty, bool)
    if not is_number or not 0 <= certainty <= 1:
        raise InputError(
            f"head {short_repr(head)}: reject_below is {short_repr(certainty)}; give a number from "
            "0 to 1, or None for a head that always answers"
        )
    return float(certainty)


def check_known_pieces(head: object, pieces: Any) -> str | None:
    """Return the packed ids of the pieces that a head has learnt; None: they are unknown."""
    if pieces is None:
        return None
    if not isinstance(pieces, str):
        raise InputError(
            f"head {short_repr(head)}: known_pieces is {short_repr(pieces)}; give a text that "
            "`fit` wrote, or None"
        )
    try:
        piece_bits(pieces)
    except InputError as error:
        raise InputError(f"head {short_repr(head)}: {error}") from None
    return pieces


def piece_bits(packed: str) -> bytes:
    """Read what `pack_pieces` of inference/certainty.py writes: a bit for each id."""
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(packed, validate=True), MOST_PIECE_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        raw = b""
    if not (raw and stream.eof):
        raise InputError("known_pieces is no text that `fit` wrote")
    return raw


def _needs(count: int) -> str:
    return f"a list of {count} numbers from 0 to 1, one for each label in the order of head_labels"


# ---- heads: the record ----


def _fact(check: Callable[..., Any], of: HeadType, **more: object) -> dict[str, Any]:
    """Describe a fact of a head, which every format then keeps."""
    unless_said = {"for_each_label": False, "implied": None, "elsewhere": False}
    return {"check": check, "of": of, **unless_said, **more}


@frozen("dataclasses.replace(head, ...) makes another")
@dataclass(frozen=True, kw_only=True)
class Head:
    """What is known of a head: what it reads, and what its outputs mean.

    Example:
        >>> Head(pooling="mean", kind="multi_label", thresholds=(0.5, 0.25)).to_dict()
        {'pooling': 'mean', 'kind': 'multi_label', 'thresholds': [0.5, 0.25]}
        >>> Head().to_dict()
        {}
    """

    pooling: HeadPooling = field(default="cls", metadata=_fact(check_pooling, "classification"))
    normalize: bool = field(default=False, metadata=_fact(check_normalize, "classification"))
    """Whether the vector that it reads gets length 1."""
    kind: HeadKind | None = field(default=None, metadata=_fact(check_kind, "classification"))
    """None: unknown."""
    thresholds: tuple[float, ...] | None = field(
        default=None, metadata=_fact(check_thresholds, "classification", for_each_label=True)
    )
    """For each label the least probability that gives it; None: `DEFAULT_THRESHOLD` for all."""
    reject_below: float | None = field(
        default=None, metadata=_fact(check_reject_below, "classification")
    )
    """Certainty below which an answer is refused; None: none is."""
    known_pieces: str | None = field(
        default=None, metadata=_fact(check_known_pieces, "classification")
    )
    """Which pieces it was trained on, as `pack_pieces` of inference/certainty.py writes them."""
    words: WordRule | None = field(
        default=None, metadata=_fact(check_words, "token", implied="words", elsewhere=True)
    )
    """None: "words"."""
    labels: tuple[str, ...] | None = None
    """Names of the classes, if known; a span head has none."""
    inputs: Inputs | None = None
    """What it was trained on, if known."""
    name: str = ""
    """Filled in by `whole_heads`: else the table that holds the record has it."""
    type: HeadType = "classification"
    """Filled in by `whole_heads`: else the module says it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values of `FACTS` for a JSON file, without unset ones; `head_of` reads them."""
        given = {fact: getattr(self, name) for name, fact in FACTS.items()}
        return {
            fact.name: list(value) if isinstance(value, tuple) else value
            for fact, value in given.items()
            if value not in (fact.default, fact.metadata["implied"])
        }


HeadSettings = Head
"""What callers of `RobertaHubInterface(head_settings=...)` know it as."""
FACTS = {fact.name: fact for fact in dataclasses.fields(Head) if fact.metadata}
"""Facts that are checked and stored alike; labels and inputs have places of their own."""


def head_of(name: str, values: Any) -> Head:
    """Read what a file says of a head.

    Example:
        >>> head_of("topic", {"pooling": "mean"}).pooling
        'mean'
    """
    if not isinstance(values, dict) or not set(values) <= set(FACTS):
        raise InputError(f"head {name!r}: {short_repr(values)} is no dict of {', '.join(FACTS)}")
    return check_head(name, Head(**values))


def check_head(name: object, head: Any, count: int | None = None) -> Head:
    """Return what is known of a head, with its facts in their own types."""
    if not isinstance(head, Head):
        raise InputTypeError(
            f"head {short_repr(name)}: its settings are a {kind_of(head)}; pass HeadSettings"
        )
    given = {fact: getattr(head, fact.name) for fact in FACTS.values()}
    checked = {
        fact.name: check_fact(fact, name, value, count)
        for fact, value in given.items()
        if value is not fact.default
    }
    return dataclasses.replace(head, **checked)


def check_fact(
    fact: dataclasses.Field[Any], name: object, value: Any, count: int | None = None
) -> Any:
    """Return a fact of a head in its own type; see `check_head`."""
    check, about = fact.metadata["check"], fact.metadata
    return check(name, value, count) if about["for_each_label"] else check(name, value)


def column(heads: Mapping[str, Head], fact: str) -> dict[str, Any]:
    """List one fact of each head that has it.

    Example:
        >>> column({"topic": Head(labels=("art", "sport")), "grade": Head()}, "labels")
        {'topic': ('art', 'sport')}
    """
    found = {name: getattr(head, fact) for name, head in heads.items()}
    return {name: value for name, value in found.items() if value is not None}


def with_columns(heads: Mapping[str, Head], **columns: Mapping[str, Any]) -> dict[str, Head]:
    """Put facts that are listed by head into records; those of `heads` come behind.

    Example:
        >>> with_columns({}, inputs={"mnli": "pair"})["mnli"].inputs
        'pair'
    """
    names = dict.fromkeys(name for table in (*columns.values(), heads) for name in table)
    return {
        name: dataclasses.replace(
            heads.get(name, Head()),
            **{fact: table[name] for fact, table in columns.items() if name in table},
        )
        for name in names
    }


# ---- sentence vectors ----


@dataclass(frozen=True, kw_only=True)
class SentenceLayer:
    """A layer over pooled vectors, whose weights the model has.

    Example:
        >>> print(SentenceLayer(kind="dense", activation="relu"))
        dense (relu)
    """

    kind: LayerKind
    """A matrix with an activation, LayerNorm, vectors of length 1, or dropout."""
    activation: str = "tanh"
    """Activation of "dense": a name of `model.activations`; "linear" is none."""
    residual: bool = False
    """Whether "dense" adds its input to its output."""
    rate: float = 0.0
    """Rate of "dropout", in training."""

    def __post_init__(self) -> None:
        one_of("kind", self.kind, get_args(LayerKind))
        if not isinstance(self.activation, str):
            raise InputError(f"activation is {short_repr(self.activation)}, must be a name")
        if not isinstance(self.residual, bool):
            raise InputError(f"residual is {short_repr(self.residual)}, must be true or false")
        number = isinstance(self.rate, (int, float)) and not isinstance(self.rate, bool)
        if not number or not 0 <= self.rate < 1:
            raise InputError(f"rate is {short_repr(self.rate)}, must be 0 or more and below 1")

    def __str__(self) -> str:
        if self.kind != "dense":
            return self.kind.replace("_", " ")
        return f"dense ({self.activation}{', residual' * self.residual})"


@frozen("roberta.sentence = dataclasses.replace(roberta.sentence, ...) sets others")
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
mean_sqrt_len, weighted_mean, last_token, pooler
    """

    pooling: tuple[str, ...] = ("mean",)
    """Names of `POOLINGS`, at least one; a single name may be given as str."""
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
    """A name of `SIMILARITIES`."""
    include_prompt: bool = True
    """Whether the tokens of a prompt, and `<s>` before them, are pooled too."""
    truncate_dim: int | None = None
    """How many numbers of each finished vector are kept, from the first; None: all."""
    layers: tuple[SentenceLayer, ...] = ()
    """What a pooled vector goes through, in order, before `normalize`; the weights are the
    model's."""

    def __post_init__(self) -> None:
        pooling = (self.pooling,) if isinstance(self.pooling, str) else self.pooling
        if not isinstance(pooling, (list, tuple)) or not pooling:
            raise InputError(
                f"pooling is {short_repr(pooling)}; give one or more of {_listed(POOLINGS)}"
            )
        if not all(isinstance(name, str) and name in POOLINGS for name in pooling):
            raise InputError(f"pooling is {short_repr(pooling)}; choose of {_listed(POOLINGS)}")
        object.__setattr__(self, "pooling", tuple(pooling))
        for name in ("normalize", "lower_case", "include_prompt"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(
                    f"{name} is {short_repr(getattr(self, name))}, must be true or false"
                )
        length = self.max_length
        if length is not None and (type(length) is not int or not 1 <= length <= MAX_LENGTH):
            raise InputError(f"max_length is {short_repr(length)}, must lie in 1..{MAX_LENGTH:,}")
        self._set_layers()
        kept = self.truncate_dim
        if kept is not None and (type(kept) is not int or kept < 1):
            raise InputError(f"truncate_dim is {short_repr(kept)}, must be 1 or more, or None")
        if "pooler" in pooling and not self.include_prompt:
            raise InputError(
                "include_prompt=False leaves tokens out, and the pooler reads <s> alone; choose one"
            )
        self._check_prompts()
        if not isinstance(self.similarity, str) or self.similarity not in SIMILARITIES:
            raise InputError(
                f"similarity is {short_repr(self.similarity)}; choose {_listed(SIMILARITIES)}"
            )

    def _set_layers(self) -> None:
        """Take layers as they are, or as `to_dict` gives them."""
        if not isinstance(self.layers, (list, tuple)) or len(self.layers) > MAX_LAYERS:
            raise InputError(
                f"layers is {short_repr(self.layers)}; give SentenceLayer objects, at most "
                f"{MAX_LAYERS}"
            )
        known = {own.name for own in dataclasses.fields(SentenceLayer)}
        found = []
        for layer in self.layers:
            if isinstance(layer, Mapping) and "kind" in layer and {*layer} <= known:
                layer = SentenceLayer(**layer)
            if not isinstance(layer, SentenceLayer):
                raise InputError(f"layers has {short_repr(layer)}; give SentenceLayer objects")
            found.append(layer)
        object.__setattr__(self, "layers", tuple(found))

    def __repr__(self) -> str:
        """Show every field, and those that 0.2.0 had not where they are set."""
        return f"SentenceSettings({', '.join(f'{k}={v!r}' for k, v in self._said().items())})"

    def _said(self) -> dict[str, Any]:
        """Fields by name, without those that 0.2.0 had not and that are not set."""
        fields = dataclasses.fields(self)
        return {
            own.name: getattr(self, own.name)
            for own in fields
            if own.name not in _LATER or getattr(self, own.name) != own.default
        }

    def _check_prompts(self) -> None:
        prompts = self.prompts
        if not isinstance(prompts, Mapping) or not all(
            isinstance(part, str) for pair in prompts.items() for part in pair
        ):
            raise InputError(f"prompts is {short_repr(prompts)}; give texts by name, as str")
        object.__setattr__(self, "prompts", dict(prompts))
        name = self.default_prompt
        if name is not None and not (isinstance(name, str) and name in prompts):
            raise InputError(
                f"default_prompt is {short_repr(name)}, which is none of the prompts: "
                f"{_listed(prompts) or 'there are none'}"
            )

    def find_prompt(self, prompt: str | None, name: str | None) -> str:
        """Return the text that is put before each text.

        Args:
            prompt: the text itself; None: it was not given.
            name: of one of `prompts`; None: none was named.

        Raises:
            InputTypeError: one of them is no str.
            InputError: both are given; or the text is the name of a prompt.
            UnknownNameError: no prompt has this name; the message lists those there are.

        Example:
            >>> settings = SentenceSettings(prompts={"query": "query: "})
            >>> settings.find_prompt(None, "query"), settings.find_prompt(None, None)
            ('query: ', '')
        """
        prompt = None if prompt is None else text_of("prompt", prompt)
        name = None if name is None else text_of("prompt_name", name)
        if prompt is not None and name is not None:
            raise InputError("prompt is a text and prompt_name names one; give one of the two")
        if prompt is not None:
            text = short_repr(self.prompts.get(prompt, ""))
            if prompt in self.prompts and self.prompts[prompt] != prompt:
                raise InputError(
                    f"prompt is {short_repr(prompt)}, which is the name of a prompt",
                    remedy=Remedy(
                        f"say prompt_name={short_repr(prompt)} for its text {text}",
                        f"say --prompt-name for its text {text}",
                    ),
                )
            return prompt
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            raise UnknownNameError(
                f"no prompt is named {short_repr(name)}; this model has "
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
        for layer in self.layers:
            parts.insert(-1, str(layer))
        if self.normalize:
            parts.insert(-1, "normalized")
        if self.truncate_dim is not None:
            parts.insert(-1, f"cut to {self.truncate_dim} numbers")
        if self.lower_case:
            parts.append("lower-cased")
        if self.similarity != "cosine":
            parts.append(f"compared by {self.similarity}")
        if named := [name for name, text in self.prompts.items() if text]:
            default = f" (default {self.default_prompt})" if self.default_prompt in named else ""
            unread = "" if self.include_prompt else ", not pooled"
            parts.append(f"prompts {short_repr(', '.join(named))[1:-1]}{default}{unread}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, object]:
        """Plain values for a JSON file; `SentenceSettings(**d)` restores them."""
        said = dataclasses.asdict(self)
        return {name: said[name] for name in self._said()}

    @property
    def is_later(self) -> bool:
        """Whether 0.2.0 cannot make these vectors."""
        later = {"weighted_mean", "last_token", "pooler"}
        return bool(self._said().keys() & set(_LATER) or later & set(self.pooling))


def _listed(names: object) -> str:
    listed = [str(name)[:40] for name in list(names)[:20]]  # type: ignore[call-overload]
    return ", ".join(listed)


# ---- zero_shot ----


@frozen(
    "roberta.zero_shot_settings = dataclasses.replace(roberta.zero_shot_settings, ...) sets others"
)
@dataclass(frozen=True, kw_only=True)
class ZeroShotSettings:
    """How a model labels best, and the constants that turn its scores into probabilities.

    The defaults are those of roberta.tiny's vectors, all-MiniLM-L6-v2's, and serve models of their
    kind that say nothing.

    Example:
        >>> ZeroShotSettings(by="both").weight
        90.0
        >>> ZeroShotSettings(by="luck")
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: by is 'luck'; choose 'entailment', 'meaning' or 'both'
    """

    by: Way = "entailment"
    """What `zero_shot` asks by default."""
    scale: float = 19.0
    """By meaning alone, a cosine times this is a logit."""
    weight: float = 90.0
    """By both, a cosine is added to the logit of entailment, times this and the square of how far
    the labels are from each other (1 less their mean cosine)."""
    temperature: float = 2.0
    """By both, the sum is divided by this."""
    middle: float = 0.2
    """With `multi_label`, the cosine at which a label is as likely right as wrong."""

    def __post_init__(self) -> None:
        one_of("by", self.by, WAYS)
        for name in ("scale", "weight", "temperature", "middle"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise InputError(f"{name} is {short_repr(value)}, must be a number")
            if name == "middle" and not -1 <= value <= 1:
                raise InputError(f"middle is {short_repr(value)}, must lie in -1..1, as cosines do")
            if name != "middle" and not 0 < value <= MAX_FACTOR:
                raise InputError(
                    f"{name} is {short_repr(value)}, must be above 0 and at most {MAX_FACTOR}"
                )
            object.__setattr__(self, name, float(value))

    def summary(self) -> str:
        """Say it in a line.

        Example:
            >>> ZeroShotSettings(by="both", weight=12).summary()
            'by entailment and meaning (logit + 12 x cosine)'
        """
        if self.by == "both":
            return f"by entailment and meaning (logit + {self.weight:g} x cosine)"
        return f"by {self.by}"

    def to_dict(self) -> dict[str, object]:
        """Plain values for a JSON file; `ZeroShotSettings(**d)` restores them."""
        return dataclasses.asdict(self)
