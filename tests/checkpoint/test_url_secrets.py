"""No user, password or key of a URL is shown or kept: messages, tracebacks, warnings, cache."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import GOOD, PATH, TOY, assert_model
from server import Answer, Server, body, cut, redirect, status

import roberta_hub
from roberta_hub import load_model
from roberta_hub.checkpoint.fetch import http
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.errors import Advice, DownloadError, InputError, RobertaHubError
from roberta_hub.shell.doctor import doctor
from roberta_hub.terminal import without_secrets_in

SECRET = "hush"
FAULTS: dict[str, Callable[[], Answer]] = {
    "not found": lambda: status(404),
    "refused": lambda: status(403),
    "fails": lambda: status(500),
    "breaks": lambda: cut(GOOD, 10),
    "leads away": lambda: redirect(f"http://me:{SECRET}@example.invalid/x?key={SECRET}"),
    "leads nowhere": lambda: redirect(f"https://[me:{SECRET}@/x?key={SECRET}"),
    "a circle": lambda: redirect(f"/toy?key={SECRET}"),
    "a page": lambda: body(b"<html>Log in</html>"),
    "damaged": lambda: body(GOOD[:-50]),
}


def told_by(call: Callable[[], object]) -> str:
    """All that a person may see of a call that fails: its message, warnings, and traceback."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(RobertaHubError) as error:
            call()
    shown = traceback.format_exception(error.value)
    return "".join([*shown, error.value.in_shell(), repr(error.value), *map(str, seen)])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", ["user", "query"])
def test_a_mirror_that_fails(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, fault: str, form: str
) -> None:
    host = server.url.removeprefix("http://")
    mirror = f"http://me:{SECRET}@{host}" if form == "user" else f"http://{host}/a?key={SECRET}"
    monkeypatch.setenv(http.MIRROR_ENV, mirror)
    for path in (PATH, f"/a?key={SECRET}{PATH}", f"/toy?key={SECRET}"):
        server.plan[path] = [FAULTS[fault]()]
    told = told_by(lambda: fetch_model(TOY))
    assert SECRET not in told and "***" in told


def test_one_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for mirror in (f"http://me:{SECRET}@127.0.0.1:9", f"http://x.invalid/?key={SECRET}"):
        monkeypatch.setenv(http.MIRROR_ENV, mirror)
        assert SECRET not in told_by(lambda: fetch_model(TOY))


def test_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv(http.MIRROR_ENV, "https://example.invalid")
    for proxy in (f"http://me:{SECRET}@127.0.0.1:9", f"http://me:{SECRET} {SECRET}@x:y"):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        assert SECRET not in told_by(lambda: fetch_model(TOY))


def test_nothing_of_it_is_kept(
    server: Server,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    host = server.url.removeprefix("http://")
    monkeypatch.setenv(http.MIRROR_ENV, f"http://me:{SECRET}@{host}")
    folder = fetch_model(TOY)
    assert_model(folder)
    for file in cache.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    doctor()
    assert SECRET not in capsys.readouterr().out


@pytest.mark.parametrize(
    "endpoint", [f"http://me:{SECRET}@127.0.0.1:9", f"http://127.0.0.1:9/x?key={SECRET}"]
)
def test_the_hub_that_is_asked(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    assert SECRET not in told_by(lambda: load_model("owner/name"))
    monkeypatch.setattr(constants, "ENDPOINT", endpoint.replace("http", "ftp"))
    assert SECRET not in told_by(lambda: load_model("owner/name"))


def test_addresses_that_a_caller_gives() -> None:
    address = f"https://me:{SECRET}@example.invalid/a.csv?key={SECRET}"
    for call in (
        lambda: load_model(address),
        lambda: roberta_hub.fit(address),
        lambda: roberta_hub.verify("roberta.tiny", address),
    ):
        assert SECRET not in told_by(call)


def test_every_error_hides_them() -> None:
    address = f"https://me:{SECRET}@host/a?key={SECRET}"
    error = InputError(f"{address!r} is odd", place=address)
    assert str(error) == "https://***@host/a?***: 'https://***@host/a?***' is odd"
    error.within(f"({address})")
    assert SECRET not in f"{error} {error!r} {error.what} {error.args} {Advice(address)}"
    assert without_secrets_in("is it a@b.c? no") == "is it a@b.c? no"


def test_causes_without_secrets_stay(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.plan[PATH] = [cut(GOOD, 10)]
    with pytest.raises(DownloadError) as error:
        fetch_model(TOY)
    assert error.value.__cause__ is not None
