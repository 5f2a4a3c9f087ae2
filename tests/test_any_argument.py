"""Every argument of the public API with wrong values: an answer, or an error of our own family.

The arguments are read from the signatures, so that a new one is tried without being listed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import copied, small_model, small_roberta

import roberta_hub
from roberta_hub import RobertaConfig, RobertaHubError, RobertaHubInterface, RobertaModel
from roberta_hub.formats.fairseq_arguments import FIELDS
from roberta_hub.inference.batching import Options
from roberta_hub.keywords import OPTIONS

pytestmark = pytest.mark.system
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1e30": lambda: 1e30,
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1j,
    "empty str": lambda: "",
    "a digit": lambda: "1",
    "half a surrogate pair": lambda: "\ud800",
    "a null": lambda: "a\0b",
    "a huge str": lambda: "a b" * 20_000,
    "bytes": lambda: b"x",
    "[]": lambda: [],
    "[[]]": lambda: [[]],
    "[None]": lambda: [None],
    "[10**400]": lambda: [10**400],
    "['']": lambda: [""],
    "()": lambda: (),
    "('a', 'b')": lambda: ("a", "b"),
    "{}": lambda: {},
    "{1: 2}": lambda: {1: 2},
    "set()": lambda: set(),
    "an object": lambda: object(),
    "a type": lambda: list,
    "a function": lambda: lambda: None,
    "a generator": lambda: (item for item in ("a", 1)),
    "a tensor of floats": lambda: torch.tensor([0.5, 1.5]),
    "an empty tensor": lambda: torch.empty(0),
    "a tensor of ids": lambda: torch.tensor([[0, 5, 2], [0, 2, 1]]),
    "a scalar tensor": lambda: torch.tensor(2),
    "np.array": lambda: np.array([["a", "b"], ["c", "d"]]),
    "np.ones": lambda: np.ones(3),
    "np.nan": lambda: np.float32("nan"),
    "np.True_": lambda: np.True_,
    "np.str_": lambda: np.str_("a"),
}
ALSO = [
    "Answer",
    "Hit",
    "Prediction",
    "RobertaHubError",
    "SentenceSettings",
    "Span",
    "available_models",
    "CamembertModel",
    "GottbertModel",
    "XLMRModel",
    "ZeroShotSettings",
    "as_fairseq",
]
"""Public names that take nothing from outside: what answers are made of, and a list of names; and
classes whose one method is `RobertaModel`'s."""
KIND = inspect.Parameter
VERBS: dict[str, dict[str, Any]] = {
    "add_tokens": {"tokens": ["[new]"]},
    "attention": {"text": "a"},
    "answer": {"question": "Who?", "context": "Ada wrote it.", "head": "squad"},
    "choose": {"context": "a", "options": ["b", "c"], "head": "grade"},
    "classify": {"texts": ["a"], "head": "mnli"},
    "cuda": {},
    "decode": {"tokens": torch.tensor([0, 5, 2])},
    "disambiguate_pronoun": {"sentence": "A dog ran; [it] ate.", "candidates": ["a dog"]},
    "embed": {"texts": ["a"]},
    "encode": {"sentence": "a"},
    "encode_batch": {"texts": ["a"]},
    "explain": {"text": "a b", "head": "mnli"},
    "export": {"directory": "exported", "format": "torch", "check": False},
    "extract_features": {"tokens": torch.tensor([0, 5, 2])},
    "extract_features_aligned_to_words": {"sentence": "a b"},
    "features": {"texts": ["a"]},
    "fill_mask": {"masked_input": "a <mask>"},
    "head_labels": {"head": "mnli"},
    "offsets": {"text": "a"},
    "optimize": {},
    "predict": {"head": "mnli", "tokens": torch.tensor([0, 5, 2])},
    "predict_proba": {"texts": ["a"], "head": "mnli"},
    "rank": {"query": "a", "texts": ["b", "c"], "head": "grade"},
    "register_classification_head": {"name": "new", "num_classes": 2},
    "register_span_head": {"name": "new"},
    "register_token_head": {"name": "new", "num_classes": 2},
    "replaced": {"texts": ["a"]},
    "save": {"directory": "saved"},
    "score": {"texts": ["a"]},
    "search": {"queries": ["a"], "corpus": ["b", "c"]},
    "similarity": {"a": ["a"], "b": ["b"]},
    "tag": {"texts": ["a"], "head": "ner"},
    "to": {},
    "token_strip": {"text": "a"},
    "tokenize": {"text": "a"},
    "zero_shot": {"texts": ["a"], "labels": ["b", "c"]},
}
"""For each method a call that is right."""
LABELS = ("contradiction", "neutral", "entailment")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def _made() -> RobertaHubInterface:
    roberta = small_roberta(heads={"mnli": 3, "grade": 1}, labels={"mnli": LABELS})
    roberta.register_token_head("ner", labels=["O", "B-X"])
    roberta.register_span_head("squad")
    return roberta


WRITTEN = Path(__file__).parent / "data" / "v0.1.0"
"""A small model in several formats."""


def arguments(function: Callable[..., Any]) -> list[str]:
    """Names of all that can be passed; "*x" and the options of `**options` too."""
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is KIND.VAR_POSITIONAL:
            names.append(f"*{parameter.name}")
        elif parameter.kind is KIND.VAR_KEYWORD:
            names += [*FIELDS, *FAIRSEQ] if parameter.name == "overrides" else sorted(OPTIONS)
        elif parameter.name != "self":
            names.append(parameter.name)
    return names


FAIRSEQ = ["data", "user_dir", "gpt2_encoder_json", "gpt2_vocab_bpe", "encoder_layers_to_keep"]
"""Overrides that are no field of the configuration."""


def answered(
    call: Callable[..., Any], right: dict[str, Any], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Call with each wrong value in the place of one argument."""
    others = []
    for value, make in VALUES.items():
        keywords = {key: own for key, own in right.items() if key != name}
        try:
            if name.startswith("*"):
                call(*keywords.values(), make())
            else:
                call(**keywords, **{name: make()})
        except RobertaHubError as error:
            if not 0 < len(str(error)) < 2500:
                others.append(f"{name}={value}: a sentence of {len(str(error))} characters")
        except Exception as error:
            others.append(f"{name}={value}: {type(error).__name__}: {str(error)[:200]}")
    printed = capfd.readouterr()
    assert not others, "\n".join(others)
    assert printed.out == ""
    assert printed.err == "" or name == "progress"


def public_methods() -> list[str]:
    own = [c for c in RobertaHubInterface.__mro__ if c.__module__.startswith("roberta_hub")]
    return sorted(
        {
            name
            for kind in own
            for name, value in vars(kind).items()
            if inspect.isfunction(value) and not name.startswith("_")
        }
    )


def test_nothing_public_is_forgotten() -> None:
    assert public_methods() == sorted(VERBS)
    tried = [
        "fit",
        "RobertaClassifier",
        "RobertaConfig",
        "RobertaHubInterface",
        "RobertaModel",
        "as_mteb",
        "collate_tokens",
        "compare",
        "evaluate",
        "load_model",
        "verify",
    ]
    elsewhere = ["duplicates", "index", "open_index", "serve"]  # tests/indexing, tests/serve
    assert sorted([*ALSO, *tried, *elsewhere]) == sorted(roberta_hub.__all__)
    assert set(Options.__annotations__) == OPTIONS


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        (verb, name)
        for verb in public_methods()
        for name in arguments(getattr(RobertaHubInterface, verb))
    ],
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(120)
def test_methods(
    _made: RobertaHubInterface,
    verb: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    roberta = copied(_made)
    answered(getattr(roberta, verb), VERBS[verb], name, capfd)
    roberta.encode("a")  # and it is as it was


@pytest.mark.parametrize("name", arguments(RobertaHubInterface.__init__))
@pytest.mark.filterwarnings("ignore")
def test_the_constructor(
    _made: RobertaHubInterface, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    right = {"cfg": _made.cfg, "task": _made.task, "model": _made.model}
    answered(RobertaHubInterface, right, name, capfd)


@pytest.mark.parametrize("name", arguments(RobertaConfig))
def test_configurations(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    answered(RobertaConfig, {}, name, capfd)


def test_models(capfd: pytest.CaptureFixture[str]) -> None:
    (name,) = arguments(RobertaModel.__init__)
    answered(RobertaModel, {}, name, capfd)
    small = small_model().config.to_dict()
    for field in ("activation_fn", "pooler_activation_fn"):

        def build(**fields: Any) -> None:
            model = RobertaModel(RobertaConfig(**{**small, **fields}))
            model.register_classification_head("new", 2)

        answered(build, {}, field, capfd)


@pytest.mark.parametrize("name", arguments(roberta_hub.collate_tokens))
def test_collating(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    right = {"values": [torch.tensor([0, 5, 2]), torch.tensor([0, 2])]}
    answered(roberta_hub.collate_tokens, right, name, capfd)
    answered(roberta_hub.collate_tokens, {**right, "move_eos_to_beginning": True}, name, capfd)


@pytest.mark.parametrize("name", arguments(roberta_hub.fit))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(300)
def test_fitting(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    rows = [{"text": f"{word} {i}", "label": word} for i in range(3) for word in ("good", "bad")]
    right = {"table": rows, "model": WRITTEN / "roberta_hub", "epochs": 1, "progress": False}
    answered(roberta_hub.fit, right, name, capfd)


@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(300)
def test_an_estimator(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    estimator = roberta_hub.RobertaClassifier(WRITTEN / "roberta_hub", epochs=1, progress=False)
    right = {"X": ["good 1", "bad 1", "good 2", "bad 2"], "y": [1, 0, 1, 0]}
    answered(estimator.fit, right, name, capfd)
    estimator.fit(**right)
    answered(estimator.score, right, name, capfd)


@pytest.mark.parametrize("name", arguments(roberta_hub.compare))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(120)
def test_comparing(
    _made: RobertaHubInterface, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": "a", "label": LABELS[0]}, {"text": "b", "label": LABELS[1]}]
    right = {"old": _made, "new": _made, "table": rows, "text": "text", "head": "mnli"}
    answered(roberta_hub.compare, right, name, capfd)


@pytest.mark.parametrize("name", arguments(roberta_hub.evaluate))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(120)
def test_evaluating(
    _made: RobertaHubInterface,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"text": "a", "label": LABELS[0]}, {"text": "b", "label": LABELS[1]}]
    answered(roberta_hub.evaluate, {"model": _made, "task": rows, "head": "mnli"}, name, capfd)


@pytest.mark.parametrize("name", arguments(roberta_hub.as_mteb))
@pytest.mark.filterwarnings("ignore")
def test_encoders_for_mteb(
    _made: RobertaHubInterface, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answered(roberta_hub.as_mteb, {"model": copied(_made)}, name, capfd)


@pytest.mark.parametrize("name", arguments(roberta_hub.verify))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(600)
def test_verifying(
    _made: RobertaHubInterface, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answered(roberta_hub.verify, {"a": _made, "b": _made}, name, capfd)


LOADS = [
    ("load_model", "roberta_hub", name)
    for name, parameter in inspect.signature(roberta_hub.load_model).parameters.items()
    if parameter.kind is not KIND.VAR_KEYWORD  # which are fairseq's
]
LOADS += [("load_model", "fairseq", name) for name in arguments(roberta_hub.load_model)]
LOADS += [
    ("from_pretrained", "fairseq", name)
    for name, parameter in inspect.signature(RobertaModel.from_pretrained).parameters.items()
    if parameter.kind is not KIND.VAR_KEYWORD  # which it hands on
]


@pytest.mark.parametrize(("loader", "source", "name"), LOADS)
@pytest.mark.filterwarnings("ignore")
def test_loading(
    loader: str,
    source: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    own = loader == "load_model"
    load = roberta_hub.load_model if own else RobertaModel.from_pretrained
    first = arguments(load)[0]
    answered(load, {first: WRITTEN / source}, name, capfd)
