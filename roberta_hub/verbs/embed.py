"""Defines the verbs on sentence vectors, which every model answers: embed, similarity, search."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from torch import Tensor

from roberta_hub.arguments import text_of, whole_number
from roberta_hub.errors import InputError
from roberta_hub.inference import embed, search, shown
from roberta_hub.inference.batching import Options, Runner
from roberta_hub.inference.search import Hit
from roberta_hub.inference.windows import keep_as_tokenizers
from roberta_hub.keywords import checks_keywords
from roberta_hub.settings import SentenceSettings
from roberta_hub.text.texts import Texts, as_texts
from roberta_hub.text.tokenizer import Text
from roberta_hub.verbs.texts import TextVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack

_OF_QUERIES = ("query",)
_OF_CORPUS = ("document", "passage", "corpus")
"""Names of prompts by which sentence-transformers tells what is searched from what is found."""


@checks_keywords
class EmbedVerbs(TextVerbs):
    """Verbs on sentence vectors. See `RobertaHubInterface`, which sets the fields."""

    sentence: SentenceSettings | None

    def _sentence_runner(self, **options: Unpack[Options]) -> tuple[SentenceSettings, Runner]:
        settings = self.sentence or SentenceSettings()
        runner = self._runner(**options)
        return settings, dataclasses.replace(
            runner, longest=settings.max_length, keep=keep_as_tokenizers
        )

    def embed(
        self,
        texts: str | Texts,
        prompt: str | None = None,
        *,
        prompt_name: str | None = None,
        **options: Unpack[Options],
    ) -> Tensor:
        """Compute one vector of each text, as sentence-transformers does with the same model.

        `roberta.sentence` says how: a sentence-transformers directory brings pooling,
        normalization, limit and prompts. A model without settings gets the mean over all tokens,
        `<s>` and `</s>` included, not normalized; that is what sentence-transformers does with it.
        Such a model was not trained for it: expect poor vectors.

        Args:
            texts: one str, or many; see the class.
            prompt: a text that is put before each text ("query: "), and before the first sentence
                of a pair; "" is none. None: the model's default prompt, where it has one.
            prompt_name: the name of one of the model's prompts instead ("query").
            options: batch_tokens, progress, truncate, stride; see `features`. The limit is the
                model's `max_length`. In windows each token counts once, from the window in which it
                stands farthest from a cut, and the vectors of `<s>` are averaged.

        Returns:
            (len(texts), C) on the model's device, or (C,) for one str. Several poolings lie side by
            side, and make vectors of several times C.

        Raises:
            UnknownNameError: the model has no prompt of this name; the message lists them.
            InputError: a text is too long; the message names it, its length and the limit.

        Example:
            >>> roberta.embed(["Hello world!", "Hello"]).shape
            torch.Size([2, 768])
        """
        settings, runner = self._sentence_runner(**options)
        before = settings.find_prompt(
            None if prompt is None else text_of("prompt", prompt),
            None if prompt_name is None else text_of("prompt_name", prompt_name),
        )
        many, one = as_texts(texts)
        found = embed.embed(runner, many, settings, before)
        return found[0] if one else found

    def similarity(
        self, a: str | Texts | Tensor, b: str | Texts | Tensor, **options: Unpack[Options]
    ) -> Tensor:
        """Compare each of some texts with each of some others.

        Args:
            a: texts, or vectors of `embed`; one str, or a vector (C,), makes one row.
            b: the same; it makes the columns.
            options: batch_tokens, progress, truncate, stride; see `embed`.

        Returns:
            (len(a), len(b)): cosines, or what `roberta.sentence.similarity` names. Higher is
            nearer.

        Raises:
            InputError: a text is too long, or the vectors have different widths.

        Example:
            >>> bool(roberta.similarity("Hello", "Hello") > 0.999)
            True
            >>> vectors = roberta.embed(["A dog ran.", "A cat sat."])
            >>> roberta.similarity(vectors, ["Goal!", "Hello", "A dog."]).shape
            torch.Size([2, 3])
        """
        settings, runner = self._sentence_runner(**options)
        prompt = settings.find_prompt(None, None)

        def vectors(texts: Sequence[Text]) -> Tensor:
            return embed.embed(runner, texts, settings, prompt)

        left, right = embed.vectors_of(a, "a", vectors), embed.vectors_of(b, "b", vectors)
        if left.size(1) != right.size(1):
            raise InputError(
                f"a has vectors of width {left.size(1)} and b of width {right.size(1)}; did "
                "another model make one of them?"
            )
        return embed.similarities(left, right.to(left.device), settings.similarity)

    @overload
    def search(  # type: ignore[overload-overlap]
        self, queries: str, corpus: Texts | Tensor, topk: int = 5, **options: Unpack[Options]
    ) -> list[Hit]: ...
    @overload
    def search(
        self,
        queries: Texts | Tensor,
        corpus: Texts | Tensor,
        topk: int = 5,
        **options: Unpack[Options],
    ) -> list[list[Hit]]: ...
    def search(
        self,
        queries: str | Texts | Tensor,
        corpus: Texts | Tensor,
        topk: int = 5,
        **options: Unpack[Options],
    ) -> list[list[Hit]] | list[Hit]:
        """Find the texts of a corpus that are nearest to each query.

        The search is exact: every query is compared with every text, in blocks. A corpus that
        yields its texts one by one is never held as a whole, neither its texts nor its vectors.
        Who searches a corpus often embeds it once, and passes the vectors.

        Queries get the model's prompt "query", and texts of the corpus "document", "passage" or
        "corpus", where the model has one of these, and no prompt otherwise, as
        sentence-transformers' `encode_query` and `encode_document` do. Vectors are taken as they
        are: `embed(corpus, prompt_name="passage")` makes them with a prompt.

        Args:
            queries: one str, texts, or vectors (q, C).
            corpus: texts, or the vectors (n, C) that `embed` gave; numpy's arrays too, also those
                that lie on disk.
            topk: most hits of a query.
            options: batch_tokens, progress, truncate, stride; see `embed`.

        Returns:
            For each query its hits, the nearest first, of equals the first in the corpus: `index`,
            `score` and `text`, which is None where the corpus is given as vectors. For one str the
            hits themselves.

        Raises:
            InputError: a text is too long; or the vectors have different widths, or values that are
                not finite.

        Example:
            >>> corpus = ["A dog ran.", "Goal!", "Hello world!"]
            >>> [hit.text for hit in roberta.search("Hello world!", corpus, topk=1)]
            ['Hello world!']
            >>> [[hit]] = roberta.search(["Goal!"], roberta.embed(corpus), topk=1)
            >>> hit.index, hit.text
            (1, None)
        """
        topk = whole_number("topk", topk, 1)
        settings, runner = self._sentence_runner(**options)
        asked, found = (
            next((settings.prompts[name] for name in names if name in settings.prompts), "")
            for names in (_OF_QUERIES, _OF_CORPUS)
        )
        texts: list[Text] = []  # of the queries, an iterator's too; vectors have none

        def of_queries(found: Sequence[Text]) -> Tensor:
            texts.extend(found)
            return embed.embed(runner, found, settings, asked)

        vectors = embed.vectors_of(queries, "queries", of_queries)
        blocks = search.corpus_blocks(
            corpus, lambda texts: embed.embed(runner, texts, settings, found)
        )
        hits = search.search(vectors, blocks, topk, settings.similarity)
        if isinstance(queries, str):
            return shown.hits(queries, hits[0])
        return shown.hits_of_many(texts or [f"query {i}" for i in range(len(hits))], hits)
