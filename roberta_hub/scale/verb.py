"""Defines Verb: a verb of a model as a picklable function from table to table."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roberta_hub.arguments import (
    advise,
    kind_of,
    one_of,
    path_text,
    short_repr,
    text_of,
    whole_number,
)
from roberta_hub.errors import (
    InputError,
    InputTypeError,
    Place,
    Remedy,
    RobertaHubError,
    UnknownNameError,
    close_names,
)
from roberta_hub.keywords import unknown_keyword
from roberta_hub.rows.columns import check_clash, text_columns
from roberta_hub.rows.formats import FRAME, Missing, RowTexts, row_count
from roberta_hub.rows.frames import append_columns, column_names, column_of, frame_kind, is_stream
from roberta_hub.rows.values import Fault, is_utf8
from roberta_hub.scale.columns import (
    SHARED_OPTIONS,
    answer_rows,
    arrow,
    as_table,
    schema,
)
from roberta_hub.scale.models import LoadedModel, Optimize, load_once, with_threads
from roberta_hub.settings import VECTOR_DTYPES, VectorDtype
from roberta_hub.text.texts import as_strings
from roberta_hub.verbs.question import Columns
from roberta_hub.verbs.table import QUESTIONS
from roberta_hub.verbs.unanswered import ERRORS_SHOWN, Errors, answer_in_parts
from roberta_hub.verbs.vectors import sampled_ranges

MAX_THREADS = 1024
_ARGUMENTS = (
    "model",
    "revision",
    "text",
    "optimize",
    "vectors",
    "ranges",
    "errors",
    "device",
    "dtype",
    "threads",
    "prefix",
)
"""Arguments of the constructor, kept as attributes; engines such as Ray Data add others."""
FLOATS = ("float32", "float16")
"""Dtypes that any vectors have."""
_RANGES = Remedy(
    'pass ranges=roberta.embed(sample, dtype="int8").ranges, or the Parquet file that has them',
    "say --ranges FILE",
)
_LIST_OPTIONS = ("labels", "targets", "options")
_schemas: dict[str, Any] = {}


class Verb:
    """Answers each row of a table, in any process.

    It holds names only and pickles to less than 1 kB, so an engine can send it anywhere: Ray Data's
    `map_batches` and Spark's `mapInArrow` take it as it is. A process loads
    the model when it first needs it, and keeps it for all Verbs of the same model.

    Columns of the answers:
        classify, zero_shot   `label`, `score`; with `scores=True` also `scores`, a struct; where a
                              text may have several labels also `labels`, a list; where one may
                              be refused also `rejected`, and then `label` is null
        embed, features       `vector`, a FixedSizeList; features want `pooling`
        similarity            `similarity` of the two texts of a row, as `roberta.similarity`
        score                 `score`, `tokens`, `per_token`
        fill_mask             `words`: structs of mask, word, score, filled
        tag                   `spans`: structs of label, start, end, text, score
        answer                `answer`, `start`, `end`, `score`
        choose                `label`, `score`, `options`: structs of option, score
        rank                  `score` of query and text

    Example:
        >>> verb = Verb("zero_shot", labels=["sport", "art"], errors="column")
        >>> found = verb({"text": ["Goal!", None]})
        >>> found["label"][1] is None, sorted(found)
        (True, ['error', 'label', 'score', 'text'])
    """

    def __init__(
        self,
        verb: str,
        model: str | os.PathLike[str] = "roberta.tiny",
        *,
        revision: str | None = None,
        text: str | Sequence[str] | None = None,
        optimize: Optimize | None = None,
        device: str | None = None,
        dtype: str | None = None,
        threads: int | None = None,
        vectors: VectorDtype = "float32",
        ranges: Any = None,
        errors: Errors = "raise",
        prefix: str = "",
        **options: Any,
    ) -> None:
        """Check the arguments; nothing is loaded yet.

        Args:
            verb: classify, zero_shot, embed, features, similarity, score, fill_mask, tag, answer,
                choose or rank: the methods of `RobertaHubInterface` that answer row by row.
            model: a name or a path, as `load_model` takes it; a path that every machine sees.
            revision: of a model at Hugging Face: a branch, a tag or a commit, the same for every
                machine. None: the commit that the name means there; `lake` takes that of the
                machine that begins it for all.
            text: the column with the texts, or two for pairs. `answer` takes question and context,
                `choose` a text and then its options, unless `options` names the same for all. None
                takes the column `text`, or the only one.
            optimize: as `roberta.optimize`: "float32" prepacks the weights for the CPU, "int8" and
                "bfloat16" convert them, "auto" chooses by each machine's CPU. None: not optimized.
            device: "cuda", "cpu", "auto"; see `load_model`.
            dtype: "bfloat16", "float16"; of the weights, see `load_model`.
            threads: of torch. None is 1, since engines run many workers; `lake` divides the cores
                among its workers.
            vectors: dtype of vectors in the table, of `embed` all that its `dtype` takes, of
                `features` "float32" and "float16".
            ranges: of int8 vectors, as `embed` takes them. None: `lake` finds them in a sample of
                its source, and stores them beside the vectors.
            errors: of rows that cannot be answered, which have null answers. "column" says why in a
                column `error`. "raise" names them at the end of a lake, where all others are
                answered; for one table a missing text is a warning and any other fault an error.
            prefix: of the names of all answer columns.
            options: keywords of the verb, and batch_tokens, truncate, stride.

        Raises:
            UnknownNameError: no such verb, or none that answers each row separately.
            InputTypeError: an argument of another type, or a keyword that the verb does not take.
            InputError: an invalid value.
        """
        self.verb = _verb_of(verb)
        question = QUESTIONS[self.verb]
        if hasattr(model, "encode_batch"):
            raise InputTypeError(
                f"model is a {kind_of(model)}; a Verb goes to other processes, so pass a name, or "
                "the folder that roberta.save(folder) wrote"
            )
        path = path_text("model", model)
        self.model = os.path.abspath(path) if os.path.exists(path) else path
        self.revision = None if revision is None else text_of("revision", revision)
        self.text = _columns(text)
        one_of("optimize", optimize, (None, "float32", "int8", "bfloat16", "auto"))
        one_of("vectors", vectors, VECTOR_DTYPES)
        one_of("errors", errors, ("raise", "column"))
        self.optimize, self.vectors, self.errors = optimize, vectors, errors
        self.ranges = _ranges(self.verb, vectors, ranges)
        self.device = None if device is None else text_of("device", device)
        self.dtype = None if dtype is None else text_of("dtype", str(dtype).removeprefix("torch."))
        self.threads = None if threads is None else whole_number("threads", threads, 1, MAX_THREADS)
        self.prefix = text_of("prefix", prefix)
        if not is_utf8(self.prefix):
            raise InputError(f"prefix is {short_repr(prefix)}, which cannot be written as UTF-8")
        known = (question.keywords | SHARED_OPTIONS) - {*_ARGUMENTS}
        for name in options:
            if name not in known:
                raise unknown_keyword(self.verb, name, known)
        self.options = {name: _plain(name, options[name]) for name in sorted(options)}
        self._check_count()

    def __call__(self, table: Any) -> Any:
        """Answer every row of a table.

        Args:
            table: a Table or RecordBatch of pyarrow, a DataFrame of pandas or polars, a dict of
                columns; or an iterator of such tables, which gives an iterator.

        Returns:
            The same kind of table with the columns of the answers appended. A missing text gives
            null answers, and with errors="raise" a warning that names the rows: an engine that
            calls this for each part of a table continues.

        Raises:
            UnknownNameError: no such column, or no such model.
            InputError: with errors="raise", a row that cannot be answered; the message has its
                number. Or a column of that name is there already.
        """
        if is_stream(table):
            return map(self, table)
        names = column_names(table)
        if names is None or frame_kind(table) == "other":
            raise InputTypeError(
                f"the table is a {kind_of(table)}; pass a table of pyarrow, pandas or polars, a "
                "dict of columns, or an iterator of such tables"
            )
        columns = text_columns(names, self.text)
        rows = FRAME.texts_in([column_of(table, n) for n in columns], columns)
        found, faults = self.answers(rows)
        check_clash(names, found.column_names, Remedy("pass prefix=TEXT for other names"))
        if self.errors == "raise":
            _raise_or_warn(rows, faults)
        return append_columns(table, found)

    def __repr__(self) -> str:
        names = {
            name: value for name, value in self.arguments().items() if value not in (None, "", ())
        }
        inner = ", ".join(f"{name}={value!r}" for name, value in names.items())
        return f"Verb({self.verb!r}, {inner})"

    def replace(self, **changes: Any) -> Verb:
        """Return a copy with other arguments.

        Args:
            changes: arguments of the constructor.
        """
        arguments = {**self.arguments(), "text": self.text or None, **changes}
        return type(self)(self.verb, **arguments)

    def arguments(self) -> dict[str, Any]:
        """Return all arguments of the constructor but the verb, as plain values."""
        return {**{name: getattr(self, name) for name in _ARGUMENTS}, **self.options}

    def names(self) -> dict[str, Any]:
        """Return `arguments()`; deprecated."""
        message = "Verb.names() is now Verb.arguments()"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.arguments()

    def but(self, **changes: Any) -> Verb:
        """Return `replace(**changes)`; deprecated.

        Args:
            changes: arguments of the constructor.
        """
        message = "Verb.but() is now Verb.replace()"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.replace(**changes)

    def schema(self) -> Any:
        """Arrow schema of the answers; loads the model.

        Raises:
            RobertaHubError: the model cannot answer the verb, or not with these options.
        """
        return self._named(self._kinds().empty_table()).schema

    def digest(self) -> str:
        """Digest of the model's weights, labels, settings and vocabulary; loads the model.

        Models of the same digest give the same answers on the same kind of machine.
        """
        return self._loaded().digest

    def with_ranges_of(self, texts: list[Any]) -> Verb:
        """Return a copy whose int8 vectors have the ranges of some texts'; loads the model.

        Args:
            texts: str or tuples of them; those that cannot be embedded are left out.

        Raises:
            InputError: one text alone has no ranges.
        """
        floats = self.replace(vectors="float32")
        return self.replace(ranges=sampled_ranges(lambda rows: floats._ask(rows)["vector"], texts))

    def answers(self, rows: Sequence[RowTexts]) -> tuple[Any, dict[int, InputError]]:
        """Answer rows.

        Args:
            rows: see `RowTexts`.

        Returns:
            (a pyarrow Table with a row for each, the errors by row, those of missing texts too). An
            error does not name its row, only the part of it (an option) that is wrong.
        """
        pa, kinds = arrow(), self._kinds()
        asked = [i for i, row in enumerate(rows) if isinstance(row, (str, tuple))]
        faults = {i: InputError(row.why) for i, row in enumerate(rows) if isinstance(row, Fault)}
        parts = [kinds.empty_table()]
        places: list[int | None] = [None] * len(rows)  # of each row's answer in `parts`
        done = 0
        for start, part in self._parts([rows[i] for i in asked]):
            if isinstance(part, InputError):
                faults[asked[start]] = part
                continue
            for k in range(len(part)):
                places[asked[start + k]] = done + k
            done += len(part)
            parts.append(part)
        found = pa.concat_tables(parts).combine_chunks().take(pa.array(places, pa.int64()))
        return self._named(found, faults), dict(sorted(faults.items()))

    def _named(self, found: Any, faults: Mapping[int, InputError] | None = None) -> Any:
        """Prefix the names of the columns, and append `error` if wanted."""
        pa = arrow()
        if self.errors == "column":
            known = {} if faults is None else faults
            why = [str(known[i]) if i in known else None for i in range(len(found))]
            found = found.append_column("error", pa.array(why, pa.string()))
        return found.rename_columns([self.prefix + name for name in found.column_names])

    def _parts(self, texts: list[Any]) -> Iterator[tuple[int, Any]]:
        """Answer texts together; halve them to find a faulty one."""
        for start, found in answer_in_parts(self._ask, texts, lambda error: True):
            if isinstance(found, RobertaHubError):
                yield start, reason(found)
            else:
                yield start, as_table(found, self._kinds())

    def _ask(self, texts: list[Any]) -> Columns:
        roberta = self._loaded().roberta
        options = {**self.options, **self._precision()}
        with with_threads(self.threads or 1):
            return answer_rows(QUESTIONS[self.verb], roberta, texts, options)

    def _precision(self) -> dict[str, Any]:
        """Return the options of `embed` that make these vectors of fewer bytes."""
        if self.vectors in FLOATS:
            return {}  # Arrow's type makes them
        if self.vectors == "int8" and self.ranges is None:
            raise InputError("int8 vectors need ranges", remedy=_RANGES)
        return {"dtype": self.vectors, "ranges": self.ranges}

    def _kinds(self) -> Any:
        """Schema of the answers to an example, without the prefix."""
        key = json.dumps([self.verb, self.arguments()], sort_keys=True)
        if key not in _schemas:
            example = tuple(f"text {i} <mask>" for i in range(max(1, len(self.text))))
            found = self._ask([example if len(example) > 1 else example[0]])
            sample = QUESTIONS[self.verb].answer_format(self.options).sample
            _schemas[key] = schema(found, sample, self.vectors, self.ranges)
        return _schemas[key]

    def _loaded(self) -> LoadedModel:
        with with_threads(self.threads or 1):
            return load_once(self.model, self.revision, self.device, self.dtype, self.optimize)

    def _check_count(self) -> None:
        question = QUESTIONS[self.verb]
        parts = question.answer_format(self.options).parts
        least, count = parts.least, max(1, len(self.text))
        most = None if question.any_count else parts.most
        if count < least or (most is not None and count > most):
            needs = str(least) if least == most else f"{least} to {most}"
            needs = f"{least} or more" if most is None else needs
            raise InputError(
                f"text names {len(self.text)} columns, and {self.verb} takes {needs}"
                f"{question.what_columns and ': '}{question.what_columns}"
            )


def _raise_or_warn(rows: Sequence[RowTexts], faults: Mapping[int, InputError]) -> None:
    """Raise the first fault of a row; warn of missing texts."""
    missing = [row for row in faults if isinstance(rows[row], Missing)]
    for row, error in faults.items():
        if not isinstance(rows[row], Missing):
            error.within(f"row {row} of the table")
            raise error
    if missing:
        listed = ", ".join(map(str, missing[:ERRORS_SHOWN]))
        more = len(missing) - ERRORS_SHOWN
        advise(
            f"{row_count(len(missing))} of the table without a text: {listed}"
            + (f" and {more:,} more" if more > 0 else "")
            + '; their answers are null, and errors="column" says so in a column'
        )


def reason(error: RobertaHubError) -> InputError:
    """Copy an error without its traceback, which may keep a model alive."""
    place = None if isinstance(error.place, Place) else error.place
    return InputError(error.what, place=place, remedy=error.remedy)


def _verb_of(name: object) -> str:
    """Return the method name of a verb that answers each row separately."""
    text = text_of("verb", name).replace("-", "_")
    if text in QUESTIONS:
        return text
    near = close_names(text, QUESTIONS)
    hint = f"did you mean {near}? There are" if near else "there are"
    raise UnknownNameError(
        f"no verb {short_repr(name)} answers a row by itself; {hint} {', '.join(QUESTIONS)}"
    )


def _columns(text: object) -> tuple[str, ...]:
    if text is None:
        return ()
    names = (text,) if isinstance(text, str) else tuple(as_strings(text, "text", "columns' names"))
    if not names or len(set(names)) != len(names):
        raise InputError(f"text is {short_repr(text)}; name one column, or several different ones")
    return names


def _ranges(verb: str, vectors: str, ranges: Any) -> list[list[float]] | None:
    """Check the dtype of vectors, and return the ranges of int8 ones as plain numbers."""
    if vectors not in FLOATS and verb != "embed":
        raise InputError(f"vectors is {vectors!r}, which embed makes; {verb} has float32, float16")
    if ranges is None:
        return None
    from roberta_hub.inference.precision import ranges_for

    found = ranges_for(vectors, ranges)  # type: ignore[arg-type]  # checked
    return None if found is None else found.tolist()


def _plain(name: str, value: object) -> Any:
    """Return an option as a JSON value."""
    if value is not None and name in _LIST_OPTIONS:
        return as_strings(value, name, name)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise InputTypeError(f"{name} is a {kind_of(value)}; pass a text, a number, True or False")
