"""Stands in for the tokenizer of a model whose vocabulary is not there: ids work, texts say why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from roberta_hub.errors import CheckpointError, Remedy, VocabularyError
from roberta_hub.text.dictionary import MASK, SPECIALS, Dictionary
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.pieces import JoinedBatch

WORDPIECE = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}
FAIRSEQ = {**dict(zip(("bos", "pad", "eos", "unk"), SPECIALS, strict=True)), "mask": MASK}
"""Names of special symbols in a WordPiece vocabulary, and in fairseq's."""
NAMES = {
    "bert": WORDPIECE,
    "distilbert": WORDPIECE,
    "electra": WORDPIECE,
    "albert": {**WORDPIECE, "pad": "<pad>", "unk": "<unk>"},
}
"""What each family calls them; the others call them as fairseq does."""
IDS = {
    "bert": {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103},
    "distilbert": {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103},
    "electra": {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103},
    "albert": {"pad": 0, "unk": 1, "bos": 2, "eos": 3, "mask": 4},
    "xlm-roberta": {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 250001},
    "xlm-roberta-xl": {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 250001},
    "camembert": {"bos": 5, "pad": 1, "eos": 6, "unk": 3, "mask": 32004},
}
"""Where they stand in every published vocabulary of a family."""
ROBERTA_IDS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
FILES = {
    "bert": ("vocab.txt",),
    "distilbert": ("vocab.txt",),
    "electra": ("vocab.txt",),
    "albert": ("spiece.model",),
    "xlm-roberta": ("sentencepiece.bpe.model",),
    "xlm-roberta-xl": ("sentencepiece.bpe.model",),
    "camembert": ("sentencepiece.bpe.model",),
}
"""The files that hold the vocabulary of a family; tokenizer.json may hold it too."""


class NoVocabulary:
    """An engine whose pieces are not known: what needs them is an error that says what to do.

    Args:
        model: what lacks the vocabulary, for messages.
        files: those that would hold it.
        symbols: of rows that stand for pieces; one is enough.

    Example:
        >>> engine = NoVocabulary("bert.base.uncased", ["vocab.txt"], [])
        >>> engine.encode_ids("Hello")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        ...
        roberta_hub.errors.VocabularyError: bert.base.uncased has no vocabulary, so it takes ids and
        no texts; load it with vocabulary=PATH, a directory with vocab.txt or tokenizer.json
    """

    batch_encoder: JoinedBatch | None = None
    settings: Mapping[str, object] = {}
    fingerprint = "none"

    def __init__(self, model: str, files: Sequence[str], symbols: Iterable[str]) -> None:
        self.model, self.wanted = model, tuple(files)
        self.symbols = {symbol: number for number, symbol in enumerate(symbols)}
        self.size = len(self.symbols)

    def refuse(self) -> NoReturn:
        """Raise the error that names the missing files."""
        files = f"{' and '.join(self.wanted)} or tokenizer.json"
        raise VocabularyError(
            f"{self.model} has no vocabulary, so it takes ids and no texts",
            remedy=Remedy(
                f"load it with vocabulary=PATH, a directory with {files}",
                f"put {files} into its folder",
            ),
        )

    def encode_ids(self, text: str) -> list[int]:
        """Refuse."""
        self.refuse()

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Refuse."""
        self.refuse()

    def piece(self, number: int) -> str:
        """Refuse."""
        self.refuse()

    def surface(self, number: int) -> bytes:
        """Refuse."""
        self.refuse()

    def is_text(self, number: int) -> bool:
        """Refuse."""
        self.refuse()

    def begins_word(self, number: int) -> bool:
        """Refuse."""
        self.refuse()

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Refuse."""
        self.refuse()

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """Return no file: what is saved has no vocabulary either."""
        return {}

    def fairseq_files(self) -> dict[str, bytes]:
        """Refuse: fairseq loads no model without a dictionary."""
        raise CheckpointError(
            f"{self.model} has no vocabulary, and fairseq loads no model without one",
            remedy=Remedy(
                "load it with vocabulary=PATH first, or save as 'roberta_hub'",
                "put the vocabulary into its folder first, or give --to roberta_hub",
            ),
        )

    def encode(self, x: str) -> str:
        """Refuse."""
        self.refuse()

    def decode(self, x: str) -> str:
        """Refuse."""
        self.refuse()

    def is_beginning_of_word(self, x: str) -> bool:
        """Refuse."""
        self.refuse()


def no_vocabulary(
    model: str,
    files: Sequence[str],
    family: str,
    rows: int,
    padding_idx: int,
    separator_idx: int | None = None,
) -> tuple[NoVocabulary, Dictionary, SequenceLayout]:
    """Return an engine, a dictionary that only names the special symbols, and a family's layout.

    Args:
        model: what lacks the vocabulary, for messages.
        files: those that would hold it.
        family: as config.json's `model_type` names it.
        rows: how many ids there are.
        padding_idx: the id of padding, which the model's configuration knows.
        separator_idx: the id that ends a sentence, where the configuration knows it.

    Example:
        >>> _, dictionary, layout = no_vocabulary("bert.base", ["vocab.txt"], "bert", 30522, 0)
        >>> dictionary[101], dictionary[7592], layout.mask, layout.separators
        ('[CLS]', '<row 7592>', 103, 1)
    """
    names, ids = NAMES.get(family, FAIRSEQ), dict(IDS.get(family, ROBERTA_IDS))
    ids["pad"] = padding_idx
    mask = ids.pop("mask", None)
    if separator_idx is not None:
        ids["eos"] = separator_idx
    taken = set(ids.values())
    if max(taken) >= rows or len(taken) < len(ids):  # a model of another size than any published
        kept = {"pad": padding_idx} | ({} if separator_idx is None else {"eos": separator_idx})
        free = (i for i in range(rows) if i not in kept.values())
        ids = {name: kept[name] if name in kept else next(free, 0) for name in ids}
    if mask is not None and (mask >= rows or mask in ids.values()):
        mask = None
    symbols = [f"<row {i}>" for i in range(rows)]
    for name, i in (*ids.items(), *([("mask", mask)] if mask is not None else [])):
        symbols[i] = names[name]
    special = {name: names[name] for name in ("bos", "pad", "eos", "unk")}
    dictionary = Dictionary.from_symbols(symbols, **special)
    layout = SequenceLayout(
        ids["bos"],
        ids["eos"],
        ids["pad"],
        ids["unk"],
        mask,
        separators=1 if family in NAMES else 2,
    )
    piece = next(symbol for symbol in symbols if symbol not in names.values())
    return NoVocabulary(model, files, [piece]), dictionary, layout
