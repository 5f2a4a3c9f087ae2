"""Reads a WordPiece tokenizer: `vocab.txt`, `tokenizer.json`, or both, and the settings beside."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.files import read_bytes
from roberta_hub.text.added import GENERIC, read_added, special_names
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.layout import Layout
from roberta_hub.text.tables import MAX_BYTES, read_json
from roberta_hub.text.wordpiece import WordPiece
from roberta_hub.text.wordpiece_rules import LONGEST_WORD, PREFIX, Rules, Specials

MAX_PIECES = 2_000_000
"""Lines of a vocab.txt; LaBSE's, the largest known, has 501,153."""
MAX_PIECE = 1_000
"""Characters of a piece."""
MAX_WORD = 10_000
"""Characters of a word that is cut: the time of cutting grows with it."""
_ROLES = {"bos": "cls", "eos": "sep", "pad": "pad", "unk": "unk", "mask": "mask"}
"""Of special words: our names, and Hugging Face's before `_token`."""


def read(directory: Path) -> tuple[WordPiece, Dictionary, Layout]:
    """Read the engine, the dictionary and the layout of a Hugging Face directory.

    Args:
        directory: holds `vocab.txt` or `tokenizer.json`.

    Returns:
        (engine, dictionary, layout); engine and dictionary number the pieces alike.

    Raises:
        VocabularyError: a file is damaged, contradicts another, or asks for what WordPiece as BERT
            has it does not do.
    """
    config = _optional(directory / "tokenizer_config.json")
    table = _optional(directory / "tokenizer.json")
    _check_config(config, directory / "tokenizer_config.json")
    try:
        _check_pipeline(table)
        names = _names(directory, table)
        specials, names = _specials(directory, config, table, names)
        rules = _rules(config, table, names, directory)
        kind = config.get("tokenizer_class") or "BertTokenizer"
        engine = WordPiece(names, rules=rules, specials=specials, tokenizer_class=kind)
        separators = _separators(table, specials, names)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, VocabularyError):
            raise VocabularyError(f"{directory}: {error}") from None
        raise VocabularyError(
            f"{directory}: tokenizer.json or tokenizer_config.json says things as transformers "
            f"does not ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    bos, eos, pad, unk, mask = specials.bos, specials.eos, specials.pad, specials.unk, specials.mask
    dictionary = Dictionary.from_symbols(names, bos=bos, eos=eos, pad=pad, unk=unk)
    layout = Layout.of(dictionary, mask=mask or "", separators=separators)
    return engine, dictionary, layout


def read_vocabulary(path: Path) -> list[str]:
    r"""Read the pieces of a vocab.txt, one a line; a line ends at "\n" and at nothing else.

    Raises:
        VocabularyError: not UTF-8, or a line that cannot be a piece; the message names the line.
    """
    data = read_bytes(path, MAX_BYTES, VocabularyError, "vocabulary").rstrip(b"\n")
    count = data.count(b"\n") + 1
    if count > MAX_PIECES:
        raise VocabularyError(f"{path.name} has {count:,} lines; the limit is {MAX_PIECES:,}")
    try:
        lines = data.decode().split("\n")  # not splitlines: U+2028 is a piece of Chinese BERT
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{path.name} is not UTF-8 at byte {error.start}") from None
    if all(line.endswith("\r") for line in lines[:-1]) and count > 1:
        lines = [line.removesuffix("\r") for line in lines]
    _check_names(lines, f"{path.name}, line ", 1)
    return lines


def _check_names(names: Sequence[str], where: str, first: int) -> None:
    """Refuse what no file of transformers' holds, and what lines cannot tell apart."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=first):
        problem = ""
        if not name:
            problem = "it is empty"
        elif len(name) > MAX_PIECE:
            problem = f"{len(name):,} characters; a piece has at most {MAX_PIECE:,}"
        elif "\0" in name or "\r" in name or "\n" in name:
            problem = f"{name[:40]!r} holds a NUL or a line break"
        elif name in seen:
            problem = f"{name[:40]!r} stands there twice, first as {seen[name]}"
        if problem:
            raise VocabularyError(f"{where}{number}: {problem}")
        seen[name] = number


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _names(directory: Path, table: Mapping[str, Any]) -> list[str]:
    """Return the pieces by their ids, on which both files must agree."""
    has_lines = (directory / "vocab.txt").is_file()
    lines = read_vocabulary(directory / "vocab.txt") if has_lines else []
    names = _names_of_table(table["model"]["vocab"]) if table else []
    for number, (line, name) in enumerate(zip(lines, names, strict=False)):
        if line != name:
            raise VocabularyError(
                f"id {number} is {line[:40]!r} in vocab.txt and {name[:40]!r} in tokenizer.json; "
                "take the wrong file away"
            )
    return max(lines, names, key=len)


def _names_of_table(ids: Mapping[str, Any]) -> list[str]:
    if len(ids) > MAX_PIECES:
        raise VocabularyError(f"tokenizer.json has over {MAX_PIECES:,} pieces")
    numbers = list(ids.values())
    if not all(type(i) is int for i in numbers) or sorted(numbers) != list(range(len(ids))):
        raise VocabularyError("tokenizer.json: the ids are not 0, 1, 2, … each once")
    names = sorted(ids, key=ids.__getitem__)
    _check_names(names, "tokenizer.json, id ", 0)
    return names


def _specials(
    directory: Path, config: Mapping[str, Any], table: Mapping[str, Any], names: list[str]
) -> tuple[Specials, list[str]]:
    """Return the special words, and the pieces with those words that were added behind them."""
    added = read_added(directory, config, table)
    plain = [word for word, own in added.items() if not own.special]
    if plain:
        raise VocabularyError(
            f"{brief(plain[0])} was added as a word, which texts write wherever it stands; this "
            "version reads special words only: build a WordPiece vocabulary with that word in it"
        )
    names = list(names)
    for word, own in sorted(added.items(), key=lambda item: item[1].id):
        if own.id == len(names):
            names.append(word)
        if not 0 <= own.id < len(names) or names[own.id] != word:
            raise VocabularyError(
                f"{brief(word)} was added as id {own.id}, where the vocabulary has another piece "
                "or a gap"
            )
    special_map = _optional(directory / "special_tokens_map.json")
    roles = {
        role: _word(config.get(f"{key}_token", special_map.get(f"{key}_token")), f"[{key.upper()}]")
        for role, key in _ROLES.items()
    }
    if table:
        roles["unk"] = table["model"].get("unk_token", roles["unk"])
    mask: str | None = roles.pop("mask")
    if mask not in names:
        mask = None
    ids = {name: i for i, name in enumerate(names)}
    controls = {*added, *special_names(special_map, config)} & ids.keys()
    others = sorted(controls - {*roles.values(), mask}, key=ids.__getitem__)
    return Specials(**roles, mask=mask, others=tuple(others)), names


def _word(value: object, default: str) -> str:
    """Return a special word of the settings, which is a str or a table with its `content`."""
    if isinstance(value, Mapping):
        value = value["content"]
    if not isinstance(value, (str, type(None))):
        raise ValueError(f"a special word is {brief(value)}")
    return value or default


def _rules(
    config: Mapping[str, Any], table: Mapping[str, Any], names: Sequence[str], directory: Path
) -> Rules:
    """Settings count before tokenizer.json, as in transformers, but for its generic classes."""
    normalizer = _only(table.get("normalizer")) if table else {}
    if table and config.get("tokenizer_class") in GENERIC:
        config = {}
    sources = (config, normalizer)
    lower = _switch(sources, "do_lower_case", "lowercase")
    chinese = _switch(sources, "tokenize_chinese_chars", "handle_chinese_chars")
    model = table["model"] if table else {}
    longest = model.get("max_input_chars_per_word", LONGEST_WORD)
    if type(longest) is not int or not 1 <= longest <= MAX_WORD:
        raise ValueError(f"max_input_chars_per_word is {brief(longest)}, not 1 to {MAX_WORD:,}")
    return Rules(
        lower=_uncased(names, directory) if lower is None else lower,
        strip_accents=_switch(sources, "strip_accents", "strip_accents"),
        chinese=chinese is not False,
        longest_word=longest,
        clean_up=(table.get("decoder") or {}).get("cleanup", True) is not False,
    )


def _switch(
    sources: tuple[Mapping[str, Any], Mapping[str, Any]], setting: str, normal: str
) -> bool | None:
    """Return what tokenizer_config.json says, or else the normalizer; None: nothing."""
    for source, name in zip(sources, (setting, normal), strict=True):
        value = source.get(name)
        if not isinstance(value, (bool, type(None))):
            raise ValueError(f"{name} is {brief(value)}, not true or false")
        if name in source and (value is not None or setting == "strip_accents"):
            return value
    return None


def _uncased(names: Sequence[str], directory: Path) -> bool:
    """Guess by the pieces, as no file says it, and say so."""
    letters = (name for name in names if name.removeprefix(PREFIX).isalpha())  # not [CLS], <S>
    capital = next((name for name in letters if any("A" <= c <= "Z" for c in name)), None)
    reason = (
        "no piece has a capital" if capital is None else f"{capital[:40]!r} is among its pieces"
    )
    kind = "uncased: texts are read in small letters" if capital is None else "cased"
    warnings.warn(
        f"{directory} does not say do_lower_case; {reason}, so it is taken for {kind}. Write "
        f'{{"do_lower_case": {str(capital is None).lower()}}} into its tokenizer_config.json to '
        "settle it",
        stacklevel=2,
    )
    return capital is None


def _check_config(config: Mapping[str, Any], path: Path) -> None:
    """Refuse settings of transformers' Python classes that cut texts otherwise."""
    odd: dict[str, tuple[object, ...]] = {
        "word_tokenizer_type": ("basic", None),
        "subword_tokenizer_type": ("wordpiece", None),
        "do_basic_tokenize": (True, None),
        "do_word_tokenize": (True, None),
        "do_subword_tokenize": (True, None),
        "never_split": (None, []),
    }
    for name, harmless in odd.items():
        if config.get(name) not in harmless:
            raise VocabularyError(
                f"{path}: {name} is {brief(config[name])}, which this version does not read: "
                "texts would get other ids"
            )


def _check_pipeline(table: Mapping[str, Any]) -> None:
    """Refuse a tokenizer.json that does anything else to texts than BERT's."""
    if not table:
        return
    normalizer, cutter = _only(table.get("normalizer")), _only(table.get("pre_tokenizer"))
    model = table["model"]
    found = {
        "model": (model.get("type", "WordPiece"), "WordPiece"),
        "normalizer": (normalizer.get("type"), "BertNormalizer"),
        "clean_text": (normalizer.get("clean_text", True), True),
        "pre_tokenizer": (cutter.get("type"), "BertPreTokenizer"),
        "continuing_subword_prefix": (model.get("continuing_subword_prefix", PREFIX), PREFIX),
    }
    for name, (value, wanted) in found.items():
        if value != wanted:
            raise VocabularyError(
                f"tokenizer.json: {name} is {brief(value)}; this version reads {wanted!r}, and "
                "would give other ids"
            )


def _only(part: Any) -> Mapping[str, Any]:
    """Return a step of the pipeline, out of the sequence where it stands alone in one."""
    for steps in ("normalizers", "pretokenizers"):
        if isinstance(part, Mapping) and len(part.get(steps) or ()) == 1:
            part = part[steps][0]
    return part if isinstance(part, Mapping) else {"type": part}


def _separators(table: Mapping[str, Any], specials: Specials, names: Sequence[str]) -> int:
    """Return how many separators the post-processor puts between two sentences."""
    step = table.get("post_processor") if table else None
    if step is None:
        return 1
    begin, end = specials.bos, specials.eos
    if step["type"] in ("BertProcessing", "RobertaProcessing"):
        given = {word: [number] for word, number in (step["cls"], step["sep"])}
        order = [begin, "A", end, *([end] if step["type"] == "RobertaProcessing" else []), "B", end]
    elif step["type"] == "TemplateProcessing":
        given = {word: own["ids"] for word, own in step["special_tokens"].items()}
        order = [
            part["SpecialToken"]["id"] if "SpecialToken" in part else part["Sequence"]["id"]
            for part in step["pair"]
        ]
    else:
        raise VocabularyError(f"tokenizer.json: its post_processor is {brief(step['type'])}")
    wrong = [word for word in (begin, end) if given.get(word) != [names.index(word)]]
    separators = len(order) - 4  # beside the first word, both sentences and the last one
    if wrong or order != [begin, "A", *[end] * separators, "B", end]:
        raise VocabularyError(
            f"tokenizer.json: its post_processor makes pairs as {brief(order)}, with ids "
            f"{brief(given)}; this version reads {begin} A {end} B {end}"
        )
    return separators
