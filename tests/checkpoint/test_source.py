"""A path means the file that it names; a refusal says what the file is instead."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from checkpoints import DICTIONARY, LABELS, assert_refused, fairseq_file, fairseq_state, small
from safetensors.torch import load_file

import roberta_hub
from roberta_hub import load_model
from roberta_hub.errors import CheckpointError, InputError, UnknownNameError
from roberta_hub.folder import Folder
from roberta_hub.formats.format import CheckpointSource
from roberta_hub.formats.ours import OURS
from roberta_hub.formats.source import resolve

TABLE = "encoder.sentence_encoder.embed_tokens.weight"


def is_seed(roberta: roberta_hub.RobertaHubInterface, seed: int) -> bool:
    wanted = small(seed=seed).model.state_dict()[TABLE]
    return torch.equal(roberta.model.state_dict()[TABLE], wanted)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A directory with a model.pt of seed 1, a model.safetensors of seed 2, an other of seed 3."""
    folder = tmp_path / "mixed"
    small(seed=3).save(tmp_path / "third")
    small(seed=2).save(folder)
    shutil.copy(tmp_path / "third" / "model.safetensors", folder / "other.safetensors")
    fairseq_file(folder, fairseq_state(small(seed=1)))
    fairseq_file(folder, fairseq_state(small(seed=4)), name="four.pt")
    return folder


@pytest.mark.parametrize(
    ("name", "seed"),
    [("model.pt", 1), ("model.safetensors", 2), ("other.safetensors", 3), ("four.pt", 4)],
)
def test_a_file_is_read_whatever_lies_beside_it(mixed: Path, name: str, seed: int):
    assert is_seed(load_model(mixed / name), seed)
    assert is_seed(load_model(mixed, checkpoint_file=name), seed)
    loaded = roberta_hub.RobertaModel.from_pretrained(mixed, name)
    assert is_seed(loaded, seed)


def test_without_a_name_model_pt_comes_first_and_then_what_is_there(mixed: Path):
    assert is_seed(load_model(mixed), 1)
    (mixed / "model.pt").unlink()
    assert is_seed(load_model(mixed), 2)
    assert resolve(mixed) == CheckpointSource(format=OURS, folder=Folder(mixed))
    both = f"four.pt{os.pathsep}model.pt"
    assert is_seed(load_model(mixed, checkpoint_file=both), 4)


def test_a_file_that_is_not_there_is_an_error_that_lists_what_is(mixed: Path):
    for folder in (mixed, mixed.parent / "third"):
        assert_refused(folder, "typo.pt", "config.json", checkpoint_file="typo.pt")
    assert_refused(mixed / "model.pt", "names another", checkpoint_file="four.pt")
    with pytest.raises(CheckpointError, match=r"roberta\.tiny has one checkpoint"):
        load_model(checkpoint_file="typo.pt")
    assert load_model(checkpoint_file="model.pt")  # fairseq's default, of whichever source


@pytest.mark.parametrize("name", ["other.safetensors", "weights.bin"])
def test_weights_need_a_config(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"x" * 100)
    assert_refused(tmp_path / name, "needs a config.json beside it", name)


def test_a_named_file_of_hugging_face(tmp_path: Path):
    small(seed=1).save(tmp_path / "a", format="huggingface")
    small(seed=2).save(tmp_path / "b", format="huggingface")
    tensors = load_file(tmp_path / "b" / "model.safetensors")
    torch.save(tensors, tmp_path / "a" / "two.bin")
    assert is_seed(load_model(tmp_path / "a" / "two.bin"), 2)
    assert is_seed(load_model(tmp_path / "a"), 1)
    assert_refused(tmp_path / "a" / "config.json", "describes a model", "directory")


def test_a_training_runs_folder_loads_its_best(tmp_path: Path):
    small(seed=1).save(tmp_path / "run" / "last")
    assert is_seed(load_model(tmp_path / "run"), 1)
    small(seed=2).save(tmp_path / "run" / "best")
    assert is_seed(load_model(tmp_path / "run"), 2)


@pytest.mark.parametrize("given", ["./RTE-bin", "../RTE-bin", "/nowhere/RTE-bin"])
def test_a_data_folder_that_is_not_there(given: str, tmp_path: Path):
    """The caller counts on its labels; those of another folder would name other classes."""
    small().save(tmp_path / "model", format="fairseq")
    with pytest.raises(CheckpointError, match=rf"data_name_or_path '{given}'.* is no directory"):
        load_model(tmp_path / "model", data_name_or_path=given)
    (tmp_path / "RTE-bin").mkdir()
    (tmp_path / "model" / "RTE-bin").mkdir()
    if given != "/nowhere/RTE-bin":
        assert load_model(tmp_path / "model", data_name_or_path=given)


def test_a_dictionary_for_a_model_that_has_its_own(tmp_path: Path):
    small().save(tmp_path / "ours")
    small().save(tmp_path / "theirs", format="huggingface")
    data = tmp_path / "data"
    (data / "label").mkdir(parents=True)
    (data / "dict.txt").write_bytes(DICTIONARY)
    (data / "label" / "dict.txt").write_bytes(LABELS)
    for folder in (tmp_path / "ours", tmp_path / "theirs"):
        for given in ({"data_name_or_path": str(data)}, {"data": "../data"}):
            with pytest.raises(InputError, match="brings its own vocabulary"):
                load_model(folder, **given)  # type: ignore[arg-type]
        assert load_model(folder, data_name_or_path=".")
    for name in ("vocab.json", "merges.txt"):  # then RoBERTa's, unless there is another
        (tmp_path / "theirs" / name).unlink()
    loaded = load_model(tmp_path / "theirs", data_name_or_path=str(data))
    assert loaded.task.label_dictionary is not None


# ---- shards ----


@pytest.mark.parametrize("twin", [True, False])
def test_a_sharded_pickle_is_read(tmp_path: Path, twin: bool):
    folder = tmp_path / "it"
    small(seed=5).save(folder, format="huggingface")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, table = sorted(tensors), {}
    for number in range(3):
        shard = f"pytorch_model-0000{number + 1}-of-00003.bin"
        torch.save({name: tensors[name] for name in names[number::3]}, folder / shard)
        table |= dict.fromkeys(names[number::3], shard)
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": table}))
    for _ in range(2):  # from the pickles, and from their twins
        found = load_model(folder, twin=twin).model.state_dict()
        for name, tensor in small(seed=5).model.state_dict().items():
            assert torch.equal(found[name], tensor), name
    (folder / shard).unlink()
    assert_refused(folder, shard)
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors"}}))
    assert_refused(folder, "not a plain file name")
    index.unlink()
    assert_refused(folder, "pytorch_model.bin.index.json", "no weights")


# ---- what is no file ----

LOAD = """
import sys
from roberta_hub import RobertaHubError, load_model
try: load_model(sys.argv[1])
except RobertaHubError as error: print(error)
"""


@pytest.mark.system
@pytest.mark.parametrize("format", ["roberta_hub", "huggingface", "fairseq"])
@pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
def test_what_is_no_regular_file_is_said_and_not_waited_for(tmp_path: Path, format: Any, kind: str):
    folder = tmp_path / "it"
    small().save(folder, format=format)
    weights = "model.pt" if format == "fairseq" else "model.safetensors"
    names = [weights] if format == "fairseq" else [weights, "config.json"]
    for name in names if kind == "FIFO" else names[-1:]:
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        if kind == "FIFO":
            os.mkfifo(folder / name)
        elif kind == "device":
            (folder / name).symlink_to("/dev/zero")
        else:
            with socket.socket(socket.AF_UNIX) as server:
                here = os.getcwd()
                os.chdir(folder)  # the path of a socket is short
                try:
                    server.bind(name)
                finally:
                    os.chdir(here)
        run = forks.run("-c", LOAD, folder, timeout=60)
        assert kind in run.stdout and name in run.stdout, run.stdout + run.stderr
        (folder / name).unlink()
        (folder / name).write_bytes(kept)
    assert load_model(folder)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"text,label\ngood,1\nbad,0\nfine,1\n", "CSV"),
        ("text\tlabel\nschön\t1\n".encode() * 300, "tab-separated"),
        ("a;b\nc;d\ne;f\ng;h\n".encode("utf-16"), "semicolon-separated"),
        (b'{"model_type": "roberta"}', "JSON"),
        ("Es war einmal ein König.\n".encode() * 500, "plain text"),
    ],
)
def test_text_is_called_text(tmp_path: Path, content: bytes, word: str):
    (tmp_path / "train.csv").write_bytes(content)
    message = assert_refused(tmp_path / "train.csv", word, "not a PyTorch checkpoint")
    assert "truncated" not in message


# ---- names ----


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("facebook_roberta.base", "roberta.base"),
        ("roberta.large.tar.gz", "roberta.large"),
    ],
)
def test_other_peoples_names_of_our_models(typed: str, meant: str):
    with pytest.raises(UnknownNameError, match=f"did you mean {meant}"):
        load_model(typed)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("FacebookAI/roberta-base", "roberta.base"),
        ("FacebookAI/roberta-large-mnli", "roberta.large.mnli"),
        ("roberta-base", "roberta.base"),
        ("roberta-large-mnli", "roberta.large.mnli"),
    ],
)
def test_hugging_faces_names_are_ours_too(typed: str, meant: str):
    assert load_model(typed, pretrained=False, device="meta").source == f"{meant}, random weights"


@pytest.mark.parametrize("value", [None, 5, b"roberta.tiny", ["roberta.tiny"], 1.5, object()])
def test_names_that_are_no_names(value: Any):
    with pytest.raises(roberta_hub.RobertaHubError, match="give a str"):
        load_model(value)
    if value is not None:
        with pytest.raises(roberta_hub.RobertaHubError, match="checkpoint_file"):
            load_model("roberta.tiny", checkpoint_file=value)
    with pytest.raises(roberta_hub.RobertaHubError, match="data_name_or_path"):
        load_model("roberta.tiny", data_name_or_path=value)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 100_000])
def test_names_that_cannot_be_paths(name: str):
    with pytest.raises(UnknownNameError, match="no model and no path") as caught:
        load_model(name)
    assert len(str(caught.value)) < 1000
