"""RobertaHubInterface: the object in a user's hand.

Every verb is one documented line of delegation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from torch import Tensor

from roberta_hub import saving
from roberta_hub.head_verbs import HeadVerbs
from roberta_hub.inference import classify, features, optimize, score
from roberta_hub.inference.batching import Options
from roberta_hub.inference.classify import Prediction
from roberta_hub.inference.features import Pooling
from roberta_hub.inference.heads import entails, heads_of
from roberta_hub.inference.optimize import Optimization
from roberta_hub.keywords import checks_keywords
from roberta_hub.model.matrices import Dtype
from roberta_hub.text.texts import Texts, as_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack

Format = Literal["roberta_hub", "fairseq", "huggingface"]


@checks_keywords
class RobertaHubInterface(HeadVerbs):
    """RoBERTa for people: text in, answers out.

    fairseq's methods behave as in fairseq: they keep the caller's train/eval mode and gradients.
    Our own verbs on lists of texts run in eval mode without gradients and restore the mode.

    `texts` means the same everywhere: an iterable whose items are str, or tuples of sentences that
    are encoded as pairs (a list of two is a pair too). Lists, generators, and columns of pandas,
    polars, Arrow, numpy and `datasets` are such iterables; tables, dicts, sets and missing values
    are errors that name the column or the row. One str in, one answer out; so a pair on its own is
    a list of one, `[("a", "b")]`.

    Attributes:
        model: the `RobertaModel`, ours or fairseq's.
        task: `source_dictionary`, `label_dictionary`, `mask_idx`.
        bpe: `encode(str) -> str`, `decode(str) -> str`.
        cfg: what was given to the constructor.
        labels: class names of each head, where known.
        own_head: the head that the model was trained for, where known; verbs ask it unless told
            another.
        inputs: what each head was trained on, where known: "one" for single texts, or "pair".
        optimized: what `optimize` did and its accuracy, if it was called.
    """

    optimized: Optimization | None = None

    @overload
    def encode_batch(self, texts: str) -> Tensor: ...  # type: ignore[overload-overlap]
    @overload
    def encode_batch(self, texts: Texts) -> list[Tensor]: ...
    def encode_batch(self, texts: str | Texts) -> list[Tensor] | Tensor:
        """Ids of each text, the same as `encode` gives, in order.

        Example:
            >>> [ids.tolist() for ids in roberta.encode_batch(["Hello world!", ("Hello", "world")])]
            [[0, 31414, 232, 328, 2], [0, 31414, 2, 2, 8331, 2]]
        """
        many, one = as_texts(texts)
        found = self.tokenizer.encode_batch(many)
        return found[0] if one else found

    def tokenize(self, text: str) -> list[str]:
        """The pieces of a text; "Ġ" stands for the space before a piece.

        Example:
            >>> roberta.tokenize("I had a sudden epipheny")
            ['I', 'Ġhad', 'Ġa', 'Ġsudden', 'Ġep', 'ip', 'heny']
        """
        return self.tokenizer.tokenize(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) in characters of each piece of `tokenize(text)`.

        Example:
            >>> roberta.offsets("It was")
            [(0, 2), (2, 6)]
        """
        return self.tokenizer.offsets(text)

    @overload
    def features(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        layer: int = -1,
        pooling: Pooling | None = None,
        **options: Unpack[Options],
    ) -> Tensor: ...
    @overload
    def features(
        self,
        texts: Texts,
        *,
        layer: int = -1,
        pooling: None = None,
        **options: Unpack[Options],
    ) -> list[Tensor]: ...
    @overload
    def features(
        self,
        texts: Texts,
        *,
        layer: int = -1,
        pooling: Pooling,
        **options: Unpack[Options],
    ) -> Tensor: ...
    def features(
        self,
        texts: str | Texts,
        *,
        layer: int = -1,
        pooling: Pooling | None = None,
        **options: Unpack[Options],
    ) -> list[Tensor] | Tensor:
        """Vectors of many texts, on the model's device; nothing is computed on padding.

        Args:
            texts: one str, or many; see the class.
            layer: -1 the features, 0 the embeddings, k the k-th layer.
            pooling: None for one vector a token, "cls" for that of `<s>`, "mean" for the mean of
                all.
            options: `batch_tokens=N`, tokens a batch; `progress=True` or False, a bar, by default
                for long work in a terminal or notebook; `truncate=True`, cut the longest sentence
                of texts that are too long; `stride=N`, instead, windows that overlap by N tokens:
                each token comes from the window in which it stands farthest from a cut; with "cls"
                those of `<s>` are averaged.

        Returns:
            A list of (T_i, C), or one (len(texts), C) when pooled, in the order of `texts`. Of one
            str (T, C), or (C,) when pooled.

        Raises:
            InputTypeError: no texts, or an item that is none; the message names it.
            InputError: a text is too long; the message names it.

        Example:
            >>> roberta.features(["Hello world!", "Hello"], pooling="mean").shape
            torch.Size([2, 768])
        """
        many, one = as_texts(texts)
        found = features.features(self._runner(**options), many, layer=layer, pooling=pooling)
        return found[0] if one else found

    @overload
    def classify(  # type: ignore[overload-overlap]
        self,
        texts: str,
        head: str | None = None,
        *,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> Prediction: ...
    @overload
    def classify(
        self,
        texts: Texts,
        head: str | None = None,
        *,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> list[Prediction]: ...
    def classify(
        self,
        texts: str | Texts,
        head: str | None = None,
        *,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> list[Prediction] | Prediction:
        """A label for each text, with the probabilities of all labels.

        Args:
            texts: one str, or many; see the class. A head that was trained on pairs takes no
                single texts, and one that was trained on single texts no pairs; `inputs` knows
                which.
            head: name of a classification head; None: the model's own, else the only one.
            multi_label: each label's probability on its own, for heads trained so, instead of
                probabilities that add up to 1.
            options: see `features`; the windows of a long text vote with their probabilities, or
                with `multi_label` their logits are averaged.

        Raises:
            UnknownNameError: no such head.
            InputError: several heads, and none was named; a single text for a head of pairs, which
                `zero_shot` would take.

        Example:
            >>> roberta.register_classification_head("topic", labels=["art", "sport"])
            >>> sorted(roberta.classify(["Goal!"], "topic")[0].scores)
            ['art', 'sport']
        """
        head = self._head(head, "classification", "classify")
        many, one = as_texts(texts)
        found = classify.classify(
            self._runner(**options),
            many,
            head,
            self.head_labels(head),
            inputs=self._inputs(head),
            multi_label=multi_label,
        )
        return found[0] if one else found

    @overload
    def zero_shot(  # type: ignore[overload-overlap]
        self,
        texts: str,
        labels: Sequence[str],
        *,
        hypothesis: str = "This example is {}.",
        head: str | None = None,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> Prediction: ...
    @overload
    def zero_shot(
        self,
        texts: Texts,
        labels: Sequence[str],
        *,
        hypothesis: str = "This example is {}.",
        head: str | None = None,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> list[Prediction]: ...
    def zero_shot(
        self,
        texts: str | Texts,
        labels: Sequence[str],
        *,
        hypothesis: str = "This example is {}.",
        head: str | None = None,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> list[Prediction] | Prediction:
        """Labels that no head was trained on, judged by entailment (Yin et al. 2019).

        Args:
            texts: one str, or many; see the class.
            labels: in words.
            hypothesis: a sentence with `{}` where the label goes.
            head: an NLI head, one of whose labels is "entailment"; None: the model's own if it is
                one, else the only one.
            multi_label: each label on its own, instead of probabilities that add up to 1.
            options: batch_tokens, progress, truncate, stride; see `features`.

        Raises:
            UnknownNameError: no such head.
            InputError: a head of other labels; several heads, and none was named.
        """
        head = self._head(
            head,
            "classification",
            "zero_shot",
            fits=lambda name: self._inputs(name) == "pair" and entails(self.head_labels(name)),
            need="head for entailment, one of whose labels is 'entailment'",
        )
        many, one = as_texts(texts)
        found = classify.zero_shot(
            self._runner(**options),
            many,
            labels,
            hypothesis=hypothesis,
            head=head,
            head_labels=self.head_labels(head),
            inputs=self._inputs(head),
            multi_label=multi_label,
        )
        return found[0] if one else found

    @overload
    def score(self, texts: str, **options: Unpack[Options]) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Texts, **options: Unpack[Options]) -> list[float]: ...
    def score(self, texts: str | Texts, **options: Unpack[Options]) -> list[float] | float:
        """Pseudo-log-likelihoods: the sum over tokens of log P(token | all others), in nats.

        Each token is masked in turn (Salazar et al. 2020), so a text of T tokens costs T runs.

        Args:
            texts: one str, or many; see the class.
            options: batch_tokens, progress, truncate, stride; see `features`.
        """
        many, one = as_texts(texts)
        found = score.score(self._runner(**options), many)
        return found[0] if one else found

    def optimize(self, dtype: Dtype | None = None) -> RobertaHubInterface:
        """Make inference faster, in place: weights in the layout of the CPU, or quantized.

        What runs without gradients in eval mode uses the prepared copies: our verbs always,
        fairseq's under `torch.no_grad()` after `eval()`. Everything else uses the weights, which
        stay as they are: training, `state_dict` and `save` know nothing of this, and changed
        weights are prepared again when next needed, as they are in copies of the model, in this
        process or another. Memory grows by as much as the layers and the language-model head take,
        and half as much again where float16 holds their weights exactly; by half of the layers in
        bfloat16, a quarter in int8.

        Args:
            dtype: None for float32, whose results stay within 2e-5. "int8" multiplies 8-bit
                integers, each output's weights and each token on a scale of their own. "bfloat16"
                rounds what is multiplied to 8 bits of mantissa. In both, embeddings, norms,
                residuals and all heads stay float32.

        Which library multiplies float32 follows from the CPU alone; `$ROBERTA_HUB_MATRICES` pins
        it: "onednn", "mkl" or "plain".

        Returns:
            This object; its `optimized`, which `print(roberta)` shows, says how accurate the new
            form is.

        Raises:
            InputError: this machine cannot do it, or lacks the instructions that make it faster
                than float32.
            InputTypeError: a real fairseq model.

        Example:
            >>> before = roberta.features(["Hello world!"])[0]
            >>> after = roberta.optimize().features(["Hello world!"])[0]
            >>> torch.allclose(before, after, atol=2e-5)
            True
            >>> print(roberta.optimized)
            float32, prepacked
        """
        self.optimized = optimize.optimize(self.model, self.tokenizer, dtype)
        return self

    def save(
        self, directory: str | Path, format: Format = "roberta_hub", head: str | None = None
    ) -> None:
        """Write the model, its vocabulary and its labels into a directory.

        Files are replaced one by one, each at once whole. Factorized and shared weights are
        multiplied out for the formats that know neither.

        Args:
            directory: made if missing.
            format: "roberta_hub" (safetensors, memory-mapped at load), "fairseq" (model.pt and
                dict.txt) or "huggingface" (for transformers). Label names, `own_head` and `inputs`
                stand in fairseq's file beside its own keys: we read them again, fairseq does not,
                and a file that it writes has lost them.
            head: which head a Hugging Face model gets, where there are several.

        Raises:
            CheckpointError: the format cannot express the model.
        """
        checkpoint = saving.checkpoint_of(
            self.model, self.tokenizer, self.task, self.labels, self.own_head, self.inputs
        )
        saving.write(checkpoint, self.tokenizer, directory, format, head)

    def __repr__(self) -> str:
        """A card; `print(roberta.model)` shows the modules."""
        parameters = sum(p.numel() for p in self.model.parameters())
        first = next(self.model.parameters())
        heads = [
            f"{name} ({', '.join(self.head_labels(name))})"
            for kind in ("classification", "token")
            for name in heads_of(self.model, kind)
        ]
        heads += [f"{name} (start, end)" for name in heads_of(self.model, "span")]
        lines = {
            "weights": self.source,
            "parameters": f"{parameters:,} ({first.dtype}, {first.device})".replace("torch.", ""),
            "vocabulary": f"{len(self.tokenizer.dictionary):,} symbols",
            "longest input": f"{self.max_positions} tokens",
            "heads": "; ".join(heads) or "none",
            "mode": "train" if self.training else "eval",
        }
        if self.optimized is not None:
            lines["optimized"] = str(self.optimized)
        return "\n".join(
            [type(self).__name__, *(f"  {key:<14}{value}" for key, value in lines.items())]
        )
