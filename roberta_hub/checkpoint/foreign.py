"""Says what the files of other programs are, and what to load instead."""

from __future__ import annotations

from roberta_hub.arguments import brief
from roberta_hub.folder import Folder

_READERS = {
    ".h5": "TensorFlow or Flax",
    ".ckpt.index": "TensorFlow or Flax",
    ".msgpack": "TensorFlow or Flax",
    "saved_model.pb": "TensorFlow or Flax",
    ".tflite": "TensorFlow Lite",
    ".onnx": "an ONNX runtime",
    ".gguf": "llama.cpp",
}
"""Endings of weights, each with what reads them."""
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)
ADAPTER = "adapter_config.json"
"""peft's file next to the weights of a LoRA adapter."""


def reader_of(name: str) -> str | None:
    """Name the program whose weights a file holds by its name; None: none that we know.

    Example:
        >>> reader_of("tf_model.h5"), reader_of("model.pt")
        ('TensorFlow or Flax', None)
    """
    return next((reader for end, reader in _READERS.items() if name.lower().endswith(end)), None)


def instead(folder: Folder) -> str:
    """Say what a folder without weights of ours holds, and what to load; "" for nothing known."""
    names = folder.names()
    for name in names:
        if reader := reader_of(name):
            return (
                f"{brief(name)}, which only {reader} reads; fetch model.safetensors or "
                "pytorch_model.bin of the same model from its Hugging Face repository (Google's "
                "are google-bert/bert-base-uncased, albert/albert-base-v2, "
                "google/electra-small-discriminator and their sisters)"
            )
    if any(name in _TOKENIZERS for name in names):
        return (
            "a tokenizer without a model; give the model's folder, or fetch its weights and "
            "config.json into this one"
        )
    return ""
