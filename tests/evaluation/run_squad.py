"""Compares SQuAD's scores with torchmetrics', of the same answers.

python run_squad.py FOLDER DEV.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from torchmetrics.functional.text import squad

import roberta_hub

FOLDER, DEV = sys.argv[1:]
roberta = roberta_hub.load_model(FOLDER)
found = roberta_hub.evaluate(roberta, DEV, progress=False)
answered, wanted = [], []
for article in json.loads(Path(DEV).read_text(encoding="utf-8"))["data"]:
    for paragraph in article["paragraphs"]:
        asked = [qa["question"] for qa in paragraph["qas"]]
        said = roberta.answer(asked, paragraph["context"], no_answer=False, progress=False)
        for qa, answer in zip(paragraph["qas"], said, strict=True):
            answered.append({"id": qa["id"], "prediction_text": answer.text})
            right = {name: [a[name] for a in qa["answers"]] for name in ("answer_start", "text")}
            wanted.append({"id": qa["id"], "answers": right})
theirs = squad(answered, wanted)
assert found.rows == len(answered) and 0 < found["f1"] < 1, found
for ours, name in (("f1", "f1"), ("exact", "exact_match")):
    assert abs(100 * found[ours] - float(theirs[name])) < 1e-4, (found, theirs)  # float32's
print(f"{found.rows} the same")
