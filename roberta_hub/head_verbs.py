"""Heads unknown to fairseq's interface: for tokens, for spans, for one among several options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, overload

from roberta_hub.config import Inputs
from roberta_hub.fairseq_verbs import FairseqVerbs
from roberta_hub.inference import answer, choose, heads, tag
from roberta_hub.inference.answer import MAX_ANSWER, Answer
from roberta_hub.inference.batching import Options
from roberta_hub.inference.classify import Prediction
from roberta_hub.inference.tag import Span
from roberta_hub.keywords import checks_keywords
from roberta_hub.text.dictionary import MASK
from roberta_hub.text.texts import as_single_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checks_keywords
class HeadVerbs(FairseqVerbs):
    """Verbs of token and span heads, their registration, and the names of labels.

    See `RobertaHubInterface`.
    """

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
        """Labelled spans in each text: named entities, or parts of speech.

        A word gets the label that the head gives its first piece; "B-" and "I-" labels are merged
        to spans.

        Args:
            texts: one str, or many; not pairs.
            head: name of a token head; None: the model's own, else the only one.
            options: see `features`; of a long text's windows each word is labelled by the one in
                which it stands farthest from a cut.

        Raises:
            UnknownNameError: no such head.
            InputError: several heads, and none was named.

        Example:
            >>> roberta.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
            >>> [spans] = roberta.tag(["Ada Lovelace wrote it."], "ner")
        """
        head = self._head(head, "token", "tag")
        labels = self.head_labels(head)
        many, one = as_single_texts(
            texts, "texts", place="texts[{}]", needs="tag takes single texts"
        )
        found = tag.tag(self._runner(**options), many, head, labels)
        return found[0] if one else found

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
        """The stretch of the context that answers the question (SQuAD's task).

        A context longer than the model is read in windows.

        Args:
            question: in words.
            context: what has the answer.
            head: name of a span head; None: the model's own, else the only one.
            max_answer_tokens: longest answer.
            no_answer: where the head prefers `<s>`, answer "" (SQuAD 2); False: always answer.
            options: see `features`; `stride` is 128 if not given, `truncate=True` reads the first
                window only.

        Raises:
            UnknownNameError: no such head.
            InputError: the question leaves no room for the context; several heads, and none was
                named.

        Example:
            >>> roberta.register_span_head("squad")
            >>> answer = roberta.answer("Who wrote it?", "Ada Lovelace wrote it.", "squad")
            >>> answer.text == "Ada Lovelace wrote it."[answer.start : answer.end]
            True
        """
        found = answer.answers(
            self._runner(**options),
            [(question, context)],
            self._head(head, "span", "answer"),
            max_tokens=max_answer_tokens,
            no_answer=no_answer,
        )
        return found[0]

    def choose(
        self,
        context: str,
        options: Sequence[str],
        head: str | None = None,
        **settings: Unpack[Options],
    ) -> Prediction:
        """The best of several options, with the probability of each.

        Args:
            context: a text, a question, or both.
            options: different texts.
            head: name of a classification head with one output; None: the model's own, else the
                only one. Heads that fairseq trained on RACE or CommonsenseQA get inputs laid out as
                there.
            settings: batch_tokens, progress, truncate, stride; see `features`.

        Raises:
            UnknownNameError: no such head.
            InputError: a head with several outputs; several heads, and none was named.

        Example:
            >>> roberta.register_classification_head("race", num_classes=1)
            >>> prediction = roberta.choose("Where do fish live?", ["in water", "in trees"], "race")
            >>> sorted(prediction.scores)
            ['in trees', 'in water']
        """
        head = self._head(
            head,
            "classification",
            "choose",
            fits=lambda name: choose.outputs_of(heads.known_head(self.model, name)) == 1,
            need="classification head with one output, the score of an option",
        )
        runner = self._runner(**settings)
        return choose.choose(runner, context, options, head, getattr(self.task, "name", ""))

    def register_token_head(
        self, name: str, num_classes: int | None = None, labels: Sequence[str] | None = None
    ) -> None:
        """Add a head with random weights that labels every token, for `tag`.

        Args:
            name: any without a dot; of no other kind of head.
            num_classes: how many labels; None: as many as `labels` has.
            labels: their names, "O" for none.
        """
        if labels is not None:
            labels = heads.check_labels(name, labels, num_classes)
            num_classes = len(labels) if num_classes is None else num_classes
        self.model.register_token_head(name, num_classes)  # type: ignore[operator]
        self._describe(name, labels)

    def register_span_head(self, name: str) -> None:
        """Add a head with random weights for start and end of an answer, for `answer`.

        Args:
            name: any without a dot; of no other kind of head.
        """
        self.model.register_span_head(name)  # type: ignore[operator]
        self._describe(name, None)

    def head_labels(self, head: str) -> tuple[str, ...]:
        """Names of a head's classes.

        Those it was given, else fairseq's label dictionary, else numbers.
        """
        is_token = isinstance(head, str) and head in [*heads.heads_of(self.model, "token")]
        kind: Literal["classification", "token"] = "token" if is_token else "classification"
        module = heads.known_head(self.model, head, kind)
        count = int(module.out_proj.out_features)  # type: ignore[union-attr, arg-type]
        known = self.labels.get(head)
        dictionary = getattr(self.task, "label_dictionary", None)
        if known is None and dictionary is not None and kind == "classification":
            names = dictionary.symbols[dictionary.nspecial :]
            # fairseq fills dictionaries up to a multiple of eight, and adds <mask> to those of
            # labels too.
            known = tuple(n for n in names if not n.startswith("madeupword") and n != MASK)
        if known is None or len(set(known)) != count or len(known) != count:
            return tuple(str(i) for i in range(count))  # also where one name is two classes'
        return known

    def _head(
        self,
        head: str | None,
        kind: heads.Kind,
        verb: str,
        fits: Callable[[str], bool] | None = None,
        need: str = "",
    ) -> str:
        """The head that a verb asks; see `heads.find_head`."""
        return heads.find_head(
            self.model,
            head,
            kind,
            verb,
            own=self.own_head,
            labels=self.head_labels,
            fits=fits,
            need=need,
        )

    def _inputs(self, head: str) -> Inputs | None:
        """What a head was trained on, where that is known."""
        return heads.trained_on(head, self.inputs, self.head_labels(head))
