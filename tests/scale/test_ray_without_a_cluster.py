"""What the engine for Ray decides before and beside Ray, on any machine."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roberta_hub import __version__
from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.scale import Verb, on_ray
from roberta_hub.scale.work import SchedulerOptions

pytestmark = pytest.mark.system

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.fs")

SCHEDULE = SchedulerOptions(workers=None, time_limit=60, attempts=3)


def node(name: str, alive: bool = True, **resources: float) -> dict[str, Any]:
    """As `ray.nodes()` gives it; one that is gone has no resources."""
    found = {"NodeID": name, "NodeManagerHostname": f"{name}.example", "Alive": alive}
    return {**found, "Resources": resources if alive else {}}


def where(nodes: list[dict[str, Any]], **told: Any) -> list[str]:
    found = on_ray.slots(nodes, **told)
    assert len(set(found)) == len(found)
    return [slot.node for slot in found]


def test_one_worker_a_machine_or_one_a_gpu() -> None:
    nodes = [
        node("head", memory=1.0),
        node("a", CPU=4.0),
        node("b", CPU=64.0, GPU=2.0),
        node("gone", alive=False),
        node("c", CPU=8.0, GPU=1.0),
    ]
    assert where(nodes, gpu=False, most=None) == ["a", "b", "c"]
    assert where(nodes, gpu=False, most=2) == ["a", "b"]
    assert where(nodes, gpu=False, most=5) == ["a", "b", "c", "a", "b"]
    assert where(nodes, gpu=True, most=None) == ["b", "c", "b"]
    assert where(nodes, gpu=True, most=9) == ["b", "c", "b"]
    assert where(nodes[:1], gpu=False, most=4) == where([], gpu=True, most=None) == []


@pytest.mark.parametrize("device", ["auto", "cuda:1", "mps"])
def test_a_device_that_machines_would_choose_differently_is_refused(device: str) -> None:
    job: Any = SimpleNamespace(verb=SimpleNamespace(device=device))
    with pytest.raises(InputError, match=f"device is '{device}'; on Ray give 'cuda'"):
        next(on_ray.run_units(job, [], SCHEDULE))


def test_a_machine_says_what_keeps_it_from_working(tmp_path: Path) -> None:
    (tmp_path / "_plan.json").write_text("{}")
    job: Any = SimpleNamespace(system=pa.fs.LocalFileSystem(), folder=str(tmp_path))
    assert on_ray.Worker(job, __version__).check() == ""
    assert on_ray.Worker(job, "0.0.1").check() == (
        f"it has roberta_hub {__version__}, and the driver has 0.0.1"
    )
    job.folder = str(tmp_path / "local")  # a disk of the driver's own
    assert on_ray.Worker(job, __version__).check() == (
        f"{tmp_path}/local/_plan.json is not there; source and target must be where all machines "
        "see them: on a shared disk, or in an object store"
    )
    job.system = pa.fs.S3FileSystem(anonymous=True, endpoint_override="127.0.0.1:1")
    job.folder = "bucket/out"  # of a store that this machine cannot reach
    assert (
        on_ray.Worker(job, __version__).check().startswith("bucket/out/_plan.json cannot be read")
    )


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("ray"):
        monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"engine 'ray' needs ray.*\[ray\].*'processes'"):
        on_ray.threads(SCHEDULE)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_nobody_listens_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Ray is not asked, which would try again for minutes."""
    ray = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    wanted = f"no Ray cluster answers at '{address}': .*refused"
    with pytest.raises(InputError, match=wanted):
        on_ray.threads(replace(SCHEDULE, address=address))
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=wanted):
        on_ray.threads(SCHEDULE)


def test_a_verb_does_not_mind_what_engines_hang_on_it() -> None:
    """Ray Data makes a class of its own of a Verb's, and gives its actors a pool of threads."""

    class Actor(Verb):
        pass

    verb = Actor("zero_shot", labels=["sport", "art"])
    before = verb.arguments()
    verb.pool = object()  # type: ignore[attr-defined]
    assert verb.arguments() == before
    assert verb({"text": ["Goal!"]})["label"][0] in ("sport", "art")
    assert type(verb.replace(threads=2)) is Actor
