"""An address leads where it was checked to lead, however it is written.

127.0.0.2 is a host of its own that this machine answers, and no name of it that plain http may go
to. Nothing may ask it; what an address of the list reaches is our own server, or nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from archives import GOOD, PATH, TOY, assert_model
from server import Handler, Server, body, redirect

from roberta_hub.checkpoint.fetch import http
from roberta_hub.checkpoint.fetch.download import ENDPOINT_ENV, fetch_model
from roberta_hub.checkpoint.fetch.records import Record, repository
from roberta_hub.errors import DownloadError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs all of 127.0.0.0/8")


THEIRS = Record(name="theirs", origins=(repository("FacebookAI/roberta-large-mnli"),))


class Other(Server):
    """A server at another address, which gives the same files."""

    def __init__(self) -> None:
        super().__init__()
        self.server_close()
        super(Server, self).__init__(("127.0.0.2", 0), Handler)
        self.plan = Everything()


class Everything(dict):  # type: ignore[type-arg]
    """A plan with an answer for every path."""

    def get(self, path: str, default: object = None) -> object:
        return super().get(path) or [body(GOOD)]


@pytest.fixture
def other() -> Iterator[Server]:
    with Other() as running:
        yield running


TRICKS = [
    "http://OTHER",
    "HTTP://OTHER",
    "http://OTHER\\@OWN",
    "http://OTHER\\\\@OWN",
    "http://OTHER/\\@OWN",
    "http:\\\\OTHER",
    "http://OWN@OTHER",
    "http://OWN\\@OTHER",
    "http://OWN;@OTHER",
    "http://OWN%40@OTHER",
    "http://OWN#@OTHER",
    "http://OWN?@OTHER",
    "http://OTHER#@OWN",
    "http://OTHER?@OWN",
    "http://OTHER%2f@OWN",
    "http://OTHER%5c@OWN",
    "http://OTHER%00@OWN",
    "http://a:b@OTHER",
    "http://a@OWN@OTHER",
    "http://a@OTHER@OWN",
    "http://OTHER ",
    " http://OTHER",
    "http://OTHER\t",
    "ht\ttp://OTHER",
    "http://OTHER\t\\@OWN",
    "http://[::ffff:127.0.0.2]:PORT",
    "http://127.2:PORT",
    "http://0x7f000002:PORT",
    "http://2130706434:PORT",
    "http://0177.0.0.2:PORT",
    "http://127.0.0.1.example.invalid",
    "http://127.0.0.1%2eexample.invalid",
    "http://localhost%00.example.invalid",
    "http://example.invalid\\.localhost",
    "http://\uff11\uff12\uff17.0.0.2:PORT",
    "http://127\u30020\u30020\u30022:PORT",
    "http:///OTHER",
    "http:/OTHER",
    "http:OTHER",
    "//OTHER",
    "\\\\OTHER",
    "/\\OTHER",
    "ftp://OTHER",
    "file:///etc/passwd",
    "javascript:OTHER",
]
"""How other hosts are written so that a check may miss them; OWN is the server that is allowed."""
KEPT = ["http://OWN", "HTTP://OWN", "http://LOCALHOST:OWNPORT", "http://me:word@OWN"]
"""What is this machine, however it is written."""


def written(trick: str, own: Server, other: Server) -> str:
    places = {
        "OWNPORT": str(own.server_address[1]),
        "PORT": str(other.server_address[1]),
        "OTHER": other.url.removeprefix("http://").replace("127.0.0.1", "127.0.0.2"),
        "OWN": own.url.removeprefix("http://"),
    }
    for name, place in places.items():
        trick = trick.replace(name, place)
    return trick


def test_the_other_server_is_there(other: Server, tmp_path: Path) -> None:
    """So that a test without a hit says something."""
    import requests

    url = written("http://OTHER", other, other) + PATH
    assert requests.get(url, timeout=10).content == GOOD
    assert other.hits[PATH] == 1


@pytest.mark.parametrize("trick", TRICKS)
def test_the_address_of_a_file(server: Server, other: Server, tmp_path: Path, trick: str) -> None:
    server.plan = Everything()
    with suppress(DownloadError):
        http.receive(written(trick, server, other) + PATH, tmp_path / "file")
    assert sum(other.hits.values()) == 0, dict(other.hits)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_redirect(server: Server, other: Server, tmp_path: Path, trick: str) -> None:
    server.plan = Everything()
    server.plan["/from"] = [redirect(written(trick, server, other).encode().decode("latin-1"))]
    with suppress(DownloadError):
        http.receive(f"{server.url}/from", tmp_path / "file")
    assert server.hits["/from"] > 0
    assert sum(other.hits.values()) == 0, dict(other.hits)


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("variable", [http.MIRROR_ENV, ENDPOINT_ENV])
def test_a_mirror_and_an_endpoint(
    server: Server, other: Server, monkeypatch: pytest.MonkeyPatch, trick: str, variable: str
) -> None:
    server.plan = Everything()
    monkeypatch.setenv(variable, written(trick, server, other))
    with suppress(DownloadError):
        fetch_model(THEIRS if variable == ENDPOINT_ENV else TOY)
    assert sum(other.hits.values()) == 0, dict(other.hits)


@pytest.mark.parametrize("kept", KEPT)
def test_this_machine_is_reached_however_it_is_written(
    server: Server, other: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: str
) -> None:
    monkeypatch.setenv(http.MIRROR_ENV, written(kept, server, other))
    assert_model(fetch_model(TOY))
    server.plan["/from"] = [redirect(written(kept, server, other) + PATH)]
    http.receive(f"{server.url}/from", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == GOOD
