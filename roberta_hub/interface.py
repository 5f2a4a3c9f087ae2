"""Defines RobertaHubInterface: fairseq's methods on ids, saving, and the card that print shows."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub import saving
from roberta_hub.arguments import kind_of, switch
from roberta_hub.config import Inputs
from roberta_hub.errors import InputTypeError
from roberta_hub.inference.card import card
from roberta_hub.inference.heads import check_classes, check_labels, known_head
from roberta_hub.inference.mode import drops
from roberta_hub.inference.words import AlignedDoc, aligned_doc
from roberta_hub.keywords import checks_keywords
from roberta_hub.model.packing import check_tokens
from roberta_hub.sentence_settings import SentenceSettings
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.pieces import Engine
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.verbs.embed import EmbedVerbs
from roberta_hub.verbs.heads import HeadVerbs
from roberta_hub.verbs.language import LanguageVerbs

Format = Literal["roberta_hub", "fairseq", "huggingface"]
_warning = threading.Lock()


@checks_keywords
class RobertaHubInterface(LanguageVerbs, HeadVerbs, EmbedVerbs):
    """RoBERTa for people: text goes in, answers come out.

    fairseq's methods behave as in fairseq (`fairseq/models/roberta/hub_interface.py`): they keep
    the caller's train or eval mode and the gradients. Only `fill_mask` and `disambiguate_pronoun`
    run in eval mode without gradients and restore the mode, and so do all our own verbs on texts.

    `texts` means the same everywhere: an iterable whose items are str, or tuples of sentences that
    are encoded as pairs (a list of two is a pair too). Lists, generators, and columns of pandas,
    polars, Arrow, numpy and `datasets` are such iterables; tables, dicts, sets and missing values
    are errors that name the column or the row. One str in gives one answer out; so a pair on its
    own is a list of one, `[("a", "b")]`.

    Attributes:
        model: the `RobertaModel`, ours or fairseq's.
        task: holds `source_dictionary`, `label_dictionary` and `mask_idx`.
        bpe: turns text into ids and back, as str: `encode(str) -> str`, `decode(str) -> str`.
        cfg: what was given to the constructor.
        labels: class names of each head, where known.
        own_head: the head that the model was trained for, where known. A verb that is not told
            which head to ask asks this one.
        inputs: what each head was trained on, where known: "one" for single texts, or "pair".
        sentence: how `embed` makes one vector of a text, where the model says it.
        source: where the weights came from.
        family: Hugging Face's `model_type` of the model's kind: "roberta", "bert", "albert".
        optimized: what `optimize` did and how accurate the result is; None before it is called.
    """

    _float_tensor: Tensor

    def __init__(
        self,
        cfg: Any,
        task: Any,
        model: nn.Module,
        *,
        bpe: Engine | None = None,
        labels: Mapping[str, Sequence[str]] | None = None,
        own_head: str | None = None,
        inputs: Mapping[str, Inputs] | None = None,
        source: str = "random weights",
        family: str = "roberta",
        sentence: SentenceSettings | None = None,
    ) -> None:
        """Wrap a model, as fairseq's constructor does.

        Args:
            cfg: a `RobertaConfig`, or a fairseq configuration.
            task: a `Task`, or a fairseq task.
            model: a `RobertaModel`, ours or a real fairseq one.
            bpe: cuts texts into pieces, see `text/pieces.py`; None is GPT-2's BPE, RoBERTa's.
            labels: class names of heads.
            own_head: the head that the model was trained for.
            inputs: what heads were trained on: "one" for single texts, or "pair".
            source: where the weights came from, for `print`.
            family: `model_type` of the class that `save(..., "huggingface")` makes of it.
            sentence: how `embed` makes one vector of a text; None: the model does not say it.

        Raises:
            InputTypeError: a part is of another type.
            InputError: a head's labels are not all different.
        """
        super().__init__()
        _check_parts(task, model, bpe)
        for what, given in (("labels", labels), ("inputs", inputs)):
            if not (given is None or isinstance(given, Mapping)):
                raise InputTypeError(f"{what} is a {kind_of(given)}; pass a dict with head names")
        if not (sentence is None or isinstance(sentence, SentenceSettings)):
            raise InputTypeError(f"sentence is a {kind_of(sentence)}; pass SentenceSettings")
        self.cfg = cfg
        self.task = task
        self.model = model
        self.bpe: Engine = GPT2BPE.shipped() if bpe is None else bpe
        self.labels = {head: check_labels(head, names) for head, names in (labels or {}).items()}
        self.own_head = own_head
        self.inputs = dict(inputs or {})
        self.source = source
        self.family = family
        self.sentence = sentence
        dictionary = Dictionary.of(task.source_dictionary)
        self.tokenizer = Tokenizer(self.bpe, dictionary, getattr(task, "layout", None))
        self.register_buffer("_float_tensor", torch.tensor([0], dtype=torch.float))
        self._warned: frozenset[str] = frozenset()

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

    def register_classification_head(
        self,
        name: str,
        num_classes: int | None = None,
        embedding_size: int | None = None,
        inner_dim: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Add a classification head with random weights, in place of one of the same name.

        Args:
            name: any name without a dot that no head of another kind has.
            num_classes: number of outputs; 1 is a regression. None takes the number of `labels`.
            embedding_size: accepted and ignored, as in fairseq.
            inner_dim: width of the head's dense layer; None takes the model's width.
            labels: names of the classes, for `classify`.

        Raises:
            InputError: the name or a size is impossible, or `num_classes` and `labels` disagree.

        Example:
            >>> labels = ["art", "sport"]
            >>> roberta.register_classification_head("topic", num_classes=2, labels=labels)
            >>> roberta.predict("topic", roberta.encode("Goal!")).shape
            torch.Size([1, 2])
        """
        labels, num_classes = check_classes(name, labels, num_classes)
        self.model.register_classification_head(name, num_classes, inner_dim)  # type: ignore[operator]
        self._describe(name, labels)

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Compute log-probabilities of a head's classes, with gradients and in the current mode.

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
        return logits if return_logits else F.log_softmax(logits, dim=-1)

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

    def save(
        self, directory: str | Path, format: Format = "roberta_hub", head: str | None = None
    ) -> None:
        """Write the model, its vocabulary and its labels into a directory.

        Files are replaced one by one, each at once whole. Factorized and shared weights are
        multiplied out for the formats that know neither.

        Args:
            directory: made if missing.
            format: "roberta_hub" (safetensors, memory-mapped at load), "fairseq" (model.pt and
                dict.txt) or "huggingface" (for transformers). fairseq's file has `labels`,
                `own_head` and `inputs` beside its own keys: we read them again, fairseq ignores
                them, and a file that fairseq writes has lost them.
            head: which head a Hugging Face model gets, where there are several.

        Raises:
            CheckpointError: the format cannot express the model.

        Example:
            >>> tiny = roberta_hub.load_model("roberta.tiny")
            >>> tiny.save(folder)
            >>> roberta_hub.load_model(folder).head_labels("mnli")
            ('contradiction', 'neutral', 'entailment')
        """
        checkpoint = saving.checkpoint_of(
            self.model,
            self.tokenizer,
            self.task,
            self.labels,
            self.own_head,
            self.inputs,
            self.sentence,
            self.family,
        )
        saving.write(checkpoint, self.tokenizer, directory, format, head)

    def __repr__(self) -> str:
        """Write a card with a property a line; `print(roberta.model)` shows the modules."""
        return card(
            self.model,
            self.tokenizer,
            self._heads,
            title=type(self).__name__,
            source=self.source,
            longest=self.max_positions,
            training=self.training,
            optimized=self.optimized,
            sentence=self.sentence,
        )

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


def _check_parts(task: Any, model: object, bpe: object) -> None:
    """Refuse a model, task or BPE of a wrong type now, and not when the first text comes."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model is a {kind_of(model)}; pass a RobertaModel")
    symbols = getattr(task, "source_dictionary", None)
    if not isinstance(getattr(symbols, "symbols", None), list):
        raise InputTypeError(
            f"task is a {kind_of(task)} without a source_dictionary; pass a Task(Dictionary)"
        )
    if not (bpe is None or isinstance(bpe, Engine)):
        raise InputTypeError(
            f"bpe is a {kind_of(bpe)}; pass an engine of text/pieces.py, or None for GPT-2's"
        )
