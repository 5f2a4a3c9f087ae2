"""Reads the steps of a tokenizer.json, and refuses by name those that are not done here.

A step is a normalizer, a pre_tokenizer or a post_processor. transformers' classes of a family read
only a part of the file and have the rest in their code, and its generic classes read all of it:
where the two would give other ids, the file is refused as well.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import Remedy, VocabularyError
from roberta_hub.text.unigram_family import Cleaning

PARTS = (
    "version",
    "truncation",
    "padding",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
)
"""Keys of the file. `truncation` and `padding` are the state in which it was saved: transformers
sets both for each call."""
_MODELS = {
    "BPE": {
        "dropout",
        "unk_token",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "fuse_unk",
        "byte_fallback",
        "ignore_merges",
        "merges",
    },
    "WordPiece": {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"},
    "Unigram": {"unk_id", "byte_fallback"},
}
"""Settings of each kind of model, without its type and vocabulary."""
_STEPS = {
    "BertNormalizer": {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
    "ByteLevel": {"add_prefix_space", "trim_offsets", "use_regex"},
    "Metaspace": {"replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"},
    "Precompiled": {"precompiled_charsmap"},
    "Replace": {"pattern", "content"},
    "Strip": {"strip_left", "strip_right"},
}
"""Settings of each step; a step that is not listed has none."""
MAX_NESTED_STEPS = 8
"""Sequences within sequences; transformers writes one."""
_ROWS = ("normalizers", "pretokenizers", "processors")
"""What a sequence calls its steps."""
_OTHERWISE = Remedy("cut the texts with transformers, and give the model its ids")
_QUOTES = ({"String": "``"}, {"String": "''"})
_RUNS = {"Regex": " {2,}"}


def refused(name: str, value: object, reads: str) -> VocabularyError:
    """Return the error for a setting that is not supported; `reads` says what is."""
    return VocabularyError(
        f"{name} is {brief(value)}; this version reads {reads}, and would give other ids",
        remedy=_OTHERWISE,
    )


def at_odds(name: str, value: object, kind: str, own: object) -> VocabularyError:
    """Return the error for a setting that a class of transformers does not read; it has `own`."""
    return VocabularyError(
        f"{name} is {brief(value)}, and {kind}, the class of this tokenizer, has {brief(own)} "
        "whatever the file says: one of the two gives other ids than in training",
        remedy=Remedy(
            'write "tokenizer_class": "PreTrainedTokenizerFast" into tokenizer_config.json where '
            "tokenizer.json is right, else correct tokenizer.json"
        ),
    )


def check_parts(table: Mapping[str, Any]) -> None:
    """Refuse a version or a part that is not known."""
    if (version := table.get("version", "1.0")) != "1.0":
        raise refused("version", version, "'1.0'")
    _known(table, set(PARTS), "the file")


def check_model(model: Mapping[str, Any], kind: str) -> None:
    """Refuse a model of another kind, or one with a setting that is not known."""
    if (named := model.get("type", kind)) != kind:
        raise refused("model", named, repr(kind))
    _known(model, {"type", "vocab", *_MODELS[kind]}, "its model")


def _known(part: Mapping[str, Any], known: set[str], where: str) -> None:
    if new := sorted(part.keys() - known):
        raise VocabularyError(
            f"{where} has {brief(new[0])}, which this version does not know and which could change "
            f"ids; it knows {', '.join(sorted(known))}",
            remedy=_OTHERWISE,
        )


def steps(part: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a part, in order, out of its sequences; None: it has none.

    Example:
        >>> steps({"type": "Sequence", "normalizers": [{"type": "NFC"}]})
        [{'type': 'NFC'}]
    """
    found = _flat(part)
    for step in found:
        kind = str(step.get("type"))
        if kind in _STEPS:
            _known(step, {"type", *_STEPS[kind]}, f"its {kind}")
    return found


def _flat(part: Any, depth: int = 0) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    if not isinstance(part, Mapping):
        return [{"type": part}]
    if part.get("type") != "Sequence":
        return [part]
    inner = next((part[row] for row in _ROWS if row in part), None)
    if not isinstance(inner, list) or depth == MAX_NESTED_STEPS:
        raise VocabularyError(
            f"a Sequence in it has no list of steps, or lies in {MAX_NESTED_STEPS} others; "
            "transformers writes one list"
        )
    return [step for each in inner for step in _flat(each, depth + 1)]


def only(part: Any) -> Mapping[str, Any]:
    """Return the one step of a part; where there are none or more, a step of no kind."""
    found = steps(part)
    return found[0] if len(found) == 1 else {"type": None if part is None else "Sequence"}


# ---- byte-level BPE ----


def check_byte_level(table: Mapping[str, Any]) -> None:
    """Refuse a BPE that cuts words in another way than GPT-2's."""
    model = table["model"]
    check_parts(table)
    check_model(model, "BPE")
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise refused(name, model[name], "pieces of bytes, which carry no mark")
    if model.get("dropout"):
        raise refused("dropout", model["dropout"], "ids that are the same each time")
    for name in ("byte_fallback", "fuse_unk", "ignore_merges"):
        if not isinstance(model.get(name), (bool, type(None))):
            raise VocabularyError(f"{name} is {brief(model[name])}, not true or false")
    if not isinstance(model.get("unk_token"), (str, type(None))):
        raise VocabularyError(f"unk_token is {brief(model['unk_token'])}, not a text")


def byte_level_prefix(table: Mapping[str, Any]) -> Any:
    """Refuse steps other than GPT-2's, and return what the file says of `add_prefix_space`."""
    if found := steps(table.get("normalizer")):
        raise refused("normalizer", found[0].get("type"), "texts as they are")
    cutter = only(table.get("pre_tokenizer"))
    if cutter.get("type") != "ByteLevel":
        raise refused("pre_tokenizer", cutter.get("type"), "'ByteLevel'")
    if cutter.get("use_regex", True) is not True:
        raise refused("use_regex", cutter["use_regex"], "GPT-2's pattern of words")
    return cutter.get("add_prefix_space", True)


# ---- WordPiece ----


def wordpiece_normalizer(table: Mapping[str, Any], prefix: str) -> tuple[Mapping[str, Any], bool]:
    """Return BertNormalizer's settings, and whether a Lowercase comes before it.

    sentence-transformers puts it there. Other steps, and a continuing prefix other than `prefix`,
    are refused.
    """
    check_parts(table)
    model = table["model"]
    check_model(model, "WordPiece")
    found = steps(table.get("normalizer"))
    lowercased = len(found) == 2 and found[0].get("type") == "Lowercase"
    normalizer = found[1] if lowercased else only(table.get("normalizer"))
    cutter = only(table.get("pre_tokenizer"))
    for name, value, wanted in (
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("clean_text", normalizer.get("clean_text", True), True),
        ("pre_tokenizer", cutter.get("type"), "BertPreTokenizer"),
        ("continuing_subword_prefix", model.get("continuing_subword_prefix", prefix), prefix),
    ):
        if value != wanted:
            raise refused(name, value, repr(wanted))
    return normalizer, lowercased


# ---- SentencePiece's unigram ----


@dataclass(frozen=True)
class UnigramSteps:
    """What happens to a text before a unigram model cuts it."""

    character_map: bytes
    """SentencePiece's `precompiled_charsmap`; empty: none."""
    cleaning: Cleaning | None
    """What happens before that."""
    white_space: bool
    """All white space parts words; else the blank alone."""


def unigram_steps(table: Mapping[str, Any], *, by_class: bool) -> UnigramSteps:
    """Read the normalizer and the pre_tokenizer, in the shapes that transformers writes.

    By class, transformers cuts the words whatever the file says. What changes or cuts texts in
    another way than SentencePiece is refused.
    """
    check_parts(table)
    blob, cleaning, ends = _unigram_normalizer(steps(table.get("normalizer")))
    cutters = steps(table.get("pre_tokenizer"))
    kinds = [str(step.get("type")) for step in cutters]
    if kinds not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"]):
        other = next((k for k in kinds if k not in ("WhitespaceSplit", "Metaspace")), None)
        if other is not None:
            raise VocabularyError(
                f"its pre_tokenizer has a part {brief(other)}, which is not done here, so texts "
                "would get other ids",
                remedy=_OTHERWISE,
            )
        raise refused("pre_tokenizer", kinds, "WhitespaceSplit and Metaspace")
    space = cutters[-1]
    if (mark := space.get("replacement", "▁")) != "▁":
        raise refused("replacement", mark, "'▁'")
    scheme = space.get("prepend_scheme")
    if scheme is None:
        scheme = "always" if space.get("add_prefix_space", True) else "never"
    if scheme != "always":
        raise refused("prepend_scheme", scheme, "'always'")
    if space.get("split", True) is not True:
        raise refused("split", space["split"], "true")
    split = len(kinds) == 2
    if not (split or by_class or ends):
        raise VocabularyError(
            "its pre_tokenizer is Metaspace alone, and no normalizer takes blanks in a row and at "
            "the end away (Replace and Strip, as transformers writes them): this version reads "
            "such blanks as none, and would give other ids",
            remedy=_OTHERWISE,
        )
    return UnigramSteps(blob, cleaning, split or by_class)


def _unigram_normalizer(found: Sequence[Mapping[str, Any]]) -> tuple[bytes, Cleaning | None, bool]:
    """Return the character map, the cleaning, and whether blanks in a row and at the end go."""
    rest = [(str(step["type"]), step) for step in found]
    lowercased = bool(rest) and rest[0][0] == "Lowercase"
    if lowercased:  # as sentence-transformers puts it, before everything
        rest = rest[1:]
    quotes = [step.get("pattern") for kind, step in rest[:2] if kind == "Replace"]
    plain = quotes == list(_QUOTES) and all(step["content"] == '"' for _, step in rest[:2])
    rest = rest[2:] if plain else rest
    kinds = [kind for kind, _ in rest]
    apart = kinds[:2] == ["NFKD", "StripAccents"]
    rest = rest[2:] if apart else rest
    lower = bool(rest) and rest[0][0] == "Lowercase"
    rest = rest[1:] if lower else rest
    if lowercased and (apart or plain):  # capitals that NFKD makes would stay there
        raise refused("normalizer", "Lowercase before NFKD or quotes", "it after them")
    blob = b""
    if rest and rest[0][0] == "Precompiled":
        given = rest[0][1].get("precompiled_charsmap")
        if not isinstance(given, str):
            raise refused("precompiled_charsmap", given, "bytes in base64")
        blob = base64.b64decode(given, validate=True)
        rest = rest[1:]
    stripped = joined = False
    for kind, step in rest:
        if kind == "Strip" and step.get("strip_right") is True:
            stripped = True  # at the beginning they make one ▁ either way
        elif (
            kind == "Replace" and step.get("pattern") == _RUNS and step.get("content") in (" ", "▁")
        ):
            joined = True
        else:
            raise VocabularyError(
                f"its normalizer has a part {brief(kind)} in this place, {brief(dict(step))}, which"
                " is not done here, so texts would get other ids",
                remedy=_OTHERWISE,
            )
    cleaning = None
    if plain or apart or lower or lowercased:
        cleaning = Cleaning(
            do_lower_case=lower or lowercased,
            keep_accents=not apart,
            plain_quotes=plain,
            cut_commas=False,
        )
    return blob, cleaning, stripped and joined


# ---- post_processor ----


@dataclass(frozen=True)
class Joining:
    """How a post_processor joins sentences; "A" and "B" stand for them."""

    single: list[tuple[str, int]]
    """(word, segment) of one sentence."""
    pair: list[tuple[str, int]]
    """The words and sentences of a pair."""
    ids: Mapping[str, Sequence[int]]
    """Ids of the special words."""


def joining(part: Any) -> Joining | None:
    """Read a post_processor; None: there is none."""
    found = [step for step in _flat(part) if step["type"] != "ByteLevel"] or _flat(part)
    if not found:
        return None
    step, kind = found[0], found[0]["type"]
    if len(found) > 1 or kind not in ("BertProcessing", "RobertaProcessing", "TemplateProcessing"):
        raise refused(
            "post_processor",
            kind if len(found) == 1 else [each["type"] for each in found],
            "BertProcessing, RobertaProcessing and TemplateProcessing",
        )
    if kind == "TemplateProcessing":
        given = {word: own["ids"] for word, own in step["special_tokens"].items()}
        return Joining(_row(step["single"]), _row(step["pair"]), given)
    (begin, first), (end, last) = step["cls"], step["sep"]
    between = 2 if kind == "RobertaProcessing" else 1
    second = 2 - between
    row = [(begin, 0), ("A", 0), *[(end, 0)] * between, ("B", second), (end, second)]
    return Joining([(begin, 0), ("A", 0), (end, 0)], row, {begin: [first], end: [last]})


def _row(template: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    parts = [
        part["SpecialToken"] if "SpecialToken" in part else part["Sequence"] for part in template
    ]
    return [(part["id"], part.get("type_id", 0)) for part in parts]


def separators(
    table: Mapping[str, Any],
    begin: tuple[str, int],
    end: tuple[str, int],
    kind: str | None,
    own: int,
) -> int:
    """Return how many separators the post_processor puts between two sentences.

    The arguments are those of `tokenizer_json.read_separators`; a file and a class that do not
    agree are refused.
    """
    if not table:
        return own
    found = joining(table.get("post_processor"))
    if found is None:
        if kind is None:
            raise refused("post_processor", None, f"one that puts {begin[0]} and {end[0]} around")
        return own
    count = len(found.pair) - 4  # without the first word, both sentences and the last one
    order = [begin[0], "A", *[end[0]] * count, "B", end[0]]
    wrong = [word for word, number in (begin, end) if found.ids.get(word) != [number]]
    words = [word for word, _ in found.pair]
    if wrong or words != order:
        raise VocabularyError(
            f"its post_processor makes pairs as {brief(words)}, with ids {brief(dict(found.ids))}; "
            f"by cls_token and sep_token this version reads {begin[0]} A {end[0]} B {end[0]}",
            remedy=_OTHERWISE,
        )
    if [word for word, _ in found.single] != [begin[0], "A", end[0]]:
        raise refused(
            "post_processor's single",
            [word for word, _ in found.single],
            f"{begin[0]} A {end[0]}",
        )
    second = [0] * (count + 2) + [1, 1] if count == 1 else [0] * len(words)
    segments = [own for _, own in (*found.single, *found.pair)]
    if segments != [0, 0, 0, *second] and any(segments):
        raise refused("type_id", segments, f"{[0, 0, 0, *second]}")
    if kind is not None and count != own:
        raise at_odds("the number of separators in post_processor", count, kind, own)
    return count
