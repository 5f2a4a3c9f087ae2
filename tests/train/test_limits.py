"""Whatever a setting holds: a run, or an error of our family; forty wrong values a field."""

import copy
import dataclasses
import gzip
import lzma
import math
import random
import warnings
from pathlib import Path

import pytest
from learning import tsv

from roberta_hub.errors import InputError, InputTypeError, RobertaHubError
from roberta_hub.train.config import Config, check, compose, fields
from roberta_hub.train.data.sentences import read_sentences
from roberta_hub.train.data.streams import source_files
from roberta_hub.train.run import run

OBJECTS = [
    None,
    True,
    "",
    " ",
    "x",
    "\ud800",
    "a\0b",
    "n" * 5000,
    "../..",
    b"x",
    5,
    0,
    -1,
    1.5,
    -0.5,
    math.nan,
    math.inf,
    10**400,
    -(10**400),
    2**63,
    2**64,
    1e308,
    2**31,
    [],
    [[1]],
    [None],
    ["a", "a"],
    {},
    {1: 2},
    {"a": {"b": object()}},
    {"label": ["x"]},
    object(),
    object,
    (1, 2, 3),
    {1, 2},
    lambda: 1,
    Path("nowhere"),
    range(3),
    1j,
]
TEXTS = [
    "",
    "null",
    "nan",
    "inf",
    "-1",
    "0",
    "1.5",
    "1e400",
    "9" * 30,
    "9" * 5000,
    "true",
    "[]",
    "[1",
    "{a: 1}",
    "[[1]]",
    "'\ud800'",
    "'a\0b'",
    "${oops}",
    "${oc.env:NO_SUCH}",
    "???",
    "1,2",
    "n" * 5000,
    "'a\nb'",
    "18446744073709551616",
    "choice(1,2)",
    "[null]",
    "{1: 2}",
    "${seed}",
]


@pytest.fixture(scope="module")
def good(base, tmp_path_factory) -> Config:
    """A run that stops before its first update."""
    folder = tmp_path_factory.mktemp("fuzz")
    path = tsv(folder / "x.tsv", ["sentence", "label"], [["A.", "a"], ["B.", "b"]])
    found = compose(["finetune=sst_2", f"model={base}", f"data.train={path}", "data.format=tsv"])
    found.output = str(folder / "run")
    found.loop.max_minutes, found.loop.progress, found.resume = 0.0, False, False
    return found


def family(action) -> bool:
    """Whether it ends well; with anything but our error the test fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            action()
        except RobertaHubError as error:
            assert str(error)
            return False
    return True


@pytest.mark.system  # every value of a long list for each of some sixty settings
@pytest.mark.parametrize("name", list(fields()))
def test_no_value_of_any_field_breaks_out(good, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a relative folder may be made
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    *section, leaf = name.split(".")
    begun = 0
    for value in OBJECTS:
        config = copy.deepcopy(good)
        setattr(getattr(config, section[0]) if section else config, leaf, value)
        if not family(lambda config=config: check(config)):
            continue
        # The loop's numbers have no part in the start: a few of them are enough there.
        if name != "loop.max_minutes" and (not name.startswith("loop.") or begun < 2):
            begun += family(lambda config=config: run(config))


@pytest.mark.system
@pytest.mark.parametrize("values", [1, pytest.param(len(TEXTS), marks=pytest.mark.slow)])
def test_no_text_of_any_field_breaks_out(values):
    draw = random.Random(0)
    for name in fields():
        for text in draw.sample(TEXTS, values):
            family(lambda name=name, text=text: compose(["finetune=sst_2", f"{name}={text}"]))


@pytest.mark.parametrize("overrides", [None, 5, "finetune=rte", [5], [None], {"a": 1}, [b"seed=1"]])
def test_overrides_that_are_no_list_of_text(overrides):
    with pytest.raises(InputTypeError):
        compose(overrides)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64, 1.5, "1", None, True])
def test_seeds_that_are_none(seed):
    with pytest.raises(RobertaHubError, match=r"seed is .*(must lie in 0\.\.|must be int)"):
        check(dataclasses.replace(good_seed(), seed=seed))
    assert check(dataclasses.replace(good_seed(), seed=2**63 - 1)).seed == 2**63 - 1


def good_seed() -> Config:
    config = Config()
    config.loop.max_updates = 1
    return config


def test_a_path_object_is_as_good_as_its_text(tmp_path):
    config = good_seed()
    config.output = config.model = config.data.train = tmp_path  # type: ignore[assignment]
    found = check(config)
    assert (found.output, found.model, found.data.train) == (str(tmp_path),) * 3


@pytest.mark.parametrize(("suffix", "module"), [("gz", gzip), ("xz", lzma)])
def test_damaged_data(tmp_path, suffix, module):
    """Each byte in turn: an error of ours, or what was written."""
    text = "sentence\tlabel\n" + "".join(f"Text {i * i}.\t{i % 3}\n" for i in range(40))
    whole = module.compress(text.encode())
    path = tmp_path / f"x.tsv.{suffix}"
    path.write_bytes(whole)
    wanted = [(e.text, e.labels) for e in read_sentences(path)]
    refused = 0
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            assert [(e.text, e.labels) for e in read_sentences(path)] == wanted
        except InputError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > len(whole) / 6


@pytest.mark.parametrize("name", ["n" * 5000, "a\0b", "x**y", "", "/", "[", "/nowhere/**x"])
def test_names_that_no_text_can_have(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    family(lambda: source_files(name))
