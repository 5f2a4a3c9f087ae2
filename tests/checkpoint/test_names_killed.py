"""Names at the hub under real kills and at once: what is there is whole, and of one commit."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forks
import pytest
from families import write_family
from hub_server import LOAD, HubServer, environment, load, sha256
from server import cut, slow, stall

import roberta_hub
from roberta_hub.scale.models import LoadedModel

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.system
NAME = "owner/tiny-bert"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as running:
        yield running


def digest_of(folder: Path) -> str:
    return LoadedModel(roberta_hub.load_model(folder)).digest


def begin(home: Path, hub: HubServer, **keywords: object) -> forks.Process:
    return forks.start(
        *("-c", LOAD, NAME, json.dumps(keywords)),
        cwd=home,
        env=environment(home, hub),
        stdout=forks.PIPE,
        stderr=forks.PIPE,
    )


@pytest.mark.parametrize("signal_sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_in_mid_file(
    tmp_path: Path, hub: HubServer, bert: Path, signal_sent: signal.Signals
) -> None:
    hub.publish(NAME, bert)
    content = (bert / "model.safetensors").read_bytes()
    blob = f"/lfs/{sha256(content)}"
    hub.cdn.plan[blob] = [stall(content, len(content) // 2)]
    process = begin(tmp_path, hub)
    assert hub.cdn.stalled.wait(60)
    time.sleep(0.2)  # what was sent is written
    os.kill(process.pid, signal_sent)
    assert process.wait(30) != 0
    assert not list((tmp_path / "torch").rglob("names/*.json")), "nothing is pinned"
    hub.cdn.plan.clear()
    hub.cdn.release.set()
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)


def test_killed_at_random_instants(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    content = (bert / "model.safetensors").read_bytes()
    hub.cdn.plan[f"/lfs/{sha256(content)}"] = [slow(content, 0.5)]
    draw, wanted = random.Random(0), digest_of(bert)
    for number in range(30):
        home = tmp_path / str(number // 5)  # each home is killed in five times
        home.mkdir(exist_ok=True)
        process = begin(home, hub)
        time.sleep(draw.uniform(0.2, 2.5))
        process.kill()
        process.wait(30)
        for note in (home / "torch").rglob("names/*.json"):
            assert json.loads(note.read_text())["name"] == NAME
    hub.cdn.plan.clear()
    for number in range(6):
        assert load(tmp_path / str(number), hub, NAME)["digest"] == wanted


def test_a_file_that_breaks_off_goes_on(tmp_path: Path, hub: HubServer) -> None:
    """huggingface_hub writes 10 MiB at a time, and asks for the rest."""
    large = write_family("bert", tmp_path / "large", hidden_size=512, intermediate_size=4096)
    content = (large / "model.safetensors").read_bytes()
    assert len(content) > 30 << 20
    hub.publish(NAME, large)
    blob = f"/lfs/{sha256(content)}"

    def rest(handler: Any) -> None:
        del hub.cdn.plan[blob]
        handler.do_GET()

    hub.cdn.plan[blob] = [cut(content, 15 << 20), rest]
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(large)
    assert f"bytes={10 << 20}-" in hub.cdn.ranges


def test_a_bar_has_the_size_before_the_first_byte(tmp_path: Path, hub: HubServer) -> None:
    large = write_family("bert", tmp_path / "large", hidden_size=512, intermediate_size=4096)
    content = (large / "model.safetensors").read_bytes()
    hub.publish(NAME, large)
    hub.cdn.plan[f"/lfs/{sha256(content)}"] = [stall(content, 0, go_on=True)]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = forks.start(
        *("-m", "roberta_hub", "download", NAME),
        cwd=tmp_path,
        env=environment(tmp_path, hub),
        stdout=forks.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    assert hub.cdn.stalled.wait(60)
    time.sleep(0.3)
    said = os.read(ours, 10_000).decode()
    assert f"{NAME}:   0%" in said and f"{len(content) / 1e6:.1f}M" in said, said
    hub.cdn.release.set()
    assert process.wait(60) == 0
    assert "100%" in os.read(ours, 10_000).decode()
    os.close(ours)


def test_two_processes_at_once_take_one_commit(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    """The second waits, though the hub has another commit by then, and fetches nothing itself."""
    first = hub.publish(NAME, bert)
    content = (bert / "model.safetensors").read_bytes()
    blob = f"/lfs/{sha256(content)}"
    hub.cdn.plan[blob] = [stall(content, 1000, go_on=True)]
    processes = [begin(tmp_path, hub)]
    assert hub.cdn.stalled.wait(60)
    hub.publish(NAME, write_family("bert", tmp_path / "newer", seed=5))
    processes += [begin(tmp_path, hub) for _ in range(2)]
    time.sleep(2)
    hub.cdn.release.set()
    said = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert {told["source"] for told in said} == {said[0]["source"]}
    assert f"{NAME} at {first} " in said[0]["source"]
    assert {told["digest"] for told in said} == {digest_of(bert)}
    assert hub.cdn.hits[blob] == 1


def test_an_update_that_is_killed_leaves_the_old_commit(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    first = hub.publish(NAME, bert)
    load(tmp_path, hub, NAME)
    newer = write_family("bert", tmp_path / "newer", seed=5)
    second = hub.publish(NAME, newer)
    content = (newer / "model.safetensors").read_bytes()
    hub.cdn.plan[f"/lfs/{sha256(content)}"] = [stall(content, 1000)]
    update = forks.start(
        *("-m", "roberta_hub", "download", "--update", NAME),
        cwd=tmp_path,
        env=environment(tmp_path, hub),
        stdout=forks.DEVNULL,
        stderr=forks.DEVNULL,
    )
    assert hub.cdn.stalled.wait(60)
    assert f"at {first} " in load(tmp_path, hub, NAME)["source"], "nobody waits for an update"
    update.kill()
    update.wait(30)
    assert f"at {first} " in load(tmp_path, hub, NAME)["source"]
    hub.cdn.plan.clear()
    hub.cdn.release.set()
    run = forks.run(
        *("-m", "roberta_hub", "download", "--update", NAME),
        cwd=tmp_path,
        env=environment(tmp_path, hub),
    )
    assert run.returncode == 0 and f"{second}, no longer at {first}" in run.stderr
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(newer)
