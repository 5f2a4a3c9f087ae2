"""Finds the engine that a fairseq directory or fairseq's keywords mean."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief, path_text
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.files import check_regular
from roberta_hub.folder import Folder
from roberta_hub.text.added import TOKENIZER_CONFIG_FILE, read_added
from roberta_hub.text.added_token import AddedToken
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import OVERWRITE_FLAG, Dictionary
from roberta_hub.text.gpt2_tables import read_merges
from roberta_hub.text.lowercase import piece_table
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.sentencepiece_file import read_model
from roberta_hub.text.unigram import SentencePiece
from roberta_hub.text.unigram_family import CAMEMBERT, FILE, XLM_R
from roberta_hub.text.with_added import added_symbol

GPT2 = ("encoder.json", "vocab.bpe")
BYTE_BPE = ("vocab.json", "merges.txt")
TOKENIZER_KINDS = ("gpt2", "sentencepiece", "hf_byte_bpe")
"""What fairseq's keyword `bpe` may be."""
SAMPLING = ("sentencepiece_enable_sampling", "sentencepiece_alpha")
"""fairseq's keywords that make the ids of a text random."""
_OWN = {
    "gpt2": ("gpt2_encoder_json", "gpt2_vocab_bpe"),
    "sentencepiece": ("sentencepiece_model",),
    "hf_byte_bpe": ("bpe_vocab", "bpe_merges"),
}
"""The keywords that name each kind's files."""


@dataclass(frozen=True)
class Keywords:
    """What fairseq's keywords say of the tokenizer."""

    kind: str | None = None
    """One of `TOKENIZER_KINDS`; None: what the files say."""
    paths: tuple[str, ...] = ()
    """The files of that kind, where the caller names them."""
    add_prefix_space: bool = False


def tokenizer_keywords(bpe: str | None, keywords: MutableMapping[str, Any]) -> Keywords:
    """Take fairseq's keywords of the tokenizer out of those of a call, which lose them.

    With `bpe` None or "gpt2", fairseq's default, the files decide. Files of several kinds, or one
    of two, and sampling are refused.

    Example:
        >>> keywords = {"sentencepiece_vocab": "my.model", "dropout": 0.0}
        >>> tokenizer_keywords("gpt2", keywords).kind, keywords
        ('sentencepiece', {'dropout': 0.0})
    """
    if not (bpe is None or (isinstance(bpe, str) and bpe in TOKENIZER_KINDS)):
        raise InputError(f"bpe is {brief(bpe)}; choose {', '.join(TOKENIZER_KINDS)}")
    for name in SAMPLING:
        if keywords.pop(name, None) not in (None, False):
            raise InputError(
                f"{name} makes the ids of a text random, which is not done here: leave it out"
            )
    older = keywords.pop("sentencepiece_vocab", None)
    if older is not None:
        keywords.setdefault("sentencepiece_model", older)
    given: dict[str, list[str | None]] = {}
    for kind, names in _OWN.items():
        values = [keywords.pop(name, None) for name in names]
        if any(value is not None for value in values):
            given[kind] = [
                None if value is None else path_text(name, value)
                for name, value in zip(names, values, strict=True)
            ]
    prefix = keywords.pop("bpe_add_prefix_space", False)
    if not isinstance(prefix, bool):
        raise InputError(f"bpe_add_prefix_space is {brief(prefix)}; choose True or False")
    return _checked(bpe, given, prefix)


def _checked(bpe: str | None, given: dict[str, list[str | None]], prefix: bool) -> Keywords:
    chosen = bpe if bpe not in (None, "gpt2") else next(iter(given), None)
    others = [name for kind in given if kind != chosen for name in _OWN[kind]]
    if others:
        raise InputError(
            f"bpe is {chosen!r}, and {others[0]} belongs to another kind; leave it out"
        )
    paths = given.get(chosen or "", [])
    if None in paths:
        names = " and ".join(_OWN[chosen or ""])
        raise InputError(f"{names} belong together; give both paths")
    return Keywords(chosen, tuple(path for path in paths if path is not None), prefix)


def engine_in(folder: Folder | None, keywords: Keywords) -> SubwordTokenizer | None:
    """Return the engine that a fairseq directory or a caller's keywords mean; None: GPT-2's.

    Files that the caller names count before those of the directory. A bare file name is looked for
    in the directory first; without a directory there are only the caller's files.
    """
    kind = keywords.kind or _kind_in(folder)
    if kind is None:
        return None
    names = {"gpt2": GPT2, "sentencepiece": (FILE,), "hf_byte_bpe": BYTE_BPE}[kind]
    if keywords.paths:
        paths = [_found(given, folder) for given in keywords.paths]
    else:
        for name, keyword in zip(names, _OWN[kind], strict=True):
            if folder is None or not folder.is_file(name):
                raise VocabularyError(
                    f"bpe={kind!r} needs {name}, which {folder} lacks; put it there, or name it: "
                    f"{keyword}=PATH"
                )
        paths = [folder / name for name in names if folder is not None]
    for path in paths:
        check_regular(path)
    if kind == "sentencepiece":
        overwritten = folder is not None and _overwrites(folder)
        return SentencePiece(read_model(paths[0]), CAMEMBERT if overwritten else XLM_R)
    first, second = paths
    own = {"fairseq_names": BYTE_BPE if kind == "hf_byte_bpe" else GPT2}
    return GPT2BPE.from_files(first, second, add_prefix_space=keywords.add_prefix_space, **own)


def added_in(
    folder: Folder, tokenizer: SubwordTokenizer, dictionary: Dictionary
) -> dict[str, AddedToken]:
    """Return the user's tokens of a fairseq directory, by their symbols in dict.txt.

    fairseq's files have no place for them, so `save` writes a tokenizer_config.json too. What it
    lists under ids of other symbols is of another tokenizer, and fairseq does not read it.
    """
    if not folder.is_file(TOKENIZER_CONFIG_FILE):
        return {}
    added, found, table = read_added(folder), {}, piece_table(tokenizer)
    for number, token in added.listed.items():
        word, symbol = token.word, dictionary[number]  # of an id beyond it `<unk>`
        piece = table.symbols.get(symbol)
        if piece is None:
            is_it = symbol in (word, added_symbol(word))
        else:
            is_it = table.piece(piece) == word
        if is_it and not added.is_control(word):
            found[symbol] = token
    return found


def _kind_in(folder: Folder | None) -> str | None:
    """Tokenizer kind by the files of a directory; None: GPT-2's, or none."""
    if folder is None:
        return None
    kinds = {"gpt2": GPT2, "sentencepiece": (FILE,), "hf_byte_bpe": BYTE_BPE}
    for kind, names in kinds.items():
        if all(map(folder.is_file, names)):
            return None if kind == "hf_byte_bpe" and _is_not_fairseqs(folder) else kind
    return None


def _is_not_fairseqs(folder: Folder) -> bool:
    """Whether vocab.json and merges.txt belong to another model than this fairseq one.

    They are Hugging Face's, with its config.json. GPT-2's own merges go with a
    dict.txt that names their pieces by GPT-2's ids.
    """
    if folder.is_file("config.json"):
        return True
    return read_merges(folder / BYTE_BPE[1]) == GPT2BPE.shipped().merges()


def _found(path: str, folder: Folder | None) -> Path:
    """Return a path; a bare file name means the file in the model's directory, if it is there."""
    given = Path(path)
    if folder is not None and len(given.parts) == 1 and folder.is_file(given.name):
        return folder / given.name
    return given


def _overwrites(folder: Folder) -> bool:
    """Whether a dict.txt gives special symbols second ids, as CamemBERT's does."""
    if not folder.is_file("dict.txt"):
        return False
    with open(folder / "dict.txt", "rb") as file:
        return OVERWRITE_FLAG.encode() in file.read(1 << 16)
