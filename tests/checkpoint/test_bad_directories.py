"""Hostile and damaged directories of our own format and of Hugging Face's."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import (
    IDS,
    assert_refused,
    assert_refused_or_loads,
    edit_json,
    outputs,
    small,
)
from safetensors.torch import load_file, save_file

from roberta_hub import RobertaHubError, load_model
from roberta_hub.checkpoint.names.roberta import ROBERTA
from roberta_hub.checkpoint.names.table import HEAD
from roberta_hub.formats.huggingface import parameter_names

NLI = {"mnli": ("no", "maybe", "yes")}
FORMATS = pytest.mark.parametrize("format", ["roberta_hub", "huggingface"])
FC1 = {
    "roberta_hub": "encoder.sentence_encoder.layers.0.fc1.weight",
    "huggingface": "roberta.encoder.layer.0.intermediate.dense.weight",
}


@pytest.fixture
def folder(tmp_path: Path, format: str) -> Path:
    small(heads=NLI).save(tmp_path / "it", format)  # type: ignore[arg-type]
    return tmp_path / "it"


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


# ---- safetensors ----


def file(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(start: int, end: int, shape: list[Any], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def headers(**entries: Any) -> bytes:
    return json.dumps(entries).encode()


BROKEN = {
    "empty": b"",
    "one byte": b"x",
    "huge length": file(b"{}", length=2**63),
    "length just too large": file(b"{}", length=3),
    "a length of hundreds of megabytes": file(b"{}", bytes(100), length=500_000_000),
    "no JSON": file(b"hello"),
    "a list": file(b"[]"),
    "a number": file(b"5"),
    "not UTF-8": file(b'{"\xff": 1}'),
    "deep JSON": file(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "deep lists": file(b"[" * 200_000),
    "huge number": file(b'{"a": ' + b"9" * 5000 + b"}"),
    "twice the same name": file(
        b'{"a":%s,"a":%s}' % ((json.dumps(entry(0, 4, [1])).encode(),) * 2), bytes(4)
    ),
    "overlap": file(headers(a=entry(0, 8, [2]), b=entry(4, 12, [2])), bytes(12)),
    "hole": file(headers(a=entry(0, 4, [1]), b=entry(8, 12, [1])), bytes(12)),
    "tail": file(headers(a=entry(0, 4, [1])), bytes(8)),
    "too short": file(headers(a=entry(0, 8, [2])), bytes(4)),
    "size and shape differ": file(headers(a=entry(0, 8, [3])), bytes(8)),
    "overflow": file(headers(a=entry(0, 4, [2**40, 2**40])), bytes(4)),
    "negative offset": file(headers(a=entry(-4, 0, [1])), bytes(4)),
    "negative shape": file(headers(a=entry(0, 4, [-1])), bytes(4)),
    "fraction": file(headers(a=entry(0, 4, [1.5])), bytes(4)),
    "unknown dtype": file(headers(a=entry(0, 4, [1], "F5")), bytes(4)),
    "no dtype": file(headers(a={"shape": [1], "data_offsets": [0, 4]}), bytes(4)),
    "metadata of numbers": file(headers(__metadata__={"a": 1}, a=entry(0, 4, [1])), bytes(4)),
    "pickle": b"\x80\x02cposix\nsystem\n(X\x04\x00\x00\x00truetR.",
    "web page": b"<!DOCTYPE html><title>Log in</title>",
    "git-lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
}


@FORMATS
@pytest.mark.parametrize("name", BROKEN)
def test_broken_safetensors(folder: Path, name: str):
    (folder / "model.safetensors").write_bytes(BROKEN[name])
    assert_refused(folder, "model.safetensors", "again")


@FORMATS
def test_truncated_and_flipped_safetensors(folder: Path):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    for kept in (7, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:kept])
        assert_refused(folder, "truncated")
    path.write_bytes(content + b"x")
    assert_refused(folder)
    kept = 0
    places = [*range(0, 3000, 97), *range(3000, len(content), len(content) // 9)]
    for place in places:
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << place % 8
        path.write_bytes(spoiled)
        kept += assert_refused_or_loads(folder)
    assert 0 < kept < len(places)


@FORMATS
def test_tensors_missing_surplus_or_of_another_shape(folder: Path, format: str):
    name = FC1[format]
    rewrite(folder, lambda tensors: tensors.pop(name))
    assert_refused(folder, "fc1.weight", "missing")
    rewrite(folder, lambda tensors: tensors.update({name: torch.zeros(16, 9)}))
    assert_refused(folder, "fc1.weight", "(16, 9)", "(16, 8)")
    rewrite(folder, lambda tensors: tensors.update({name: torch.zeros(16, 8)}))
    assert load_model(folder)
    rewrite(folder, lambda tensors: tensors.update({"surprise.weight": torch.zeros(1)}))
    assert_refused(folder, "surprise.weight")


@FORMATS
@pytest.mark.parametrize(
    "tensor_name",
    [
        "",
        "../../etc/passwd",
        "a" * 100_000,
        "roberta.",
        "classifier.a.b",
        "\0",
        "encoder.__class__",
    ],
)
def test_hostile_tensor_names(folder: Path, tensor_name: str):
    rewrite(folder, lambda tensors: tensors.update({tensor_name: torch.zeros(1)}))
    assert_refused(folder)


@FORMATS
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex64])
def test_tensors_that_are_no_weights(folder: Path, format: str, dtype: torch.dtype):
    rewrite(folder, lambda tensors: tensors.update({FC1[format]: torch.ones(16, 8).to(dtype)}))
    assert_refused(folder, str(dtype))


@FORMATS
def test_numbers_that_are_none(folder: Path, format: str):
    rewrite(folder, lambda tensors: tensors[FC1[format]].fill_(float("nan")))
    assert_refused(folder, "fc1.weight", "allow_nonfinite=True")
    assert load_model(folder, allow_nonfinite=True)


# ---- config.json of both ----


@FORMATS
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"[]",
        b"null",
        b"3",
        b'"a"',
        b"\xff\xfe",
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda content: repr(content[:8]),
)
def test_a_config_that_is_no_json_object(folder: Path, content: bytes):
    (folder / "config.json").write_bytes(content)
    assert_refused(folder, "config.json")


@FORMATS
def test_a_config_of_20_megabytes(folder: Path):
    (folder / "config.json").write_bytes(b'{"a": "' + b"x" * 20_000_000 + b'"}')
    assert_refused(folder, "config.json", "limit")


@FORMATS
def test_files_that_are_missing(folder: Path):
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "model.safetensors")
    (folder / "config.json").unlink()
    assert_refused(folder, "config.json")


WRONG = ["12", -1, 0, 1.5, True, None, [], {}, 10**12, 10**400, "x" * 100]
OURS = ("vocab_size", "max_positions", "embed_dim", "ffn_dim", "num_layers", "num_heads")
THEIRS = {
    "vocab_size": "vocab_size",
    "max_positions": "max_position_embeddings",
    "embed_dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
}


def edit_config(folder: Path, format: str, name: str, value: object) -> None:
    if format == "huggingface":
        edit_json(folder / "config.json", **{THEIRS.get(name, name): value})
    else:
        model = json.loads((folder / "config.json").read_text())["model"]
        edit_json(folder / "config.json", model={**model, name: value})


@FORMATS
@pytest.mark.parametrize("name", OURS)
def test_sizes_of_wrong_types_and_values(folder: Path, format: str, name: str):
    for value in WRONG:
        edit_config(folder, format, name, value)
        assert_refused(folder)


@FORMATS
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dropout", ["0.1", -1, 2, float("nan"), True, None, []]),
        ("layer_norm_eps", ["1e-5", -1, float("nan"), float("inf"), None, {}]),
        ("padding_idx", ["1", -1, 10**6, None, 1.0]),
        ("activation_fn", ["nothing", None, 3, ["gelu"], "__import__"]),
        ("normalize_before", ["no", 1, None]),
        ("untie_weights", ["no", 1, None]),
        ("num_unique_layers", [0, -1, 3, "1", True, 10**9]),
        ("embedding_dim", [0, -1, "1", True, 10**12]),
        ("layers_to_keep", [3, "0,1"]),
        ("surprise", [1]),
    ],
)
def test_other_fields_of_wrong_types_and_values(
    folder: Path, format: str, name: str, values: list[Any]
):
    if format == "huggingface":
        theirs = {
            "dropout": "hidden_dropout_prob",
            "padding_idx": "pad_token_id",
            "activation_fn": "hidden_act",
        }
        name = theirs.get(name, name)
        if name not in (*theirs.values(), "layer_norm_eps"):
            return
    for value in values:
        if format == "huggingface" and value is None and name != "pad_token_id":
            continue
        edit_config(folder, format, name, value)
        if name == "layers_to_keep" and value == "0,1":
            assert_refused_or_loads(folder)
        else:
            assert_refused(folder)


# ---- ours ----


@pytest.mark.parametrize("format", ["roberta_hub"])
@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"version": None},
        {"version": "1"},
        {"model": None},
        {"model": "abc"},
        {"model": []},
        {"model": [["a", 1]]},
        {"labels": None},
        {"labels": [1]},
        {"labels": {"mnli": 3}},
    ],
    ids=str,
)
def test_our_own_config_damaged(folder: Path, change: dict[str, Any]):
    edit_json(folder / "config.json", **change)
    assert_refused(folder, "config.json")


@pytest.mark.parametrize("format", ["roberta_hub"])
@pytest.mark.parametrize("name", ["version", "model", "labels", "task"])
def test_our_own_config_lacks_a_field(folder: Path, name: str):
    about = json.loads((folder / "config.json").read_text())
    del about[name]
    (folder / "config.json").write_text(json.dumps(about))
    assert_refused(folder, "config.json", name)


@pytest.mark.parametrize("format", ["roberta_hub"])
def test_arguments_of_fairseq_are_for_fairseqs_files(folder: Path):
    with pytest.raises(RobertaHubError, match="which fairseq did not write"):
        load_model(folder, max_positions=8)
    assert load_model(folder, dropout=0.3).model.config.dropout == 0.3  # no tensor depends on it


# ---- Hugging Face's ----

HF = pytest.mark.parametrize("format", ["huggingface"])


@HF
@pytest.mark.parametrize("kind", ["mpnet", "xlm", "deberta-v2", None, 3, [], {"roberta": 1}])
def test_another_model_type(folder: Path, kind: Any):
    edit_json(folder / "config.json", model_type=kind)
    assert_refused(folder, "model_type")


@HF
@pytest.mark.parametrize(
    "change", [{"is_decoder": True}, {"position_embedding_type": "relative_key"}]
)
def test_other_architectures(folder: Path, change: dict[str, Any]):
    edit_json(folder / "config.json", **change)
    assert_refused(folder, "relative positions")


@HF
@pytest.mark.parametrize("shape", [(), (0, 8), (1,), (1, 9), (1, 8, 1)])
def test_odd_token_types(folder: Path, shape: tuple[int, ...]):
    name = "roberta.embeddings.token_type_embeddings.weight"
    rewrite(folder, lambda tensors: tensors.update({name: torch.zeros(shape)}))
    assert_refused(folder, "token-type")


@HF
@pytest.mark.parametrize(
    "name", ["position_embeddings", "word_embeddings", "token_type_embeddings"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (8,)])
def test_odd_tables(folder: Path, name: str, shape: tuple[int, ...]):
    name = f"roberta.embeddings.{name}.weight"
    rewrite(folder, lambda tensors: tensors.update({name: torch.zeros(shape)}))
    assert_refused(folder)


@HF
@pytest.mark.parametrize("table", [{}, [], "x", 3, None, {"0": [], "1": {}, "2": None}])
def test_odd_labels_become_some_names(folder: Path, table: Any):
    edit_json(folder / "config.json", id2label=table)
    labels = load_model(folder).labels[HEAD]
    assert len(labels) == 3
    assert all(isinstance(label, str) for label in labels)


@HF
@pytest.mark.parametrize("table", [{"0": "a"}, {"0": "a", "1": "b", "3": "c"}, {"x": "a"}])
def test_labels_that_are_not_the_outputs_are_refused(folder: Path, table: Any):
    edit_json(folder / "config.json", id2label=table)
    assert_refused(folder)


def shard(folder: Path, weight_map: Any) -> None:
    os.rename(folder / "model.safetensors", folder / "model-00001-of-00001.safetensors")
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@HF
def test_shards_are_read_from_their_own_folder_only(folder: Path, tmp_path: Path):
    before = outputs(load_model(folder), [HEAD])
    outside = tmp_path / "outside.safetensors"
    outside.write_bytes((folder / "model.safetensors").read_bytes())
    shard(folder, {"a": "model-00001-of-00001.safetensors"})
    torch.testing.assert_close(outputs(load_model(folder), [HEAD]), before)
    index = folder / "model.safetensors.index.json"
    for name in (
        "../outside.safetensors",
        str(outside),
        "sub/x.safetensors",
        "a\0b",
        "",
        "..",
        ".",
        3,
        None,
        "x" * 500,
    ):
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        assert_refused(folder)
    for table in (None, [], "x", {}):
        index.write_text(json.dumps({"weight_map": table}))
        assert_refused(folder)


@HF
def test_a_pickled_hugging_face_file_passes_the_same_gate(folder: Path):
    tensors: dict[Any, Any] = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save(tensors, path)
    assert load_model(folder)
    for state in (
        {**tensors, "x": 1},
        {**tensors, 3: torch.zeros(1)},
        [tensors],
        {**tensors, "x": torch.zeros(1).expand(10**9)},
        {**tensors, "x": torch.eye(2).to_sparse()},
        {**tensors, "x": os.system},
    ):
        torch.save(state, path)
        assert_refused(folder, "pytorch_model.bin")
    path.write_bytes(b"")
    assert_refused(folder, "pytorch_model.bin", "empty")


@HF
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.json", b""),
        ("vocab.json", b"[]"),
        ("vocab.json", b'{"a": 0}'),
        ("vocab.json", b"{" * 100_000),
        ("merges.txt", b"\xff"),
        ("merges.txt", b"#version: 0.2\na b c\n"),
    ],
)
def test_damaged_vocabulary_files(folder: Path, name: str, content: bytes):
    (folder / name).write_bytes(content)
    assert_refused(folder)


@HF
def test_a_vocabulary_larger_than_the_table_is_refused(folder: Path):
    vocabulary = json.loads((folder / "vocab.json").read_text())
    vocabulary |= {f"more{i}": len(vocabulary) + i for i in range(3)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    assert_refused(folder, "19", "16")


@HF
def test_a_bare_encoder_and_half_a_dozen_old_names(folder: Path):
    before = outputs(load_model(folder))
    rewrite(folder, old_names)
    torch.testing.assert_close(outputs(load_model(folder)), before)


def old_names(tensors: dict[str, torch.Tensor]) -> None:
    for name in list(tensors):
        new = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )
        tensors[new] = tensors.pop(name)
    tensors["roberta.embeddings.position_ids"] = torch.arange(12)


def test_the_table_of_names_is_one_to_one():
    table = parameter_names(ROBERTA, 3, ROBERTA.heads[:3])
    assert len(set(table.values())) == len(table)
    assert IDS.max() < 16


@FORMATS
def test_nothing_is_written_when_loading(folder: Path):
    def photograph() -> dict[Path, tuple[bytes, int]]:
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}

    before = photograph()
    load_model(folder)
    edit = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(b"")
    assert_refused(folder)
    (folder / "config.json").write_bytes(edit)
    after = photograph()
    assert {p: c for p, (c, _) in after.items()} == {p: c for p, (c, _) in before.items()}
    assert after[folder / "model.safetensors"] == before[folder / "model.safetensors"]
