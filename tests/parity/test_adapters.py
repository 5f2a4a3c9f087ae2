"""LoRA adapters that peft itself writes, against the model that peft merges; skipped without it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from families import theirs, write_family
from small_models import assert_close

from roberta_hub import load_model

pytestmark = pytest.mark.parity
peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

TEXT = "The dog is in the house."
QUERIES = {"distilbert": ["q_lin", "v_lin"]}
TASKS = {"sentence": "SEQ_CLS", "tokens": "TOKEN_CLS", "span": "QUESTION_ANS"}
SAVED = {"sentence": ["classifier"], "tokens": ["classifier"], "span": ["qa_outputs"]}


def adapted(base: Path, kind: str, head: str, **options: Any) -> Any:
    """A model of transformers' with a random adapter of peft's, in eval mode."""
    config = peft.LoraConfig(
        **{
            "task_type": TASKS.get(head),
            "r": 4,
            "lora_alpha": 12,
            "target_modules": QUERIES.get(kind, ["query", "value"]),
            "modules_to_save": SAVED.get(head),
            **options,
        }
    )
    torch.manual_seed(1)
    model = peft.get_peft_model(theirs(base), config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.2 * torch.randn(parameter.shape))
    return model.eval()


@pytest.mark.parametrize(
    "kind", ["gottbert", "xlm-roberta", "bert", "albert", "electra", "distilbert"]
)
@pytest.mark.parametrize("head", ["lm", "bare", "sentence", "tokens", "span"])
def test_as_peft_merges_it(kind: str, head: Any, tmp_path: Path):
    base = write_family(kind, tmp_path / "base", head=head)
    options = {"task_type": "FEATURE_EXTRACTION"} if head == "bare" else {}
    model = adapted(base, kind, head, **options)
    check(model, base, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"use_rslora": True},
        {"bias": "all"},
        {"bias": "lora_only"},
        {"fan_in_fan_out": True},
        {"target_modules": "all-linear"},
        {"target_modules": ["query", "word_embeddings"]},
        {"rank_pattern": {"query": 2}, "alpha_pattern": {"layer.1.attention.self.value": 3}},
        {"rank_pattern": {"^bert.encoder.layer.0.attention.self.query": 8}},
        {"rank_pattern": {"query": 2}, "use_rslora": True},
        {"init_lora_weights": "gaussian"},
        {"layers_to_transform": [1], "layers_pattern": "layer"},
        {"target_modules": ".*layer.*(query|key|dense)"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["bert", "gottbert"])
def test_every_setting(kind: str, options: dict[str, Any], tmp_path: Path):
    base = write_family(kind, tmp_path / "base", head="sentence")
    check(adapted(base, kind, "sentence", **options), base, tmp_path)


def check(model: Any, base: Path, tmp_path: Path) -> None:
    """Compare states: the adapter alone, beside its base, and in a state dict of all."""
    alone, both, live = (tmp_path / name for name in ("alone", "both", "live"))
    model.save_pretrained(alone)
    about = json.loads((alone / "adapter_config.json").read_text())
    (alone / "adapter_config.json").write_text(
        json.dumps({**about, "base_model_name_or_path": str(base)})
    )
    for folder in (both, live):
        folder.mkdir()
        for file in base.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    for file in alone.iterdir():
        (both / file.name).write_bytes(file.read_bytes())
    (live / "adapter_config.json").write_bytes((alone / "adapter_config.json").read_bytes())
    (live / "model.safetensors").unlink()
    torch.save(model.state_dict(), live / "pytorch_model.bin")
    merged = copy.deepcopy(model).merge_and_unload().eval()
    merged.save_pretrained(tmp_path / "merged")
    for file in base.iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            (tmp_path / "merged" / file.name).write_bytes(file.read_bytes())
    wanted = load_model(tmp_path / "merged").eval()
    ids = wanted.encode(TEXT)
    with torch.no_grad():
        states = merged.base_model(ids[None]).last_hidden_state
        assert_close(wanted.extract_features(ids), states)
        for folder in (alone, both, live):
            found = load_model(folder, adapter=True).eval()
            assert_close(found.extract_features(ids), states)
            right, ours = wanted.model.state_dict(), found.model.state_dict()
            assert ours.keys() <= right.keys()
            for name, tensor in ours.items():
                assert_close(tensor, right[name])
            lacking = {name.split(".")[0] for name in right.keys() - ours.keys()}
            assert lacking <= {"pooler"}, lacking
