"""Defines RobertaHubInterface: what it holds, saving, devices, and the card that print shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import torch
from torch import Tensor, nn

from roberta_hub.arguments import kind_of, shown, switch
from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.config import Inputs
from roberta_hub.errors import InputTypeError
from roberta_hub.export import folder
from roberta_hub.export.folder import Exported
from roberta_hub.export.graph import Output
from roberta_hub.formats import saving
from roberta_hub.inference.card import card, facts
from roberta_hub.inference.features import Pooling
from roberta_hub.inference.heads import check_classes, check_labels
from roberta_hub.keywords import checks_keywords, unknown_attribute
from roberta_hub.model.placement import as_device, as_dtype
from roberta_hub.model.roberta import own_model
from roberta_hub.settings import (
    HeadKind,
    HeadPooling,
    SentenceSettings,
    WordRule,
    ZeroShotSettings,
    check_kind,
    check_pooling,
    check_thresholds,
    check_words,
)
from roberta_hub.show.display import Display
from roberta_hub.show.facts import Facts
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.pieces import Engine
from roberta_hub.text.table_fit import engine_for
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.verbs.display import DisplayVerbs
from roberta_hub.verbs.embed import EmbedVerbs
from roberta_hub.verbs.ids import IdVerbs
from roberta_hub.verbs.language import LanguageVerbs
from roberta_hub.verbs.zero_shot import ZeroShotVerbs

if TYPE_CHECKING:
    from typing import Self

Format = Literal["roberta_hub", "fairseq", "huggingface"]


@checks_keywords
class RobertaHubInterface(IdVerbs, LanguageVerbs, EmbedVerbs, ZeroShotVerbs, DisplayVerbs):
    """RoBERTa for people: text goes in, answers come out.

    On texts:
        classify    the label of a text, with the probabilities of all labels
        zero_shot   the same for labels of your own, which no head was trained on
        tag         the labelled stretches of a text: names, parts of speech
        answer      the stretch of a context that answers a question
        choose      the best of several options
        fill_mask   the most probable words for <mask>
        score       how natural a text is
        replaced    how probable it is that a piece stands in another one's place
        disambiguate_pronoun                what the pronoun in [brackets] refers to
        embed       one vector of a text
        similarity  how near each of some texts is to each of some others
        search      the texts of a corpus that are nearest to a query
        features    the hidden states of a text, or one vector made of them
        tokenize    the pieces of a text, and offsets where each of them lies
        encode_batch                        the ids of many texts
    To look at, in a notebook or a terminal:
        explain     how surprising each word is, or what it contributes to a head's answer
        token_strip the pieces of a text, with their ids
        attention   which tokens each token takes from
    On ids, as in fairseq:
        encode      ids of a text, and decode the text of ids
        extract_features                    hidden states of ids, with gradients
        extract_features_aligned_to_words   features of words, as a spaCy Doc
        predict     log-probabilities of a head's classes, with gradients
    The model itself:
        print       a card: weights, heads, mode
        save        writes it into a directory, in our format, fairseq's or Hugging Face's
        export      writes it as ONNX or for torch.export, and checks what it wrote
        optimize    makes inference faster, or quantizes it
        register_classification_head, register_token_head, register_span_head   new heads
        head_labels                         the classes of a head
        to, cuda    move it to another device

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
        kinds: what each classification head learnt, where known: "single_label", "multi_label" or
            "regression". `classify` answers by it.
        thresholds: for each label of a head the least probability that gives it, as a tuple in the
            order of `head_labels`. Heads of kind "multi_label" have them where they were chosen;
            without them it is 0.5. They are checked when they are used.
        word_rules: how `tag` cuts texts for a token head: "words", as treebanks do, which is meant
            where nothing is said; or "parts", runs of letters and digits and every other character,
            as `fit` trains taggers.
        sentence: how `embed` makes one vector of a text, where the model says it.
        zero_shot_settings: by which way `zero_shot` labels, where the model says it.
        source: where the weights came from.
        family: Hugging Face's `model_type` of the model's kind: "roberta", "bert", "albert".
        optimized: what `optimize` did and how accurate the result is; None before it is called.
        fitted: what `fit` chose and measured when it made the model, a `Fitted`; None of others.
    """

    fitted: Any = None

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
        kinds: Mapping[str, HeadKind] | None = None,
        thresholds: Mapping[str, Sequence[float]] | None = None,
        zero_shot_settings: ZeroShotSettings | None = None,
        word_rules: Mapping[str, WordRule] | None = None,
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
            kinds: what heads learnt: "single_label", "multi_label" or "regression".
            thresholds: of the labels of heads.
            zero_shot_settings: by which way `zero_shot` labels; None: the model does not say it.
            word_rules: how texts are cut for token heads: "words", as treebanks do, or "parts".

        Raises:
            InputTypeError: a part is of another type.
            InputError: a head's labels are not all different; or a kind, a threshold or a rule of
                words that cannot be.
            VocabularyError: the dictionary is not GPT-2's, and no `bpe` is given.
        """
        super().__init__()
        _check_parts(task, model, bpe)
        read = {"inputs": inputs, "word_rules": word_rules}
        answered = {"labels": labels, "kinds": kinds, "thresholds": thresholds}
        for what, given in (read | answered).items():
            if not (given is None or isinstance(given, Mapping)):
                raise InputTypeError(f"{what} is a {kind_of(given)}; pass a dict with head names")
        if not (sentence is None or isinstance(sentence, SentenceSettings)):
            raise InputTypeError(f"sentence is a {kind_of(sentence)}; pass SentenceSettings")
        if not (zero_shot_settings is None or isinstance(zero_shot_settings, ZeroShotSettings)):
            raise InputTypeError(
                f"zero_shot_settings is a {kind_of(zero_shot_settings)}; pass ZeroShotSettings"
            )
        self.cfg = cfg
        self.task = task
        self.model = model
        self.labels = {head: check_labels(head, names) for head, names in (labels or {}).items()}
        self.own_head = own_head
        self.inputs = dict(inputs or {})
        self.kinds = {
            head: found
            for head, kind in (kinds or {}).items()
            if (found := check_kind(head, kind)) is not None
        }
        self.thresholds = {
            head: numbers
            for head, given in (thresholds or {}).items()
            if (numbers := check_thresholds(head, given)) is not None
        }
        self.word_rules = {
            head: check_words(head, words) for head, words in (word_rules or {}).items()
        }
        self.source = source
        self.family = family
        self.sentence = sentence
        self.zero_shot_settings = zero_shot_settings
        dictionary = Dictionary.of(task.source_dictionary)
        self.bpe = engine_for(dictionary, bpe)
        self.tokenizer = Tokenizer(self.bpe, dictionary, getattr(task, "layout", None))
        self.register_buffer("_float_tensor", torch.tensor([0], dtype=torch.float))

    def register_classification_head(
        self,
        name: str,
        num_classes: int | None = None,
        embedding_size: int | None = None,
        inner_dim: int | None = None,
        labels: Sequence[str] | None = None,
        pooling: HeadPooling = "cls",
        kind: HeadKind | None = None,
    ) -> None:
        """Add a classification head with random weights, in place of one of the same name.

        Args:
            name: any name without a dot that no head of another kind has.
            num_classes: number of outputs; 1 is a regression. None takes the number of `labels`.
            embedding_size: accepted and ignored, as in fairseq.
            inner_dim: width of the head's dense layer; None takes the model's width.
            labels: names of the classes, for `classify`.
            pooling: what the head reads of a text: "cls", the features of `<s>`, or "mean", the
                mean of those of all tokens, as `features(texts, pooling="mean")` makes it. Formats
                of other libraries hold heads of "cls" alone.
            kind: what the head learns: "single_label", "multi_label", where `classify` gives each
                label a probability of its own, or "regression"; None: nobody knows.

        Raises:
            InputError: the name or a size is impossible, or `num_classes` and `labels` disagree.
            InputTypeError: another pooling than "cls" for a real fairseq model, whose heads read
                `<s>` alone.

        Example:
            >>> labels = ["art", "sport"]
            >>> roberta.register_classification_head("topic", num_classes=2, labels=labels)
            >>> roberta.predict("topic", roberta.encode("Goal!")).shape
            torch.Size([1, 2])
        """
        labels, num_classes = check_classes(name, labels, num_classes)
        pooling, kind = check_pooling(name, pooling), check_kind(name, kind)
        if pooling == "cls":
            self.model.register_classification_head(name, num_classes, inner_dim)  # type: ignore[operator]
        else:
            model = own_model(self.model, f"pooling={pooling!r} is for heads of")
            model.register_classification_head(name, num_classes, inner_dim, pooling=pooling)
        self._describe(name, labels, kind)

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
        saving.write(self._checkpoint(), self.tokenizer, directory, format, head)

    def export(
        self,
        directory: str | Path,
        format: folder.Format = "onnx",
        *,
        head: str | None = None,
        output: Output | None = None,
        pooling: Pooling | None = None,
        opset: int = 18,
        check: bool = True,
    ) -> Exported:
        """Write one answer of the model for other runtimes, and compare what was written.

        The file takes batches of any size, of 2 ids or more a row: `input_ids` and
        `attention_mask`, (B, T) int64, padded on either side; and `token_type_ids` where the model
        tells a second sentence by segments. It computes on padding, so on texts of many lengths the
        model itself is faster: see docs/export.md. Outputs of tokens are 0 at padding.

        Beside it lie config.json with the labels and the tokenizer's files, named as optimum and
        sentence-transformers read them.

        Args:
            directory: made if missing; an earlier export of the same format in it is replaced.
            format: "onnx" writes `model.onnx`, over 1.5 GB with `model.onnx.data` beside it;
                "torch" writes `model.pt2`, which `torch.export.load` reads.
            head: answer with this head, of any kind: `logits` of shape (B, K), of a token head
                (B, T, K), of a span head (B, T, 2), also as `start_logits` and `end_logits`.
                "replaced_head" is an ELECTRA discriminator's, (B, T).
            output: "features" is `last_hidden_state`, (B, T, C), the default without a head;
                "logits" without a head is the language model's, (B, T, V).
            pooling: `sentence_embedding`, (B, C), instead: "cls", "mean", "max" or "pooler", as
                `features` makes them; a warning says what of a sentence encoder's own settings is
                not in it.
            opset: of ONNX, 18 to 23; 23 has attention as one operator. "torch" has none.
            check: compare the file with the model on five batches, padded left and right, and rows
                of nothing but padding.

        Returns:
            `files`, `inputs`, `outputs`, and the `difference` of the check: None where it was left
            out or onnxruntime is not installed, as `print` says.

        Raises:
            ExportError: the file's numbers differ from the model's by over 1e-4, or torch or
                a package of ONNX fails; nothing is kept.
            UnknownNameError: no such head.
            InputError: choices that exclude each other; weights that are not float32, or a model
                that answers in int8.
            CheckpointError: the directory holds another model, or the disk refuses.
            MissingExtraError: a package is missing for ONNX.
            InputTypeError: the model is a real fairseq model.

        Example:
            >>> tiny = roberta_hub.load_model("roberta.tiny")
            >>> tiny.export(folder / "exported", "torch", head="mnli").outputs
            ('logits',)
        """
        return folder.export(
            own_model(self.model, "export writes"),
            self.tokenizer,
            self._checkpoint(),
            directory,
            format,
            head=head,
            output=output,
            pooling=pooling,
            opset=opset,
            check_it=check,
            optimized=self.optimized,
        )

    def _checkpoint(self) -> Checkpoint:
        """Put the model, its vocabulary and its labels together; the weights are not copied."""
        return saving.checkpoint_of(
            self.model,
            self.tokenizer,
            self.task,
            self.labels,
            self.own_head,
            self.inputs,
            self.sentence,
            self.family,
            self.kinds,
            self.thresholds,
            self.zero_shot_settings,
            self.word_rules,
        )

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False
    ) -> Self:
        """Move the model to a device, or change its dtype, in place; see `torch.nn.Module.to`.

        Args:
            args: a device, a dtype or both, or a tensor that has them.
            device: as in `load_model`, "auto" too.
            dtype: as in `load_model`.
            non_blocking: copy from pinned memory while Python goes on.

        Raises:
            InputError: no such device, or none that this torch can use; no such dtype.
            InputTypeError: neither a device nor a dtype.

        Example:
            >>> roberta.to("auto").device.type in ("cpu", "cuda")
            True
        """
        if args and not isinstance(args[0], (Tensor, torch.dtype)):
            args = (as_device(args[0]), *args[1:])
        named = {"device": as_device(device), "dtype": as_dtype(dtype)}
        named = {name: value for name, value in named.items() if value is not None}
        options: dict[str, Any] = {**named, "non_blocking": switch("non_blocking", non_blocking)}
        try:
            return super().to(*args, **options)
        except TypeError:
            raise InputTypeError(
                f"to({', '.join(map(shown, args))}) names no device and no dtype of weights; pass "
                "'cuda', 'auto' or torch.bfloat16"
            ) from None

    def cuda(self, device: int | str | torch.device | None = None) -> Self:
        """Move the model to a GPU, in place.

        Args:
            device: number or name of the GPU; None: torch's current one.

        Raises:
            InputError: this torch can use no such GPU.

        Example:
            >>> roberta.cuda().device.type  # doctest: +SKIP
            'cuda'
        """
        return self.to("cuda" if device is None else device)

    def __repr__(self) -> str:
        """Write a card with a property a line; `print(roberta.model)` shows the modules."""
        return card(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        """Draw the card in a notebook."""
        lines = self._facts()
        shown = Display(type(self).__name__, [Facts(list(lines.items()))], lines)
        return shown._repr_html_()

    def _facts(self) -> dict[str, str]:
        return facts(
            self.model,
            self.tokenizer,
            self._heads,
            source=self.source,
            longest=self.max_positions,
            training=self.training,
            optimized=self.optimized,
            sentence=self.sentence,
            zero_shot=self.zero_shot_settings,
        )

    if not TYPE_CHECKING:  # a type checker sees the class as it is, and knows more than we do

        def __getattr__(self, name: str) -> Tensor | nn.Module:
            try:
                return super().__getattr__(name)  # parameters, buffers and modules
            except AttributeError:
                if name.startswith("_"):
                    raise
            raise unknown_attribute(type(self), name)

        def __call__(self, *args: object, **keywords: object) -> NoReturn:
            """Refuse the call: texts need a verb, and ids a method of their own."""
            raise InputTypeError(
                "a model is not called; its verbs take texts (classify, zero_shot, fill_mask, tag, "
                "answer, embed, features), and extract_features(ids) takes what encode(text) gives"
            )


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
