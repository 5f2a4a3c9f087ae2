"""Asks `roberta_hub.evaluate` what a model is worth: grammar, calibration and a search.

The sets are those of `../shared/data` (or $ROBERTA_HUB_SHARED/data), which no training step reads.
The searches are folders of BEIR's shape that are made of sets of questions about passages: each
question is a query, each passage that is not the same as another a document, and the one passage
that a question is about answers it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lib import answers


def first_lines(path: Path, folder: Path, limit: int | None) -> Path:
    """The file itself, or its first lines in a folder."""
    if limit is None:
        return path
    short = folder / path.name.removesuffix(".xz")
    short.write_text("\n".join(answers.lines_of(path)[: limit + 1]) + "\n", encoding="utf-8")
    return short


def beir(rows: Iterable[tuple[str, str, str]], folder: Path, limit: int | None) -> Path:
    """Write (question, title, passage) as a folder of BEIR's shape."""
    ids: dict[tuple[str, str], str] = {}
    queries, judged = [], ["query-id\tcorpus-id\tscore"]
    for number, (question, title, text) in enumerate(list(rows)[:limit]):
        document = ids.setdefault((title, text), f"d{len(ids)}")
        queries.append({"_id": f"q{number}", "text": question})
        judged.append(f"q{number}\t{document}\t1")
    corpus = [{"_id": name, "title": title, "text": text} for (title, text), name in ids.items()]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n", encoding="utf-8")
    for name, objects in (("corpus", corpus), ("queries", queries)):
        lines = "".join(json.dumps(each) + "\n" for each in objects)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def xquad(folder: Path, limit: int | None) -> Path:
    """XQuAD's English questions, and the paragraphs of Wikipedia that they are about."""
    path = answers.SHARED / "data/tasks/squad/xquad.en.json"
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    rows = ((qa["question"], "", own["context"]) for own in paragraphs for qa in own["qas"])
    return beir(rows, folder, limit)


def boolq(folder: Path, limit: int | None) -> Path:
    """BoolQ's questions of its development set, and their passages with titles."""
    path = answers.SHARED / "data/tasks/BoolQA_dev.json"
    rows = []
    for row in json.loads(path.read_text(encoding="utf-8")):
        question, _, passage = row["sentence"].partition("\npassage: ")
        title, _, text = passage.partition(" -- ")
        rows.append((question.removeprefix("question: "), title, text))
    return beir(rows, folder, limit)


def shared(name: str) -> Callable[[Path, int | None], Path]:
    """A task that is a file as it is."""
    return lambda folder, limit: first_lines(answers.SHARED / "data" / name, folder, limit)


TASKS: dict[str, tuple[Callable[[Path, int | None], Path], dict[str, Any]]] = {
    "blimp": (shared("eval/blimp_sample.jsonl.xz"), {}),
    "mnli_calibration": (shared("nli/mnli_dev_matched.tsv.xz"), {"head": "mnli"}),
    "snli_calibration": (shared("nli/snli_dev.tsv.xz"), {"head": "mnli"}),
    "xquad_search": (xquad, {"truncate": True}),
    "boolq_search": (boolq, {"truncate": True}),
}
"""What is evaluated: from a folder and a limit to the task, and how it is asked."""
SEARCHES = {
    "xquad_search": "XQuAD's questions to their paragraphs",
    "boolq_search": "BoolQ dev's questions to their passages",
}


def evaluated(roberta: Any, name: str, limit: int | None) -> dict[str, Any]:
    """The record of `evaluate`, as plain words and numbers."""
    import roberta_hub

    make, how = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        found = roberta_hub.evaluate(roberta, make(Path(folder), limit), **how)
    told: dict[str, Any] = found.to_dict()
    del told["model"], told["task"]  # a path of this machine
    return told


def rows(numbers: dict[str, Any]) -> dict[str, str]:
    """What stands in the table: what it is -> its number."""
    found = {}
    if "blimp" in numbers:
        own = numbers["blimp"]
        what = f"BLiMP, `score`: {own['rows']:,} minimal pairs, of each paradigm as many"
        found[f"{what} (chance 50.0 %)"] = percent(own["numbers"]["accuracy"])
        phenomena = {g["name"]: g for g in own["groups"] if g["of"] == "phenomenon"}
        for name, group in sorted(phenomena.items(), key=lambda item: -accuracy(item[1])):
            said = f"the same, {name.replace('_', ' ')} ({group['rows']:,} pairs)"
            found[said] = percent(accuracy(group))
    for name, what in (("mnli_calibration", "MNLI dev-matched"), ("snli_calibration", "SNLI dev")):
        if name in numbers:
            own = numbers[name]["numbers"]
            found[f"{what}, expected calibration error of `classify`"] = f"{own['ece']:.3f}"
            found[f"{what}, log loss"] = f"{own['log_loss']:.3f}"
    for name, what in SEARCHES.items():
        if name in numbers:
            own = numbers[name]
            many = f"{own['rows']:,} in {own['how']}"
            found[f"{what} ({many}), `search`, nDCG@10"] = f"{own['numbers']['ndcg@10']:.3f}"
            found[f"the same {many}, MRR"] = f"{own['numbers']['mrr@100']:.3f}"
    return found


def accuracy(group: dict[str, Any]) -> float:
    """Of a group of minimal pairs."""
    return float(group["numbers"]["accuracy"])


def percent(value: float) -> str:
    """Write a share."""
    return f"{100 * value:.1f} %"
