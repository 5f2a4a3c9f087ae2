"""Makes an index of the texts of files, and adds to it: a lake of vectors, taken in one commit."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from filelock import FileLock, Timeout

from roberta_hub.arguments import one_of, short_repr, text_of
from roberta_hub.errors import InputError, LakeError, Remedy
from roberta_hub.indexing.about import About
from roberta_hub.indexing.parts import Parts
from roberta_hub.indexing.store import NUMBER, VECTOR, Store, metric_of
from roberta_hub.rows.columns import check_clash
from roberta_hub.rows.formats import row_count
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.models import Optimize, load_once
from roberta_hub.scale.outputs import is_local
from roberta_hub.scale.reading import read_unit
from roberta_hub.scale.run import UNIT_ROWS, at_one_commit, lake
from roberta_hub.scale.source_schema import find_schema
from roberta_hub.scale.sources import LakeSource, find_filesystem, find_source
from roberta_hub.scale.status import Report as LakeReport
from roberta_hub.scale.units import plan_units
from roberta_hub.scale.verb import FLOATS, Verb
from roberta_hub.settings import SentenceSettings
from roberta_hub.show.report import Report, Reported, said
from roberta_hub.text.texts import as_strings
from roberta_hub.verbs.unanswered import unanswered
from roberta_hub.version import version

DEFAULT_MODEL = "roberta.tiny"


@dataclass(frozen=True)
class Indexed(Reported):
    """Result of `index`."""

    path: str
    rows: int
    """Rows in the index."""
    taken: int
    """Rows that this call added or replaced."""
    seconds: float

    def report(self) -> Report:
        """Build what is shown, on every face."""
        text = f"{self.path}: {row_count(self.rows)}, {self.taken:,} of them from this call"
        text += f", in {self.seconds:,.0f} s"
        return Report(self.path, [said(text)])


def index(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    text: str | None = None,
    key: str | None = None,
    model: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    prompt: str | None = None,
    query_prompt: str | None = None,
    truncate_dim: int | None = None,
    dtype: Literal["float32", "float16"] | None = None,
    optimize: Literal["float32", "int8", "bfloat16", "auto"] | None = None,
    keep: Sequence[str] | None = None,
    truncate: bool = False,
    stride: int | None = None,
    device: str | None = None,
    workers: int | None = None,
    unit_rows: int | None = None,
    progress: bool | None = None,
) -> Indexed:
    r"""Embed the texts of files into an index on disk, for `open_index` and `similar`.

    The index is a table of LanceDB: the columns of the source, and the vectors. The vectors are
    made as a lake in `TARGET.units`, so the same call resumes one that was killed; they are then
    added in one commit, all rows or none. The index says which model, prompts and precision its
    vectors are of. Rows that would not be comparable are refused.

    A second call adds other files. With a key it replaces the rows whose key is there, and adds
    the others. Files that were taken before and have not changed are not taken again.

    Args:
        source: Parquet, JSONL or CSV: a file, a folder, a pattern (`in/*.parquet`), an address of
            pyarrow.fs (`s3://bucket/in`), or a list of these.
        target: path or address of the index, which ends in .lance.
        text: the column with the texts. None: that of the index, else found by its name, or the
            only one of prose.
        key: a column whose values name the rows: one row of the index for each. None: that of the
            index; a new index has none, and rows are only added.
        model: a name or a path, as `load_model` takes it. None: the model of the index, else
            roberta.tiny.
        revision: of a model at Hugging Face: a branch, a tag or a commit.
        prompt: text before each text. None: that of the index, else the model's prompt "document",
            "passage" or "corpus", if it has one.
        query_prompt: text before each query. None: that of the index, else the model's prompt
            "query", if it has one.
        truncate_dim: keep so many numbers of each vector. None: as the index, else all.
        dtype: of the vectors: "float32" or "float16". None: as the index, else "float32".
        optimize: how the model computes on a CPU: "float32" with its weights laid out for it, and
            "bfloat16" and "int8" faster and rounded; "auto" takes what is fastest and near float32.
            None: as the index, else as it was loaded.
        keep: columns of the source to keep beside the text and the key. None: those of the
            index, else all.
        truncate: cut texts that are too long for the model.
        stride: or read them in windows that overlap by so many tokens.
        device: "cuda", "cpu", "auto"; see `load_model`.
        workers: number of workers, each with a copy of the model; see `scale.lake`.
        unit_rows: approximate rows of a unit of work, all that a killed run repeats; None: 50,000.
        progress: show a progress bar; None: in a terminal or notebook.

    Returns:
        The numbers of rows.

    Raises:
        InputError: the source cannot be read; the index has vectors of another model or prompt, or
            another width, dtype, text column or key; or a key is missing or there twice.
        LakeError: rows without a vector, since they have no text or one that is too long; all
            others are in the index.
        MissingExtraError: lancedb or pyarrow is not installed.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "in.csv").write_text("id,text\n7,Goal!\n8,A painter drew.\n")
        >>> print(index(folder / "in.csv", folder / "texts.lance", key="id").rows)
        2
    """
    began = time.monotonic()
    system, path = find_filesystem(target, "target")
    with _alone(system, path):
        store = Store(target)
        before, files = store.about(), find_source(source)
        parts = Parts(system, f"{path}.units")
        parts.forget_taken(store)
        key = before.key if key is None and before is not None else key
        taken, refusal = 0, None
        if _are_new(files, store, key):
            verb = _verb(before, model, revision, text, dtype, truncate_dim, optimize)
            ways = {"device": device, "truncate": truncate or None, "stride": stride}
            verb = verb.replace(**{name: way for name, way in ways.items() if way is not None})
            verb, _ = at_one_commit(verb, parts.plan())
            about = _about(before, verb, files, key, prompt, query_prompt, store.path)
            schema = find_schema(files, (about.text,), _kept(store, about, keep))
            check_clash(
                schema.keep.names, [NUMBER], Remedy("keep others", "--keep names those to keep")
            )
            if before is not None:
                store.check_columns(schema.keep)
            _check_keys(files, about)
            verb = verb.replace(text=about.text, prompt=about.prompt)
            ways = {"workers": workers, "unit_rows": unit_rows, "progress": progress}
            report = _embed(source, store, verb, keep=schema.keep.names, **ways)
            parts.take(store, about)
            taken = report.rows - report.faults
            refusal = _left_out(report) if report.faults else None
        store.build()
        parts.forget_taken(store)
        if refusal is not None:
            raise refusal
        return Indexed(store.path, store.rows(), taken, time.monotonic() - began)


def _embed(source: Any, store: Store, verb: Verb, **ways: Any) -> LakeReport:
    """Make the lake of vectors; rows without one are no error yet."""
    given = {name: way for name, way in ways.items() if way is not None}
    try:
        return lake(source, f"{store.path}.units", verb, **given)
    except LakeError as error:
        report = error.report
        if not isinstance(report, LakeReport) or report.failed or report.left:
            raise
        return report


def _left_out(report: LakeReport) -> LakeError:
    """Error for rows without a vector, where all others are in the index."""
    what, _ = unanswered(report.errors, report.faults, report.missing, report.rows)
    error = LakeError(what, remedy=Remedy("all others are in the index; fix these, and add them"))
    error.report = report
    return error


@contextlib.contextmanager
def _alone(system: Any, path: str) -> Iterator[None]:
    """Keep other processes of this machine from writing the same index."""
    if not is_local(system):
        yield
        return
    if not os.path.isdir(os.path.dirname(path)):
        raise InputError(f"{os.path.dirname(path)}: no such folder")
    lock = FileLock(f"{path}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(f"{path}: another process writes this index; wait for its end") from None
    except (OSError, NotImplementedError):  # a file system without locks
        pass
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            os.unlink(lock.lock_file)


def _are_new(files: LakeSource, store: Store, key: str | None) -> bool:
    """Whether a source has rows that were not taken; refuse to take rows twice."""
    new = store.new_files(files.files)
    known = store.taken()["files"]
    if key is None and new and (again := [file for file in files.files if file.path in known]):
        why = "has changed since" if again[0] in new else "other files of the source were not"
        raise InputError(
            f"{again[0].path} was taken into {store.path} before, and {why}; without a key its "
            "rows would be there twice. Name the new files alone, or make another index",
            remedy=Remedy("with key=NAME", "with --key NAME"),
        )
    return bool(new)


def _verb(
    before: About | None,
    model: str | os.PathLike[str] | None,
    revision: str | None,
    text: str | None,
    dtype: Any,
    truncate_dim: int | None,
    optimize: Optimize | None,
) -> Verb:
    """Take what was given, else what the index says of itself, else the defaults."""
    one_of("dtype", dtype, (None, *FLOATS))
    if before is not None:
        if model is None:
            model, revision = before.model, revision or before.commit
        text, dtype = text or before.text, dtype or before.dtype
        truncate_dim = truncate_dim or before.truncate_dim
        optimize = optimize or before.optimize
    return Verb(
        "embed",
        DEFAULT_MODEL if model is None else model,
        revision=revision,
        text=text,
        vectors=dtype or "float32",
        truncate_dim=truncate_dim,
        optimize=optimize,
    )


def _about(
    before: About | None,
    verb: Verb,
    files: LakeSource,
    key: str | None,
    prompt: str | None,
    query_prompt: str | None,
    path: str,
) -> About:
    """Say what the vectors of a source will be; refuse what would not fit to those there are."""
    from roberta_hub.inference.search import search_prompts

    loaded = load_once(verb.model, verb.revision, verb.device, verb.dtype, verb.optimize)
    settings = loaded.roberta.sentence or SentenceSettings()
    asked, found = search_prompts(settings)
    if before is not None:
        asked, found = before.query_prompt, before.prompt
    metric_of(settings.similarity)
    about = About(
        model=verb.model,
        commit=verb.revision,
        digest=loaded.digest,
        prompt=found if prompt is None else text_of("prompt", prompt),
        query_prompt=asked if query_prompt is None else text_of("query_prompt", query_prompt),
        pooling=settings.pooling,
        similarity=settings.similarity,
        dtype=verb.vectors,
        optimize=verb.optimize,
        truncate_dim=verb.options.get("truncate_dim"),
        width=verb.schema().field(VECTOR).type.list_size,
        text=find_schema(files, verb.text, []).text[0],
        key=key,
        version=version(),
    )
    if before is not None:
        before.check_same(about, path)
    return about


def _kept(store: Store, about: About, keep: Sequence[str] | None) -> list[str] | None:
    """Columns to keep, the text and the key among them: those of the index; None: all."""
    if keep is None:
        return None if store.table is None else [n for n in store.columns() if n != NUMBER]
    names = as_strings(keep, "keep", "columns' names")
    return list(dict.fromkeys([*names, about.text, *filter(None, [about.key])]))


def _check_keys(files: LakeSource, about: About) -> None:
    """Refuse keys that are missing, or there twice, before anything is embedded."""
    if about.key is None:
        return
    pa = arrow()
    schema = find_schema(files, (about.text,), [about.key])
    units = plan_units(files, schema, UNIT_ROWS)
    rows = (batch.kept.column(0) for unit in units for batch in read_unit(files, schema, unit))
    keys = pa.chunked_array([part for column in rows for part in column.chunks])
    if keys.null_count:
        raise InputError(f"{keys.null_count:,} rows have no {about.key}, which is the key")
    if len(keys.unique()) < len(keys):
        counts = keys.value_counts()
        value, count = next(
            (each["values"], each["counts"]) for each in counts if each["counts"].as_py() > 1
        )
        raise InputError(
            f"{count} rows have the {about.key} {short_repr(value.as_py())}; a key names one row"
        )
