"""Placeholder tokenizer: ids work, encoding text raises an error that says what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from roberta_hub.errors import CheckpointError, Remedy, VocabularyError
from roberta_hub.text.dictionary import MASK, SPECIALS, Dictionary
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.pieces import JoinedBatch

WORDPIECE_SYMBOLS = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "bos": "[CLS]",
    "eos": "[SEP]",
    "mask": "[MASK]",
}
FAIRSEQ_SYMBOLS = {**dict(zip(("bos", "pad", "eos", "unk"), SPECIALS, strict=True)), "mask": MASK}
"""Special symbols of fairseq's vocabularies."""
SPECIAL_SYMBOLS = {
    "bert": WORDPIECE_SYMBOLS,
    "distilbert": WORDPIECE_SYMBOLS,
    "electra": WORDPIECE_SYMBOLS,
    "albert": {**WORDPIECE_SYMBOLS, "pad": "<pad>", "unk": "<unk>"},
}
"""Special symbols of each family; the others use fairseq's."""
SPECIAL_IDS = {
    "bert": {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103},
    "distilbert": {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103},
    "electra": {"pad": 0, "unk": 100, "bos": 101, "eos": 102, "mask": 103},
    "albert": {"pad": 0, "unk": 1, "bos": 2, "eos": 3, "mask": 4},
    "xlm-roberta": {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 250001},
    "xlm-roberta-xl": {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": 250001},
    "camembert": {"bos": 5, "pad": 1, "eos": 6, "unk": 3, "mask": 32004},
}
"""Ids of the special symbols in every published vocabulary of a family."""
ROBERTA_IDS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
VOCABULARY_FILES = {
    "bert": ("vocab.txt",),
    "distilbert": ("vocab.txt",),
    "electra": ("vocab.txt",),
    "albert": ("spiece.model",),
    "xlm-roberta": ("sentencepiece.bpe.model",),
    "xlm-roberta-xl": ("sentencepiece.bpe.model",),
    "camembert": ("sentencepiece.bpe.model",),
}
"""Vocabulary files of each family; tokenizer.json is an alternative."""


class NoVocabulary:
    """A `SubwordTokenizer` without pieces: its methods raise an error with the remedy.

    Without missing `files` its dictionary is of units that no file cuts. `symbols` are those of
    ordinary rows; one is enough.

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

    def refuse(self, *asked: object) -> NoReturn:
        """Raise the error that names the missing files, whatever is asked."""
        if not self.wanted:
            raise VocabularyError(
                f"{self.model} has a dictionary of units such as {', '.join(self.symbols)}, no "
                "numbers of GPT-2's BPE, so it takes ids and no texts",
                remedy=Remedy(
                    "roberta.task.source_dictionary.encode_line('<s> ' + units + ' </s>', "
                    "append_eos=False).long() makes ids of units; or set roberta.bpe to the engine "
                    "that cuts texts into them",
                    "ask for its answers on ids in Python",
                ),
            )
        files = f"{' and '.join(self.wanted)} or tokenizer.json"
        raise VocabularyError(
            f"{self.model} has no vocabulary, so it takes ids and no texts",
            remedy=Remedy(
                f"load it with vocabulary=PATH, a directory with {files}",
                f"put {files} into its folder",
            ),
        )

    encode_ids = spans = normalized = encode = refuse
    piece = surface = word_surface = is_text = begins_word = join = refuse
    decode = is_beginning_of_word = refuse

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """No files: the saved model has no vocabulary either."""
        return {}

    def fairseq_files(self) -> dict[str, bytes]:
        """Refuse: fairseq loads no model without a dictionary; one of units has one."""
        if not self.wanted:
            return {}
        raise CheckpointError(
            f"{self.model} has no vocabulary, and fairseq loads no model without one",
            remedy=Remedy(
                "load it with vocabulary=PATH first, or save as 'roberta_hub'",
                "put the vocabulary into its folder first, or give --to roberta_hub",
            ),
        )


def no_vocabulary(
    model: str,
    files: Sequence[str],
    family: str,
    rows: int,
    padding_idx: int,
    separator_idx: int | None = None,
) -> tuple[NoVocabulary, Dictionary, SequenceLayout]:
    """Placeholder tokenizer, dictionary of special symbols only, and the family's layout.

    The configuration gives the number of ids, the id of padding and the one that ends a sentence.

    Example:
        >>> _, dictionary, layout = no_vocabulary("bert.base", ["vocab.txt"], "bert", 30522, 0)
        >>> dictionary[101], dictionary[7592], layout.mask, layout.separators
        ('[CLS]', '<row 7592>', 103, 1)
    """
    names, ids = (
        SPECIAL_SYMBOLS.get(family, FAIRSEQ_SYMBOLS),
        dict(SPECIAL_IDS.get(family, ROBERTA_IDS)),
    )
    ids["pad"] = padding_idx
    mask = ids.pop("mask", None)
    if separator_idx is not None:
        ids["eos"] = separator_idx
    taken = set(ids.values())
    if max(taken) >= rows or len(taken) < len(ids):  # an unpublished size
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
        separators=1 if family in SPECIAL_SYMBOLS else 2,
    )
    piece = next(symbol for symbol in symbols if symbol not in names.values())
    return NoVocabulary(model, files, [piece]), dictionary, layout
