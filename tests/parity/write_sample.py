"""Writes tests/data/fairseq/model.pt with real fairseq: `python -m tests.parity.write_sample`.

A RoBERTa of 8 dimensions with the full vocabulary and a head "mnli", in half precision so that the
repository stays small. Its weights are random.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from . import peers

SIZES = {
    "encoder_layers": 2,
    "encoder_embed_dim": 8,
    "encoder_ffn_embed_dim": 16,
    "encoder_attention_heads": 2,
    "max_positions": 512,
}

if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        data = peers.dictionary(Path(folder))
        peer = peers.fairseq_model(data, heads={"mnli": 3}, seed=1, **SIZES)
        target = Path(__file__).parents[1] / "data" / "fairseq"
        print(peers.save_era(peer, target, "plain", half=True))
