"""Opens a folder of `export` with a loader of somebody else, asks it texts, and writes JSON.

python opening.py ORTModelForMaskedLM FOLDER TEXTS
"""

from __future__ import annotations

import json
import sys


def asked(kind: str, folder: str, texts: list[str]) -> dict[str, object]:
    """The loader's answers by their names."""
    if kind == "SentenceTransformer":
        from sentence_transformers import SentenceTransformer

        return {"embedding": SentenceTransformer(folder, backend="onnx").encode(texts).tolist()}
    import optimum.onnxruntime
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    loaded = getattr(optimum.onnxruntime, kind).from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    found = {name: tensor.tolist() for name, tensor in loaded(**inputs).items()}
    return found | {"input_ids": inputs["input_ids"].tolist()}


if __name__ == "__main__":
    print(json.dumps(asked(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
