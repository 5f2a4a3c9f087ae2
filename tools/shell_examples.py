"""Runs the examples on the pages of the shell's verbs, with the tables and models that they name.

`tools/reference.py --answers` writes what they print; a test compares it with what the pages say.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import answers  # noqa: E402

PAGES = ROOT / "docs/reference/shell"
CHECKPOINT = ROOT / "tests/data/fairseq/model.pt"
PEOPLE = (
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Mary Shelley",
    "Isaac Newton",
    "Jane Austen",
)
NAMES = (*PEOPLE, "Ada", "Alan", "Grace", "Mary")
PLACES = ("London", "Paris", "Berlin", "Rome", "Vienna", "Madrid")
SENTENCES = (
    "{person} lived in {place}.",
    "{person} was born in {place}.",
    "In {place} {person} met friends.",
    "{person} wrote a letter.",
    "The train to {place} was late.",
    "It rained all day.",
)
VARIES = ("compare",)
"""Pages of verbs that print names and numbers of models which another CPU trains otherwise."""
MOST_LINES, MOST_LETTERS = 14, 84
"""What is shown of what a command prints."""
LINES = ("A dog ran.", "Goal!", "The train was late.", "A puppy played in the garden.")
QUESTIONS = (
    ("Where do fish live?", "in water", "in trees"),
    ("Where do birds build nests?", "in trees", "in water"),
    ("What do cows eat?", "grass", "stones"),
    ("What is ice made of?", "water", "wood"),
    ("When does the sun rise?", "in the morning", "at midnight"),
    ("What do people read?", "books", "shoes"),
)
SEARCHES = (
    ("late delivery", "It came a week late.", "The colour is lovely."),
    ("broken on arrival", "The glass was cracked when I opened it.", "It came a week late."),
    ("nice colour", "The colour is lovely.", "The glass was cracked when I opened it."),
    ("too small", "The shirt does not fit me.", "The manual is well written."),
    ("good manual", "The manual is well written.", "The shirt does not fit me."),
)
READING = (
    ("Who wrote it?", "{person} wrote it.", "{person}"),
    ("Who lived in {place}?", "{person} lived in {place}.", "{person}"),
    ("Where did {person} live?", "{person} lived in {place}.", "{place}"),
    ("Where did they meet?", "They met in {place}.", "{place}"),
)


def write_table(path: Path, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV, or a TSV where the name says so."""
    with path.open("w", encoding="utf-8", newline="") as file:
        separator = "\t" if path.suffix == ".tsv" else ","
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows(rows)


def write_tables(here: Path) -> None:
    """Write what the examples read, but for models."""
    page = (ROOT / "docs/start/ten_minutes.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^cat > reviews.csv <<'EOF'\n(.*?)^EOF$", page, re.M | re.S)
    reviews = list(csv.DictReader(block.splitlines()))
    stars = {"good": 5, "bad": 1}
    rows = [(row["text"], stars[row["label"]]) for row in reviews]
    write_table(here / "reviews.csv", ("text", "stars"), rows)
    (here / "lesson.csv").write_text(block)
    moods = [("A moving film.", "good"), ("Clever and funny.", "good")]
    moods += [("A boring film.", "bad"), ("The story is dull.", "bad")]
    write_table(here / "moods.csv", ("text", "label"), moods)
    write_table(
        here / "questions.csv", ("question", "context"), [("Who wrote it?", "Ada wrote it.")]
    )
    query = "A man is playing a guitar."
    found = [(query, "A man is making music."), (query, "Nobody is making music.")]
    write_table(here / "found.csv", ("query", "text"), found)
    pairs = [("A dog ran.", "An animal moved.", "yes"), ("A dog ran.", "It sat still.", "no")]
    write_table(here / "pairs.tsv", ("a", "b", "label"), pairs)
    for name in ("corpus", "RTE", "package"):
        (here / name).mkdir()
    rte = ("index", "sentence1", "sentence2", "label")
    write_table(here / "RTE/train.tsv", rte, [(0, "A dog ran.", "It sat still.", "not_entailment")])
    for name in ("corpus.txt", "reviews.txt", "corpus/one.txt", "held-out.txt"):
        (here / name).write_text("".join(f"{line}\n" for line in LINES))
    (here / "script.py").write_text("import fairseq\nprint(fairseq.__version__)\n")
    (here / "package/evaluate.py").write_text(
        "from fairseq.data import encoders\nprint('dev.tsv')\n"
    )
    shutil.copy(CHECKPOINT, here / "model.pt")
    (here / "dict.txt").write_text("a 1\n")
    with tarfile.open(here / "model.tar.gz", "w:gz") as archive:
        archive.add(CHECKPOINT, "model/model.pt")
        archive.add(here / "dict.txt", "model/dict.txt")


def write_lessons(here: Path) -> None:
    """Write the tables that the models of the examples learn."""
    notes = []
    for sentence, person, place in itertools.product(SENTENCES, PEOPLE, PLACES):
        text = sentence.format(person=person, place=place)
        named = [("PER", person), ("LOC", place)]
        spans = [(text.index(name), kind, name) for kind, name in named if name in text]
        notes.append({"text": text, "spans": [[at, at + len(n), k] for at, k, n in sorted(spans)]})
    unique = {note["text"]: note for note in notes}
    lines = [json.dumps(note) + "\n" for note in unique.values()]
    (here / "notes.jsonl").write_text("".join(lines))
    for name, triples in (("options", QUESTIONS), ("scores", SEARCHES)):
        rows = [
            (query, text, score)
            for query, *texts in triples
            for score, text in zip((1.0, 0.0), texts, strict=True)
        ]
        write_table(here / f"{name}.csv", ("query", "text", "score"), rows)
    asked = {
        tuple(part.format(person=person, place=place) for part in kind)
        for kind, person, place in itertools.product(READING, NAMES, PLACES)
    }
    write_table(here / "answers.csv", ("question", "context", "answers"), sorted(asked))


LESSONS = (
    "vocabulary corpus/one.txt --size 300 --output my-vocabulary",
    "fit lesson.csv -o mine",
    "index reviews.csv --text text -o reviews.lance",
    "fit lesson.csv -o newer --epochs 3",
    "fit notes.jsonl -o ner --epochs 3 --valid 0.1",
    "fit scores.csv --text query,text --label score --task regression -o reranker --epochs 8",
    "fit options.csv --text query,text --label score --task regression -o race --epochs 8",
    "train finetune=squad model=roberta.tiny data.train=answers.csv output=squad-run "
    "loop.max_epochs=6 batch.update_freq=1",
)
"""Commands that make the models."""


def prepare(scratch: Path) -> tuple[Path, dict[str, str]]:
    """Make the folder in which the examples run, and their environment."""
    here = scratch / "here"
    here.mkdir(parents=True)
    write_tables(here)
    write_lessons(here)
    command = scratch / "bin/roberta-hub"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m roberta_hub "$@" 2>&1\n')
    command.chmod(0o755)
    environment = answers.environment(ROOT, command.parent)
    environment |= {"TORCH_HOME": str(scratch / "torch"), "ROBERTA_HUB_OFFLINE": "1"}
    for lesson in LESSONS:
        done = subprocess.run(
            [command, *lesson.split()], cwd=here, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{lesson}:\n{done.stdout}")
    (here / "squad").symlink_to("squad-run/last")
    return here, environment


def commands_of(page: str) -> dict[str, str]:
    """The commands of a page's block, each with what it prints."""
    found: dict[str, str] = {}
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S):
        command = ""
        for line in block.splitlines():
            if line.startswith("#"):
                found[command] += line[2:] + "\n"
            else:
                command = line
                found[command] = ""
    return found


def commented(command: str, printed: str) -> str:
    """A command with what it prints, as comments."""
    lines = [command, *(f"# {line}" for line in printed.splitlines())]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def abridged(printed: str) -> str:
    r"""Leave out the end of what is long: `...` says so.

    Example:
        >>> abridged("a b " * 50).endswith(" b ...\n")
        True
    """
    lines = printed.rstrip().splitlines()
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "..."]
    for i, line in enumerate(lines):
        if len(line) > MOST_LETTERS:
            lines[i] = line[:MOST_LETTERS].rpartition(" ")[0] + " ..."
    return "".join(f"{line.rstrip()}\n" for line in lines)


def is_same(wanted: str, printed: str) -> bool:
    """Whether a command prints what a page says, as far as the page says it."""
    shown, lines = wanted.splitlines(), printed.rstrip().splitlines()
    if shown and shown[-1] == "...":
        lines[len(shown) - 1 :] = ["..."]
    for i, line in enumerate(shown[: len(lines)]):
        if line.endswith(" ..."):
            lines[i] = " ".join([*lines[i].split()[: len(line.split()) - 1], "..."])
    return answers.same(wanted, "\n".join(lines), answers.NEAR["sh"])


def refreshed(page: str, here: Path, environment: dict[str, str]) -> tuple[str, list[str]]:
    """Run the commands of a page: the page with today's answers, and what was stale."""
    stale = []
    for command, wanted in commands_of(page).items():
        done = subprocess.run(
            ["bash", "-c", command], cwd=here, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(
                f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        if not is_same(wanted, done.stdout):
            stale.append(f"{command}\n    says {wanted!r}, now {done.stdout!r}")
            old, new = (commented(command, said) for said in (wanted, abridged(done.stdout)))
            page = re.sub(f"^{re.escape(old)}", lambda _, new=new: new, page, count=1, flags=re.M)
    return page, stale


def examples_run(scratch: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """Run the examples of every page: (page, its text with today's answers, what was stale)."""
    here, environment = prepare(scratch)
    for page in sorted(PAGES.glob("*.md")):
        text, stale = refreshed(page.read_text(encoding="utf-8"), here, environment)
        yield page, text, stale
