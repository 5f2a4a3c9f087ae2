"""Random tokenizers as transformers reads and writes them, in the files of several versions."""

from __future__ import annotations

import functools
import io
import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece
import transformers
from families import SENTENCES, byte_pairs, word_pieces
from tokenizers import AddedToken

from .folder_texts import character

WORDS = [
    "newword",
    "Foo",
    "the",
    "covid-19",
    "é",
    "公园",
    "2024",
    "ing",
    "dog",
    "[E1]",
    "[/E1]",
    "<e>",
    "@user",
    "Ω",
    "x1",
    "ﬁ",
    "🙂",
    "ÉTÉ",
    "İ",
    "##",
    "▁a",
    "a.b",
    "(x)",
    "<extra_id_0>",
    "straße",
    "é",
    "नम",
    "#",
]
SPACED = ("New York", "x y ", " z", "a  b", "\n", "two\nlines")
"""What users add."""
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
UNIGRAM_RULES = ("nmt_nfkc", "nmt_nfkc", "nmt_nfkc", "identity", "nmt_nfkc_cf", "nfkc")
CONTROLS = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")
SYMBOLS = ("(", "-", "£")
"""Pieces of a `.model` that its maker named."""
KEPT = ("config.json", "tokenizer_config.json")
LAYOUTS = ("saved", "saved", "saved", "version 4", "version 4", "own files", "json alone")


@dataclass
class Vocabulary:
    """A tokenizer in a folder, and what was chosen for it."""

    folder: Path
    engine: str
    rows: int = 0
    """Of an embedding table for all its words."""
    words: list[str] = field(default_factory=list)
    """The user's own."""
    ids: dict[str, int] = field(default_factory=dict)
    """Of the special words, by role."""
    model: bytes | None = None
    """A SentencePiece file, where it is made of one."""
    about: dict[str, Any] = field(default_factory=dict)
    """What was chosen."""


def write_vocabulary(draw: random.Random, family: str, engine: str, folder: Path) -> Vocabulary:
    """Write a tokenizer of an engine for a family.

    Args:
        draw: what it is drawn with.
        family: `model_type`; config.json has to be written beside the files.
        engine: "bytes", "wordpiece", "xlmr", "camembert" or "albert".
        folder: empty; filled.

    Returns:
        What was written.
    """
    made = Vocabulary(folder, engine)
    raw, saved = folder / ".raw", folder / ".saved"
    raw.mkdir()
    settings = WRITERS[engine](draw, made, raw)
    settings |= _settings(draw, engine, made)
    _class(draw, family, engine, settings, made)
    _json(raw / "tokenizer_config.json", settings)
    # transformers reads a .model of an XLM-R XL only as XLM-R's.
    _json(raw / "config.json", {"model_type": family.removesuffix("-xl")})
    theirs = transformers.AutoTokenizer.from_pretrained(raw)
    made.about["class"] = type(theirs).__name__
    _add_words(draw, theirs, made)
    theirs.save_pretrained(saved)
    layout = draw.choice(LAYOUTS[:3] if family.endswith("-xl") else LAYOUTS)
    made.about["layout"] = layout
    LAYING[layout](draw, made, theirs, raw, saved)
    made.rows = max(len(theirs), max(theirs.get_vocab().values()) + 1)
    made.ids = {role: getattr(theirs, f"{role}_token_id") for role in ROLES}
    shutil.rmtree(raw)
    shutil.rmtree(saved)
    return made


# ---- engines ----


def _bytes(draw: random.Random, made: Vocabulary, raw: Path) -> dict[str, Any]:
    alphabet, merges = byte_pairs(200)
    merges = merges[: draw.choice((0, 20, 100, 200))]
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    if draw.random() < 0.08:
        draw.shuffle(first)
    pieces = [*first, *alphabet, *(a + b for a, b in merges)]
    pieces.insert(len(pieces) if draw.random() < 0.8 else 4, "<mask>")
    pieces = list(dict.fromkeys(pieces))
    _json(raw / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    lines = ["#version: 0.2", *(f"{a} {b}" for a, b in merges)]
    (raw / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings: dict[str, Any] = {}
    if draw.random() < 0.4:
        settings["add_prefix_space"] = draw.random() < 0.5
    if draw.random() < 0.2:
        settings["trim_offsets"] = draw.random() < 0.5
    return settings


def _wordpiece(draw: random.Random, made: Vocabulary, raw: Path) -> dict[str, Any]:
    cased = draw.random() < 0.4
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [p for p in word_pieces(cased=cased) if p not in special]
    pieces = [p for p in pieces if draw.random() < 0.9]
    if draw.random() < 0.3:
        draw.shuffle(pieces)
    settings: dict[str, Any] = {}
    if draw.random() < 0.06:
        settings = {"cls_token": "[START]", "sep_token": "[END]"}
        special[2:4] = "[START]", "[END]"
    place = draw.choice((0, 0, 0, 7, len(pieces)))
    if draw.random() < 0.3:
        draw.shuffle(special)
    pieces[place:place] = special
    end = "\r\n" if draw.random() < 0.05 else "\n"
    data = "".join(f"{piece}{end}" for piece in pieces)
    (raw / "vocab.txt").write_bytes(data.encode())
    if cased or draw.random() < 0.9:  # where nothing says it, a warning says what is guessed
        settings["do_lower_case"] = not cased if draw.random() < 0.8 else cased
    if draw.random() < 0.3:
        settings["strip_accents"] = draw.choice((None, True, False))
    if draw.random() < 0.3:
        settings["tokenize_chinese_chars"] = draw.random() < 0.6
    return settings


@functools.lru_cache(64)
def _unigram(kind: str, rule: str, size: int, more: tuple[tuple[str, Any], ...]) -> bytes:
    """Train a SentencePiece model."""
    settings: dict[str, Any] = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    if kind == "albert":
        settings = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
        settings["control_symbols"] = ["[CLS]", "[SEP]", "[MASK]"]
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=file,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name=rule,
        num_threads=1,
        minloglevel=2,
        **{**settings, **dict(more)},
    )
    return file.getvalue()


def _sentencepiece(draw: random.Random, made: Vocabulary, raw: Path) -> dict[str, Any]:
    kind = "albert" if made.engine == "albert" else "xlmr"
    more: dict[str, Any] = {}
    if draw.random() < 0.1:
        more["byte_fallback"] = True
    if draw.random() < 0.1:
        more["split_digits"] = True
    if draw.random() < 0.03:
        more["add_dummy_prefix"] = False
    if draw.random() < 0.03:
        more["remove_extra_whitespaces"] = False
    if draw.random() < 0.15:
        more["user_defined_symbols"] = SYMBOLS
    rule = draw.choice(UNIGRAM_RULES)
    size = draw.choice((500, 700)) if "byte_fallback" in more else draw.choice((300, 420))
    made.model = _unigram(kind, rule, size, tuple(sorted(more.items())))
    made.about |= {"rule": rule, **more}
    name = "spiece.model" if kind == "albert" else "sentencepiece.bpe.model"
    (raw / name).write_bytes(made.model)
    settings: dict[str, Any] = {}
    if kind == "albert":
        if draw.random() < 0.7:
            settings["do_lower_case"] = draw.random() < 0.7
        if draw.random() < 0.7:
            settings["keep_accents"] = draw.random() < 0.3
    elif draw.random() < 0.3:
        settings["sp_model_kwargs"] = {}
    return settings


WRITERS: dict[str, Callable[[random.Random, Vocabulary, Path], dict[str, Any]]] = {
    "bytes": _bytes,
    "wordpiece": _wordpiece,
    "xlmr": _sentencepiece,
    "camembert": _sentencepiece,
    "albert": _sentencepiece,
}
CLASSES = {
    "bytes": "Roberta",
    "wordpiece": "Bert",
    "xlmr": "XLMRoberta",
    "camembert": "Camembert",
    "albert": "Albert",
}


def _settings(draw: random.Random, engine: str, made: Vocabulary) -> dict[str, Any]:
    """Settings that every class takes."""
    settings: dict[str, Any] = {}
    length = draw.random()
    if length < 0.35:
        settings["model_max_length"] = draw.randint(6, 30)
    elif length < 0.7:
        settings["model_max_length"] = draw.choice((512, 1000000000000000019884624838656))
    if draw.random() < 0.3:
        settings["truncation_side"] = draw.choice(("left", "right"))
    if draw.random() < 0.3:
        settings["padding_side"] = draw.choice(("left", "right"))
    if draw.random() < 0.3:
        settings["clean_up_tokenization_spaces"] = draw.random() < 0.5
    if draw.random() < 0.1:
        settings["name_or_path"] = "somebody/something"
    if draw.random() < 0.08:
        names = ["input_ids", "attention_mask"]
        settings["model_input_names"] = draw.choice((names, [*names, "token_type_ids"]))
    if draw.random() < 0.15:
        key = draw.choice(("additional_special_tokens", "extra_special_tokens"))
        settings[key] = draw.sample(("[E1]", "[WORLD]", "<e>"), draw.randint(1, 3))
        made.words += settings[key]
    return settings


def _class(
    draw: random.Random, family: str, engine: str, settings: dict[str, Any], made: Vocabulary
) -> None:
    """Name a class, where the family does not decide it."""
    name = CLASSES[engine]
    if family in ("electra", "distilbert"):
        name = draw.choice((name, {"electra": "Electra", "distilbert": "DistilBert"}[family]))
    own = {"bytes": "roberta", "wordpiece": "bert", "xlmr": "xlm-roberta"}.get(engine, engine)
    decided = own == family or (engine == "wordpiece" and family in ("electra", "distilbert"))
    if not decided or draw.random() < 0.8:
        settings["tokenizer_class"] = f"{name}Tokenizer{draw.choice(('', '', 'Fast'))}"


# ---- the user's words ----


def _add_words(draw: random.Random, theirs: Any, made: Vocabulary) -> None:
    """Add plain and special words with random settings, no two the same when normalized."""
    count = draw.choice((0, 0, 1, 3, 6))
    pool = [*WORDS, *SPACED, *("".join(character(draw) for _ in range(2)) for _ in range(3))]
    normalizer = theirs.backend_tokenizer.normalizer
    known = {_normal(normalizer, word) for word in made.words}
    for word in draw.sample(pool, count):
        same = _normal(normalizer, word)
        flags = {name: draw.random() < 0.25 for name in ("lstrip", "rstrip", "single_word")}
        normalized = draw.random() < 0.6
        if not same.strip() or same in known or word in made.words:
            continue
        known.add(same)
        token = AddedToken(word, **flags, normalized=normalized)
        if draw.random() < 0.3:
            key = "additional_special_tokens" if draw.random() < 0.5 else "extra_special_tokens"
            options = {"replace_extra_special_tokens": False}
            theirs.add_special_tokens({key: [token]}, **options)
        else:
            theirs.add_tokens([token], special_tokens=draw.random() < 0.2)
        made.words.append(word)
    made.about["words"] = {
        token.content: [name for name in token.__getstate__() if token.__getstate__()[name] is True]
        for token in theirs.added_tokens_decoder.values()
        if token.content in made.words
    }


def _normal(normalizer: Any, word: str) -> str:
    return word if normalizer is None else str(normalizer.normalize_str(word))


# ---- files ----


def _saved(draw: random.Random, made: Vocabulary, theirs: Any, raw: Path, saved: Path) -> None:
    """What version 5 writes; also over the files that were there, or under a generic class."""
    if draw.random() < 0.3:
        _copy(raw, made.folder)
    _copy(saved, made.folder)
    path = made.folder / "tokenizer_config.json"
    if draw.random() < 0.25:
        about = json.loads(path.read_text(encoding="utf-8"))
        about["tokenizer_class"] = made.about["class"] = draw.choice(GENERIC)
        _json(path, about)


def _version_4(draw: random.Random, made: Vocabulary, theirs: Any, raw: Path, saved: Path) -> None:
    """All that version 4 wrote, or some of it."""
    _copy(raw, made.folder)
    shutil.copy(saved / "tokenizer.json", made.folder)
    own = dict(theirs.get_added_vocab())
    base = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    names = set(base) if isinstance(base, dict) else {piece for piece, _ in base}
    about = json.loads((saved / "tokenizer_config.json").read_text(encoding="utf-8"))
    about = {k: v for k, v in about.items() if k not in ("backend", "is_local")}
    extra = [str(word) for word in about.pop("extra_special_tokens", None) or ()]
    extra = extra or [str(word) for word in about.pop("additional_special_tokens", None) or ()]
    if extra:
        about["additional_special_tokens"] = extra
    about["added_tokens_decoder"] = {
        str(number): dict(token.__getstate__())
        for number, token in theirs.added_tokens_decoder.items()
    }
    if draw.random() < 0.4:
        about["tokenizer_class"] = f"{about['tokenizer_class'].removesuffix('Fast')}Fast"
    _json(made.folder / "tokenizer_config.json", about)
    special: dict[str, Any] = {f"{role}_token": getattr(theirs, f"{role}_token") for role in ROLES}
    special = {name: word for name, word in special.items() if word is not None}
    if extra:
        special["additional_special_tokens"] = extra
    _json(made.folder / "special_tokens_map.json", special)
    more = {word: number for word, number in own.items() if word not in names}
    if more:
        _json(made.folder / "added_tokens.json", more)
    gone = [
        name for name in ("special_tokens_map.json", "added_tokens.json") if draw.random() < 0.3
    ]
    if draw.random() < 0.3:
        gone.append("tokenizer.json")
    elif draw.random() < 0.5:
        gone += [path.name for path in raw.iterdir() if path.name not in KEPT]
    made.about["without"] = gone
    for name in gone:
        (made.folder / name).unlink(missing_ok=True)


def _own_files(draw: random.Random, made: Vocabulary, theirs: Any, raw: Path, saved: Path) -> None:
    """The vocabulary's own files, with the user's words in one of the older places."""
    _copy(raw, made.folder)
    path = made.folder / "tokenizer_config.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    table = theirs.added_tokens_decoder.items()
    if draw.random() < 0.5:
        about["added_tokens_decoder"] = {str(n): dict(own.__getstate__()) for n, own in table}
    else:
        base = set(theirs.get_vocab()) - set(theirs.get_added_vocab())
        words = {own.content: n for n, own in table if own.content not in base}
        if words:
            _json(made.folder / "added_tokens.json", words)
    _json(path, about)
    made.about["in"] = "added_tokens_decoder" if "added_tokens_decoder" in about else "added_tokens"


def _json_alone(draw: random.Random, made: Vocabulary, theirs: Any, raw: Path, saved: Path) -> None:
    """tokenizer.json without a word of settings, or with the class alone."""
    shutil.copy(saved / "tokenizer.json", made.folder)
    if draw.random() < 0.6:
        about = json.loads((saved / "tokenizer_config.json").read_text(encoding="utf-8"))
        kept = {"tokenizer_class": about["tokenizer_class"]}
        kept |= {name: about[name] for name in about if draw.random() < 0.5}
        _json(made.folder / "tokenizer_config.json", kept)
        made.about["settings"] = sorted(kept)


LAYING: Mapping[str, Callable[[random.Random, Vocabulary, Any, Path, Path], None]] = {
    "saved": _saved,
    "version 4": _version_4,
    "own files": _own_files,
    "json alone": _json_alone,
}


def _copy(source: Path, to: Path) -> None:
    for path in source.iterdir():
        if path.name != "config.json":
            shutil.copy(path, to)


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
