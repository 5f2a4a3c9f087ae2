"""Devices and dtypes that were asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from roberta_hub import RobertaHubError, load_model

NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")


@NO_CUDA
@pytest.mark.parametrize("device", ["cuda", "cuda:3", torch.device("cuda")])
def test_cuda_where_there_is_none(device: Any):
    with pytest.raises(RobertaHubError) as caught:
        load_model("roberta.tiny", device=device)
    for word in ("cuda", torch.__version__, "CUDA", "'auto'"):
        assert word in str(caught.value)


@NO_CUDA
def test_auto_is_the_cpu_where_there_is_no_cuda_and_none_stays_the_cpu():
    assert load_model("roberta.tiny", device="auto").device.type == "cpu"
    assert load_model("roberta.tiny").device.type == "cpu"


@pytest.mark.parametrize("device", ["cudaa", "", "cpu:x", 1.5, True, ["cpu"], b"cpu", {}, -(2**70)])
def test_devices_that_are_none(device: Any):
    with pytest.raises(RobertaHubError, match="device is"):
        load_model("roberta.tiny", device=device)


@pytest.mark.parametrize("dtype", ["nn", "", 5, [], torch.int8, "int8", b"float32"])
def test_dtypes(dtype: Any):
    with pytest.raises(RobertaHubError, match="dtype is"):
        load_model("roberta.tiny", dtype=dtype)
