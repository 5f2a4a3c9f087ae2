"""Small checkpoints to save, spoil and load: 16 symbols, 2 layers of width 8."""

from __future__ import annotations

import dataclasses
import json
import pickle
import zipfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubError, RobertaHubInterface
from roberta_hub.config import RobertaConfig
from roberta_hub.hub import RobertaModel
from roberta_hub.settings import SentenceSettings
from roberta_hub.text import Dictionary, Task
from roberta_hub.text.bpe import GPT2BPE

SMALL = RobertaConfig(
    vocab_size=16, max_positions=12, embed_dim=8, ffn_dim=16, num_layers=2, num_heads=2
)
DICTIONARY = b"".join(b"%d %d\n" % (i, 20 - i) for i in range(11))
LABELS = b"neg 2\npos 1\n"
IDS = torch.tensor([[0, 5, 9, 14, 2], [0, 15, 2, 1, 1]])

ENCODER = "encoder.sentence_encoder."
TABLE = f"{ENCODER}embed_tokens.weight"


def small(
    heads: Mapping[str, Sequence[str]] | None = None,
    *,
    label_dictionary: bytes | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    **config: Any,
) -> RobertaHubInterface:
    """A model with every parameter random, in eval mode."""
    torch.manual_seed(seed)
    heads = heads or {}
    model = RobertaModel(dataclasses.replace(SMALL, **config))
    for head, labels in heads.items():
        model.register_classification_head(head, len(labels))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    dictionary = Dictionary.parse(DICTIONARY, "dict.txt")
    dictionary.add_symbol("<mask>")
    labels = label_dictionary and Dictionary.parse(label_dictionary, "labels", add_mask=True)
    task = Task(source_dictionary=dictionary, label_dictionary=labels or None)
    bpe = GPT2BPE([(b" ", b"t"), (b"h", b"e")])  # of GPT-2's tables 50,000 merges would be saved
    interface = RobertaHubInterface(
        model.config, task, model, bpe=bpe, labels={k: tuple(v) for k, v in heads.items()}
    )
    return interface.to(dtype).eval()


def fairseq_state(roberta: RobertaHubInterface, **arguments: Any) -> dict[str, Any]:
    """What fairseq of 2020 would have in its file."""
    config = roberta.model.config
    args = {
        "arch": "roberta_base",
        "encoder_layers": config.num_layers,
        "encoder_embed_dim": config.embed_dim,
        "encoder_ffn_embed_dim": config.ffn_dim,
        "encoder_attention_heads": config.num_heads,
        "max_positions": config.max_positions,
    }
    return {"args": Namespace(**args, **arguments), "model": dict(roberta.model.state_dict())}


def fairseq_file(
    folder: Path, state: object = None, *, legacy: bool = False, name: str = "model.pt"
) -> Path:
    """A model.pt with a dict.txt beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dict.txt").write_bytes(DICTIONARY)
    state = fairseq_state(small()) if state is None else state
    torch.save(state, folder / name, _use_new_zipfile_serialization=not legacy)
    return folder / name


def with_pickle(path: Path, opcodes: bytes) -> Path:
    """Put a pickle of our own making into a torch zip file."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, opcodes if name.endswith("data.pkl") else content)
    return path


def legacy_pickle(path: Path, opcodes: bytes) -> Path:
    """A file of the format before 2020 around a pickle of our own making."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    head = [torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION, system]
    path.write_bytes(b"".join(pickle.dumps(x, 2) for x in head) + opcodes + pickle.dumps([], 2))
    return path


def edit_json(path: Path, **changes: Any) -> None:
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, **changes}))


def outputs(roberta: RobertaHubInterface, heads: Sequence[str] = ()) -> list[Tensor]:
    """Features, LM logits if there is such a head, and the logits of each named head."""
    model = roberta.eval().model
    with torch.no_grad():
        found = [model(IDS, features_only=True)[0]]
        if model.config.lm_head:
            found.append(model(IDS)[0])
        found += [model(IDS, classification_head_name=head)[0] for head in heads]
    return found


def assert_refused(path: Path, *words: str, **options: Any) -> str:
    """Loading ends in one of our errors, which names the path and says each of `words`."""
    with pytest.raises(RobertaHubError) as caught:
        roberta_hub.load_model(path, **options)
    message = str(caught.value)
    folder = path if path.is_dir() else path.parent
    for word in (str(folder), *words):
        assert word in message, message
    assert "weights_only" not in message
    assert "add_safe_globals" not in message
    assert len(message) < 2000
    assert caught.value.__cause__ is None, "torch's own message may tell to switch protection off"
    return message


def assert_refused_or_loads(path: Path) -> bool:
    """For damage that may or may not show: one of our errors, or a model that runs."""
    try:
        model = roberta_hub.load_model(path, allow_nonfinite=True).eval().model
    except RobertaHubError as error:
        assert "weights_only" not in str(error)
        return False
    with torch.no_grad():
        assert model(IDS, features_only=True)[0].shape == (2, 5, model.config.embed_dim)
    return True


def sentence_encoder(folder: Path, *, older: bool) -> str:
    """Write a sentence encoder as sentence-transformers does.

    Args:
        folder: made if missing.
        older: the model lies in a folder of its own.

    Returns:
        How names of the model's files begin in the folder: "" or "0_Transformer/".
    """
    roberta = small()
    roberta.sentence = SentenceSettings(normalize=True)
    roberta.save(folder, format="huggingface")
    if not older:
        return ""
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "0_Transformer").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        if not path.name.startswith(("modules", "config_sentence")):
            path.rename(folder / "0_Transformer" / path.name)
    return "0_Transformer/"
