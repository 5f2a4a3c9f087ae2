"""Defines the verbs that ask a head: classify, tag, answer, choose; and makes heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from roberta_hub.config import Inputs
from roberta_hub.inference import answer, choose, classify, shown, tag
from roberta_hub.inference.answer import MAX_ANSWER, Answer
from roberta_hub.inference.batching import Options
from roberta_hub.inference.classify import Prediction, answering
from roberta_hub.inference.heads import Heads, check_classes
from roberta_hub.inference.tag import Span
from roberta_hub.keywords import checks_keywords
from roberta_hub.model.roberta import own_model
from roberta_hub.settings import HeadKind, WordRule
from roberta_hub.text.texts import Texts, as_single_texts, as_texts
from roberta_hub.verbs.texts import TextVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checks_keywords
class HeadVerbs(TextVerbs):
    """Verbs that ask a head, and the registration of heads. See `RobertaHubInterface`."""

    task: Any
    labels: dict[str, tuple[str, ...]]
    own_head: str | None
    inputs: dict[str, Inputs]
    kinds: dict[str, HeadKind]
    thresholds: dict[str, tuple[float, ...]]
    word_rules: dict[str, WordRule]

    @property
    def _heads(self) -> Heads:
        """The model's heads with all that is known of them now; callers may change it any time."""
        dictionary = getattr(self.task, "label_dictionary", None)
        known = (self.labels, self.inputs, self.own_head, dictionary)
        return Heads(
            self.model,
            *known,
            kinds=self.kinds,
            given_thresholds=self.thresholds,
            word_rules=self.word_rules,
        )

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
            texts: one str, or many; see the class. A head that was trained on pairs takes no
                single texts, and a head that was trained on single texts takes no pairs; `inputs`
                says which.
            head: name of a classification head. None asks the model's own head, else the only one.
            multi_label: True gives each label a probability of its own, and `labels` those of them
                that reach their thresholds; False gives probabilities that add up to 1; None does
                what the head learnt, which `kinds` says, and False where nobody says it.
            options: batch_tokens, progress, truncate, stride; see `features`. The windows of a long
                text vote with their probabilities; with `multi_label` their logits are averaged.

        Returns:
            A `Prediction` for each text: `label`, its probability `score`, `scores` of all labels,
            and with `multi_label` `labels`, of which there may be none. A head with one output is a
            regression or a reranker: the `score` is its raw output, and higher is more; with
            `multi_label` it is its sigmoid.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the model has several heads, and none was named; or a single text goes to a
                head of pairs, where `zero_shot` would take it.

        Example:
            >>> roberta.register_classification_head("topic", labels=["art", "sport"])
            >>> sorted(roberta.classify(["Goal!"], "topic")[0].scores)
            ['art', 'sport']
            >>> roberta.register_classification_head("tags", labels=["a", "b"], kind="multi_label")
            >>> roberta.thresholds["tags"] = (0.0, 1.0)
            >>> roberta.classify("Goal!", "tags").labels
            ('a',)
        """
        heads = self._heads
        head = heads.find(head, "classification", "classify")
        many, one = as_texts(texts)
        found = classify.classify(
            self._runner(**options),
            many,
            head,
            heads.labels(head),
            inputs=heads.inputs(head),
            way=answering(heads.kind(head), multi_label),
            thresholds=heads.thresholds(head),
        )
        return found[0] if one else shown.predictions(many, found)

    @overload
    def tag(  # type: ignore[overload-overlap]
        self, texts: str, head: str | None = None, **options: Unpack[Options]
    ) -> list[Span]: ...
    @overload
    def tag(
        self, texts: Iterable[str], head: str | None = None, **options: Unpack[Options]
    ) -> list[list[Span]]: ...
    def tag(
        self, texts: str | Iterable[str], head: str | None = None, **options: Unpack[Options]
    ) -> list[list[Span]] | list[Span]:
        """Find the labelled spans of each text: named entities, or parts of speech.

        A word gets the label that the head gives its first piece. "B-" and "I-" labels of
        neighbours are merged to one span. Texts are cut as they were for the head's training: as
        treebanks do it, or into smaller parts for a head that `fit` trained; `word_rules` says it.

        Args:
            texts: one str, or many; pairs are refused.
            head: name of a token head. None asks the model's own head, else the only one.
            options: batch_tokens, progress, truncate, stride; see `features`. In a long text each
                word is labelled by the window in which it stands farthest from a cut.

        Returns:
            The spans of each text, in order: `label`, `start` and `end` in characters, `text`, and
            `score`, the mean probability of the words' labels.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the model has several token heads, and none was named.

        Example:
            >>> roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
            >>> [spans] = roberta.tag(["Ada Lovelace wrote it."], "ner")
        """
        heads = self._heads
        head = heads.find(head, "token", "tag")
        many, one = as_single_texts(texts, "texts", needs="tag takes single texts")
        labels, rule = heads.labels(head), heads.words(head)
        found = tag.tag(self._runner(**options), many, head, labels, rule)
        return shown.spans(many[0], found[0]) if one else shown.spans_of_many(many, found)

    def answer(
        self,
        question: str,
        context: str,
        head: str | None = None,
        *,
        max_answer_tokens: int = MAX_ANSWER,
        no_answer: bool = True,
        **options: Unpack[Options],
    ) -> Answer:
        """Find the stretch of the context that answers the question (SQuAD's task).

        A context that is too long for the model is read in windows.

        Args:
            question: in words.
            context: the text that has the answer.
            head: name of a span head. None asks the model's own head, else the only one.
            max_answer_tokens: length of the longest answer, in tokens.
            no_answer: True answers "" where the head prefers `<s>` (SQuAD 2); False always gives a
                stretch of the context.
            options: batch_tokens, progress, truncate, stride; see `features`. `stride` is 128
                unless given; `truncate=True` reads the first window only.

        Returns:
            An `Answer`: `text`, which is `context[start:end]`, `start`, `end`, and its probability
            `score`.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the question leaves no room for the context; or the model has several span
                heads, and none was named.

        Example:
            >>> roberta.register_span_head("squad")
            >>> answer = roberta.answer("Who wrote it?", "Ada Lovelace wrote it.", "squad")
            >>> answer.text == "Ada Lovelace wrote it."[answer.start : answer.end]
            True
        """
        found = answer.answers(
            self._runner(**options),
            [(question, context)],
            self._heads.find(head, "span", "answer"),
            max_tokens=max_answer_tokens,
            no_answer=no_answer,
        )
        return answer.within(found[0], question, context)

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
            head: name of a classification head with one output, the score of an option. None asks
                the model's own head, else the only such head. A head that fairseq trained on RACE
                or CommonsenseQA reads context and option laid out as fairseq does it.
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
        head = choose.option_head(self._heads, head)
        runner = self._runner(**settings)
        return choose.choose(runner, context, options, head, getattr(self.task, "name", ""))

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
        own_model(self.model, "register_token_head changes").register_token_head(name, num_classes)
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
        own_model(self.model, "register_span_head changes").register_span_head(name)
        self._describe(name, None)

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

    def _describe(
        self, head: str, labels: Sequence[str] | None, kind: HeadKind | None = None
    ) -> None:
        """Remember what a new head is for, and forget what is known of an older one of its name."""
        read: tuple[dict[str, Any], ...] = (self.inputs, self.word_rules)
        answered: tuple[dict[str, Any], ...] = (self.labels, self.kinds, self.thresholds)
        for about in (*read, *answered):
            about.pop(head, None)
        if labels is not None:
            self.labels[head] = tuple(labels)
        if kind is not None:
            self.kinds[head] = kind
