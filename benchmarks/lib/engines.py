"""Makes the same encoder in every engine: lists of ids in, features of each text out.

All hold the weights of one of our models with random weights, handed over through files (`save`) or
tensor by tensor. Peers get padded batches, sorted by length or in the given order; what an engine
has of its own against padding is on.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.corpus import corpus
from torch import Tensor, nn

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.inference.batching import Runner
from roberta_hub.model.kernels import missing_features
from roberta_hub.model.matrices import check_dtype

Ids = list[Tensor]
Engine = Callable[[Ids], list[Tensor]]
"""Features (T, C) of each text, in order."""
Encode = Callable[[Ids], Sequence[Tensor]]
"""The same of one batch; rows may be padded."""
PAD = 1
CALIBRATION_TEXTS = 300


def random_model(size: str, vocab_size: int | None = None) -> roberta_hub.RobertaHubInterface:
    """Our model with random weights, in eval mode; the seed is fixed."""
    torch.manual_seed(0)
    return roberta_hub.load_model(f"roberta.{size}", pretrained=False).eval()


def rounded(roberta: roberta_hub.RobertaHubInterface) -> roberta_hub.RobertaHubInterface:
    """The model with weights that float16 holds, as published checkpoints have them."""
    for parameter in roberta.parameters():
        parameter.data = parameter.data.half().float()
    return roberta


# ---- ours ----


def ours(roberta: roberta_hub.RobertaHubInterface, dtype: str | None = "plain") -> Engine:
    """Our encoder as it comes, or after `optimize(dtype)`."""
    if dtype != "plain":
        roberta.optimize(dtype)  # type: ignore[arg-type]
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer, progress=False)
    return lambda ids: runner.run(ids, lambda rows: rows.split())


# ---- peers ----


def padded(ids: Sequence[Tensor]) -> Tensor:
    """(B, T) with padding on the right."""
    return nn.utils.rnn.pad_sequence(list(ids), batch_first=True, padding_value=PAD)


def in_batches(encode: Encode, batch: int = 32, *, by_length: bool = True) -> Engine:
    """Run a peer over a list, texts of like length together or as they come."""

    def run(ids: Ids) -> list[Tensor]:
        order = (
            sorted(range(len(ids)), key=lambda i: -len(ids[i])) if by_length else range(len(ids))
        )
        found: list[Any] = [None] * len(ids)
        for i in range(0, len(order), batch):
            part = order[i : i + batch]
            for j, features in zip(part, encode([ids[j] for j in part]), strict=True):
                found[j] = features[: len(ids[j])]
        return found

    return run


def _no_grad(module: Callable[[Tensor], Tensor]) -> Encode:
    def encode(ids: Ids) -> Sequence[Tensor]:
        with torch.inference_mode():
            return list(module(padded(ids)))

    return encode


def transformers(folder: Path, attention: str, dtype: torch.dtype = torch.float32) -> Encode:
    """transformers' RobertaModel."""
    model = _transformers(folder, attention).to(dtype)
    return _no_grad(
        lambda tokens: model(tokens, attention_mask=tokens.ne(PAD).long()).last_hidden_state
    )


def _transformers(folder: Path, attention: str) -> Any:
    import transformers as library

    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    return (
        library.RobertaModel.from_pretrained(
            folder, attn_implementation=attention, add_pooling_layer=False
        )
        .eval()
        .requires_grad_(False)
    )


def fairseq(roberta: roberta_hub.RobertaHubInterface) -> Encode:
    """fairseq's RobertaModel."""
    from roberta_hub.fairseq_bridge import to_fairseq

    hub = to_fairseq(roberta).eval()
    return _no_grad(lambda tokens: hub.extract_features(tokens))


def torch_layers(roberta: roberta_hub.RobertaHubInterface) -> Encode:
    """torch's `nn.TransformerEncoder`: its fast path, with nested tensors for what is padded."""
    encoder, config = roberta.model.encoder.sentence_encoder, roberta.model.config
    layers = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(
            config.embed_dim,
            config.num_heads,
            config.ffn_dim,
            0.0,
            "gelu",
            layer_norm_eps=config.layer_norm_eps,
            batch_first=True,
        ),
        config.num_layers,
    ).eval()
    with torch.no_grad():
        for theirs, own in zip(layers.layers, encoder.layers, strict=True):
            attention = own.self_attn
            projections = (attention.q_proj, attention.k_proj, attention.v_proj)
            theirs.self_attn.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
            theirs.self_attn.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
            for name, module in (
                ("self_attn.out_proj", attention.out_proj),
                ("linear1", own.fc1),
                ("linear2", own.fc2),
                ("norm1", own.self_attn_layer_norm),
                ("norm2", own.final_layer_norm),
            ):
                theirs.get_submodule(name).load_state_dict(module.state_dict())
    for parameter in layers.parameters():
        parameter.requires_grad_(False)

    def run(tokens: Tensor) -> Tensor:
        real = tokens.ne(PAD)
        positions = real.long().cumsum(1) * real + PAD
        out: Tensor = layers(encoder.embed(tokens, positions), src_key_padding_mask=~real)
        return out

    return _no_grad(run)


def export(folder: Path) -> Path:
    """The Hugging Face model as ONNX, with ONNX Runtime's fusions for BERT; in int8 beside it.

    A process makes it that gives its memory back; it finds modules where this one does.

    Raises:
        RuntimeError: it made none; what it said.
    """
    fused = folder / "fused.onnx"
    if not fused.is_file():
        command = [sys.executable, "-m", "lib.engines", str(folder)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        made = subprocess.run(command, env=environment, capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"no ONNX file: {(made.stderr.splitlines() or ['no reason'])[-1]}")
    return fused


def _export(folder: Path) -> None:
    from onnxruntime.transformers import optimizer

    model = _transformers(folder, "eager")
    plain, fused = folder / "plain.onnx", folder / "fused.onnx"

    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # As a part, or the exporter takes weights for constants and writes them twice.
            self.model = model

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            features: Tensor = self.model(input_ids, attention_mask).last_hidden_state
            return features

    names = ["input_ids", "attention_mask"]
    tokens = torch.tensor([[0, 31414, 232, 328, 2], [0, 31414, 232, 2, PAD]])
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Features(),
            (tokens, tokens.ne(PAD).long()),
            plain,
            input_names=names,
            output_names=["features"],
            dynamic_axes={name: {0: "batch", 1: "time"} for name in [*names, "features"]},
            dynamo=False,
            opset_version=17,
        )
    config = model.config
    found = optimizer.optimize_model(
        str(plain), "bert", config.num_attention_heads, config.hidden_size
    )
    fusions = found.get_fused_operator_statistics()
    assert fusions["Attention"] == config.num_hidden_layers, fusions
    found.save_model_to_file(str(fused), use_external_data_format=True)


def _quantize(folder: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        folder / "fused.onnx",
        folder / "int8.onnx",
        per_channel=True,
        weight_type=QuantType.QInt8,
        use_external_data_format=True,
        extra_options={"DefaultTensorType": 1},
    )


def onnxruntime(folder: Path, dtype: str) -> Encode:
    """ONNX Runtime in "float32", "int8" or "as it comes".

    "int8" has weights by channel and activations quantized as they come; as it comes it gets the
    export without fusions, and chooses its threads.
    """
    import onnxruntime as library

    path = export(folder)
    if dtype == "int8":
        path = folder / "int8.onnx"
    options = library.SessionOptions()
    if dtype == "as it comes":
        path = folder / "plain.onnx"
    else:
        options.intra_op_num_threads = torch.get_num_threads()
    session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def encode(ids: Ids) -> Sequence[Tensor]:
        tokens = padded(ids)
        fed = {"input_ids": tokens.numpy(), "attention_mask": tokens.ne(PAD).long().numpy()}
        return list(torch.from_numpy(session.run(None, fed)[0]))

    return encode


def openvino(folder: Path, dtype: str) -> Encode:
    """OpenVINO in "float32", "bfloat16", "int8", "int8, calibrated" or "as it comes".

    "int8" has compressed weights and activations quantized as they come, "int8, calibrated" fixed
    ranges of activations from texts, as sentence-transformers' page says; as it comes it chooses
    dtype, hint and threads, and bfloat16 where the CPU has instructions for it.
    """
    import openvino as library

    export(folder)
    core = library.Core()
    model = core.read_model(folder / "plain.onnx")
    settings: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    if dtype == "int8":
        import nncf

        with contextlib.redirect_stdout(io.StringIO()):
            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 1 << 16  # one scale a token
    if dtype == "int8, calibrated":
        model = _calibrated(model, folder)
    compiled = core.compile_model(model, "CPU", {} if dtype == "as it comes" else settings)

    def encode(ids: Ids) -> Sequence[Tensor]:
        tokens = padded(ids)
        found = compiled([tokens.numpy(), tokens.ne(PAD).long().numpy()])[0]
        return list(torch.from_numpy(np.array(found)))

    return encode


def _calibrated(model: Any, folder: Path) -> Any:
    """With the settings of sentence-transformers' `export_static_quantized_openvino_model`."""
    import nncf
    from nncf.quantization.advanced_parameters import (
        AdvancedQuantizationParameters,
        AdvancedSmoothQuantParameters,
        OverflowFix,
    )

    tokenizer = roberta_hub.load_model(folder)
    texts = [text for text in corpus()[1] if isinstance(text, str)][-CALIBRATION_TEXTS:]
    rows = [tokenizer.encode(text)[:512].unsqueeze(0) for text in texts]
    with contextlib.redirect_stdout(io.StringIO()):
        return nncf.quantize(
            model,
            nncf.Dataset([[row.numpy(), torch.ones_like(row).numpy()] for row in rows]),
            subset_size=len(rows),
            model_type=nncf.ModelType.TRANSFORMER,
            advanced_parameters=AdvancedQuantizationParameters(
                overflow_fix=OverflowFix.DISABLE,
                smooth_quant_alphas=AdvancedSmoothQuantParameters(matmul=0.95),
            ),
        )


def ctranslate2(folder: Path, dtype: str) -> Encode:
    """CTranslate2 in "float32", "int8" or "as it comes"."""
    import ctranslate2 as library
    from transformers import RobertaConfig

    out = folder / "ctranslate2"
    if not out.is_dir():
        # Its converter asks for a field that transformers 5 dropped, all models being absolute now.
        RobertaConfig.position_embedding_type = "absolute"  # type: ignore[attr-defined]
        with contextlib.redirect_stderr(io.StringIO()):
            library.converters.TransformersConverter(str(folder)).convert(str(out))
    settings = {"compute_type": dtype, "intra_threads": torch.get_num_threads()}
    encoder = library.Encoder(str(out), **({} if dtype == "as it comes" else settings))

    def encode(ids: Ids) -> Sequence[Tensor]:
        found = encoder.forward_batch([row.tolist() for row in ids]).last_hidden_state
        return list(torch.from_numpy(np.array(found)))

    return encode


MAKERS: dict[str, Callable[[roberta_hub.RobertaHubInterface, Path], Encode]] = {
    "roberta_hub, plain": lambda roberta, _: ours(roberta),
    "roberta_hub": lambda roberta, _: ours(roberta, None),
    "roberta_hub, weights that float16 holds": lambda roberta, _: ours(rounded(roberta), None),
    "roberta_hub, bfloat16": lambda roberta, _: ours(roberta, "bfloat16"),
    "roberta_hub, int8": lambda roberta, _: ours(roberta, "int8"),
    "roberta_hub, auto": lambda roberta, _: ours(roberta, "auto"),
    "transformers, sdpa": lambda _, folder: transformers(folder, "sdpa"),
    "transformers, eager": lambda _, folder: transformers(folder, "eager"),
    "transformers, bfloat16": lambda _, folder: transformers(folder, "sdpa", torch.bfloat16),
    "fairseq": lambda roberta, _: fairseq(roberta),
    "nn.TransformerEncoder": lambda roberta, _: torch_layers(roberta),
    "ONNX Runtime": lambda _, folder: onnxruntime(folder, "float32"),
    "OpenVINO": lambda _, folder: openvino(folder, "float32"),
    "CTranslate2": lambda _, folder: ctranslate2(folder, "float32"),
    "ONNX Runtime, as it comes": lambda _, folder: onnxruntime(folder, "as it comes"),
    "OpenVINO, as it comes": lambda _, folder: openvino(folder, "as it comes"),
    "CTranslate2, as it comes": lambda _, folder: ctranslate2(folder, "as it comes"),
    "ONNX Runtime, int8": lambda _, folder: onnxruntime(folder, "int8"),
    "OpenVINO, bfloat16": lambda _, folder: openvino(folder, "bfloat16"),
    "OpenVINO, int8": lambda _, folder: openvino(folder, "int8"),
    "OpenVINO, int8, calibrated": lambda _, folder: openvino(folder, "int8, calibrated"),
    "CTranslate2, int8": lambda _, folder: ctranslate2(folder, "int8"),
}
"""How each is made: from our model, or from the folder in which it stands as Hugging Face's
files."""


def can_optimize(dtype: str) -> bool:
    """Whether `optimize(dtype)` is not refused on this CPU."""
    try:
        check_dtype(dtype, torch.device("cpu"))
    except InputError:
        return False
    return True


def makers_here() -> list[str]:
    """The names of those that make sense on this CPU: it may lack instructions for a dtype."""
    return [
        name
        for name in MAKERS
        if not ("bfloat16" in name and missing_features("bfloat16"))
        and not ("roberta_hub, int8" in name and not can_optimize("int8"))
    ]


if __name__ == "__main__":
    _export(Path(sys.argv[1]))
    _quantize(Path(sys.argv[1]))
