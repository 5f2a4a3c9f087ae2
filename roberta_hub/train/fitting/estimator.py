"""Makes `fit` a classifier of scikit-learn's kind, for its pipelines, searches and scores.

scikit-learn itself is not needed: what it asks of an estimator are methods and names.
"""

from __future__ import annotations

import copy
import inspect
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from roberta_hub.arguments import advise, short_repr, switch
from roberta_hub.errors import InputError, Place, UnknownNameError, close_names, placed
from roberta_hub.files import write_files
from roberta_hub.hub import load_model
from roberta_hub.inference.classify import Prediction
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.keywords import check_assigned, checked, names_others
from roberta_hub.rows.labels import label_of
from roberta_hub.settings import HeadPooling
from roberta_hub.terminal import clean
from roberta_hub.text.texts import Texts, as_texts
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.fitting.examples import read_examples
from roberta_hub.train.fitting.fit import ReadyClassifier, prepare_classifier
from roberta_hub.train.fitting.fitted import Fitted
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.target import (
    check_learnable,
    read_target,
    read_weights,
    refused_label,
    with_refused,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@names_others
class RobertaClassifier:
    """A classifier of texts, with scikit-learn's methods, that `roberta_hub.fit` makes.

    It goes into `Pipeline`, `cross_val_score` and `GridSearchCV`, can be cloned and pickled, and
    leaves nothing on the disk. A pickle holds the fitted model's files.

    Attributes:
        classes_: the classes, sorted: of the type that `y` has. Where `y` is a matrix of 0 and 1,
            the numbers of its columns, or their names in a data frame.
        model_: the fitted model, whose verbs take texts.
        fitted_: what was chosen and measured; see `RobertaHubInterface.fitted`.

    Example:
        >>> texts = [f"{word} film {i}" for i in range(10) for word in ("good", "bad")]
        >>> labels = ["pro", "contra"] * 10
        >>> mine = RobertaClassifier(epochs=1, progress=False).fit(texts, labels)
        >>> mine.predict_proba(["a good film"]).shape, mine.classes_.tolist()
        ((1, 2), ['contra', 'pro'])
    """

    _estimator_type = "classifier"  # scikit-learn before 1.6 asks for it
    _warned = False
    _refused: Any = None  # also of an older pickle

    @checked
    def __init__(
        self,
        model: str | os.PathLike[str] = "roberta.tiny",
        *,
        valid: Any = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        minutes: float | None = None,
        balance: bool = False,
        pooling: HeadPooling | None = None,
        trials: int | None = None,
        reject: float | None = None,
        reject_label: Any = None,
        seed: int = 1,
        truncate: bool = True,
        progress: bool | None = None,
    ) -> None:
        """Keep the options of a later `fit`, which checks them; see `roberta_hub.fit`.

        Args:
            model: name or path of the model to begin with.
            valid: the share of rows to measure on, or a table of them; None: a tenth of 200 rows or
                more, and of fewer none, which cross-validation judges.
            epochs: how often each row is seen; None: by the number of rows.
            learning_rate: its peak, taken as it is; None: by the model's width.
            batch_size: rows of an update; None: by the number of rows.
            max_length: tokens that are learnt of a text; None: by the number of rows.
            minutes: limit of the work for choosing and learning, in minutes on two cores: counted
                in tokens, not measured.
            balance: count rare classes as much as frequent ones.
            pooling: what the head reads, "cls" or "mean"; None: what the model was trained with.
            trials: rates and numbers of epochs to try by cross-validation.
            reject: share of texts with known classes that may be refused, such as 0.05; see
                `roberta_hub.fit`. None: every text gets a class.
            reject_label: what `predict` gives for a refused text: a value of the type of the
                classes that is none of them, without white space around it. None: "rejected" where
                classes are str; others must name one.
            seed: the same rows, model, options and seed give the same classifier.
            truncate: cut texts that are too long, to learn and to answer, and warn once how many;
                False: such a text is an error that names it.
            progress: whether to show a bar; None: if a person looks at a terminal.
        """
        self.model = model
        self.valid = valid
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_length = max_length
        self.minutes = minutes
        self.balance = balance
        self.pooling = pooling
        self.trials = trials
        self.reject = reject
        self.reject_label = reject_label
        self.seed = seed
        self.truncate = truncate
        self.progress = progress

    if not TYPE_CHECKING:  # a type checker sees the class as it is

        def __setattr__(self, name: str, value: object) -> None:
            """Set an option, or a name of your own; refuse one that would change nothing."""
            if not name.endswith("_"):  # what an estimator learnt
                check_assigned(self, name, inspect.signature(type(self)).parameters)
            super().__setattr__(name, value)

    # ---- learning and answering ----

    @checked
    def fit(
        self,
        X: Texts,  # noqa: N803
        y: Any = None,
        sample_weight: Any = None,
    ) -> RobertaClassifier:
        """Learn the labels of texts.

        Args:
            X: texts, or pairs as tuples of two; see `classify`.
            y: a label for each text: str, whole numbers or booleans. Where a text may have several
                labels: a list of them for each text, or a matrix of 0 and 1 with a column a label.
            sample_weight: how much each text counts, in training and in the scores; a text with 2
                counts as two, and one with 0 is left out. If all are below 1, they are scaled to a
                mean of 1. None: all count the same. Shape: (n)

        Returns:
            Itself.

        Raises:
            RobertaHubError: texts or labels that cannot be learnt; the message says which.
            KeyboardInterrupt: Ctrl-C; no files remain.
        """
        texts, truncate = _texts(X), switch("truncate", self.truncate)
        columns, target = _columns(texts), read_target(y, len(texts))
        check_learnable(target)
        weights = read_weights(sample_weight, len(texts))
        table: dict[str, Any] = {**columns, "label": target.labels}
        refused = refused_label(self.reject, self.reject_label, target)
        options = self.get_params()
        del options["truncate"], options["progress"], options["reject_label"]
        examples = read_examples(
            table if weights is None else {**table, "weight": weights},
            text=list(columns),
            label="label",
            weight=None if weights is None else "weight",
            task="multi_label" if target.several else "classification",
            valid=options.pop("valid"),
            seed=self.seed,
        )
        ready = prepare_classifier(
            examples, model=options.pop("model"), options=LearningOptions(**options)
        )
        if ready.cut and not truncate:
            raise _too_long(ready)
        for note in (*examples.notes, *ready.notes):
            warnings.warn(clean(f"{examples.source}: {note}"), stacklevel=3)
        self.model_ = ready.train(self.progress)
        self.classes_ = target.classes
        self._names, self._several, self._warned = target.names, target.several, False
        self._refused = refused
        return self

    @property
    def fitted_(self) -> Fitted:
        """What was chosen and measured."""
        found: Fitted = self._ready().fitted
        return found

    @checked
    def predict(self, X: Texts) -> NDArray[Any]:  # noqa: N803
        """Give each text its most probable class, or a row of 0 and 1 for each label.

        With `reject`, a text that no class fits gets `reject_label`.

        Args:
            X: texts, or pairs as tuples of two. `truncate` says what becomes of those that are too
                long.

        Returns:
            Shape: (n), of the type of `classes_`; of several labels (n, K).
        """
        import numpy as np

        answers = self._answers(X)
        if self._several:
            rows = [[name in (answer.labels or ()) for name in self._names] for answer in answers]
            return np.array(rows, dtype=int).reshape(len(rows), len(self._names))
        places = {name: i for i, name in enumerate(self._names)}
        found: NDArray[Any] = self.classes_[np.array([places[a.best] for a in answers], dtype=int)]
        refused = np.array([bool(a.rejected) for a in answers], dtype=bool)
        return with_refused(found, refused, self._refused) if refused.any() else found

    @checked
    def predict_proba(self, X: Texts) -> NDArray[np.float64]:  # noqa: N803
        """Compute the probability of each class, in the order of `classes_`.

        Args:
            X: texts, or pairs as tuples of two; see `predict`.

        Returns:
            Shape: (n, K). Rows add up to 1, but where a text may have several labels.
        """
        import numpy as np

        answers = self._answers(X)
        rows = [[answer.scores.get(name, 0.0) for name in self._names] for answer in answers]
        found = np.array(rows, dtype=np.float64).reshape(len(rows), len(self._names))
        return found if self._several else found / found.sum(1, keepdims=True)

    @checked
    def predict_log_proba(self, X: Texts) -> NDArray[np.float64]:  # noqa: N803
        """Compute the logarithm of `predict_proba`.

        Args:
            X: texts, or pairs as tuples of two.

        Returns:
            Shape: (n, K).
        """
        import numpy as np

        with np.errstate(divide="ignore"):
            found: NDArray[np.float64] = np.log(self.predict_proba(X))
        return found

    @checked
    def score(self, X: Texts, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Compute the accuracy: the share of texts that get their label, or all their labels.

        With `reject`, a refused text is right if its label is `reject_label`.

        Args:
            X: texts, or pairs as tuples of two.
            y: the right labels, as `fit` takes them.
            sample_weight: how much each text counts; None: all count the same. Shape: (n)
        """
        answers = self._answers(X)
        wanted = read_target(y, len(answers)).labels
        none = None if self._refused is None else label_of(self._refused, "reject_label")
        right: list[bool] = [
            set(answer.labels or ()) == set(label)
            if self._several
            else (none if answer.rejected else answer.label) == label
            for answer, label in zip(answers, wanted, strict=True)
        ]
        weights = read_weights(sample_weight, len(right)) or [1] * len(right)
        return sum(compress(weights, right)) / sum(weights)

    def _answers(self, X: Texts) -> Sequence[Prediction]:  # noqa: N803
        model, texts = self._ready(), _texts(X)
        truncate, several = switch("truncate", self.truncate), self._several
        with placed(lambda at: Place("X", at.index)):
            found = model.classify(texts, truncate=truncate, multi_label=several, progress=False)
        if truncate and not self._warned:
            most = model.max_positions
            cut = sum(len(ids) > most for ids in model.tokenizer.encode_batch(texts))
            if cut:
                self._warned = True
                advise(
                    f"{cut:,} of {len(texts):,} texts have more than {most} tokens and were cut; "
                    "truncate=False makes them an error"
                )
        return found

    def _ready(self) -> RobertaHubInterface:
        if not self.__sklearn_is_fitted__():
            _refuse_unfitted()
        return self.model_

    # ---- what scikit-learn asks of every estimator ----

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by their names.

        Args:
            deep: is scikit-learn's; there is nothing inside an option.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> RobertaClassifier:
        """Set options, and return itself.

        Args:
            params: options by their names.

        Raises:
            UnknownNameError: there is no such option.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                near = close_names(name, known)
                hint = f"did you mean {near}?" if near else f"it has {', '.join(known)}"
                raise UnknownNameError(
                    f"RobertaClassifier has no option {short_repr(name)}; {hint}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def set_fit_request(self, *, sample_weight: bool | str | None) -> RobertaClassifier:
        """Say whether scikit-learn's tools pass `sample_weight` to `fit`, and return itself.

        It takes effect where scikit-learn routes metadata
        (`sklearn.set_config(enable_metadata_routing=True)`); elsewhere it is passed anyway.

        Args:
            sample_weight: True and False: pass it, or not; a str: pass what has that name; None: it
                is an error if a tool gets it.
        """
        return self._request("fit", sample_weight)

    def set_score_request(self, *, sample_weight: bool | str | None) -> RobertaClassifier:
        """Say whether scikit-learn's tools pass `sample_weight` to `score`, and return itself.

        Args:
            sample_weight: as in `set_fit_request`.
        """
        return self._request("score", sample_weight)

    def get_metadata_routing(self) -> Any:
        """Return what `set_fit_request` and `set_score_request` said, as scikit-learn's record."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if (found := vars(self).get("_metadata_request")) is not None:
            return copy.deepcopy(found)
        found = MetadataRequest(owner=type(self).__name__)
        for method in (found.fit, found.score):
            method.add_request(param="sample_weight", alias=None)
        return found

    def _request(self, method: str, alias: bool | str | None) -> RobertaClassifier:
        found = self.get_metadata_routing()
        getattr(found, method).add_request(param="sample_weight", alias=alias)
        self._metadata_request = found
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # noqa: N803  # scikit-learn passes it
        defaults = inspect.signature(type(self)).parameters
        said = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(said)})"[:N_CHAR_MAX]

    # ---- pickling ----

    def __getstate__(self) -> dict[str, Any]:
        """Return the options, and the files of the model in place of the model."""
        state = dict(vars(self))
        model = state.pop("model_", None)
        if model is not None:
            state["_files"] = _files_of(model)
            state["_record"] = model.fitted
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        state = dict(state)
        files, record = state.pop("_files", None), state.pop("_record", None)
        vars(self).update(state)
        if files is not None:
            self.model_ = _model_of(files)
            self.model_.fitted = record and record.of(self.model_)


def _texts(X: Any) -> list[Text]:  # noqa: N803
    flat = getattr(X, "shape", ())[1:] == (1,) and hasattr(X, "ravel")
    # Boosting wants an array of two dimensions.
    return as_texts(X.ravel() if flat else X, "X")[0]


def _columns(texts: Sequence[Text]) -> dict[str, list[str]]:
    """Make a column of texts, or two of pairs."""
    parts = [(text,) if isinstance(text, str) else text for text in texts]
    width = len(parts[0]) if parts else 1
    for i, part in enumerate(parts):
        if len(part) != width or width > 2:
            raise InputError(
                f"{len(part)} sentences; give single texts alone, or pairs of two alone",
                place=Place("X", i),
            )
    return {f"text{k + 1}": [part[k] for part in parts] for k in range(width)}


def _too_long(ready: ReadyClassifier) -> InputError:
    """Error for the first text that would be cut while the model learns."""
    table, _, row = ready.cut[0].rpartition(":")
    most = ready.roberta.max_positions
    more = f", or max_length=... reads up to {most}" if ready.limit < most else ""
    return InputError(
        f"too long to be learnt: more than {ready.limit} tokens; truncate=True cuts it{more}",
        place=Place("X", int(row) - 1) if table == "table" else ready.cut[0],
    )


def _refuse_unfitted() -> NoReturn:
    said = "this RobertaClassifier is not fitted yet; call fit(X, y) first"
    try:
        from sklearn.exceptions import NotFittedError  # which its tools wait for
    except ImportError:
        raise InputError(said) from None
    raise NotFittedError(said)


# ---- a model's files, in a pickle ----


def _files_of(model: RobertaHubInterface) -> dict[str, bytes]:
    """Save a model, and read what was written."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _model_of(files: Mapping[str, bytes]) -> RobertaHubInterface:
    """Load a model from its files, which are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        model = load_model(folder)
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.data = tensor.data.clone()  # what is loaded is mapped from a file
    return model
