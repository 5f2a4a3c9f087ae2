"""Which kernels a machine gets: from its CPU and from what its user says, the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_models import small_roberta

from roberta_hub.model import kernels
from roberta_hub.model import matrices as quantize
from roberta_hub.model.compiled import WEIGHT_FORMATS
from roberta_hub.model.kernels import (
    COMPILED_ROWS,
    CPU,
    compiled_rows,
    float32_kernel,
    missing_features,
    prefers_float16_weights,
    usable_features,
)

BOTH = frozenset({"onednn", "mkl"})
CASCADE_LAKE = CPU("GenuineIntel", frozenset({"avx2", "avx512f", "avx512_vnni"}))
HASWELL = CPU("GenuineIntel", frozenset({"avx2"}))
ZEN_3 = CPU("AuthenticAMD", frozenset({"avx2"}))
ZEN_4 = CPU("AuthenticAMD", frozenset({"avx2", "avx512f", "avx512_vnni", "avx512_bf16"}))
VARIABLES = (
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    kernels.PIN_VARIABLE,
)


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


FLAGS = {
    "SSE 4": set(),
    "AVX2": {"avx2"},
    "AVX-VNNI": {"avx2", "avx_vnni"},
    "AVX-512": {"avx2", "avx512f"},
    "AVX-512 with VNNI": {"avx2", "avx512f", "avx512_vnni"},
    "all": {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8", "amx_bf16"},
}
FASTER = {  # than plain, the fastest first, where somebody measured it
    ("GenuineIntel", "AVX2"): ("mkl",),
    ("GenuineIntel", "AVX-512"): ("mkl", "onednn"),
    ("AuthenticAMD", "AVX2"): ("mkl",),
    ("AuthenticAMD", "AVX-512"): ("onednn", "mkl"),
}


@pytest.mark.parametrize(
    "there", [BOTH, {"onednn"}, {"mkl"}, set()], ids=lambda x: "+".join(sorted(x))
)
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("vendor", ["GenuineIntel", "AuthenticAMD", "HygonGenuine", ""])
def test_nothing_is_slower_than_plain(vendor: str, flags: set[str], there: set[str]) -> None:
    """What is not known to be faster on such a CPU is not taken there."""
    machine = CPU(vendor, frozenset(flags))
    level = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE 4"
    known = [kernel for kernel in FASTER.get((vendor, level), ()) if kernel in there]
    assert float32_kernel(machine, frozenset(there)) == [*known, "plain"][0]
    assert prefers_float16_weights(machine) == (level == "AVX-512")


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("vendor", ["GenuineIntel", "AuthenticAMD", "HygonGenuine", ""])
def test_compiled_layers_run_where_they_were_measured(
    vendor: str, flags: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "cpu", lambda: CPU(vendor, frozenset(flags)))
    every = frozenset(WEIGHT_FORMATS)
    assert {compiled_rows(held, frozenset(), None) for held in every} == {0}
    for level, needs in (("avx2", "avx2"), ("avx_vnni", "avx2"), ("avx512", "avx512f")):
        rows = {held: compiled_rows(held, every, level) for held in every}
        known = dict(COMPILED_ROWS.get((vendor, level), {})) if needs in flags else {}
        by_onednn = {"amx_int8", "avx_vnni"} if level == "avx2" else {"amx_int8"}
        known |= {"int8": 0} if flags & by_onednn else {}
        assert rows == {held: known.get(held, 0) for held in every}
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert {compiled_rows(held, every, "avx512") for held in every} == {0}
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    assert {compiled_rows(held, every, "avx2") for held in every} == {0}


@pytest.mark.parametrize(
    ("machine", "level", "kernel"),
    [
        (CASCADE_LAKE, "AVX512_CORE_VNNI", "mkl"),
        (CASCADE_LAKE, "AVX2", "mkl"),
        (CASCADE_LAKE, "SSE41", "mkl"),
        (ZEN_4, "DEFAULT", "onednn"),
        (ZEN_4, "AVX512_CORE", "onednn"),
        (ZEN_4, "AVX2_VNNI", "mkl"),
        (ZEN_4, "AVX2", "mkl"),
        (ZEN_4, "SSE41", "mkl"),
        (ZEN_3, "DEFAULT", "mkl"),
        (CPU("", frozenset({"avx2"})), "AVX2", "plain"),
    ],
)
def test_a_lowered_level_takes_what_is_known_at_it(
    machine: CPU, level: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", level)
    assert float32_kernel(machine, BOTH) == kernel


def test_what_lowers_one_library_prefers_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2")
    assert float32_kernel(CASCADE_LAKE, BOTH) == "onednn"
    assert float32_kernel(ZEN_3, BOTH) == "mkl"
    assert float32_kernel(HASWELL, BOTH) == "mkl"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "avx2")
    assert float32_kernel(CASCADE_LAKE, BOTH) == "mkl"
    assert usable_features(ZEN_4, "onednn") == {"avx2"}


@pytest.mark.parametrize(
    ("level", "int8", "bfloat16"),
    [
        ("", True, True),
        ("DEFAULT", True, True),
        ("SSE41", False, False),
        ("AVX512_CORE", False, False),
        ("AVX512_CORE_VNNI", True, False),
        ("AVX512_CORE_BF16", True, True),
        ("AVX512_CORE_AMX", True, True),
    ],
)
def test_levels(level: str, int8: bool, bfloat16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cpu", lambda: ZEN_4)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", level)
    for dtype, there in (("int8", int8), ("bfloat16", bfloat16)):
        missing = missing_features(dtype)  # type: ignore[arg-type]
        assert (missing is None) == there
        assert there or "ONEDNN_MAX_CPU_ISA" in str(missing)


@pytest.mark.skipif(not quantize.has_operators("onednn"), reason="no oneDNN")
@pytest.mark.parametrize("kernel", ["onednn", "mkl", "plain", " oneDNN "])
def test_the_pin(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel == "mkl" and not quantize.has_operators("mkl"):
        pytest.skip("no MKL")
    monkeypatch.setenv(kernels.PIN_VARIABLE, kernel)
    roberta = small_roberta().optimize()
    with torch.no_grad():
        layers = roberta.model.encoder.sentence_encoder.prepared.form()
    form = layers[0].products.narrow
    assert type(form).__name__.lower() == kernel.strip().lower()
    assert f"float32, prepacked ({kernel.strip().lower()}, as" in str(roberta.optimized)


def test_bad_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.PIN_VARIABLE, "fast")
    with pytest.raises(ValueError, match="'fast'; choose onednn, mkl, plain"):
        small_roberta().optimize()
    monkeypatch.setenv(kernels.PIN_VARIABLE, "mkl")
    with pytest.raises(ValueError, match="no such matrices here; choose onednn, plain"):
        float32_kernel(ZEN_4, frozenset({"onednn"}))


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="not Linux")
def test_this_cpu_without_the_system_s_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch knows the same of it."""
    told = kernels.cpu.__wrapped__()
    monkeypatch.setattr(Path, "is_file", lambda self: False)
    found = kernels.cpu.__wrapped__()
    assert found.features in (told.features, frozenset())  # an older torch says nothing


CODE = """
import torch
from roberta_hub.model import compiled
from small_models import assert_close, small_roberta
texts = ["Hello world!", "A longer sentence, with more words than the others have.", "x"] * 3
roberta = small_roberta()
wanted = roberta.features(texts)
said = []
for dtype, tolerance in ((None, 2e-5), ("int8", 0.15), ("bfloat16", 0.15)):
    try:
        roberta.optimize(dtype)
    except ValueError as error:
        assert dtype is not None and "call optimize() without dtype" in str(error), error
        said.append("refused")
        continue
    for ours, theirs in zip(roberta.features(texts), wanted, strict=True):
        assert_close(ours, theirs, tolerance)
    said.append(str(roberta.optimized).split(":")[0])
print([compiled.chosen_level(), *said])
"""


@pytest.mark.system
@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        {"ONEDNN_MAX_CPU_ISA": "SSE41"},
        {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
        {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ATEN_CPU_CAPABILITY": "default"},
    ],
    ids=lambda setting: " ".join(setting.values()) or "as it is",
)
def test_right_numbers_or_a_sentence_on_lesser_machines(setting: dict[str, str]) -> None:
    tests = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **setting}
    run = subprocess.run(
        [sys.executable, "-c", CODE], env=env, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    level, *said = eval(run.stdout.splitlines()[-1])
    assert said[0] == "float32, prepacked"
    limit = setting.get("ONEDNN_MAX_CPU_ISA")
    if limit is not None:
        # The compiled code needs no oneDNN for int8 at AVX2, where the limit permits AVX2.
        int8_at_avx2 = level == "avx2" and limit != "SSE41"
        assert said[1:] == ["int8" if int8_at_avx2 else "refused", "refused"]
