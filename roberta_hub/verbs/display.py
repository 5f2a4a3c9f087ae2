"""Defines the verbs that show what a model sees in a text: explain, token_strip, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roberta_hub.errors import placed
from roberta_hub.inference import attention, explain, token_strip
from roberta_hub.inference.batching import Options
from roberta_hub.inference.classify import answering
from roberta_hub.inference.explain import one_text
from roberta_hub.keywords import checks_keywords
from roberta_hub.show.display import Display
from roberta_hub.verbs.heads import HeadVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checks_keywords
class DisplayVerbs(HeadVerbs):
    """Verbs whose answers are looked at. See `RobertaHubInterface`, which sets the fields."""

    def explain(
        self, text: str | tuple[str, ...], head: str | None = None, **options: Unpack[Options]
    ) -> Display:
        """Colour each word of a text by its surprise, or by what it contributes to a head's answer.

        Without a head, each word is masked, and its surprise is -log2 of the probability that the
        model gives it there, in bits: 0 where the model is sure of it, 1 more for each halving. A
        word of several pieces is guessed from left to right, with the pieces that follow masked
        too (Kauf and Ivanova 2023, PLL-word-l2r), so that its end does not give its beginning away;
        `score` masks single pieces. Where the mouse rests on a word stand other words and their
        probabilities.

        With a classification head, each word is left out, and its contribution is how much the
        probability of the predicted label falls (of a head with one output, how much the output
        falls). Words are left out and not traced by integrated gradients (Sundararajan et al.
        2017), which are no more faithful. Taking away a tenth, a fifth or a half of the words, the
        strongest first, lowers the probability by 0.34 on average; by gradients it is 0.35, and
        0.10 for words at random; words that are deleted favour leaving out, and words that are
        masked the gradients (comprehensiveness, DeYoung et al. 2020, of 0.1.0's roberta.tiny on 60
        pairs of MNLI and 60 sentences of SST-2; `benchmarks/faithful.py`). Leaving out takes a half
        to a third of the time, works with every model, quantized ones too, and `classify` checks
        it.

        A text of T tokens costs about T runs.

        Args:
            text: one text, or a tuple of sentences for a pair.
            head: name of a classification head; None: the language model.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            A `Display`: a notebook draws it, a terminal writes it, `png(path)` makes a picture, and
            `to_dict()` has the numbers: `words`, each with `word`, `sentence`, `start`, `end`, and
            `bits`, `probability`, `rank`, `instead`, or `contribution`.

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
        sentences, runner = one_text(text), self._runner(**options)
        with placed(lambda _: "text"):
            if head is None:
                return explain.surprise(runner, sentences)
            heads = self._heads
            head = heads.find(head, "classification", "explain")
            return explain.contribution(
                runner,
                sentences,
                head,
                heads.labels(head),
                inputs=heads.inputs(head),
                way=answering(heads.kind(head), None),
                thresholds=heads.thresholds(head),
            )

    def token_strip(self, text: str | tuple[str, ...]) -> Display:
        """Show the pieces of a text as the model gets them, each with its id.

        Pieces of a word have one colour, and what belongs to no word is grey.

        Args:
            text: one text, or a tuple of sentences for a pair.

        Returns:
            A `Display`; see `explain`. `to_dict()` has `pieces`, each with `piece`, `id`, and where
            it lies: `sentence`, `start`, `end`.

        Example:
            >>> print(roberta.token_strip("A sudden epipheny"))
            7 tokens
              <s> A   Ġsudden Ġep   ip   heny  </s>
              0   250 7207    14887 1588 27168 2
        """
        return token_strip.token_strip(self.tokenizer, one_text(text))

    def attention(
        self,
        text: str | tuple[str, ...],
        layer: int | None = None,
        attention_head: int | None = None,
    ) -> Display:
        """Show which tokens each token takes from (Vaswani et al. 2017, section 3.2).

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
        return attention.attention(self._runner(), one_text(text), layer, attention_head)
