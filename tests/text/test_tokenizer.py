"""Sentences ↔ ids: fairseq's documented ids, round trips, batches, offsets.

A batch gives what single calls give; offsets are those of a slow reference.
"""

import itertools
import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_text import texts

from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.text import sequences
from roberta_hub.text.bpe import BEGIN, END, GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.tokenizer import Tokenizer

tuples = st.lists(texts(5), min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("sentence", "ids"),
    [
        ("Hello world!", [0, 31414, 232, 328, 2]),
        ("Hello world", [0, 31414, 232, 2]),
        (" world", [0, 232, 2]),
        ("world", [0, 8331, 2]),
        ("It was a great day", [0, 243, 21, 10, 372, 183, 2]),
        ("", [0, 2]),
        (" ", [0, 1437, 2]),
        ("\0\x01\x02\x03", [0, 50108, 50109, 50110, 50111, 2]),
    ],
)
def test_documented_ids(tokenizer, sentence, ids):
    encoded = tokenizer.encode(sentence)
    assert encoded.dtype == torch.int64
    assert encoded.tolist() == ids
    assert tokenizer.decode(encoded) == sentence


def test_several_sentences(tokenizer):
    assert tokenizer.encode("Hello", "world").tolist() == [0, 31414, 2, 2, 8331, 2]
    assert tokenizer.encode("Hello", "world", " world").tolist() == [
        0,
        31414,
        2,
        2,
        8331,
        2,
        2,
        232,
        2,
    ]
    assert tokenizer.encode("Hello", "world", no_separator=True).tolist() == [0, 31414, 2, 8331, 2]


def test_pieces(tokenizer):
    assert tokenizer.tokenize("I had a sudden epipheny") == [
        "I",
        "Ġhad",
        "Ġa",
        "Ġsudden",
        "Ġep",
        "ip",
        "heny",
    ]
    assert tokenizer.tokenize("It was") == ["It", "Ġwas"]
    assert tokenizer.tokenize("") == []
    assert tokenizer.pieces([0, 243, 50261, 50264, 2, 3, 1]) == [
        "<s>",
        "It",
        "madeupword0000",
        "<mask>",
        "</s>",
        "<unk>",
        "<pad>",
    ]


def test_pieces_of_the_whole_vocabulary(tokenizer):
    pieces = tokenizer.pieces()
    assert len(pieces) == len(set(pieces)) == len(tokenizer) == 50_265
    assert (pieces[232], pieces[50_260], pieces[-1]) == ("Ġworld", "<|endoftext|>", "<mask>")


def test_words(tokenizer):
    words = tokenizer.words
    assert (words.dtype, words.shape) == (torch.bool, (50_265,))
    assert [tokenizer.decode_id(i) for i in (~words).nonzero().flatten().tolist()] == [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<|endoftext|>",
        "madeupword0000",
        "madeupword0001",
        "madeupword0002",
        "<mask>",
    ]


# Properties


@given(texts())
def test_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(texts().filter(bool), min_size=1, max_size=4))
def test_round_trip_of_several(tokenizer, sentences):
    decoded = tokenizer.decode(tokenizer.encode(*sentences))
    assert decoded == (sentences if len(sentences) > 1 else sentences[0])


@given(st.lists(st.one_of(texts(), tuples), max_size=12), st.sampled_from([None, 1, 2]))
def test_batch_is_singles(tokenizer, batch, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "_JOINED_TEXTS", 5)
        encoded = tokenizer.encode_batch(batch, threads)
    singles = [tokenizer.encode(*([t] if isinstance(t, str) else t)) for t in batch]
    assert [ids.tolist() for ids in encoded] == [ids.tolist() for ids in singles]
    assert all(ids.dtype == torch.int64 for ids in encoded)


def test_large_batch_with_a_long_text(tokenizer):
    batch = [f"number {i}" for i in range(1000)]
    batch[300] = "word " * 40_000
    batch[700] = " " * 1_200_000 + "end"
    encoded = tokenizer.encode_batch(batch, threads=3)
    assert len(encoded) == 1000
    assert all(torch.equal(encoded[i], tokenizer.encode(batch[i])) for i in range(1000))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_text_forms_a_mark_together_with_its_neighbours(tokenizer, size):
    """Every string over the marks' characters and their surroundings, in the middle of a batch."""
    alphabet = sorted({*BEGIN, *END, "\0", "<", "s>", "</s>", "b"})
    texts = ["".join(letters) for letters in itertools.product(alphabet, repeat=size)]
    singly = [tokenizer.encode(text).tolist() for text in texts]
    for text, ids in zip(texts, singly, strict=True):
        assert [row.tolist() for row in tokenizer.encode_batch([text, text])] == [ids, ids]
        assert sum(i == tokenizer.eos for i in ids) == 1


@pytest.mark.parametrize("mark", [BEGIN, END, END + END, f"a{END}{BEGIN}b"])
def test_no_text_can_write_a_control_token(tokenizer, mark):
    before, ids, after = tokenizer.encode_batch(["x", mark, ("y", mark)])
    assert tokenizer.decode(ids) == mark
    assert tokenizer.decode(after) == ["y", mark]
    assert before.tolist() == tokenizer.encode("x").tolist()
    assert not set(ids[1:-1].tolist()) & {0, 2}


@pytest.mark.parametrize("text", ["<s>", "</s> <mask>", "<pad><unk>", "a </s></s> b"])
def test_special_words_in_text_are_text(tokenizer, text):
    assert not set(tokenizer.encode(text)[1:-1].tolist()) & {0, 1, 2, 3, 50_264}
    assert tokenizer.decode(tokenizer.encode(text)) == text


def slow_offsets(tokenizer, text):
    """Byte by byte: the characters that a piece has bytes of."""
    owners = [i for i, character in enumerate(text) for _ in character.encode()]
    spans, done = [], 0
    for gpt2_id in tokenizer.engine.encode_ids(text):
        mine = owners[done : done + len(tokenizer.engine.token_bytes(gpt2_id))]
        spans.append((min(mine), max(mine) + 1))
        done += len(mine)
    assert done == len(owners)
    return spans


@given(texts())
def test_offsets_as_slow_reference(tokenizer, text):
    assert tokenizer.offsets(text) == slow_offsets(tokenizer, text)


@given(texts())
def test_byte_spans_cover_the_text(tokenizer, text):
    spans = tokenizer.engine.byte_spans(text)
    pieces = tokenizer.tokenize(text)
    assert len(spans) == len(pieces)
    assert [text.encode()[a:b] for a, b in spans] == [
        tokenizer.engine.token_bytes(i) for i in tokenizer.engine.encode_ids(text)
    ]


def test_offsets_of_a_character_in_parts(tokenizer):
    assert tokenizer.offsets("You can’t.") == [(0, 3), (3, 7), (7, 8), (7, 8), (8, 9), (9, 10)]
    assert tokenizer.offsets("") == []


# Masks


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello <mask>!", [0, 31414, 50264, 328, 2]),
        ("Hello<mask>!", [0, 31414, 50264, 328, 2]),
        ("Hello \n <mask> world", [0, 31414, 50264, 232, 2]),
        ("<mask>", [0, 50264, 2]),
        ("<mask> <mask><mask>", [0, 50264, 50264, 50264, 2]),
        ("Hello ", [0, 31414, 2]),
        ("", [0, 2]),
    ],
)
def test_encode_masked(tokenizer, text, ids):
    assert tokenizer.encode_masked(text).tolist() == ids


def test_encode_masked_with_another_placeholder(tokenizer):
    assert tokenizer.encode_masked("Hello ___!", mask_token="___").tolist() == [
        0,
        31414,
        50264,
        328,
        2,
    ]
    ids = tokenizer.encode_masked("<mask> ___", mask_token="___").tolist()
    assert ids.count(50264) == 1 and ids[-2] == 50264
    with pytest.raises(InputError, match="empty"):
        tokenizer.encode_masked("a", mask_token="")
    with pytest.raises(InputTypeError, match="not a str"):
        tokenizer.encode_masked(["a <mask>"])


# Wrong input (rows 39 and 42)


@pytest.mark.parametrize("value", [None, 3, b"bytes"])
def test_encode_of_no_text(tokenizer, value):
    with pytest.raises(InputTypeError, match=type(value).__name__):
        tokenizer.encode(value)
    with pytest.raises(InputTypeError, match=type(value).__name__):
        tokenizer.encode("a", value)


def test_encode_of_a_list_points_to_encode_batch(tokenizer):
    with pytest.raises(InputTypeError, match="is a list, not a str; encode_batch gives ids"):
        tokenizer.encode(["a"])


def test_batch_of_a_str(tokenizer):
    with pytest.raises(InputTypeError, match="use encode for one text"):
        tokenizer.encode_batch("abc")


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        (None, InputTypeError, r"texts\[300\]: .*NoneType"),
        (["a"], InputTypeError, r"texts\[300\]: .* not a list"),
        ((), InputTypeError, r"texts\[300\]: .* not an empty tuple"),
        (("a", 3), InputTypeError, r"texts\[300\]: text is a int, not a str"),
        ("ab\ud800", InputError, r"texts\[300\]: character 2 of the text is U\+D800"),
        (("a", "\udfff"), InputError, r"texts\[300\]: character 0"),
    ],
)
@pytest.mark.parametrize("threads", [None, 2])
def test_errors_name_the_item(tokenizer, item, error, message, threads):
    with pytest.raises(error, match=message):
        tokenizer.encode_batch(["fine"] * 300 + [item] + ["fine"] * 10, threads)


def test_surrogate_position(tokenizer):
    with pytest.raises(ValueError, match="character 3 of the text is U\\+DC00"):
        tokenizer.encode("🙂ab\udc00")


# Decode (row 51)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        ([0], ""),
        ([2], ""),
        ([0, 2], ""),
        ([0, 31414, 2, 1, 1], "Hello"),
        ([1, 1, 0, 31414, 2], "Hello"),
        ([31414, 0, 232], "Hello world"),
        ([0, 31414, 2, 8331, 2], "Helloworld"),
        ([0, 31414, 50264, 2], "Hello<mask>"),
        ([0, 50261, 50262, 3, 2], "madeupword0000madeupword0001<unk>"),
        ([0, 50260, 2], "<|endoftext|>"),
        ([0, 48, 2], "�"),  # the first two bytes of ’
        ([0, 31414, 2, 2, 8331, 2], ["Hello", "world"]),
        ([0, 31414, 2, 2, 2], ["Hello", "", ""]),
        ([0, 31414, 2, 2, 8331, 2, 1, 1], ["Hello", "world"]),
    ],
)
def test_decode(tokenizer, ids, text):
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(torch.tensor(ids, dtype=torch.int64)) == text


def test_decode_of_empty_second_sentence(tokenizer):
    assert tokenizer.decode(tokenizer.encode("Hello", "")) == ["Hello", "", ""]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_decode_takes_any_integers(tokenizer, dtype):
    assert tokenizer.decode(torch.tensor([0, 232, 2], dtype=dtype)) == " world"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_decode_on_a_gpu(tokenizer):
    assert tokenizer.decode(tokenizer.encode("Hello").cuda()) == "Hello"


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ([0, -1], InputError, r"tokens\[1\] is -1; ids run from 0 to 50264"),
        (torch.tensor([0, 5, 50265]), InputError, r"tokens\[2\] is 50265"),
        (torch.tensor([[0, 2]]), InputError, r"shape \(1, 2\)"),
        ([[0, 2]], InputError, r"shape \(1, 2\)"),
        (torch.tensor(5), InputError, r"shape \(\)"),
        (5, InputError, r"shape \(\)"),
        (torch.tensor([0.0, 2.0]), InputTypeError, "torch.float32"),
        ([0.5], InputTypeError, "torch.float32"),
        (torch.tensor([True]), InputTypeError, "torch.bool"),
        ([True, False], InputTypeError, "torch.bool"),
        (torch.tensor([1j]), InputTypeError, "torch.complex64"),
        ("0 2", InputTypeError, "not a row of whole numbers"),
        (None, InputTypeError, "not a row of whole numbers"),
        ([0, "2"], InputTypeError, "not a row of whole numbers"),
        ([[0], [1, 2]], InputTypeError, "not a row of whole numbers"),
        ([1 << 80], InputTypeError, "not a row of whole numbers"),
    ],
)
def test_decode_of_wrong_ids(tokenizer, tokens, error, message):
    for verb in (tokenizer.decode, tokenizer.pieces):
        if (
            tokens is not None or verb == tokenizer.decode
        ):  # pieces() without ids is the whole vocabulary
            with pytest.raises(error, match=message):
                verb(tokens)


@given(st.lists(st.integers(0, 50_264)))
def test_decode_never_fails_on_ids_of_the_dictionary(tokenizer, ids):
    decoded = tokenizer.decode(ids)
    assert isinstance(decoded, str) or (isinstance(decoded, list) and len(decoded) > 1)


# Other dictionaries


def test_unknown_pieces():
    small = Tokenizer(GPT2BPE.shipped(), Dictionary.parse(b"15496 5\n0 1\n", "dict.txt"))
    assert small.encode("Hello world!").tolist() == [0, 4, 3, 5, 2]
    assert small.decode(small.encode("Hello world!")) == "Hello<unk>!"
    with pytest.raises(VocabularyError, match="no <mask>"):
        small.encode_masked("Hello <mask>")
    with pytest.raises(VocabularyError, match="no <mask>"):
        _ = small.mask_idx
    assert small.encode_masked("Hello").tolist() == [0, 4, 2]


def test_moved_specials():
    data = b"</s> 1 #fairseq:overwrite\n995 1\n"
    moved = Tokenizer(GPT2BPE.shipped(), Dictionary.parse(data, "dict.txt"))
    assert moved.encode(" world").tolist() == [0, 5, 4]  # as fairseq
    assert moved.decode([0, 5, 4]) == moved.decode([0, 5, 4, 2]) == " world"
    assert moved.decode([0, 5, 4, 4, 5, 4]) == [" world", " world"]


def test_own_bpe_ids():
    ids = {bytes([byte]): 1000 + 2 * byte for byte in range(256)} | {b"ab": 7}
    bpe = GPT2BPE([(b"a", b"b")], ids)
    dictionary = Dictionary.parse(b"7 9\n1198 3\n", "dict.txt", add_mask=True)
    own = Tokenizer(bpe, dictionary)
    assert (
        own.encode("abcab").tolist() == own.encode_batch(["abcab"])[0].tolist() == [0, 4, 5, 4, 2]
    )
    assert own.encode_masked("ab<mask>").tolist() == [0, 4, 6, 2]
    assert own.decode([0, 4, 5, 4, 2]) == "abcab"


def test_pickle(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert torch.equal(copy.encode("It was a great day"), tokenizer.encode("It was a great day"))


@pytest.mark.system
def test_lists_need_no_numpy() -> None:
    """torch can do without it, and tiktoken's quickest call cannot."""
    code = """
import sys
sys.modules["numpy"] = None
from roberta_hub.text.tokenizer import Tokenizer
print([ids.tolist() for ids in Tokenizer.shipped().encode_batch(["Hello world!", "a b"])])
"""
    run = [sys.executable, "-W", "ignore", "-c", code]
    found = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    wanted = [ids.tolist() for ids in Tokenizer.shipped().encode_batch(["Hello world!", "a b"])]
    assert found.strip() == str(wanted)
