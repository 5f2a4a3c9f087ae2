"""What transformers makes of a text, as docs/differences.md says that a text is read here.

Words with a role are text here and control tokens there, so its tokenizer is asked without them.
Where its fast tokenizers lose a mark or take another rule of the character map, SentencePiece
itself is asked.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import Tokenizer
from torch import Tensor

from .folder_tokenizers import CONTROLS, ROLES

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
        self.before = [
            Tokenizer.from_str(json.dumps({**table, "normalizer": step})).normalizer
            for step in steps
            if step and step["type"] not in ("Precompiled", "Strip")
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
        if self.own.intersection(self.ids(text)):
            return None
        read = [self.judge.normalize(self._cleaned(part)).replace("▁", " ") for part in given]
        words = [self.judge.normalize(self._cleaned(w)).strip("▁ ") for w in self.words]
        words += self.words
        if any(word in part for part in (*given, *read) for word in words):
            return None
        return list(self.normalized.encode(*read).ids)

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
        theirs: transformers' own, which is changed; see docs/from_transformers.md.

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
