"""Matrices in int8 rows: read as floating-point ones, refused where something is wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from checkpoints import IDS, TABLE, assert_refused, edit_json, small
from torch import Tensor

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.checkpoint.int8_rows import SCALE, read_int8_rows, store_in_int8
from roberta_hub.checkpoint.safetensors import read_safetensors, write_safetensors
from roberta_hub.folder import Folder
from roberta_hub.formats.ours import read_store, write_store

DENSE = "encoder.sentence_encoder.layers.0.fc1.weight"
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def stored(folder: Path, *, dtype: torch.dtype = torch.float32) -> RobertaHubInterface:
    """A model whose folder has its token embedding and a dense layer in int8."""
    roberta = small({"mood": ("bad", "good")}, dtype=dtype)
    roberta.save(folder)
    write_store(read_store(Folder(folder), dtype), folder, in_int8=[TABLE, DENSE])
    return roberta


def rewrite(folder: Path, **changes: Tensor | None) -> None:
    """Replace the tensors of a file; None takes one away."""
    weights = {**read_safetensors(folder / WEIGHTS), **changes}
    kept = {name: tensor.clone() for name, tensor in weights.items() if tensor is not None}
    write_safetensors(folder / WEIGHTS, kept, {"format": "pt"})


def test_rows_come_back_within_half_a_step() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(200, 33) * torch.logspace(-6, 3, 200).unsqueeze(1)
    matrix[7] = 0
    weights = store_in_int8({"m": matrix, "other": matrix}, ["m"])
    assert weights["m"].dtype == torch.int8 and weights["m"].abs().amax(1).ne(127).sum() == 1
    back = read_int8_rows(weights, None, "here")
    assert [*weights] == ["other"] and torch.equal(weights["other"], matrix)
    half = matrix.abs().amax(1, keepdim=True) / 254
    assert bool(((back["m"] - matrix).abs() <= half * 1.001).all())
    again = store_in_int8(back, ["m"])
    assert torch.equal(again["m"], store_in_int8({"m": matrix}, ["m"])["m"])


@pytest.mark.parametrize("wanted", [None, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("of_file", [torch.float32, torch.float16])
def test_a_folder_loads_in_every_dtype(
    wanted: torch.dtype | None, of_file: torch.dtype, tmp_path: Path
) -> None:
    roberta = stored(tmp_path, dtype=of_file)
    again = load_model(tmp_path, dtype=wanted).eval()
    state = again.model.state_dict()
    floats = {tensor.dtype for name, tensor in state.items() if not name.endswith("version")}
    assert floats == {wanted or torch.float32}
    expected = roberta.model.state_dict()[TABLE].float()
    near = expected.abs().max().item() / 100
    torch.testing.assert_close(state[TABLE].float(), expected, atol=near, rtol=0)
    other = "encoder.sentence_encoder.layers.1.fc1.weight"
    target = roberta.model.state_dict()[other].to(wanted or torch.float32)
    assert torch.equal(state[other], target)
    assert again.model.encoder.lm_head.weight.data_ptr() == state[TABLE].data_ptr()  # tied


@pytest.mark.parametrize("shape", [(16,), (16, 1)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_scales_of_either_shape_and_dtype(
    shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path
) -> None:
    stored(tmp_path)
    scale = torch.linspace(0.01, 0.02, 16).to(dtype)
    rewrite(tmp_path, **{TABLE + SCALE: scale.reshape(shape)})
    rows = read_safetensors(tmp_path / WEIGHTS)[TABLE]
    table = load_model(tmp_path).model.state_dict()[TABLE]
    assert torch.equal(table, rows.float() * scale.float().unsqueeze(1))


def test_a_file_beside_ours_loads_too(tmp_path: Path) -> None:
    stored(tmp_path)
    (tmp_path / WEIGHTS).rename(tmp_path / "other.safetensors")
    found = load_model(tmp_path, checkpoint_file="other.safetensors").eval()
    (tmp_path / "other.safetensors").write_bytes(b"")  # nothing of it is mapped
    assert torch.isfinite(found.extract_features(IDS)).all()


def test_a_save_writes_plain_numbers(tmp_path: Path) -> None:
    stored(tmp_path / "small")
    roberta = load_model(tmp_path / "small").eval()
    roberta.save(tmp_path / "plain")
    assert json.loads((tmp_path / "plain" / CONFIG).read_text())["version"] == 1
    assert {t.dtype for t in read_safetensors(tmp_path / "plain" / WEIGHTS).values()} == {
        torch.float32
    }
    again = load_model(tmp_path / "plain").eval()
    assert torch.equal(again.extract_features(IDS), roberta.extract_features(IDS))
    roberta.save(tmp_path / "small")  # over the file that it came from
    assert torch.equal(
        load_model(tmp_path / "small").eval().extract_features(IDS), roberta.extract_features(IDS)
    )


def test_its_version_is_one_that_older_packages_refuse(tmp_path: Path) -> None:
    stored(tmp_path)
    assert json.loads((tmp_path / CONFIG).read_text())["version"] == 3  # earlier versions refuse it


@pytest.mark.parametrize("version", [1, 2])
def test_int8_is_refused_in_an_older_version(version: int, tmp_path: Path) -> None:
    stored(tmp_path)
    edit_json(tmp_path / CONFIG, version=version)
    assert_refused(tmp_path, "int8, not floating-point weights")


SIXTEEN = torch.full((16, 1), 0.01)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({TABLE + SCALE: None}, f"there is no {TABLE}_scale"),
        ({TABLE + SCALE: SIXTEEN[:15]}, "its scale has shape (15, 1)"),
        ({TABLE + SCALE: SIXTEEN.T.contiguous()}, "its scale has shape (1, 16)"),
        ({TABLE + SCALE: SIXTEEN[0, 0]}, "its scale has shape ()"),
        ({TABLE + SCALE: SIXTEEN.long()}, "its scale is torch.int64"),
        ({TABLE + SCALE: SIXTEEN * torch.nan}, "NaN, infinity"),
        ({TABLE + SCALE: SIXTEEN * torch.inf}, "NaN, infinity"),
        ({TABLE + SCALE: SIXTEEN * 3e38}, "too large"),
        ({TABLE + SCALE: torch.tensor([1e37] * 16)}, "too large"),
        ({TABLE: torch.zeros(16, 9, dtype=torch.int8)}, "shape (16, 9)"),
        ({TABLE: torch.zeros(16, 8, 1, dtype=torch.int8)}, "shape (16, 8, 1)"),
        ({TABLE: torch.zeros(16, dtype=torch.int8)}, "shape (16,)"),
        ({TABLE: torch.zeros(16, 8, dtype=torch.uint8)}, "uint8, not floating-point"),
        ({TABLE: torch.zeros(16, 8)}, "embed_tokens.weight_scale"),
        (
            {"encoder.lm_head.bias": torch.zeros(16, dtype=torch.int8)},
            "there is no encoder.lm_head.bias_scale",
        ),
    ],
)
def test_what_is_malformed_is_refused(
    changes: dict[str, Tensor | None], reason: str, tmp_path: Path
) -> None:
    stored(tmp_path)
    rewrite(tmp_path, **changes)
    assert_refused(tmp_path, reason)


@pytest.mark.system
def test_a_table_of_robertas_size_is_read_at_once() -> None:
    """50,265 rows of 384: 15 ms on two threads; a form by broadcasting over int8 took 32."""
    rows = torch.randint(-127, 128, (50265, 384), dtype=torch.int8)
    weights = {"m": rows, "m" + SCALE: torch.rand(50265, 1)}
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        read_int8_rows(dict(weights), None, "here")
        took.append(time.perf_counter() - begin)
    assert min(took) < 0.3
