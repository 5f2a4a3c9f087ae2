"""WordPiece: ids, spans and pieces; no text writes a special word."""

from __future__ import annotations

import hashlib
import random
import sys

import pytest
from mixed_text import mixed_lines
from wordpiece_vocabularies import names

from roberta_hub.errors import CheckpointError, InputError, InputTypeError, VocabularyError
from roberta_hub.text import Dictionary, SequenceLayout, SubwordTokenizer, Tokenizer, wordpiece
from roberta_hub.text.alignment import align
from roberta_hub.text.unicode import Fold, unicode_tables
from roberta_hub.text.wordpiece import WordPiece
from roberta_hub.text.wordpiece_rules import Rules, Specials

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
SMALL = [
    *SPECIALS,
    "[unused1]",
    "the",
    "un",
    "##aff",
    "##able",
    "dog",
    "##s",
    "cafe",
    "é",
    "i",
    "HQ",
    "[",
    "]",
    "mask",
    "##mask",
    ".",
    ",",
    "!",
    "##!",
    "'",
    "你",
    "##好",
    "好",
    "한",
    "##ss",
    "ß",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
    *"abcdefghijklmnopqrstuvwxyz0123456789#",
]
SMALL = list(dict.fromkeys(SMALL))


def tokenizer_of(engine: WordPiece) -> Tokenizer:
    words = dict(zip(("pad", "unk", "bos", "eos"), engine.specials.names, strict=False))
    dictionary = Dictionary.from_symbols(engine.names, **words)
    ids = {role: dictionary.index(word) for role, word in words.items()}
    layout = SequenceLayout(**ids, mask=dictionary.index("[MASK]"), separators=1)
    return Tokenizer(engine, dictionary, layout)


@pytest.fixture(scope="module")
def small() -> Tokenizer:
    return tokenizer_of(WordPiece(SMALL))


@pytest.fixture(scope="module")
def uncased() -> Tokenizer:
    return tokenizer_of(WordPiece(names("bert_base_tok")))


def test_it_is_an_engine(small: Tokenizer) -> None:
    assert isinstance(small.engine, SubwordTokenizer)
    assert small.engine.fingerprint != WordPiece(SMALL, rules=Rules(lower=False)).fingerprint


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The DOGS!", "the dog ##s !"),
        ("unaffable", "un ##aff ##able"),
        ("Café CAFE\u0301", "cafe cafe"),
        ("İ ı", "i [UNK]"),
        ("ß", "ß"),
        ("你好", "你 好"),
        ("x你y", "x 你 y"),
        ("한", "[UNK]"),  # taken apart, and the vocabulary has it whole
        ("[MASK] dogmask", "[ mask ] dog ##mask"),
        ("do\u200bg\x00s\ufffd \ue000", "dog ##s"),
        ("\u2028dog\u00a0dog\u3000dog\x1cdog", "dog dog dog ##d ##o ##g"),
        ("dog\t\r\ndog", "dog dog"),
        ("", ""),
        ("a" * 100, "a" + " ##a" * 99),
        ("a" * 101, "[UNK]"),
        ("the " + "a" * 101 + ".", "the [UNK] ."),
        ("dogα", "[UNK]"),
        ("\u0378dog", "[UNK]"),  # unassigned: kept, whatever Python says of it
    ],
)
def test_pieces(small: Tokenizer, text: str, pieces: str) -> None:
    assert small.engine.encode(text) == pieces
    assert small.tokenize(text) == pieces.split(" ") * bool(pieces)


@pytest.mark.parametrize(
    ("rules", "pieces"),
    [
        (Rules(lower=False), "[UNK] é HQ"),
        (Rules(lower=False, strip_accents=True), "[UNK] e HQ"),
        (Rules(strip_accents=False), "[UNK] é h ##q"),
        (Rules(strip_accents=True), "cafe e h ##q"),
    ],
)
def test_cased_and_accents(rules: Rules, pieces: str) -> None:
    assert WordPiece(SMALL, rules=rules).encode("Café é HQ") == pieces


def test_ideographs_stay_together_where_they_may() -> None:
    together = Rules(chinese=False)
    assert WordPiece(SMALL, rules=together).encode("x你 你好") == "[UNK] 你 ##好"
    assert WordPiece(SMALL, rules=Rules(longest_word=3)).encode("dog dogs") == "dog [UNK]"


def test_known_ids(uncased: Tokenizer) -> None:
    assert uncased.encode("Hello world!").tolist() == [101, 7592, 2088, 999, 102]
    assert uncased.encode("Hello", "world").tolist() == [101, 7592, 102, 2088, 102]
    assert uncased.encode_masked("Hello <mask>!").tolist() == [101, 7592, 103, 999, 102]
    assert uncased.tokenize("[MASK]") == ["[", "mask", "]"]
    cased = WordPiece(names("bert_base_cased_tok"), rules=Rules(lower=False))
    assert cased.encode_ids("Hello world!") == [8667, 1362, 106]
    chinese = WordPiece(names("bert_chinese"))
    assert chinese.piece(343) == "\u2028" and not chinese.is_text(343)
    assert chinese.encode("你好\u2028世界") == "你 好 世 界"
    assert len(names("bert_multi_cased")) == 119_547


def test_no_text_writes_a_special_word() -> None:
    """Not by its letters, not in capitals, not with characters between that fall out."""
    words = [*SPECIALS, "PAD", "CLS", "mask", "<mask>", "[unused1]"]
    odd = ["CLS", "pad", "mask", "[", "]", "<mask>"]
    plain = Specials(bos="CLS", eos="[SEP]", pad="pad", mask="mask")
    engines = [
        WordPiece(SMALL),
        WordPiece(list(dict.fromkeys([*odd, *SMALL])), rules=Rules(lower=False), specials=plain),
        WordPiece([*SMALL, "[E1]"], specials=Specials(others=("[E1]",))),
    ]
    draw = random.Random(1)
    glue = ["", "", " ", "\u200b", "\0", "\ufeff", "\x1c", "\u0301", "."]
    for engine in engines:
        control = {engine.symbols[name] for name in engine.specials.names} - {
            engine.symbols["[UNK]"]
        }
        texts = list(mixed_lines(200, seed=2))
        for _ in range(2000):
            word = draw.choice([*words, *engine.specials.names])
            cut = draw.randint(0, len(word))
            parts = [draw.choice(glue), word[:cut], draw.choice(glue), word[cut:]]
            texts.append("".join(parts) * draw.randint(1, 2))
        for text in texts:
            assert not control & set(engine.encode_ids(text)), text


def test_a_batch_is_its_singles(small: Tokenizer) -> None:
    texts = [*mixed_lines(300), ("the dog", "a", "[SEP]"), ""]
    singles = [small.encode(*([t] if isinstance(t, str) else t)).tolist() for t in texts]
    assert [ids.tolist() for ids in small.encode_batch(texts)] == singles
    assert [ids.tolist() for ids in small.encode_batch(texts, threads=2)] == singles


@pytest.mark.system
def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "_REMEMBERED", 10)
    engine, fresh = WordPiece(SMALL), WordPiece(SMALL)
    for number in range(1000):
        text = f"dog{number % 37} {'a' * number}"
        found = engine.encode_ids(text)
        fresh._chunks.clear()
        assert found == fresh.encode_ids(text)
        assert len(engine._chunks) <= 10
        assert all(len(chunk) <= 32 for chunk in engine._chunks)
    for code in range(0x20000):
        engine._fold[code]
    assert len(engine._fold) <= 1 << 14


def test_ids_given_out_are_the_callers(small: Tokenizer) -> None:
    small.engine.encode_ids("dogs").append(7)
    assert small.engine.encode("dogs") == "dog ##s"


# ---- spans ----


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("The DOGS!", ["The", "DOG", "S", "!"]),
        ("cafe\u0301!", ["cafe\u0301", "!"]),
        ("Café", ["Café"]),
        ("e\u200b\u0301x", ["e\u200b\u0301", "x"]),
        ("İ.", ["İ", "."]),
        ("ﬁ 你x", ["ﬁ", "你", "x"]),
        ("\u0301a", ["a"]),
        ("! \u0301", ["!"]),
        ("a" * 101 + " b", ["a" * 101, "b"]),
    ],
)
def test_spans_cut_the_text_as_it_was_given(small: Tokenizer, text: str, cut: list[str]) -> None:
    assert [text[start:end] for start, end in small.offsets(text)] == cut


@pytest.mark.parametrize("rules", [Rules(), Rules(lower=False), Rules(strip_accents=False)])
def test_spans_go_forward_and_spell_their_pieces(rules: Rules) -> None:
    engine = WordPiece([*SMALL, *"абвгдежзийклмнопрстуфхцчшщъыьэюя"], rules=rules)
    fold = Fold(lower=rules.lower, strip=rules.strip, chinese=rules.chinese)
    for text in mixed_lines(400, seed=3):
        ids, spans = engine.encode_ids(text), engine.spans(text)
        assert len(ids) == len(spans)
        assert all(a <= c and b <= d for (a, b), (c, d) in zip(spans, spans[1:], strict=False))
        for number, (start, end) in zip(ids, spans, strict=True):
            assert 0 <= start < end <= len(text)
            if number != UNK:
                letters = "".join(fold.words(text[start:end]))
                assert engine.piece(number).removeprefix("##") in letters


def test_alignment(small: Tokenizer) -> None:
    text = "The unaffable dogs, café!"
    assert align(small, text, ["The", "unaffable", "dogs", "café", "!"]) == [
        [1],
        [2, 3, 4],
        [5, 6],
        [8],
        [9],
    ]


# ---- pieces ----


def test_decode(small: Tokenizer) -> None:
    for text in ("the dog's mask!", "unaffable dogs, a cafe."):
        words = text.replace("'", " ' ")
        assert small.decode(small.encode(text)) == words
    assert small.decode(small.encode("the dog", "dogs", "a")) == ["the dog", "dogs", "a"]
    assert small.decode([CLS, 6, MASK, UNK, SEP, PAD]) == "the [MASK] [UNK]"
    assert small.decode([CLS, SEP]) == ""
    assert [small.decode_id(i) for i in (6, 8, CLS)] == [" the", "aff", " [CLS]"]
    assert small.engine.decode("un ##aff <mask> !") == "unaff <mask>!"
    apart = WordPiece(SMALL, rules=Rules(clean_up=False))
    assert apart.decode("dog , the !") == "dog , the !"
    with pytest.raises(InputTypeError, match="a str of pieces"):
        small.engine.decode(3)


def test_which_ids_are_text(uncased: Tokenizer, small: Tokenizer) -> None:
    odd = ["[unused1]", "HQ", "##!", "##好", "é", "한", *SPECIALS]
    assert [name for name in SMALL if not small.words[SMALL.index(name)]] == [
        name for name in SMALL if name in odd
    ]
    engine = uncased.engine
    assert isinstance(engine, WordPiece)
    for number, (name, is_word) in enumerate(zip(engine.names, uncased.words, strict=True)):
        if is_word and engine.begins_word(number):
            assert engine.encode_ids(name) == [number]
    for text in mixed_lines(300, seed=4):
        for number in engine.encode_ids(text):
            assert uncased.words[number] or number == 100
    begins = uncased.beginnings
    assert [engine.names[i][:2] == "##" for i in range(engine.size)] == (~begins).tolist()
    assert [engine.is_beginning_of_word(w) for w in ("dog", "##s")] == [True, False]


def test_errors(small: Tokenizer) -> None:
    engine = small.engine
    with pytest.raises(InputTypeError, match="not a str"):
        engine.encode_ids(3)
    for cut in (engine.encode_ids, engine.spans):
        with pytest.raises(InputError, match="surrogate"):
            cut("a\ud800")
    for number in (-1, len(SMALL)):
        with pytest.raises(InputError, match=f"{number} is no piece"):
            engine.piece(number)
    with pytest.raises(CheckpointError, match="fairseq has no WordPiece"):
        engine.fairseq_files()
    with pytest.raises(VocabularyError, match=r"lacks its special word '\[MASK\]'"):
        WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    for row in ("", "a\nb", "the"):
        with pytest.raises(CheckpointError, match=r"vocab\.txt cannot express"):
            engine.files([*range(len(SMALL)), row])


# ---- characters ----


DIGEST = "626d15c4f8748d963699dc36cb817f98427e41aad0fcd1b494abcd8a17b730b1"


@pytest.mark.system
def test_no_python_changes_what_characters_become() -> None:
    """Where this differs, ids depend on the Python: Unicode 14 in 3.11, 16 in 3.14."""
    kinds = ((True, True, True), (False, False, True), (True, False, False))
    digest = hashlib.sha256()
    for lower, strip, chinese in kinds:
        fold = Fold(lower=lower, strip=strip, chinese=chinese)
        for code in [*range(0xD800), *range(0xE000, 0x1FC00), *range(0xE0000, 0xE0200)]:
            digest.update(fold._fold(code).encode() + b"\n")
    assert digest.hexdigest() == DIGEST, sys.version


def test_tables_are_ranges_in_order() -> None:
    known = unicode_tables()
    for ranges in (known.dropped, known.blank, known.chinese, known.punctuation, known.marks):
        flat = [code for pair in ranges for code in pair]
        assert flat == sorted(flat)
