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
from roberta_hub.inference.optimize import Optimization
from roberta_hub.model.quantize import Dtype
from roberta_hub.text.tokenizer import Text

if TYPE_CHECKING:
    from typing_extensions import Unpack

Format = Literal["roberta_hub", "fairseq", "huggingface"]


class RobertaHubInterface(HeadVerbs):
    """RoBERTa for people: text in, answers out.

    fairseq's methods behave as in fairseq: they keep the caller's train/eval mode and gradients.
    Our own verbs on lists of texts run in eval mode without gradients and restore the mode.

    `texts` is always a list whose items are str, or tuples of sentences that are encoded as pairs.

    Attributes:
        model: the `RobertaModel`, ours or fairseq's.
        task: `source_dictionary`, `label_dictionary`, `mask_idx`.
        bpe: `encode(str) -> str`, `decode(str) -> str`.
        cfg: what was given to the constructor.
        labels: class names of each head, where known.
        optimized: what `optimize` did and its accuracy, if it was called.
    """

    optimized: Optimization | None = None

    def encode_batch(self, texts: Sequence[Text]) -> list[Tensor]:
        """Ids of each text, the same as `encode` gives, in order.

        Example:
            >>> [ids.tolist() for ids in roberta.encode_batch(["Hello world!", ("Hello", "world")])]
            [[0, 31414, 232, 328, 2], [0, 31414, 2, 2, 8331, 2]]
        """
        return self.tokenizer.encode_batch(texts)

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
    def features(
        self,
        texts: Sequence[Text],
        *,
        layer: int = -1,
        pooling: None = None,
        **options: Unpack[Options],
    ) -> list[Tensor]: ...
    @overload
    def features(
        self,
        texts: Sequence[Text],
        *,
        layer: int = -1,
        pooling: Pooling,
        **options: Unpack[Options],
    ) -> Tensor: ...
    def features(
        self,
        texts: Sequence[Text],
        *,
        layer: int = -1,
        pooling: Pooling | None = None,
        **options: Unpack[Options],
    ) -> list[Tensor] | Tensor:
        """Vectors of many texts, on the model's device; nothing is computed on padding.

        Args:
            texts: str, or tuples of sentences.
            layer: -1 the features, 0 the embeddings, k the k-th layer.
            pooling: None for one vector a token, "cls" for that of `<s>`, "mean" for the mean of
                all.
            options: `batch_tokens=N`, tokens a batch; `progress=True` or False, a bar, by default
                for long work in a terminal or notebook; `truncate=True`, cut the longest sentence
                of texts that are too long; `stride=N`, instead, windows that overlap by N tokens:
                each token comes from the window in which it stands farthest from a cut; with "cls"
                those of `<s>` are averaged.

        Returns:
            A list of (T_i, C), or one (len(texts), C) when pooled, in the order of `texts`.

        Raises:
            InputError: a text is too long; the message names it.

        Example:
            >>> roberta.features(["Hello world!", "Hello"], pooling="mean").shape
            torch.Size([2, 768])
        """
        return features.features(
            self._runner(**options),
            self._texts(texts),
            layer=layer,
            pooling=pooling,
        )

    def classify(
        self,
        texts: Sequence[Text],
        head: str = "mnli",
        *,
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> list[Prediction]:
        """A label for each text, with the probabilities of all labels.

        Args:
            texts: str, or tuples of sentences.
            head: name of a classification head.
            multi_label: each label's probability on its own, for heads trained so, instead of
                probabilities that add up to 1.
            options: see `features`; the windows of a long text vote with their probabilities, or
                with `multi_label` their logits are averaged.

        Raises:
            UnknownNameError: no such head.
        """
        return classify.classify(
            self._runner(**options),
            self._texts(texts),
            head,
            self.head_labels(head),
            multi_label=multi_label,
        )

    def zero_shot(
        self,
        texts: Sequence[Text],
        labels: Sequence[str],
        *,
        hypothesis: str = "This example is {}.",
        head: str = "mnli",
        multi_label: bool = False,
        **options: Unpack[Options],
    ) -> list[Prediction]:
        """Labels that no head was trained on, judged by entailment (Yin et al. 2019).

        Args:
            texts: str, or tuples of sentences.
            labels: in words.
            hypothesis: a sentence with `{}` where the label goes.
            head: an NLI head, one of whose labels is "entailment".
            multi_label: each label on its own, instead of probabilities that add up to 1.
            options: batch_tokens, progress, truncate, stride; see `features`.
        """
        return classify.zero_shot(
            self._runner(**options),
            self._texts(texts),
            labels,
            hypothesis=hypothesis,
            head=head,
            head_labels=self.head_labels(head),
            multi_label=multi_label,
        )

    def score(
        self,
        texts: Sequence[Text],
        **options: Unpack[Options],
    ) -> list[float]:
        """Pseudo-log-likelihoods: the sum over tokens of log P(token | all others), in nats.

        Each token is masked in turn (Salazar et al. 2020), so a text of T tokens costs T runs.

        Args:
            texts: str, or tuples of sentences.
            options: batch_tokens, progress, truncate, stride; see `features`.
        """
        return score.score(
            self._runner(**options),
            self._texts(texts),
        )

    def optimize(self, dtype: Dtype | None = None) -> RobertaHubInterface:
        """Make inference faster, in place: weights laid out for the CPU's matrix units, or quantized.

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
                dict.txt) or "huggingface" (for transformers).
            head: which head a Hugging Face model gets, where there are several.

        Raises:
            CheckpointError: the format cannot express the model.
        """
        checkpoint = saving.checkpoint_of(self.model, self.tokenizer, self.task, self.labels)
        saving.write(checkpoint, self.tokenizer, Path(directory), format, head)

    def __repr__(self) -> str:
        """A card; `print(roberta.model)` shows the modules."""
        parameters = sum(p.numel() for p in self.model.parameters())
        first = next(self.model.parameters())
        heads = [
            f"{name} ({', '.join(self.head_labels(name))})"
            for kind in ("classification", "token")
            for name in classify.heads_of(self.model, kind)
        ]
        heads += [f"{name} (start, end)" for name in classify.heads_of(self.model, "span")]
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
