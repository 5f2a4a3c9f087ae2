"""Defines the verb that labels texts without training: zero_shot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from roberta_hub.inference import shown, zero_shot
from roberta_hub.inference.batching import Options
from roberta_hub.inference.classify import Prediction
from roberta_hub.inference.zero_shot import HYPOTHESIS, ZeroShotModel
from roberta_hub.keywords import checks_keywords
from roberta_hub.settings import SentenceSettings, Way, ZeroShotSettings
from roberta_hub.text.texts import Texts, as_texts
from roberta_hub.verbs.heads import HeadVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checks_keywords
class ZeroShotVerbs(HeadVerbs):
    """The verb that asks a head, sentence vectors or both. See `RobertaHubInterface`."""

    sentence: SentenceSettings | None
    zero_shot_settings: ZeroShotSettings | None

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
        **options: Unpack[Options],
    ) -> list[Prediction] | Prediction:
        """Give each text one of your own labels, which no head was trained on.

        By entailment, a head for natural-language inference judges whether the text entails the
        hypothesis with the label in it (Yin et al. 2019); this is what transformers' pipeline
        computes. By meaning, the text's sentence vector is compared with the label's, in which
        underscores are blanks: in a hundredth of the time, and better where labels are topics or
        intents. By both, the logit of entailment and the cosine are weighed together, as
        `roberta.zero_shot_settings` says; of more than ten labels, entailment is asked of the ten
        nearest, and the others come behind these, in order of their cosines.

        Args:
            texts: one str, or many; see the class. The vector of a pair is that of `embed`.
            labels: in words.
            hypothesis: a sentence with `{}` where the label goes. Meaning alone has none.
            head: name of an NLI head, one of whose labels is "entailment". None asks the model's
                own head if it is one, else the only one.
            multi_label: True gives each label a probability of its own: entailment against
                contradiction, the cosine against one that is as often right as wrong, or the sum of
                both; and `labels` those of at least 0.5. False gives probabilities that add up to
                1.
            by: "entailment", "meaning" or "both". None is what is recorded with the model, which
                `print(roberta)` shows, else entailment. One label or `head` mean entailment too.
            options: batch_tokens, progress, truncate, stride; see `features`. A text beyond the
                limit of `embed` is compared whole, in windows, where the model takes it whole.

        Returns:
            A `Prediction` for each text, with a probability for each of `labels`.

        Raises:
            UnknownNameError: the model has no such head.
            InputError: the head has no label "entailment"; the model has several such heads, and
                none was named; it has no sentence vectors; or a head or a hypothesis is given for
                meaning.

        Example:
            >>> nli = ["contradiction", "neutral", "entailment"]
            >>> roberta.register_classification_head("nli", labels=nli)
            >>> prediction = roberta.zero_shot("Goal!", ["art", "sport"], head="nli")
            >>> sorted(prediction.scores)
            ['art', 'sport']
        """
        model = ZeroShotModel(
            self._runner(**options), self._heads, self.sentence, self.zero_shot_settings
        )
        many, one = as_texts(texts)
        found = zero_shot.zero_shot(
            model,
            many,
            labels,
            hypothesis=hypothesis,
            head=head,
            multi_label=multi_label,
            by=by,
        )
        return found[0] if one else shown.predictions(many, found)
