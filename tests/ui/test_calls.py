"""What is copied is what was asked: as Python, and as a line that bash reads."""

from __future__ import annotations

import ast
import shutil
import subprocess

import pytest
from hostile_strings import hostile_strings

from roberta_hub.ui.calls import Call, Command, shell_line

TEXTS = [text for text in hostile_strings() if not any("\ud800" <= c <= "\udfff" for c in text)]
"""Halves of surrogate pairs are no texts, and no verb answers them."""
BASH = r"""roberta-hub() { printf '%s\0' "$@"; [ -t 0 ] || cat; }; python3() { roberta-hub "$@"; }
"""
"""Shows the words that a command gets, each with a NUL behind it, and what it reads."""


@pytest.mark.parametrize(
    "text", ["$(rm -rf ~)", "`id`", "it's", '"', "\\", "a\nb", "-m", "--", "!!"]
)
def test_python_is_right(text: str) -> None:
    check_python(text)


def test_python_is_right_of_hostile_texts() -> None:
    for text in TEXTS:
        check_python(text)


def check_python(text: str) -> None:
    call = Call("search", (("query", text), ("corpus", [text, text])), {"topk": 5})
    code = call.python(text)
    assert code.isascii() or code.replace("\n", "").isprintable()
    _, loads, *assigns, prints = ast.parse(code).body
    assert isinstance(loads, ast.Assign) and isinstance(loads.value, ast.Call)
    assert ast.literal_eval(loads.value.args[0]) == text
    values = [ast.literal_eval(one.value) for one in assigns if isinstance(one, ast.Assign)]
    assert values == [text, [text, text]]
    assert ast.unparse(prints) == "print(roberta.search(query, corpus, topk=5))"


def words_of(line: str) -> tuple[list[str], str]:
    """(the words that a command gets, its standard input) of a line in bash."""
    script = BASH + line
    done = subprocess.run(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert done.stderr == b""
    *words, read = done.stdout.split(b"\0")
    return [word.decode() for word in words], read.decode()


@pytest.mark.system
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_gets_what_was_asked() -> None:
    for text in [*TEXTS, "-m", "--labels", "it's", "a\nb", "!!", "a\\", "$'a'", "\x1b!\\'"]:
        if "\0" in text:
            assert shell_line(["x", text]).startswith("# no argument of a command holds")
            continue
        call = Call("search", (), command=Command("similar", ("-k", "5"), (text,)))
        line = call.shell(text)
        assert line.replace("\n", "").isprintable()
        dashes = ["--"] if text.startswith("-") else []
        assert words_of(line) == (["similar", "-m", text, "-k", "5", *dashes, text], ""), line
        if "\n" not in text:
            lines = (text, "b", text)
            piped = Call("search", (), command=Command("similar", (), ("q",), lines)).shell("m")
            assert words_of(piped)[1].split("\n") == [*lines, ""], piped
        code = Call("explain", (("text", text),)).shell("m")
        assert words_of(code)[0] == ["-c", Call("explain", (("text", text),)).python("m")]
