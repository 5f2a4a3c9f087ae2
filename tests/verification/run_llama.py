"""Writes a model as GGUF and prints what `verify` finds of llama.cpp; see test_other_runtimes.py.

python run_llama.py FOLDER PLACE
"""

import json
import runpy
import sys
from pathlib import Path

import roberta_hub

folder, place = Path(sys.argv[1]), Path(sys.argv[2])
write = runpy.run_path(str(Path(__file__).parents[2] / "tools/write_gguf.py"))["write"]
for kind in ("float32", "q8_0"):
    path = place / f"{kind}.gguf"
    write(folder, path, kind)
    found = roberta_hub.verify(folder, path)
    faults = {f.name: f.said for f in found.findings if f.kind == "fault"}
    precision = [f.name for f in found.findings if f.kind == "precision"]
    print(
        json.dumps({"kind": kind, "faults": faults, "precision": precision, "cosine": found.cosine})
    )
