"""Real transformers models with random weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import torch

from .fairseq_peer import TINY, randomise
from .training import _SYMBOLS


def hf_model(
    kind: Literal["mlm", "cls"] = "mlm", *, seed: int = 0, std: float = 0.1, **config: Any
) -> Any:
    """A real RobertaForMaskedLM or RobertaForSequenceClassification, every parameter randomised.

    Args:
        kind: "mlm" or "cls".
        seed: Of the parameters.
        std: How far they spread around their neutral value.
        **config: transformers' RobertaConfig by name over the tiny sizes (`num_labels=3`, …).

    Returns:
        The model in eval mode; `save_hf` writes it.
    """
    # transformers imports torchaudio where it finds one, and dies with a torchaudio built for
    # another torch (an OSError about libc10_cuda.so); nothing here needs it.
    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]
    import transformers

    sizes = {
        "vocab_size": _SYMBOLS + 5,
        "hidden_size": TINY["encoder_embed_dim"],
        "intermediate_size": TINY["encoder_ffn_embed_dim"],
        "num_hidden_layers": TINY["encoder_layers"],
        "num_attention_heads": TINY["encoder_attention_heads"],
        "max_position_embeddings": TINY["max_positions"] + 2,
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
    }
    classes = {
        "mlm": transformers.RobertaForMaskedLM,
        "cls": transformers.RobertaForSequenceClassification,
    }
    model: Any = classes[kind](transformers.RobertaConfig(**{**sizes, **config}))
    randomise(model, seed, std)
    return model.eval()


def save_hf(
    model: Any, directory: Path, weights: Literal["safetensors", "bin"] = "safetensors"
) -> Path:
    """Save a transformers model: `config.json` and `model.safetensors` or `pytorch_model.bin`.

    transformers 5 no longer writes the `.bin`, so that one is `torch.save`d as version 4 did.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if weights == "safetensors":
        model.save_pretrained(directory)
    else:
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(directory)
        torch.save(model.state_dict(), directory / "pytorch_model.bin")
    return directory
