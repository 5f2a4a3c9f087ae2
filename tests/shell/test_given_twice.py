"""What is given twice in a shell collects, or is an error that names the option and both values."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import click
import pytest
from running import Run, runner, write_model

from roberta_hub.shell.given import Option
from roberta_hub.shell.main import VERBS, verb

LISTS = {
    "--text": "a",
    "--keep": "a",
    "--labels": "a=b",
    "--targets": "a",
    "--options": "a",
    "--label": "a",
    "--by": "a",
    "--least": "a=1",
    "--pair": "a",
    "--valid": "a",
    "--test": "a",
    "--model": "a",
}


def declared() -> list[tuple[str, Option]]:
    found = [(name, one) for name in VERBS for one in verb(name).params]
    assert all(isinstance(one, (Option, click.Argument)) for _, one in found)
    return [(name, one) for name, one in found if isinstance(one, Option)]


def values_of(option: Option) -> list[str]:
    """Two values that an option takes."""
    kind: Any = option.type
    if isinstance(kind, click.Choice):
        return [str(kind.choices[0]), str(kind.choices[-1])]
    low = getattr(kind, "min", None) or 0
    if kind.name in ("integer range", "float range", "integer", "float"):
        return [str(low), str(getattr(kind, "max", None) or low + 1)]
    return ["1/3", "2/3"]  # a part of a lake, and any text


@pytest.mark.parametrize("name", VERBS)
def test_one_value_is_given_once_by_any_of_its_names(name: str) -> None:
    own = [option for verb_, option in declared() if verb_ == name]
    for option in (one for one in own if not one.is_flag and not one.multiple):
        first, second = values_of(option)
        short, long = option.opts[0], option.opts[-1]
        given = [f"{long}={second}"] if long.startswith("--") else [long, second]
        with pytest.raises(click.UsageError) as caught:
            verb(name).make_context(name, [short, first, *given])
        said = caught.value.format_message()
        assert all(one in said for one in option.opts) and "given 2 times" in said
        assert f"{first!r} and {second!r}" in said and "leave out" in said
        assert caught.value.exit_code == 2


def test_lists_are_those_that_collect() -> None:
    found = {option.opts[-1] for _, option in declared() if option.multiple}
    found = {"--text" if name == "--column" else name for name in found}
    assert found == LISTS.keys()


def test_flags_twice_say_the_same_and_opposites_are_refused() -> None:
    flags = [(name, option) for name, option in declared() if option.is_flag]
    assert ("fit", "--header") in [(name, option.opts[-1]) for name, option in flags]
    for name, option in flags:
        if name == "run":  # whose -m is Python's
            continue
        once = click.Command("x", params=[option], callback=lambda **given: given)
        own = option.opts[-1]
        twice = once.make_context("x", [own, own])
        assert twice.params == once.make_context("x", [own]).params
        for other in option.secondary_opts:
            with pytest.raises(click.UsageError, match=f"{own} and {other} exclude each other"):
                once.make_context("x", [own, other])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("shell") / "model")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "x.csv").open("w", newline="") as file:
        rows = [("Goal, they won.", "It rained.", "a"), ("He painted it.", "She ran.", "b")]
        csv.writer(file).writerows([("one", "two", "kind"), *rows])
    return runner(monkeypatch, capsys)


def test_lists_collect_in_order(run: Run, model: Path) -> None:
    status, out, _ = run("zero-shot", "-m", model, "A goal.", "--labels=a,b", "--labels", "c")
    assert status == 0 and json.loads(out)["scores"].keys() == {"a", "b", "c"}
    words = ("--targets", " dog", "--targets", " cat")
    status, out, _ = run("fill-mask", "-m", model, "A<mask>.", *words)
    assert status == 0 and {word["word"] for word in json.loads(out)["words"]} == {"dog", "cat"}
    pair = ("tokens", "-m", model, "-i", "x.csv", "--keep", "none")
    assert run(*pair, "--text", "one", "-c", "two") == run(*pair, "--text", "one,two")
    kept = ("tokens", "-m", model, "-i", "x.csv", "--text", "one")
    _, out, _ = run(*kept, "--keep", "two", "--keep", "kind")
    assert [*json.loads(out.splitlines()[0])][:2] == ["two", "kind"]


def test_what_cannot_be_joined_is_said(run: Run, model: Path) -> None:
    for words, said in (
        (("zero-shot", "x", "--labels", "a,b", "--labels", "b"), "'b' is in two of its lists"),
        (("tokens", "-i", "x.csv", "--keep", "all", "--keep", "kind"), "all and names exclude"),
        (("tokens", "-i", "x.csv", "--keep", "kind", "--keep", "none"), "none and names exclude"),
        (("evaluate", "m", "t", "--labels", "0=a", "--labels", "0=b"), "0 is given twice, with a"),
        (("evaluate", "m", "t", "--least", "f1=1", "--least", "f1=0.5"), "f1 is given twice"),
        (("embed", "-m", "a", "--model=b", "x"), "-m, --model is given 2 times, with 'a' and 'b'"),
        (("evaluate", "-m", "a", "-m", "b", "t"), "-m, --model is given 2 times"),
    ):
        status, out, err = run(*words)
        assert (status, out) == (2, "") and said in err, err


def test_a_word_after_a_value_is_no_second_value(run: Run, model: Path) -> None:
    for words, flag in (
        (("zero-shot", "It rained", "--labels", "a", "b"), "--labels"),
        (("zero-shot", "It rained", "--labels=a", "b"), "--labels"),
        (("fill-mask", "A <mask>.", "--targets", "a", "b"), "--targets"),
        (("choose", "It rained.", "--options", "a", "b"), "--options"),
        (("embed", "x", "-c", "a", "b"), "--text"),
        (("tokens", "x", "--keep", "a", "b"), "--keep"),
        (("preprocess", "x", "--valid", "a", "b", "-o", "y"), "--valid"),
        (("preprocess", "x", "--test", "a", "b", "-o", "y"), "--test"),
    ):
        status, out, err = run(*words)
        assert (status, out) == (2, "") and f"'b' follows {flag} 'a'" in err, err
        assert f"two values are {flag} a {flag} b" in err
    shot = ("zero-shot", "-m", model)
    status, out, err = run(*shot, "--labels", "a", "b", "It rained.")
    assert status == 0 and err.count("'b' follows --labels 'a'") == 1 and "as a text" in err
    for words in (
        ("--labels", "a", "It rained."),
        ("--labels", "a", "--labels", "b", "It rained."),
        ("--labels", "a,b", "It rained.", "A goal."),
        ("It rained.", "--labels", "a,b", "A goal."),
        ("It rained.", "--labels", "a", "--", "-b"),
    ):
        status, _, err = run(*shot, *words)
        assert status == 0 and "follows" not in err, err


def test_a_file_among_texts_is_said(run: Run, model: Path) -> None:
    said = "'x.csv' is a file, and arguments are texts; -i x.csv reads it"
    for verb_ in ("tokens", "explain", "embed"):
        status, out, err = run(verb_, "-m", model, "great", "x.csv")
        assert status == 0 and out and f"note: {said}" in err, err
        status, out, err = run(verb_, "-m", model, "x.csv")
        assert (status, out) == (2, "") and said in err, err
    status, out, err = run("similar", "-m", model, "great", "x.csv", stdin=b"great day\n")
    assert (status, out) == (2, "") and said in err, err
    status, out, err = run("similar", "-m", model, "a", "x.csv", "-i", "x.csv", "--text", "one")
    assert status == 0 and out and f"note: {said}" in err, err
