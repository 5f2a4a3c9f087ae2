"""Memory stays flat over batches of ever new sizes, measured in processes of their own."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from roberta_hub.model import kernels

pytestmark = pytest.mark.system

PROGRAM = """
import json, sys
import torch
import torch.nn.functional as F
if sys.argv[1] == "bounded":
    from roberta_hub.model import memory
    from roberta_hub.train.loop.devices import Devices
    memory.CACHE_CAPACITY = "32"  # ours is full only after more products than a test has time for
    Devices("bf16", "ddp", False)
page = __import__("resource").getpagesize()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * page / 1e6
torch.manual_seed(0)
weights = [torch.randn(96, 96, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
grown = []
for rows in range(30, 230):
    x = torch.randn(rows, 96, dtype=torch.bfloat16, requires_grad=True)
    for weight in weights:
        x = F.linear(x, weight)
    x.sum().backward()
    grown.append(resident())
import os
print(json.dumps([grown[-1] - grown[100], os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY")]))
"""

PREPARED = """
import json, os, sys
import roberta_hub
from roberta_hub.model import memory
memory.CACHE_CAPACITY = "32"
page = __import__("resource").getpagesize()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * page / 1e6
roberta = roberta_hub.load_model("roberta.tiny").eval()
roberta.optimize(*sys.argv[1:])
texts = ["rain " * 200] * 2 + ["rain " * n for n in range(3, 203)]
roberta.features(texts[:2])
for text in texts[2:102]:
    roberta.features(text)
before = resident()
for text in texts[102:]:
    roberta.features(text)
print(json.dumps([resident() - before, os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY")]))
"""

TRIMMED = """
import ctypes, json, os, sys
import torch
import roberta_hub
page = __import__("resource").getpagesize()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * page / 1e6
roberta = roberta_hub.load_model("roberta.base", pretrained=False).eval()
roberta.optimize(*sys.argv[1:])
before = resident()
ctypes.CDLL(None).malloc_trim(0)
print(json.dumps([before - resident(), None]))
"""


def grown(how, *, program=PROGRAM, **environment):
    root = Path(__file__).resolve().parents[2]
    own = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", **environment}
    own["CUDA_VISIBLE_DEVICES"] = ""  # the bounds are those of a CPU
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        own.pop(name, None) if name not in environment else None
    done = subprocess.run(
        [sys.executable, "-c", program, *how], env=own, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="no /proc")
def test_new_numbers_of_rows_hardly_take_memory():
    """The bounds are obeyed though torch is imported before they are set."""
    unbounded, _ = grown(["as torch has it"])
    if unbounded < 10:
        pytest.skip(f"torch's own caches took {unbounded:.0f} MB here: nothing to bound")
    bounded, capacity = grown(["bounded"])
    assert capacity == "32"
    assert bounded < 0.5 * unbounded
    _, kept = grown(["bounded"], ONEDNN_PRIMITIVE_CACHE_CAPACITY="9")
    assert kept == "9"  # what the user has set


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="no /proc")
@pytest.mark.parametrize("dtype", [[], ["bfloat16"]], ids=["float32", "bfloat16"])
def test_prepared_models_hardly_grow_by_new_numbers_of_rows(dtype):
    """What `optimize` prepares for oneDNN keeps few of the products that it has compiled."""
    if dtype and (lacking := kernels.missing_features("bfloat16")):
        pytest.skip(lacking)
    own = {"program": PREPARED, "ROBERTA_HUB_MATRICES": "onednn"}
    unbounded, kept = grown(
        dtype, **own, ONEDNN_PRIMITIVE_CACHE_CAPACITY="1024", LRU_CACHE_CAPACITY="1024"
    )
    assert kept == "1024"  # what the user has set
    if unbounded < 20:
        pytest.skip(f"torch's own caches took {unbounded:.0f} MB here: nothing to bound")
    bounded, capacity = grown(dtype, **own)
    assert capacity == "32"
    assert bounded < 0.5 * unbounded


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
@pytest.mark.parametrize("dtype", [[], ["auto"]], ids=["float32", "auto"])
def test_what_the_layout_of_weights_needed_goes_back_to_the_system(dtype):
    kept, _ = grown(dtype, program=TRIMMED)
    assert kept < 30  # MB of a model of 500; it was 270 and 637
