"""Folders whose tokenizer.json says something of its own: ids as transformers and tokenizers.

Old files beside a new tokenizer.json, vocabularies without a character map, scripts whose vowel
signs are marks, and the shapes of steps that older versions of transformers wrote.
"""

from __future__ import annotations

import copy
import io
import json
import random
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import families
import pytest

from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.text import Tokenizer
from roberta_hub.text.huggingface import read_tokenizer

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

pytestmark = pytest.mark.parity

KINDS = ("bytes", "wordpiece", "xlmr", "camembert", "albert")
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}
WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2003\u2009\u2028\u2029\u202f\u205f\u3000"
BLOCKS = (
    *[(0x20, 0x7E)] * 4,
    (0x00, 0x1F),
    (0xA0, 0x24F),
    (0x300, 0x52F),
    (0x590, 0x6FF),
    (0x900, 0xE7F),
    (0x1100, 0x11FF),
    (0x1E00, 0x2BFF),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFFEF),
    (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF),
)
MARKS = (
    "नमस्ते दुनिया, आज मौसम अच्छा है।",
    "வணக்கம் உலகம், இன்று வானிலை நன்றாக உள்ளது",
    "สวัสดีชาวโลก วันนี้อากาศดี ที่นี่",
    "שָׁלוֹם עוֹלָם مَرْحَبًا",
    "L'élève déjà, ΟΔΟΣ ΑΣ İstanbul",
)


def texts(seed: int = 0, count: int = 60) -> list[str]:
    """Sentences of many scripts with every kind of white space between and around the words."""
    draw = random.Random(seed)
    words = [word for line in (*families.SENTENCES, *MARKS) for word in line.split()]
    found = [*families.SENTENCES, *MARKS, "", " ", "\n\t"]
    for _ in range(count):
        row = [draw.choice(words) for _ in range(draw.randint(1, 8))]
        blanks = ["".join(draw.choices(WHITE, k=draw.randint(1, 3))) for _ in row]
        found.append("".join(w + b for w, b in zip(row, blanks, strict=True)))
    return found


def ours(folder: Path) -> Tokenizer:
    found = read_tokenizer(Folder(folder))
    assert found is not None
    return Tokenizer(*found)


def theirs(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


def write(folder: Path, name: str, content: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def table_of(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return table


def assert_equal(folder: Path, lines: Sequence[str]) -> None:
    """Ids of each text alone and in a pair; the folder, and the copy that we save."""
    own = ours(folder)
    copied = folder / "our copy"
    copied.mkdir(exist_ok=True)
    for name, data in tokenizer_files(own, 512).items():
        (copied / name).write_bytes(data)
    again, others = ours(copied), list(reversed(lines))
    for texts in ((lines,), (lines, others)):
        found = [own.encode(*given).tolist() for given in zip(*texts, strict=True)]
        assert [again.encode(*given).tolist() for given in zip(*texts, strict=True)] == found
        for where in (folder, copied):
            expected = theirs(where)(*map(list, texts)).input_ids
            for *given, ids, right in zip(*texts, found, expected, strict=True):
                assert ids == right, (where, given)


def write_identity(folder: Path, kind: str, sentences: Sequence[str] = families.SENTENCES) -> None:
    """A unigram vocabulary without a character map."""
    settings: dict[str, Any] = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    if kind == "albert":
        settings = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
        settings["control_symbols"] = ["[CLS]", "[SEP]", "[MASK]"]
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=file,
        model_type="unigram",
        vocab_size=420,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
        **settings,
    )
    names = {"albert": "spiece.model"}
    (folder / names.get(kind, "sentencepiece.bpe.model")).write_bytes(file.getvalue())
    classes = {"albert": "Albert", "camembert": "Camembert", "xlmr": "XLMRoberta"}
    write(folder, "tokenizer_config.json", {"tokenizer_class": f"{classes[kind]}Tokenizer"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_and_its_copies(kind: str, tmp_path: Path) -> None:
    """With a map: the vowel signs of Hindi, Tamil and Thai, and every kind of white space."""
    getattr(families, f"write_{kind}")(tmp_path)
    lines = texts()
    if kind != "albert":  # of a spiece.model alone: docs/reference/differences.md
        assert_equal(tmp_path, lines)
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    assert_equal(tmp_path / "saved", lines)


def random_lines(seed: int, count: int) -> list[str]:
    """Words of random characters of many scripts, controls and emoji among them."""
    draw = random.Random(seed)
    words = [
        "".join(chr(draw.randint(*draw.choice(BLOCKS))) for _ in range(n % 9)) for n in range(4000)
    ]
    rows = (draw.choices(words, k=draw.randint(1, 6)) for _ in range(count))
    return [draw.choice((" ", " ", "")).join(row) for row in rows]


def is_graphemic(line: str) -> bool:
    """Whether the fast tokenizers look up clusters of characters: docs/reference/differences.md."""
    return any(
        c in "\u200c\u200d"
        or "\uff61" <= c <= "\uffdc"
        or "\u1100" <= c <= "\u11ff"
        or unicodedata.category(c)[0] == "M"
        for c in line
    )


@pytest.mark.parametrize("kind", KINDS)
def test_random_characters(kind: str, tmp_path: Path) -> None:
    getattr(families, f"write_{kind}")(tmp_path)
    if kind == "albert":
        write_identity(tmp_path, kind)
    mapped = kind in ("xlmr", "camembert")
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    lines = [line for line in random_lines(11, 1500) if not (mapped and is_graphemic(line))]
    assert len(lines) > 300
    assert_equal(tmp_path / "saved", lines)


@pytest.mark.parametrize("side", ["Left", "Right"])
def test_the_direction_of_truncation(bpe: Path, side: str) -> None:
    table = table_of(bpe)
    block = {"direction": side, "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    write(bpe, "tokenizer.json", {**table, "truncation": block})
    for about in (GENERIC, {"tokenizer_class": "RobertaTokenizer"}):
        for settings in ({}, {"truncation_side": "left"}, {"truncation_side": "right"}):
            write(bpe, "tokenizer_config.json", {**about, **settings})
            expected = theirs(bpe)
            assert ours(bpe).layout.truncation_side == expected.truncation_side
            assert len(expected("a b c d e f g", truncation=True).input_ids) > 5
    write(bpe, "tokenizer.json", {**table, "truncation": {**block, "direction": "Up"}})
    with pytest.raises(VocabularyError, match="direction is 'Up'"):
        ours(bpe)


@pytest.mark.parametrize("kind", ["xlmr", "camembert", "albert"])
def test_white_space_without_a_character_map(kind: str, tmp_path: Path) -> None:
    write_identity(tmp_path, kind)
    lines = [line for line in texts(1) if kind != "albert" or "," not in line]
    assert_equal(tmp_path, lines)
    for character in WHITE:
        assert ours(tmp_path).tokenize(f"the{character}dog") == ours(tmp_path).tokenize("the dog")


@pytest.mark.parametrize("kind", KINDS)
def test_older_files_are_left_where_they_are(kind: str, tmp_path: Path) -> None:
    """transformers 5 saves tokenizer.json over a folder, and reads it from then on."""
    getattr(families, f"write_{kind}")(tmp_path)
    new = tmp_path / "new"
    getattr(families, f"write_{kind}")(new.mkdir() or new)
    if kind == "bytes":
        table = json.loads((new / "vocab.json").read_text(encoding="utf-8"))
        table["a"], table["b"] = table["b"], table["a"]
        write(new, "vocab.json", table)
    elif kind == "wordpiece":
        lines = (new / "vocab.txt").read_text(encoding="utf-8").split("\n")
        lines[10:40] = reversed(lines[10:40])
        (new / "vocab.txt").write_text("\n".join(lines), encoding="utf-8")
    else:
        write_identity(new, kind, families.SENTENCES[:20])
        write_identity(tmp_path, kind)
    old = ours(tmp_path)
    theirs(new).save_pretrained(tmp_path)
    lines = [line.replace(",", " ") for line in texts(2)]
    assert_equal(tmp_path, lines)
    assert any(ours(tmp_path).encode(t).tolist() != old.encode(t).tolist() for t in lines)


# ---- shapes of the steps of a unigram ----

SPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "WhitespaceSplit"}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
DIGITS = {"type": "Digits", "individual_digits": True}
RUNS = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}


def sequence(name: str, *parts: Any) -> dict[str, Any]:
    return {"type": "Sequence", name: list(parts)}


@pytest.fixture
def unigram(tmp_path: Path) -> Path:
    """A folder of a generic class, as transformers saves it, with a map."""
    families.write_xlmr(tmp_path)
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    write(tmp_path / "saved", "tokenizer_config.json", GENERIC)
    return tmp_path / "saved"


@pytest.mark.parametrize("old_spelling", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_shapes_of_older_versions(unigram: Path, lower: bool, old_spelling: bool) -> None:
    table = table_of(unigram)
    start = [{"type": "Lowercase"}] if lower else []  # as sentence-transformers puts it
    table["normalizer"] = sequence("normalizers", *start, table["normalizer"], STRIP, RUNS)
    table["pre_tokenizer"] = dict(SPACE)
    if old_spelling:
        table["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁"}
        table["pre_tokenizer"]["add_prefix_space"] = True
    write(unigram, "tokenizer.json", table)
    lines = [line for line in texts(3) if "\x85" not in line]
    assert_equal(unigram, lines)
    parts = table["normalizer"]["normalizers"]
    table["normalizer"]["normalizers"] = [p for p in parts if p["type"] != "Precompiled"]
    write(unigram, "tokenizer.json", table)
    with pytest.raises(VocabularyError, match="Metaspace alone, and its character map leaves"):
        ours(unigram)


@pytest.mark.parametrize(
    ("cutter", "named"),
    [
        (None, "pre_tokenizer is"),
        (SPACE, "Metaspace alone"),
        (SPLIT, "pre_tokenizer is"),
        ({**SPACE, "prepend_scheme": "never"}, "prepend_scheme is 'never'"),
        ({**SPACE, "prepend_scheme": "first"}, "prepend_scheme is 'first'"),
        ({**SPACE, "split": False}, "split is False"),
        ({**SPACE, "replacement": "_"}, "replacement is '_'"),
        ({**SPACE, "new": 1}, "Metaspace has 'new'"),
        (sequence("pretokenizers", SPLIT, {**SPACE, "prepend_scheme": "never"}), "prepend_scheme"),
        (sequence("pretokenizers", SPACE, SPLIT), "pre_tokenizer is"),
        (sequence("pretokenizers", SPLIT, DIGITS, SPACE), "part 'Digits'"),
    ],
)
def test_other_cuts_are_refused(unigram: Path, cutter: Any, named: str) -> None:
    table = table_of(unigram)
    table["pre_tokenizer"] = copy.deepcopy(cutter)
    write(unigram, "tokenizer.json", table)
    rust = tokenizers.Tokenizer.from_file(str(unigram / "tokenizer.json"))
    plain = ours(unigram.parent)
    lines = texts(4)
    assert [rust.encode(line).ids for line in lines] != [
        plain.encode(x).tolist() for x in lines
    ] or ("new" in str(cutter))
    with pytest.raises(VocabularyError, match=named) as caught:
        ours(unigram)
    assert str(unigram / "tokenizer.json") in str(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "NFC"}],
        [{"type": "StripAccents"}],
        [{"type": "NFKD"}],
        [RUNS, {"type": "NFC"}],
        [{"type": "Strip", "strip_left": True, "strip_right": False}],
        [{"type": "Replace", "pattern": {"String": "e"}, "content": " "}],
        [{"type": "Lowercase"}, {"type": "NFKD"}, {"type": "StripAccents"}],
        [{"type": "Prepend", "prepend": "x"}],
    ],
)
def test_other_normalizers_are_refused(unigram: Path, parts: list[Any]) -> None:
    table = table_of(unigram)
    table["normalizer"] = sequence("normalizers", *parts)
    write(unigram, "tokenizer.json", table)
    with pytest.raises(VocabularyError, match="normalizer"):
        ours(unigram)


def test_the_unknown_piece_is_unk_ids(unigram: Path) -> None:
    table = table_of(unigram)
    table["model"]["vocab"].append(["[UNK]", -50.0])
    number = table["model"]["unk_id"] = len(table["model"]["vocab"]) - 1
    added = {**table["added_tokens"][-1], "id": number, "content": "[UNK]", "lstrip": False}
    table["added_tokens"].append(added)
    write(unigram, "tokenizer.json", table)
    write(unigram, "tokenizer_config.json", {**GENERIC, "unk_token": "[UNK]"})
    rust = tokenizers.Tokenizer.from_file(str(unigram / "tokenizer.json"))
    for line in ("snow ☃ man", *texts(5)):
        ids = ours(unigram).encode(line).tolist()
        assert ids == rust.encode(line).ids
    assert number in ours(unigram).encode("☃").tolist()
    write(unigram, "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})
    with pytest.raises(VocabularyError, match=f"unk_id is {number}, "):
        ours(unigram)


def test_pieces_with_a_space_inside_are_never_cut(unigram: Path) -> None:
    """Words are cut before the model sees them."""
    table = table_of(unigram)
    table["model"]["vocab"][-2] = ["▁the▁dog", 0.0]
    write(unigram, "tokenizer.json", table)
    rust = tokenizers.Tokenizer.from_file(str(unigram / "tokenizer.json"))
    for line in ("the dog", "Nobody knew why the dog barked", *texts(6)):
        assert ours(unigram).encode(line).tolist() == rust.encode(line).ids


MARKED = [
    "▁the dog",
    "the ▁dog",
    "a▁dog",
    "▁▁the▁▁dog▁",
    "was late ▁",
    "▁",
    "▁ ▁ a",
    "the\u3000▁dog",
]
"""Texts with the mark that a vocabulary writes for a space."""


@pytest.mark.parametrize("kind", ["xlmr", "camembert", "albert"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_mark_in_a_text_begins_a_word(kind: str, mapped: bool, tmp_path: Path) -> None:
    """Where the character map leaves it, "▁the" is "the", and a "▁" by itself is that piece."""
    if mapped:
        getattr(families, f"write_{kind}")(tmp_path)
    else:
        write_identity(tmp_path, kind)
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    assert_equal(tmp_path / "saved", MARKED)
    own = ours(tmp_path / "saved")
    for line in MARKED:
        spans = own.offsets(line)
        assert len(spans) == len(own.tokenize(line))
        assert [span for span in spans if not 0 <= span[0] <= span[1] <= len(line)] == []
        assert own.encode_batch([line, "the dog"])[0].tolist() == own.encode(line).tolist()


@pytest.mark.parametrize(("name", "value"), [("do_lower_case", False), ("keep_accents", True)])
def test_what_tokenizer_json_alone_says_of_an_albert(
    name: str, value: bool, tmp_path: Path
) -> None:
    families.write_albert(tmp_path)
    about = {"tokenizer_class": "AlbertTokenizer", name: value}
    write(tmp_path, "tokenizer_config.json", about)
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    right = [theirs(path.parent)(line).input_ids for line in MARKS]
    del settings[name]
    write(path.parent, path.name, settings)
    assert [theirs(path.parent)(line).input_ids for line in MARKS] != right
    with pytest.raises(VocabularyError, match=f"says {name} {json.dumps(value)}, and Albert"):
        ours(path.parent)


@pytest.mark.parametrize("kind", ["xlmr", "albert"])
def test_capitals_that_a_map_makes_after_lowercase(kind: str, tmp_path: Path) -> None:
    """A part beside an added word is read once, as the whole text is: "™" becomes "TM"."""
    getattr(families, f"write_{kind}")(tmp_path)
    settings = {"do_lower_case": True, "keep_accents": True} if kind == "albert" else {}
    name = "AlbertTokenizer" if kind == "albert" else "XLMRobertaTokenizer"
    write(tmp_path, "tokenizer_config.json", {"tokenizer_class": name, **settings})
    tokenizer = theirs(tmp_path)
    tokenizer.add_tokens(["Foo"])
    saved = tmp_path / "saved"
    tokenizer.save_pretrained(saved)
    if kind == "xlmr":
        table = table_of(saved)
        table["normalizer"] = sequence("normalizers", {"type": "Lowercase"}, table["normalizer"])
        write(saved, "tokenizer.json", table)
        write(saved, "tokenizer_config.json", GENERIC)
    for line in ("20℃ foo ™ ﬁt", "™ Foo℃", "FOO", "㎐foo㎐"):
        rust = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
        assert ours(saved).encode(line).tolist() == rust.encode(line).ids, line
        assert len(ours(saved).offsets(line)) == len(rust.encode(line).ids) - 2


@pytest.mark.parametrize("mapped", [False, True])
def test_an_added_word_with_a_mark(mapped: bool, tmp_path: Path) -> None:
    """People add "▁a"; a map that makes a blank of the mark finds it in " and"."""
    if mapped:
        families.write_xlmr(tmp_path)
    else:
        write_identity(tmp_path, "xlmr")
    tokenizer = theirs(tmp_path)
    tokenizer.add_tokens(["▁a", "▁zug"])
    tokenizer.save_pretrained(tmp_path / "saved")
    lines = [*MARKED, "sleeping and eating", "a Zug zug", *families.SENTENCES[:8]]
    assert_equal(tmp_path / "saved", lines)


# ---- WordPiece and byte-level BPE ----


@pytest.mark.parametrize(
    ("name", "value"),
    [("do_lower_case", False), ("strip_accents", False), ("tokenize_chinese_chars", False)],
)
def test_what_tokenizer_json_alone_says_of_words(name: str, value: bool, tmp_path: Path) -> None:
    """A class does not read it there: transformers answers with other ids, and this refuses."""
    families.write_wordpiece(tmp_path)
    about = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, name: value}
    write(tmp_path, "tokenizer_config.json", about)
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    plain = ours(tmp_path)
    assert_equal(tmp_path / "saved", texts(11))
    path = tmp_path / "saved" / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings[name]
    write(path.parent, path.name, settings)
    lines = texts(11)
    assert [theirs(path.parent)(t).input_ids for t in lines] != [
        plain.encode(t).tolist() for t in lines
    ]
    with pytest.raises(VocabularyError, match=f'says {name} false, and Bert.*"{name}": false'):
        ours(path.parent)
    write(path.parent, path.name, {**settings, **GENERIC})
    assert [ours(path.parent).encode(t).tolist() for t in lines] == [
        plain.encode(t).tolist() for t in lines
    ]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("accents", [None, False, True])
def test_lowercase_before_berts_normalizer(
    tmp_path: Path, lowercase: bool, accents: bool | None
) -> None:
    """As sentence-transformers writes `do_lower_case` of a cased model."""
    families.write_wordpiece_cased(tmp_path)
    theirs(tmp_path).save_pretrained(tmp_path)
    table = table_of(tmp_path)
    table["normalizer"] |= {"lowercase": lowercase, "strip_accents": accents}
    table["normalizer"] = sequence("normalizers", {"type": "Lowercase"}, table["normalizer"])
    write(tmp_path, "tokenizer.json", table)
    settings = {"do_lower_case": lowercase, "strip_accents": accents}
    rust = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for about in (GENERIC, {"tokenizer_class": "BertTokenizer", **settings}):
        write(tmp_path, "tokenizer_config.json", about)
        for line in texts(7):
            assert ours(tmp_path).encode(line).tolist() == rust.encode(line).ids


@pytest.fixture
def bpe(tmp_path: Path) -> Path:
    families.write_bytes(tmp_path)
    theirs(tmp_path).save_pretrained(tmp_path / "saved")
    write(tmp_path / "saved", "tokenizer_config.json", GENERIC)
    return tmp_path / "saved"


def test_ignored_merges(bpe: Path) -> None:
    """Harmless where merges form every piece; else whole words would be one piece."""
    table = table_of(bpe)
    table["model"]["ignore_merges"] = True
    write(bpe, "tokenizer.json", table)
    assert_equal(bpe, texts(8))
    table["model"]["vocab"]["Ġkaleidoscope"] = len(table["model"]["vocab"])
    write(bpe, "tokenizer.json", table)
    assert theirs(bpe)("a kaleidoscope").input_ids[-2] == table["model"]["vocab"]["Ġkaleidoscope"]
    with pytest.raises(VocabularyError, match=r"ignore_merges is True.*'Ġkaleidoscope'"):
        ours(bpe)


@pytest.mark.parametrize(
    "changes",
    [{"unk_token": "<unk>"}, {"unk_token": None}, {"unk_token": "<unk>", "fuse_unk": True}],
)
def test_bytes_that_the_vocabulary_lacks(bpe: Path, changes: dict[str, Any]) -> None:
    table = table_of(bpe)
    table["model"] |= changes
    vocabulary = table["model"]["vocab"]
    vocabulary["<odd>"] = vocabulary.pop("Ĩ")  # byte 5 and so on are in no merge
    write(bpe, "tokenizer.json", table)
    if changes == {"unk_token": "<unk>"}:
        for line in ("a\x06\x06b", *texts(9)):
            assert ours(bpe).encode(line).tolist() == theirs(bpe)(line).input_ids
        return
    with pytest.raises(VocabularyError, match="fuse_unk" if len(changes) > 1 else "unk_token"):
        ours(bpe)


def test_one_separator_of_a_generic_class(bpe: Path) -> None:
    table = table_of(bpe)
    kind = {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    table["post_processor"] = kind
    write(bpe, "tokenizer.json", table)
    for pair in zip(texts(10), reversed(texts(10)), strict=True):
        assert ours(bpe).encode(*pair).tolist() == theirs(bpe)([pair]).input_ids[0]
    write(bpe, "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"})
    with pytest.raises(VocabularyError, match="separators in post_processor is 1, and Roberta"):
        ours(bpe)
    for refused in (None, {"type": "ByteLevel"}):
        write(bpe, "tokenizer_config.json", GENERIC)
        table["post_processor"] = refused
        write(bpe, "tokenizer.json", table)
        with pytest.raises(VocabularyError, match="post_processor is"):
            ours(bpe)
