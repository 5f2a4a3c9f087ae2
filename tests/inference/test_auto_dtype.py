"""`optimize("auto")` takes the fastest dtype that keeps a bound: on pretended CPUs, and on this."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import assert_close, copied, small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.inference import dtype_choice
from roberta_hub.model import kernels, matrices, speeds
from roberta_hub.model.kernels import CPU

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["Hello world!", "A longer sentence, with more words than the others have.", "x"]
_512 = {"avx2", "avx512f", "avx512_vnni"}
AMX = CPU("GenuineIntel", frozenset({*_512, "avx512_bf16", "amx_int8", "amx_bf16"}))
ZEN_4 = CPU("AuthenticAMD", frozenset({*_512, "avx512_bf16"}))
CASCADE_LAKE = CPU("GenuineIntel", frozenset(_512))
ALDER_LAKE = CPU("GenuineIntel", frozenset({"avx2", "avx_vnni"}))
HASWELL = CPU("GenuineIntel", frozenset({"avx2"}))
runs_all = pytest.mark.skipif(
    not (matrices.can_int8() and matrices.has_operators("bfloat16")),
    reason="no int8 or no bfloat16",
)


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtype_choice, "_mentioned", False)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", kernels.PIN_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def _made() -> RobertaHubInterface:
    return small_roberta()


@pytest.fixture
def roberta(_made: RobertaHubInterface) -> RobertaHubInterface:
    return copied(_made)


def pretend(monkeypatch: pytest.MonkeyPatch, machine: CPU) -> None:
    monkeypatch.setattr(kernels, "cpu", lambda: machine)


# ---- the table ----


@pytest.mark.parametrize(
    ("machine", "int8", "bfloat16"),
    [
        (AMX, 2.5, 1.8),
        (ZEN_4, 3.1, 1.7),
        (CASCADE_LAKE, 1.5, 0.4),
        (ALDER_LAKE, None, None),
        (HASWELL, 2.0, None),
    ],
)
def test_the_table(machine: CPU, int8: float | None, bfloat16: float | None) -> None:
    times = speeds.measured_speeds(machine.features).times
    assert (times.get("int8"), times.get("bfloat16")) == (int8, bfloat16)


def test_every_row_says_where_its_numbers_stand() -> None:
    """And they stand there, rounded to the slower side."""
    amx, zen_4, vnni, avx_vnni, no_vnni, avx2, other = speeds.SPEED_TABLE
    assert not other.needs and not other.times and not avx_vnni.times and not no_vnni.times
    page = (ROOT / amx.source).read_text(encoding="utf-8")
    float32, *bf16, low, high = (
        int(number.replace(",", ""))
        for number in re.findall(r"\d,\d{3}", page.partition("AMX (float32:")[2])[:5]
    )
    assert 0 <= bf16[0] / float32 - amx.times["bfloat16"] < 0.1 and bf16[1] > bf16[0]
    assert 0 <= low / float32 - amx.times["int8"] < 0.1 and high > low
    found = json.loads((ROOT / zen_4.source).with_suffix(".json").read_text())["medians"]
    for dtype, times in zen_4.times.items():
        assert 0 <= found["roberta_hub"] / found[f"roberta_hub, {dtype}"] - times < 0.1
    found = json.loads((ROOT / vnni.source).with_suffix(".json").read_text())
    rows = [row for row in found["as it is"]["table"] if row["threads"] == 1]
    assert 0 <= min(row["int8"] / row["MKL"] for row in rows) - vnni.times["int8"] < 0.1
    assert max(row["bfloat16"] / row["MKL"] for row in rows) < vnni.times["bfloat16"] + 0.05
    found = json.loads((ROOT / avx2.source).with_suffix(".json").read_text())
    seconds = found["sizes"]["base"]["seconds a token"]
    gain = seconds["optimize"]["corpus"] / seconds["optimize, int8"]["corpus"]
    assert 0 <= gain - avx2.times["int8"] < 0.1


# ---- what is chosen ----


@pytest.mark.system
@runs_all
def test_the_fastest_that_keeps_the_bound(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, AMX)
    near: dict[str, float] = {}
    for dtype in ("int8", "bfloat16"):
        roberta.optimize(dtype)  # type: ignore[arg-type]
        assert roberta.optimized is not None
        near[dtype] = roberta.optimized.cosine
    assert near["int8"] < near["bfloat16"] < 1
    between = sum(near.values()) / 2
    for bound, taken in ((0.5, "int8"), (between, "bfloat16"), (1.0, None)):
        assert roberta.optimize("auto", least_cosine=bound) is roberta
        found = roberta.optimized
        assert found is not None and found.dtype == taken and found.choice is not None
        assert {c.dtype: c.cosine for c in found.choice.candidates} == near
        named = copy.deepcopy(roberta).optimize(taken)  # type: ignore[arg-type]
        for ours, wanted in zip(roberta.features(TEXTS), named.features(TEXTS), strict=True):
            assert torch.equal(ours, wanted)
        said = str(found)
        assert said in repr(roberta) and said.startswith(taken or "float32")
        for part in ("int8 about 2.5 times as fast", "bfloat16 about 1.8 times as fast"):
            assert part in said
        assert f"least cosine {bound:g}" in said and f"{near['int8']:.4f}" in said


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            CPU("GenuineIntel", frozenset()),
            ["int8 (int8 would be slower", "bfloat16 (bfloat16 would be slower"],
        ),
        (ALDER_LAKE, ["int8 not measured on such a CPU", "none of avx512_bf16, amx_bf16"]),
    ],
)
def test_what_is_not_there_or_not_measured_is_not_taken(
    roberta: RobertaHubInterface, machine: CPU, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, machine)
    monkeypatch.setattr(matrices, "has_operators", lambda what: True)
    monkeypatch.setattr(matrices, "can_int8", lambda: True)
    before = roberta.features(TEXTS)
    roberta.optimize("auto", 0.5)
    assert roberta.optimized is not None and roberta.optimized.dtype is None
    for part in said:
        assert part in str(roberta.optimized)
    for ours, wanted in zip(roberta.features(TEXTS), before, strict=True):
        assert_close(ours, wanted)


@runs_all
def test_a_lowered_level_is_another_cpu(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, AMX)
    for level, taken in (("AVX", None), ("AVX512_CORE_VNNI", "int8"), ("DEFAULT", "int8")):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", level)
        roberta.optimize("auto", 0.5)
        assert roberta.optimized is not None and roberta.optimized.dtype == taken
        assert ("about 1.8 times" in str(roberta.optimized)) == (level == "DEFAULT")


@runs_all
def test_a_model_with_outliers_stays_exact(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its int8 is far off, and so int8 is not taken, however fast it is."""
    pretend(monkeypatch, CASCADE_LAKE)
    with torch.no_grad():
        for layer in roberta.model.encoder.sentence_encoder.layers:  # type: ignore[union-attr]
            layer.final_layer_norm.weight[3] *= 50  # type: ignore[union-attr, index, operator]
    before = roberta.features(TEXTS)
    roberta.optimize("auto")
    found = roberta.optimized
    assert found is not None and found.choice is not None and found.choice.least_cosine == 0.999
    assert {c.dtype: c.cosine for c in found.choice.candidates}["int8"] < 0.999  # type: ignore[operator]
    assert found.dtype is None
    for ours, wanted in zip(roberta.features(TEXTS), before, strict=True):
        assert_close(ours, wanted)


def test_on_this_cpu(roberta: RobertaHubInterface) -> None:
    """Whatever it is: what is chosen keeps the bound, and is what was asked for by its name."""
    roberta.optimize("auto")
    found = roberta.optimized
    assert found is not None and found.choice is not None
    assert found.dtype == found.choice.dtype and found.cosine >= 0.999
    named = copy.deepcopy(roberta).optimize(found.dtype)
    for ours, wanted in zip(roberta.features(TEXTS), named.features(TEXTS), strict=True):
        assert torch.equal(ours, wanted)
    assert pickle.loads(pickle.dumps(found)) == found


def test_on_another_device() -> None:
    found = dtype_choice.candidates(torch.device("cuda:0"))
    assert all(not c.is_open and "on cuda:0 nothing is measured" in str(c) for c in found)


# ---- what is refused ----


def test_bad_arguments(roberta: RobertaHubInterface) -> None:
    for bad in (1.5, -0.1, float("nan"), float("inf"), True, "0.9", [0.9], 10**400, object()):
        with pytest.raises(ValueError, match=r"least_cosine is .*; give a number in 0 to 1"):
            roberta.optimize("auto", least_cosine=bad)  # type: ignore[arg-type]
    for dtype in (None, "int8"):
        with pytest.raises(ValueError, match=r'bounds what optimize\("auto"\) may choose'):
            roberta.optimize(dtype, least_cosine=0.99)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'automatic'; choose None, 'int8' or .*'auto'"):
        roberta.optimize("automatic")  # type: ignore[arg-type]
    assert roberta.optimized is None


def test_an_error_leaves_what_there_was(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    roberta.optimize()
    before = roberta.optimized, roberta.model.encoder.sentence_encoder.prepared  # type: ignore[union-attr]
    monkeypatch.setattr(dtype_choice.DtypeChoice, "dtype", property(lambda self: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        roberta.optimize("auto")
    after = roberta.optimized, roberta.model.encoder.sentence_encoder.prepared  # type: ignore[union-attr]
    assert before[0] is after[0] and before[1] is after[1]


# ---- what `optimize()` says ----


def said_by(call: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return found


@runs_all
@pytest.mark.parametrize(("fast", "times"), [(AMX, 1.8), (ZEN_4, 1.7)], ids=["AMX", "Zen 4"])
def test_optimize_says_once_what_bfloat16_would_give(
    roberta: RobertaHubInterface, fast: CPU, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine in (CASCADE_LAKE, ALDER_LAKE, HASWELL):
        pretend(monkeypatch, machine)
        assert said_by(roberta.optimize) == []
    pretend(monkeypatch, fast)
    for dtype in ("bfloat16", "int8", "auto"):
        assert said_by(lambda dtype=dtype: roberta.optimize(dtype)) == []
    (warning,) = said_by(lambda: roberta.optimize())
    assert f"bfloat16 is about {times} times" in str(warning.message)
    assert 'optimize("auto")' in str(warning.message) and warning.filename == __file__
    assert str(roberta.optimized) == "float32, prepacked"  # it stays exact
    assert said_by(roberta.optimize) == []


# ---- lakes ----


@pytest.mark.system
def test_a_lake_takes_auto(tmp_path: Path, roberta: RobertaHubInterface) -> None:
    pytest.importorskip("pyarrow")
    from roberta_hub.scale import Verb

    roberta.save(tmp_path / "model")
    told = pickle.loads(pickle.dumps(Verb("embed", tmp_path / "model", optimize="auto")))
    found = told({"text": TEXTS})["vector"]
    wanted = copy.deepcopy(roberta).optimize("auto").embed(TEXTS)
    assert_close(torch.tensor([list(map(float, row)) for row in found]), wanted)


@runs_all
def test_float32_by_its_name_says_nothing(
    tmp_path: Path, roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    from roberta_hub.scale import Verb

    pretend(monkeypatch, AMX)
    roberta.save(tmp_path / "model")
    told = Verb("embed", tmp_path / "model", optimize="float32")
    assert said_by(lambda: told({"text": TEXTS})) == []
