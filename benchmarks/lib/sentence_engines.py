"""Makes sentence vectors with one engine, in whatever environment it runs in, for `small.py`.

    PYTHON benchmarks/lib/sentence_engines.py ENGINE MODEL_FOLDER

Reads lines of JSON, each a path of texts and a path for their vectors. Answers each with a line:
the seconds that it took, and whether nobody else used the machine meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

from lib.timing import sample  # noqa: E402

Embed = Callable[[list[str]], Any]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MOST = 256
"""Tokens of a text, as the model's own settings say."""
BATCH = 64
"""Texts of a batch, where it is not as the engine comes."""
CALIBRATION_TEXTS = 300


def roberta(folder: Path, dtype: str | None) -> Embed:
    import roberta_hub

    model = roberta_hub.load_model(folder).eval()
    if dtype != "as it comes":
        model.optimize(dtype)  # type: ignore[arg-type]
    return lambda texts: model.embed(texts, progress=False).numpy()


def sentence_transformers(folder: Path, backend: str, kind: str) -> Embed:
    """Kind is a dtype, or "as it comes": with all defaults."""
    import torch
    from sentence_transformers import SentenceTransformer

    folder = exported(folder, backend)
    settings: dict[str, Any] = {}
    if backend == "onnx":
        settings = {"file_name": "onnx/model.onnx", "provider": "CPUExecutionProvider"}
        if kind == "int8":
            settings["file_name"] = str(quantized(folder).relative_to(folder))
    if backend == "openvino" and kind == "int8, calibrated":
        settings = {"file_name": "openvino/openvino_model_qint8_quantized.xml"}
    elif backend == "openvino":
        settings = {"file_name": "openvino/openvino_model.xml"}
        hint = {"float32": "f32", "int8": "f32", "bfloat16": "bf16"}.get(kind)
        settings["ov_config"] = {"INFERENCE_PRECISION_HINT": hint} if hint else {}
        if kind == "int8":
            settings |= {"load_in_8bit": True}
            settings["ov_config"]["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = str(1 << 16)
    if backend == "torch" and kind == "bfloat16":
        settings = {"torch_dtype": torch.bfloat16}
    model = SentenceTransformer(
        str(folder),
        device="cpu",
        backend=backend,
        model_kwargs=settings,  # type: ignore[arg-type]
    )
    own = {} if kind == "as it comes" else {"batch_size": BATCH}
    return lambda texts: model.encode(texts, show_progress_bar=False, **own)


def exported(folder: Path, backend: str) -> Path:
    """Where a backend's files lie: apart, since each version writes settings of its own."""
    return folder if backend == "torch" else folder.parent / f"{folder.name} {backend}"


def export(folder: Path, backend: str) -> None:
    """Write the files that the backend loads, with its own exporter."""
    from sentence_transformers import SentenceTransformer

    place = str(shutil.copytree(folder, exported(folder, backend)))
    made = SentenceTransformer(
        place,
        device="cpu",
        backend=backend,  # type: ignore[arg-type]
        model_kwargs={"export": True},
    )
    made.save_pretrained(place)


def quantized(folder: Path) -> Path:
    """The ONNX file in int8, as sentence-transformers' own page says to make it."""
    path = folder / "onnx" / "model_qint8_avx512_vnni.onnx"
    if not path.exists():
        from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

        model = SentenceTransformer(
            str(folder),
            device="cpu",
            backend="onnx",
            model_kwargs={"file_name": "onnx/model.onnx", "provider": "CPUExecutionProvider"},
        )
        export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(folder))
    return path


def calibrate(folder: Path) -> None:
    """Write OpenVINO's model in int8, calibrated as sentence-transformers' own page says."""
    from lib.corpus import paragraphs
    from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

    model = SentenceTransformer(
        str(folder),
        device="cpu",
        backend="openvino",
        model_kwargs={"file_name": "openvino/openvino_model.xml"},
    )
    place = folder.parent / "calibration"
    place.mkdir()
    lines = [json.dumps({"text": text}) + "\n" for text in paragraphs(CALIBRATION_TEXTS)[1]]
    (place / "train.jsonl").write_text("".join(lines), encoding="utf-8")
    export_static_quantized_openvino_model(
        model,
        None,
        str(folder),
        dataset_name=str(place),
        dataset_config_name="default",
        dataset_split="train",
        column_name="text",
    )


def fastembed(folder: Path, kind: str) -> Embed:
    from fastembed import TextEmbedding

    own = folder.parent / f"fastembed {kind}"
    own.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        shutil.copy(path, own)
    name = "model_qint8_avx512_vnni.onnx" if kind == "int8" else "model.onnx"
    shutil.copy(exported(folder, "onnx") / "onnx" / name, own / "model.onnx")
    model = TextEmbedding(
        "sentence-transformers/all-MiniLM-L6-v2",
        specific_model_path=str(own),
        threads=None if kind == "as it comes" else CORES,
    )
    settings = {} if kind == "as it comes" else {"batch_size": BATCH}
    return lambda texts: np.stack(list(model.embed(texts, **settings)))


def llama(folder: Path, kind: str) -> Embed:
    """llama.cpp with weights in q8_0, which is how its embedding models are published."""
    from llama_cpp import Llama

    path = folder.parent / "q8_0.gguf"
    if not path.exists():
        write_gguf = runpy.run_path(
            str(Path(__file__).resolve().parents[2] / "tools/write_gguf.py")
        )
        write_gguf["write"](folder, path, "q8_0")
    own = {} if kind == "as it comes" else {"n_threads": CORES, "n_threads_batch": CORES}
    model = Llama(str(path), embedding=True, verbose=False, **own)
    return lambda texts: np.array(model.embed(texts, normalize=True))


KINDS = {
    "torch": ("as it comes", "float32", "bfloat16"),
    "ONNX": ("as it comes", "float32", "int8"),
    "OpenVINO": ("as it comes", "float32", "bfloat16", "int8", "int8, calibrated"),
}
"""What each backend is measured in."""
_KINDS = KINDS["OpenVINO"]
ENGINES: dict[str, tuple[str | None, Callable[[Path], Embed]]] = {
    "roberta_hub": (None, lambda folder: roberta(folder, None)),
    "roberta_hub, plain": (None, lambda folder: roberta(folder, "as it comes")),
    "roberta_hub, bfloat16": (None, lambda folder: roberta(folder, "bfloat16")),
    "roberta_hub, int8": (None, lambda folder: roberta(folder, "int8")),
    "roberta_hub, auto": (None, lambda folder: roberta(folder, "auto")),
}
"""Each engine: the environment of tools/lake_environments.py it runs in, and what makes it."""
for _kind in _KINDS:
    _end = "" if _kind == "float32" else f", {_kind}"
    for _name, _backend in (("torch", "torch"), ("ONNX", "onnx"), ("OpenVINO", "openvino")):
        if _kind in KINDS[_name]:
            ENGINES[f"sentence-transformers {_name}{_end}"] = (
                f"sentence_{_name.lower()}",
                lambda folder, b=_backend, k=_kind: sentence_transformers(folder, b, k),
            )
    if _kind in ("as it comes", "int8"):
        ENGINES[f"llama.cpp{_end}"] = ("llama", lambda folder, k=_kind: llama(folder, k))
    if _kind not in ("bfloat16", "int8, calibrated"):
        ENGINES[f"fastembed{_end}"] = ("fastembed", lambda folder, k=_kind: fastembed(folder, k))


def main() -> None:
    engine, folder = sys.argv[1], Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with contextlib.redirect_stdout(sys.stderr):
        os.dup2(2, 1)  # whatever a library prints
        try:
            if engine.startswith("export "):
                export(folder, engine.split()[1])
                if engine.endswith("onnx"):
                    quantized(exported(folder, "onnx"))
                else:
                    calibrate(exported(folder, "openvino"))
                print(json.dumps({"ready": True}), file=answers)
                return
            embed = ENGINES[engine][1](folder)
        except Exception as error:  # told to the parent, which measures the others
            said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            print(json.dumps({"error": said}), file=answers)
            raise
        print(json.dumps({"ready": True}), file=answers)
        for line in sys.stdin:
            asked = json.loads(line)
            texts = json.loads(Path(asked["texts"]).read_text(encoding="utf-8"))
            vectors: list[Any] = []
            seconds, is_clean = sample(lambda: vectors.append(embed(texts)))  # noqa: B023
            if asked.get("vectors"):
                np.save(asked["vectors"], np.asarray(vectors[0], dtype=np.float32))
            print(json.dumps({"seconds": seconds, "clean": is_clean}), file=answers)


if __name__ == "__main__":
    main()
