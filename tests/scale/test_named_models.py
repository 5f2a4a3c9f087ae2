"""Lakes by a name at the hub: every worker takes the commit of the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import forks
import pytest
from families import write_family

sys.path.insert(0, str(Path(__file__).parents[1] / "checkpoint"))

from hub_server import HubServer, environment, load

pytest.importorskip("huggingface_hub")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.system
NAME = "owner/tiny-bert"
LAKE = """
import json, sys
from roberta_hub.scale import Verb, lake
options = json.loads(sys.argv[1])
report = lake("in.csv", "out", Verb("embed", "owner/tiny-bert"), unit_rows=50, **options)
print(json.dumps([report.rows, report.units, report.left]))
"""


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as running:
        yield running


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    return [write_family("minilm", tmp_path / f"model {seed}", seed=seed) for seed in (1, 2)]


def run_lake(home: Path, hub: HubServer | None, **options: object) -> list[int]:
    run = forks.run(
        "-c", LAKE, json.dumps(options), cwd=home, env=environment(home, hub), timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    counts: list[int] = json.loads(run.stdout)
    return counts


def vectors(home: Path) -> list[list[float]]:
    rows = pq.read_table(home / "out").to_pylist()
    return [row["vector"] for row in sorted(rows, key=lambda row: int(row["id"]))]


def test_a_lake_goes_on_at_the_commit_of_its_plan(
    tmp_path: Path, hub: HubServer, models: list[Path]
) -> None:
    (tmp_path / "in.csv").write_text(
        "id,text\n" + "".join(f"{i},The dog barked {i} times.\n" for i in range(200))
    )
    first = hub.publish(NAME, models[0])
    assert run_lake(tmp_path, hub, part=[1, 2], workers=2) == [100, 4, 2]
    plan = json.loads((tmp_path / "out/_plan.json").read_text())
    assert plan["named"] == [NAME, first]
    second = hub.publish(NAME, models[1])
    assert f"at {second} " in load(tmp_path, hub, NAME, revision="main")["source"]
    assert run_lake(tmp_path, hub, workers=2) == [200, 4, 0]
    assert f"at {second} " in load(tmp_path, hub, NAME)["source"], "the name means what it meant"
    code = f"""
import json, roberta_hub
roberta = roberta_hub.load_model({str(models[0])!r})
texts = [f"The dog barked {{i}} times." for i in range(200)]
print(json.dumps(roberta.embed(texts).tolist()))
"""
    own = json.loads(forks.run("-c", code, check=True).stdout)
    for mine, theirs in zip(own, vectors(tmp_path), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)


def test_another_machine_takes_the_plans_commit(
    tmp_path: Path, hub: HubServer, models: list[Path]
) -> None:
    """Its caches are empty, and the name's main branch has gone on."""
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(f"{i},A dog.\n" for i in range(200)))
    first = hub.publish(NAME, models[0])
    assert run_lake(tmp_path, hub, part=[1, 2], workers=1) == [100, 4, 2]
    hub.publish(NAME, models[1])
    for folder in ("hf", "torch"):
        (tmp_path / folder).rename(tmp_path / f"{folder} of before")
    assert run_lake(tmp_path, hub, workers=1) == [200, 4, 0]
    assert any(first in path.parts for path in (tmp_path / "hf").rglob("*"))
    assert len({tuple(vector) for vector in vectors(tmp_path)}) == 1


def test_the_command_takes_a_name(tmp_path: Path, hub: HubServer, models: list[Path]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id,text\n1,A dog.\n2,A train.\n")
    commit = hub.publish(NAME, models[0])
    run = forks.run(
        *("-m", "roberta_hub", "embed", "-m", NAME, "-i", "in", "-c", "text", "-o", "out/"),
        cwd=tmp_path,
        env=environment(tmp_path, hub),
    )
    assert run.returncode == 0, run.stderr
    assert json.loads((tmp_path / "out/_plan.json").read_text())["named"] == [NAME, commit]
    assert len(vectors(tmp_path)) == 2


def test_fit_takes_a_name(tmp_path: Path, hub: HubServer, models: list[Path]) -> None:
    pytest.importorskip("accelerate")
    hub.publish(NAME, models[0])
    rows = "".join(
        f"The {w} is {x}.,{x}\n" for w in ("dog", "train", "book") for x in ("big", "bad")
    )
    (tmp_path / "rows.csv").write_text("text,label\n" + rows * 5)
    run = forks.run(
        *("-m", "roberta_hub", "fit", "rows.csv", "--model", NAME, "-o", "mine"),
        cwd=tmp_path,
        env=environment(tmp_path, hub),
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert NAME in (tmp_path / "mine/README.md").read_text()
