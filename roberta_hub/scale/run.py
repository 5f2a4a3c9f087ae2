"""Runs a lake: plans or resumes it, schedules the units, checks and finishes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from roberta_hub.arguments import kind_of, one_of, short_repr, whole_number
from roberta_hub.errors import InputError, InputTypeError, LakeError, Remedy, sentence
from roberta_hub.rows.columns import check_clash
from roberta_hub.scale import plan as plans
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.merge import check_one_file, discard, merge, merged_note
from roberta_hub.scale.outputs import is_local, list_files, read_json_file, sweep, write
from roberta_hub.scale.plan import Plan
from roberta_hub.scale.source_schema import SourceSchema, find_schema, sample_texts
from roberta_hub.scale.sources import LakeSource, changed, find_filesystem, find_source, would_read
from roberta_hub.scale.status import (
    FAILED_FILE,
    MANIFEST_FILE,
    SUCCESS_FILE,
    Report,
    folder_of,
    is_one_file,
)
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.verb import Verb
from roberta_hub.scale.work import (
    ENDS_WITH_FILE,
    TIME_LIMIT,
    Done,
    FooterNote,
    Job,
    Scheduler,
    SchedulerOptions,
    file_name,
    read_footer,
    this_worker,
    total,
)
from roberta_hub.signals import cleared
from roberta_hub.terminal import progress_bar
from roberta_hub.text.texts import as_strings
from roberta_hub.verbs.unanswered import Errors, joined_remedies, unanswered

UNIT_ROWS = 50_000
ATTEMPTS = 3
CHECK_ROUNDS = 3
"""Times that the files are checked at the end, and damaged units repeated."""
FOOTER_READERS = 16
"""Threads that read footers."""
UNITS_SHOWN = 3
"""Failed units that an error describes."""


def lake(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    verb: Verb,
    *,
    engine: Literal["processes", "ray"] = "processes",
    workers: int | None = None,
    unit_rows: int = UNIT_ROWS,
    keep: Sequence[str] | None = None,
    errors: Errors | None = None,
    part: tuple[int, int] | None = None,
    address: str | None = None,
    time_limit: float = TIME_LIMIT,
    attempts: int = ATTEMPTS,
    progress: bool | None = None,
) -> Report:
    r"""Run a verb over files of texts: batch inference on one machine or a cluster.

    The source is cut into units of work. Each unit writes one file of answers to the target, with
    the rows in the order of the source. The same call resumes an interrupted run: a unit with a
    file is not repeated. If a process or a machine dies, no row is lost and none is duplicated.

    Args:
        source: Parquet, JSONL or CSV: a file, a folder, a pattern (`in/*.parquet`), an address of
            pyarrow.fs (`s3://bucket/in`), or a list of these.
        target: folder, made if missing; or a name that ends in .parquet, for one file that is
            merged when all units are done.
        verb: the verb to run.
        engine: runs the units: "processes" on this machine; "ray" on a cluster, or on this machine
            if there is no cluster.
        workers: number of workers, each with a copy of the model. None: with "processes" one per
            four cores, or no worker if this process alone is faster; with "ray" one per machine or
            GPU.
        unit_rows: approximate rows of a unit, which makes one file of answers.
        keep: columns of the source to copy to the answers; None: all.
        errors: what happens to rows without an answer: no text, a text that is too long, a broken
            line. Their answers are null, and all other rows are answered. "raise" ends with an
            error that names their files and rows. "column" writes the reason to a column `error`.
            None: as the verb.
        part: (k, n) runs the k-th of n parts of the units, counted from 1, for n machines that
            share only a disk.
        address: address of the Ray cluster; "auto" finds it.
        time_limit: limit in seconds for one attempt at a unit.
        attempts: maximum number of attempts at a unit whose worker dies.
        progress: show a progress bar; None: in a terminal or notebook.

    Returns:
        The numbers of units and rows that are done, failed and left.

    Raises:
        InputError: the source cannot be read; or the target belongs to something else, or to
            another model, verb, source or other options.
        LakeError: some units failed, or with errors="raise" some rows have no answer. All others
            are done. Its `report` lists them.
        MissingExtraError: pyarrow or ray is not installed.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "in.csv").write_text("id,text\n1,Goal!\n2,A painter drew.\n")
        >>> verb = Verb("zero_shot", labels=["sport", "art"])
        >>> report = lake(folder / "in.csv", folder / "out", verb, workers=1)
        >>> report.rows, report.units, report.left
        (2, 1, 0)
    """
    clock = time.monotonic
    began = clock()
    if not isinstance(verb, Verb):
        raise InputTypeError(f"verb is a {kind_of(verb)}; pass Verb('classify', ...)")
    verb = verb if errors is None else verb.replace(errors=errors)
    one_of("engine", engine, ("processes", "ray"))
    kept = None if keep is None else as_strings(keep, "keep", "columns' names")
    unit_rows = whole_number("unit_rows", unit_rows, 1)
    if not (isinstance(time_limit, (int, float)) and time_limit > 0):
        raise InputError(f"time_limit is {short_repr(time_limit)}; it is in seconds, above 0")
    count = None if workers is None else whole_number("workers", workers, 1)
    schedule = SchedulerOptions(count, time_limit, whole_number("attempts", attempts, 1), address)
    run_units, threads = _find_scheduler(engine, schedule)

    files = find_source(source)
    system, path = find_filesystem(target, "target")
    with _disk_errors_explained(path):
        folder = folder_of(path)
        _check_target(files, system, folder, path)
        plan = plans.load(system, folder)
        verb, named = at_one_commit(verb, plan)
        source_schema = find_schema(files, verb.text, kept)
        given = verb.ranges
        verb = _with_ranges(verb, plan, files, source_schema)
        plain = verb.replace(
            text=source_schema.text, device=None, optimize=None
        )  # any machine can load that
        check_clash(
            source_schema.keep.names,
            plain.schema().names,
            Remedy(
                "keep others, or pass Verb(prefix=TEXT)", "--keep names the columns that are kept"
            ),
        )
        cores = verb.threads or (plan.settings["threads"] if plan else threads)
        settings = plans.collect_settings(verb, source_schema, plain.digest(), cores, unit_rows)
        sampled = {} if given else {"ranges": None}  # they follow from the rest
        identity = plans.lake_digest(settings | sampled, files.files)

        def finished() -> Report | None:
            """Report the merged file if it exists: another driver may have written it."""
            merged = merged_note(path, identity) if is_one_file(path) else None
            return None if merged is None else _report(path, *merged, clock() - began)

        same = plan is None or plans.lake_digest(plan.settings | sampled, plan.files) == identity
        if same and (report := finished()):
            discard(folder, path)
            return _checked(report, verb)
        plan = plan or _begin(system, folder, settings, source_schema, files, named)
        if not given:  # another driver may have begun it
            settings["ranges"] = plan.settings.get("ranges")
        plans.check_same(plan, settings, files, folder)
        verb = verb.replace(ranges=settings["ranges"])

        job = plan.job(files, system, folder, verb)
        with cleared(lambda: sweep(system, folder, job.run)):
            try:
                state = _work(
                    job, plan, _units_of_part(plan.units, part), run_units, schedule, progress
                )
                left = len(plan.units) - len(state.notes) - len(state.unread)
                if not left and is_one_file(path):
                    merge(job, plan.units, path, identity)
            except OSError:  # the other driver's merge has removed what this one was reading
                if report := finished():
                    return _checked(report, verb)
                raise
        if left and (report := finished()):
            return _checked(report, verb)
    note = total(state.notes[number] for number in sorted(state.notes))
    here = any(done.worker == this_worker() for done in state.ended.values())
    report = replace(
        _report(path, note, len(plan.units), clock() - began),
        done=tuple(done for done in state.ended.values() if done.end == "done"),
        failed=tuple(done for done in state.ended.values() if done.end not in ENDS_WITH_FILE),
        left=left,
        rows=note.rows + sum(unit.rows for unit in state.unread),
        in_process=here,
        why_in_process=_why_in_process() if here else "",
    )
    return _checked(report, verb)


def _report(path: str, note: FooterNote, units: int, seconds: float) -> Report:
    """Make the report of what is in the files."""
    return Report(
        path,
        units,
        rows=note.rows,
        faults=note.faults,
        missing=note.missing,
        words=note.words,
        errors=note.errors,
        seconds=seconds,
    )


def _checked(report: Report, verb: Verb) -> Report:
    """Return the report of a run, or raise what it has to say of units and rows."""
    if report.failed:
        raise _failure(report)
    if report.faults and verb.errors == "raise":
        raise _unanswered(report)
    return report


@contextmanager
def _disk_errors_explained(path: str) -> Iterator[None]:
    """Turn OSErrors outside of the units (plan, manifest, merged file) into InputErrors."""
    try:
        yield
    except OSError as error:
        what = f"{str(error.filename or path)[:300]}: {error.strerror or error}"
        raise InputError(f"stopped, and the same call goes on once it can: {what}") from None


def _find_scheduler(name: str, schedule: SchedulerOptions) -> tuple[Scheduler, int]:
    """Return a scheduler, and the default number of threads of its workers."""
    if name == "ray":
        from roberta_hub.scale import on_ray

        return on_ray.run_units, on_ray.threads(schedule)
    from roberta_hub.scale import processes

    return processes.run_units, processes.threads(schedule)


def _why_in_process() -> str:
    from roberta_hub.scale import processes

    return processes.why_in_process()


def _units_of_part(units: Sequence[WorkUnit], part: tuple[int, int] | None) -> Sequence[WorkUnit]:
    if part is None:
        return units
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        raise InputError(f"part is {short_repr(part)}; pass (k, n), the k-th of n, from 1")
    n = whole_number("part[1]", part[1], 1)
    return units[whole_number("part[0]", part[0], 1, n) - 1 :: n]


# ---- begin ----


def _check_target(source: LakeSource, system: Any, folder: str, path: str) -> None:
    """Refuse a target that contains the source or belongs to something else."""
    if system == source.system:
        real = os.path.realpath if is_local(system) else str  # a link may lead into the source
        seen = replace(source, folders=tuple(map(real, source.folders)))
        answers = [f"{folder}/part.parquet", *([path] if is_one_file(path) else [])]
        if any(would_read(seen, name) or would_read(seen, real(name)) for name in answers):
            raise InputError(
                f"{path} is inside the source, which would read it; give another target"
            )
        files = [real(file.path) for file in source.files]
        if any(file.startswith(f"{real(folder)}/") or file == real(path) for file in files):
            raise InputError(f"{path} holds the source; give another target")
    kind = arrow().fs.FileType
    if is_one_file(path):
        check_one_file(system, path)
    elif system.get_file_info(folder).type == kind.File:
        raise InputError(f"{folder} is a file; give a folder, or a name that ends in .parquet")


def at_one_commit(verb: Verb, plan: plans.Plan | None) -> tuple[Verb, tuple[str, str] | None]:
    """Say the commit of a model at Hugging Face, so that every worker takes the same.

    A lake that was begun resumes at the commit of its plan, whatever the name means by now.
    """
    from roberta_hub.formats.source import meaning  # takes torch

    _, name = meaning(verb.model, verb.revision)
    if name is None:
        return verb, None
    begun = None if plan is None or verb.revision is not None else plan.named
    if begun is not None and begun[0] == name:
        commit = begun[1]
    else:
        from roberta_hub.formats.repository import commit_of

        commit = commit_of(name, verb.revision)
    return verb.replace(revision=commit), (name, commit)


def _with_ranges(
    verb: Verb, plan: plans.Plan | None, files: LakeSource, source_schema: SourceSchema
) -> Verb:
    """Choose the ranges of int8 vectors: those a lake was begun with, else a sample's."""
    if verb.vectors != "int8" or verb.ranges is not None:
        return verb
    begun = None if plan is None else plan.settings.get("ranges")
    if begun is not None:
        return verb.replace(ranges=begun)
    return verb.with_ranges_of(sample_texts(files, source_schema.text))


def _begin(
    system: Any,
    folder: str,
    settings: dict[str, Any],
    source_schema: SourceSchema,
    files: LakeSource,
    named: tuple[str, str] | None,
) -> Plan:
    """Write the plan of the lake; if another driver was first, use its plan."""
    names = list_files(system, folder)
    others = [name for name in names if not name.startswith((".", "_"))]
    if others and plans.PLAN_FILE not in names:
        raise InputError(
            f"{folder} holds {short_repr(others[0])} and no plan of a lake; give a folder of its "
            "own"
        )
    plan = plans.load(system, folder) or plans.make_plan(settings, source_schema, files, named)
    if is_local(system):
        os.makedirs(folder, exist_ok=True)
    plans.save(plan, system, folder)
    return plans.load(system, folder) or plan


# ---- work ----


@dataclass
class _State:
    """Progress of the units."""

    notes: dict[int, FooterNote]
    """Footers of files that exist and are complete, by unit."""
    ended: dict[int, Done]
    """Results of the units that this run did."""
    unread: tuple[WorkUnit, ...] = ()
    """Units whose files exist and are checked after the last one."""

    def take(self, done: Done) -> None:
        """Record a result; InputError if no unit can be done."""
        if done.end == "stop":
            error = done.errors[0]
            said = f"stopped, and the same call goes on: {sentence(error.what, error.place)}"
            raise InputError(said, remedy=error.remedy)
        self.ended[done.unit] = done
        if done.end in ENDS_WITH_FILE:
            self.notes[done.unit] = FooterNote(
                done.rows, done.faults, done.missing, done.words, done.errors
            )


def _work(
    job: Job,
    plan: Plan,
    units: Sequence[WorkUnit],
    engine: Scheduler,
    schedule: SchedulerOptions,
    progress: bool | None,
) -> _State:
    """Do the units without a file; once all have one, check them and finish."""
    names = list_files(job.system, job.folder)
    state = _State(_from_manifest(job, plan, names), {})
    todo = [unit for unit in units if file_name(job.fingerprint, unit) not in names]
    rows, ahead = sum(unit.rows for unit in units), sum(unit.rows for unit in todo)
    with progress_bar(rows, unit=" rows", shown=progress, start=rows - ahead) as bar:
        told = replace(schedule, tell=bar.set_description_str)
        for _ in range(CHECK_ROUNDS):
            if todo:
                # Closed at once, so that no worker outlives an error.
                with closing(engine(job, todo, told)) as ended:
                    for done in ended:
                        state.take(done)
                        bar.update(plan.units[done.unit].rows)
            names = list_files(job.system, job.folder)
            there = [unit for unit in plan.units if file_name(job.fingerprint, unit) in names]
            if len(there) < len(plan.units):
                state.unread = tuple(unit for unit in there if unit.number not in state.notes)
                break  # checked once all units have one
            unknown = [unit for unit in there if unit.number not in state.notes]
            state.notes |= _read_footers(job, unknown)
            todo = [unit for unit in unknown if unit.number not in state.notes]  # damaged
            if not todo:
                _finish(job, plan, state, names)
                break
    _write_failed(job, state, names)
    return state


def _from_manifest(job: Job, plan: Plan, names: dict[str, Any]) -> dict[int, FooterNote]:
    """Footers of files that have not changed since they were last checked."""
    if SUCCESS_FILE not in names or MANIFEST_FILE not in names:
        return {}
    files = read_json_file(job.system, f"{job.folder}/{MANIFEST_FILE}").get("files", [])
    known = {name: (size, at, note) for name, size, at, note in files}
    notes = {}
    for unit in plan.units:
        name = file_name(job.fingerprint, unit)
        size, at, note = known.get(name, (None, None, {}))
        if name in names and (names[name].size, changed(names[name])) == (size, at):
            notes[unit.number] = FooterNote.read(note)
    return notes


def _read_footers(job: Job, units: Sequence[WorkUnit]) -> dict[int, FooterNote]:
    """Read the footers of files in parallel; damaged files are left out."""
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        found = zip(units, pool.map(lambda unit: read_footer(job, unit), units), strict=True)
        return {unit.number: note for unit, note in found if note is not None}


def _finish(job: Job, plan: Plan, state: _State, names: dict[str, Any]) -> None:
    """Write the manifest and `_SUCCESS`; remove leftovers of killed workers."""
    if SUCCESS_FILE in names and not state.ended:
        return
    files = []
    for unit in plan.units:
        name = file_name(job.fingerprint, unit)
        note = state.notes[unit.number]
        files.append((name, names[name].size, changed(names[name]), note.saved()))
    manifest = {
        "fingerprint": job.fingerprint,
        "rows": sum(note.rows for note in state.notes.values()),
        "faults": sum(note.faults for note in state.notes.values()),
        "files": files,
    }
    write(job.system, f"{job.folder}/{MANIFEST_FILE}", json.dumps(manifest).encode(), job.run)
    write(job.system, f"{job.folder}/{SUCCESS_FILE}", b"", job.run)
    sweep(job.system, job.folder)


def _write_failed(job: Job, state: _State, names: dict[str, Any]) -> None:
    """Record why units failed, for `status`; keep other drivers' records of missing units."""
    path = f"{job.folder}/{FAILED_FILE}"
    before = read_json_file(job.system, path) if FAILED_FILE in names else {}
    failed = {n: why for n, why in before.items() if n not in set(map(str, state.notes))}
    failed |= {
        str(n): end.why[0] for n, end in state.ended.items() if end.end not in ENDS_WITH_FILE
    }
    if failed != before:
        write(job.system, path, json.dumps(failed, ensure_ascii=False).encode(), job.run)


def _unanswered(report: Report) -> LakeError:
    """Error for rows without an answer, whose neighbours have one."""
    what, remedy = unanswered(report.errors, report.faults, report.missing, report.rows)
    error = LakeError(what, remedy=remedy)
    error.report = report
    return error


def _failure(report: Report) -> LakeError:
    found = [done.errors[0] for done in report.failed]
    whys = "; ".join(sentence(error.what, error.place) for error in found[:UNITS_SHOWN])
    rest = f"; and {len(found) - UNITS_SHOWN} more" if len(found) > UNITS_SHOWN else ""
    remedy = Remedy("the same call tries them again")
    if all(done.end == "input" for done in report.failed):
        remedy = Remedy("fix the files, and start again")
    error = LakeError(
        f"{len(found)} of {report.units} units have no file, all others have: {whys}{rest}",
        remedy=joined_remedies(found[:UNITS_SHOWN], remedy),
    )
    error.report = report
    return error
