"""`roberta-hub ui` as a process: its answers over HTTP, its address, its end, its loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostile_strings import hostile_strings
from ui.serving import ANSWERS, ask, served, start

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.shell.main import main
from roberta_hub.ui.blocks import reply
from roberta_hub.ui.tabs import tabs

pytest.importorskip("gradio", reason="no gradio; pip install '.[ui]'")
pytestmark = pytest.mark.system
USERS = 20


@pytest.fixture(scope="module")
def page() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def address(page: tuple[str, subprocess.Popen[str]]) -> str:
    return page[0]


def test_the_first_answer_takes_less_than_a_second(address: str, tiny: RobertaHubInterface) -> None:
    """The first that this server is asked."""
    assert "<gradio-app" in ANSWERS.get(address, timeout=30).text
    text = "The film was directed <mask> a young woman."
    start = time.perf_counter()
    html, *_ = ask(address, "fill_mask", [text])
    assert time.perf_counter() - start < 1
    assert ">by<" in html


def test_twenty_users_get_their_own_answers(address: str, tiny: RobertaHubInterface) -> None:
    names = [f"User{number}" for number in range(USERS)]
    begin = threading.Barrier(USERS)

    def user(name: str) -> int:
        asked = {
            "fill_mask": [f"{name} was born in a small <mask> near the sea."],
            "zero_shot": [f"{name} scored twice.", f"sports, {name}, cooking"],
            "explain": [f"{name} is playing a guitar.", f"{name} is making music."],
            "similarity": [f"{name} ran.\nA dog ran.\n{name} sat."],
            "search": [f"Where is {name}?", f"{name} is at home.\nIt rains.\nA dog ran."],
            "tokens": [f"{name} had a sudden epipheny"],
        }
        begin.wait(30)
        for tab in tabs(tiny):
            values = tuple(asked[tab.name])
            found = ask(address, tab.name, values)
            assert found == list(reply(tab, "roberta.tiny", tiny, values)), (name, tab.name)
            assert name in found[0] or tab.name in ("fill_mask", "tokens")
        return len(asked)

    with ThreadPoolExecutor(USERS) as pool:
        assert sum(pool.map(user, names)) == USERS * 6


def test_hostile_texts_over_http(address: str, tiny: RobertaHubInterface) -> None:
    for text in [*hostile_strings(40), "a" * 10_000, "$(rm -rf ~)"]:
        for tab in tabs(tiny):
            if tab.name in ("fill_mask", "zero_shot", "tokens"):
                values = (f"{text} <mask>", "a, b")[: len(tab.fields)]
                wanted = reply(tab, "roberta.tiny", tiny, values)
                assert ask(address, tab.name, values) == list(wanted), (tab.name, text)


def test_what_is_copied_gives_the_same_answer(
    address: str, tiny: RobertaHubInterface, tmp_path: Path
) -> None:
    """With a hostile text, by Python and by the command, in processes of their own."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name, what in (("roberta-hub", "-m roberta_hub"), ("python3", "")):
        (bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {what} "$@"\n')
        (bin / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"}
    text = '-It\'s "odd" <b>\u202e $(touch harm) `touch harm` \\ 🙂'
    asked: dict[str, tuple[str, ...]] = {
        "fill_mask": (f"{text} <mask>",),
        "zero_shot": (text, 'it\'s odd, "quoted", $x'),
        "explain": (text, "It is odd."),
        "similarity": (f"{text}\nIt is odd.",),
        "search": (text, f"It is odd.\n{text}\n-x\nA dog ran."),
        "tokens": (text,),
    }
    for tab in tabs(tiny):
        _, python, shell = ask(address, tab.name, asked[tab.name])
        found = tab.asked(asked[tab.name]).answer(tiny)
        run: dict[str, Any] = {"cwd": tmp_path, "env": environment, "text": True, "check": True}
        by_python = subprocess.run(
            [sys.executable, "-c", python], capture_output=True, encoding="utf-8", **run
        )
        assert by_python.stdout.strip() == str(found).strip(), tab.name
        by_shell = subprocess.run(
            ["bash", "-c", shell],
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            **run,
        )
        if tab.name in ("explain", "similarity"):
            assert by_shell.stdout == by_python.stdout
        else:
            same(tab.name, json.loads(by_shell.stdout), found)
    assert not (tmp_path / "harm").exists()


def same(name: str, record: dict[str, Any], found: Any) -> None:
    """Compare a line of JSONL with the answer in Python."""
    if name == "fill_mask":
        words = [(word["filled"], word["word"]) for word in record["words"]]
        assert words == [(text, word.strip()) for text, _, word in found]
    elif name == "zero_shot":
        assert record["label"] == found.label
        assert record["scores"] == pytest.approx(dict(found.scores), abs=1e-5)
    elif name == "search":
        assert [(hit["index"], hit["text"]) for hit in record["hits"]] == [
            (hit.index, hit.text) for hit in found
        ]
    else:
        assert record["ids"] == [piece["id"] for piece in found.to_dict()["pieces"]]


# ---- this machine alone ----


def test_other_machines_and_other_sites_are_refused(address: str) -> None:
    port = address.rstrip("/").rpartition(":")[2]

    def status(path: str = "", method: str = "GET", **headers: str) -> int:
        return ANSWERS.request(method, address + path, headers=headers, timeout=30).status_code

    assert status() == status(Host=f"localhost:{port}") == 200
    assert status(Host=f"attacker.example:{port}") == 403  # DNS rebinding
    assert status(Host="127.0.0.1") == status(Host="") == 403
    assert status(Origin=address.rstrip("/")) == 200
    for origin in ("https://attacker.example", "null", f"http://127.0.0.1.example:{port}"):
        assert status(Origin=origin) == 403
        assert status("gradio_api/call/tokens", "POST", Origin=origin) == 403
    for path in ("gradio_api/file=/etc/passwd", "gradio_api/proxy=https://example.org/"):
        assert status(path) == 404
    for path in (
        "gradio_api/upload",
        "monitoring",
        "docs",
        "gradio_api/runs",
        "gradio_api//upload",
    ):
        assert status(path, "POST") == status(path) == 404
    policy = ANSWERS.get(address, timeout=30).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self' 'unsafe-inline'")


def test_only_the_loopback_is_listened_to(page: tuple[str, subprocess.Popen[str]]) -> None:
    places = psutil.Process(page[1].pid).net_connections("inet")
    assert {place.laddr.ip for place in places} == {"127.0.0.1"}
    assert {place.raddr.ip for place in places if place.raddr} <= {"127.0.0.1"}


UNSHARED = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
OFFLINE = """
import sys
from ui.serving import ask, served
with served() as (address, _):
    print(ask(address, "fill_mask", ["The film was directed <mask> a young woman."])[1])
"""


def test_it_works_without_a_network() -> None:
    """In a network namespace that has its own loopback and nothing else."""
    if shutil.which("ip") is None or subprocess.run([*UNSHARED, "true"]).returncode:
        pytest.skip("no network namespaces here: unshare -rn and ip")
    place = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{place}:{place.parent}"}
    done = subprocess.run(
        [*UNSHARED, sys.executable, "-c", OFFLINE], env=environment, capture_output=True, text=True
    )
    assert "print(roberta.fill_mask(text, topk=5))" in done.stdout, done.stderr


# ---- begin and end ----


def test_ctrl_c_ends_it_as_any_verb() -> None:
    with served() as (address, process):
        assert ANSWERS.get(address, timeout=30).status_code == 200
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    first, *rest = said.splitlines()
    assert first == (
        "roberta-hub: roberta.tiny answers there, to this machine alone; Ctrl-C ends it"
    )
    assert rest == ["roberta-hub: interrupted"]


def test_the_browser_opens_unless_it_shall_not_or_cannot(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nprintf "%s" "$1" > "{opened}.part"\nmv "{opened}.part" "{opened}"\n'
    )
    browser.chmod(0o755)
    named = {"BROWSER": f"{browser} %s"}
    with served(DISPLAY=":99", **named) as (address, _):
        until = time.monotonic() + 20
        while not opened.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert opened.read_text() == address
    opened.unlink()
    for arguments, variables in ((["--no-browser"], {"DISPLAY": ":99"}), ([], {})):
        with served(*arguments, **named, **variables) as (address, _):
            ask(address, "tokens", ["a"])
            time.sleep(0.5)
        assert not opened.exists()


def test_sigterm_ends_it() -> None:
    with served() as (_, process):
        process.terminate()
        _, said = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM and "Traceback" not in said


def test_a_port_in_use_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with start("--port", str(port)) as process:
            out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert said == (
        f"roberta-hub: port {port} is in use by another program; give --port another number, or "
        "leave it out, and a free one is taken\n"
    )


def test_the_port_is_the_one_that_was_given() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with served("--port", str(port)) as (address, _):
        assert address == f"http://127.0.0.1:{port}/"


def test_a_model_that_cannot_be_loaded_is_a_sentence() -> None:
    with start("-m", "roberta.tinny") as process:
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "") and "did you mean roberta.tiny" in said
    assert "Traceback" not in said


def test_a_folder_with_a_hostile_name(every_head: Path, tmp_path: Path) -> None:
    folder = tmp_path / '<script>alert(1)<|script> "> ${1} \u202e'
    folder.symlink_to(every_head)
    with served("-m", str(folder)) as (address, _):
        text = ANSWERS.get(address, timeout=30).text
        assert text.count("<script>alert") == 0
        assert repr(str(folder)) in ask(address, "tag", ["Ada Lovelace"])[1]


def test_what_a_hosted_space_runs() -> None:
    demo = roberta_hub.ui.page("roberta.tiny")
    demo.launch(prevent_thread_lock=True, quiet=True, share=False)
    try:
        assert "years" in ask(demo.local_url, "fill_mask", ["It took many <mask>."])[0]
        style = ANSWERS.get(f"{demo.local_url}theme.css", timeout=30).text
        assert "--button-primary-background-fill: var(--primary-600)" in style, "as in `serve`"
        assert demo.css is not None and "54rem" in demo.css
    finally:
        demo.close()
    own = roberta_hub.ui.page("roberta.tiny")  # whose caller says how it looks
    own.launch(prevent_thread_lock=True, quiet=True, share=False, css="a { color: red }")
    own.close()
    assert own.css == "a { color: red }"


def test_without_gradio_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert main(["ui", "--no-browser"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("roberta-hub: the page needs gradio (") and "[ui]" in said
