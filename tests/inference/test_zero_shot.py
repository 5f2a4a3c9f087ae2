"""zero_shot by entailment, by meaning and by both: what each computes, refuses and keeps."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from roberta_hub import ZeroShotSettings, load_model
from roberta_hub.errors import CheckpointError, InputError, UnknownNameError
from roberta_hub.inference import zero_shot as module
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.nli_labels import entailment_index
from roberta_hub.settings import WAYS

OWN = json.loads((Path(__file__).parents[1] / "data" / "zero_shot.json").read_text())
TEXTS = [
    "The keeper saved a penalty in the last minute.",
    "Stir the onions until they are brown.",
    ("The bank raised its rates.", "Shares fell."),
    "Is it going to rain on Sunday?",
]
LABELS = ["sports", "cooking", "economy", "weather_forecast"]
WORDS = ["sports", "cooking", "economy", "weather forecast"]


@pytest.fixture(scope="module")
def tiny() -> RobertaHubInterface:
    """The model in the box; tests that change it copy it."""
    return load_model("roberta.tiny").eval()


def cosines(roberta: RobertaHubInterface, texts: Any, labels: list[str]) -> torch.Tensor:
    """With each label by itself and in a sentence; the mean."""
    vectors = torch.stack([roberta.embed([text])[0] for text in texts])
    told = [f"This text is about {label}." for label in labels]
    return (vectors @ roberta.embed(labels).T + vectors @ roberta.embed(told).T) / 2


def logits(roberta: RobertaHubInterface, text: Any, label: str) -> torch.Tensor:
    own = (text,) if isinstance(text, str) else text
    ids = roberta.encode(*own, f"This example is {label}.")
    with torch.no_grad():
        return roberta.predict("mnli", ids, return_logits=True)[0]


# ---- what each computes, by hand ----


@pytest.mark.system
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("by", ["meaning", "both"])
def test_by_hand(tiny: RobertaHubInterface, by: Any, multi_label: bool) -> None:
    settings = ZeroShotSettings(by="both", scale=17, weight=9, temperature=1.7, middle=0.2)
    own = copy.copy(tiny)
    own.zero_shot_settings = settings
    found = own.zero_shot(TEXTS, LABELS, by=by, multi_label=multi_label)
    above = cosines(tiny, TEXTS, WORDS) - settings.middle
    among = tiny.similarity(WORDS, WORDS)
    apart = 1 - sum(among[i, k].item() for i in range(4) for k in range(4) if i != k) / 12
    if by == "meaning":
        values = settings.scale * above
    else:
        table = torch.stack([torch.stack([logits(tiny, t, w) for w in WORDS]) for t in TEXTS])
        entailed = table[..., 2] - table[..., 0] if multi_label else table[..., 2]
        values = (entailed + settings.weight * apart**2 * above) / settings.temperature
    wanted = (values / 2).sigmoid() if multi_label else values.softmax(-1)
    for prediction, row in zip(found, wanted, strict=True):
        assert list(prediction.scores) == [LABELS[i] for i in row.argsort(descending=True)]
        scores = torch.tensor([prediction.scores[label] for label in LABELS])
        torch.testing.assert_close(scores, row, atol=1e-5, rtol=0)


@pytest.mark.system
@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("multi_label", [False, True])
def test_many_texts_are_answered_as_each_alone(
    tiny: RobertaHubInterface, by: Any, multi_label: bool
) -> None:
    texts = [*TEXTS, TEXTS[0]]
    found = tiny.zero_shot(texts, LABELS, by=by, multi_label=multi_label)
    assert found[0] == found[-1]
    for text, prediction in zip(texts, found, strict=True):
        [alone] = tiny.zero_shot([text], LABELS, by=by, multi_label=multi_label)
        assert alone.label == prediction.label
        assert alone.scores == pytest.approx(prediction.scores, abs=1e-5)
    assert tiny.zero_shot([], LABELS, by=by) == []
    assert isinstance(tiny.zero_shot(TEXTS[0], LABELS, by=by).label, str)


def test_entailment_takes_labels_to_the_letter(tiny: RobertaHubInterface) -> None:
    """So does transformers' pipeline, which it equals; the other ways read words."""
    found = tiny.zero_shot(TEXTS[0], LABELS, by="entailment")
    table = torch.stack([logits(tiny, TEXTS[0], label)[2] for label in LABELS]).softmax(0)
    assert [found.scores[label] for label in LABELS] == pytest.approx(table.tolist(), abs=1e-6)
    for by in ("meaning", "both"):
        plain = tiny.zero_shot(TEXTS[0], WORDS, by=by)  # type: ignore[arg-type]
        own = tiny.zero_shot(TEXTS[0], LABELS, by=by)  # type: ignore[arg-type]
        assert list(plain.scores.values()) == list(own.scores.values())


NLI = ["contradiction", "neutral", "entailment"]


@pytest.mark.parametrize("by", WAYS)
def test_one_label_has_a_probability_of_its_own(tiny: RobertaHubInterface, by: Any) -> None:
    found = tiny.zero_shot(TEXTS, ["sports"], by=by)
    alone = tiny.zero_shot(TEXTS, ["sports"], by=by, multi_label=True)
    assert [one.scores for one in found] == [one.scores for one in alone]
    assert 1 > found[0].score > found[1].score and found[1].label == "sports"
    assert found[0].labels is None
    if by == "entailment":
        table = logits(tiny, TEXTS[1], "sports")[[0, 2]].softmax(0)
        assert found[1].score == pytest.approx(float(table[1]), abs=1e-6)


@pytest.mark.system
@pytest.mark.parametrize(
    "names",
    [
        ("CONTRADICTION", "NEUTRAL", "ENTAIL"),
        ("contradicts", "neutral", "entails"),
        ("Contradicted", "Neither", "Entailed"),
        ("c", "n", "e"),
        ("C", "N", "E"),
        ("CONTR", "NEUTRAL", "ENTAIL"),
        ("refuted", "neutral", "entailment"),
    ],
)
def test_heads_for_entailment_are_found_by_their_labels(
    tiny: RobertaHubInterface, names: tuple[str, ...]
) -> None:
    own = copy.copy(tiny)
    own.labels = {"mnli": names}
    for options in ({}, {"multi_label": True}):
        asked: Any = {"by": "entailment", **options}
        assert own.zero_shot(TEXTS, LABELS, **asked) == tiny.zero_shot(TEXTS, LABELS, **asked)
    own.labels = {"mnli": [names[i] for i in (2, 0, 1)]}  # another order is another answer
    found = own.zero_shot(TEXTS[0], LABELS, by="entailment", multi_label=True)
    table = logits(tiny, TEXTS[0], "cooking")[[1, 0]].softmax(0)  # contradiction, entailment
    assert found.scores["cooking"] == pytest.approx(float(table[1]), abs=1e-6)


@pytest.mark.parametrize("names", [("LABEL_0", "LABEL_1", "LABEL_2"), ("0", "1", "2")])
def test_a_head_with_numbers_is_refused_until_somebody_says_the_order(
    tiny: RobertaHubInterface, names: tuple[str, ...]
) -> None:
    own = copy.copy(tiny)
    own.labels = {"mnli": names}
    for head in (None, "mnli"):
        with pytest.raises(
            (InputError, UnknownNameError), match=rf"{names[0]}.*roberta\.labels\[HEAD\] = .* order"
        ) as caught:
            own.zero_shot(TEXTS, LABELS, by="entailment", head=head)
        assert "id2label" in caught.value.remedy.in_shell
    own.labels["mnli"] = NLI
    assert own.zero_shot(TEXTS, LABELS, by="entailment") == tiny.zero_shot(
        TEXTS, LABELS, by="entailment"
    )


@pytest.mark.parametrize(
    ("labels", "index"),
    [
        (["entailment", "not_entailment"], 0),
        (["not_entailment", "entailment"], 1),
        (["entailment", "entailment_strong"], 0),
        (["entails", "entailed"], None),
        (["N", "E", "S", "W"], None),
        (["e", "n"], None),
        ([], None),
    ],
)
def test_which_class_is_entailment(labels: list[str], index: int | None) -> None:
    assert entailment_index(labels) == index


def test_of_three_classes_one_must_be_contradiction(tiny: RobertaHubInterface) -> None:
    """Where a label has a probability of its own; without one the class is not asked."""
    own = copy.copy(tiny)
    own.labels = {"mnli": ("refuted", "unclear", "entailment")}
    shown = own.zero_shot(TEXTS, LABELS, by="entailment")
    assert shown == tiny.zero_shot(TEXTS, LABELS, by="entailment")
    for labels, several in ((LABELS, True), (LABELS[:1], False)):
        with pytest.raises(InputError, match=r"refuted, unclear, entailment.*contradiction") as e:
            own.zero_shot(TEXTS, labels, by="entailment", multi_label=several)
        assert "id2label" in e.value.remedy.in_shell
    own.labels["mnli"] = ("contradiction", "unclear", "entailment")
    assert own.zero_shot(TEXTS, LABELS, by="entailment", multi_label=True) == tiny.zero_shot(
        TEXTS, LABELS, by="entailment", multi_label=True
    )


@pytest.mark.system
@pytest.mark.parametrize(
    "named",
    [
        None,
        {f"LABEL_{i}": i for i in range(3)},
        {"good": 0, "so": 1, "bad": 2},  # no entailment among them
        {"entailment": 0, "neutral": 1},  # and one class has no name
    ],
)
def test_label2id_names_the_classes_that_id2label_does_not(
    tiny: RobertaHubInterface, tmp_path: Path, named: Any
) -> None:
    tiny.save(tmp_path, "huggingface", head="mnli")
    config = json.loads((tmp_path / "config.json").read_text())
    order = {name: i for i, name in enumerate(NLI)}
    wanted = load_model(tmp_path).zero_shot(TEXTS, LABELS)
    for id2label in (None, {str(i): f"LABEL_{i}" for i in range(3)}):
        told = {**config, "label2id": order, "id2label": id2label}
        (tmp_path / "config.json").write_text(json.dumps(told))
        assert load_model(tmp_path).zero_shot(TEXTS, LABELS) == wanted
        (tmp_path / "config.json").write_text(json.dumps({**told, "label2id": named}))
        with pytest.raises(UnknownNameError, match="LABEL_0, LABEL_1, LABEL_2"):
            load_model(tmp_path).zero_shot(TEXTS, LABELS)


# ---- which way is taken ----


@pytest.mark.system
def test_what_is_recorded_is_the_default(tiny: RobertaHubInterface) -> None:
    own = copy.copy(tiny)
    for by in WAYS:
        own.zero_shot_settings = ZeroShotSettings(by=by)
        assert own.zero_shot(TEXTS, LABELS) == own.zero_shot(TEXTS, LABELS, by=by)
        entailment = own.zero_shot(TEXTS, LABELS, by="entailment")
        assert own.zero_shot(TEXTS, LABELS, head="mnli") == entailment
        one = own.zero_shot(TEXTS, ["sports"], multi_label=True)
        assert one == own.zero_shot(TEXTS, ["sports"], multi_label=True, by="entailment")
    own.zero_shot_settings = None
    assert own.zero_shot(TEXTS, LABELS) == entailment
    both = own.zero_shot(TEXTS, LABELS, by="both")  # with constants for models of its kind
    own.zero_shot_settings = ZeroShotSettings()
    assert own.zero_shot(TEXTS, LABELS, by="both") == both != entailment


def test_a_hypothesis_means_that_entailment_is_asked(tiny: RobertaHubInterface) -> None:
    own = copy.copy(tiny)
    own.zero_shot_settings = ZeroShotSettings(by="meaning")
    asked: Any = {"hypothesis": "The text is about {}."}
    found = own.zero_shot(TEXTS, LABELS, **asked)
    assert found == own.zero_shot(TEXTS, LABELS, by="entailment", **asked)
    assert own.zero_shot(TEXTS, LABELS, by="both", **asked) != own.zero_shot(
        TEXTS, LABELS, by="both"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "luck"}, "by is 'luck'; choose None, 'entailment', 'meaning' or 'both'"),
        ({"by": "meaning", "head": "mnli"}, "head is 'mnli' and by is 'meaning'.*has no head"),
        ({"by": "meaning", "hypothesis": "It is {}."}, "hypothesis is 'It is {}.' and .*has no"),
        ({"by": "both", "head": "nil"}, "no classification head 'nil'"),
        ({"by": "meaning", "texts": ["a" * 9000]}, r"texts\[0\]: too long"),
        ({"by": "both", "labels": ["a", "lone \ud800"]}, r"labels\[1\]"),
        ({"by": "meaning", "labels": ["a", "a"]}, "different labels"),
    ],
)
def test_what_cannot_be_asked(
    tiny: RobertaHubInterface, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tiny.zero_shot(**{"texts": ["a"], "labels": ["x", "y"], **arguments})


@pytest.mark.system
def test_a_model_says_what_it_lacks(tiny: RobertaHubInterface) -> None:
    own = copy.deepcopy(tiny)
    own.sentence = None
    for by in ("meaning", "both"):
        with pytest.raises(InputError, match=r'not trained to make .*pass by="entailment"'):
            own.zero_shot(TEXTS, LABELS, by=by)  # type: ignore[arg-type]
    del own.model.classification_heads["mnli"]
    with pytest.raises(UnknownNameError, match="needs a head for entailment") as caught:
        own.zero_shot(TEXTS, LABELS, by="entailment")
    assert "meaning" not in str(caught.value)  # which it has not either
    own.sentence = tiny.sentence
    for by in (None, "both"):
        own.zero_shot_settings = None
        with pytest.raises(UnknownNameError, match=r'head for entailment.*pass by="meaning"'):
            own.zero_shot(TEXTS, LABELS, by=by)  # type: ignore[arg-type]
    assert own.zero_shot(TEXTS[1], LABELS, by="meaning").label == "cooking"


@pytest.mark.system
@pytest.mark.parametrize(
    ("labels", "inputs", "fault"),
    [
        (["good", "bad"], None, "knows good, bad"),
        (["entailment"], None, "has one output"),
        (["entailment", "not_entailment"], "one", "was trained on single texts"),
    ],
)
def test_a_head_that_judges_no_entailment(
    tiny: RobertaHubInterface, labels: list[str], inputs: Any, fault: str
) -> None:
    own = copy.deepcopy(tiny)
    own.register_classification_head("my head", labels=labels)
    own.eval()
    if inputs:
        own.inputs["my head"] = inputs

    def refused() -> InputError:
        with pytest.raises(InputError, match=f"head 'my head' {fault}") as caught:
            own.zero_shot(TEXTS, LABELS, head="my head")
        return caught.value

    assert str(refused()).endswith("; pass head='mnli'")
    assert refused().in_shell().endswith("; say --head mnli")
    del own.model.classification_heads["mnli"]
    assert 'leave head= out and pass by="meaning"' in str(refused())
    assert "leave --head out and say --by meaning" in refused().in_shell()
    own.sentence = None
    assert "meaning" not in str(refused())
    assert refused().in_shell().endswith("`roberta-hub train finetune=mnli` trains one")


@pytest.mark.system
def test_a_text_beyond_the_vectors_own_limit_is_read_whole(tiny: RobertaHubInterface) -> None:
    text = " ".join(["It was raining when we left."] * 45 + ["The keeper saved a penalty."] * 15)
    count = len(tiny.encode(text))
    assert tiny.sentence is not None and tiny.sentence.max_length is not None
    assert tiny.sentence.max_length < count < 500
    whole = tiny.zero_shot(text, LABELS, by="meaning")
    cut = tiny.zero_shot(text, LABELS, by="meaning", truncate=True)
    assert whole.scores["sports"] > cut.scores["sports"]
    assert tiny.zero_shot(text, LABELS, by="both").label in LABELS
    far = f"{text} {text}"
    with pytest.raises(InputError, match="too long"):
        tiny.zero_shot(far, LABELS, by="both")
    for options in ({"truncate": True}, {"stride": 16}):
        assert tiny.zero_shot(far, LABELS, by="both", **options).label in LABELS  # type: ignore[call-overload]


# ---- many labels ----


@pytest.mark.system
def test_of_many_labels_entailment_judges_the_nearest_alone(
    tiny: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = ("subject_lines", "headlines", "requests", "feelings")
    labels = sorted({label for name in sets for label in OWN[name]})
    texts = [text for name in sets for own in OWN[name].values() for text in own[:1]]
    assert len(labels) > 2 * module.ENTAILMENT_LABELS
    found = tiny.zero_shot(texts, labels, by="both")
    near = cosines(tiny, texts, labels).argsort(descending=True)
    monkeypatch.setattr(module, "ENTAILMENT_LABELS", len(labels))
    whole = tiny.zero_shot(texts, labels, by="both")
    monkeypatch.undo()
    for prediction, other, row in zip(found, whole, near, strict=True):
        assert sum(prediction.scores.values()) == pytest.approx(1)
        order, nearest = list(prediction.scores), [labels[i] for i in row]
        assert set(order[: module.ENTAILMENT_LABELS]) == set(nearest[: module.ENTAILMENT_LABELS])
        assert order[module.ENTAILMENT_LABELS :] == nearest[module.ENTAILMENT_LABELS :]
        judged = [label for label in other.scores if label in nearest[: module.ENTAILMENT_LABELS]]
        assert order[: module.ENTAILMENT_LABELS] == judged  # as when every label is asked about
    same = sum(a.label == b.label for a, b in zip(found, whole, strict=True))
    assert same >= 0.9 * len(texts)


# ---- how good, and how honest ----


@pytest.mark.system
@pytest.mark.parametrize("by", ["meaning", "both"])
def test_probabilities_mean_what_they_say(tiny: RobertaHubInterface, by: Any) -> None:
    """On every second of our own texts; benchmarks/zero_shot.py has more."""
    right: list[bool] = []
    sure: list[float] = []
    for own in OWN.values():
        texts = [text for some in own.values() for text in some[::2]]
        wanted = [label for label, some in own.items() for _ in some[::2]]
        found = tiny.zero_shot(texts, list(own), by=by)
        right += [p.label == label for p, label in zip(found, wanted, strict=True)]
        sure += [p.score for p in found]
    bins: list[list[float]] = [[] for _ in range(5)]
    for score, hit in zip(sure, right, strict=True):
        bins[min(4, int(5 * score))].append(score - hit)
    assert sum(right) / len(right) > 0.6  # entailment is right on 54 % of all our texts
    assert sum(abs(sum(of)) for of in bins) / len(right) < 0.12


# ---- the record ----


def test_settings_are_checked() -> None:
    assert ZeroShotSettings(**ZeroShotSettings(by="both", weight=3).to_dict()) == ZeroShotSettings(  # type: ignore[arg-type]
        by="both", weight=3.0
    )
    for wrong in (
        {"by": "mood"},
        {"by": None},
        {"weight": 0},
        {"scale": -1},
        {"temperature": 0},
        {"temperature": float("nan")},
        {"weight": True},
        {"scale": "9"},
        {"scale": 1e9},
        {"middle": 2},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            ZeroShotSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.system
def test_the_record_is_saved_and_loaded_and_shown(
    tiny: RobertaHubInterface, tmp_path: Path
) -> None:
    own = copy.copy(tiny)
    own.zero_shot_settings = ZeroShotSettings(by="both", weight=7, temperature=3)
    assert "zero_shot     by entailment and meaning (logit + 7 x cosine)" in repr(own)
    own.save(tmp_path / "own")
    again = load_model(tmp_path / "own")
    assert again.zero_shot_settings == own.zero_shot_settings
    again.eval()
    assert again.zero_shot(TEXTS, LABELS) == own.zero_shot(TEXTS, LABELS)
    own.zero_shot_settings = None
    own.save(tmp_path / "none")
    assert load_model(tmp_path / "none").zero_shot_settings is None
    assert "zero_shot" not in repr(load_model(tmp_path / "none"))


@pytest.mark.parametrize(
    "value", [{"by": "luck"}, {"by": "both", "weight": "x"}, {"mood": 1}, [1], "both"]
)
def test_a_damaged_record_is_refused(
    tiny: RobertaHubInterface, tmp_path: Path, value: object
) -> None:
    tiny.save(tmp_path / "own")
    file = tmp_path / "own" / "config.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "zero_shot": value}))
    with pytest.raises(CheckpointError, match="not a configuration"):
        load_model(tmp_path / "own")


def test_training_forgets_the_record(tmp_path: Path) -> None:
    """Its constants were measured with the weights before."""
    from roberta_hub.train.config import Config, DataConfig, TaskConfig
    from roberta_hub.train.tasks.build import build_task

    own = load_model("roberta.tiny")
    assert own.zero_shot_settings is not None
    (tmp_path / "train.tsv").write_text("sentence\tlabel\nGood!\tyes\nBad.\tno\n")
    data = DataConfig(train=str(tmp_path / "train.tsv"))
    build_task(Config(data=data, task=TaskConfig(name="classification")), own)
    assert own.zero_shot_settings is None


def test_what_is_no_record_is_refused(tiny: RobertaHubInterface) -> None:
    with pytest.raises(TypeError, match="pass ZeroShotSettings"):
        RobertaHubInterface(tiny.cfg, tiny.task, tiny.model, zero_shot_settings={"by": "both"})  # type: ignore[arg-type]
