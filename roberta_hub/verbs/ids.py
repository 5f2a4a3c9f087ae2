"""Defines fairseq's methods on ids: encode, decode, extract_features and its words, predict."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.arguments import switch
from roberta_hub.inference.mode import drops
from roberta_hub.inference.words import AlignedDoc, aligned_doc
from roberta_hub.keywords import checks_keywords
from roberta_hub.model.known_head import known_head
from roberta_hub.model.packing import check_tokens
from roberta_hub.settings import HeadKind, check_kind
from roberta_hub.verbs.texts import TextVerbs

_warning = threading.Lock()


@checks_keywords
class IdVerbs(TextVerbs):
    """fairseq's methods on ids, which keep mode and gradients. See `RobertaHubInterface`."""

    kinds: dict[str, HeadKind]
    _float_tensor: Tensor
    _warned: frozenset[str] = frozenset()

    @property
    def device(self) -> torch.device:
        """The device of the weights; inputs are moved there."""
        return self._float_tensor.device

    @property
    def max_positions(self) -> int:
        """Longest input in tokens, `<s>` and `</s>` included."""
        return int(self.model.max_positions())  # type: ignore[operator]

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

        In train mode dropout makes them random, which is said once in a warning.

        Args:
            tokens: ids of `encode`, or a batch of `collate_tokens`. Shape: (T,) or (B, T)
            return_all_hiddens: True returns the states of every layer instead of the last one's.

        Returns:
            (B, T, C), or a list of L+1 such tensors: the embeddings, then each layer. Rows at
            padding are zeros.

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
        self._warn_of_dropout(
            "extract_features", "features are random; call .eval() first, unless you train on them"
        )
        tokens = self._checked(tokens)
        x, extra = self.model(tokens, features_only=True, return_all_hiddens=return_all_hiddens)
        if not return_all_hiddens:
            return x  # type: ignore[no-any-return]
        return [state.transpose(0, 1) for state in extra["inner_states"]]  # T x B x C -> B x T x C

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Compute log-probabilities of a head's classes, with gradients and in the current mode.

        They are those of fairseq, a softmax over the classes; where `kinds` says that the head
        learnt "multi_label", each label has a probability of its own.

        In train mode dropout makes them random, which is said once in a warning.

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
        self._warn_of_dropout("predict", "answers are random; call .eval() first")
        tokens = self._checked(tokens)
        logits: Tensor = self.model(tokens, features_only=True, classification_head_name=head)[0]
        if return_logits:
            return logits
        if check_kind(head, self.kinds.get(head)) == "multi_label":
            return F.logsigmoid(logits)
        return F.log_softmax(logits, dim=-1)

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
        return_all_hiddens = switch("return_all_hiddens", return_all_hiddens)

        def extract(ids: Tensor) -> Tensor:
            if return_all_hiddens:
                return torch.stack([state[0] for state in self.extract_features(ids, True)], dim=1)
            return self.extract_features(ids)[0]

        return aligned_doc(extract, self.tokenizer, sentence, words=words, pooling=pooling)

    def _warn_of_dropout(self, verb: str, consequence: str) -> None:
        """Warn once of each verb that keeps the mode: a model is loaded in train mode."""
        if not self.model.training or verb in self._warned or not drops(self.model):
            return
        with _warning:
            if verb in self._warned:
                return
            self._warned |= {verb}
        warnings.warn(f"{verb} runs with dropout on, so its {consequence}", stacklevel=4)

    def _checked(self, tokens: object) -> Tensor:
        checked = check_tokens(
            tokens, vocab_size=len(self.tokenizer.dictionary), max_positions=self.max_positions
        )
        return checked.to(self.device)
