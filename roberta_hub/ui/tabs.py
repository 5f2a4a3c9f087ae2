"""Defines the tabs of the page: what each asks of a model, one function a tab."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.inference.batching import has_lm_head
from roberta_hub.inference.heads import entails
from roberta_hub.interface import RobertaHubInterface, verb_model
from roberta_hub.model.known_head import heads_of
from roberta_hub.rows.columns import shell_list
from roberta_hub.settings import HeadType, Inputs
from roberta_hub.show.display import Display
from roberta_hub.show.shaded_table import Cell, ShadedTable
from roberta_hub.ui.calls import Call, Command

MAX_CHARACTERS = 20_000
"""Most characters of a field: more are for files, which the command reads."""
MAX_LINES = 200
"""Most lines that are searched."""
MAX_COMPARED = 12
"""Most lines that are compared with each other."""
LABELS_SHOWN = 4
"""Labels of a head that have an example."""
CHOICES = 5
"""Words and hits that are shown."""


def _as_in_a_notebook(call: Call, found: Any) -> str:
    return str(found._repr_html_())


@dataclass(frozen=True)
class Field:
    """A text that the user writes."""

    label: str
    lines: int = 1
    """Height of its box; a box of one line takes several all the same."""
    needed: bool = True


@dataclass(frozen=True)
class Tab:
    """A question that the page asks a model."""

    name: str
    """Name of its endpoint."""
    title: str
    says: str
    """What it does, in a sentence."""
    fields: tuple[Field, ...]
    examples: tuple[tuple[str, ...], ...]
    """A text for each field; the first is there when the page opens."""
    call: Callable[..., Call]
    """From the texts of the fields."""
    draw: Callable[[Call, Any], str] = _as_in_a_notebook
    """From a call and its answer to markup."""
    head: str | None = None
    """That it asks, if it asks one."""

    def asked(self, values: Sequence[str]) -> Call:
        """Check the texts of the fields, and make the call."""
        for part, value in zip(self.fields, values, strict=True):
            if part.needed and not value.strip():
                raise InputError(f'"{part.label}" is empty; write something into it')
            if len(value) > MAX_CHARACTERS:
                raise InputError(
                    f'"{part.label}" has {len(value):,} characters, and the page takes '
                    f"{MAX_CHARACTERS:,}; the command reads files of any length"
                )
        return self.call(*values)


def tabs(roberta: RobertaHubInterface) -> list[Tab]:
    """List what a model can be asked, first by the head that it was taught, if it has one."""
    makers = (_fill_mask, _zero_shot, _explain, _similarity, _search, _tag, _answer, _token_strip)
    found = [tab for make in makers for tab in make(roberta)]
    own = _own_head(roberta)
    return sorted(found, key=lambda tab: own is None or tab.head != own)


def _own_head(roberta: RobertaHubInterface) -> str | None:
    """Find the only head that the model was taught; one for entailment serves other questions."""
    model, labels_of = roberta.model, verb_model(roberta).heads.labels
    taught = [name for name in heads_of(model) if not entails(labels_of(name))]
    taught += [*heads_of(model, "token"), *heads_of(model, "span")]
    return taught[0] if len(taught) == 1 else None


def _fill_mask(roberta: RobertaHubInterface) -> Iterator[Tab]:
    if not has_lm_head(roberta.model):
        return

    def call(text: str) -> Call:
        command = Command("fill-mask", ("-k", f"{CHOICES}"), (text,))
        return Call("fill_mask", (("text", text),), {"topk": CHOICES}, command)

    yield Tab(
        "fill_mask",
        "Fill a mask",
        "The most probable words for <mask>.",
        (Field("Text with <mask>", 2),),
        (
            ("They have lived here for many <mask>.",),
            ("She is a student at Harvard <mask>.",),
            ("The film was directed <mask> a young woman from Ohio.",),
        ),
        call,
    )


def _zero_shot(roberta: RobertaHubInterface) -> Iterator[Tab]:
    labels_of = verb_model(roberta).heads.labels
    asked = _heads(roberta, "classification", lambda head: entails(labels_of(head)))
    if not asked and roberta.sentence is not None:
        asked = [("", "", {"by": "meaning"})]
    for _, suffix, options in asked:

        def call(text: str, labels: str, options: dict[str, str] = options) -> Call:
            names = _different(labels)
            flags = ("--labels", shell_list(names), *_flags(options))
            command = Command("zero-shot", flags, (text,))
            return Call("zero_shot", (("text", text), ("labels", names)), options, command)

        yield Tab(
            "zero_shot" + suffix,
            "Label" + suffix,
            "A label of your own for a text, which no head was trained on.",
            (Field("Text", 2), Field("Labels, with commas between them")),
            (
                ("The team scored twice in the last minute.", "sports, politics, cooking"),
                ("My card was charged twice.", "billing, delivery, praise"),
                ("The parcel never came.", "billing, delivery, praise"),
            ),
            call,
        )


def _explain(roberta: RobertaHubInterface) -> Iterator[Tab]:
    heads = verb_model(roberta).heads
    names = list(heads_of(roberta.model))
    for head in names:
        suffix = f": {head}" if len(names) > 1 else ""
        inputs = heads.inputs(head)
        fields = (Field("Text", 2), Field("Second text", 2, needed=inputs == "pair"))

        def call(text: str, second: str = "", head: str = head) -> Call:
            pair = (text, second) if second.strip() else text
            return Call("explain", (("text", pair),), {"head": head})

        yield Tab(
            "explain" + suffix,
            ("Two texts" if inputs == "pair" else "Classify") + suffix,
            f"The label of {head}, and how much of its probability goes without each word.",
            fields[:1] if inputs == "one" else fields,
            _examples_of(heads.labels(head), inputs),
            call,
            head=head,
        )


def _examples_of(labels: Sequence[str], inputs: Inputs | None) -> tuple[tuple[str, ...], ...]:
    """Write examples for a head: by its labels where they are words, for no text of it is kept."""
    from roberta_hub.train.fitting.zero_shot_baseline import labels_are_words

    if inputs == "pair" or entails(labels):
        return (
            ("A child is painting a fence in the garden.", "Nobody is painting anything."),
            ("A man is playing a guitar.", "A man is making music."),
        )
    second = () if inputs == "one" else ("",)
    names = labels[:LABELS_SHOWN] if labels_are_words(labels) else ()
    texts = [f"This is {name.replace('_', ' ')}." for name in names] or ["A text of your own."]
    return tuple((text, *second) for text in texts)


def _similarity(roberta: RobertaHubInterface) -> Iterator[Tab]:
    def call(texts: str) -> Call:
        lines = _lines(texts, MAX_COMPARED, "compared with each other")
        return Call("similarity", (("texts", lines), ("texts", lines)))

    yield Tab(
        "similarity",
        "Compare",
        "How near the lines are to each other in meaning: 1 is the same." + _poor(roberta),
        (Field("Texts, one a line", 5),),
        (
            (
                "A dog is running in the park.\nA puppy plays outside.\n"
                "Shares fell sharply today.\nThe stock market lost value.",
            ),
            (
                "How do I reset my password?\nI forgot my login.\n"
                "Where is my parcel?\nThe delivery is late.",
            ),
        ),
        call,
        _heat_map,
    )


def _search(roberta: RobertaHubInterface) -> Iterator[Tab]:
    def call(query: str, texts: str) -> Call:
        lines = _lines(texts, MAX_LINES, "searched")
        flags = ("-k", f"{CHOICES}")
        command = Command("similar", flags, (query,), tuple(lines))
        given = (("query", query), ("corpus", lines))
        return Call("search", given, {"topk": CHOICES}, command)

    yield Tab(
        "search",
        "Search",
        "The lines that are nearest to a question in meaning." + _poor(roberta),
        (Field("Question"), Field("Texts, one a line", 5)),
        (
            (
                "When can I visit?",
                "You can pay by card.\nThe museum opens at nine.\nDogs are not allowed.",
            ),
            (
                "Can I bring my dog?",
                "You can pay by card.\nThe museum opens at nine.\nDogs are not allowed.",
            ),
        ),
        call,
    )


def _tag(roberta: RobertaHubInterface) -> Iterator[Tab]:
    for head, suffix, options in _heads(roberta, "token"):

        def call(text: str, options: dict[str, str] = options) -> Call:
            command = Command("tag", _flags(options), (text,))
            return Call("tag", (("text", text),), options, command)

        yield Tab(
            "tag" + suffix,
            "Entities" + suffix,
            "Names, places and other labelled spans of a text.",
            (Field("Text", 3),),
            (("Ada Lovelace met Charles Babbage in London.",),),
            call,
            head=head,
        )


def _answer(roberta: RobertaHubInterface) -> Iterator[Tab]:
    for head, suffix, options in _heads(roberta, "span"):

        def call(question: str, context: str, options: dict[str, str] = options) -> Call:
            command = Command("answer", (*_flags(options), "--pair", question, context))
            given = (("question", question), ("context", context))
            return Call("answer", given, options, command)

        yield Tab(
            "answer" + suffix,
            "Questions" + suffix,
            "The span of a text that answers a question.",
            (Field("Question"), Field("Text", 5)),
            (("Who wrote it?", "Ada Lovelace wrote the first program in 1843."),),
            call,
            head=head,
        )


def _token_strip(roberta: RobertaHubInterface) -> Iterator[Tab]:
    def call(text: str) -> Call:
        return Call("token_strip", (("text", text),), command=Command("tokens", (), (text,)))

    yield Tab(
        "tokens",
        "Tokens",
        "The pieces that the model reads, with their ids.",
        (Field("Text", 2),),
        (("I had a sudden epipheny",), ("Don't worry: naïve 🙂 costs 3.50 €",)),
        call,
    )


def _heads(
    roberta: RobertaHubInterface, kind: HeadType, fits: Callable[[str], bool] = lambda head: True
) -> list[tuple[str, str, dict[str, str]]]:
    """For each head of a kind its name, the end of its tab's title, and the keyword that names it.

    The last two are empty where there is one head alone, which the verb finds.
    """
    names = [name for name in heads_of(roberta.model, kind) if fits(name)]
    if len(names) == 1:
        return [(names[0], "", {})]
    return [(name, f": {name}", {"head": name}) for name in names]


def _flags(options: dict[str, str]) -> tuple[str, ...]:
    return tuple(part for name, value in options.items() for part in (f"--{name}", value))


def _different(labels: str) -> list[str]:
    """Split at commas and line breaks."""
    names = [name.strip() for name in re.split("[,\n]", labels) if name.strip()]
    twice = [name for name in names if names.count(name) > 1]
    if twice or not names:
        what = f"the label {short_repr(twice[0])} is there twice" if twice else "there is no label"
        raise InputError(f"{what}; write different ones, with commas between them")
    return names


def _lines(texts: str, most: int, done: str) -> list[str]:
    """Split at line breaks; empty lines are left out."""
    lines = [line.strip() for line in texts.split("\n") if line.strip()]
    if len(lines) > most:
        raise InputError(
            f"{len(lines):,} lines, and at most {most} are {done} here; Python takes any number, "
            "and so does `roberta-hub similar -i FILE`"
        )
    return lines


def _poor(roberta: RobertaHubInterface) -> str:
    return "" if roberta.sentence else " This model was not trained for it: expect poor answers."


def _heat_map(call: Call, found: Tensor) -> str:
    """Draw the similarity of each of some texts with each: (n, n)."""
    texts: list[str] = dict(call.given)["texts"]
    values = found.tolist()
    largest = max(1.0, *(abs(value) for row in values for value in row))  # 1 of cosines
    rows = [
        (f"{i}. {text}", [Cell(f"{value:.2f}", max(0.0, value / largest)) for value in row])
        for i, (text, row) in enumerate(zip(texts, values, strict=True), 1)
    ]
    names = [str(i) for i in range(1, len(texts) + 1)]
    return Display("", [ShadedTable(names, rows)], {})._repr_html_()
