"""Writes tiny.json: what 0.1.0 says of a classifier with the shape of its roberta.tiny.

Run by 0.1.0 (commit 8c6c988), and not again. The weights are made by a formula, since real ones of
this shape are 20 MB; a test of every later version makes the same and compares.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
TEXTS = ["A fine film.", "Potatoes are awesome, said nobody in 1987.", "naïve 東京"]
LABELS = ["bad", "so-so", "good"]
E, C, F, V, T = 128, 256, 1024, 50265, 514


def shapes() -> dict[str, list[int]]:
    """Every tensor of 0.1.0's roberta.tiny with one head, as its model.safetensors names them."""
    encoder, found = "encoder.sentence_encoder", {}
    found[f"{encoder}.version"] = [1]
    found[f"{encoder}.embed_tokens.weight"] = [V, E]
    found[f"{encoder}.embed_projection.weight"] = [C, E]
    found[f"{encoder}.embed_positions.weight"] = [T, C]
    norms = [f"{encoder}.layernorm_embedding"]
    linears = {"encoder.lm_head.dense": (C, C)}
    for i in range(4):
        layer = f"{encoder}.layers.{i}"
        linears |= {f"{layer}.self_attn.{n}_proj": (C, C) for n in ("q", "k", "v", "out")}
        linears |= {f"{layer}.fc1": (F, C), f"{layer}.fc2": (C, F)}
        norms += [f"{layer}.self_attn_layer_norm", f"{layer}.final_layer_norm"]
    linears["classification_heads.taste.dense"] = (C, C)
    linears["classification_heads.taste.out_proj"] = (len(LABELS), C)
    for name, (rows, columns) in linears.items():
        found |= {f"{name}.weight": [rows, columns], f"{name}.bias": [rows]}
    for name in [*norms, "encoder.lm_head.layer_norm"]:
        found |= {f"{name}.weight": [C], f"{name}.bias": [C]}
    found["encoder.lm_head.bias"] = [V]
    return found


def tensors() -> dict[str, torch.Tensor]:
    """Make the weights: waves, around 1 for the norms' weights and around 0 for all else."""
    made = {}
    for number, (name, shape) in enumerate(sorted(shapes().items())):
        size = int(torch.tensor(shape).prod())
        wave = torch.sin(torch.arange(size, dtype=torch.float64) * (0.7 + 0.013 * number)) * 0.12
        if "norm" in name and name.endswith("weight"):
            wave += 1.0
        made[name] = wave.view(shape).half()
    made["encoder.sentence_encoder.version"] = torch.tensor([3.0])
    return made


def write(folder: Path) -> None:
    """Write the classifier as 0.1.0 saves a model that was fine-tuned from roberta.tiny."""
    folder.mkdir(parents=True, exist_ok=True)
    about = json.loads((HERE / "tiny_config.json").read_text())
    (folder / "config.json").write_text(json.dumps(about))
    save_file(tensors(), folder / "model.safetensors")


def answers(folder: Path) -> dict[str, object]:
    """What a version says of the folder."""
    import roberta_hub

    roberta = roberta_hub.load_model(folder).eval()
    return {
        "scores": [p.scores for p in roberta.classify(TEXTS, head="taste")],
        "vectors": roberta.features(TEXTS, pooling="mean")[:, :4].tolist(),
        "fillers": roberta.score(TEXTS),
    }


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        write(Path(place) / "model")
        (HERE / "tiny.json").write_text(json.dumps(answers(Path(place) / "model"), indent=1) + "\n")
