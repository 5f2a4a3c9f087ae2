"""Adds tokens of the user's own to a model: to its vocabulary, its embedding table and LM head."""

from __future__ import annotations

from collections.abc import Iterable

from roberta_hub.arguments import kind_of, short_repr
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.model.new_rows import add_rows
from roberta_hub.model.roberta import Roberta
from roberta_hub.rows.frames import list_of
from roberta_hub.text.added import CONTROL_NAMES
from roberta_hub.text.added_token import AddedToken
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import add_to


def tokens_of(words: str | Iterable[str], flags: dict[str, bool | None]) -> list[AddedToken]:
    """Make added tokens of words, each once and in their order.

    Example:
        >>> [token.word for token in tokens_of(["[E1]", "[E2]", "[E1]"], {"special": True})]
        ['[E1]', '[E2]']
    """
    for name, value in flags.items():
        if not isinstance(value, bool) and not (name == "normalized" and value is None):
            raise InputTypeError(f"{name} is {short_repr(value)}; choose True or False")
    if flags.get("normalized") is None:
        flags = {**flags, "normalized": not flags.get("special")}
    if isinstance(words, bytes):
        raise InputTypeError("tokens is bytes; pass a str, or a list of them")
    given = [words] if isinstance(words, str) else list_of(words, "tokens")
    for place, word in enumerate(given):
        if not isinstance(word, str):
            raise InputTypeError(
                f"tokens[{place}] is a {kind_of(word)}, not a str; how tokens are found is said by "
                "lstrip=, rstrip=, single_word= and normalized="
            )
        if not word:
            raise InputError(f"tokens[{place}] is empty")
    return [AddedToken(word, **flags) for word in dict.fromkeys(given)]  # type: ignore[arg-type]


def with_new_tokens(model: Roberta, tokenizer: Tokenizer, tokens: list[AddedToken]) -> Tokenizer:
    """Give a model further tokens, and return the tokenizer that finds them.

    The tokenizer's dictionary grows, and so do the model's tables; a word that the dictionary has
    keeps its id and its row. Nothing changes where there is an error.
    """
    if not tokens:
        return tokenizer
    layout, dictionary = tokenizer.layout, tokenizer.dictionary
    tokenizer.engine.encode_ids("")  # refuses a model without a vocabulary
    roles = {layout.pad, layout.unk, layout.mask, *layout.begins, *layout.ends}
    for token in tokens:
        if token.word in CONTROL_NAMES or dictionary.indices.get(token.word) in roles:
            raise InputError(
                f"{short_repr(token.word)} is a special token, which no text writes; choose "
                "another word"
            )
    engine = add_to(tokenizer.engine, tokens)
    new = [symbol for symbol in engine.added if symbol not in dictionary]
    start = len(dictionary)
    if new:
        add_rows(model, start, start + len(new))
    for symbol in new:
        dictionary.add_symbol(symbol)
    return Tokenizer(engine, dictionary, layout)
