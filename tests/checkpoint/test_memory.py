"""Loading holds the weights once; each load is measured in a process of its own."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoints import small
from safetensors.torch import load_file

from roberta_hub import RobertaHubInterface

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc"),
]

PEAK = """
import gc, sys, torch, safetensors.torch, tiktoken
from roberta_hub import load_model  # with all that it needs, before anything is measured
def memory(name):
    return int(open("/proc/self/status").read().split(name + ":")[1].split()[0]) * 1024
for dtype in None, torch.float16:
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
    base = memory("VmRSS")
    roberta = load_model(sys.argv[1], dtype=dtype)
    weights = sum(p.numel() * p.element_size() for p in roberta.model.parameters())
    print((memory("VmHWM") - base) / weights)
    del roberta
    gc.collect()
"""
MIDDLE = {"embed_dim": 1024, "ffn_dim": 4096, "num_layers": 6, "num_heads": 16}  # 302 MB
LARGE = {**MIDDLE, "num_layers": 24, "max_positions": 51_200}  # 1.4 GB, as roberta.large
FILES = [
    ("fairseq", torch.float32),
    ("fairseq", torch.float16),
    ("roberta_hub", torch.float32),
    ("roberta_hub", torch.float16),
    ("huggingface", torch.float32),
]


@pytest.fixture(scope="module")
def middle() -> RobertaHubInterface:
    return small(**MIDDLE)


def peaks(folder: Path) -> list[float]:
    """Peak memory of loading without and with dtype=torch.float16, as multiples of the weights."""
    command = [sys.executable, "-c", PEAK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def check(roberta: RobertaHubInterface, folder: Path, format, stored: torch.dtype) -> None:
    roberta.to(stored).save(folder, format)
    found = peaks(folder)
    print(f"{format} {stored}: {found[0]:.2f} widened, {found[1]:.2f} in float16")
    assert max(found) < 1.25
    assert min(found) > 0.9  # else it was not measured


@pytest.mark.parametrize(("format", "stored"), FILES[::2])
def test_loading_holds_the_weights_once(tmp_path: Path, middle, format, stored):
    check(middle, tmp_path, format, stored)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "stored"), FILES)
def test_loading_a_large_model_holds_the_weights_once(tmp_path: Path, format, stored):
    check(small(**LARGE), tmp_path, format, stored)


@pytest.mark.slow
def test_the_format_before_2020_is_read_whole(tmp_path: Path, middle):
    """torch cannot map it: the file and the copy are there at once."""
    middle.to(torch.float32).save(tmp_path, "fairseq")
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    torch.save(state, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    found = peaks(tmp_path)
    print(f"legacy: {found[0]:.2f} widened, {found[1]:.2f} in float16")
    assert found[0] < 2.25


MAPPED = """
import gc, sys, torch, safetensors.torch, tiktoken
from roberta_hub.folder import Folder
from roberta_hub.building import build
from roberta_hub.formats.fairseq import read_fairseq
from roberta_hub.formats.huggingface import read_huggingface
from roberta_hub.hub import RobertaModel
from pathlib import Path
def memory(name):
    return int(open("/proc/self/status").read().split(name + ":")[1].split()[0]) * 1024
folder, dtype = Path(sys.argv[1]), getattr(torch, sys.argv[2])
for _ in range(2):
    base = memory("RssAnon")
    file = folder / "model.pt"
    if file.exists():
        checkpoint = read_fairseq(file, {}, dtype, converted=True)
    else:
        checkpoint = read_huggingface(Folder(folder), dtype, converted=True)
    assert checkpoint.finite  # no pass over the file, which would read it all
    model = build(checkpoint, RobertaModel)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    assert {p.dtype for p in model.parameters()} == {dtype}
    print((memory("RssAnon") - base) / weights)
    del checkpoint, model
    gc.collect()
"""
XL = {"normalize_before": True, "layernorm_embedding": False, "embed_dim": 512, "ffn_dim": 2048}


@pytest.mark.parametrize(
    ("kind", "stored"), [("model.pt", torch.float16), ("pytorch_model.bin", torch.bfloat16)]
)
def test_the_files_own_dtype_is_mapped_and_not_copied(tmp_path: Path, kind: str, stored) -> None:
    """How XLM-R's XL and XXL load: from a pickle's safetensors copy, 7 and 21 GB that stay there.

    Only the positions are ours, to which transformers' one row of token types is added.
    """
    roberta = small(**XL, num_layers=6, num_heads=8).to(stored)  # 38 MB
    if kind == "model.pt":
        roberta.save(tmp_path, "fairseq")
    else:
        roberta.family = "xlm-roberta-xl"
        roberta.model.config = dataclasses.replace(roberta.model.config, lm_activation_fn="gelu")
        roberta.save(tmp_path, "huggingface")
        torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / kind)
        (tmp_path / "model.safetensors").unlink()
    name = str(stored).removeprefix("torch.")
    command = [sys.executable, "-c", MAPPED, str(tmp_path), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, again = (float(line) for line in done.stdout.split())
    print(f"{kind} {stored}: {first:.3f} and {again:.3f} of the weights in memory")
    assert again < 0.1
