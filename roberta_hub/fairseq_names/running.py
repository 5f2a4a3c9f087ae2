"""Runs a script or a module as Python runs it, with fairseq's names answered by ours."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType

from roberta_hub.fairseq_names.importing import as_fairseq


def run(words: Sequence[str]) -> int:
    """Run a script or a module in this process, whose main module it becomes.

    `sys.argv`, `sys.path`, `__main__`, exit statuses, signals and tracebacks are those of
    `python SCRIPT ARGUMENTS` or `python -m MODULE ARGUMENTS`.

    Args:
        words: the script's path, or "-m" and the module's name, then its arguments.

    Returns:
        The exit status, where the script ends without one of its own.
    """
    as_fairseq()
    if words[0] == "-m":
        return _run_module(words[1], words[2:])
    sys.argv = list(words)
    path = os.path.abspath(words[0])
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        _as_python(lambda: runpy.run_path(words[0], run_name="__main__"))
        return 0
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"roberta-hub run: can't open file {path!r}: {reason}", file=sys.stderr)
        return 2
    _set_path(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main(path)
    _as_python(lambda: exec(compile(source, path, "exec", dont_inherit=True), vars(main)))
    return 0


def _run_module(name: str, arguments: Sequence[str]) -> int:
    sys.argv = ["-m", *arguments]
    _set_path(os.getcwd())
    found: list[CodeType] = []

    def find_and_run() -> None:
        spec = _spec_of(name)
        code = spec.loader.get_code(spec.name) if spec is not None else None  # type: ignore[union-attr]
        if spec is None or code is None:
            return
        found.append(code)
        sys.argv[0] = str(spec.origin)
        main = _fresh_main(str(spec.origin))
        vars(main).update(__spec__=spec, __package__=spec.parent, __loader__=spec.loader)
        vars(main).update(__cached__=spec.cached)
        exec(code, vars(main))

    _as_python(find_and_run)
    if not found:
        print(f"roberta-hub run: No module named {name}", file=sys.stderr)
        return 1
    return 0


def _spec_of(name: str) -> ModuleSpec | None:
    """Find a module, or the `__main__` of a package; its parents are imported."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package on the way to it lacks another
        return None
    return spec


def _set_path(folder: str) -> None:
    """Put the folder where modules are looked for first, as Python does unless told not to."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _fresh_main(path: str) -> ModuleType:
    """Make the module `__main__` of a file."""
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=builtins, __cached__=None, __package__=None)
    vars(main)["__loader__"] = SourceFileLoader("__main__", path)
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    sys.modules["__main__"] = main
    return main


def _as_python(action: Callable[[], object]) -> None:
    """Run it; if it fails, Python shows its frames without ours."""
    try:
        action()
    except BaseException as error:
        own = _of_script(error.__traceback__)
        hook = sys.excepthook

        def show(kind: type[BaseException], value: BaseException, _: TracebackType | None) -> None:
            hook(kind, value.with_traceback(own), own)

        sys.excepthook = show
        raise


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the script's first frame on."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace
