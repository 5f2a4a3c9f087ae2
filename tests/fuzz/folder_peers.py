"""What transformers makes of a text, read as docs/reference/differences.md says it is here.

Words with a role are text here and special tokens there, so its tokenizer is asked without them.
Where its fast tokenizers lose a mark or take another rule of the character map, SentencePiece
itself is asked.
"""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import Tokenizer
from torch import Tensor

from .folder_texts import BLANKS
from .folder_tokenizers import CONTROLS, ROLES, SYMBOLS

Text = str | tuple[str, str]


class TextPeer:
    """A tokenizer of transformers whose control words are text.

    Args:
        theirs: of transformers.
        model: the SentencePiece file that it was made of.
        segments: whether the model is told which sentence a token is of.
    """

    def __init__(self, theirs: Any, model: bytes | None, *, segments: bool) -> None:
        self.theirs = theirs
        words = {getattr(theirs, f"{role}_token") for role in ROLES} - {None}
        self.controls = {*words, *CONTROLS, *(f"{word}NOTUSED" for word in CONTROLS)}
        self.plain = theirs.backend_tokenizer
        table = json.loads(self.plain.to_str())
        table["truncation"] = table["padding"] = None
        self.control_ids = {
            own["id"] for own in table["added_tokens"] if own["content"] in self.controls
        }
        kept = [own for own in table["added_tokens"] if own["content"] not in self.controls]
        self.own = {own["id"] for own in kept}
        self.sought_later = {own["id"] for own in kept if own["normalized"]}
        self.words = [own["content"] for own in kept]
        table["added_tokens"] = kept
        vocabulary = table["model"]["vocab"]
        new = {word: f"control word {n}" for n, word in enumerate(sorted(self.controls))}
        if isinstance(vocabulary, dict):
            table["model"]["vocab"] = {new.get(w, w): number for w, number in vocabulary.items()}
            unknown = table["model"].get("unk_token")
            table["model"]["unk_token"] = new.get(unknown, unknown)
        else:
            table["model"]["vocab"] = [[new.get(w, w), score] for w, score in vocabulary]
        self.textual = Tokenizer.from_str(json.dumps(table))
        self.normalized = Tokenizer.from_str(json.dumps({**table, "normalizer": None}))
        self.segments = segments
        steps = table["normalizer"] or {}
        steps = steps.get("normalizers", [steps])
        kinds = [step.get("type") for step in steps]
        first = kinds.index("Precompiled") if "Precompiled" in kinds else len(steps)
        self.before = [
            Tokenizer.from_str(json.dumps({**table, "normalizer": step})).normalizer
            for step in steps[:first]
            if step and step["type"] != "Strip"
        ]
        self.mapped = "precompiled_charsmap" in json.dumps(table["normalizer"])
        self.judge = None
        if model is not None:
            self.judge = sentencepiece.SentencePieceProcessor()
            self.judge.LoadFromSerializedProto(model)

    def ids(self, text: Text) -> list[int]:
        """Ids of a text or a pair."""
        given = (text,) if isinstance(text, str) else text
        return list(self.textual.encode(*given).ids)

    def is_reachable(self, piece: str) -> bool:
        """Whether some text of one word has this piece of WordPiece in it."""
        word = f"a{piece[2:]}" if piece.startswith("##") else piece
        normalizer, cutter = self.textual.normalizer, self.textual.pre_tokenizer
        found = cutter.pre_tokenize_str(normalizer.normalize_str(word))
        return [part for part, _ in found] == [word] and len(word) <= 100

    def cut(self, text: Text, length: int) -> list[int]:
        """Ids of a text that is cut at a length, at the side that the tokenizer says."""
        given = (text,) if isinstance(text, str) else text
        side = self.theirs.truncation_side
        self.textual.enable_truncation(length, strategy="longest_first", direction=side)
        try:
            return list(self.textual.encode(*given).ids)
        finally:
            self.textual.no_truncation()

    def is_same(self, text: Text) -> bool:
        """Whether no control word is in a text, as transformers reads it."""
        given = (text,) if isinstance(text, str) else text
        return self.ids(text) == self.theirs(*given)["input_ids"]

    def inputs(self, text: Text, length: int | None = None) -> dict[str, Tensor]:
        """What a model takes, for a text without control words."""
        given = (text,) if isinstance(text, str) else text
        options = {"truncation": True, "max_length": length} if length else {}
        options["return_token_type_ids"] = self.segments
        return dict(self.theirs(*given, return_tensors="pt", **options))

    def by_sentencepiece(self, text: Text) -> list[int] | None:
        """Ids of a text that SentencePiece normalizes; None: it cannot be asked.

        What is white space between words, and the pieces of a word, are the fast tokenizers' to
        say, and so is what a text becomes before it meets the character map.
        """
        given = (text,) if isinstance(text, str) else text
        if self.judge is None or any("▁" in part for part in given):
            return None
        words = [self.judge.normalize(self._cleaned(w)).strip("▁ ") for w in self.words]
        words += self.words

        def pieces(part: str) -> list[int] | None:
            read = self.judge.normalize(self._cleaned(part)).replace("▁", " ")
            if any(word in seen for word in words for seen in (part, read)):
                return None
            return list(self.normalized.encode(read, add_special_tokens=False).ids)

        return self._framed(given, self.own, pieces)

    def by_model(self, text: Text, *, cut_commas: bool) -> list[int] | None:
        """Ids by the `.model` file alone; None: SentencePiece cannot be asked.

        It knows no added words. Between them it is asked part by part, where a part says itself how
        it begins: with a space before it, and no blanks at its edges.

        Args:
            text: a text or a pair.
            cut_commas: whether a comma behind a digit is cut off, as google-research/albert does.
        """
        given = (text,) if isinstance(text, str) else text
        if self.judge is None or any("▁" in part for part in given):
            return None
        begins = self.judge.EncodeAsPieces("a  b") == self.judge.EncodeAsPieces(" a b ")
        if not begins and self.own.intersection(self.ids(text)):
            return None
        own = {n for n in self.own if self.theirs.convert_ids_to_tokens(n) not in SYMBOLS}
        return self._framed(given, own, functools.partial(self._pieces, cut_commas=cut_commas))

    def _framed(
        self, parts: Sequence[str], own: Set[int], pieces: Callable[[str], list[int] | None]
    ) -> list[int] | None:
        """Ids of a text or a pair, of which the stretches between added words are read by `pieces`.

        Added words, those of `own`, and what is before and behind a text, are as the fast tokenizer
        has them.
        """
        rows: list[list[int]] = []
        for part in parts:
            whole = self.textual.encode(part, add_special_tokens=False)
            if self.sought_later.intersection(whole.ids):
                return None  # found in a text that the map changed: its place is only nearly known
            ids: list[int] = []
            start = 0
            for number, (first, last) in [
                *((n, at) for n, at in zip(whole.ids, whole.offsets, strict=True) if n in own),
                (None, (len(part), len(part))),
            ]:
                found = pieces(part[start:first])
                word = None if number is None else self.theirs.convert_ids_to_tokens(number)
                if found is None or (word is not None and word not in part[first:last]):
                    return None  # the second: a piece of a text that is an added word elsewhere
                ids += found if number is None else [*found, number]
                start = last
            rows.append(ids)
        frame = self.textual.encode(*("a" for _ in parts))
        built: list[int] = []
        for number, place in zip(frame.ids, frame.sequence_ids, strict=True):
            if place is None:
                built.append(number)
            else:
                built += rows[place]
                rows[place] = []
        return built

    def _pieces(self, text: str, cut_commas: bool) -> list[int]:
        judge, theirs = self.judge, self.theirs
        read = self._cleaned(text)
        for blank in {character for blanks in BLANKS for character in blanks}:
            if blank in judge.normalize(f"a{blank}a"):
                read = read.replace(blank, " ")
        pieces = judge.EncodeAsPieces(read)
        if cut_commas:
            pieces = [own for piece in pieces for own in self._at_comma(piece)]
        known = [judge.PieceToId(piece) != judge.unk_id() for piece in pieces]
        return [
            theirs.convert_tokens_to_ids(piece) if is_known else theirs.unk_token_id
            for piece, is_known in zip(pieces, known, strict=True)
        ]

    def _at_comma(self, piece: str) -> list[str]:
        """Pieces of a piece that ends with a digit and a comma."""
        if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
            return [piece]
        found = list(self.judge.EncodeAsPieces(piece[:-1].replace("▁", "")))
        if piece[0] != "▁" and found[0][0] == "▁":
            found = found[1:] if len(found[0]) == 1 else [found[0][1:], *found[1:]]
        return [*found, ","]

    def _cleaned(self, text: str) -> str:
        """A text as it is before the character map."""
        for normalizer in self.before:
            text = normalizer.normalize_str(text)
        return text


def is_graphemic(text: str) -> bool:
    """Whether fast tokenizers look up clusters of characters where SentencePiece does not."""
    return any(
        c in "\u200c\u200d\u034f\u00ad"
        or "\uff61" <= c <= "\uffdc"
        or "\u1100" <= c <= "\u11ff"
        or unicodedata.category(c)[0] in "MC"
        or unicodedata.category(c) in ("Sk", "Lm")
        for c in text
    )


def has_run(text: str) -> bool:
    """Whether a character is there many times in a row."""
    return any(text[n : n + 1] * 8 == text[n : n + 8] for n in range(len(text) - 7))


def tell_segments(folder: Path, family: str, theirs: Any) -> bool:
    """Let a tokenizer tell sentences apart where it does so here and in version 4, not in 5.

    Args:
        folder: of the tokenizer.
        family: `model_type`.
        theirs: transformers' own, which is changed; see docs/start/from_transformers.md.

    Returns:
        Whether it was changed.
    """
    path = folder / "tokenizer_config.json"
    about = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    name = about.get("tokenizer_class") or ("AlbertTokenizer" if family == "albert" else "")
    known = name.removesuffix("Fast") in ("AlbertTokenizer", "PreTrainedTokenizer")
    types = theirs("a", "b", return_token_type_ids=True)["token_type_ids"]
    if "model_input_names" in about or not known or 1 not in types:
        return False
    theirs.model_input_names = [*theirs.model_input_names, "token_type_ids"]
    return True


def states(model: Any, inputs: Sequence[dict[str, Tensor]]) -> list[Tensor]:
    """Last hidden states of each text, (T, C)."""
    with torch.no_grad():
        return [model.base_model(**given).last_hidden_state[0] for given in inputs]


def logits(model: Any, inputs: dict[str, Tensor]) -> Any:
    """All that a model with a head answers."""
    with torch.no_grad():
        return model(**inputs)
