"""An option says what its argument says in Python, in the words of a command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import click
import pytest

import roberta_hub
from roberta_hub.shell.main import VERBS, verb
from roberta_hub.shell.signature import arguments_of

NO_OPTIONS = {"self", "directory", "table", "model", "task", "texts", "a", "b", "old", "new"}
NO_OPTIONS |= {"batch_tokens", "progress"}


def options_of(name: str) -> dict[str, click.Option]:
    return {one.name or "": one for one in verb(name).params if isinstance(one, click.Option)}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("fit", roberta_hub.fit),
        ("evaluate", roberta_hub.evaluate),
        ("compare", roberta_hub.compare),
        ("verify", roberta_hub.verify),
        ("export", roberta_hub.RobertaHubInterface.export),
    ],
)
def test_a_verb_has_the_options_of_its_function(name: str, function: Callable[..., Any]) -> None:
    options = options_of(name)
    for argument in inspect.signature(function).parameters.values():
        if argument.name in NO_OPTIONS:
            continue
        option = options[argument.name]
        assert option.help, argument.name
        if isinstance(argument.default, (bool, int, str)):
            assert option.default == argument.default, argument.name


@pytest.mark.parametrize("name", sorted(VERBS.keys() - {"train", "run"}))
def test_a_help_names_no_value_of_python(name: str) -> None:
    for option in options_of(name).values():
        assert not re.search(r"\b(None|True|False)\b", option.help or ""), option.name


def test_an_argument_is_read_without_its_module() -> None:
    found = {argument.name: argument for argument in arguments_of("interface.py", "zero_shot")}
    assert found["labels"].required and found["labels"].kind == "Sequence[str]"
    assert found["hypothesis"].default == "This example is {}."
    assert found["by"].kind == "Way" and found["by"].says.startswith('"entailment", "meaning"')
    assert "options" not in found and "self" not in found
