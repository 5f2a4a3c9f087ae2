"""The safetensors copy of a pickle has its numbers, is mapped, and lies only in our cache."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import forks
import pytest
import torch
from checkpoints import assert_refused, fairseq_file, fairseq_state, outputs, small

import roberta_hub
from roberta_hub.checkpoint import converted as twin_module
from roberta_hub.checkpoint.checkpoint import EMBEDDING, LM_WEIGHT, VERSION_KEY
from roberta_hub.checkpoint.converted import copies
from roberta_hub.checkpoint.safetensors import read_safetensors

ROOT = Path(__file__).resolve().parents[2]


def settled(path: Path) -> Path:
    """A file whose last change lies long enough back for its times to be trusted."""
    time.sleep(max(0.0, path.stat().st_mtime + twin_module.SETTLED_SECONDS + 0.05 - time.time()))
    return path


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these tests are trusted at once: none is changed within a tick of the clock."""
    monkeypatch.setattr(twin_module, "SETTLED_SECONDS", -1.0)


def files() -> list[Path]:
    return sorted(copies().glob("*.safetensors"))


def litter() -> list[str]:
    """What is neither a twin, nor a note, nor a lock."""
    there = copies().iterdir() if copies().exists() else []
    return [p.name for p in there if p.suffix not in (".safetensors", ".json", ".lock")]


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def state_of(seed: int) -> dict[str, object]:
    return fairseq_state(small(seed=seed))


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_the_second_load_maps_the_twin_and_leaves_the_pickle_alone(
    tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch, legacy: bool
):
    path = fairseq_file(tmp_path / "theirs", legacy=legacy)
    plain = outputs(roberta_hub.load_model(path, twin=False))
    before = sorted(path.parent.iterdir())
    assert same(outputs(roberta_hub.load_model(path)), plain)
    monkeypatch.setattr("roberta_hub.formats.fairseq.load_pickle", None)  # calling it is an error
    model = roberta_hub.load_model(path)
    assert same(outputs(model), plain)
    (only,) = files()
    assert sys.platform != "linux" or is_mapped(only)
    assert sorted(path.parent.iterdir()) == before
    assert litter() == []


def test_without_twin_nothing_is_written(tmp_path: Path, cache: Path):
    roberta_hub.load_model(fairseq_file(tmp_path / "theirs"), twin=False)
    assert not cache.exists()


@pytest.mark.system
def test_a_file_changed_in_place_gets_another_twin(tmp_path: Path):
    path = settled(fairseq_file(tmp_path / "theirs", state_of(1)))
    old = outputs(roberta_hub.load_model(path))
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    size = path.stat().st_size
    fairseq_file(tmp_path / "theirs", state_of(2))
    os.utime(path, ns=times)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (size, times[1]), "as sly as can be"
    new = outputs(roberta_hub.load_model(path))
    assert not same(new, old)
    assert same(new, outputs(roberta_hub.load_model(path, twin=False)))


@pytest.mark.system
def test_times_of_a_file_written_this_instant_are_not_trusted(tmp_path: Path):
    """Two writes within a tick of the clock look alike."""
    path = fairseq_file(tmp_path / "theirs")
    roberta_hub.load_model(path)
    assert files()
    assert not list(copies().glob("*.json"))
    settled(path)
    roberta_hub.load_model(path)
    assert len(list(copies().glob("*.json"))) == 1


def test_copies_share_a_twin(tmp_path: Path, soon: None):
    for folder in "ab":
        roberta_hub.load_model(fairseq_file(tmp_path / folder))
    a, b = (tmp_path / folder / "model.pt" for folder in "ab")
    b.write_bytes(a.read_bytes())
    for path in (a, b):
        roberta_hub.load_model(path)
    assert len({note.read_text().split('"twin"')[1] for note in copies().glob("*.json")}) == 1


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_twin_keeps_the_dtype_of_the_file(tmp_path: Path, soon: None, stored: torch.dtype):
    path = fairseq_file(tmp_path / "theirs", fairseq_state(small(dtype=stored)))
    for wanted in (None, torch.float16, stored):
        first = roberta_hub.load_model(path, dtype=wanted)
        again = roberta_hub.load_model(path, dtype=wanted)
        plain = roberta_hub.load_model(path, dtype=wanted, twin=False)
        for name, tensor in plain.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[name], tensor)
            assert torch.equal(first.model.state_dict()[name], tensor)
            # The version is no weight: as float32 it keeps no file of half precision from its map.
            assert tensor.dtype == (wanted or torch.float32) or name == VERSION_KEY
    assert {t.dtype for t in read_safetensors(files()[0]).values()} == {stored}


def test_shared_tensors_are_stored_once_and_stay_tied(tmp_path: Path, soon: None):
    path = fairseq_file(tmp_path / "theirs")
    roberta_hub.load_model(path)
    stored = read_safetensors(files()[0])
    assert (EMBEDDING in stored) != (LM_WEIGHT in stored)
    model = roberta_hub.load_model(path).model
    assert model.encoder.lm_head.weight is model.encoder.sentence_encoder.embed_tokens.weight


def test_overrides_apply_to_the_twin_as_to_the_file(tmp_path: Path, soon: None):
    path = fairseq_file(tmp_path / "theirs")
    roberta_hub.load_model(path)
    options = {"dropout": 0.3, "encoder_layers_to_keep": "1", "untie_weights_roberta": True}
    one = roberta_hub.load_model(path, **options)
    other = roberta_hub.load_model(path, twin=False, **options)
    assert one.model.config == other.model.config
    assert one.model.config.dropout == 0.3
    assert same(outputs(one), outputs(other))


def test_training_a_mapped_model_does_not_change_the_twin(tmp_path: Path, soon: None):
    path = fairseq_file(tmp_path / "theirs")
    roberta_hub.load_model(path)
    (twin,) = files()
    before = twin.read_bytes()
    model = roberta_hub.load_model(path).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert twin.read_bytes() == before


def test_a_pickle_of_transformers_gets_one_too(tmp_path: Path, soon: None):
    folder = tmp_path / "theirs"
    small(heads={"sentence_classification_head": ["a", "b"]}).save(folder, "huggingface")
    weights = read_safetensors(folder / "model.safetensors")
    # Folding the row of token types into the positions must not happen twice.
    weights["roberta.embeddings.token_type_embeddings.weight"] = torch.ones(1, 8)
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    plain = outputs(roberta_hub.load_model(folder, twin=False), ["sentence_classification_head"])
    for _ in range(3):
        found = outputs(roberta_hub.load_model(folder), ["sentence_classification_head"])
        assert same(found, plain)
    assert len(files()) == 1


# ---- when something is wrong ----


def test_bad_files_leave_no_twin(tmp_path: Path):
    state = state_of(0)
    state["model"][EMBEDDING][3, 3] = float("nan")  # type: ignore[index]
    path = fairseq_file(tmp_path / "theirs", state)
    assert_refused(path, "NaN or infinity")
    assert roberta_hub.load_model(path, allow_nonfinite=True)
    path.write_bytes(path.read_bytes()[:-100])
    assert_refused(path, "truncated")
    assert files() == []
    assert litter() == []


@pytest.mark.parametrize(
    ("stored", "wanted", "large"),
    [(torch.float32, "float16", 1e5), (torch.float64, None, 1e39), (torch.float32, None, 3e38)],
)
def test_numbers_too_large_for_the_wanted_dtype(
    tmp_path: Path, soon: None, stored: torch.dtype, wanted: str | None, large: float
):
    state = fairseq_state(small(dtype=stored))
    state["model"][EMBEDDING][3, 3] = large
    path = fairseq_file(tmp_path / "theirs", state)
    for _ in range(2):  # from the file, then from its twin
        if stored == torch.float32 and wanted is None:
            roberta_hub.load_model(path, dtype=wanted)
        else:
            assert_refused(path, "too large for", dtype=wanted)


@pytest.mark.parametrize("damage", ["short", "head", "empty", "foreign"])
def test_a_damaged_twin_is_made_anew(tmp_path: Path, soon: None, damage: str):
    path = fairseq_file(tmp_path / "theirs")
    plain = outputs(roberta_hub.load_model(path))
    (twin,) = files()
    whole = twin.read_bytes()
    if damage == "foreign":
        small(seed=5).save(tmp_path / "ours")
        twin.write_bytes((tmp_path / "ours" / "model.safetensors").read_bytes())
    else:
        twin.write_bytes(
            {"short": whole[:-1], "head": b"\xff" * 9 + whole[9:], "empty": b""}[damage]
        )
    assert same(outputs(roberta_hub.load_model(path)), plain)
    assert twin.read_bytes() == whole


def test_a_twin_whose_file_is_gone_is_swept_when_another_is_made(tmp_path: Path, soon: None):
    gone = fairseq_file(tmp_path / "gone", state_of(1))
    kept = fairseq_file(tmp_path / "kept", state_of(2))
    for path in (gone, kept):
        roberta_hub.load_model(path)
    for twin in files():
        os.utime(twin, (1, 1))
    gone.unlink()
    roberta_hub.load_model(fairseq_file(tmp_path / "new", state_of(3)))
    assert len(files()) == 2
    assert len(list(copies().glob("*.json"))) == 2
    assert same(
        outputs(roberta_hub.load_model(kept)), outputs(roberta_hub.load_model(kept, twin=False))
    )


def test_what_a_killed_process_left_is_tidied(tmp_path: Path, soon: None):
    path = fairseq_file(tmp_path / "theirs")
    roberta_hub.load_model(path)
    (twin,) = files()
    for name in (twin.name, "another.safetensors"):
        (copies() / f".incomplete-{name}~1").mkdir()
    (note,) = copies().glob("*.json")
    (copies() / f".{note.name}.0.tmp").touch()
    note.unlink()
    roberta_hub.load_model(path)
    assert litter() == [".incomplete-another.safetensors~1"]
    roberta_hub.load_model(fairseq_file(tmp_path / "new", state_of(1)))
    assert litter() == []


LOAD = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[3])
if sys.argv[2].isdecimal():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
import torch, roberta_hub, roberta_hub.hub
torch.set_num_threads(1)
if sys.argv[2] == "nobody":  # who may not read our Python: everything is imported before
    import filelock
    roberta_hub.load_model(sys.argv[1], twin=False)
    os.setgid(65534); os.setuid(65534)
print("ready", flush=True)
roberta = roberta_hub.load_model(sys.argv[1]).eval()
print(float(roberta.model(torch.tensor([[0, 5, 2]]))[0].detach().sum()))
"""


def start(path: Path, how: str = "") -> forks.Process:
    return forks.start("-c", LOAD, path, how, ROOT, stdout=forks.PIPE, stderr=forks.PIPE)


def answer(process: forks.Process) -> float:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return float(out.split()[1])


def expected(path: Path) -> float:
    model = roberta_hub.load_model(path, twin=False).eval().model
    return float(model(torch.tensor([[0, 5, 2]]))[0].detach().sum())


@pytest.mark.system
def test_a_full_disk_is_no_reason_not_to_load(tmp_path: Path):
    path = fairseq_file(tmp_path / "theirs")
    assert answer(start(path, "4096")) == pytest.approx(expected(path))
    assert files() == []
    assert litter() == []


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="becomes another user")
def test_a_cache_that_others_own_is_read_and_not_missed(tmp_path: Path, cache: Path):
    path = fairseq_file(tmp_path / "theirs")
    for folder in (tmp_path, *tmp_path.parents):
        if "pytest-of" in str(folder):
            folder.chmod(0o755)
    wanted = expected(path)
    assert answer(start(path, "nobody")) == pytest.approx(wanted)
    assert not cache.exists()
    roberta_hub.load_model(settled(path))
    assert answer(start(path, "nobody")) == pytest.approx(wanted)


@pytest.mark.system
def test_eight_processes_at_once_leave_one_twin(tmp_path: Path):
    path = settled(fairseq_file(tmp_path / "theirs"))
    wanted = expected(path)
    for process in [start(path) for _ in range(8)]:
        assert answer(process) == pytest.approx(wanted)
    assert len(files()) == 1
    assert litter() == []


def kill_and_load(path: Path, rounds: int) -> None:
    """Kill `rounds` conversions at random instants, loading after each.

    There are more, until a quarter died in the middle.
    """
    wanted = expected(path)
    chance, span, died, done = random.Random(rounds), 0.5, 0, 0
    while done < rounds or died < rounds // 4:
        done += 1
        assert done <= 5 * rounds, f"only {died} of {done} died in the middle"
        for file in (*files(), *copies().glob("*.json")):
            file.unlink()
        process = start(path)
        assert process.stdout
        process.stdout.readline()  # it has imported everything and begins
        time.sleep(chance.random() * span)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        before = time.time()
        died += process.returncode == -signal.SIGKILL and not files()
        assert answer_here(path) == pytest.approx(wanted)
        span = 0.8 * span + 0.2 * 1.2 * (time.time() - before)  # as long as a conversion takes
        assert len(files()) == 1
        assert litter() == []


def answer_here(path: Path) -> float:
    model = roberta_hub.load_model(path).eval().model
    return float(model(torch.tensor([[0, 5, 2]]))[0].detach().sum())


@pytest.mark.system
@pytest.mark.parametrize(
    "rounds", [8, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_killed_in_the_middle_of_a_conversion(tmp_path: Path, rounds: int):
    """20 MB, so that most instants fall between the first byte written and the rename."""
    roberta = small(embed_dim=256, ffn_dim=1024, num_layers=6)
    path = settled(fairseq_file(tmp_path / "theirs", fairseq_state(roberta)))
    kill_and_load(path, rounds)


def test_a_downloaded_file_that_changed_on_the_disk_is_refused(cache: Path):
    """Sizes alone would not tell; the digest is computed for the twin anyway."""
    path = fairseq_file(cache / "toy")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    about = {"files": {"model.pt": {"size": path.stat().st_size, "sha256": digest}}}
    (path.parent / "manifest.json").write_text(json.dumps(about))
    roberta_hub.load_model(path)
    fairseq_file(cache / "toy", state_of(9))
    assert_refused(path, "when it was downloaded", digest, "force_download=True")


def test_the_old_keyword_is_an_alias(tmp_path: Path) -> None:
    """0.1.0 called the copy a twin."""
    path = fairseq_file(tmp_path / "theirs")
    with pytest.warns(FutureWarning, match="twin= is converted= now"):
        roberta_hub.load_model(path, twin=False)
    assert not copies().exists()
    with pytest.raises(roberta_hub.RobertaHubError, match="twin is 'yes'"), pytest.warns():
        roberta_hub.load_model(path, twin="yes")
