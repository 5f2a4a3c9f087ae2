"""Defines Service: a model behind a queue, as every protocol asks it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import InputError, InputTypeError, Place, RobertaHubError, placed
from roberta_hub.keywords import unknown_keyword
from roberta_hub.server.batcher import Batcher
from roberta_hub.server.refusals import RefusalError
from roberta_hub.verbs.question import Question, answer_as_columns, records, rows_of
from roberta_hub.verbs.table import QUESTIONS

if TYPE_CHECKING:
    from roberta_hub.inference.verb_model import VerbModel
    from roberta_hub.interface import RobertaHubInterface

OPTIONS = ("truncate", "stride")
"""Options of every verb that a request may have."""
CHARACTERS_PER_TOKEN = 4
"""Characters of a token, about: what waits is estimated, and counted in the model's thread."""


@dataclass(frozen=True)
class Limits:
    """What a request may have."""

    body: int
    """Bytes."""
    texts: int
    seconds: float
    """Seconds in which a body must have come."""


@dataclass(frozen=True)
class Asked:
    """What the rows of a batch have in common."""

    verb: str
    settings: str
    """The verb's options and those of its run, as JSON: requests with equal ones share a batch."""
    normalize: bool | None = None
    """Whether vectors are normalized; None: as the model says."""


class Service:
    """A model with its name, limits and queue."""

    def __init__(
        self,
        roberta: RobertaHubInterface,
        name: str,
        limits: Limits,
        *,
        batch_tokens: int,
        wait: float,
        max_waiting: int,
    ) -> None:
        """Take a model that is loaded and optimized."""
        self.roberta, self.name, self.limits = roberta, name, limits
        self.batcher: Batcher[Asked] = Batcher(
            answer=self._answer, batch_tokens=batch_tokens, wait=wait, max_waiting=max_waiting
        )

    async def ask(
        self,
        verb: str,
        rows: Sequence[Any],
        options: Mapping[str, Any],
        *,
        normalize: bool | None = None,
        name: str = "texts",
    ) -> list[tuple[Mapping[str, Any], int]]:
        """Answer rows: the record of each, and its number of tokens.

        `name` is what the request calls its texts, for errors.
        """
        question = QUESTIONS[verb]
        self._check(question, rows, options, name)
        given = {option: value for option, value in options.items() if value is not None}
        asked = Asked(verb, json.dumps(given, sort_keys=True), normalize)
        most = question.rows_at_once or len(rows)
        with placed(lambda at: Place(name, at.index) if at.argument == "texts" else at):
            found: list[tuple[Mapping[str, Any], int]] = await self.batcher.ask(
                asked, rows, [*map(_estimate, rows)], most
            )
            return found

    def _check(
        self,
        question: Question[Any, Any],
        rows: Sequence[Any],
        options: Mapping[str, Any],
        name: str,
    ) -> None:
        """Refuse what can be refused before it waits."""
        known = {*question.options, *OPTIONS}
        for option in options:
            if option not in known:
                raise unknown_keyword(question.name, option, known)
        for option, own in question.options.items():
            if own.get("needed") and options.get(option) is None:
                raise InputError(f"{question.name} needs {option}")
        answer_format = question.answer_format(options)
        if "vectors" in answer_format.sample:  # 2 MB of text would have 4 GB of them
            raise InputError('features over HTTP are one vector a text; give "pooling": "mean"')
        if not rows:
            raise InputError(f"{name} is empty; give at least one text")
        if len(rows) > self.limits.texts:
            raise RefusalError(
                422, f"{len(rows):,} texts, and a request has {self.limits.texts:,} at most"
            )
        parts = answer_format.parts
        for i, row in enumerate(rows):
            count = 1 if isinstance(row, str) else len(row)
            if not parts.least <= count <= parts.most:
                raise InputError(
                    dataclasses.replace(parts, hint="").refusal(count), place=Place(name, i)
                )

    def _answer(self, asked: Asked, rows: list[Any]) -> list[tuple[Mapping[str, Any], int]]:
        """Answer rows, in the model's thread."""
        settings = json.loads(asked.settings)
        own = {name: settings.pop(name) for name in OPTIONS if name in settings}
        question, model = QUESTIONS[asked.verb], self._model(asked, own)
        found = records(answer_as_columns(question, model, rows, settings))
        return list(zip(found, self._tokens(model, asked.verb, rows), strict=True))

    def _model(self, asked: Asked, options: Mapping[str, Any]) -> VerbModel:
        from roberta_hub.interface import verb_model
        from roberta_hub.settings import SentenceSettings

        model = verb_model(self.roberta, progress=False, **options)
        if asked.normalize is None:
            return model
        own = model.sentence or SentenceSettings()
        return dataclasses.replace(
            model, sentence=dataclasses.replace(own, normalize=asked.normalize)
        )

    def _tokens(self, model: VerbModel, verb: str, rows: list[Any]) -> list[int]:
        """Count the tokens of each row; only OpenAI's protocol tells them."""
        if verb != "embed":
            return [0] * len(rows)
        from roberta_hub.inference.embed import within_limit
        from roberta_hub.settings import SentenceSettings

        runner = within_limit(model.runner, model.sentence or SentenceSettings())
        return [len(ids) for ids in runner.ids(rows)]

    async def text_of_ids(self, ids: Sequence[int], place: Place) -> str:
        """Return the text that this model's tokenizer makes these ids of.

        Ids of another vocabulary mean other words here: they would be answered, and wrongly.
        """
        return await asyncio.to_thread(self._text_of_ids, ids, place)

    def _text_of_ids(self, ids: Sequence[int], place: Place) -> str:
        from torch import tensor

        tokenizer = self.roberta.tokenizer
        first, last = (int(i) for i in tokenizer.encode("a")[[0, -1]])
        size = len(self.roberta.task.source_dictionary)
        if not ids or ids[0] != first or ids[-1] != last or not all(0 <= i < size for i in ids):
            raise InputError(
                f"its ids are not of this model, whose ids are from 0 to {size - 1}, with {first} "
                f"at the start of a text and {last} at its end; are they tiktoken's? {_SEND_TEXTS}",
                place=place,
            )
        text: str | list[str] = ""
        try:
            text = self.roberta.decode(tensor(ids))
            same = isinstance(text, str) and tokenizer.encode(text).tolist() == list(ids)
        except RobertaHubError:
            same = False
        if not isinstance(text, str) or not same:
            raise InputError(
                f"its ids are not those that this model's tokenizer makes of a text; {_SEND_TEXTS}",
                place=place,
            )
        return text


_SEND_TEXTS = (
    "send texts instead: LangChain does with OpenAIEmbeddings(check_embedding_ctx_length=False)"
)


def rows_in(question: Question[Any, Any], value: Any, name: str) -> tuple[list[Any], bool]:
    """Read the rows of a request, and whether it was one text: a list in the list is a pair."""
    if not isinstance(value, (str, list)):
        raise InputTypeError(f"{name} is not a text or a list of texts")
    if isinstance(value, list):
        value = [tuple(row) if isinstance(row, list) and len(row) > 2 else row for row in value]
    rows, one = rows_of(question, value, name)
    return list(rows), one


def _estimate(row: Any) -> int:
    return 2 + len(row if isinstance(row, str) else "".join(row)) // CHARACTERS_PER_TOKEN
