"""Writes and reads the tokenizer.json of a unigram model, which servers need."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.text.albert import Cleaning, ends_in_comma
from roberta_hub.text.sentencepiece_file import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    SentencePieceModel,
    model_of,
)
from roberta_hub.text.unigram_family import Family

_COMMA_PENALTY = 100.0
"""What a piece like `▁9,` loses, as in transformers, since tokenizers cannot cut it again."""
_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


# ---- writing ----


def tokenizer_json(model: SentencePieceModel, family: Family, rows: Sequence[int | str]) -> bytes:
    """Write the tokenizer.json from which `tokenizers` builds a unigram model.

    Args:
        model: gives texts, scores and the character map.
        family: how texts are cleaned and sentences joined.
        rows: what each of the model's ids is: a piece's number, or a symbol that is no piece.
    """
    names = [row if isinstance(row, str) else model.texts[row] for row in rows]
    unknown = model.texts[model.unknown]
    prefix = "always" if model.add_dummy_prefix else "never"
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": prefix, "split": True}
    cutters = [{"type": "WhitespaceSplit"}, space] if model.remove_extra_whitespaces else [space]
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(names, family, unknown),
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(model, family)},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cutters},
        "post_processor": _post_processor(names, family),
        "decoder": space,
        "model": {
            "type": "Unigram",
            "unk_id": names.index(unknown),
            "vocab": [
                [name, _score(model, family, row)] for name, row in zip(names, rows, strict=True)
            ],
            "byte_fallback": model.byte_fallback,
        },
    }
    return json.dumps(table, ensure_ascii=False).encode()


def _score(model: SentencePieceModel, family: Family, row: int | str) -> float:
    if isinstance(row, str):
        return 0.0
    cut = family.cleaning is not None and ends_in_comma(model.texts[row])
    return model.scores[row] - _COMMA_PENALTY * cut


def _added(names: Sequence[str], family: Family, unknown: str) -> list[dict[str, object]]:
    """List the special symbols; white space before a mask belongs to it, as to ours."""
    special = {family.bos, family.eos, family.pad, family.mask, unknown, *family.first}
    return [
        {"id": i, "content": name} | _PLAIN | {"lstrip": name == family.mask, "special": True}
        for i, name in enumerate(names)
        if name in special
    ]


def _normalizers(model: SentencePieceModel, family: Family) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    if family.cleaning is not None:
        for quotes in ("``", "''"):
            parts.append({"type": "Replace", "pattern": {"String": quotes}, "content": '"'})
        if not family.cleaning.keep_accents:
            parts += [{"type": "NFKD"}, {"type": "StripAccents"}]
        if family.cleaning.do_lower_case:
            parts.append({"type": "Lowercase"})
    if model.character_map:
        blob = base64.b64encode(model.character_map).decode()
        parts.append({"type": "Precompiled", "precompiled_charsmap": blob})
    return parts


def _post_processor(names: Sequence[str], family: Family) -> dict[str, object]:
    def special(name: str, segment: int) -> dict[str, object]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, object]:
        return {"Sequence": {"id": name, "type_id": segment}}

    second = 1 if family.separators == 1 else 0  # a second segment, where the family has one
    bos, eos = special(family.bos, 0), special(family.eos, 0)
    single = [bos, text("A", 0), eos]
    pair = [*single, *[eos] * (family.separators - 1)]
    pair += [text("B", second), special(family.eos, second)]
    tokens = {
        name: {"id": name, "ids": [names.index(name)], "tokens": [name]}
        for name in (family.bos, family.eos)
    }
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": tokens,
    }


# ---- reading ----


def read_unigram(
    table: Mapping[str, Any], specials: set[str]
) -> tuple[SentencePieceModel, Cleaning | None]:
    """Make a model of a tokenizer.json's vocabulary, whose order stays, and its character map.

    Args:
        table: the file.
        specials: names that no text may write, beside those that the file adds.

    Returns:
        (model, ALBERT's cleaning where the normalizer has one).

    Raises:
        VocabularyError: no unigram model, or one whose texts are changed or cut in another way than
            SentencePiece does: the message says which part.
    """
    try:
        part = table["model"]
        texts = [str(text) for text, _ in part["vocab"]]
        scores = [float(score) for _, score in part["vocab"]]
        unknown = part["unk_id"]
        added = {
            token["content"]: bool(token["special"]) for token in table.get("added_tokens") or ()
        }
        blob, cleaning = _read_normalizer(table.get("normalizer"))
        prefix = _begins_with_space(table.get("pre_tokenizer"))
        fallback = bool(part.get("byte_fallback", False))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise VocabularyError(
            f"it holds no unigram model ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    if type(unknown) is not int or not 0 <= unknown < len(texts):
        raise VocabularyError(f"unk_id is {brief(unknown)}, and it has {len(texts)} pieces")
    _check_added(added)
    if cleaning is not None:  # the engine cuts such pieces again
        scores = [
            score + _COMMA_PENALTY if ends_in_comma(text) and score <= -_COMMA_PENALTY else score
            for text, score in zip(texts, scores, strict=True)
        ]
    controls = specials | added.keys()
    kinds = bytearray(CONTROL if text in controls else NORMAL for text in texts)
    kinds[unknown] = UNKNOWN
    if fallback:
        raise VocabularyError("byte_fallback is true, which is read from a .model file only")
    model = model_of(
        texts,
        scores,
        bytes(kinds),
        character_map=blob,
        add_dummy_prefix=prefix,
    )
    return model, cleaning


def _check_added(added: Mapping[str, bool]) -> None:
    """Refuse added words that a text can write."""
    words = [word for word, special in added.items() if not special]
    if words:
        raise VocabularyError(
            f"it adds words that a text can write, {brief(words[0])} among them, which is not done "
            "here, so their texts would get other ids; add them as special tokens, and save the "
            "tokenizer again"
        )


def _parts(part: Any, inner: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    return list(part[inner]) if part["type"] == "Sequence" else [part]


def _read_normalizer(normalizer: Any) -> tuple[bytes, Cleaning | None]:
    """Return the character map and ALBERT's cleaning."""
    blob, kinds = b"", []
    for part in _parts(normalizer, "normalizers"):
        kind = part["type"]
        if kind == "Precompiled":
            blob = base64.b64decode(part["precompiled_charsmap"] or "", validate=True)
        elif kind == "Replace" and part["pattern"] in ({"String": "``"}, {"String": "''"}):
            kinds.append("quotes")
        elif kind in ("NFKD", "StripAccents", "Lowercase"):
            kinds.append(kind)
        elif not (kind == "Strip" or (kind == "Replace" and part["content"] == " ")):
            # Spaces that go or become one are what SentencePiece does.
            raise VocabularyError(
                f"its normalizer has a part {brief(kind)}, which is not done here"
            )
    if not kinds:
        return blob, None
    return blob, Cleaning(do_lower_case="Lowercase" in kinds, keep_accents="NFKD" not in kinds)


def _begins_with_space(cutter: Any) -> bool:
    """Return whether a text is read with a space before it."""
    prefix = False
    for part in _parts(cutter, "pretokenizers"):
        kind, scheme = part["type"], part.get("prepend_scheme")
        if kind == "Metaspace" and part.get("replacement", "▁") == "▁":
            prefix = part.get("add_prefix_space", True) if scheme is None else scheme != "never"
        elif kind != "WhitespaceSplit":
            raise VocabularyError(
                f"its pre_tokenizer has a part {brief(kind)}, which is not done here"
            )
    return bool(prefix)
