"""Writes a folder's model for OpenVINO and prints what `verify` finds; see test_other_runtimes.py.

python run_openvino.py FOLDER PLACE
"""

import json
import shutil
import sys
from pathlib import Path

from sentence_transformers import SentenceTransformer

import roberta_hub

folder, place = Path(sys.argv[1]), Path(sys.argv[2])
shutil.copytree(folder, place / "openvino")
model = SentenceTransformer(
    str(place / "openvino"),
    device="cpu",
    backend="openvino",
    model_kwargs={"export": True, "ov_config": {"INFERENCE_PRECISION_HINT": "f32"}},
)
found = roberta_hub.verify(folder, model)
print(json.dumps({"verdict": found.verdict, "said": str(found)}))
