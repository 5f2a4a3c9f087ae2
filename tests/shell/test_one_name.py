"""One thing has one name in the shell, and what the shell says of wrong names is meant."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import click
import pytest
from running import Run, runner, write_model
from small_models import small_roberta

from roberta_hub.shell.main import VERBS, verb

PLOTS = [
    ("a1", "A dog runs off and is found.", "2024-01-05 10:00", "fine"),
    ("a2", "Two friends buy a boat.", "2024-02-06 11:30", "dull"),
    ("a3", "Nobody knows who he is.", "2024-03-07 12:45", "fine"),
]
WITHOUT_A_MODEL = {"doctor", "run", "scan", "train", "vocabulary"}
WITHOUT_TEXTS = {"convert", "download", "export", "models", "ui", "serve", *WITHOUT_A_MODEL} - {
    "vocabulary"
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("shell") / "model")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "plots.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "plot", "made", "mood"), *PLOTS])
    return runner(monkeypatch, capsys)


@pytest.mark.parametrize("name", VERBS)
def test_a_model_is_m_and_a_column_is_text(name: str) -> None:
    options = [one.opts for one in verb(name).params if isinstance(one, click.Option)]
    assert name in WITHOUT_A_MODEL or any({"-m", "--model"} <= {*own} for own in options)
    texts = [own for own in options if "--text" in own]
    assert name in WITHOUT_TEXTS or all({"-c", "--column"} <= {*own} for own in texts)
    assert name in WITHOUT_TEXTS or texts


def test_models_are_named_by_option_or_in_their_place(run: Run, tmp_path: Path) -> None:
    small_roberta(heads={"mood": 2}, labels={"mood": ("fine", "dull")}, num_layers=1).save("mine")
    rows = ("--text", "plot", "--label", "mood", "--head", "mood")
    placed = run("evaluate", "mine", "plots.csv", *rows)
    assert placed[0] == 0 and run("evaluate", "-m", "mine", "plots.csv", *rows) == placed
    first = run("compare", "mine", "mine", "-i", "plots.csv", *rows)
    assert first[0] == 0
    for words in (("-m", "mine", "-m", "mine"), ("mine", "-m", "mine")):
        assert run("compare", *words, "-i", "plots.csv", *rows) == first
    small_roberta(heads={"mood": 2}, labels={"mood": ("dull", "fine")}, num_layers=1).save("other")
    first = run("compare", "mine", "other", "-i", "plots.csv", *rows)
    for words in (("-m", "mine", "other"), ("mine", "-m", "other"), ("-m", "mine", "-m", "other")):
        assert run("compare", *words, "-i", "plots.csv", *rows) == first, words
    assert "other" in first[1] and first != run(
        "compare", "other", "mine", "-i", "plots.csv", *rows
    )
    status, _, err = run("convert", "-m", "mine", "new", "--to", "fairseq")
    assert status == 0 and (tmp_path / "new/model.pt").exists(), err
    for words, said in (
        (("export", "-m", "mine"), "Missing argument 'TARGET'"),
        (("export",), "Missing argument 'SOURCE'"),
        (("export", "a", "b", "c"), "unexpected extra argument (c)"),
        (("compare", "mine", "-i", "plots.csv"), "Missing argument 'NEW'"),
        (("evaluate", "plots.csv"), "Missing argument 'TASK...'"),
        (("download",), "Missing argument 'NAME...'"),
    ):
        status, out, err = run(*words)
        assert (status, out) == (2, "") and said in err, err


@pytest.mark.parametrize("name", ["tokens", "classify", "tag", "score", "embed"])
def test_the_only_column_of_prose_is_found(run: Run, model: Path, name: str) -> None:
    asked = (name, "-m", model, "-i", "plots.csv", "--keep", "none", "-f", "jsonl")
    found = run(*asked)
    assert found[0] == 0 and found == run(*asked, "--text", "plot")
    assert len(found[1].splitlines()) == len(PLOTS)


def test_the_only_column_of_prose_is_found_by_the_rest(run: Run, model: Path) -> None:
    table = ("-i", "plots.csv")
    near = ("similar", "-m", model, "a boat", *table, "-k", 1)
    assert run(*near)[0] == 0 and run(*near) == run(*near, "--text", "plot")
    old = ("compare", model, model, *table, "--verb", "embed")
    assert run(*old)[0] == 0 and run(*old) == run(*old, "--text", "plot")
    shown = ("explain", "-m", model, *table)
    assert run(*shown)[0] == 0 and run(*shown) == run(*shown, "--text", "plot")
    pipe = Path("plots.csv").read_bytes()
    read = ("tokens", "-m", model, "-i", "-", "--input-format", "csv", "--keep", "none")
    assert run(*read, stdin=pipe) == run(*read, "--text", "plot", stdin=pipe)
    assert len(run(*read, stdin=pipe)[1].splitlines()) == len(PLOTS)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_only_column_of_prose_is_found_by_a_lake(run: Run, model: Path, ending: str) -> None:
    pa = pytest.importorskip("pyarrow")
    columns = {
        name: [row[i] for row in PLOTS] for i, name in enumerate(("id", "plot", "made", "mood"))
    }
    if ending == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), "in.parquet")
    elif ending == "jsonl":
        rows = [dict(zip(columns, row, strict=True)) for row in PLOTS]
        Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        Path("plots.csv").rename("in.csv")
    status, _, err = run("score", "-m", model, "-i", f"in.{ending}", "-o", "out/")
    assert status == 0 and "3 rows" in err, err


def test_no_column_is_guessed(run: Run, model: Path) -> None:
    Path("two.csv").write_text("story,ending\nA dog ran.,It came back.\nIt rained.,All was wet.\n")
    Path("pairs.csv").write_text("premise,hypothesis\nA dog ran.,It came back.\n")
    Path("none.csv").write_text("word,kind\ndog,noun\nrun,verb\n")
    for name, said in (
        ("two.csv", "story, ending could each hold the texts"),
        ("two.csv", "say --text NAME, or --text story,ending of pairs"),
        ("pairs.csv", "--text premise,hypothesis of pairs"),
        ("none.csv", "no column is known to hold the texts"),
    ):
        status, out, err = run("score", "-m", model, "-i", name)
        assert (status, out) == (2, "") and said in err, err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tokens", "-7"), True),
        (("tokens", "- I liked it"), True),
        (("classify", "-- not so good"), True),
        (("classify", "--texts are fine"), True),
        (("classify", "--wrong"), False),
        (("classify", "-z"), False),
        (("doctor", "-5"), False),
        (("models", "--all of them"), False),
        (("tokens", "a", "--tet", "b"), False),
    ],
)
def test_a_dash_is_spoken_of_where_a_text_begins_with_it(
    run: Run, words: tuple[str, ...], said: bool
) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert ("begins with - after --" in err) == said, err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tokens", "a", "--tet", "b"), "Did you mean '--text'?"),
        (("zero-shot", "a", "--candidate-labels", "b"), "Did you mean '--labels'?"),
        (("fill-mask", "a", "--top-k", "3"), "Did you mean '--topk'?"),
        (("server",), "there is serve ("),
        (("setfit",), "there is fit ("),
        (("shap",), "there is explain ("),
        (("clasify",), "did you mean classify?"),
        (("mask",), "there is fill-mask ("),
        (("help",), "roberta-hub --help"),
        (("frobnicate",), "no verb 'frobnicate'; there are classify, "),
    ],
)
def test_advice_names_what_is_meant(run: Run, words: tuple[str, ...], said: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "") and said in err, err
    assert "score?" not in err


def test_explain_writes_what_python_shows(run: Run, model: Path, tmp_path: Path) -> None:
    from roberta_hub import load_model

    roberta = load_model(model).eval()
    asked = ("explain", "-m", model, "--head", "topic")
    status, out, _ = run(*asked, "A goal.", "It rained.")
    shown = [roberta.explain(text, "topic") for text in ("A goal.", "It rained.")]
    assert (status, out) == (0, f"{shown[0]}\n\n{shown[1]}\n")
    status, out, _ = run(*asked, "A goal.", "It rained.", "-f", "json")
    assert [json.loads(line) for line in out.splitlines()] == [one.to_dict() for one in shown]
    for name, begins in (("x.html", b"<!DOCTYPE html>"), ("x.txt", b"topic: "), ("x.json", b"{")):
        status, out, err = run(*asked, "A goal.", "-o", name)
        assert (status, out) == (0, "") and (tmp_path / name).read_bytes().startswith(begins), err
    assert run(*asked, "A goal.", "-o", "x.xml")[0] == 2
    assert run(*asked, "A goal.", "B.", "-f", "png", "-o", "x.png")[0] == 2
    status, out, err = run(*asked, "word " * 60)
    assert status == 1 and "argument 1: too long" in err and "--truncate cuts it" in err
