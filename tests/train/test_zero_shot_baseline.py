"""What a model thinks of labels before it learns any."""

from __future__ import annotations

import copy

import pytest

from roberta_hub import fit, load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.fitting.zero_shot_baseline import labels_are_words, zero_shot_probabilities

TEXTS = ["The goalkeeper saved a penalty.", "Stir the onions until they are brown."]
LABELS = ["sports", "cooking", "foreign_politics"]


@pytest.fixture(scope="module")
def tiny() -> RobertaHubInterface:
    return load_model("roberta.tiny")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["positive", "negative"], True),
        (["no", "yes"], True),
        (["Refund_not_showing_up", "top-up"], True),
        (["Überweisung", "Kündigung"], True),
        (["политика", "спорт"], True),
        (["так", "ні"], True),
        (["πολιτική", "αθλητισμός"], True),
        (["政治", "体育"], True),
        (["好", "坏"], True),
        (["예", "아니요"], True),
        (["はい", "いいえ"], True),
        (["نعم", "لا"], True),
        (["כן", "לא"], True),
        (["हाँ", "नहीं"], True),
        (["ใช่", "ไม่"], True),
        (["ūkis", "šālē", "őr"], True),
        (["u\u0304kis", "ākė"], True),
        (["čtvrť", "смрт"], True),
        (["положительный_отзыв", "отрицательный_отзыв"], True),
        (["А", "Б"], False),
        (["α", "β"], False),
        (["א", "ב"], False),
        (["甲", "乙"], False),
        (["一", "二"], False),
        (["가", "나"], False),
        (["НДС", "ФГБ"], False),
        (["класс ١", "класс ٢"], False),
        (["LOC-1", "LOC-2"], False),
        (["Q42", "Q64"], False),
        (["A1", "B2"], False),
        (["cs.CL", "cs.LG"], False),
        (["①", "②"], False),
        (["Ⅳ", "Ⅴ"], False),
        (["👍", "👎"], False),
        (["1", "2", "3"], False),
        (["1 star", "2 stars"], False),
        (["spam", "7"], False),
        (["a", "b"], False),
        (["B-PER", "LABEL_1"], False),
    ],
)
def test_words_are_told_from_codes(labels: list[str], words: bool) -> None:
    assert labels_are_words(labels) is words


@pytest.mark.system
def test_it_is_what_zero_shot_says(tiny: RobertaHubInterface) -> None:
    found = zero_shot_probabilities(tiny, TEXTS, LABELS)
    assert found is not None
    names = [*LABELS[:2], "foreign politics"]
    for row, prediction in zip(found, tiny.zero_shot(TEXTS, names, by="both"), strict=True):
        assert row.tolist() == pytest.approx([prediction.scores[name] for name in names])
    assert found.argmax(-1).tolist() == [0, 1]
    assert zero_shot_probabilities(tiny, [], LABELS).shape == (0, 3)  # type: ignore[union-attr]
    long = zero_shot_probabilities(tiny, [" ".join(TEXTS * 100)], LABELS)  # is cut
    assert long is not None and bool(long.isfinite().all())


@pytest.mark.system
def test_labels_of_other_scripts_have_a_baseline(tiny: RobertaHubInterface) -> None:
    for labels in (["спорт", "политика"], ["体育", "政治"]):
        found = zero_shot_probabilities(tiny, TEXTS, labels)
        assert found is not None and found.shape == (2, 2) and bool(found.isfinite().all())


@pytest.mark.system
def test_a_model_answers_by_what_it_has(tiny: RobertaHubInterface) -> None:
    own = copy.deepcopy(tiny)
    own.zero_shot_settings = None
    both = own.zero_shot(TEXTS, LABELS, by="both")
    found = zero_shot_probabilities(own, TEXTS, LABELS)
    assert found is not None
    assert found[0].max().item() == pytest.approx(both[0].score, abs=1e-5)
    del own.model.classification_heads["mnli"]
    found = zero_shot_probabilities(own, TEXTS, LABELS)
    assert found is not None
    meaning = own.zero_shot(TEXTS, LABELS, by="meaning")
    assert found[0].max().item() == pytest.approx(meaning[0].score, abs=1e-5)
    own.sentence = None
    assert zero_shot_probabilities(own, TEXTS, LABELS) is None


def test_labels_that_are_no_words_have_none(tiny: RobertaHubInterface) -> None:
    assert zero_shot_probabilities(tiny, TEXTS, ["0", "1"]) is None
    assert zero_shot_probabilities(tiny, TEXTS, ["sports"]) is None
    assert (
        zero_shot_probabilities(tiny, TEXTS, ["a_match", "a match"]) is None
    )  # zero_shot wants each once


@pytest.mark.system
def test_fit_says_where_the_names_alone_are_as_good() -> None:
    rows = [
        {"text": f"{what} on day {i}.", "label": label}
        for i in range(8)
        for what, label in (("The team scored", "sports"), ("The bank lent money", "banking"))
    ]
    fitted = fit(rows, minutes=1e-6, progress=False).fitted
    by_name = {way.name: way.score for way in fitted.choice.ways}
    assert by_name["zero_shot by the labels' names, nothing learnt"] == 1.0
    (said,) = [note for note in fitted.notes if "`zero_shot` of roberta.tiny" in note]
    assert "right on 100.0 % of 16 rows by the names of the labels" in said
    numbered = [{**row, "label": {"sports": "1", "banking": "2"}[row["label"]]} for row in rows]
    ways = fit(numbered, minutes=1e-6, progress=False).fitted.choice.ways
    assert not any("zero_shot" in way.name for way in ways)


def test_names_and_the_model_are_compared_on_the_rows_of_the_printed_score() -> None:
    """Training had time for 4 of 19 rows: the names are judged on the rows that judge the model."""
    good = ["lovely", "superb", "charming", "moving", "funny", "clever", "brilliant"]
    good += ["wonderful", "great", "fantastic"]
    bad = ["dull", "poor", "awful", "boring", "slow", "empty", "terrible", "weak", "horrible"]
    rows = [
        {"text": f"A {word} film.", "label": label}
        for label, words in (("good", good), ("bad", bad))
        for word in words
    ]
    for minutes, count in ((1e-6, 19), (0.02, 4)):
        fitted = fit(rows, minutes=minutes, progress=False).fitted
        assert fitted.scores.count == count
        (said,) = [note for note in fitted.notes if "`zero_shot`" in note]
        reached = f"{100 * fitted.scores.numbers['accuracy']:.1f} %"
        names = f"of {count} rows by the names of the labels"
        assert f"{names}, and this model on {reached} of them" in said
    assert fitted.choice.why == (
        "mostly this is better, and a regression on the model's vectors is as good by "
        "cross-validation"
    )
    quarters = [4 * way.score for way in fitted.choice.ways if way.score is not None]
    assert len(quarters) == 3 and all(score == int(score) for score in quarters)
    whole = fit(rows, epochs=2, minutes=1e-6, progress=False).fitted
    assert whole.scores.count == 4
    assert any(note.startswith("only 4 of 19 rows are scored, as more") for note in whole.notes)


@pytest.mark.system
def test_a_regression_without_a_mistake_is_taken_at_once() -> None:
    rows = [
        {"text": f"The {word} {verb}.", "label": label}
        for word, label in (("goalkeeper", "sports"), ("striker", "sports"), ("onion", "cooking"))
        for verb in ("ran", "fell", "was seen")
    ]
    choice = fit(rows, progress=False).fitted.choice
    first, whole, *_ = choice.ways
    assert choice.taken == first.name == "a regression on the model's vectors"
    assert (first.score, whole.score) == (1.0, None)
    assert whole.why_not == "not tried, as the regression makes no mistake"
    asked = fit(rows, epochs=1, progress=False).fitted.choice
    assert [way.score is None for way in asked.ways[:2]] == [False, False]


def test_labels_that_negate_each_other_start_fit_no_better_than_codes() -> None:
    """The words of "cooking" and "not cooking" differ by what no text says."""
    kitchen = [
        "Stir the onions.",
        "Bake the bread for an hour.",
        "Salt the water.",
        "Peel two eggs.",
    ]
    field = [
        "The striker scored.",
        "A late penalty won it.",
        "They lost at home.",
        "The match is on.",
    ]
    found = []
    for one, other in (("cooking", "not cooking"), ("1", "2"), ("cooking", "football")):
        rows = [{"text": text, "label": one} for text in kitchen]
        rows += [{"text": text, "label": other} for text in field]
        mine = fit(rows, minutes=1e-6, progress=False)
        found.append(mine.predict_proba("The oven is hot.")[0].tolist())
    negated, codes, named = found
    # Labels are sorted: "cooking" and "1" come first in each.
    assert negated == pytest.approx(codes, abs=1e-5)
    assert named != pytest.approx(codes, abs=1e-3)
