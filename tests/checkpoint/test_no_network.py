"""Without a network the answer comes at once, is short, and says what works all the same."""

from __future__ import annotations

import os
import socket

import forks
import pytest
from archives import GOOD, PATH, TOY, assert_model
from server import Server, body, cut

import roberta_hub
from roberta_hub.checkpoint.fetch import download, http
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.errors import DownloadError

pytestmark = pytest.mark.system

ASK = """
import sys, time, warnings
import requests, roberta_hub
from roberta_hub import load_model  # with all that it needs, before time is counted
warnings.simplefilter("error")
slept = []
time.sleep = slept.append
for name in sys.argv[1:]:
    begin = time.process_time()
    try: load_model(name)
    except roberta_hub.RobertaHubError as error:
        print(type(error).__name__, error.__cause__, error.__suppress_context__)
        print(time.process_time() - begin + sum(slept))  # a busy machine adds nothing
        print(error)
"""


def ask(name: str, mirror: str, endpoint: str) -> list[str]:
    env = {**os.environ, http.MIRROR_ENV: mirror, download.ENDPOINT_ENV: endpoint}
    run = forks.run("-c", ASK, name, env=env)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("name", ["roberta.base", "roberta.large.wsc"])
def test_names_that_do_not_resolve(name: str):
    head, seconds, *message = ask(name, "https://fairseq.invalid", "https://hf.invalid")
    assert head == "DownloadError None True"
    assert float(seconds) <= 2.0
    assert len(message) <= 3 and len("\n".join(message)) < 500
    assert name in message[0] and "fairseq.invalid cannot be reached" in message[0]
    assert "does not resolve" in message[0]
    assert ("hf.invalid" in message[0]) == (name == "roberta.base")
    for word in ("roberta.tiny", "path", "cache", "ROBERTA_HUB_OFFLINE"):
        assert word in message[-1]
    assert not any(word in "".join(message) for word in ("Pool", "urllib3", "Errno"))


def test_a_refused_connection_is_final_too():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    _, seconds, *message = ask("roberta.base", url, "https://hf.invalid")
    assert float(seconds) <= 2.0
    assert len(message) <= 3 and "127.0.0.1 cannot be reached: the connection was" in message[0]


def test_when_only_the_first_cannot_be_found_the_second_is_asked_and_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(http.MIRROR_ENV, "https://fairseq.invalid")
    with pytest.raises(DownloadError, match=r"answered 404.*Before that: fairseq\.invalid"):
        roberta_hub.load_model("roberta.base", progress=False)


def test_a_server_that_sent_something_is_asked_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    """A network that drops out in the middle may come back."""
    server.plan[PATH] = [cut(GOOD, 100), body(GOOD)]
    assert_model(fetch_model(TOY))
    assert server.hits[PATH] == 2
