"""Runs Python in forks of a small server that has imported torch and this package.

    forks.run("-c", code, "argument", cwd=folder)      as subprocess.run([sys.executable, ...])
    forks.start("-m", "roberta_hub", "classify")       as subprocess.Popen([sys.executable, ...])

A fork is a process of its own: its files, environment, signals, limits and end are real. It takes
milliseconds where a fresh interpreter takes seconds to import torch. What a test says about the
start itself (which modules an import takes, flags and variables that are read then, numbers of
threads) needs a fresh interpreter: `subprocess`, in a test that is marked `system`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from masked_cpu import mask_as_told

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = (
    "click",
    "filelock",
    "requests",
    "safetensors.torch",
    "tiktoken",
    "tqdm",
    "roberta_hub.hub",
    "roberta_hub.shell.main",
    "roberta_hub.shell.scan",
)
"""What the common server has imported; with torch, and all that these need."""
PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
MESSAGE = 1 << 20
"""Bytes that an order may have."""

starting = threading.Event()
"""Set while a server is started: the one fresh interpreter that a `unit` test may cause."""


class Process:
    """A fork, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, pid: int, status: socket.socket, ours: Sequence[IO[Any] | None], arguments: list[str]
    ) -> None:
        self.pid = pid
        self.args = arguments
        self.returncode: int | None = None
        self.peak = 0
        """Bytes of memory at its peak, once it has ended."""
        self.stdin, self.stdout, self.stderr = ours
        self._status = status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return its exit status, or minus the signal that ended it."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                told = self._status.recv(64)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            assert told, "the server of forks has ended"
            self.returncode, self.peak = map(int, told.split())
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(1e-6)
        return None

    def send_signal(self, sent: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(
        self, input: Any = None, timeout: float | None = None
    ) -> tuple[Any | None, Any | None]:
        """Write all input, read both ends to their end, and wait."""
        found: dict[str, Any] = {}

        def read(name: str, stream: IO[Any]) -> None:
            found[name] = stream.read()

        def write(stream: IO[Any]) -> None:
            with contextlib.suppress(BrokenPipeError), stream:
                if input:
                    stream.write(input)

        jobs = [
            threading.Thread(target=read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.stdout), ("stderr", self.stderr))
            if stream is not None
        ]
        if self.stdin is not None:
            jobs.append(threading.Thread(target=write, args=(self.stdin,), daemon=True))
        until = None if timeout is None else time.monotonic() + timeout
        for job in jobs:
            job.start()
        for job in jobs:
            job.join(None if until is None else max(0, until - time.monotonic()))
            if job.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until is None else max(1e-3, until - time.monotonic()))
        return found.get("stdout"), found.get("stderr")

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                stream.close()
        self.wait()


class Server:
    """A process that imports modules once and forks for every order."""

    def __init__(self, preload: Sequence[str] = PRELOADED, **environment: str) -> None:
        """Describe a server, which starts with its first fork.

        Args:
            preload: modules to import; `module:function` is called besides, without arguments.
            environment: variables that it has while it imports, beside those of this process.
        """
        self.preload = preload
        self.environment = environment
        self._control: socket.socket | None = None

    def _started(self) -> socket.socket:
        if self._control is None:
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
            # A pool of threads would not survive the forks.
            own = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            own["PYTHONPATH"] = os.pathsep.join(filter(None, path))
            starting.set()
            try:
                subprocess.Popen(
                    [sys.executable, __file__, str(there.fileno()), *self.preload],
                    env={**os.environ, **own, **self.environment},
                    pass_fds=[there.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            finally:
                starting.clear()
            there.close()
            atexit.register(here.close)
            self._control = here
        return self._control

    def start(
        self,
        *arguments: object,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = True,
        start_new_session: bool = False,
    ) -> Process:
        """Fork and run what a Python would run with these arguments: `-c`, `-m` or a script's path.

        Args:
            arguments: of the interpreter; paths may be given as they are. `-W` may come first.
            cwd: where it runs; None: where this process does.
            env: its environment; None: this process's.
            stdin: `PIPE`, `DEVNULL` or a file; None: this process's own; as the next two.
            stdout: as `stdin`.
            stderr: as `stdin`; `STDOUT` joins it to `stdout`.
            text: whether pipes are of text, in UTF-8.
            start_new_session: whether it leads a session of its own.
        """
        order = {
            "arguments": [
                os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in arguments
            ],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        with contextlib.ExitStack() as given:
            ends = [_end(given, number, what) for number, what in enumerate((stdin, stdout))]
            ends.append((ends[1][0], None) if stderr == STDOUT else _end(given, 2, stderr))
            status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            given.callback(theirs.close)
            message = json.dumps(order).encode()
            assert len(message) < MESSAGE
            control = self._started()
            control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE)
            files = [*(end for end, _ in ends), theirs.fileno()]
            socket.send_fds(control, [message], files)
        told = status.recv(64)
        assert told, "the server of forks has ended"
        modes = ("w", "r", "r") if text else ("wb", "rb", "rb")
        encoding = "utf-8" if text else None
        ours = [
            None if our is None else open(our, mode, encoding=encoding)  # noqa: SIM115
            for (_, our), mode in zip(ends, modes, strict=True)
        ]
        return Process(int(told), status, ours, order["arguments"])

    def run(
        self,
        *arguments: object,
        input: Any = None,
        timeout: float = 120,
        check: bool = False,
        **more: Any,
    ) -> subprocess.CompletedProcess[Any]:
        """Fork, run and wait, with both outputs captured.

        Args:
            arguments: as of `start`.
            input: what it reads; None: nothing.
            timeout: seconds, after which it is killed and `subprocess.TimeoutExpired` is raised.
            check: whether an exit status other than 0 raises `subprocess.CalledProcessError`.
            more: `cwd`, `env`, `stderr`, `text` as of `start`.
        """
        pipes = {"stdin": DEVNULL if input is None else PIPE, "stdout": PIPE, "stderr": PIPE}
        process = self.start(*arguments, **{**pipes, **more})
        with process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(process.args, process.wait(), out, err)
        if check:
            done.check_returncode()
        return done


def _end(
    given: contextlib.ExitStack, number: int, what: int | IO[Any] | None
) -> tuple[int, int | None]:
    """(The descriptor that a fork gets, ours at the other end of a pipe)."""
    if what == PIPE:
        read, write = os.pipe()
        theirs, our = (read, write) if number == 0 else (write, read)
        given.callback(os.close, theirs)
        return theirs, our
    if what == DEVNULL:
        null = os.open(os.devnull, os.O_RDWR)
        given.callback(os.close, null)
        return null, None
    if what is None:
        return number, None
    return what if isinstance(what, int) else what.fileno(), None


_common = Server()
start: Callable[..., Process] = _common.start
run: Callable[..., subprocess.CompletedProcess[Any]] = _common.run


# ---- the server ----


def serve(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each order and tell how each fork ends; returns in the forks only."""
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is not control:
                pid, status = key.data
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                _, code, usage = os.wait4(pid, 0)
                with contextlib.suppress(OSError), status:
                    told = f"{os.waitstatus_to_exitcode(code)} {usage.ru_maxrss * 1024}"
                    status.send(told.encode())
                continue
            message, files, _, _ = socket.recv_fds(control, MESSAGE, 4)
            if not message:
                os._exit(0)  # the tests have ended
            *streams, number = files
            pid = os.fork()
            if pid == 0:
                # What runs the tests in the background may ignore it, and the server with it.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                waiting.close()
                control.detach()
                os.close(number)
                return json.loads(message), streams
            for stream in streams:
                os.close(stream)
            status = socket.socket(fileno=number)
            status.send(str(pid).encode())
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def become(order: dict[str, Any], streams: list[int]) -> list[str]:
    """Make this fork what a fresh process would be; return its arguments."""
    if order["session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 4096)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, number, mode in (("stdin", 0, "rb"), ("stdout", 1, "wb"), ("stderr", 2, "wb")):
        by_lines = os.isatty(number) or name == "stderr"
        how = errors or ("backslashreplace" if name == "stderr" else "strict")
        stream = io.TextIOWrapper(
            open(number, mode, closefd=False),  # noqa: SIM115
            encoding or "utf-8",
            how,
            line_buffering=by_lines,
            write_through=at_once,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return order["arguments"]


def execute(arguments: list[str], base: list[str]) -> None:
    """Run what an interpreter runs with these arguments."""
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        arguments = arguments[2:]
    what, *sys.argv = arguments
    around = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *around, *base]
    if what == "-c":
        code, sys.argv[0] = sys.argv[0], "-c"
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))
    elif what == "-m":
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [what, *sys.argv]
        sys.path[0] = os.path.dirname(os.path.abspath(what))
        runpy.run_path(what, run_name="__main__")


def ran(code: Callable[[], None]) -> int:
    """Run to the end; return the exit status."""
    try:
        code()
    except SystemExit as asked:
        if asked.code is None or isinstance(asked.code, int):
            return (asked.code or 0) & 0xFF
        print(asked.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(status: int) -> NoReturn:
    """End as an interpreter does, but that modules are not taken apart, which takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def preload(names: Sequence[str]) -> None:
    for name in names:
        module, _, function = name.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()
    gc.freeze()  # else the first collection in a fork copies every page


def main() -> None:
    number, *names = sys.argv[1:]
    around = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    base = [path for path in sys.path[1:] if path not in around]
    mask_as_told()
    preload(names)
    order, streams = serve(socket.socket(fileno=int(number)))
    arguments = become(order, streams)
    end(ran(lambda: execute(arguments, base)))


if __name__ == "__main__":
    main()
