"""Loading opens each JSON file of a folder once, and lists each folder once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import forks
import pytest
from checkpoints import sentence_encoder, small
from families import write_family

from roberta_hub import load_model

LOOKS = """
import json, sys
from roberta_hub import load_model

folder, name = sys.argv[1:]
seen = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(folder):
        seen.append(("open " if event == "open" else "list ") + str(arguments[0]))
sys.addaudithook(hook)
load_model(name)
print(json.dumps(seen))
"""


def looks(folder: Path, name: Path | None = None) -> Counter[str]:
    """How often what in a folder was opened or listed while a model was loaded."""
    run = forks.run("-c", LOOKS, str(folder), str(name or folder))
    assert run.returncode == 0, run.stderr
    return Counter(look.replace(f"{folder}/", "") for look in json.loads(run.stdout))


@pytest.mark.parametrize("older", [False, True])
def test_a_sentence_encoder_of_hugging_face(tmp_path: Path, older: bool) -> None:
    inside = sentence_encoder(tmp_path, older=older)
    (tmp_path / inside / "special_tokens_map.json").write_text('{"mask_token": "<mask>"}')
    (tmp_path / inside / "added_tokens.json").write_text("{}")
    seen = looks(tmp_path)
    once = {look: 1 for look in seen if look.endswith(".json") or look.startswith("list")}
    assert {look: seen[look] for look in once} == once
    names = ["config.json", "vocab.json", "tokenizer_config.json", "sentence_bert_config.json"]
    assert once.keys() >= {
        *(f"open {inside}{name}" for name in names),
        "open modules.json",
        "open config_sentence_transformers.json",
        "open 1_Pooling/config.json",
        "open 2_Normalize/config.json",
        f"list {tmp_path}",
    }


@pytest.mark.parametrize("format", ["roberta_hub", "huggingface", "fairseq"])
def test_every_format(tmp_path: Path, format: str) -> None:
    small().save(tmp_path, format=format)  # type: ignore[arg-type]
    seen = looks(tmp_path)
    assert seen[f"list {tmp_path}"] == 1
    # On a slow machine the pickle is old enough for a converted copy, whose record is staged.
    assert {look: n for look, n in seen.items() if n > 1 and look.endswith(".json")} == {}


def test_a_file_that_is_named(tmp_path: Path) -> None:
    small().save(tmp_path, format="huggingface")
    seen = looks(tmp_path, tmp_path / "model.safetensors")
    assert seen["open config.json"] == seen["open tokenizer_config.json"] == 1
    assert seen[f"list {tmp_path}"] == 1


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_a_tokenizer_json(tmp_path: Path, kind: str) -> None:
    """WordPiece's and SentencePiece's readers ask for it too, and it may have 17 MB."""
    write_family(kind, tmp_path / "theirs")
    load_model(tmp_path / "theirs").save(tmp_path / "ours", format="huggingface")
    seen = looks(tmp_path / "ours")
    assert {look: seen[look] for look in seen if ".json" in look and seen[look] > 1} == {}
    assert seen["open config.json"] == seen["open tokenizer_config.json"] == 1
    assert kind != "bert" or seen["open tokenizer.json"] == 1
