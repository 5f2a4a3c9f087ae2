"""The BPE against its plain twin, and against everything that can be wrong with text and tables."""

import json
import lzma
import pickle
import re

import pytest
from bpe_twin import EVERY_CHARACTER, in_python, in_rust, read_original, shared_characters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_text import texts

from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.text import merging
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.gpt2_tables import BYTE_ORDER, printable

BPE = GPT2BPE.shipped()
relaxed = {"deadline": None, "suppress_health_check": list(HealthCheck)}
twenty = st.lists(
    texts(), min_size=20, max_size=20
)  # many strings an example: cheaper than many examples


@pytest.mark.system
@settings(max_examples=250, **relaxed)
@given(twenty)
def test_5000_strings_as_the_twin(twin, strings):
    for text in strings:
        assert BPE.encode_ids(text) == twin.encode(text)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=5000, **relaxed)
@given(twenty)
def test_100000_strings_as_the_twin(twin, strings):
    for text in strings:
        assert BPE.encode_ids(text) == twin.encode(text)


@pytest.mark.system
@pytest.mark.parametrize("char_class", [r"\p{L}", r"\p{N}", r"\s"])
def test_unicode_tables_agree_where_both_know(char_class):
    known = set(shared_characters())
    assert in_rust(char_class) & known == in_python(char_class) & known


def test_own_list_of_whitespace():
    assert set(re.findall(f"[{merging.SPACE}]", EVERY_CHARACTER)) == in_rust(r"\s")


@pytest.mark.system
def test_every_character_as_the_twin(twin):
    assert len(shared_characters()) > 280_000
    different = [c for c in shared_characters() if BPE.encode_ids(c) != twin.encode_piece(c)]
    assert different == []


def real_text(shared, name, size):
    with lzma.open(shared / "data" / "pretrain" / name, "rt", encoding="utf-8") as file:
        return file.read(size)


def assert_ids_of_original_tables(shared, text):
    original = read_original(shared / "vocab")
    lines = text.split("\n\n")
    for line in lines:
        assert BPE.encode_ids(line) == original.encode(line)


@pytest.mark.system
def test_real_text_as_original_tables(shared):
    assert_ids_of_original_tables(shared, real_text(shared, "oanc_slate.txt.xz", 1_500_000))


@pytest.mark.slow
def test_25_mb_of_real_text_as_original_tables(shared):
    text = real_text(shared, "enwiki_2021_core.txt.xz", 22_000_000)
    text += real_text(shared, "sgd_dialogues.txt.xz", 3_000_000)
    assert len(text.encode()) > 20_000_000
    assert_ids_of_original_tables(shared, text)


@given(texts())
def test_round_trip(text):
    assert BPE.decode(BPE.encode(text)) == text


@settings(max_examples=300, **relaxed)
@given(
    st.lists(st.sampled_from([" ", "\n", "\t", "\u3000", "\x1c", "a", "é", "'s", "1", "!"])).map(
        "".join
    )
)
def test_cutting_at_long_whitespace_changes_nothing(twin, text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MAX_JOINED", 3)  # "long" from three characters on
        assert BPE.encode_ids(text) == twin.encode(text)


@pytest.mark.system
@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "!" * 1_000_000,
        " " * 1_200_000,
        " " * 1_200_000 + "end",  # the regex engine alone would give up here
        "begin" + "\n" * 1_200_000 + " end" + "\u3000" * 1_100_000 + "end  ",
        "\n a" * 400_000,
    ],
    ids=["word", "punctuation", "spaces", "spaces first", "whitespace inside", "lines"],
)
def test_very_long_text(text):
    ids = BPE.encode_ids(text)
    assert b"".join(map(BPE.token_bytes, ids)).decode() == text


def test_long_whitespace_is_one_piece_but_for_its_last_character():
    assert BPE.encode_ids("x" + " " * 1_200_000 + "end") == [
        *BPE.encode_ids("x"),
        *[220] * 1_199_999,
        886,
    ]


@pytest.mark.parametrize(
    "word", ["<s>", "</s>", "<pad>", "<mask>", "<unk>", "<|endoftext|>", merging.BEGIN]
)
def test_special_words_are_text(word):
    ids = BPE.encode_ids(word)
    assert len(ids) > 1 and max(ids) < 50_256
    assert BPE.decode(BPE.encode(word)) == word


@pytest.mark.parametrize(
    "text", ["\0", "\x01\x1f\x7f", "a\r\nb", "\u00a0", "\ufeffa", "a\u2028b", "\U0010ffff"]
)
def test_odd_characters_survive(text):
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [("\ud800", 0), ("ab\udfffc", 2), ("🙂\ud83d", 1), ("a" * 150_000 + "\ud800", 150_000)],
)
def test_lone_surrogate(text, place):
    with pytest.raises(InputError, match=f"character {place} of the text is U\\+D"):
        BPE.encode_ids(text)


@pytest.mark.parametrize("value", [None, 3, 1.5, b"bytes"])
def test_no_text(value):
    with pytest.raises(InputTypeError, match=f"is a {type(value).__name__}, not a str"):
        BPE.encode_ids(value)


@pytest.mark.parametrize("value", [["a"], ("a", "b")])
def test_several_texts_point_to_encode_batch(value):
    with pytest.raises(InputTypeError, match="encode_batch"):
        BPE.encode_ids(value)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ("", ""),
        ("15496 <mask> 0", "Hello<mask>!"),
        ("<unk> 995", "<unk> world"),
        ("<pad> madeupword0000 </s>", "<pad>madeupword0000</s>"),
        ("50256", "<|endoftext|>"),
        ("99999 -1 007", "99999-1007"),
        ("447", "�"),  # the first two bytes of ’
        ("447 247", "’"),
    ],
)
def test_decode(ids, text):
    assert BPE.decode(ids) == text


def test_decode_of_no_str():
    with pytest.raises(InputTypeError, match="not list"):
        BPE.decode([15496])


def test_token_bytes_of_an_unknown_id():
    with pytest.raises(InputError, match="60000 is no GPT-2 id; ids run from 0 to 50256"):
        BPE.token_bytes(60_000)


def test_pickle():
    copy = pickle.loads(pickle.dumps(BPE))
    assert copy.encode("It was a great day") == BPE.encode("It was a great day")


# Tables from files

MERGES = [(b"a", b"b"), (b"ab", b"c"), (b" ", b"abc")]
TOKENS = [bytes([byte]) for byte in BYTE_ORDER] + [left + right for left, right in MERGES]


def write_tables(folder, ids=None, merges=None):
    if ids is None:  # not GPT-2's order, with a special and a gap
        ids = {printable(token): 3 * i + 7 for i, token in enumerate(reversed(TOKENS))} | {"<s>": 0}
    lines = merges or [f"{printable(a)} {printable(b)}" for a, b in MERGES]
    (folder / "encoder.json").write_text(json.dumps(ids), "utf-8")
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *lines, ""]), "utf-8")
    return folder / "encoder.json", folder / "vocab.bpe"


def test_own_tables(tmp_path):
    bpe = GPT2BPE.from_files(*write_tables(tmp_path))
    assert bpe.encode_ids("abc abc") == [10, 7]
    assert bpe.decode("10 7 0") == "abc abc<s>"
    assert bpe.decode(bpe.encode("Grüße 🙂 abcab")) == "Grüße 🙂 abcab"
    assert (bpe.token_bytes(7), bpe.is_text(7), bpe.is_text(0)) == (b" abc", True, False)


def test_merges_with_crlf_and_without_a_last_line_break(tmp_path):
    encoder, merges = write_tables(tmp_path)
    merges.write_bytes(merges.read_bytes().replace(b"\n", b"\r\n").removesuffix(b"\r\n"))
    assert GPT2BPE.from_files(encoder, merges).merges() == MERGES


IDS = {printable(token): i for i, token in enumerate(TOKENS)}


@pytest.mark.parametrize(
    ("ids", "merges", "message"),
    [
        ({**IDS, "ab": 0}, None, "two tokens share one id"),
        ({**IDS, "ab": -1}, None, "id -1 is outside"),
        ({**IDS, "ab": 1 << 40}, None, "is outside 0"),
        ({**IDS, "ab": 1.0}, None, "the id of 'ab' is 1.0, not a whole number"),
        ({**IDS, "ab": True}, None, "is True, not a whole number"),
        ({**IDS, "a b": 999}, None, "'a b' holds ' ', which is no byte"),
        ({k: v for k, v in IDS.items() if k != "abc"}, None, "token 'abc' has no id"),
        (["a"], None, "expected a JSON object, found list"),
        (None, ["a b", "ab"], "vocab.bpe, line 3: 'ab' is no merge"),
        (None, ["a b", "ab c d"], "line 3: 'ab c d' is no merge"),
        (None, ["a b", "", "ab c"], "line 3: '' is no merge"),
        (None, ["a b", "ab 一"], "line 3: 'ab 一' is no merge"),
        (None, ["ab c", "a b", "Ġ abc"], "merge 1, 'ab' \\+ 'c', cannot follow"),
        (None, ["a b", "b c", "a bc"], "merge 3, 'a' \\+ 'bc', cannot follow"),
        (None, ["a b", "b c", "ab c", "a bc"], "two merges form the same token"),
    ],
)
def test_damaged_tables(tmp_path, ids, merges, message):
    encoder, vocab = write_tables(tmp_path, ids, merges)
    with pytest.raises(VocabularyError, match=message) as caught:
        GPT2BPE.from_files(encoder, vocab)
    assert re.search(r"encoder\.json|vocab\.bpe", str(caught.value))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not readable JSON"),
        (b"{", "not readable JSON"),
        (b"\xff\xfe{}", "it is UTF-16"),
        (b"[" * 100_000, "not readable JSON"),
    ],
)
def test_encoder_that_is_no_json(tmp_path, data, message):
    encoder, vocab = write_tables(tmp_path)
    encoder.write_bytes(data)
    with pytest.raises(VocabularyError, match=message):
        GPT2BPE.from_files(encoder, vocab)


def test_missing_files(tmp_path):
    encoder, vocab = write_tables(tmp_path)
    for pair in (
        (tmp_path / "none.json", vocab),
        (encoder, tmp_path / "none.bpe"),
        (tmp_path, vocab),
    ):
        with pytest.raises(VocabularyError, match=r"cannot be read|is a directory"):
            GPT2BPE.from_files(*pair)
