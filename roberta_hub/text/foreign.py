"""Takes an engine that has fairseq's methods alone for a `SubwordTokenizer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from roberta_hub.arguments import kind_of
from roberta_hub.errors import CheckpointError, InputTypeError, VocabularyError
from roberta_hub.text.characters import check_text
from roberta_hub.text.dictionary import MASK, SPECIALS, Dictionary
from roberta_hub.text.pieces import JoinedBatch


class ForeignEngine:
    """An object's `encode(text)`, symbols separated by spaces, and its `decode` of them.

    Its pieces are numbered as in the dictionary. It knows no places of characters, so that verbs
    which show or count words refuse, and it is not saved with the model.

    Example:
        >>> class Letters:
        ...     def encode(self, x):
        ...         return " ".join(x)
        ...     def decode(self, x):
        ...         return x.replace(" ", "")
        >>> letters = Dictionary()
        >>> letters.add_symbol("a"), letters.add_symbol("b")
        (4, 5)
        >>> ForeignEngine(Letters(), letters).encode_ids("ab?")
        [4, 5, 3]
    """

    batch_encoder: JoinedBatch | None = None
    settings: Mapping[str, object] = {"tokenizer_class": "an engine of the caller's own"}

    def __init__(self, engine: Any, dictionary: Dictionary) -> None:
        self.engine, self._dictionary = engine, dictionary
        self._special = frozenset(dictionary.index(symbol) for symbol in (*SPECIALS, MASK))
        self.symbols = {symbol: number for number, symbol in enumerate(dictionary.symbols)}
        self.size = len(dictionary)

    @property
    def fingerprint(self) -> str:
        """Its class: what it does is not known."""
        return f"{type(self.engine).__module__}.{type(self.engine).__qualname__}"

    def encode(self, x: str) -> str:
        """Return the symbols of a text, separated by spaces, or refuse an object that does not."""
        check_text(x)
        found = self._method("encode")(x)
        if not isinstance(found, str):
            raise InputTypeError(
                f"{self._name}.encode gives a {kind_of(found)}; fairseq's engines give a str of "
                "symbols separated by spaces"
            )
        return found

    def decode(self, x: str) -> str:
        """Return the text of symbols."""
        return str(self._method("decode")(x))

    def is_beginning_of_word(self, x: str) -> bool:
        """Whether a symbol begins a word, as the object says."""
        return bool(self._method("is_beginning_of_word")(x))

    def encode_ids(self, text: str) -> list[int]:
        """Number the symbols of a text."""
        return [self._dictionary.index(symbol) for symbol in self.encode(text).split()]

    def piece(self, number: int) -> str:
        """Return a symbol."""
        return self._dictionary[number]

    def surface(self, number: int) -> bytes:
        """Return a symbol as bytes; `join` decodes several."""
        return self.piece(number).encode()

    def is_text(self, number: int) -> bool:
        """Whether a symbol is none of the special ones."""
        return number not in self._special

    def begins_word(self, number: int) -> bool:
        """Whether a symbol begins a word, as the object says."""
        return self.is_beginning_of_word(self.piece(number))

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Return the text of symbols."""
        return self.decode(" ".join(surface.decode() for surface in surfaces if surface))

    @property
    def _name(self) -> str:
        return type(self.engine).__name__

    def _method(self, name: str) -> Any:
        method = getattr(self.engine, name, None)
        if not callable(method):
            raise InputTypeError(
                f"roberta.bpe is a {kind_of(self.engine)} without {name}(); fairseq's engines have "
                "encode(text) and decode(symbols)"
            )
        return method

    def _refuse(self, *asked: object) -> NoReturn:
        raise VocabularyError(
            f"{self._name} does not say which characters its symbols are of, which this verb needs;"
            " encode, decode and the methods on ids work"
        )

    word_surface = spans = normalized = _refuse

    def _unsaved(self, *asked: object) -> NoReturn:
        raise CheckpointError(
            f"roberta.bpe is a {self._name} of your own, which cannot be saved with the model; "
            "save it after roberta.bpe = the engine that was loaded"
        )

    files = fairseq_files = _unsaved
