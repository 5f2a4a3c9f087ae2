"""Defines RobertaHubInterface: fairseq's methods on ids and our verbs on texts, in one class.

Each method says what it answers, and calls the function that computes it.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import torch
from torch import Tensor, nn

from roberta_hub.arguments import kind_of, switch, text_of, whole_number
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.config import ReadOnlyArguments
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.export import folder
from roberta_hub.export.folder import Exported
from roberta_hub.formats import saving
from roberta_hub.inference import (
    answer,
    attention_view,
    attributes,
    choose,
    classify,
    embed,
    explain,
    ids,
    new_tokens,
    optimize,
    precision,
    pronouns,
    rank,
    replaced,
    search,
    token_strip,
)
from roberta_hub.inference.answer import Answer
from roberta_hub.inference.batching import Options, Runner
from roberta_hub.inference.classify import Prediction
from roberta_hub.inference.dtype_choice import mention_bfloat16
from roberta_hub.inference.fill_mask import Fillings
from roberta_hub.inference.heads import (
    HeadFact,
    Heads,
    check_classes,
    check_labels,
    checked_heads,
)
from roberta_hub.inference.mode import has_dropout, unless_trained_through
from roberta_hub.inference.optimize import DtypeRequest, Optimization
from roberta_hub.inference.precision import Ranges
from roberta_hub.inference.search import Hit
from roberta_hub.inference.summary import card, model_facts
from roberta_hub.inference.tag import Span
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.words import AlignedDoc, aligned_doc
from roberta_hub.keywords import check_assigned, checks_keywords, unknown_attribute
from roberta_hub.model.known_head import known_head
from roberta_hub.model.packing import check_tokens
from roberta_hub.model.placement import moved
from roberta_hub.model.roberta import add_classification_head, require_roberta
from roberta_hub.settings import (
    HYPOTHESIS,
    MAX_ANSWER,
    Aggregation,
    Head,
    HeadKind,
    HeadPooling,
    HeadSettings,
    Inputs,
    Pooling,
    SentenceSettings,
    VectorDtype,
    Way,
    WordRule,
    ZeroShotSettings,
    check_head,
    check_kind,
    check_normalize,
    check_pooling,
    with_columns,
)
from roberta_hub.show.display import Display
from roberta_hub.show.report import Report
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.foreign import ForeignEngine
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.table_fit import engine_for
from roberta_hub.text.texts import Texts, as_single_texts, as_texts
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.verbs import views
from roberta_hub.verbs.classify import CLASSIFY
from roberta_hub.verbs.embed import EMBED
from roberta_hub.verbs.features import FEATURES
from roberta_hub.verbs.fill_mask import FILL_MASK
from roberta_hub.verbs.question import answer_texts
from roberta_hub.verbs.score import SCORE
from roberta_hub.verbs.tag import TAG
from roberta_hub.verbs.zero_shot import ZERO_SHOT

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Unpack

Format = Literal["roberta_hub", "fairseq", "huggingface"]
_warning = threading.Lock()
_RANDOM_ANSWERS = "answers are random; call .eval() first"
"""Lock by which one of several threads warns of dropout."""
LOADED = "roberta_hub"
"""Key under which arguments of fairseq's form bring what else was loaded with a model."""
LOADED_PARTS = (
    "_known_heads",
    "default_head",
    "source",
    "family",
    "sentence",
    "zero_shot_settings",
    "learnt",
)
"""Attributes of an interface that a model, a task and a BPE do not say."""


@checks_keywords
class RobertaHubInterface(nn.Module):
    """RoBERTa for people: text goes in, answers come out.

    On texts:
        classify    the label of a text, with the probabilities of all labels
        predict_proba                       these probabilities alone, as a tensor
        zero_shot   the same for labels of your own, without training
        tag         the labelled spans of a text: names, parts of speech
        answer      the span of a context that answers a question
        choose      the best of several options
        fill_mask   the most probable words for <mask>
        score       how natural a text is
        replaced    the probability that a piece was replaced
        disambiguate_pronoun                what the pronoun in [brackets] refers to
        embed       one vector of a text
        similarity  how near each text of one list is to each text of another
        search      the texts of a corpus that are nearest to a query
        rank        texts in the order in which they answer a query, by a cross-encoder
        features    the hidden states of a text, or one vector made of them
        tokenize    the pieces of a text; offsets their character positions
        encode_batch                        the ids of many texts
    To look at, in a notebook or a terminal:
        explain     how surprising each word is, or how much it contributes to a head's answer
        token_strip the pieces of a text, with their ids
        attention   which tokens each token attends to
    On ids, as in fairseq:
        encode      ids of a text, and decode the text of ids
        extract_features                    hidden states of ids, with gradients
        extract_features_aligned_to_words   features of words, as a spaCy Doc
        predict     log-probabilities of a head's classes, with gradients
    The model itself:
        print       a card: weights, heads, mode
        save        writes it into a directory, in our format, fairseq's or Hugging Face's
        export      writes it as ONNX or for torch.export, and checks what it wrote
        optimize    makes inference faster, or quantizes it
        register_classification_head, register_token_head, register_span_head   new heads
        head_labels                         the classes of a head
        add_tokens  words of your own, each of which is one token
        to, cuda    move it to another device

    fairseq's methods behave as in fairseq (`fairseq/models/roberta/hub_interface.py`): they keep
    the caller's train or eval mode and the gradients. Only `fill_mask` and `disambiguate_pronoun`
    run in eval mode without gradients and restore the mode. So do all our own verbs on texts.

    `texts` means the same in every verb: an iterable of str, or of tuples of sentences, which are
    encoded as pairs (a list of two is a pair, too). Lists, generators, and columns of pandas,
    polars, Arrow, numpy and `datasets` are such iterables. Tables, dicts, sets and missing values
    are errors that name the column or the row. One str gives one answer. A single pair is a list of
    one, `[("a", "b")]`.

    Attributes:
        model: the `RobertaModel`, ours or fairseq's.
        task: holds `source_dictionary`, `label_dictionary` and `mask_idx`.
        bpe: turns text into ids and back, as str: `encode(str) -> str`, `decode(str) -> str`.
        cfg: what was given to the constructor.
        labels: class names of each head, where known; checked when they are set. A list is that of
            the default head, or of the only one.
        default_head: the head that a verb uses by default, where several would do: the one that the
            model was trained for, if known.
        inputs: what each head was trained on, where known: "one" for single texts, or "pair".
        kinds: what each classification head was trained for, where known: "single_label",
            "multi_label" or "regression". `classify` follows it.
        thresholds: for each label of a head the lowest probability that gives it, as a tuple in the
            order of `head_labels`. Heads of kind "multi_label" may have them; the default is 0.5.
            They are checked when they are used.
        reject_below: for each head that may refuse to answer the `certainty` of a `Prediction`
            below which it does, 0 to 1. `fit(..., reject=0.05)` chooses it. To have every text
            answered again: `del roberta.reject_below[head]`.
        word_rules: how `tag` splits texts for a token head: "words", as treebanks do, the default;
            or "clusters", runs of letters and digits and every other character, for taggers of
            `fit`; "parts" are such runs cut at combining marks, for those that an older `fit` made.
        sentence: how `embed` makes one vector of a text, if the model has settings for it.
        zero_shot_settings: how `zero_shot` judges, if the model has settings for it.
        source: where the weights came from.
        family: Hugging Face's `model_type` of the model's kind: "roberta", "bert", "albert".
        optimized: what `optimize` did and how accurate the result is; None before it is called.
        fitted: what `fit` chose and measured, a `Fitted`; None for models that it did not make, and
            for those that are read from a folder: its README.md has the scores, and `roberta-hub
            next -m FOLDER` does what `fitted.next` does.
        learnt: digests of the texts that `fit` trained the model on. `save` keeps them, so that a
            later `fit`, `evaluate` or `compare` names the rows that the model knows.
    """

    labels = HeadFact[tuple[str, ...]]("labels")
    inputs = HeadFact[Inputs]("inputs")
    kinds = HeadFact[HeadKind]("kind")
    thresholds = HeadFact[tuple[float, ...]]("thresholds")
    reject_below = HeadFact[float]("reject_below")
    word_rules = HeadFact[WordRule]("words")
    fitted: Any = None
    learnt: frozenset[str] = frozenset()
    optimized: Optimization | None = None
    _float_tensor: Tensor
    _warned: frozenset[str] = frozenset()

    def __init__(
        self,
        cfg: Any,
        task: Any,
        model: nn.Module,
        *,
        bpe: SubwordTokenizer | None = None,
        labels: Mapping[str, Sequence[str]] | None = None,
        default_head: str | None = None,
        inputs: Mapping[str, Inputs] | None = None,
        source: str = "random weights",
        family: str = "roberta",
        sentence: SentenceSettings | None = None,
        head_settings: Mapping[str, HeadSettings] | None = None,
        zero_shot_settings: ZeroShotSettings | None = None,
        own_head: str | None = None,
    ) -> None:
        """Wrap a model, as fairseq's constructor does.

        Args:
            cfg: a `RobertaConfig`, or a fairseq configuration. One that `hub_utils.from_pretrained`
                of `roberta-hub run` gives brings what was loaded with the model: its BPE, labels.
            task: a `Task`, or a fairseq task.
            model: a `RobertaModel`, ours or a real fairseq one.
            bpe: cuts texts into pieces, see `text/pieces.py`; None is GPT-2's BPE, RoBERTa's.
            labels: class names of heads.
            default_head: the head that the model was trained for.
            inputs: what heads were trained on: "one" for single texts, or "pair".
            source: where the weights came from, for `print`.
            family: `model_type` of the class that `save(..., "huggingface")` makes of it.
            sentence: how `embed` makes one vector of a text; None: the model does not say it.
            head_settings: what heads were trained for, the thresholds of their labels, and how
                texts are cut for token heads, which `kinds`, `thresholds` and `word_rules` then
                hold. What a head pools is the model's own.
            zero_shot_settings: by which way `zero_shot` labels; None: the model does not say it.
            own_head: the earlier name of `default_head`; deprecated.

        Raises:
            InputTypeError: a part is of another type.
            InputError: a head's labels are not all different; or its settings cannot be.
        """
        super().__init__()
        if own_head is not None:
            _warn_of_own_head()
            default_head = own_head if default_head is None else default_head
        loaded = cfg.get(LOADED, {}) if isinstance(cfg, ReadOnlyArguments) else {}
        bpe = loaded.get("bpe") if bpe is None else bpe
        _check_parts(task, model, bpe)
        _check_by_head(labels=labels, inputs=inputs, head_settings=head_settings)
        _check_settings(sentence, zero_shot_settings)
        known = {head: check_head(head, given) for head, given in (head_settings or {}).items()}
        named = {head: check_labels(head, names) for head, names in (labels or {}).items()}
        self.cfg = cfg
        self.task = task
        self.model = model
        known = with_columns(known, labels=named, inputs=inputs or {})
        self._known_heads = checked_heads(model, known)
        self.default_head = default_head
        self.source = source
        self.family = family
        self.sentence = sentence
        self.zero_shot_settings = zero_shot_settings
        for name in LOADED_PARTS if loaded else ():
            setattr(self, name, loaded[name])
        self.bpe = engine_for(Dictionary.of(task.source_dictionary), bpe)
        self.register_buffer("_float_tensor", torch.tensor([0], dtype=torch.float))
        vars(self)["_made"] = True  # from here on, what is set is checked

    # ---- what it holds ----

    @property
    def bpe(self) -> Any:
        """The tokenizer of texts into pieces; you can set another one.

        It is one of `text/pieces.py`, or any object with fairseq's `encode` and `decode`.
        """
        return vars(self)["bpe"]

    @bpe.setter
    def bpe(self, engine: object) -> None:
        dictionary = Dictionary.of(self.task.source_dictionary)
        used = engine
        if not isinstance(used, SubwordTokenizer):
            used = ForeignEngine(used, dictionary)
        self.tokenizer = Tokenizer(used, dictionary, getattr(self.task, "layout", None))
        vars(self)["bpe"] = engine

    @property
    def own_head(self) -> str | None:
        """The earlier name of `default_head`; deprecated."""
        _warn_of_own_head()
        return self.default_head

    @own_head.setter
    def own_head(self, head: str | None) -> None:
        _warn_of_own_head()
        self.default_head = head

    @property
    def args(self) -> ReadOnlyArguments:
        """The model's arguments under fairseq's names, as its hub of 2019 has them; read-only."""
        arguments: ReadOnlyArguments = self.model.args  # type: ignore[assignment]  # not Tensor
        return arguments

    @property
    def device(self) -> torch.device:
        """The device of the weights; inputs are moved there."""
        return self._float_tensor.device

    @property
    def max_positions(self) -> int:
        """Longest text in tokens, `<s>` and `</s>` included.

        It is the model's limit, or the tokenizer's `model_max_length` where that is less.
        """
        return self._runner().limit

    @property
    def _heads(self) -> Heads:
        """The model's heads with all that is known of them now; callers may change it any time."""
        return Heads(
            self.model,
            self._known_heads,
            self.default_head,
            getattr(self.task, "label_dictionary", None),
        )

    def _runner(self, **options: Unpack[Options]) -> Runner:
        return Runner(model=self.model, tokenizer=self.tokenizer, **options)

    def _sentence_runner(self, **options: Unpack[Options]) -> tuple[SentenceSettings, Runner]:
        settings = self.sentence or SentenceSettings()
        return settings, embed.within_limit(self._runner(**options), settings)

    def _checkpoint(self) -> Checkpoint:
        """Put the model, its vocabulary and its labels together; the weights are not copied."""
        return saving.checkpoint_of(
            self.model,
            self._known_heads,
            self.tokenizer,
            self.task,
            self.default_head,
            sentence=self.sentence,
            zero_shot=self.zero_shot_settings,
            family=self.family,
            learnt=self.learnt,
        )

    # ---- on texts: heads ----

    @overload
    def classify(  # type: ignore[overload-overlap]
        self,
        texts: str,
        head: str | None = None,
        *,
        multi_label: bool | None = None,
        **options: Unpack[Options],
    ) -> Prediction: ...
    @overload
    def classify(
        self,
        texts: Texts,
        head: str | None = None,
        *,
        multi_label: bool | None = None,
        **options: Unpack[Options],
    ) -> list[Prediction]: ...
    def classify(
        self,
        texts: str | Texts,
        head: str | None = None,
        *,
        multi_label: bool | None = None,
        **options: Unpack[Options],
    ) -> list[Prediction] | Prediction:
        """Give each text a label, with the probabilities of all labels.

        Args:
            texts: one str, or many; see the class. A head that was trained on pairs takes only
                pairs, and a head that was trained on single texts takes only single texts. `inputs`
                has the kind of each head.
            head: name of a classification head. None: of the heads that take such texts the
                model's own (`default_head`), else the only one.
            multi_label: True: each label has an independent probability, and `labels` holds the
                labels that reach their thresholds. False: probabilities add up to 1. None: as the
                head was trained (`kinds`); they add up to 1 if that is unknown.
            options: batch_tokens, progress, truncate, stride; see `features`. The probabilities of
                a long text are the mean over its windows; with `multi_label`, their logits are
                averaged.

        Returns:
            A `Prediction` for each text. It has `label`, its probability `score`, the `scores` of
            all labels, and with `multi_label` also `labels`, which may be empty. A head of
            `fit(..., reject=)` may refuse a text that no label fits: `label` is then None, and
            `rejected` is True; `score` stays that of the most probable label. If the head has
            one output (regression, reranker), `score` is that output, and with `multi_label` its
            sigmoid.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the model has several heads for such texts, and none was named; the texts
                are single ones and pairs, which have a head each; or the head judges pairs, and a
                text is single.

        Example:
            >>> tiny = roberta_hub.load_model("roberta.tiny").eval()
            >>> tiny.classify([("A dog ran.", "An animal moved.")])[0].label  # its head for pairs
            'entailment'
            >>> roberta.register_classification_head("topic", labels=["art", "sport"])
            >>> sorted(roberta.classify(["Goal!"], "topic")[0].scores)
            ['art', 'sport']
            >>> roberta.register_classification_head("tags", labels=["a", "b"], kind="multi_label")
            >>> roberta.thresholds["tags"] = (0.0, 1.0)
            >>> roberta.classify("Goal!", "tags").labels
            ('a',)
        """
        settings = {"head": head, "multi_label": multi_label}
        return answer_texts(CLASSIFY, verb_model(self, **options), texts, settings)

    def predict_proba(
        self, texts: str | Texts, head: str | None = None, **options: Unpack[Options]
    ) -> Tensor:
        """Compute the probability of each label of a head, as `classify` gives it.

        Args:
            texts: one str, or many; see the class.
            head: name of a classification head. None: as `classify` finds it.
            options: batch_tokens, progress, truncate, stride; see `classify`.

        Returns:
            (len(texts), K) float32 on the CPU, in the order of `head_labels(head)`; (K,) for one
            str. Rows add up to 1, but of a head of kind "multi_label", whose labels do not exclude
            each other.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the model has several heads, and none was named; or the head gives a number,
                as a regression does.

        Example:
            >>> roberta.register_classification_head("topic", labels=["art", "sport"])
            >>> roberta.predict_proba(["Goal!", "A dog ran."], "topic").shape
            torch.Size([2, 2])
        """
        heads = self._heads
        many, one = as_texts(texts)
        head = heads.find_for(many, head, "predict_proba")
        found = classify.probabilities(self._runner(**options), many, heads, head)
        return found[0] if one else found

    @overload
    def zero_shot(  # type: ignore[overload-overlap]
        self,
        texts: str,
        labels: Sequence[str],
        *,
        hypothesis: str = HYPOTHESIS,
        head: str | None = None,
        multi_label: bool = False,
        by: Way | None = None,
        none: str | None = None,
        **options: Unpack[Options],
    ) -> Prediction: ...
    @overload
    def zero_shot(
        self,
        texts: Texts,
        labels: Sequence[str],
        *,
        hypothesis: str = HYPOTHESIS,
        head: str | None = None,
        multi_label: bool = False,
        by: Way | None = None,
        none: str | None = None,
        **options: Unpack[Options],
    ) -> list[Prediction]: ...
    def zero_shot(
        self,
        texts: str | Texts,
        labels: Sequence[str],
        *,
        hypothesis: str = HYPOTHESIS,
        head: str | None = None,
        multi_label: bool = False,
        by: Way | None = None,
        none: str | None = None,
        **options: Unpack[Options],
    ) -> list[Prediction] | Prediction:
        """Give each text one of your own labels, without training.

        By entailment, a head for natural-language inference (NLI) judges whether the text entails
        the hypothesis with the label in it (Yin et al. 2019), as in transformers' pipeline.

        By meaning, the sentence vector of the text is compared with the vector of each label.
        Underscores in a label become spaces. This takes a hundredth of the time of entailment, and
        is better for topics and intents.

        By both, the logit of entailment and the weighted cosine are added. The weights are in
        `roberta.zero_shot_settings`, and `print(roberta)` shows the model's way. With more than ten
        labels, entailment is computed for the ten nearest labels. The other labels follow in the
        order of their cosines.

        Args:
            texts: one str, or many; see the class. The vector of a pair is that of `embed`.
            labels: your labels, in words.
            hypothesis: a sentence with `{}` in place of the label; "meaning" does not use it.
            head: name of an NLI head. One of its labels begins with "entail", or its labels are
                "e", "n" and "c". None: the model's own (`default_head`) if it is an NLI head, else
                the only NLI head.
            multi_label: True: each label has an independent probability, and `labels` holds the
                labels with at least 0.5. The probability compares entailment with contradiction, or
                the cosine with `zero_shot_settings.middle`; "both" adds the two. False:
                probabilities add up to 1. A single label always has an independent probability.
            by: "entailment", "meaning" (the nearest label by its vector) or "both". None: the
                model's setting, else entailment; with one label or a named head always entailment.
            none: label for texts that none of `labels` fits, such as "other": those to which
                `multi_label` would give no label. None: each text gets one of `labels`.
            options: batch_tokens, progress, truncate, stride; see `features`. A text that is too
                long for sentence vectors alone is compared in windows.

        Returns:
            A `Prediction` for each text, with a probability for each of `labels`. With `none`,
            `rejected` says whether its label is `none`.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: no label of the head means entailment, or its labels are numbers (LABEL_0):
                name them with `roberta.labels[head] = [...]`; the model has several NLI heads, and
                `head` is None; the model has no sentence vectors; or `head` or `hypothesis` is
                given with "meaning".

        Example:
            >>> nli = ["contradiction", "neutral", "entailment"]
            >>> roberta.register_classification_head("nli", labels=nli)
            >>> prediction = roberta.zero_shot("Goal!", ["art", "sport"], head="nli")
            >>> sorted(prediction.scores)
            ['art', 'sport']
        """
        settings = {
            "labels": labels,
            "hypothesis": hypothesis,
            "head": head,
            "multi_label": multi_label,
            "by": by,
            "none": none,
        }
        return answer_texts(ZERO_SHOT, verb_model(self, **options), texts, settings)

    @overload
    def tag(  # type: ignore[overload-overlap]
        self,
        texts: str,
        head: str | None = None,
        *,
        aggregation: Aggregation = "word",
        **options: Unpack[Options],
    ) -> list[Span]: ...
    @overload
    def tag(
        self,
        texts: Iterable[str],
        head: str | None = None,
        *,
        aggregation: Aggregation = "word",
        **options: Unpack[Options],
    ) -> list[list[Span]]: ...
    def tag(
        self,
        texts: str | Iterable[str],
        head: str | None = None,
        *,
        aggregation: Aggregation = "word",
        **options: Unpack[Options],
    ) -> list[list[Span]] | list[Span]:
        """Find the labelled spans of each text: named entities, or parts of speech.

        A word gets the label that the head gives its first piece. "B-" and "I-" labels of
        neighbours are merged to one span. Texts are cut as they were for the head's training: as
        treebanks do it, or into smaller parts for a head that `fit` trained; `word_rules` says it.
        A text without blanks is cut too: at brackets, colons and similar signs, and in Chinese,
        Thai and other scripts without spaces as the model's pieces are.
        The labels of `fit`'s parts are those that are likeliest together if each span is whole.

        Args:
            texts: one str, or many; pairs are refused.
            head: name of a token head. None: the model's own (`default_head`), else the only one.
            aggregation: "word" labels each word by its first piece, and cuts the text into words as
                for the head's training. The others are transformers' strategies, which merge equal
                neighbours also where no label is "O": "first", "average" and "max" label a word by
                its first piece, the mean of its pieces, or its surest piece; "piece" labels each
                piece, as their "simple". A word is WordPiece's own where the model has WordPiece,
                and as with "word" elsewhere.
            options: batch_tokens, progress, truncate, stride; see `features`. In a long text each
                word is labelled by the window in which it is farthest from a cut.

        Returns:
            The spans of each text, in order: `label`, `start` and `end` in characters, `text`, and
            `score`, the mean probability of the words' labels.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the model has several token heads, and none was named; or there is no such
                aggregation.

        Example:
            >>> roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
            >>> [spans] = roberta.tag(["Ada Lovelace wrote it."], "ner")
        """
        settings = {"head": head, "aggregation": aggregation}
        return answer_texts(TAG, verb_model(self, **options), texts, settings)

    @overload
    def answer(  # type: ignore[overload-overlap]
        self,
        question: str,
        context: str,
        head: str | None = None,
        *,
        max_answer_tokens: int = MAX_ANSWER,
        no_answer: bool = True,
        topk: None = None,
        **options: Unpack[Options],
    ) -> Answer: ...
    @overload
    def answer(  # type: ignore[overload-overlap]
        self,
        question: str,
        context: str,
        head: str | None = None,
        *,
        max_answer_tokens: int = MAX_ANSWER,
        no_answer: bool = True,
        topk: int,
        **options: Unpack[Options],
    ) -> list[Answer]: ...
    @overload
    def answer(
        self,
        question: str | Iterable[str],
        context: str | Iterable[str],
        head: str | None = None,
        *,
        max_answer_tokens: int = MAX_ANSWER,
        no_answer: bool = True,
        topk: None = None,
        **options: Unpack[Options],
    ) -> list[Answer]: ...
    @overload
    def answer(
        self,
        question: str | Iterable[str],
        context: str | Iterable[str],
        head: str | None = None,
        *,
        max_answer_tokens: int = MAX_ANSWER,
        no_answer: bool = True,
        topk: int,
        **options: Unpack[Options],
    ) -> list[list[Answer]]: ...
    def answer(
        self,
        question: str | Iterable[str],
        context: str | Iterable[str],
        head: str | None = None,
        *,
        max_answer_tokens: int = MAX_ANSWER,
        no_answer: bool = True,
        topk: int | None = None,
        **options: Unpack[Options],
    ) -> Answer | list[Answer] | list[list[Answer]]:
        """Find the span of the context that answers the question (SQuAD's task).

        A context that is too long for the model is read in windows.

        Args:
            question: in words; one, or several.
            context: the text that has the answer; one for all questions, or one for each.
            head: name of a span head. None: the model's own (`default_head`), else the only one.
            max_answer_tokens: length of the longest answer, in tokens.
            no_answer: whether an answer may be "". True: it is where the head prefers `<s>` (SQuAD
                2). False: always a span of the context.
            topk: number of answers, all of different spans, best first; None: the best
                alone, in no list.
            options: batch_tokens, progress, truncate, stride; see `features`. `stride` is 128
                unless given; `truncate=True` reads the first window only.

        Returns:
            An `Answer`: `text`, which is `context[start:end]`, `start`, `end`, and its probability
            `score`. With `topk` a list of them, best first. For several questions or contexts a
            list of either.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: a question or a context is empty; the question leaves no room for the
                context; not as many contexts as questions; or the model has several span heads,
                and none was named.

        Example:
            >>> roberta.register_span_head("squad")
            >>> answer = roberta.answer("Who wrote it?", "Ada Lovelace wrote it.", "squad")
            >>> answer.text == "Ada Lovelace wrote it."[answer.start : answer.end]
            True
            >>> len(roberta.answer(["Who?", "What?"], "Ada Lovelace wrote it.", "squad", topk=3)[1])
            3
        """
        found: Answer | list[Answer] | list[list[Answer]] = answer.answer_each(
            verb_model(self, **options),
            question,
            context,
            head=head,
            max_answer_tokens=max_answer_tokens,
            no_answer=no_answer,
            topk=topk,
        )
        return found

    def choose(
        self,
        context: str,
        options: Sequence[str],
        head: str | None = None,
        **settings: Unpack[Options],
    ) -> Prediction:
        """Choose the best of several options, with the probability of each.

        Args:
            context: a text, a question, or both.
            options: texts, no two of them equal.
            head: name of a classification head with one output, the score of an option. None: the
                model's own (`default_head`), else the only such head. A head that fairseq trained
                on RACE or CommonsenseQA reads context and option laid out as fairseq does it.
            settings: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            A `Prediction`, whose `label` is the best option and whose `scores` add up to 1.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the head has several outputs; or the model has several such heads, and none
                was named.

        Example:
            >>> roberta.register_classification_head("race", num_classes=1)
            >>> prediction = roberta.choose("Where do fish live?", ["in water", "in trees"], "race")
            >>> sorted(prediction.scores)
            ['in trees', 'in water']
        """
        return choose.choose_one(verb_model(self, **settings), context, options, head)

    # ---- on texts: the language model ----

    @overload
    def fill_mask(  # type: ignore[overload-overlap]
        self,
        masked_input: str,
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Fillings: ...
    @overload
    def fill_mask(
        self,
        masked_input: Iterable[str],
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> list[Fillings]: ...
    def fill_mask(
        self,
        masked_input: str | Iterable[str],
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Fillings | list[Fillings]:
        """Find the most probable words for `<mask>`.

        A model with another mask token, such as BERT's `[MASK]`, takes both names. As in fairseq,
        the text before a mask and the text after it are tokenized separately, so the token after a
        mask begins a word. A word of the answer includes the space before it. A token that
        continues a word, such as BERT's `##ing`, has no space.

        Args:
            masked_input: a text with `<mask>` in it, or many such texts; not pairs.
            topk: number of words.
            targets: rank only these words, and return all of them, whatever topk is. Each must be
                one token of the vocabulary; duplicates are ranked once. A word without a space
                before it gets one if the mask has one. A word with a space, such as a word of an
                earlier answer, is taken as it is. The name of a token (BERT's "##s") works, too.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            For a text with one mask, fairseq's list of (filled text, probability, word), the most
            probable first. For a text with several masks, a list of such lists: each fills one mask
            and leaves the others. (Type checkers assume one mask.) For many texts, a list of such
            results. Probabilities are over the whole vocabulary; special tokens are not among the
            words.

        Raises:
            InputError: a text has no mask; topk or a target is invalid; or the model has no
                language-model head, such as ELECTRA's discriminators and sentence encoders.

        Example:
            >>> [(text, p, word)] = roberta.fill_mask("Paris is the <mask> of France.", topk=1)
            >>> text == f"Paris is the{word} of France."
            True
        """
        settings = {"topk": topk, "targets": targets}
        return answer_texts(FILL_MASK, verb_model(self, **options), masked_input, settings)

    @overload
    def score(self, texts: str, **options: Unpack[Options]) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Texts, **options: Unpack[Options]) -> list[float]: ...
    def score(self, texts: str | Texts, **options: Unpack[Options]) -> list[float] | float:
        """Measure how natural a text is, by its pseudo-log-likelihood (Salazar et al. 2020).

        The score is the sum over tokens of log P(token | all other tokens), in nats. Each token is
        masked in turn, so a text of T tokens costs T runs.

        Args:
            texts: one str, or many; see the class.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            One number at most 0 for each text; the nearer to 0, the more natural. Longer texts
            score lower, so divide by the number of tokens to compare texts of different lengths.

        Raises:
            InputError: a text is too long; the message names it.

        Example:
            >>> roberta.score("Hello world!") < 0
            True
        """
        return answer_texts(SCORE, verb_model(self, **options), texts, {})

    @overload
    def replaced(self, texts: str, **options: Unpack[Options]) -> list[float]: ...  # type: ignore[overload-overlap]
    @overload
    def replaced(self, texts: Texts, **options: Unpack[Options]) -> list[list[float]]: ...
    def replaced(
        self, texts: str | Texts, **options: Unpack[Options]
    ) -> list[list[float]] | list[float]:
        """Compute for each piece of a text the probability that it was replaced.

        ELECTRA's discriminators are trained to find the pieces that a generator has put in (Clark
        et al. 2020, section 2); a piece of more than 0.5 does not belong in its text.

        Args:
            texts: one str, or many; see the class.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            A probability for each piece of a text, in the order of `tokenize`; of a pair, those of
            both texts one after the other. `[CLS]` and `[SEP]` are left out.

        Raises:
            InputError: the model is no discriminator; or a text is too long, and the message names
                it.

        Example:
            >>> roberta.model.add_replaced_head()  # ELECTRA's discriminators have a trained one
            >>> [len(pieces) for pieces in roberta.replaced(["Hello world!", "Hello"])]
            [3, 1]
            >>> roberta.model.replaced_head = None
        """
        many, one = as_texts(texts)
        found = replaced.replaced(self._runner(**options), many)
        return found[0] if one else found

    def disambiguate_pronoun(
        self, sentence: str, candidates: Sequence[str] | None = None
    ) -> bool | str:
        """Find out what the pronoun in brackets refers to.

        Args:
            sentence: "The trophy would not fit in the suitcase because [it] was too big.", or with
                a guess in underscores, "_The trophy_ would not fit ... because [it] was too big."
            candidates: what the pronoun could refer to. None takes the noun phrases that an
                installed spaCy pipeline finds.

        Returns:
            With a guess, whether it is at least as probable as every candidate; without, the most
            probable candidate.

        Raises:
            InputError: the marks are missing, or there is nothing that could be meant.
            MissingExtraError: candidates is None, and spaCy or its English pipeline is missing.

        Example:
            >>> sentence = "The trophy would not fit in the suitcase because [it] was too big."
            >>> roberta.disambiguate_pronoun(sentence, ["the trophy"])
            'the trophy'
        """
        return pronouns.disambiguate_pronoun(
            self._runner(),
            sentence,
            candidates=candidates,
            init_token=pronouns.trained_with_bos(self.task),
        )

    # ---- on texts: vectors and pieces ----

    def embed(
        self,
        texts: str | Texts,
        prompt: str | None = None,
        *,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
        dtype: VectorDtype | None = None,
        ranges: Ranges | None = None,
        **options: Unpack[Options],
    ) -> Tensor:
        """Compute one vector for each text, as sentence-transformers does with the same model.

        `roberta.sentence` has the settings: pooling, layers after it, normalization, length limit
        and prompts. They come from the model's sentence-transformers directory. Without settings, a
        vector is the mean over all tokens, `<s>` and `</s>` included, without normalization, as in
        sentence-transformers. Such a model was not trained to make vectors, and its vectors are
        poor.

        Args:
            texts: one str, or many; see the class.
            prompt: text to put before each text ("query: "), or before the first sentence of each
                pair. "" is no prompt. None: the model's default prompt, if it has one.
            prompt_name: name of one of the model's prompts ("query"), instead of `prompt`.
            truncate_dim: how many numbers to keep of each vector, from its start. The shorter
                vectors have length 1 again if the model normalizes. It is for models that were
                trained for this (Kusupati et al. 2022). None: the model's setting, else all.
            dtype: how a vector is written (Shakir et al. 2024): "float32", "float16", "int8"
                between the ranges, or "binary", a bit a number, eight in a byte. "ubinary" is
                "binary" in bytes without a sign, as FAISS takes them. None: as the model computes.
            ranges: of int8 vectors, the least and the largest of each number, (2, C): numbers, or
                a Parquet file of `embed` that has them. None: those of these texts, which the
                vectors then have as `ranges`.
            options: batch_tokens, progress, truncate, stride; see `features`. The limit is
                `roberta.sentence.max_length`. With windows, each token counts once, from the window
                in which it is farthest from a cut, and the vectors of `<s>` are averaged.

        Returns:
            (len(texts), C) on the model's device, or (C,) for one str. If the settings concatenate
            several poolings, the width is a multiple of C. Layers and `truncate_dim` change it,
            too. "int8" and both binaries are what sentence-transformers' `quantize_embeddings`
            makes: torch.int8 of width C, torch.int8 or torch.uint8 of width C / 8, rounded up.

        Raises:
            UnknownNameError: the model has no prompt of this name; the message lists them.
            InputError: a text is too long, and the message names the text, its length and the
                limit; `truncate_dim` is more than the width; `ranges` are of another width; one
                text is to be int8, and no ranges are given; or the settings name a pooler or layers
                that the model lacks.

        Example:
            >>> roberta.embed(["Hello world!", "Hello"]).shape
            torch.Size([2, 768])
            >>> roberta.embed("Hello", truncate_dim=256).shape
            torch.Size([256])
            >>> roberta.embed("Hello", dtype="binary").shape
            torch.Size([96])
        """
        settings = {
            "prompt": prompt,
            "prompt_name": prompt_name,
            "truncate_dim": truncate_dim,
            "dtype": dtype,
            "ranges": precision.ranges_for(dtype, ranges),
        }
        found = answer_texts(EMBED, verb_model(self, **options), texts, settings)
        if isinstance(texts, str) and dtype == "int8":  # a row of a tensor has no attribute
            precision.with_ranges(found, precision.as_ranges(settings["ranges"]))
        return found

    def similarity(
        self, a: str | Texts | Tensor, b: str | Texts | Tensor, **options: Unpack[Options]
    ) -> Tensor:
        """Compare each text of one list with each text of another.

        Args:
            a: texts, or vectors of `embed`, in any of its dtypes; one str, or a vector (C,), makes
                one row.
            b: the same; it makes the columns.
            options: batch_tokens, progress, truncate, stride; see `embed`.

        Returns:
            (len(a), len(b)): cosines, or what `roberta.sentence.similarity` names. Higher is
            nearer.

        Raises:
            InputError: a text is too long, or the vectors have different widths.

        Example:
            >>> bool(roberta.similarity("Hello", "Hello") > 0.999)
            True
            >>> vectors = roberta.embed(["A dog ran.", "A cat sat."])
            >>> roberta.similarity(vectors, ["Goal!", "Hello", "A dog."]).shape
            torch.Size([2, 3])
        """
        settings, runner = self._sentence_runner(**options)
        return embed.compare(runner, settings, a, b)

    @overload
    def search(  # type: ignore[overload-overlap]
        self,
        queries: str,
        corpus: Texts | Tensor,
        topk: int = 5,
        *,
        words: bool = False,
        rerank: RobertaHubInterface | None = None,
        truncate_dim: int | None = None,
        ranges: Ranges | None = None,
        **options: Unpack[Options],
    ) -> list[Hit]: ...
    @overload
    def search(
        self,
        queries: Texts | Tensor,
        corpus: Texts | Tensor,
        topk: int = 5,
        *,
        words: bool = False,
        rerank: RobertaHubInterface | None = None,
        truncate_dim: int | None = None,
        ranges: Ranges | None = None,
        **options: Unpack[Options],
    ) -> list[list[Hit]]: ...
    def search(
        self,
        queries: str | Texts | Tensor,
        corpus: Texts | Tensor,
        topk: int = 5,
        *,
        words: bool = False,
        rerank: RobertaHubInterface | None = None,
        truncate_dim: int | None = None,
        ranges: Ranges | None = None,
        **options: Unpack[Options],
    ) -> list[list[Hit]] | list[Hit]:
        """Find the texts of a corpus that are nearest to each query.

        The search is exact: it compares every query with every text, in blocks. A corpus may be a
        generator; its texts and vectors are then never all in memory. To search a corpus often,
        embed it once and pass the vectors.

        Queries get the model's prompt "query". Texts of the corpus get the prompt "document",
        "passage" or "corpus", the first that the model has. Models without these prompts add none,
        as in sentence-transformers' `encode_query` and `encode_document`. Vectors are used as they
        are, so make them with the prompt: `embed(corpus, prompt_name="passage")`.

        Args:
            queries: one str, texts, or vectors (q, C).
            corpus: texts, or the vectors (n, C) of `embed`, in any of its dtypes; also numpy
                arrays, in memory or on disk. Queries in floats are compared with int8 vectors and
                bits as floats, all of them: there is no second look to wait for.
            topk: maximum number of hits for a query.
            words: also rank by the words that a text shares with the query (BM25), and join the two
                rankings by the sums of 1 / (60 + rank) (Cormack et al. 2009). The corpus is then
                held in memory; queries and corpus are texts.
            rerank: a cross-encoder that orders the best hits again, as `rank` does: the first four
                times `topk`, at least 20.
            truncate_dim: how many numbers to keep of the vectors of texts; see `embed`.
            ranges: of int8 vectors that have none of their own, such as numpy's; see `embed`.
            options: batch_tokens, progress, truncate, stride; see `embed`.

        Returns:
            A list of hits for each query, or one list for one str. The nearest hit is first; hits
            with equal scores are in the order of the corpus. A `Hit` has `index`, `score` and
            `text`. If the corpus is vectors, `text` is None. The score is a cosine, or what
            `roberta.sentence.similarity` names; with `words` a sum of the two rankings', at most
            2 / 61; with `rerank` the cross-encoder's.

        Raises:
            InputTypeError: `words` or `rerank` has vectors instead of texts.
            MissingExtraError: `words` needs bm25s.
            InputError: a text is too long; or the vectors have different widths, or contain NaN or
                infinity, or are int8 without ranges.

        Example:
            >>> corpus = ["A dog ran.", "Goal!", "Hello world!"]
            >>> [hit.text for hit in roberta.search("Hello world!", corpus, topk=1)]
            ['Hello world!']
            >>> [[hit]] = roberta.search(["Goal!"], roberta.embed(corpus), topk=1)
            >>> hit.index, hit.text
            (1, None)
        """
        settings, runner = self._sentence_runner(**options)
        topk = whole_number("topk", topk, 1)
        most = topk if rerank is None else rank.candidates(topk)
        second = None
        if rerank is not None:
            second = reranker(rerank, **options)
            search.check_texts(rank.READS_TEXTS, queries=queries, corpus=corpus)
        asked, found = search.search_texts(
            runner,
            settings,
            queries,
            corpus,
            most,
            truncate_dim=truncate_dim,
            ranges=ranges,
            words=words,
        )
        if second is not None:
            found = rank.reranked(second, asked, found, topk)
        if isinstance(queries, str):
            return views.hits(queries, found[0])
        return views.hits_of_many(asked, found)

    def rank(
        self,
        query: str,
        texts: str | Iterable[str],
        topk: int | None = None,
        head: str | None = None,
        *,
        label: str | None = None,
        **options: Unpack[Options],
    ) -> list[Hit]:
        """Order texts by how well they answer a query, by a cross-encoder (Nogueira and Cho 2019).

        The head reads query and text together, so it is slower than `search` and often better:
        `search` finds some tens of a large corpus, and this orders them.

        Args:
            query: one text.
            texts: those that are ordered; not pairs.
            topk: most hits; None: all.
            head: name of a classification head that was trained on pairs. None: the model's own
                (`default_head`), else the only one that has one output, or the label.
            label: of a head with several outputs: its probability is the score.
            options: batch_tokens, progress, truncate, stride; see `classify`.

        Returns:
            Hits, the best first, of equals the first of `texts`: `index`, `score` and `text`. The
            score is the sigmoid of a head's one output, or the label's probability.
            sentence-transformers' `CrossEncoder` gives the sigmoid too, or the output itself where
            the model's `activation_fn` is Identity: `classify` gives that.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: a text is too long; or the head has several labels, and none was named; or
                the model has several such heads.

        Example:
            >>> roberta.register_classification_head("reranker", num_classes=1)
            >>> hits = roberta.rank("a dog", ["Goal!", "A dog ran."], 1, "reranker")
            >>> len(hits), 0 < hits[0].score < 1
            (1, True)
        """
        many, _ = as_single_texts(texts, "texts", needs="rank takes single texts")
        query = text_of("query", query)
        model = verb_model(self, **options)
        return views.hits(query, rank.best(model, query, many, topk=topk, head=head, label=label))

    @overload
    def features(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        layer: int = -1,
        pooling: Pooling | None = None,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> Tensor: ...
    @overload
    def features(
        self,
        texts: Texts,
        *,
        layer: int = -1,
        pooling: None = None,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> list[Tensor]: ...
    @overload
    def features(
        self,
        texts: Texts,
        *,
        layer: int = -1,
        pooling: Pooling,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> Tensor: ...
    def features(
        self,
        texts: str | Texts,
        *,
        layer: int = -1,
        pooling: Pooling | None = None,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> list[Tensor] | Tensor:
        """Compute the hidden states of many texts. Nothing is computed on padding.

        Args:
            texts: one str, or many; see the class.
            layer: -1 is the features, 0 the embeddings, k the k-th layer.
            pooling: makes one vector of a text: "cls" the vector of `<s>`, "mean" the mean over all
                tokens, "max" the largest value of each dimension, "pooler" what the model's own
                pooler makes of `<s>`, where it has one. None: one vector a token. `embed` pools as
                the model was trained to.
            normalize: give each vector the length 1.
            options: `batch_tokens=N` is the number of tokens in a batch. `progress=True` or False
                shows a bar or none; without it, long work in a terminal or notebook shows one.
                `truncate=True` cuts the longest sentence of a text that is too long. `stride=N`
                runs such a text in windows that overlap by N tokens instead: each token comes from
                the window in which it is farthest from a cut, and with "cls" and "pooler" the
                vectors of `<s>` are averaged.

        Returns:
            Tensors on the model's device, in the order of `texts`: a list of (T_i, C), or when
            pooled one (len(texts), C). For one str (T, C), or when pooled (C,).

        Raises:
            InputTypeError: `texts` holds no texts, or an item is none; the message names it.
            InputError: a text is too long; the message names it, its length and the limit. Or the
                model has no pooler.

        Example:
            >>> roberta.features(["Hello world!", "Hello"], pooling="mean").shape
            torch.Size([2, 768])
            >>> roberta.features("Hello world!").shape
            torch.Size([5, 768])
        """
        settings = {"layer": layer, "pooling": pooling, "normalize": normalize}
        return answer_texts(FEATURES, verb_model(self, **options), texts, settings)

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into the pieces of the vocabulary.

        RoBERTa's "Ġ" and XLM-R's "▁" are the space before a piece; BERT's "##" says that a
        piece continues a word.

        Args:
            text: one text. `<s>` and `</s>`, which `encode` puts around it, are no pieces.

        Returns:
            One str for each piece, T - 2 of them where `encode` gives T ids.

        Example:
            >>> roberta.tokenize("I had a sudden epipheny")
            ['I', 'Ġhad', 'Ġa', 'Ġsudden', 'Ġep', 'ip', 'heny']
        """
        return self.tokenizer.tokenize(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character offsets of each piece of `tokenize(text)`.

        Args:
            text: one text.

        Returns:
            (start, end) of each piece, in characters; a piece includes the space before it.

        Example:
            >>> roberta.offsets("It was")
            [(0, 2), (2, 6)]
        """
        return self.tokenizer.offsets(text)

    @overload
    def encode_batch(self, texts: str) -> Tensor: ...  # type: ignore[overload-overlap]
    @overload
    def encode_batch(self, texts: Texts) -> list[Tensor]: ...
    def encode_batch(self, texts: str | Texts) -> list[Tensor] | Tensor:
        """Turn each text into ids: the same ids as `encode` gives, in the order of the texts.

        Args:
            texts: one str, or many; see the class.

        Returns:
            A LongTensor (T_i,) for each text, on the CPU; for one str the tensor itself.

        Raises:
            InputTypeError: an item is no text; the message names it.

        Example:
            >>> [ids.tolist() for ids in roberta.encode_batch(["Hello world!", ("Hello", "world")])]
            [[0, 31414, 232, 328, 2], [0, 31414, 2, 2, 8331, 2]]
        """
        many, one = as_texts(texts)
        found = self.tokenizer.encode_batch(many)
        return found[0] if one else found

    # ---- to look at ----

    def explain(
        self, text: str | tuple[str, ...], head: str | None = None, **options: Unpack[Options]
    ) -> Display:
        """Colour each word of a text by its surprise, or by its contribution to a head's answer.

        If the model was trained for a head, as models of `fit` are, this explains the answer of
        that head. It shows surprise if there is no such head, if the text is single and the head
        judges pairs, or after `roberta.default_head = None`.

        For surprise, each word is masked in turn. Its surprise is -log2 of the probability that the
        model gives to the word, in bits: 0 if the model is sure, and 1 more for each halving. If a
        word has several tokens, they are predicted from left to right, and the later ones are
        masked, too (Kauf and Ivanova 2023, PLL-word-l2r). Otherwise the end of a word would reveal
        its beginning. `score` masks single tokens. In a notebook, hovering over a word shows other
        probable words.

        For the answer of a head, each word is left out in turn. The contribution of a word is how
        much the probability of the predicted label falls without it. (If the head has one output,
        how much the output falls.) You can check a contribution with `classify`. Leaving words out
        works with every model, also a quantized one, and takes a half to a third of the time of
        integrated gradients (Sundararajan et al. 2017).

        Leaving out words is as faithful as gradients, by comprehensiveness (DeYoung et al. 2020):
        how much the probability falls on average without the strongest tenth, fifth or half of the
        words. It falls by 0.34 for leaving out, 0.35 for gradients, and 0.10 for random words. It
        was measured for roberta.tiny of version 0.1.0 on 60 pairs of MNLI and 60 sentences of SST-2
        (`benchmarks/faithful.py` of commit c3d4a1c). The metric deletes words, which favours
        leaving out; a metric that masks them favours gradients.

        A text of T tokens costs about T runs of the model.

        Args:
            text: one text, or a tuple of sentences for a pair.
            head: name of a classification head. None: the model's own (`default_head`), else the
                language model, which shows surprise.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            A `Display`: a notebook draws it, a terminal prints it, `png(path)` writes a picture.
            `to_dict()` has the numbers. Each of its `words` has `word`, `sentence`, `start` and
            `end`; for surprise also `bits`, `probability`, `rank` and `instead`, and for a head
            also `contribution`.

        Raises:
            UnknownNameError: the model has no such classification head.
            InputError: the text is too long; or the model has no language-model head.

        Example:
            >>> words = roberta.explain("Paris is the capital.").to_dict()["words"]
            >>> [word["word"] for word in words]
            ['Paris', 'is', 'the', 'capital', '.']
            >>> roberta.register_classification_head("topic", labels=["art", "sport"])
            >>> shown = roberta.explain("Goal!", "topic").to_dict()
            >>> [word["word"] for word in shown["words"]], shown["label"] in ("art", "sport")
            (['Goal', '!'], True)
        """
        return explain.explain(self._runner(**options), text, self._heads, head)

    def token_strip(self, text: str | tuple[str, ...]) -> Display:
        """Show the pieces of a text as the model gets them, each with its id.

        Pieces of a word have one colour, and what belongs to no word is grey.

        Args:
            text: one text, or a tuple of sentences for a pair.

        Returns:
            A `Display`; see `explain`. `to_dict()` has `pieces`, each with `piece`, `id`, and where
            it is: `sentence`, `start`, `end`.

        Example:
            >>> print(roberta.token_strip("A sudden epipheny"))
            7 tokens
              <s> A   Ġsudden Ġep   ip   heny  </s>
              0   250 7207    14887 1588 27168 2
        """
        return token_strip.token_strip(self.tokenizer, explain.one_text(text))

    def attention(
        self,
        text: str | tuple[str, ...],
        layer: int | None = None,
        attention_head: int | None = None,
    ) -> Display:
        """Show which tokens each token attends to (Vaswani et al. 2017, section 3.2).

        Weights are what a layer mixes by, and no explanation of an answer (Jain and Wallace 2019);
        `explain` asks the model.

        Args:
            text: one text of at most 128 tokens, or a tuple of sentences for a pair.
            layer: 1 is the first, as in `features`, and -1 the last. None shows every layer.
            attention_head: 0 is the first. None shows every head of the layer; of every layer, the
                mean of its heads.

        Returns:
            A `Display`; see `explain`. `to_dict()` has `pieces`, and `panels` with the `weights` of
            each map: T rows of T numbers that add up to 1.

        Raises:
            InputError: no such layer or head, or the text is too long.
            InputTypeError: the model is a real fairseq model.

        Example:
            >>> (panel,) = roberta.attention("Hello world!", 12, 0).to_dict()["panels"]
            >>> [round(sum(row), 3) for row in panel["weights"]]
            [1.0, 1.0, 1.0, 1.0, 1.0]
        """
        return attention_view.attention(
            self._runner(), explain.one_text(text), layer, attention_head
        )

    # ---- on ids, as in fairseq ----

    def encode(self, sentence: str, *addl_sentences: str, no_separator: bool = False) -> Tensor:
        """Turn a sentence into ids, or several as one input: `<s> A </s> </s> B </s>`.

        Text is text: `</s>` or `<mask>` in a sentence are encoded as characters. Nothing is cut.

        Args:
            sentence: any text, also an empty one.
            addl_sentences: the second sentence of a pair, and more.
            no_separator: True puts one `</s>` between sentences instead of two.

        Returns:
            A LongTensor (T,) on the CPU.

        Example:
            >>> roberta.encode("Hello world!").tolist()
            [0, 31414, 232, 328, 2]
            >>> roberta.encode("Hello", "world").tolist()
            [0, 31414, 2, 2, 8331, 2]
        """
        return self.tokenizer.encode(sentence, *addl_sentences, no_separator=no_separator)

    def decode(self, tokens: Tensor) -> str | list[str]:
        """Turn ids back into text.

        Args:
            tokens: ids of `encode`; padding is left out. Shape: (T,)

        Returns:
            The text, or a list of texts where `encode` was given several.

        Raises:
            InputError: an id is not in the vocabulary, or the shape is another.

        Example:
            >>> roberta.decode(roberta.encode("Hello world!"))
            'Hello world!'
        """
        return self.tokenizer.decode(tokens)

    @overload
    def extract_features(
        self, tokens: Tensor, return_all_hiddens: Literal[False] = False
    ) -> Tensor: ...
    @overload
    def extract_features(
        self, tokens: Tensor, return_all_hiddens: Literal[True]
    ) -> list[Tensor]: ...
    @overload
    def extract_features(
        self, tokens: Tensor, return_all_hiddens: bool
    ) -> Tensor | list[Tensor]: ...
    def extract_features(
        self, tokens: Tensor, return_all_hiddens: bool = False
    ) -> Tensor | list[Tensor]:
        """Compute the hidden states of ids, with gradients and in the current mode.

        In train mode, dropout makes the states random, and a warning says so once.

        Args:
            tokens: ids from `encode`, or a batch from `collate_tokens`. Shape: (T,) or (B, T)
            return_all_hiddens: True returns the states of every layer, not only of the last one.

        Returns:
            (B, T, C) with B = 1 for ids of shape (T,). With `return_all_hiddens`, a list of L+1
            such tensors: the embeddings, then each layer. States at padding are zeros; under
            `as_fairseq` they are fairseq's.

        Raises:
            InputError: the input is longer than the model takes, or empty, or ids are out of range.

        Example:
            >>> tokens = roberta.encode("Hello world!")
            >>> roberta.extract_features(tokens).shape
            torch.Size([1, 5, 768])
            >>> len(roberta.extract_features(tokens, return_all_hiddens=True))
            13
        """
        return_all_hiddens = switch("return_all_hiddens", return_all_hiddens)
        consequence = "features are random; call .eval() first, unless you train on them"
        if (warn := self._warning_of_dropout("extract_features", consequence)) is not None:
            warn()
        return ids.hidden_states(self.model, self._checked(tokens), return_all_hiddens)

    def extract_features_aligned_to_words(
        self,
        sentence: str,
        return_all_hiddens: bool = False,
        *,
        words: Sequence[str] | None = None,
        pooling: str = "sum",
    ) -> AlignedDoc:
        """Compute features of words: a spaCy Doc of `<s>`, the words, `</s>`.

        Needs spaCy (the extra `words`), but no spaCy model.

        Args:
            sentence: one text.
            return_all_hiddens: True makes `token.vector` (L+1, C), the states of every layer.
            words: your own words, in order of appearance, instead of spaCy's.
            pooling: how a word's pieces make one vector: "sum" (fairseq's), "mean", "first" or
                "max".

        Returns:
            The Doc; `token.vector` is a word's feature, a Tensor (C,) with gradients.

        Raises:
            MissingExtraError: spaCy is not installed.
            InputError: the text is too long, or a word is empty or not found in it.

        Example:
            >>> doc = roberta.extract_features_aligned_to_words("It was late.")
            >>> [(word.text, *word.vector.shape) for word in doc][1:3]
            [('It', 768), ('was', 768)]
        """
        return aligned_doc(
            self.extract_features,
            self.tokenizer,
            sentence,
            switch("return_all_hiddens", return_all_hiddens),
            words=words,
            pooling=pooling,
        )

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Compute log-probabilities of a head's classes, with gradients and in the current mode.

        As in fairseq, they are a log-softmax over the classes. If the head's kind in `kinds` is
        "multi_label", each label has an independent probability.

        In train mode, dropout makes the answers random. A warning says so once, unless a gradient
        flows through them.

        Args:
            head: name of a classification head.
            tokens: ids. Shape: (T,) or (B, T)
            return_logits: True returns logits instead.

        Returns:
            (B, num_classes)

        Raises:
            UnknownNameError: the model has no such head; a KeyError that lists those it has.
            InputError: the input is longer than the model takes, or empty, or ids are out of range.

        Example:
            >>> roberta.register_classification_head("mood", num_classes=2)
            >>> bool((roberta.predict("mood", roberta.encode("Goal!")) < 0).all())
            True
        """
        known_head(self.model, head)
        return_logits = switch("return_logits", return_logits)
        found = ids.logits(self.model, self._checked(tokens), head)
        if not return_logits:
            found = ids.log_probabilities(found, self._heads.kind(head))
        if (warn := self._warning_of_dropout("predict", _RANDOM_ANSWERS)) is not None:
            unless_trained_through(found, warn)
        return found

    def _warning_of_dropout(self, verb: str, consequence: str) -> Callable[[], None] | None:
        """Make the warning of a verb that keeps the mode: a model is loaded in train mode.

        It is given once of each verb, as from the line that called the verb.
        """
        if not self.model.training or verb in self._warned or not has_dropout(self.model):
            return None
        frame = sys._getframe(3)  # past the verb and its keywords
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        file, line = frame.f_code.co_filename, frame.f_lineno

        def warn() -> None:
            with _warning:
                if verb in self._warned:
                    return
                self._warned |= {verb}
            said = f"{verb} runs with dropout on, so its {consequence}"
            warnings.warn_explicit(said, UserWarning, file, line, registry=registry)

        return warn

    def _checked(self, tokens: object) -> Tensor:
        checked = check_tokens(
            tokens,
            vocab_size=len(self.tokenizer.dictionary),
            max_positions=int(self.model.max_positions()),  # type: ignore[operator]
        )
        return checked.to(self.device)

    # ---- the model itself ----

    def __repr__(self) -> str:
        """Write a card with a property a line; `print(roberta.model)` shows the modules."""
        return str(self._card())

    def _repr_html_(self) -> str:
        """Draw the card in a notebook."""
        return self._card().display()._repr_html_()

    def _card(self) -> Report:
        lines = model_facts(
            self.model,
            self.tokenizer,
            self._heads,
            source=self.source,
            longest=self.max_positions,
            training=self.training,
            optimized=self.optimized,
            sentence=self.sentence,
            zero_shot=self.zero_shot_settings,
        )
        return card(type(self).__name__, lines)

    def save(
        self, directory: str | Path, format: Format = "roberta_hub", head: str | None = None
    ) -> None:
        """Write the model, its vocabulary and its labels into a directory.

        Each file is written whole before it replaces an older one. Formats that have no factorized
        or shared weights get the full matrices.

        Args:
            directory: made if missing.
            format: "roberta_hub" (safetensors, memory-mapped at load), "fairseq" (model.pt and
                dict.txt) or "huggingface" (for transformers). fairseq's model.pt gets the
                additional keys `labels`, `own_head` and `inputs`. `load_model` reads them; fairseq
                ignores them, and does not write them again.
            head: the only head to write, for a format that cannot hold all. None writes for Hugging
                Face `default_head`, else the only head, and for fairseq all classification heads.
                A warning names the heads that are left out.

        Raises:
            CheckpointError: the format cannot express the model.

        Example:
            >>> tiny = roberta_hub.load_model("roberta.tiny")
            >>> tiny.save(folder)
            >>> roberta_hub.load_model(folder).head_labels("mnli")
            ('contradiction', 'neutral', 'entailment')
        """
        saving.write(self._checkpoint(), self.tokenizer, directory, format, head)

    def export(
        self,
        directory: str | Path,
        format: Literal["onnx", "torch"] = "onnx",
        *,
        head: str | None = None,
        output: Literal["features", "logits"] | None = None,
        pooling: Pooling | None = None,
        opset: int = 18,
        check: bool = True,
    ) -> Exported:
        """Write the model with one output for other runtimes, and compare the file with the model.

        The file takes batches of any size, of 2 ids or more a row: `input_ids` and
        `attention_mask`, (B, T) int64, padded on either side; and `token_type_ids` where the model
        tells a second sentence by segments. It computes on padding, so on texts of many lengths the
        model itself is faster: see docs/guides/export.md. Outputs of tokens are 0 at padding.

        With it come config.json with the labels and the tokenizer's files, named as optimum and
        sentence-transformers read them.

        Args:
            directory: made if missing; an earlier export of the same format in it is replaced.
            format: "onnx" writes `model.onnx`, over 1.5 GB with `model.onnx.data` next to it;
                "torch" writes `model.pt2`, which `torch.export.load` reads.
            head: answer with this head, of any kind: `logits` of shape (B, K), of a token head
                (B, T, K), of a span head (B, T, 2), also as `start_logits` and `end_logits`.
                "replaced_head" is an ELECTRA discriminator's, (B, T).
            output: "features" is `last_hidden_state`, (B, T, C), the default without a head;
                "logits" without a head is the language model's, (B, T, V).
            pooling: one vector a text instead, `sentence_embedding` of shape (B, C): "cls", "mean",
                "max" or "pooler", as `features` makes them; a warning says what of a sentence
                encoder's own settings is not in it.
            opset: of ONNX, 18 to 23; 23 has attention as one operator. "torch" has none.
            check: compare the file with the model on five batches, padded left and right, and rows
                of nothing but padding.

        Returns:
            `files`, `inputs`, `outputs`, and the `difference` of the check: None where it was left
            out or onnxruntime is not installed, as `print` says.

        Raises:
            ExportError: the file's numbers differ from the model's by over 1e-4, or torch or
                a package of ONNX fails; nothing is kept.
            UnknownNameError: no such head.
            InputError: choices that exclude each other; weights that are not float32, or a model
                that answers in int8.
            CheckpointError: the directory holds another model, or the disk refuses.
            MissingExtraError: a package is missing for ONNX.
            InputTypeError: the model is a real fairseq model.

        Example:
            >>> tiny = roberta_hub.load_model("roberta.tiny")
            >>> tiny.export(folder / "exported", "torch", head="mnli").outputs
            ('logits',)
        """
        return folder.export(
            require_roberta(self.model, "export writes"),
            self.tokenizer,
            self._checkpoint(),
            directory,
            format,
            head=head,
            output=output,
            pooling=pooling,
            opset=opset,
            check_it=check,
            optimized=self.optimized,
        )

    def optimize(
        self, dtype: DtypeRequest | None = None, least_cosine: float | None = None
    ) -> Self:
        """Make inference faster, in place: lay the weights out for the CPU, or quantize them.

        `optimize` prepares copies of the weights. All methods on texts use the copies. fairseq's
        methods use them in eval mode under `torch.no_grad()`. Training, `state_dict` and `save` use
        the weights themselves, which do not change. If the weights change later, the next use
        prepares new copies; so does a copy of the model, in this process or another. Only a write
        through `.data` is not noticed: call `optimize` again after it.

        In float32, the copies take as much memory as the layers and the language-model head, and
        half as much again if float16 holds these weights exactly. In bfloat16 they take half of the
        memory of the layers, and in int8 a quarter. Compiled layers that take only few rows at once
        need one more copy.

        Args:
            dtype: None computes in float32, with results within 2e-5. "int8" multiplies 8-bit
                integers, with one scale for the weights of each output and one for each token.
                "bfloat16" rounds both factors of a product to 8 bits of mantissa. "int8" and
                "bfloat16" leave embeddings, norms, residuals and all heads in float32. "auto" takes
                the fastest of the three whose features stay near float32's on some sentences. Which
                is fastest comes from a table of measurements for the CPU's instruction sets.
            least_cosine: how near "auto" stays: the lowest cosine between the features of a token
                and those in float32, from 0 to 1. None: 0.999.

        The CPU alone decides which library multiplies float32. `$ROBERTA_HUB_MATRICES` pins it to
        "onednn", "mkl" or "plain"; "compiled" demands the package's own compiled layers.
        `$ROBERTA_HUB_ISA` pins their instruction sets, "avx2", "avx_vnni" or "avx512".

        Returns:
            This object. Its `optimized` says how accurate the new form is. For "auto", it also says
            what was chosen and why, and what the others would give. `print(roberta)` shows it.
            Without `dtype`, a warning says once if bfloat16 would be more than 1.5 times as fast.

        Raises:
            InputError: this machine cannot compute in `dtype`, or lacks the instructions that make
                it faster than float32; `least_cosine` is not from 0 to 1; or it is given and
                `dtype` is not "auto".
            InputTypeError: the model is a real fairseq model.

        Example:
            >>> before = roberta.features(["Hello world!"])[0]
            >>> after = roberta.optimize().features(["Hello world!"])[0]
            >>> torch.allclose(before, after, atol=2e-5)
            True
            >>> print(roberta.optimized)
            float32, prepacked
        """
        self.optimized = optimize.optimize(self.model, self.tokenizer, dtype, least_cosine)
        if dtype is None:
            mention_bfloat16(next(self.model.parameters()).device)
        return self

    def add_tokens(
        self,
        tokens: str | Iterable[str],
        *,
        special: bool = False,
        normalized: bool | None = None,
        lstrip: bool = False,
        rstrip: bool = False,
        single_word: bool = False,
    ) -> int:
        """Add words that are always one token in a text, such as markers.

        The vocabulary, the embedding table and the output of the language model grow together. The
        row of a new id is the mean of the others and noise, N(0, 0.02), of a seed of its own, so
        the same call gives the same model; train it before you ask it. `save` writes the tokens in
        every format, and transformers gives the same ids.

        Add them before an optimizer is made, since the parameters are new ones, and before
        `optimize`.

        Args:
            tokens: one word or several. Control tokens such as `<s>` and `[SEP]` are not among
                them: no text writes those.
            special: whether transformers' `skip_special_tokens` leaves them out.
            normalized: look for them in the text as the model reads it, so that an uncased model
                finds "Foo" in "FOO"; None: unless they are special.
            lstrip: white space before a token belongs to it.
            rstrip: white space after a token belongs to it.
            single_word: not inside longer words.

        Returns:
            The number of new ids. A word that the vocabulary has keeps its id.

        Raises:
            InputTypeError: a token is no str, or the model is not one of this package.
            InputError: a token is empty or a special token; or the model is optimized.
            VocabularyError: the model has no vocabulary.

        Example:
            >>> marked = roberta_hub.load_model("roberta.tiny")
            >>> marked.add_tokens(["[E1]", "[/E1]"], special=True)
            2
            >>> marked.tokenize("[E1]Mary[/E1] reads")
            ['[E1]', 'Mary', '[/E1]', 'Ġreads']
        """
        flags = {"special": special, "normalized": normalized}
        flags |= {"lstrip": lstrip, "rstrip": rstrip, "single_word": single_word}
        model = require_roberta(self.model, "add_tokens changes")
        if self.optimized is not None:
            raise InputError("this model is optimized for the words that it has; add tokens first")
        own = self.cfg is model.config
        before = len(self.tokenizer)
        given = new_tokens.tokens_of(tokens, flags)
        self.tokenizer = new_tokens.with_new_tokens(model, self.tokenizer, given)
        self.bpe = self.tokenizer.engine
        self.cfg = model.config if own else self.cfg
        return len(self.tokenizer) - before

    def register_classification_head(
        self,
        name: str,
        num_classes: int | None = None,
        embedding_size: int | None = None,
        inner_dim: int | None = None,
        labels: Sequence[str] | None = None,
        pooling: HeadPooling = "cls",
        kind: HeadKind | None = None,
        normalize: bool = False,
    ) -> None:
        """Add a classification head with random weights, in place of one of the same name.

        Args:
            name: any name without a dot that no head of another kind has.
            num_classes: number of outputs; 1 is a regression. None takes the number of `labels`.
            embedding_size: accepted and ignored, as in fairseq.
            inner_dim: width of the head's dense layer; None takes the model's width.
            labels: names of the classes, for `classify`.
            pooling: what the head reads of a text: "cls", the features of `<s>`, or "mean", the
                mean of those of all tokens, as `features(texts, pooling="mean")` makes it. Formats
                of other libraries hold heads of "cls" alone.
            kind: what the head learns: "single_label", "multi_label", where `classify` gives each
                label a probability of its own, or "regression"; None: unknown.
            normalize: whether what the head reads gets length 1, as the vectors of most sentence
                encoders do.

        Raises:
            InputError: the name or a size is impossible, or `num_classes` and `labels` disagree.
            InputTypeError: another pooling than "cls", or `normalize`, for a real fairseq model,
                whose heads read `<s>` alone.

        Example:
            >>> labels = ["art", "sport"]
            >>> roberta.register_classification_head("topic", num_classes=2, labels=labels)
            >>> roberta.predict("topic", roberta.encode("Goal!")).shape
            torch.Size([1, 2])
        """
        labels, num_classes = check_classes(name, labels, num_classes)
        pooling, kind = check_pooling(name, pooling), check_kind(name, kind)
        normalize = check_normalize(name, normalize)
        add_classification_head(self.model, name, num_classes, inner_dim, pooling, normalize)
        self._describe(name, labels, kind)

    def register_token_head(
        self, name: str, num_classes: int | None = None, labels: Sequence[str] | None = None
    ) -> None:
        """Add a head with random weights that labels every token, for `tag`.

        Args:
            name: any name without a dot that no head of another kind has.
            num_classes: number of labels. None takes the number of `labels`.
            labels: names of the labels; "O" marks a word outside of all spans.

        Raises:
            InputError: the name is taken or has a dot, or `num_classes` and `labels` disagree.

        Example:
            >>> roberta.register_token_head("pos", labels=["NOUN", "VERB"])
            >>> roberta.head_labels("pos")
            ('NOUN', 'VERB')
        """
        labels, num_classes = check_classes(name, labels, num_classes)
        require_roberta(self.model, "register_token_head changes").register_token_head(
            name, num_classes
        )
        self._describe(name, labels)

    def register_span_head(self, name: str) -> None:
        """Add a head with random weights that finds start and end of an answer, for `answer`.

        Args:
            name: any name without a dot that no head of another kind has.

        Raises:
            InputError: the name is taken or has a dot.

        Example:
            >>> roberta.register_span_head("quac")
            >>> 0 <= roberta.answer("Who?", "Ada wrote it.", "quac").score <= 1
            True
        """
        require_roberta(self.model, "register_span_head changes").register_span_head(name)
        self._describe(name, None)

    def _describe(
        self, head: str, labels: Sequence[str] | None, kind: HeadKind | None = None
    ) -> None:
        """Remember what a new head is for, and forget what is known of an older one of its name."""
        self._known_heads.pop(head, None)  # the new one is the last
        self._known_heads[head] = Head(labels=None if labels is None else tuple(labels), kind=kind)

    def head_labels(self, head: str) -> tuple[str, ...]:
        """Name the classes of a head, in the order of its outputs.

        Args:
            head: name of a classification or token head.

        Returns:
            The names that the head was given, else those of fairseq's label dictionary, else the
            numbers "0", "1", ...

        Raises:
            UnknownNameError: the model has no such head.

        Example:
            >>> roberta.register_classification_head("mood", num_classes=2)
            >>> roberta.head_labels("mood")
            ('0', '1')
        """
        return self._heads.labels(head)

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False
    ) -> Self:
        """Move the model to a device, or change its dtype, in place; see `torch.nn.Module.to`.

        Args:
            args: a device, a dtype or both, or a tensor that has them.
            device: as in `load_model`, "auto" too.
            dtype: as in `load_model`.
            non_blocking: copy from pinned memory while Python continues.

        Raises:
            InputError: no such device, or none that this torch can use; no such dtype.
            InputTypeError: neither a device nor a dtype.

        Example:
            >>> roberta.to("auto").device.type in ("cpu", "cuda")
            True
        """
        return moved(super().to, *args, device=device, dtype=dtype, non_blocking=non_blocking)

    def cuda(self, device: int | str | torch.device | None = None) -> Self:
        """Move the model to a GPU, in place.

        Args:
            device: number or name of the GPU; None: torch's current one.

        Raises:
            InputError: this torch can use no such GPU.

        Example:
            >>> roberta.cuda().device.type  # doctest: +SKIP
            'cuda'
        """
        return self.to("cuda" if device is None else device)

    if not TYPE_CHECKING:  # a type checker sees the class as it is, and knows more than we do

        def __getattr__(self, name: str) -> Tensor | nn.Module:
            try:
                return super().__getattr__(name)  # parameters, buffers and modules
            except AttributeError:
                if name.startswith("_"):
                    raise
            if name in attributes.TAKEN:
                return attributes.taken(self, name)
            raise unknown_attribute(type(self), name)

        def __setattr__(self, name: str, value: object) -> None:
            """Set an attribute, checked; refuse what would change nothing."""
            if "_made" not in vars(self):  # the constructor has checked what it was given
                super().__setattr__(name, value)
                return
            if name in attributes.TAKEN:
                attributes.take(self, name, value)
                return
            if name in attributes.CHECKED:
                value = attributes.checked_attribute(self, name, value)
            elif name not in attributes.OWN and not isinstance(value, (nn.Module, Tensor)):
                # Torch knows modules and tensors.
                check_assigned(self, name, attributes.settable(RobertaHubInterface))
            super().__setattr__(name, value)

        def __call__(self, *args: object, **keywords: object) -> NoReturn:
            """Refuse the call: texts need a verb, and ids a method of their own."""
            raise InputTypeError(
                "a model is not called; its verbs take texts (classify, zero_shot, fill_mask, tag, "
                "answer, embed, features), and extract_features(ids) takes what encode(text) gives"
            )


def verb_model(roberta: RobertaHubInterface, **options: Unpack[Options]) -> VerbModel:
    """Collect what the verbs ask of a model."""
    return VerbModel(
        Runner(model=roberta.model, tokenizer=roberta.tokenizer, **options),
        roberta._heads,
        roberta.sentence,
        roberta.zero_shot_settings,
        getattr(roberta.task, "name", ""),
    )


def reranker(model: object, **options: Unpack[Options]) -> VerbModel:
    """Check a cross-encoder before anything is searched."""
    if not isinstance(model, RobertaHubInterface):
        raise InputTypeError(
            f"rerank is a {kind_of(model)}; pass a cross-encoder, load_model('OWNER/A-RERANKER')"
        )
    found = verb_model(model, **options)
    rank.find_head(found)
    return found


def _warn_of_own_head() -> None:
    warnings.warn("own_head is now called default_head", DeprecationWarning, stacklevel=3)


def _check_parts(task: Any, model: object, bpe: object) -> None:
    """Refuse a model, task or BPE of a wrong type now, and not when the first text comes."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model is a {kind_of(model)}; pass a RobertaModel")
    symbols = getattr(task, "source_dictionary", None)
    if not isinstance(getattr(symbols, "symbols", None), list):
        raise InputTypeError(
            f"task is a {kind_of(task)} without a source_dictionary; pass a Task(Dictionary)"
        )
    if not (bpe is None or isinstance(bpe, SubwordTokenizer)):
        raise InputTypeError(
            f"bpe is a {kind_of(bpe)}; pass an engine of text/pieces.py, or None for GPT-2's"
        )


def _check_by_head(**given: object) -> None:
    for name, value in given.items():
        if not (value is None or isinstance(value, Mapping)):
            raise InputTypeError(f"{name} is a {kind_of(value)}; pass a dict with head names")


def _check_settings(sentence: object, zero_shot_settings: object) -> None:
    if not (sentence is None or isinstance(sentence, SentenceSettings)):
        raise InputTypeError(f"sentence is a {kind_of(sentence)}; pass SentenceSettings")
    if not (zero_shot_settings is None or isinstance(zero_shot_settings, ZeroShotSettings)):
        raise InputTypeError(
            f"zero_shot_settings is a {kind_of(zero_shot_settings)}; pass ZeroShotSettings"
        )
