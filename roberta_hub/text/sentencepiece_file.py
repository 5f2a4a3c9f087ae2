"""Reads and writes SentencePiece's `.model` files, and checks every field that it reads.

Files are checked before the library reads them: older versions crash on invalid files. A model is
rewritten from the checked values, with everything that changes the ids of a text; settings of the
training are left out, and unknown fields are refused.

Field numbers: `sentencepiece_model.proto` of SentencePiece; wire types: the encoding of protocol
buffers.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from roberta_hub.errors import VocabularyError
from roberta_hub.files import read_bytes
from roberta_hub.text.character_map import check_character_map
from roberta_hub.text.protobuf import Value, field, field_at, fields

MAX_MODEL_BYTES = 64 << 20
"""Largest file; XLM-R's has 5 MB."""
MAX_PIECES = 2_000_000
"""XLM-R has 250,000."""
MAX_PIECE = 1024
"""Bytes of a piece; XLM-R's longest has 48."""
MAX_SCORE = 1e9
"""Bound of a score's absolute value; scores are log-probabilities or merge ranks."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The kinds of a piece: a control piece is never cut out of a text, a user's always."""
BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256))
"""The pieces of a model with byte_fallback."""
UNIGRAM, BPE = 1, 2
"""The types of model that are read."""

_PIECE, _TRAINER, _NORMALIZER, _SELF_TEST, _DENORMALIZER = range(1, 6)
_MODEL_TYPE, _VOCAB_SIZE, _AS_SUFFIX, _FALLBACK, _UNK_ID, _UNK_PIECE = 3, 4, 24, 35, 40, 45
_OF_TRAINING = {*range(1, 8), *range(10, 27), *range(30, 37), *range(40, 56)}
"""Every field of the trainer's settings up to version 0.2.3."""
_CHARACTER_MAP, _DUMMY_PREFIX, _EXTRA_SPACES, _ESCAPE = 2, 3, 4, 5
_OF_NORMALIZER = set(range(1, 7))


@dataclass(frozen=True)
class SentencePieceModel:
    """What a `.model` file says, checked."""

    texts: tuple[str, ...]
    """The pieces, without duplicates; a piece's index is its number."""
    scores: array[float]
    """Score of each piece, in 32 bits."""
    kinds: bytes
    """Kind of each piece; exactly one is `UNKNOWN`."""
    type: int = UNIGRAM
    """`UNIGRAM` or `BPE`."""
    character_map: bytes = b""
    """What characters are read as; empty: as themselves."""
    add_dummy_prefix: bool = True
    """A text is read with a space before it."""
    remove_extra_whitespaces: bool = True
    """Spaces at the ends go, and those in a row are one."""
    byte_fallback: bool = False
    """An unknown character becomes pieces of its bytes."""
    denormalizer: bytes = b""
    """A character map for decoded texts, which fairseq does not use; kept for the file."""

    @property
    def unknown(self) -> int:
        """Number of the unknown piece."""
        return self.kinds.index(UNKNOWN)

    def with_controls(self, names: Collection[str]) -> SentencePieceModel:
        """Return a model that never cuts these pieces out of a text."""
        kinds = bytearray(self.kinds)
        places = {text: i for i, text in enumerate(self.texts) if text in names}
        for place in places.values():
            if kinds[place] != UNKNOWN:
                kinds[place] = CONTROL
        return dataclasses.replace(self, kinds=bytes(kinds))

    def check(self) -> None:
        """Refuse what no trainer writes, and what would lead a library astray."""
        if not self.texts:
            raise VocabularyError("it has no pieces")
        if len(self.texts) > MAX_PIECES:
            raise VocabularyError(f"it has more than {MAX_PIECES:,} pieces")
        if self.type not in (UNIGRAM, BPE):
            raise VocabularyError(
                f"its model type is {self.type}; 1, unigram, and 2, BPE, are read here"
            )
        self._check_kinds()
        wild = ~(torch.frombuffer(self.scores, dtype=torch.float32).abs() <= MAX_SCORE)
        if bool(wild.any()):  # NaN among them
            number = int(wild.nonzero()[0])
            raise VocabularyError(
                f"piece {number}, {self.texts[number][:40]!r}, has the score "
                f"{self.scores[number]}; scores are finite and within ±{MAX_SCORE:g}"
            )
        check_character_map(self.character_map)
        check_character_map(self.denormalizer)

    def _check_kinds(self) -> None:
        if self.kinds.count(UNKNOWN) != 1:
            raise VocabularyError(
                f"{self.kinds.count(UNKNOWN)} of its pieces stand for unknown characters; exactly "
                "one does so in a sound model"
            )
        if len(set(self.texts)) < len(self.texts):
            places = {text: place for place, text in enumerate(self.texts)}
            twice = next(text for place, text in enumerate(self.texts) if places[text] != place)
            raise VocabularyError(f"the piece {twice[:40]!r} stands in it twice")
        of_bytes = {text for text, kind in zip(self.texts, self.kinds, strict=True) if kind == BYTE}
        expected = BYTES if self.byte_fallback else set()
        if of_bytes != expected:
            raise VocabularyError(
                f"it has {len(of_bytes)} pieces for bytes, and says that byte_fallback is "
                f"{self.byte_fallback}; a sound model has <0x00> to <0xFF> or none"
            )

    def serialized(self) -> bytes:
        """Write the file that `read_model` reads, in the one form that every version reads."""
        scores = struct.pack(f"<{len(self.texts)}f", *self.scores)
        parts = [
            _piece(text.encode(), scores[4 * i : 4 * i + 4], kind)
            for i, (text, kind) in enumerate(zip(self.texts, self.kinds, strict=True))
        ]
        trainer = field(_MODEL_TYPE, self.type) + field(_VOCAB_SIZE, len(self.texts))
        if self.byte_fallback:
            trainer += field(_FALLBACK, 1)
        trainer += field(_UNK_ID, self.unknown)
        trainer += field(_UNK_PIECE, self.texts[self.unknown].encode())
        normalizer = field(_CHARACTER_MAP, self.character_map) if self.character_map else b""
        normalizer += field(_DUMMY_PREFIX, int(self.add_dummy_prefix))
        normalizer += field(_EXTRA_SPACES, int(self.remove_extra_whitespaces))
        parts += [field(_TRAINER, trainer), field(_NORMALIZER, normalizer)]
        if self.denormalizer:
            parts.append(field(_DENORMALIZER, field(_CHARACTER_MAP, self.denormalizer)))
        return b"".join(parts)


def read_model(path: str | os.PathLike[str]) -> SentencePieceModel:
    """Read a `.model` file of at most `MAX_MODEL_BYTES`."""
    data = read_bytes(path, MAX_MODEL_BYTES, VocabularyError, "SentencePiece model")
    return parse_model(data, os.fspath(Path(path)))


def parse_model(data: bytes, source: str) -> SentencePieceModel:
    """Read the bytes of a `.model` file; `source` names it in errors."""
    try:
        if len(data) > MAX_MODEL_BYTES:
            raise VocabularyError(f"it has {len(data):,} bytes, the limit is {MAX_MODEL_BYTES:,}")
        model = _model(data)
        model.check()
    except VocabularyError as error:
        if data.startswith(b"\r\n"):  # a model begins with the byte of "\n"
            raise VocabularyError(
                f"{source} was damaged on its way: each line end in it became CRLF, as git with "
                "autocrlf or a transfer as text does; fetch it again as a binary file"
            ) from None
        raise VocabularyError(f"{source} is no sound SentencePiece model: {error}") from None
    return model


def model_of(
    texts: Sequence[str], scores: Sequence[float], kinds: bytes, **settings: Any
) -> SentencePieceModel:
    """Make a model of pieces from another source, with their scores in 32 bits, and check it.

    Example:
        >>> model = model_of(["<unk>", "a"], [0.0, -1.0], bytes([UNKNOWN, NORMAL]))
        >>> parse_model(model.serialized(), "a.model") == model
        True
    """
    try:
        numbers = array("f", scores)
    except (OverflowError, TypeError) as error:
        raise VocabularyError(f"a score is no number of 32 bits: {error}") from None
    for number, text in enumerate(texts):
        _check_piece(text.encode(errors="surrogatepass"), number)
    model = SentencePieceModel(tuple(texts), numbers, kinds, **settings)
    model.check()
    return model


# ---- reading ----


def _model(data: bytes) -> SentencePieceModel:
    pieces = _Pieces([], bytearray(), bytearray())
    parts: dict[int, dict[int, Value]] = {}
    place = 0
    while (place := pieces.read(data, place)) < len(data):
        number, value, place = field_at(data, place)
        if number == _PIECE:
            pieces.add(_message(value, "piece"))
        elif number in (_TRAINER, _NORMALIZER, _DENORMALIZER):
            if number in parts:
                raise VocabularyError(f"field {number} stands in it twice")
            parts[number] = _settings(_message(value, "settings"), trainer=number == _TRAINER)
        elif number != _SELF_TEST:
            raise VocabularyError(f"it has a field {number}, which is not known")
    trainer, normalizer = parts.get(_TRAINER, {}), parts.get(_NORMALIZER, {})
    _check_settings(trainer, normalizer)
    return SentencePieceModel(
        texts=tuple(pieces.texts()),
        scores=array("f", struct.unpack(f"<{len(pieces.raw)}f", pieces.scores)),
        kinds=bytes(pieces.kinds),
        type=_whole(trainer, _MODEL_TYPE, UNIGRAM),
        character_map=_message(normalizer.get(_CHARACTER_MAP, b""), "character map"),
        add_dummy_prefix=bool(_whole(normalizer, _DUMMY_PREFIX, 1)),
        remove_extra_whitespaces=bool(_whole(normalizer, _EXTRA_SPACES, 1)),
        byte_fallback=bool(_whole(trainer, _FALLBACK, 0)),
        denormalizer=_message(
            parts.get(_DENORMALIZER, {}).get(_CHARACTER_MAP, b""), "character map"
        ),
    )


@dataclass(frozen=True)
class _Pieces:
    """The pieces of a file, as far as they are read."""

    raw: list[bytes]
    scores: bytearray
    kinds: bytearray

    def read(self, data: bytes, place: int) -> int:
        """Read pieces in the form that every writer gives them, up to one that has another.

        The form is: length, text, score, and the kind where it is not `NORMAL`. A loop of its own,
        since there are 250,000.
        """
        raw, scores, kinds = self.raw, self.scores, self.kinds
        end = place
        try:
            while len(raw) < MAX_PIECES:
                length, size = data[place + 1], data[place + 3]
                start, end = place + 4, place + 2 + length
                behind = start + size
                rest = end - behind
                if data[place] != 10 or data[place + 2] != 10 or length > 127 or not 0 < size < 128:
                    break
                if data[behind] != 21 or (rest != 5 and not (rest == 7 and data[end - 2] == 24)):
                    break
                kind = NORMAL if rest == 5 else data[end - 1]
                if not NORMAL <= kind <= BYTE or end > len(data):
                    break
                raw.append(data[start:behind])
                scores += data[behind + 1 : behind + 5]
                kinds.append(kind)
                place = end
        except IndexError:  # the file ends here, or inside a piece
            pass
        return place

    def add(self, message: bytes) -> None:
        """Read a piece in any form."""
        number = len(self.raw)
        if number == MAX_PIECES:
            raise VocabularyError(f"it has more than {MAX_PIECES:,} pieces")
        found: dict[int, Value] = {}
        for place, value in fields(message):
            if place > 3:
                raise VocabularyError(f"piece {number} has a field {place}, which is not known")
            found[place] = value
        score, kind = found.get(2, 0.0), _whole(found, 3, NORMAL)
        if not isinstance(score, float) or not NORMAL <= kind <= BYTE:
            raise VocabularyError(f"piece {number} has a score or a kind that is not known")
        self.raw.append(_message(found.get(1, b""), "piece's text"))
        self.scores.extend(struct.pack("<f", score))
        self.kinds.append(kind)

    def texts(self) -> list[str]:
        """Return the texts of the pieces, each checked."""
        try:
            texts = b"\0".join(self.raw).decode().split("\0")  # all at once: much faster
        except UnicodeDecodeError:
            texts = []
        sizes = set(map(len, self.raw))
        if len(texts) != len(self.raw) or 0 in sizes or max(sizes, default=0) > MAX_PIECE:
            texts = [_check_piece(piece, number) for number, piece in enumerate(self.raw)]
        return texts


def _check_piece(data: bytes, place: int) -> str:
    if not 0 < len(data) <= MAX_PIECE:
        raise VocabularyError(
            f"piece {place} has {len(data):,} bytes; a piece has 1 to {MAX_PIECE:,}"
        )
    if b"\0" in data:
        raise VocabularyError(f"piece {place} holds U+0000")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise VocabularyError(f"piece {place} is not UTF-8 at byte {error.start}") from None


def _settings(data: bytes, *, trainer: bool) -> dict[int, Value]:
    """Return the fields of the trainer's settings or of a normalizer's, the last of each."""
    known, what = (_OF_TRAINING, "trainer") if trainer else (_OF_NORMALIZER, "normalizer")
    found: dict[int, Value] = {}
    for number, value in fields(data):
        if number not in known:
            raise VocabularyError(
                f"its {what} has a field {number}, which is not known and could change ids"
            )
        found[number] = value
    return found


def _check_settings(trainer: dict[int, Value], normalizer: dict[int, Value]) -> None:
    if _whole(trainer, _AS_SUFFIX, 0):
        raise VocabularyError("it puts the space behind a word (treat_whitespace_as_suffix)")
    if not _whole(normalizer, _ESCAPE, 1):
        raise VocabularyError("it does not write a space as ▁ (escape_whitespaces is false)")


def _whole(found: dict[int, Value], number: int, default: int) -> int:
    value = found.get(number, default)
    if not isinstance(value, int):
        raise VocabularyError(f"the setting {number} is no whole number")
    return value


def _message(value: Value, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise VocabularyError(f"a {what} is no row of bytes")
    return value


def _piece(text: bytes, score: bytes, kind: int) -> bytes:
    size = len(text)
    if size < 112 and kind == NORMAL:  # nearly all, in one step
        return b"\n%c\n%c%b\x15%b" % (size + 7, size, text, score)
    body = field(1, text) + b"\x15" + score
    return field(_PIECE, body if kind == NORMAL else body + field(3, kind))
