"""The dictionary: fairseq's ids for good files, an error that names the line for bad ones."""

import io
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from roberta_hub.errors import InputTypeError, UnknownNameError, VocabularyError
from roberta_hub.text import Dictionary, Task, dictionary

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]


def parse(data: bytes) -> Dictionary:
    return Dictionary.parse(data, "dict.txt")


def test_roberta():
    d = Dictionary.roberta()
    assert len(d) == 50_265
    assert d.symbols[:7] == [*SPECIALS, "13", "262", "11"]
    assert d.symbols[50_260:] == [
        "50256",
        "madeupword0000",
        "madeupword0001",
        "madeupword0002",
        "<mask>",
    ]
    assert (d.bos(), d.pad(), d.eos(), d.unk(), d.nspecial) == (0, 1, 2, 3, 4)
    assert d.count[4:50_261] == sorted(d.count[4:50_261], reverse=True)


def test_each_copy_is_its_own():
    Dictionary.roberta().add_symbol("new")
    assert "new" not in Dictionary.roberta()


def test_lookup():
    d = parse(b"hello 3\nworld 1\n")
    assert (d.index("world"), d.index("bye"), d[5], d[6], d[-1]) == (
        5,
        3,
        "world",
        "<unk>",
        "world",
    )
    assert "hello" in d and "bye" not in d
    with pytest.raises(InputTypeError, match="not int"):
        d.index(5)


def test_add_symbol():
    d = Dictionary()
    assert [d.add_symbol("a"), d.add_symbol("b", n=5), d.add_symbol("a", n=2)] == [4, 5, 4]
    assert d.count[4:] == [3, 5]
    assert d.add_symbol("a", n=7, overwrite=True) == 6
    assert (d.symbols[4:], d.index("a"), d.count[4:]) == (["a", "b", "a"], 6, [3, 5, 7])


def test_other_specials():
    d = Dictionary(bos="B", pad="P", eos="E", unk="U", extra_special_symbols=["X"])
    assert (d.symbols, d.nspecial, d[99], d.unk_string(), d.unk_string(True)) == (
        list("BPEUX"),
        5,
        "U",
        "U",
        "<U>",
    )


# Files, good ones (rows 33, 34 and 36 of the fault table)


def test_overwrite_appends_and_moves_the_index():
    d = parse(b"</s> 0 #fairseq:overwrite\na 1\na 2 #fairseq:overwrite\n")
    assert d.symbols == [*SPECIALS, "</s>", "a", "a"]
    assert (d.index("</s>"), d.index("a"), d.eos(), len(d)) == (4, 6, 2, 7)


@pytest.mark.parametrize("data", [b"a 1\r\nb 2\r\n", b"a 1\nb 2", b"a 1\rb 2\r", b"a 1 \nb 2\t\n"])
def test_line_ends(data):
    d = parse(data)
    assert (d.symbols[4:], d.count[4:]) == (["a", "b"], [1, 2])


@pytest.mark.parametrize(
    ("line", "symbol", "count"),
    [
        ("a\0b 1", "a\0b", 1),
        ("a\u00a0b 1", "a\u00a0b", 1),
        ("a\u2028b 1", "a\u2028b", 1),
        ("a\u0085b 1", "a\u0085b", 1),
        ("a\x1cb 1", "a\x1cb", 1),
        ("a -5", "a", -5),
        ("a 1_0", "a", 10),
        ("a b c 1", "a b c", 1),
        ("▁de 7", "▁de", 7),
        (" 3", "", 3),
        ("a " + "9" * 30, "a", int("9" * 30)),
    ],
)
def test_odd_lines_that_fairseq_accepts(line, symbol, count):
    d = parse(f"x 1\n{line}\ny 1\n".encode())
    assert (d.symbols[4:], d.count[5]) == (["x", symbol, "y"], count)


# Bad ones (rows 32, 35, 36, 37)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a 1\nb 1\na 2\n", "dict.txt, line 3: 'a' again; `#fairseq:overwrite`"),
        (b"a 1\n<s> 2\n", "dict.txt, line 2: '<s>' again"),
        (b"a 1\n\nb 1\n", "dict.txt, line 2: .* is not `symbol count`"),
        (b"a 1\nb\n", "dict.txt, line 2: .*'b.*' is not `symbol count`"),
        (b"a 1\nb x\n", "dict.txt, line 2: 'b x.*' is not `symbol count`"),
        (b"a 1\nb 1.5\n", "line 2"),
        (b"a 1\nb " + b"9" * 5000 + b"\n", "line 2"),
        (b"a 1\nb #fairseq:overwrite\n", "line 2"),
        (b"a 1\nb 1 #fairseq:other\n", "line 2"),
        (b"a 1\nb\xff 1\n", "dict.txt, line 2: not UTF-8"),
        (b"\xef\xbb\xbfa 1\n", "byte order mark; save it as UTF-8 without one"),
        (b"", "dict.txt is empty"),
    ],
)
def test_bad_files(data, message):
    with pytest.raises(VocabularyError, match=message):
        parse(data)


def test_rows_of_special_symbols():
    rows = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>", "a"]
    d = Dictionary.from_rows(rows)
    assert [d.index(symbol) for symbol in ("<s>", "<pad>", "</s>", "<unk>", "a")] == [5, 1, 6, 4, 7]
    assert (d.bos(), d.pad(), d.eos(), d.unk(), len(d)) == (0, 1, 2, 3, len(rows))
    with pytest.raises(VocabularyError, match="two pieces have the same name, 'a'"):
        Dictionary.from_rows([*rows, "b", "a"])


def test_limits(monkeypatch):
    with pytest.raises(VocabularyError, match="line 2: 70003 characters, the limit is 65536"):
        parse(b"a 1\n" + b"x" * 70_000 + b" 1\n")
    monkeypatch.setattr(dictionary, "MAX_SYMBOLS", 2)
    with pytest.raises(VocabularyError, match="line 3: more than 2 symbols"):
        parse(b"a 1\nb 1\nc 1\n")
    monkeypatch.setattr(dictionary, "MAX_DICTIONARY_BYTES", 5)
    with pytest.raises(VocabularyError, match="larger than 5 bytes"):
        parse(b"a 1\nb 1\n")


def test_missing_file(tmp_path):
    with pytest.raises(VocabularyError, match=re.escape(f"{tmp_path / 'none.txt'} cannot be read")):
        Dictionary.load(tmp_path / "none.txt")


def test_text_file_with_escaped_bytes(tmp_path):
    (tmp_path / "dict.txt").write_bytes(b"a 1\nb\xff 1\n")
    with (
        open(tmp_path / "dict.txt", encoding="utf-8", errors="surrogateescape") as file,
        pytest.raises(VocabularyError, match=r"dict\.txt, line 2: not UTF-8"),
    ):
        Dictionary.load(file)


# Reading, writing, `<mask>`

symbols = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), min_size=1, max_size=20
)


@given(symbols, st.lists(st.integers(-5, 10**12), min_size=20, max_size=20))
def test_what_is_written_is_read(words, counts):
    d = Dictionary()
    for word, count in zip(words, counts, strict=False):
        d.add_symbol(word, n=count, overwrite=True)
    again = parse(d.dumps())
    assert (again.symbols, again.count[4:], again.indices) == (d.symbols, d.count[4:], d.indices)


def test_a_line_break_in_a_symbol_cannot_be_written(tmp_path):
    d = parse(b"a 1\n")
    d.save(tmp_path / "dict.txt")
    d.add_symbol("b\nc")
    with pytest.raises(VocabularyError, match=r"symbol 5, 'b\\nc', holds a line break"):
        d.save(tmp_path / "dict.txt")
    assert (tmp_path / "dict.txt").read_bytes() == b"a 1\n"


def test_mask_at_the_border_of_files(tmp_path):
    path = tmp_path / "new" / "dict.txt"
    Dictionary.roberta().save(path, with_mask=False)
    assert path.read_bytes().count(b"\n") == 50_260
    assert b"<mask>" not in path.read_bytes()
    assert Dictionary.load(path).index("<mask>") == 3
    assert Dictionary.load(path, add_mask=True) == Dictionary.roberta()
    Dictionary.roberta().save(path)
    assert Dictionary.load(path, add_mask=True) == Dictionary.roberta()


def test_only_a_last_mask_is_left_out():
    d = parse(b"a 1\n<mask> 1\nb 1\n")
    assert d.dumps(with_mask=False) == b"a 1\n<mask> 1\nb 1\n"


def test_files_that_are_open(tmp_path):
    d = parse(b"a 1\nb 2\n")
    text = io.StringIO()
    d.save(text)
    assert text.getvalue() == "a 1\nb 2\n"
    text.seek(0)
    assert Dictionary.load(text) == Dictionary.load(io.BytesIO(b"a 1\nb 2\n")) == d


def test_failed_writing_leaves_nothing(tmp_path):
    (tmp_path / "dict.txt").mkdir()
    with pytest.raises(OSError):
        parse(b"a 1\n").save(tmp_path / "dict.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["dict.txt"]


def test_add_from_file():
    d = parse(b"a 1\n")
    d.add_from_file(io.BytesIO(b"b 2\n"))
    assert d.symbols[4:] == ["a", "b"]
    with pytest.raises(VocabularyError, match="'a' again"):
        d.add_from_file(io.BytesIO(b"a 1\n"))


# fairseq's other verbs


def test_string():
    d = parse(b"a 1\nb 1\n")
    ids = [0, 4, 3, 5, 1, 9, 2]
    assert d.string(ids) == d.string(torch.tensor(ids)) == "a <unk> b <pad> <unk>"
    assert d.string(torch.tensor([ids, [4, 4, 2, 2, 2, 2, 2]])) == "a <unk> b <pad> <unk>\na a"
    assert d.string(ids, escape_unk=True) == "a <<unk>> b <pad> <unk>"
    assert d.string(ids, unk_string="?") == "a ? b <pad> <unk>"
    assert d.string(ids, extra_symbols_to_ignore={1, 9}, include_eos=True) == "a <unk> b </s>"
    assert d.string(ids, separator="") == "a<unk>b<pad><unk>"
    assert d.string([]) == ""


def test_string_of_subwords():
    d = parse("lo@@ 1\nw 1\n▁new 1\ner 1\n".encode())
    assert d.string([4, 5], bpe_symbol="@@ ") == "low"
    assert d.string([6, 7], bpe_symbol="sentencepiece") == "newer"
    with pytest.raises(UnknownNameError, match="'letters' is none of"):
        d.string([4], bpe_symbol="letters")


def test_encode_line():
    d = parse(b"a 1\nb 1\n")
    assert torch.equal(
        d.encode_line(" a  c\tb\n", add_if_not_exist=False), torch.IntTensor([4, 3, 5, 2])
    )
    assert d.encode_line("a b", append_eos=False, reverse_order=True).tolist() == [5, 4]
    seen = []
    assert d.encode_line("a c", consumer=lambda *pair: seen.append(pair)).tolist() == [4, 6, 2]
    assert (seen, d.index("c"), d.count[4]) == ([("a", 4), ("c", 6)], 6, 3)
    assert d.encode_line("a-b", line_tokenizer=lambda line: line.split("-")).tolist() == [4, 5, 2]
    assert d.encode_line("", append_eos=False).dtype == torch.int32


def test_finalize():
    d = Dictionary()
    for word, count in [("rare", 1), ("b", 5), ("a", 5), ("often", 9)]:
        d.add_symbol(word, n=count)
    d.finalize(threshold=2, padding_factor=4)
    assert d.symbols == [*SPECIALS, "often", "a", "b", "madeupword0000"]
    assert d.index("a") == 5 and d.index("rare") == 3
    d.finalize(nwords=6, padding_factor=1)
    assert (d.symbols, d.count[4:]) == ([*SPECIALS, "often", "a"], [9, 5])


def test_finalize_keeps_roberta():
    d = Dictionary.roberta()
    before = d.symbols[:50_261]
    d.finalize()
    assert d.symbols[:50_260] == before[:50_260]


def test_update():
    d, other = parse(b"a 1\n"), parse(b"b 2\na 3\n")
    d.update(other)
    assert (d.symbols[4:], d.count[4:]) == (["a", "b"], [4, 2])


def test_pad_to_multiple():
    d = parse(b"a 1\n")
    d.pad_to_multiple_(8)
    assert d.symbols[5:] == ["madeupword0000", "madeupword0001", "madeupword0002"]
    d.pad_to_multiple_(8)
    assert len(d) == 8


def test_of_a_dictionary_with_other_specials():
    theirs = Dictionary(bos="B", pad="P", eos="E", unk="U", extra_special_symbols=["X"])
    theirs.add_symbol("a", n=9)

    class Foreign:  # a dictionary of another package: the same names, no common class
        bos_word, pad_word, eos_word, unk_word = "B", "P", "E", "U"
        symbols, count, indices, nspecial = theirs.symbols, theirs.count, theirs.indices, 5
        bos, pad, eos, unk = theirs.bos, theirs.pad, theirs.eos, theirs.unk

    ours = Dictionary.of(Foreign())
    assert (ours, ours.count, ours.nspecial, ours[99]) == (theirs, theirs.count, 5, "U")
    ours.add_symbol("b")
    assert "b" not in theirs
    assert Dictionary.of(ours) is ours


def test_task():
    dictionary = Dictionary.roberta()
    task = Task(dictionary)
    assert task.source_dictionary is task.target_dictionary is task.dictionary is dictionary
    assert (task.mask_idx, task.label_dictionary, task.name) == (50_264, None, "masked_lm")
    with pytest.raises(VocabularyError, match="no <mask>"):
        _ = Task(parse(b"a 1\n")).mask_idx
