"""Measures a search in a folder of BEIR's shape, by pytrec_eval."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from roberta_hub.arguments import short_repr
from roberta_hub.errors import (
    InputError,
    MissingExtraError,
    Place,
    Remedy,
    UnknownNameError,
    placed,
)
from roberta_hub.evaluation.records import Evaluation
from roberta_hub.evaluation.tasks import Asked
from roberta_hub.extras import install
from roberta_hub.measures.intervals import bootstrap_interval
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import json_row
from roberta_hub.terminal import progress_bar

DEPTH = 100
"""Documents that are found for a query."""
MEASURES = {
    "ndcg@10": "ndcg_cut_10",
    f"mrr@{DEPTH}": "recip_rank",
    f"map@{DEPTH}": "map",
    "recall@10": "recall_10",
    "recall@100": "recall_100",
}
"""Our names of trec_eval's measures, of the first `DEPTH` documents."""
FILES = ("corpus.jsonl", "queries.jsonl")
_ENDINGS = ("", ".gz", ".xz")
_BAR_FROM = 5000
"""Documents from which on a bar is shown."""


def find(folder: Path, name: str) -> Path | None:
    """Find a file of a folder, compressed or not; None: it is not there.

    Args:
        folder: of BEIR's shape.
        name: of the file, without the ending of a compressed one.
    """
    paths = (folder / f"{name}{ending}" for ending in _ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def is_search(folder: Path) -> bool:
    """Tell whether a folder has BEIR's shape: a corpus, queries, and judgements."""
    return all(find(folder, name) for name in FILES) and (folder / "qrels").is_dir()


@dataclass
class _Corpus:
    """Documents of a corpus, whose texts are read once and not kept."""

    path: Path
    ids: list[str] = field(default_factory=list)
    """Ids of the documents so far, in order."""
    empty: int = 0
    """Documents without title and text, which are left out."""

    def texts(self) -> Iterator[str]:
        """Read the title and the text of each document, with a blank between."""
        seen: set[str] = set()
        for found, where in _objects(self.path):
            name = _id(found, where)
            if name in seen:
                raise InputError(f"two documents have the _id {short_repr(name)}", place=where)
            seen.add(name)
            title, text = (_text(found, key, where) or "" for key in ("title", "text"))
            whole = f"{title} {text}".strip()
            if whole:
                self.ids.append(name)
                yield whole
            else:
                self.empty += 1


def search(asked: Asked, folder: Path) -> Evaluation:
    """Search the corpus of a folder for its queries, and judge what is found."""
    asked.takes("search", "split")
    try:
        import pytrec_eval
    except ImportError as error:
        raise MissingExtraError(
            f"the measures of a search need pytrec-eval-terrier ({error}): {install('evaluation')}"
        ) from None
    path = _judgements_path(folder, asked.split)
    judged = _judgements(path)
    ids, queries, empty = _queries(folder, judged)
    corpus = _Corpus(_there(folder, "corpus.jsonl"))

    def place(at: Place) -> str:
        if at.argument == "corpus":
            return f"{corpus.path}: document {corpus.ids[at.index]}"
        return f"{_there(folder, 'queries.jsonl')}: query {ids[at.index]}"

    with _bar(corpus.path, asked.options.get("progress")) as bar, placed(place):
        options = {**asked.options, "progress": False}
        texts = _counted(corpus.texts(), bar)
        hits = asked.roberta.search(queries, texts, topk=DEPTH + 1, **options)
    same = 0
    run: dict[str, dict[str, float]] = {}
    for query, own in zip(ids, hits, strict=True):
        found = {corpus.ids[hit.index]: hit.score for hit in own}
        same += found.pop(query, None) is not None
        run[query] = dict(list(found.items())[:DEPTH])
    names = {name.replace("_cut_", "_cut.").replace("recall_", "recall.") for name in TREC}
    by_query = pytrec_eval.RelevanceEvaluator(
        {query: judged[query] for query in ids}, names
    ).evaluate(run)
    measured = [[own[name] for name in TREC] for own in by_query.values()]
    table = torch.tensor(measured, dtype=torch.double)
    means = table.mean(0).tolist()
    return Evaluation(
        model=asked.name,
        task=str(folder),
        kind="search",
        verb="search",
        how=f"{len(corpus.ids):,} documents",
        shape=f"a corpus with queries and judgements ({path.relative_to(folder)})",
        rows=len(by_query),
        numbers=dict(zip(MEASURES, means, strict=True)),
        interval=bootstrap_interval(table[:, :1], lambda sums: sums[:, 0]),
        notes=_notes(judged, corpus, empty, same),
    )


TREC = tuple(MEASURES.values())
"""trec_eval's names of `MEASURES`."""


def _notes(
    judged: dict[str, dict[str, int]], corpus: _Corpus, empty: int, same: int
) -> tuple[str, ...]:
    known = {*corpus.ids}
    absent = {name for own in judged.values() for name in own} - known
    none = sum(not any(score > 0 for score in own.values()) for own in judged.values())
    said = [
        (empty, "queries without a text, left out"),
        (corpus.empty, "documents without title and text, left out"),
        (len(absent), "judged documents that are not in the corpus, and count as not found"),
        (none, "queries that no document answers, and which count as 0"),
        (same, "queries that found the document of their own id, which does not count"),
    ]
    return tuple(f"{what}: {count:,}" for count, what in said if count)


# ---- files ----


def _there(folder: Path, name: str) -> Path:
    path = find(folder, name)
    if path is None:
        raise InputError(f"{folder}: has no {name}")
    return path


def _judgements_path(folder: Path, split: str | None) -> Path:
    """The file of judgements: of the named split, of "test", or the only one."""
    found = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if not found:
        raise InputError(f"{folder / 'qrels'}: has no judgements; BEIR's are test.tsv")
    if split is None and "test" not in found and len(found) > 1:
        raise InputError(
            f"{folder / 'qrels'} has {', '.join(found)}, and none is test",
            remedy=Remedy("say which with split=NAME", "say which with --split NAME"),
        )
    name = split if split is not None else "test" if "test" in found else next(iter(found))
    if name not in found:
        raise UnknownNameError(
            f"{folder / 'qrels'} has no split {short_repr(split)}; it has {', '.join(found)}"
        )
    return found[name]


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    """How well each judged document answers each query."""
    found: dict[str, dict[str, int]] = {}
    for number, line in lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip() or (number == 1 and not _is_whole(cells[-1])):
            continue
        if len(cells) == 4:  # TREC's, whose second is the round
            del cells[1]
        if len(cells) != 3 or not all(cells) or not _is_whole(cells[2]):
            raise InputError(
                f"{path}:{number}: {line[:60]!r} is not a query's id, a document's id and a whole "
                "number, with tabs between"
            )
        found.setdefault(cells[0], {})[cells[1]] = int(cells[2])
    if not found:
        raise InputError(f"{path}: has no judgements")
    return found


def _is_whole(cell: str) -> bool:
    return cell.removeprefix("-").isdecimal() and len(cell) < 10


def _queries(folder: Path, judged: dict[str, dict[str, int]]) -> tuple[list[str], list[str], int]:
    """Ids and texts of the judged queries, and how many of these have no text."""
    path = _there(folder, "queries.jsonl")
    texts: dict[str, str] = {}
    empty = 0
    for found, where in _objects(path):
        name = _id(found, where)
        if name not in judged:
            continue
        if name in texts:
            raise InputError(f"two queries have the _id {short_repr(name)}", place=where)
        text = _text(found, "text", where)
        texts[name] = text or ""
        empty += not (text and text.strip())
    if absent := [name for name in judged if name not in texts]:
        shown = ", ".join(map(short_repr, absent[:5]))
        raise InputError(
            f"{path}: has no text of {len(absent):,} of the {len(judged):,} queries that are "
            f"judged: {shown}{', ...' if len(absent) > 5 else ''}"
        )
    kept = {name: text for name, text in texts.items() if text.strip()}
    if not kept:
        raise InputError(f"{path}: no judged query has a text")
    return list(kept), list(kept.values()), empty


def _objects(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Read the objects of a JSONL file, each with its place."""
    for number, line in lines(path):
        if line.strip():
            yield json_row(line, number, path).values, f"{path}:{number}"


def _id(found: dict[str, Any], where: str) -> str:
    name = found.get("_id")
    if not isinstance(name, (str, int)) or isinstance(name, bool) or not str(name).strip():
        raise InputError(f"_id is {short_repr(name)}; each has one, a str", place=where)
    return str(name).strip()


def _text(found: dict[str, Any], name: str, where: str) -> str | None:
    text = found.get(name)
    if text is None or isinstance(text, str):
        return text
    raise InputError(f"{name} is {short_repr(text)}, not a text", place=where)


def _bar(corpus: Path, shown: bool | None) -> AbstractContextManager[Any]:
    with open(corpus, "rb") as file:  # a compressed one has fewer lines than documents
        many = sum(1 for _ in zip(file, range(_BAR_FROM), strict=False))
    shown = False if shown is None and many < _BAR_FROM else shown
    bar: AbstractContextManager[Any] = progress_bar(None, unit=" documents", shown=shown)
    return bar


def _counted(texts: Iterator[str], bar: Any) -> Iterator[str]:
    for text in texts:
        yield text
        bar.update(1)
