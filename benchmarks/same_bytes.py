"""This checkout against an earlier commit of it: saved files, ids and answers, bit for bit.

    python benchmarks/same_bytes.py dcdb5ac            # two minutes

transformers writes a tiny random model of each of the family's classes. Both versions load it, save
it in three formats, encode 20,000 texts and answer every verb that the class has. What is compared
is a digest of each file, of all ids, and of each answer; a refusal is compared as its sentence.
Writes `benchmarks/results/same_bytes.{md,json}`; ends with 1 where anything but a sentence differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FORMATS = ("roberta_hub", "fairseq", "huggingface")
COUNT = 20_000
SENTENCE = "The train from Hamburg was late, so we had coffee."
Record = dict[str, str]


def made_up(count: int) -> list[str]:
    """Texts of words, digits, accents, other scripts, controls and emoji, the same every time."""
    from families import SENTENCES

    draw = random.Random(42)
    words = " ".join(SENTENCES).split(" ")
    rare = [
        "",
        " ",
        "\n",
        "\t",
        "\u00a0",
        "\u200d",
        "\u0301",
        "ﬁ",
        "İ",
        "ß",
        "😀",
        "👩‍🚀",
        "</s>",
        "<mask>",
    ]
    texts = []
    for _ in range(count):
        parts = [draw.choice(words) for _ in range(draw.randrange(0, 12))]
        parts += [draw.choice(rare) for _ in range(draw.randrange(0, 3))]
        if not draw.randrange(4):
            parts.append("".join(chr(draw.randrange(32, 0x3000)) for _ in range(6)))
        draw.shuffle(parts)
        texts.append(draw.choice([" ", "", "  "]).join(parts))
    return [text for text in texts if len(text) < 200]


def digest(value: object) -> str:
    """The first digits of a SHA-256 of bytes, of a tensor's bytes, or of what `repr` shows."""
    import torch

    if isinstance(value, torch.Tensor):
        value = repr(tuple(value.shape)).encode() + value.detach().contiguous().numpy().tobytes()
    elif isinstance(value, (list, tuple)):
        value = "".join(digest(item) for item in value).encode()
    elif not isinstance(value, bytes):
        value = repr(value).encode()
    return hashlib.sha256(value).hexdigest()[:16]


def contents(path: Path) -> bytes:
    """A file's bytes; of torch's archive the names and bytes inside.

    torch names the folder in it after the temporary file, which is another one in every save.
    """
    if path.suffix != ".pt":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        inside = [
            name.partition("/")[2].encode() + archive.read(name) for name in archive.namelist()
        ]
    return b"".join(inside)


def attempt(record: Record, name: str, work: Callable[[], object]) -> None:
    """Keep the digest of an answer, or the sentence that refuses it."""
    import roberta_hub

    try:
        record[name] = digest(work())
    except roberta_hub.RobertaHubError as error:
        record[name] = f"{type(error).__name__}: {error}"


def describe(source: Path, texts: list[str], work: Path) -> Record:
    """Load one folder with the version that this process imports; save, encode and answer."""
    import torch

    import roberta_hub

    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        roberta = roberta_hub.load_model(source).eval()
    except roberta_hub.RobertaHubError:
        return {}  # a class that this version does not know
    record: Record = {}
    for format in FORMATS:
        folder = work / format
        try:
            roberta.save(folder, format=format)
        except roberta_hub.RobertaHubError as error:
            record[f"{format}: refused"] = str(error).replace(str(work), "WORK")
            continue
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = f"{format}: {path.relative_to(folder)}"
                record[name] = digest(contents(path))
        attempt(
            record,
            f"{format}: ids of a model loaded from it",
            lambda folder=folder: ids_of(roberta_hub.load_model(folder), texts[:500]),
        )
    record["ids"] = digest(ids_of(roberta, texts))
    few = [SENTENCE, "He was right, not wrong!", (SENTENCE, "Nobody knew why.")]
    mask = roberta.task.source_dictionary
    words: dict[str, Callable[[], object]] = {
        "decode": lambda: [roberta.decode(ids) for ids in ids_of(roberta, texts[:500])],
        "offsets": lambda: [roberta.offsets(text) for text in texts[:500]],
        "features": lambda: roberta.features(few),
        "all hidden states": lambda: roberta.extract_features(
            roberta.encode(SENTENCE), return_all_hiddens=True
        ),
        "embed": lambda: roberta.embed(few[:2]),
        "fill_mask": lambda: roberta.fill_mask("The <mask> was late."),
        "score": lambda: roberta.score(few[:2]),
        "classify": lambda: roberta.classify(few),
        "tag": lambda: roberta.tag(few[:2]),
        "answer": lambda: roberta.answer("What was late?", SENTENCE),
        "choose": lambda: roberta.choose(SENTENCE, ["one", "two"]),
        "replaced": lambda: roberta.replaced(few[:2]),
        "a dictionary's symbols": lambda: [mask[i] for i in range(len(mask))],
    }
    for name, answer in words.items():
        attempt(record, name, answer)
    return record


def ids_of(roberta: Any, texts: list[str]) -> list[Any]:
    """The ids of texts, of any length."""
    return [roberta.encode(text) for text in texts]


def serve(folder: Path) -> None:
    """Print the records of all classes in a folder; runs in the process of one version."""
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    found = {}
    for source in sorted(path for path in folder.iterdir() if path.is_dir()):
        with tempfile.TemporaryDirectory() as work:
            found[source.name] = describe(source, texts, Path(work))
    print(json.dumps(found))


def records(tree: Path, folder: Path) -> dict[str, Record]:
    """What one version makes of the classes."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "serve", str(folder)]
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Record] = json.loads(out.stdout.splitlines()[-1])
    return found


def write_classes(folder: Path) -> None:
    """The classes of tests/test_family_matrix.py, with each of their heads, and the texts."""
    sys.path.insert(0, str(ROOT / "tests"))
    from families import write_family
    from test_family_matrix import CLASSES

    for name, (kind, head) in CLASSES.items():
        write_family(kind, folder / name, head=head)
    for kind in ("roberta", "bert", "electra", "albert"):
        for head in ("sentence", "tokens", "span", "choice"):
            write_family(kind, folder / f"{kind}, {head}", head=head)
    (folder / "texts.json").write_text(json.dumps(made_up(COUNT)), encoding="utf-8")


def compare(old: dict[str, Record], new: dict[str, Record]) -> tuple[str, list[str], list[str]]:
    """A table of classes, the differences, and the sentences that changed."""
    rows, wrong, sentences = [], [], []
    for name, before in old.items():
        after = new[name]
        if not before:
            rows.append(f"| {name} | new | new |")
            continue
        for item in {**before, **after}:
            pair = before.get(item, "nothing"), after.get(item, "nothing")
            if pair[0] != pair[1]:
                both = all(" " in side for side in pair)
                (sentences if both else wrong).append(f"{name}, {item}: {pair[0]} → {pair[1]}")
        files = sum(": " in item for item in before)
        rows.append(f"| {name} | {files} | {len(before) - files} |")
    table = ["| class | files saved or refused | ids and answers |", "|---|--:|--:|", *rows]
    return "\n".join(table), wrong, sentences


def main() -> int:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="what git calls the earlier commit")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        from lib.report import about, write
        from versions import extract

        classes, earlier = Path(folder) / "classes", Path(folder) / "earlier"
        classes.mkdir()
        write_classes(classes)
        old, new = records(extract(options.revision, earlier), classes), records(ROOT, classes)
    table, wrong, sentences = compare(old, new)
    page = (
        f"# The same bytes as {options.revision}\n\nAgain: `python benchmarks/same_bytes.py "
        f"{options.revision}`.\n\n{table}\n\n{len(wrong)} differ"
        + ("; " + "; ".join(wrong) if wrong else "")
        + f". Sentences that changed: {len(sentences)}.\n"
        + "".join(f"\n- {line}" for line in sentences)
    )
    print(page)
    write("same_bytes", page, {"about": about("torch", "transformers"), "records": new})
    return int(bool(wrong))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    else:
        sys.exit(main())
