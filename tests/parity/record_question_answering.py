"""Writes tests/data/question_answering.json: what transformers 4 answers on small random models.

Version 5 writes the folders, `python -m parity.record_question_answering write FOLDER`, and version
4, which has the pipeline and is installed elsewhere, answers: `PYTHONPATH=tests:THERE python -m
parity.record_question_answering answer FOLDER`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KINDS = ["gottbert", "bert", "bert-cased", "distilbert", "electra", "xlm-roberta", "camembert"]
QUESTIONS = ["Where was HuggingFace founded ?", "In what field is HuggingFace ?", "国語"]
CONTEXTS = [
    "HuggingFace was founded in Paris.",
    "HuggingFace is  an AI startup.",
    "HuggingFace is a startup based in New-York",
    "  Two   spaces\nand a line ",
    "全学年にわたって国語の教科書に",
    "The U.S. (1998.2002) naïve café, “was it?”",
    "the dog was in the house behind the old garden",
    "we war the film for one old house on the bo",
    "the war from one house to the sp for le film",
]
ANSWERS = Path(__file__).parents[1] / "data" / "question_answering.json"
LONGEST = 15
"""Tokens of an answer."""


def write(kind: str, folder: Path) -> Path:
    """A folder whose answers are far apart, by transformers."""
    import torch
    import transformers
    from families import write_family

    transformers.utils.logging.disable_progress_bar()
    write_family(kind, folder, head="span", seed=3, max_position_embeddings=130)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder)
    with torch.no_grad():
        model.qa_outputs.weight.mul_(6)
    model.save_pretrained(folder)
    return folder


def answer(folder: Path) -> list[dict[str, Any]]:
    """Ask the pipeline of transformers 4 for one folder."""
    import transformers

    asked: Any = transformers.pipeline("question-answering", model=str(folder))
    rows = []
    for question in QUESTIONS:
        for context in CONTEXTS:
            for impossible in (False, True):
                said = asked(
                    question=question,
                    context=context,
                    max_answer_len=LONGEST,
                    handle_impossible_answer=impossible,
                    align_to_words=False,
                )
                row = {"question": question, "context": context, "impossible": impossible}
                score = float(f"{said['score']:.6g}")
                rows.append({**row, "answer": said["answer"], "score": score})
    return rows


if __name__ == "__main__":
    step, place = sys.argv[1], Path(sys.argv[2])
    if step == "write":
        for kind in KINDS:
            write(kind, place / kind)
    else:
        import transformers

        found = {kind: answer(place / kind) for kind in KINDS}
        told = {"transformers": transformers.__version__, "longest": LONGEST, "answers": found}
        lines = json.dumps(told, ensure_ascii=False, indent=0)
        ANSWERS.write_text(lines + "\n", encoding="utf-8")
