"""A state in parts: the same numbers as a whole one, whoever reads it, whenever the run dies."""

import pickle
import shutil
import threading

import pytest
import torch
import torch.distributed.checkpoint as dcp
from test_state import assert_same, numbers
from toy import ToyTask, config

from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.train.loop import background, sharded
from roberta_hub.train.loop.sharded import to_sharded, to_whole
from roberta_hub.train.loop.state import find_state, is_sharded, load_state
from roberta_hub.train.loop.training_loop import train_loop

OPTIONS = {
    "optimizer__total_updates": 12,
    "optimizer__warmup_updates": 1,
    "loop__evaluate_every": 4,
    "loop__save_every": 2,
}


def run(folder, updates, state="sharded", task=None, **more):
    options = {**OPTIONS, **more, "loop__max_updates": updates, "loop__state": state}
    if updates % 4:  # a run that ends evaluates, and an uninterrupted one would not do so here
        options["loop__evaluate_every"] = 0
    return train_loop(task or ToyTask(dropout=0.2), config(folder, **options))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run, whose states are whole."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole")
    run(folder, 12, "whole")
    return folder


@pytest.mark.system
def test_a_run_goes_on_bit_for_bit_in_either_kind(tmp_path, whole):
    kinds = {4: "sharded", 6: "sharded", 8: "whole", 10: "sharded", 12: "whole"}
    for updates, kind in kinds.items():
        run(tmp_path, updates, kind)
        found = find_state(tmp_path)
        assert is_sharded(found) == (kind == "sharded")
        assert (found / "weights.safetensors").exists() == (kind == "whole")
        assert [p.name for p in tmp_path.glob("*state*")] == [f"state-{updates:09d}"]
    assert_same(numbers(whole), numbers(tmp_path))


@pytest.mark.system
def test_one_kind_turns_into_the_other_and_back(tmp_path, whole):
    """Nothing is lost: a run goes on from each, and the way back is the same bytes."""
    parts = to_sharded(find_state(whole), tmp_path / "parts")
    back = to_whole(parts, tmp_path / "back")
    assert parts.name == back.name == "state-000000012" and is_sharded(parts)
    assert_same(vars(load_state(find_state(whole))), vars(load_state(back)))
    for folder in ("parts", "back"):
        run(tmp_path / folder, 14, "whole", optimizer__total_updates=12)
    one, other = (load_state(find_state(tmp_path / f)) for f in ("parts", "back"))
    assert_same(one.weights, other.weights)
    assert one.progress.update == 14


class Slow(dcp.FileSystemWriter):
    """A disk that is waited for."""

    go = threading.Event()

    def write_data(self, *args):
        assert self.go.wait(60)
        return super().write_data(*args)


def test_training_goes_on_while_a_state_is_written(tmp_path, monkeypatch, whole):
    """And what is written is the state as it was, not what has become of it since."""
    Slow.go.clear()
    monkeypatch.setattr(sharded, "FileSystemWriter", Slow)
    task, began = ToyTask(dropout=0.2), []
    batch = task.batch

    def watched(indices, epoch):
        if (tmp_path / ".state-000000008.partial").exists():
            began.append(find_state(tmp_path))
            if len(began) == 2:  # the second update during one writing
                Slow.go.set()
        return batch(indices, epoch)

    task.batch = watched
    monkeypatch.setattr(background.Writer, "_write", _keep(tmp_path / "kept"))
    run(tmp_path, 10, task=task, loop__save_every=8)
    assert began[:2] == [None, None]
    # From the copy of that state, the end is the uninterrupted one's.
    (tmp_path / "again").mkdir()
    shutil.copytree(tmp_path / "kept", tmp_path / "again/state-000000008")
    run(tmp_path / "again", 12, "whole")
    assert_same(numbers(whole)[:2], numbers_of_state(tmp_path / "again"))


def _keep(place):
    own = background.Writer._write

    def write(self, *args):
        path = own(self, *args)
        if path.name == "state-000000008" and not place.exists():
            shutil.copytree(path, place)
        return path

    return write


def numbers_of_state(folder):
    state = load_state(find_state(folder))
    return state.weights, state.optimizer


@pytest.mark.system
def test_a_disk_that_fails_stops_the_run_and_keeps_the_state_before(tmp_path, monkeypatch, whole):
    run(tmp_path, 4)
    before = find_state(tmp_path)
    calls = []

    class Full(dcp.FileSystemWriter):
        def write_data(self, *args):
            calls.append(self.path)
            if len(calls) == 2:
                raise OSError(28, "No space left on device")
            return super().write_data(*args)

    with monkeypatch.context() as patch:
        patch.setattr(sharded, "FileSystemWriter", Full)
        with pytest.raises(CheckpointError, match=r"state-000000008.*No space left.*as it was"):
            run(tmp_path, 12, loop__save_every=2)
    assert before.name == "state-000000004" and find_state(tmp_path).name == "state-000000006"
    assert not list(tmp_path.glob(".state*"))  # the half of one may be gigabytes
    run(tmp_path, 12, "whole")
    assert_same(numbers(whole)[:2], numbers_of_state(tmp_path))
    assert len(list(tmp_path.glob("*state*"))) == 1


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "run.pt"])
def test_a_damaged_part_is_said(tmp_path, whole, name):
    path = to_sharded(find_state(whole), tmp_path)
    (found,) = path.rglob(name)
    found.write_bytes(found.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"state-000000012: not a readable state"):
        run(tmp_path, 12)


def test_a_state_runs_no_code(tmp_path, whole):
    path = to_sharded(find_state(whole), tmp_path)
    for hostile in (eval, shutil.rmtree, dcp.load):

        class Hostile:
            def __reduce__(self, call=hostile):
                return call, (f"open({str(tmp_path / 'run')!r}, 'w')",)

        (path / "parts/.metadata").write_bytes(pickle.dumps(Hostile()))
        with pytest.raises(CheckpointError, match=rf"asks for .*{hostile.__name__}"):
            run(tmp_path, 12)
        assert not (tmp_path / "run").exists()


def test_another_run_and_another_model_are_refused(tmp_path, whole):
    path = to_sharded(find_state(whole), tmp_path)
    with pytest.raises(InputError, match=r"optimizer\.lr was 0\.01 and is now 0\.02"):
        run(tmp_path, 12, optimizer__lr=0.02)
    other = ToyTask(dropout=0.2)
    other.module.roberta.register_classification_head("more", 2)
    with pytest.raises(CheckpointError, match=r"of another model: roberta\.classification_heads"):
        run(tmp_path, 12, task=other)
    assert find_state(tmp_path) == path
