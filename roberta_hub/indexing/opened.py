"""Searches an index on disk, by the model that its vectors are of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from roberta_hub.arguments import path_text, switch, text_of, whole_number
from roberta_hub.indexing.about import About
from roberta_hub.indexing.store import NUMBER, Store, metric_of, score_of
from roberta_hub.inference.embed import check_vectors, vectors_of
from roberta_hub.inference.rank import READS_TEXTS, candidates, reranked
from roberta_hub.inference.search import COMPARES_WORDS, Hit, check_texts
from roberta_hub.inference.word_index import RANKED, fused
from roberta_hub.interface import reranker
from roberta_hub.scale.models import LoadedModel, load_once
from roberta_hub.text.texts import advise_of_empty, empty_places
from roberta_hub.verbs.views import hits, hits_of_many

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Unpack

    from roberta_hub.inference.batching import Options
    from roberta_hub.interface import RobertaHubInterface
    from roberta_hub.text.texts import Texts
    from roberta_hub.text.tokenizer import Text


@dataclass(frozen=True)
class RowHit(Hit):
    """A row of an index found for a query: a `Hit` with the other columns of its row."""

    row: Mapping[str, Any]
    """The other columns of its row, by name."""


@dataclass(frozen=True)
class _Look:
    """How the rows of an index are looked for."""

    store: Store
    about: About
    where: str | None
    exact: bool

    def nearest(self, vector: Any, topk: int) -> list[RowHit]:
        """Find the rows whose vectors are nearest."""
        metric = metric_of(self.about.similarity)
        rows = self._near(vector, topk, self.store.columns())
        return [self._hit(row, score_of(metric, row.pop("_distance"))) for row in rows]

    def with_words(self, query: Text, vector: Any, topk: int) -> list[RowHit]:
        """Join what vectors find with what words find."""
        most = max(topk, RANKED)
        text = query if isinstance(query, str) else " ".join(query)
        rankings = [
            self._near(vector, most, [NUMBER]),
            self.store.sharing_words(text, self.about.text, most, self.where),
        ]
        places = {row[NUMBER]: row["_rowid"] for ranking in rankings for row in ranking}
        best = fused([[row[NUMBER] for row in ranking] for ranking in rankings], topk)
        rows = self.store.fetched([places[number] for number, _ in best])
        by_number = {row[NUMBER]: row for row in rows}
        return [self._hit(by_number[number], score) for number, score in best]

    def _near(self, vector: Any, topk: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        metric = metric_of(self.about.similarity)
        return self.store.nearest(vector, metric, topk, self.where, self.exact, columns)

    def _hit(self, row: dict[str, Any], score: float) -> RowHit:
        row.pop("_rowid", None)
        return RowHit(row.pop(NUMBER), score, row.pop(self.about.text), row)


class Index:
    """An index that `index` wrote, opened for searches. `table` is LanceDB's, for all else."""

    def __init__(
        self, store: Store, about: About, loaded: LoadedModel | None, device: str | None
    ) -> None:
        """Take an index that exists; `open_index` opens one."""
        self.about = about
        """What the vectors are: model, commit, digest, prompts, pooling, dtype, width."""
        self.table = store.table
        """LanceDB's table: versions, SQL, scalar indices, deletions."""
        self._store = store
        self._loaded, self._device = loaded, device

    def __len__(self) -> int:
        return self._store.rows()

    def __repr__(self) -> str:
        return f"<index {self._store.path}, {len(self):,} rows, of {self.about.named()}>"

    @overload
    def search(  # type: ignore[overload-overlap]
        self,
        queries: str,
        topk: int = 5,
        *,
        words: bool = False,
        rerank: RobertaHubInterface | None = None,
        where: str | None = None,
        exact: bool = False,
        **options: Unpack[Options],
    ) -> list[RowHit]: ...
    @overload
    def search(
        self,
        queries: Texts | Tensor,
        topk: int = 5,
        *,
        words: bool = False,
        rerank: RobertaHubInterface | None = None,
        where: str | None = None,
        exact: bool = False,
        **options: Unpack[Options],
    ) -> list[list[RowHit]]: ...
    def search(
        self,
        queries: str | Texts | Tensor,
        topk: int = 5,
        *,
        words: bool = False,
        rerank: RobertaHubInterface | None = None,
        where: str | None = None,
        exact: bool = False,
        **options: Unpack[Options],
    ) -> list[list[RowHit]] | list[RowHit]:
        r"""Find the rows whose texts are nearest to each query.

        Queries get the index's prompt for queries, and its model makes their vectors. An index of
        fewer than 50,000 rows compares all of them; a larger one looks into the partitions of its
        vector index that are nearest, and compares the best candidates exactly.

        Args:
            queries: one str, texts, or vectors (q, C) that the same model made.
            topk: maximum number of hits for a query.
            words: also rank by the words that a text shares with the query (BM25, by LanceDB's
                index of the words), and join the two rankings as `roberta.search` does; queries
                are texts.
            rerank: a cross-encoder that orders the best hits again, as in `roberta.search`: the
                first four times `topk`, at least 20.
            where: condition on the columns, in SQL: "lang = 'en' AND year > 2020". Only rows that
                meet it are looked at.
            exact: compare all rows, whatever their number.
            options: batch_tokens, progress, truncate, stride; see `roberta.embed`.

        Returns:
            A list of hits for each query, or one list for one str; the nearest hit is first. A hit
            has `index`, the number of its row in the order they came, `score`, `text`, and the
            other columns as `row`. The score is the model's similarity of two vectors, by default
            their cosine; with `words` a sum of the two rankings', at most 2 / 61; with `rerank` the
            cross-encoder's.

        Raises:
            InputTypeError: `words` or `rerank` has vectors instead of texts.
            InputError: a condition that cannot be asked; a text that is too long; vectors of
                another width; or the model is not that of the index, any more.

        Example:
            >>> import roberta_hub, tempfile, pathlib
            >>> folder = pathlib.Path(tempfile.mkdtemp())
            >>> _ = (folder / "in.csv").write_text("id,text\n7,Goal!\n8,A painter drew.\n")
            >>> _ = roberta_hub.index(folder / "in.csv", folder / "texts.lance")
            >>> [hit] = roberta_hub.open_index(folder / "texts.lance").search("football", topk=1)
            >>> hit.text, hit.row
            ('Goal!', {'id': '7'})
        """
        topk = whole_number("topk", topk, 1)
        condition = None if where is None else text_of("where", where)
        if words := switch("words", words):
            check_texts(COMPARES_WORDS, queries=queries)
        second = None
        if rerank is not None:
            second = reranker(rerank, **options)
            check_texts(READS_TEXTS, queries=queries)
        most = topk if second is None else candidates(topk)
        asked: list[Text] = []

        def embed(texts: Sequence[Text]) -> Tensor:
            asked.extend(texts)
            advise_of_empty(empty_places(texts), "queries", "its nearest text")
            about = self.about
            return self._model().embed(
                texts, prompt=about.query_prompt, truncate_dim=about.truncate_dim, **options
            )

        vectors = check_vectors(vectors_of(queries, "queries", embed), "queries", self.about.width)
        look = _Look(self._store, self.about, condition, exact)
        arrays = vectors.float().cpu().numpy()
        found: list[Any]
        if words:
            found = [look.with_words(*each, most) for each in zip(asked, arrays, strict=True)]
        else:
            found = [look.nearest(vector, most) for vector in arrays]
        if second is not None:
            found = reranked(second, asked, found, topk)
        shown: Any = (
            hits(queries, found[0])
            if isinstance(queries, str)
            else hits_of_many(asked or [f"query {i}" for i in range(len(found))], found)
        )
        own: list[list[RowHit]] | list[RowHit] = shown
        return own

    def _model(self) -> RobertaHubInterface:
        """Load the model of the index when it is first asked."""
        if self._loaded is None:
            about = self.about
            self._loaded = load_once(about.model, about.commit, self._device, None, about.optimize)
            check_model(about, self._loaded, about.model, self._store.path)
        return self._loaded.roberta


def open_index(
    path: str | os.PathLike[str],
    model: str | os.PathLike[str] | RobertaHubInterface | None = None,
    *,
    device: str | None = None,
) -> Index:
    """Open an index on disk, or in an object store, for searches.

    Args:
        path: path or address of the index, which ends in .lance.
        model: that of the index: a name, a path, or a model that is loaded. None: the one that the
            index names, loaded for the first query of text.
        device: "cuda", "cpu", "auto"; see `load_model`.

    Returns:
        The index, whose `search` finds rows.

    Raises:
        InputError: there is no index; or the model is another than that of its vectors.
        MissingExtraError: lancedb is not installed.

    Example:
        >>> open_index("texts.lance")
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: ...texts.lance: no index there; roberta_hub.index makes one
    """
    store = Store(path)
    about = store.says()
    loaded = None
    if model is not None:
        name, loaded = _loaded(model, device, about)
        check_model(about, loaded, name, store.path)
    return Index(store, about, loaded, device)


def _loaded(
    model: str | os.PathLike[str] | RobertaHubInterface, device: str | None, about: About
) -> tuple[str, LoadedModel]:
    """Load a model by its name, or take one that is loaded."""
    if not isinstance(model, (str, os.PathLike)):
        return str(model.source or "a model"), LoadedModel(model)
    return str(model), load_once(path_text("model", model), None, device, None, about.optimize)


def check_model(about: About, loaded: LoadedModel, name: str, path: str) -> None:
    """Refuse queries by another model than that of the vectors."""
    other = replace(about, model=name, commit=None, digest=loaded.digest)
    about.check_model(other, path, "the query")
