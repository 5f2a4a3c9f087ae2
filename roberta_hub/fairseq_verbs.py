"""What fairseq's hub interface could do, with its names, defaults and results."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.arguments import kind_of, switch
from roberta_hub.config import Inputs
from roberta_hub.errors import InputTypeError
from roberta_hub.inference import fill_mask, pronouns
from roberta_hub.inference import words as words_
from roberta_hub.inference.batching import Options, Runner
from roberta_hub.inference.heads import check_labels, known_head
from roberta_hub.keywords import checks_keywords
from roberta_hub.model.packing import check_tokens
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.pieces import Engine
from roberta_hub.text.texts import as_single_texts
from roberta_hub.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

_warning = threading.Lock()


@checks_keywords
class FairseqVerbs(nn.Module):
    """fairseq's `RobertaHubInterface`, method by method.

    The original is `fairseq/models/roberta/hub_interface.py`. These keep the caller's train/eval
    mode and gradients, except `fill_mask` and `disambiguate_pronoun`, which run in eval mode
    without gradients and restore the mode.
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
    ) -> None:
        """Wrap a model, as fairseq's constructor does.

        Args:
            cfg: a `RobertaConfig`, or a fairseq configuration.
            task: a `Task`, or a fairseq task.
            model: a `RobertaModel`, ours or a real fairseq one.
            bpe: what cuts texts into pieces; None: GPT-2's BPE.
            labels: class names of heads.
            own_head: the head that the model was trained for, which verbs ask unless told another.
            inputs: what heads were trained on, "one" for single texts or "pair".
            source: where the weights came from, for the card that `repr` prints.
        """
        super().__init__()
        _check_parts(task, model, bpe)
        for what, given in (("labels", labels), ("inputs", inputs)):
            if not (given is None or isinstance(given, Mapping)):
                raise InputTypeError(f"{what} is a {kind_of(given)}; pass a dict with head names")
        self.cfg = cfg
        self.task = task
        self.model = model
        self.bpe: Engine = GPT2BPE.shipped() if bpe is None else bpe
        self.labels = {head: check_labels(head, names) for head, names in (labels or {}).items()}
        self.own_head = own_head
        self.inputs = dict(inputs or {})
        self.source = source
        dictionary = Dictionary.of(task.source_dictionary)
        self.tokenizer = Tokenizer(self.bpe, dictionary, getattr(task, "layout", None))
        self.register_buffer("_float_tensor", torch.tensor([0], dtype=torch.float))
        self._warned: frozenset[str] = frozenset()

    @property
    def device(self) -> torch.device:
        """Where the weights lie; inputs are moved there."""
        return self._float_tensor.device

    @property
    def max_positions(self) -> int:
        """Longest input in tokens, `<s>` and `</s>` included."""
        return int(self.model.max_positions())  # type: ignore[operator]

    def encode(self, sentence: str, *addl_sentences: str, no_separator: bool = False) -> Tensor:
        """Ids of a sentence, or of several as one input: `<s> A </s> </s> B </s>`.

        Text is text: `</s>` or `<mask>` in a sentence are encoded as characters. Nothing is cut.

        Args:
            sentence: any text, also empty.
            addl_sentences: the second sentence of a pair, and more.
            no_separator: one `</s>` between sentences instead of two.

        Returns:
            A LongTensor (T,).

        Example:
            >>> roberta.encode("Hello world!").tolist()
            [0, 31414, 232, 328, 2]
            >>> roberta.encode("Hello", "world").tolist()
            [0, 31414, 2, 2, 8331, 2]
        """
        return self.tokenizer.encode(sentence, *addl_sentences, no_separator=no_separator)

    def decode(self, tokens: Tensor) -> str | list[str]:
        """The text of ids (T,); a list of texts where `encode` was given several.

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
    def extract_features(
        self, tokens: Tensor, return_all_hiddens: bool = False
    ) -> Tensor | list[Tensor]:
        """Hidden states of ids, with gradients and in the current mode.

        In train mode it warns once.

        Args:
            tokens: ids of `encode`, or a batch of `collate_tokens`. Shape: (T,) or (B, T)
            return_all_hiddens: every layer's states instead of the last one's.

        Returns:
            (B, T, C), or a list of L+1 of them: the embeddings, then each layer. Rows at padding
            are zeros.

        Raises:
            InputError: longer than the model, empty, or ids out of range.

        Example:
            >>> tokens = roberta.encode("Hello world!")
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
        """Add a classification head with random weights.

        Args:
            name: any without a dot.
            num_classes: outputs; 1 for regression; None: as many as `labels` has.
            embedding_size: accepted and ignored, as in fairseq.
            inner_dim: width of its dense layer; the model's width if None.
            labels: names of the classes, for `classify`.

        Example:
            >>> labels = ["art", "sport"]
            >>> roberta.register_classification_head("topic", num_classes=2, labels=labels)
            >>> roberta.predict("topic", roberta.encode("Goal!")).shape
            torch.Size([1, 2])
        """
        if labels is not None:
            labels = check_labels(name, labels, num_classes)
            num_classes = len(labels) if num_classes is None else num_classes
        self.model.register_classification_head(name, num_classes, inner_dim)  # type: ignore[operator]
        self._describe(name, labels)

    def _describe(self, head: str, labels: Sequence[str] | None) -> None:
        """Remember a new head's labels, and nothing of an older one of its name."""
        self.labels.pop(head, None)
        self.inputs.pop(head, None)
        if labels is not None:
            self.labels[head] = tuple(labels)

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Log-probabilities of a head's classes, with gradients and in the current mode.

        Args:
            head: name of a classification head.
            tokens: ids. Shape: (T,) or (B, T)
            return_logits: logits instead.

        Returns:
            (B, num_classes)

        Raises:
            UnknownNameError: no such head; a KeyError that lists those there are.
        """
        known_head(self.model, head)
        return_logits = switch("return_logits", return_logits)
        self._warn_of_dropout("predict", "answers are random; call .eval() first")
        tokens = self._checked(tokens)
        logits: Tensor = self.model(tokens, features_only=True, classification_head_name=head)[0]
        return logits if return_logits else F.log_softmax(logits, dim=-1)

    def fill_mask(
        self,
        masked_input: str | Iterable[str],
        topk: int = 5,
        *,
        targets: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """The most probable words for `<mask>`.

        Args:
            masked_input: a text with `<mask>` in it, or many, as other verbs take them.
            topk: how many words.
            targets: rank these words only, all of them whatever topk; each is one piece of the
                vocabulary.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Returns:
            For one mask, fairseq's list of (filled text, probability, word). For several masks in
            one text, a list of such lists, each filling one mask and leaving the others. For many
            texts, a list of results. Probabilities are over the whole vocabulary; specials are
            left out.

        Raises:
            InputError: no mask, or a topk or target that cannot be.

        Example:
            >>> [(text, p, word)] = roberta.fill_mask("Paris is the <mask> of France.", topk=1)
        """
        needs = f"fill_mask takes str with {MASK} in it"
        texts, one = as_single_texts(masked_input, "masked_input", place="text {}", needs=needs)
        found = fill_mask.fill_mask(self._runner(**options), texts, topk=topk, targets=targets)
        results = [masks[0] if len(masks) == 1 else masks for masks in found]
        return results[0] if one else results

    def disambiguate_pronoun(
        self, sentence: str, candidates: Sequence[str] | None = None
    ) -> bool | str:
        """What the pronoun in brackets refers to.

        Args:
            sentence: "The trophy would not fit in the suitcase because [it] was too big.", or with
                a guess in underscores, "_The trophy_ would not fit ... because [it] was too big."
            candidates: what it could refer to; None: noun phrases that an installed spaCy pipeline
                finds.

        Returns:
            With a guess, whether it is at least as likely as every candidate. Else the best
            candidate.

        Raises:
            InputError: marks missing, or nothing that could be meant.
        """
        return pronouns.disambiguate_pronoun(
            self._runner(),
            sentence,
            candidates=candidates,
            init_token=_trained_with_bos(self.task),
        )

    def extract_features_aligned_to_words(
        self,
        sentence: str,
        return_all_hiddens: bool = False,
        *,
        words: Sequence[str] | None = None,
        pooling: str = "sum",
    ) -> Any:
        """A spaCy Doc of `<s>`, the words, `</s>`, whose `token.vector` is the word's feature.

        Needs spaCy (`pip install 'roberta-hub[words]'`), but no spaCy model.

        Args:
            sentence: text.
            return_all_hiddens: `token.vector` is (L+1, C) instead of (C,).
            words: your own words, in order of appearance, instead of spaCy's.
            pooling: of a word's pieces: "sum" (fairseq's), "mean", "first" or "max".
        """
        return_all_hiddens = switch("return_all_hiddens", return_all_hiddens)

        def extract(ids: Tensor) -> Tensor:
            if return_all_hiddens:
                return torch.stack([state[0] for state in self.extract_features(ids, True)], dim=1)
            return self.extract_features(ids)[0]

        return words_.aligned_doc(extract, self.tokenizer, sentence, words=words, pooling=pooling)

    def _runner(self, **options: Unpack[Options]) -> Runner:
        return Runner(model=self.model, tokenizer=self.tokenizer, **options)

    def _warn_of_dropout(self, verb: str, consequence: str) -> None:
        """Say so once for each verb that keeps the mode: a model is loaded in train mode."""
        if not self.model.training or verb in self._warned or not _drops(self.model):
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
    """Refuse what is no model, no task, no BPE, before the first text finds out."""
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


def _trained_with_bos(task: Any) -> bool:
    """Whether inputs began with `<s>`, as all do but those of wsc without an init_token.

    Our task says so itself, fairseq's in its `cfg` or, its older ones, in `args`.
    """
    arguments = getattr(task, "cfg", None) or getattr(task, "args", None)
    names = [getattr(task, "name", None)]
    names += [getattr(arguments, name, None) for name in ("_name", "task")]
    init_tokens = (getattr(owner, "init_token", None) for owner in (task, arguments))
    return "wsc" not in names or any(token is not None for token in init_tokens)


def _drops(model: nn.Module) -> bool:
    """Whether a module in train mode has a dropout probability above 0, ours or fairseq's."""
    names = (
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "layerdrop",
        "p",
        "dropout_module",
    )
    training = (module for module in model.modules() if module.training)
    values = (getattr(module, name, 0.0) for module in training for name in names)
    return any(isinstance(value, float) and value > 0 for value in values)
