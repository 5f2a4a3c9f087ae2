"""Defines the verbs that ask what a model was pre-trained for: fill_mask, score and the like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from roberta_hub.errors import Place, placed
from roberta_hub.inference import fill_mask, pronouns, replaced, score, shown
from roberta_hub.inference.batching import Options
from roberta_hub.inference.fill_mask import Filled
from roberta_hub.keywords import checks_keywords
from roberta_hub.text.dictionary import MASK
from roberta_hub.text.texts import Texts, as_single_texts, as_texts
from roberta_hub.verbs.texts import TextVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checks_keywords
class LanguageVerbs(TextVerbs):
    """Verbs that ask the language model, or a discriminator. See `RobertaHubInterface`."""

    task: Any

    @overload
    def fill_mask(  # type: ignore[overload-overlap]
        self,
        masked_input: str,
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Filled: ...
    @overload
    def fill_mask(
        self,
        masked_input: Iterable[str],
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> list[Filled]: ...
    def fill_mask(
        self,
        masked_input: str | Iterable[str],
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Filled | list[Filled]:
        """Find the most probable words for `<mask>`.

        A model whose own word is another (BERT's is `[MASK]`) takes both. Text before and behind a
        mask is cut into pieces apart, as in fairseq, so a piece behind a mask begins a word. A word
        that is found brings the space in front of it, a piece that goes on with a word (BERT's
        `##ing`) has none.

        Args:
            masked_input: a text with `<mask>` in it, or many; not pairs.
            topk: number of words.
            targets: rank these words only, all of them whatever topk is; each is one piece of the
                vocabulary.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            For a text with one mask, fairseq's list of (filled text, probability, word), the most
            probable first. For a text with several masks, a list of such lists, each of which fills
            one mask and leaves the others; type checkers cannot count masks and assume one. For
            many texts, a list of results. Probabilities are over the whole vocabulary; specials are
            left out.

        Raises:
            InputError: a text has no mask, or topk or a target is impossible; or the model has no
                language-model head (ELECTRA's discriminators, sentence encoders).

        Example:
            >>> [(text, p, word)] = roberta.fill_mask("Paris is the <mask> of France.", topk=1)
            >>> text == f"Paris is the{word} of France."
            True
        """
        needs = f"fill_mask takes str with {MASK} in it"
        texts, one = as_single_texts(masked_input, "masked_input", needs=needs)
        runner = self._runner(**options)
        with placed(lambda at: Place("masked_input", at.index)):
            found = fill_mask.fill_mask(runner, texts, topk=topk, targets=targets)
        results: list[Any] = [masks[0] if len(masks) == 1 else masks for masks in found]
        if one:
            return shown.words(texts[0], results[0])
        drawn = [shown.words(text, own) for text, own in zip(texts, results, strict=True)]
        return shown.words_of_many(texts, drawn)

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
        many, one = as_texts(texts)
        found = score.score(self._runner(**options), many)
        return found[0] if one else found

    @overload
    def replaced(self, texts: str, **options: Unpack[Options]) -> list[float]: ...  # type: ignore[overload-overlap]
    @overload
    def replaced(self, texts: Texts, **options: Unpack[Options]) -> list[list[float]]: ...
    def replaced(
        self, texts: str | Texts, **options: Unpack[Options]
    ) -> list[list[float]] | list[float]:
        """Tell how probable it is that each piece stands in another one's place.

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
