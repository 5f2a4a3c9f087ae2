"""Freeze what WordPiece and ALBERT know of Unicode: write `roberta_hub/text/unicode.json`.

    python -m tools.build_unicode

Nearly every model with their vocabularies was made or is used with Hugging Face's tokenizers, whose
tables of Unicode are of several years. Python's differ from those, and from one Python to the next,
and so would the ids. This asks the installed tokenizers what it does with each character, and
writes that down. The digest printed at the end belongs in `roberta_hub/text/unicode.py`, whose
docstring describes the file.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

TARGET = Path(__file__).parents[1] / "roberta_hub" / "text" / "unicode.json"
HANGUL = range(0xAC00, 0xD7A4)
"""Syllables, which fall into letters by arithmetic."""
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def ranges(characters: Iterable[str]) -> list[list[int]]:
    """First and last code point of each run of characters."""
    found: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def tables() -> dict[str, object]:
    """Ask tokenizers about every character."""
    from tokenizers import __version__, normalizers, pre_tokenizers

    def changed(normalizer: normalizers.Normalizer) -> dict[str, str]:
        every = ((c, normalizer.normalize_str(c)) for c in EVERY)
        return {c: new for c, new in every if new != c}

    def bert(**steps: bool) -> dict[str, str]:
        none = {"clean_text": False, "handle_chinese_chars": False}
        none |= {"strip_accents": False, "lowercase": False}
        return changed(normalizers.BertNormalizer(**none | steps))

    clean, stripped = bert(clean_text=True), bert(strip_accents=True)
    decomposed, compatible = changed(normalizers.NFD()), changed(normalizers.NFKD())
    accents = changed(normalizers.StripAccents())
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    white = pre_tokenizers.WhitespaceSplit().pre_tokenize_str
    marks = {c for c, new in stripped.items() if not new}
    places = order(normalizers.NFD().normalize_str)
    return {
        "source": f"tokenizers {__version__}",
        "dropped": ranges(c for c, new in clean.items() if not new),
        "blank": ranges(c for c, new in clean.items() if new == " "),
        "chinese": ranges(bert(handle_chinese_chars=True)),
        "punctuation": ranges(c for c in EVERY if len(split(f"a{c}a")) == 3),
        "marks": ranges(marks),
        "order": {str(place): ranges(own) for place, own in places.items()},
        "lower": bert(lowercase=True),
        "decomposed": {c: new for c, new in decomposed.items() if ord(c) not in HANGUL},
        "accents": ranges(c for c, new in accents.items() if not new),
        "compatible": {c: new for c, new in compatible.items() if decomposed.get(c) != new},
        "white": "".join(c for c in EVERY if len(white(f"a{c}a")) == 2),
    }


def order(decompose: Callable[[str], str]) -> dict[int, list[str]]:
    """Combining characters that tokenizers puts in order, by their place among their like.

    The places are Python's, and are compared: those of a Unicode newer than tokenizers' have none.
    """
    low, high = "\u0334", "\u0345"  # of the first and of the last place
    known = [
        c
        for c in EVERY
        if unicodedata.combining(c)
        and decompose(c) == c
        and (decompose(f"a{c}{low}") == f"a{low}{c}" or decompose(f"a{high}{c}") == f"a{c}{high}")
    ]
    found: dict[int, list[str]] = {}
    for c in known:
        found.setdefault(unicodedata.combining(c), []).append(c)
    examples = [own[0] for own in found.values()]
    for first in known:
        for second in examples:
            swapped = decompose(f"a{first}{second}") == f"a{second}{first}"
            earlier = unicodedata.combining(second) < unicodedata.combining(first)
            if first != second and swapped != earlier:
                raise SystemExit(f"{first!r} and {second!r} stand in another order")
    return dict(sorted(found.items()))


def main() -> None:
    """Write the file and print its digest."""
    text = json.dumps(tables(), ensure_ascii=False, separators=(",", ":"))
    data = text.replace('],"', '],\n"').replace('},"', '},\n"').encode() + b"\n"
    TARGET.write_bytes(data)
    print(f"{TARGET.name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
