"""Defines the verbs that every model answers: ids, pieces, offsets and features; optimize."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from torch import Tensor, nn

from roberta_hub.inference import features, optimize
from roberta_hub.inference.batching import Options, Runner
from roberta_hub.inference.choice import mention_bfloat16
from roberta_hub.inference.features import Pooling
from roberta_hub.inference.optimize import Asked, Optimization
from roberta_hub.keywords import checks_keywords
from roberta_hub.text.texts import Texts, as_texts
from roberta_hub.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Unpack


@checks_keywords
class TextVerbs(nn.Module):
    """Verbs on texts that every model answers. See `RobertaHubInterface`, which sets the fields."""

    model: nn.Module
    tokenizer: Tokenizer
    optimized: Optimization | None = None

    def _runner(self, **options: Unpack[Options]) -> Runner:
        return Runner(model=self.model, tokenizer=self.tokenizer, **options)

    @overload
    def encode_batch(self, texts: str) -> Tensor: ...  # type: ignore[overload-overlap]
    @overload
    def encode_batch(self, texts: Texts) -> list[Tensor]: ...
    def encode_batch(self, texts: str | Texts) -> list[Tensor] | Tensor:
        """Turn each text into ids: the same ids as `encode` gives, in the order of the texts.

        Args:
            texts: one str, or many; see the class.

        Returns:
            A LongTensor (T_i,) for each text, on the CPU; for one str the tensor itself.

        Raises:
            InputTypeError: an item is no text; the message names it.

        Example:
            >>> [ids.tolist() for ids in roberta.encode_batch(["Hello world!", ("Hello", "world")])]
            [[0, 31414, 232, 328, 2], [0, 31414, 2, 2, 8331, 2]]
        """
        many, one = as_texts(texts)
        found = self.tokenizer.encode_batch(many)
        return found[0] if one else found

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into the pieces of the vocabulary.

        RoBERTa's "Ġ" and XLM-R's "▁" stand for the space before a piece; BERT's "##" says that a
        piece goes on with a word.

        Args:
            text: one text. `<s>` and `</s>`, which `encode` puts around it, are no pieces.

        Returns:
            One str for each piece, T - 2 of them where `encode` gives T ids.

        Example:
            >>> roberta.tokenize("I had a sudden epipheny")
            ['I', 'Ġhad', 'Ġa', 'Ġsudden', 'Ġep', 'ip', 'heny']
        """
        return self.tokenizer.tokenize(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Find where in the text each piece of `tokenize(text)` lies.

        Args:
            text: one text.

        Returns:
            (start, end) of each piece, in characters; a piece includes the space before it.

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
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> Tensor: ...
    @overload
    def features(
        self,
        texts: Texts,
        *,
        layer: int = -1,
        pooling: None = None,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> list[Tensor]: ...
    @overload
    def features(
        self,
        texts: Texts,
        *,
        layer: int = -1,
        pooling: Pooling,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> Tensor: ...
    def features(
        self,
        texts: str | Texts,
        *,
        layer: int = -1,
        pooling: Pooling | None = None,
        normalize: bool = False,
        **options: Unpack[Options],
    ) -> list[Tensor] | Tensor:
        """Compute the hidden states of many texts. Nothing is computed on padding.

        Args:
            texts: one str, or many; see the class.
            layer: -1 is the features, 0 the embeddings, k the k-th layer.
            pooling: None gives one vector a token, "cls" the vector of `<s>`, "mean" the mean over
                all tokens, "max" the largest value of each dimension, "pooler" what the model's own
                pooler makes of `<s>`, where it has one. `embed` pools as the model was trained to.
            normalize: True gives each vector the length 1.
            options: `batch_tokens=N` is the number of tokens in a batch. `progress=True` or False
                shows a bar or none; without it, long work in a terminal or notebook shows one.
                `truncate=True` cuts the longest sentence of a text that is too long. `stride=N`
                runs such a text in windows that overlap by N tokens instead: each token comes from
                the window in which it stands farthest from a cut, and with "cls" and "pooler" the
                vectors of `<s>` are averaged.

        Returns:
            Tensors on the model's device, in the order of `texts`: a list of (T_i, C), or when
            pooled one (len(texts), C). For one str (T, C), or when pooled (C,).

        Raises:
            InputTypeError: `texts` holds no texts, or an item is none; the message names it.
            InputError: a text is too long; the message names it, its length and the limit. Or the
                model has no pooler.

        Example:
            >>> roberta.features(["Hello world!", "Hello"], pooling="mean").shape
            torch.Size([2, 768])
            >>> roberta.features("Hello world!").shape
            torch.Size([5, 768])
        """
        many, one = as_texts(texts)
        found = features.features(
            self._runner(**options), many, layer=layer, pooling=pooling, normalize=normalize
        )
        return found[0] if one else found

    def optimize(self, dtype: Asked | None = None, least_cosine: float | None = None) -> Self:
        """Make inference faster, in place: lay the weights out for the CPU, or quantize them.

        The prepared copies serve what runs in eval mode without gradients: our verbs always,
        fairseq's methods under `torch.no_grad()` after `eval()`. Training, `state_dict` and `save`
        use the weights themselves, which stay as they are. If the weights change, they are prepared
        again at the next use; so are those of a copy of the model, in this process or another.
        Only a write through `.data` goes unseen: call this again after one.

        The copies take as much memory as the layers and the language-model head, and half as much
        again if float16 holds these weights exactly; bfloat16 takes half of the layers, int8 a
        quarter. Where compiled layers take few rows only, theirs is one more copy.

        Args:
            dtype: None computes in float32, with results within 2e-5. "int8" multiplies 8-bit
                integers, with one scale for each output's weights and one for each token.
                "bfloat16" rounds both factors of a product to 8 bits of mantissa. "int8" and
                "bfloat16" leave embeddings, norms, residuals and all heads in float32. "auto" takes
                the fastest of the three on a CPU with these instruction sets, by a table of
                measurements, whose features of some sentences stay near float32's.
            least_cosine: how near "auto" stays: the least cosine between a token's features and
                float32's, 0 to 1. None: 0.999.

        The CPU alone decides which library multiplies float32. `$ROBERTA_HUB_MATRICES` pins it to
        "onednn", "mkl" or "plain"; "compiled" demands the package's own compiled layers.

        Returns:
            This object. Its `optimized`, which `print(roberta)` shows, says how accurate the new
            form is, and what "auto" chose, what the others would give, and why. Without `dtype`
            a warning says once where bfloat16 would be more than 1.5 times as fast.

        Raises:
            InputError: this machine cannot compute so, or lacks the instructions that make it
                faster than float32; or `least_cosine` is no such number, or `dtype` is not "auto".
            InputTypeError: the model is a real fairseq model.

        Example:
            >>> before = roberta.features(["Hello world!"])[0]
            >>> after = roberta.optimize().features(["Hello world!"])[0]
            >>> torch.allclose(before, after, atol=2e-5)
            True
            >>> print(roberta.optimized)
            float32, prepacked
        """
        self.optimized = optimize.optimize(self.model, self.tokenizer, dtype, least_cosine)
        if dtype is None:
            mention_bfloat16(next(self.model.parameters()).device)
        return self
