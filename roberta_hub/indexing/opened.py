"""Searches an index on disk, by the model that its vectors are of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from roberta_hub.arguments import path_text, text_of, whole_number
from roberta_hub.indexing.about import About
from roberta_hub.indexing.store import NUMBER, Store, metric_of, score_of
from roberta_hub.inference.embed import check_vectors, vectors_of
from roberta_hub.inference.search import Hit
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
        self._store, self._metric = store, metric_of(about.similarity)
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
        where: str | None = None,
        exact: bool = False,
        **options: Unpack[Options],
    ) -> list[list[RowHit]]: ...
    def search(
        self,
        queries: str | Texts | Tensor,
        topk: int = 5,
        *,
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
            where: condition on the columns, in SQL: "lang = 'en' AND year > 2020". Only rows that
                meet it are looked at.
            exact: compare all rows, whatever their number.
            options: batch_tokens, progress, truncate, stride; see `roberta.embed`.

        Returns:
            A list of hits for each query, or one list for one str; the nearest hit is first. A hit
            has `index`, the number of its row in the order they came, `score`, `text`, and the
            other columns as `row`.

        Raises:
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
        asked: list[Text] = []

        def embed(texts: Sequence[Text]) -> Tensor:
            asked.extend(texts)
            advise_of_empty(empty_places(texts), "queries", "its nearest text")
            about = self.about
            return self._model().embed(
                texts, prompt=about.query_prompt, truncate_dim=about.truncate_dim, **options
            )

        vectors = check_vectors(vectors_of(queries, "queries", embed), "queries", self.about.width)
        found: list[Any] = [
            [self._hit(row) for row in self._rows(vector, topk, condition, exact)]
            for vector in vectors.float().cpu().numpy()
        ]
        shown: Any = (
            hits(queries, found[0])
            if isinstance(queries, str)
            else hits_of_many(asked or [f"query {i}" for i in range(len(found))], found)
        )
        own: list[list[RowHit]] | list[RowHit] = shown
        return own

    def _rows(self, vector: Any, topk: int, where: str | None, exact: bool) -> list[dict[str, Any]]:
        return self._store.nearest(vector, self._metric, topk, where, exact)

    def _hit(self, row: dict[str, Any]) -> RowHit:
        score = score_of(self._metric, row.pop("_distance"))
        return RowHit(row.pop(NUMBER), score, row.pop(self.about.text), row)

    def _model(self) -> RobertaHubInterface:
        """Load the model of the index when it is first asked."""
        if self._loaded is None:
            self._loaded = load_once(self.about.model, self.about.commit, self._device, None, None)
            check_model(self.about, self._loaded, self.about.model, self._store.path)
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
        name, loaded = _loaded(model, device)
        check_model(about, loaded, name, store.path)
    return Index(store, about, loaded, device)


def _loaded(
    model: str | os.PathLike[str] | RobertaHubInterface, device: str | None
) -> tuple[str, LoadedModel]:
    """Load a model by its name, or take one that is loaded."""
    if not isinstance(model, (str, os.PathLike)):
        return str(model.source or "a model"), LoadedModel(model)
    return str(model), load_once(path_text("model", model), None, device, None, None)


def check_model(about: About, loaded: LoadedModel, name: str, path: str) -> None:
    """Refuse queries by another model than that of the vectors."""
    other = replace(about, model=name, commit=None, digest=loaded.digest)
    about.check_model(other, path, "the query")
