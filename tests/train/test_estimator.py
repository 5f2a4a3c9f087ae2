"""`RobertaClassifier` is an estimator: pipelines, searches, clones and pickles take it."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from learning import ANIMALS, left

from roberta_hub import RobertaClassifier
from roberta_hub.errors import InputError, InputTypeError, RobertaHubError, UnknownNameError
from roberta_hub.train.fitting.target import read_target, read_weights

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
WORDS = sorted(ANIMALS)


def sentences(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    words = [draw.choice(WORDS) for _ in range(count)]
    return [f"The {word} in row {i} makes a noise." for i, word in enumerate(words)], words


@pytest.fixture(scope="module")
def fitted(base: Path) -> RobertaClassifier:
    texts, words = sentences(120)
    return made(base, epochs=16).fit(texts, words)


def made(base: Path, **options: Any) -> RobertaClassifier:
    return RobertaClassifier(str(base), progress=False, **{"epochs": 1, **options})


@pytest.mark.system
def test_it_learns_and_answers_in_the_order_of_its_classes(fitted: RobertaClassifier) -> None:
    texts, words = sentences(40, 2)
    assert fitted.classes_.tolist() == WORDS
    assert fitted.score(texts, words) > 0.9
    chances = fitted.predict_proba(texts)
    assert chances.shape == (40, 4) and chances.dtype == np.float64
    assert np.allclose(chances.sum(1), 1)
    found = fitted.predict(texts)
    assert isinstance(found, np.ndarray) and (found == fitted.classes_[chances.argmax(1)]).all()
    assert np.allclose(np.exp(fitted.predict_log_proba(texts)), chances)
    answers = fitted.model_.classify(texts)
    assert [answer.label for answer in answers] == found.tolist()
    assert fitted.fitted_.scores.count == len(fitted.fitted_.rows)


@pytest.mark.system
def test_a_test_set_may_hold_one_class(fitted: RobertaClassifier) -> None:
    texts, words = sentences(40, 2)
    found = fitted.predict(texts)
    for text, right, answer in list(zip(texts, words, found, strict=True))[:5]:
        assert fitted.score([text], [right]) == float(answer == right)
    assert fitted.score(texts[:1], ["no class of it"]) == 0.0
    left_out = model_selection_left_out(fitted.model, texts[:6], ["cow", "dog"] * 3)
    assert set(left_out) <= {0.0, 1.0}  # none is NaN


def model_selection_left_out(base: str, texts: list[str], words: list[str]) -> list[float]:
    selection = pytest.importorskip("sklearn.model_selection")
    one_by_one = selection.LeaveOneOut()
    found = selection.cross_val_score(made(Path(base)), texts, words, cv=one_by_one)
    return [float(share) for share in found]


@pytest.mark.system
@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1, 0], ["0", "1"]),
        ([10, 9], ["9", "10"]),
        ([True, False], ["false", "true"]),
        ([2.0, 1.0], ["1", "2"]),
        (["b", "a"], ["a", "b"]),
        ([-1, 1], ["-1", "1"]),
    ],
)
@pytest.mark.parametrize("kind", ["list", "numpy", "pandas", "object"])
def test_classes_keep_their_type(base: Path, values: Sequence[Any], names: Any, kind: str) -> None:
    y: Any = list(values) * 6
    if kind == "numpy":
        y = np.array(y)
    elif kind == "pandas":
        y = pytest.importorskip("pandas").Series(y, index=range(50, 62))
    elif kind == "object":
        y = np.array(y, dtype=object)
    texts = [f"some words {i}" for i in range(12)]
    target = read_target(y, 12)
    assert target.names == names and target.classes.tolist() == sorted(values)
    if kind != "numpy":
        return
    mine = made(base).fit(texts, y)
    assert mine.classes_.dtype == y.dtype and mine.predict(texts).dtype == y.dtype
    assert set(mine.predict(texts)) <= set(values)
    assert 0 <= mine.score(texts, y) <= 1


@pytest.mark.system
@pytest.mark.parametrize("kind", ["list", "numpy", "pandas", "polars"])
def test_texts_come_in_any_container(base: Path, kind: str) -> None:
    texts, words = sentences(24)
    given: Any = texts
    if kind == "numpy":
        given = np.array(texts, dtype=object)
    elif kind != "list":
        given = pytest.importorskip(kind).Series(texts)
    assert made(base).fit(given, words).predict(given).shape == (24,)


@pytest.mark.system
def test_pairs(base: Path) -> None:
    pairs = [(f"A cat {i}.", f"A dog {i}.") for i in range(20)]
    mine = made(base).fit(pairs, [i % 2 for i in range(20)])
    assert mine.predict_proba(pairs[:3]).shape == (3, 2)
    assert mine.model_.inputs == {mine.model_.default_head: "pair"}


def several(kind: str) -> Any:
    rows = [["a"], ["a", "b"], [], ["b"]] * 6
    matrix = np.array([["a" in row, "b" in row, False] for row in rows], dtype=int)
    if kind == "lists":
        return rows
    if kind == "sparse":
        return pytest.importorskip("scipy.sparse").csr_matrix(matrix)
    if kind == "frame":
        return pytest.importorskip("pandas").DataFrame(matrix, columns=["a", "b", "c"])
    return matrix.tolist() if kind == "nested lists" else matrix


@pytest.mark.system
@pytest.mark.parametrize("kind", ["lists", "matrix", "nested lists", "sparse", "frame"])
def test_several_labels(base: Path, kind: str) -> None:
    y, texts = several(kind), [f"some words {i}" for i in range(24)]
    mine = made(base).fit(texts, y)
    width = 2 if kind == "lists" else 3
    found, chances = mine.predict(texts), mine.predict_proba(texts)
    assert found.shape == chances.shape == (24, width) and set(found.ravel()) <= {0, 1}
    assert ((chances >= 0) & (chances <= 1)).all()
    if width == 3:
        assert (chances[:, 2] == 0).all()  # a label of no row
    named = ["a", "b", "c"] if kind == "frame" else [0, 1, 2]
    assert mine.classes_.tolist() == (["a", "b"] if kind == "lists" else named)
    answers = mine.model_.classify(texts, multi_label=True)
    given = [[name in (a.labels or ()) for name in mine._names] for a in answers]
    assert (found == np.array(given)).all()
    exact = [set(np.array(mine._names)[row == 1]) for row in found]
    wanted = read_target(y, 24).labels
    right = sum(own == set(label) for own, label in zip(exact, wanted, strict=True)) / 24
    assert mine.score(texts, y) == right
    answered: Any = [sorted(labels) for labels in exact] if kind == "lists" else found
    if kind == "frame":
        answered = y.assign(**dict(zip("abc", found.T, strict=True)))
    assert any(exact) and mine.score(texts, answered) == 1.0


# ---- what is wrong ----

WRONG: dict[str, tuple[Any, Any, str]] = {
    "no y": (["a", "b"], None, "requires y to be passed, but the target y is None"),
    "another length": (["a", "b"], ["x"], "X has 2 texts and y 1 labels"),
    "nothing": ([], [], "X and y are empty"),
    "NaN": (["a", "b"], [1.0, float("nan")], "y[1]: is NaN; Input y contains NaN"),
    "None": (["a", "b"], ["x", None], "y[1]: is missing"),
    "infinite": (["a", "b"], [1.0, float("inf")], "Input y contains infinity"),
    "numbers": (["a", "b"], [0.5, 1.0], "y[0]: is 0.5, no class (Unknown label type: continuous)"),
    "kinds": (["a", "b"], np.array(["x", 1], dtype=object), "y holds int, str; give labels of one"),
    "one class": (["a b", "c d"], ["x", "x"], "classes to tell apart must be at least two"),
    "white space": (["a", "b"], ["x", "x "], "y has labels that differ in white space alone"),
    "a cube": (["a"], np.zeros((1, 1, 1)), "y has shape (1, 1, 1)"),
    "counts": (["a", "b"], np.array([[1, 2], [0, 3]]), "y has 2 columns; a matrix of labels holds"),
    "shares": (
        ["a", "b"],
        np.array([[0.9, 0.1], [0.3, 0.7]]),
        "are learnt by roberta_hub.fit(table)",
    ),
    "dicts": (["a", "b"], [{"x": 0.9, "y": 0.1}, {"x": 1}], "y holds dict; shares of classes are"),
    "no lists": (["a", "b"], [["x"], "y"], "y[1]: 'y' among lists of labels"),
    "both": (["a", ("b", "c")], ["x", "y"], "X[1]: 2 sentences; give single texts alone, or pairs"),
    "threes": ([("a", "b", "c")], ["x"], "X[0]: 3 sentences"),
    "a frame": ({"text": ["a"]}, ["x"], "X is a dict"),
    "a number": (["a", 5], ["x", "y"], "X[1]"),
    "missing": (["a", None], ["x", "y"], "X[1]"),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_cannot_be_learnt_is_said(base: Path, which: str) -> None:
    texts, labels, words = WRONG[which]
    with pytest.raises(RobertaHubError) as caught:
        made(base).fit(texts, labels)
    assert words in str(caught.value)


def test_options_are_checked_by_fit_and_not_before(base: Path) -> None:
    mine = RobertaClassifier(learning_rate=-1)
    assert mine.set_params(epochs=0).epochs == 0
    with pytest.raises(InputError, match="epochs is 0"):
        mine.fit(["a", "b"], [0, 1])
    with pytest.raises(InputError, match="learning_rate is -1"):
        mine.set_params(epochs=1).fit(["a", "b"], [0, 1])


@pytest.mark.system
@pytest.mark.filterwarnings("default")
def test_texts_that_are_cut_are_counted_once(base: Path) -> None:
    texts, words = sentences(24)
    long = [texts[0] + " word" * 60, *texts[1:5], texts[5] + " word" * 60]
    options = {"model": str(base), "progress": False, "epochs": 1, "max_length": 20}
    with pytest.warns(UserWarning, match="2 of 24 texts have more than 20 tokens and are cut whi"):
        mine = RobertaClassifier(**options).fit([*long, *texts[6:]], words)
    with pytest.warns(UserWarning, match="2 of 6 texts have more than 48 tokens and were cut") as s:
        assert len(mine.predict(long)) == 6
    assert len(s) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        mine.predict_proba(long)
        mine.score(long, words[:6])
    with pytest.warns(UserWarning, match="2 of 24 texts have more than 20 tokens"):
        mine.fit([*long, *texts[6:]], words)
    with pytest.warns(UserWarning, match="2 of 6 texts have more than 48 tokens and were cut"):
        mine.predict(long)  # another model, and another note


@pytest.mark.system
def test_truncate_false_cuts_nothing(base: Path) -> None:
    texts, words = sentences(24)
    long = [*texts[:3], texts[3] + " word" * 60]
    strict = made(base, truncate=False)
    assert "truncate" in inspect.signature(RobertaClassifier).parameters
    assert strict.get_params()["truncate"] is False and "truncate=False" in repr(strict)
    with pytest.raises(InputError, match=r"X\[3\]: too long to be learnt: more than 48 tokens; tr"):
        strict.fit([*long, *texts[4:]], words)
    assert not hasattr(strict, "model_")
    with pytest.raises(InputError, match=r"X\[0\]: too long .* max_length=\.\.\. reads up to 48"):
        made(base, truncate=False, max_length=6).fit(texts, words)
    strict.fit(texts, words)
    for ask in (strict.predict, strict.predict_proba, strict.predict_log_proba):
        with pytest.raises(InputError, match=r"X\[3\]: too long: .* tokens > 48"):
            ask(long)
    with pytest.raises(InputError, match=r"X\[3\]: too long"):
        strict.score(long, words[:4])
    assert len(strict.set_params(truncate=True).predict(long)) == 4
    with pytest.raises(InputTypeError, match="truncate is 'no'"):
        made(base, truncate="no").fit(texts, words)


@pytest.mark.system
def test_cross_validation_goes_on_with_long_texts(base: Path) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    texts, words = sentences(24)
    texts[2] += " word" * 60
    assert len(selection.cross_val_score(made(base), texts, words, cv=2)) == 2
    for_all = selection.cross_val_score(
        made(base, truncate=False), texts, words, cv=2, error_score=-1.0
    )
    assert for_all.tolist() == [-1.0, -1.0]  # one learns the long text, and one is asked about it


def test_words_of_habit_are_answered() -> None:
    for name, words in (
        ("num_epochs", "say epochs="),
        ("random_state", "say seed="),
        ("class_weight", "say balance=: balance=True counts rare classes as much"),
        ("max_iter", "say epochs="),
        ("poling", "did you mean pooling="),
    ):
        with pytest.raises(
            InputTypeError, match=f"RobertaClassifier has no argument '{name}'; {words}"
        ):
            RobertaClassifier(**{name: 1})
    with pytest.raises(UnknownNameError, match="no option 'epoch'; did you mean epochs"):
        RobertaClassifier().set_params(epoch=1)


def test_unfitted() -> None:
    error: type[Exception] = ValueError
    for ask in ("predict", "predict_proba", "predict_log_proba"):
        with pytest.raises(error, match="not fitted yet; call fit"):
            getattr(RobertaClassifier(), ask)(["a"])
    with pytest.raises(error, match="not fitted yet"):
        RobertaClassifier().fitted_  # noqa: B018


# ---- scikit-learn's tools ----


def test_parameters() -> None:
    mine = RobertaClassifier("roberta.base", epochs=3, balance=True)
    assert repr(mine) == "RobertaClassifier(model='roberta.base', epochs=3, balance=True)"
    assert mine.get_params()["epochs"] == 3 and next(iter(mine.get_params())) == "model"
    assert RobertaClassifier(**mine.get_params()).get_params() == mine.get_params()


@pytest.mark.system
def test_clone_and_pickle(fitted: RobertaClassifier, tmp_path: Path) -> None:
    base = pytest.importorskip("sklearn.base")
    again = base.clone(fitted)
    assert again.get_params() == fitted.get_params() and not hasattr(again, "model_")
    assert base.is_classifier(fitted)
    texts, words = sentences(30, 3)
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert np.array_equal(other.predict_proba(texts), fitted.predict_proba(texts))
        assert other.classes_.tolist() == WORDS and other.get_params() == fitted.get_params()
        assert other.fitted_ == fitted.fitted_ and other.score(texts, words) > 0.9
    assert pickle.loads(pickle.dumps(again)).get_params() == again.get_params()
    joblib = pytest.importorskip("joblib")
    joblib.dump(fitted, tmp_path / "mine.joblib")
    found = joblib.load(tmp_path / "mine.joblib").predict(texts)
    assert np.array_equal(found, fitted.predict(texts))


def test_a_pickled_estimator_says_what_to_label_next(fitted: RobertaClassifier) -> None:
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        texts = ["A cat in a tree.", "Nobody was there."]
        assert other.fitted_.next(texts, 1) == fitted.fitted_.next(texts, 1)


def test_tensors_are_labels_and_weights() -> None:
    torch = pytest.importorskip("torch")
    assert read_target(torch.tensor([2, 1, 2]), 3).classes.tolist() == [1, 2]
    assert read_weights(torch.tensor([1.0, 3.0]), 2) == [1.0, 3.0]


def test_shares_in_lists_are_no_labels() -> None:
    with pytest.raises(InputError, match=r"y holds \[0.7, 0.3\], shares of classes; "):
        read_target([[0.7, 0.3], [0, 1]], 2)
    assert read_target([[1, 0], [0, 1]], 2).several


@pytest.mark.system
def test_a_pipeline_a_search_and_scores(base: Path) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    texts, words = sentences(36)
    scores = selection.cross_val_score(made(base), texts, words, cv=2)
    assert scores.shape == (2,) and not np.isnan(scores).any()
    log_loss = selection.cross_val_score(made(base), texts, words, cv=2, scoring="neg_log_loss")
    assert np.isfinite(log_loss).all()
    lower = FunctionTransformer(lambda rows: [row.lower() for row in rows])
    pipeline = make_pipeline(lower, made(base))
    grid = {"robertaclassifier__learning_rate": np.array([1e-4, 1e-3])}
    search = selection.GridSearchCV(pipeline, grid, cv=2, error_score="raise")
    search.fit(np.array(texts, dtype=object), words)
    assert search.best_estimator_.predict(texts).shape == (36,)
    assert search.classes_.tolist() == WORDS


@pytest.mark.system
def test_it_needs_no_scikit_learn(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    texts, words = sentences(24)
    mine = made(base).fit(texts, words)
    assert mine.predict(texts).shape == (24,)
    with pytest.raises(InputError, match="not fitted yet"):
        RobertaClassifier().predict(["a"])


@pytest.mark.system
def test_it_leaves_nothing_on_the_disk(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    mine = made(base).fit(*sentences(24))
    pickle.loads(pickle.dumps(mine)).predict(["a"])
    assert left(tmp_path) == ["temporary"] and left(tmp_path / "temporary") == []


# ---- weights ----


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, 2], "X has 4 texts and sample_weight 2 numbers"),
        ([1, -1, 1, 1], r"sample_weight\[1\]: is -1; a weight is a finite number, 0 or more"),
        ([1, 1, float("nan"), 1], r"sample_weight\[2\]: is nan"),
        ([1, 1, 1, "much"], r"sample_weight\[3\]: is 'much'"),
        ([1, 1, 1e300, 1], r"sample_weight\[2\]: is 1e\+300; a weight is at most 1e\+12"),
        (float("nan"), "sample_weight is nan; give a number above 0"),
        ([0, 0, 0, 0], "sample_weight is zero for every text"),
        (np.ones((4, 2)), r"sample_weight has shape \(4, 2\); give one number for each text"),
        ([1, 0, 1, 0], "classes to tell apart must be at least two"),
    ],
)
def test_weights_that_cannot_be(weights: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobertaClassifier().fit(["a", "b", "c", "d"], [0, 1, 0, 1], sample_weight=weights)


@pytest.mark.system
def test_weights_count_in_fit_and_score(base: Path) -> None:
    """Of two labels of the same texts the heavier one is learnt; a text with 0 is left out."""
    texts, _ = sentences(20)
    both, y = [*texts, *texts], [0] * 20 + [1] * 20
    quick = {"minutes": 1e-9, "epochs": None}
    for heavy in (0, 1):
        weights = np.where(np.array(y) == heavy, 5.0, 1.0)
        mine = made(base, **quick).fit(both, y, sample_weight=weights)
        assert mine.predict(texts).tolist() == [heavy] * 20
        assert mine.score(both, y, weights) == pytest.approx(5 / 6)
        assert mine.score(both, y) == 0.5
    with pytest.warns(UserWarning, match="1 row with a weight of 0 left out"):
        mine = made(base, **quick).fit(both, y, sample_weight=[0] + [1] * 39)
    same = [
        made(base, **quick).fit(both, y, w).predict_proba(texts) for w in (None, 3, [1e-3] * 40)
    ]
    assert np.allclose(same[0], same[1]) and np.allclose(same[0], same[2])  # a number is all alike


@pytest.mark.system
def test_scikit_learns_tools_pass_weights(base: Path) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    texts, words = sentences(36)
    X, weights = np.array(texts, dtype=object), np.linspace(0.5, 2, 36)
    quick = made(base, minutes=1e-9, epochs=None)
    lower = FunctionTransformer(lambda rows: [row.lower() for row in rows])
    pipeline = Pipeline([("lower", lower), ("clf", quick)])
    pipeline.fit(X, words, clf__sample_weight=weights)
    for row in pipeline["clf"].fitted_.rows:
        assert row.weight == weights[int(row.where.partition(":")[2]) - 1]
    search = selection.GridSearchCV(quick, {"seed": [1, 2]}, cv=2, error_score="raise")
    search.fit(X, words, sample_weight=weights)
    assert {row.weight for row in search.best_estimator_.fitted_.rows} <= {*weights.tolist()}
    boosted = AdaBoostClassifier(quick, n_estimators=2).fit(X[:, None], words)
    assert boosted.predict(X[:, None]).shape == (36,)


@pytest.mark.system
def test_metadata_routing_asks_and_passes(base: Path) -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.exceptions import UnsetMetadataPassedError
    from sklearn.model_selection import cross_validate

    texts, words = sentences(24)
    quick = made(base, minutes=1e-9, epochs=None)
    weights = {"sample_weight": np.linspace(0.5, 2, 24)}
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="set_fit_request"):
            cross_validate(quick, texts, words, cv=2, params=weights)
        asked = sklearn.clone(quick.set_fit_request(sample_weight=True))
        asked.set_score_request(sample_weight=True)
        found = cross_validate(asked, texts, words, cv=2, params=weights, return_estimator=True)
        assert len({row.weight for row in found["estimator"][0].fitted_.rows}) > 5
