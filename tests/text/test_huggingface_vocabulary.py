"""Hugging Face's vocabulary files give fairseq's two tables."""

import json

import pytest

from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.gpt2_tables import BYTE_ORDER, printable
from roberta_hub.text.huggingface import read_tokenizer
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.tokenizer import Tokenizer

TEXT = "The café can’t open 🙂  till noon"


def write(folder, vocabulary, merges):
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")


@pytest.fixture
def shipped_files(tokenizer, tmp_path):
    vocabulary = {piece: i for i, piece in enumerate(tokenizer.pieces())}
    write(tmp_path, vocabulary, tokenizer.engine.printable_merges())
    return tmp_path


def small(specials=("<s>", "<pad>", "</s>", "<unk>")):
    tokens = [*(bytes([byte]) for byte in BYTE_ORDER), b"ab", b" ab"]
    return {
        piece: i for i, piece in enumerate([*specials, *map(printable, reversed(tokens)), "<mask>"])
    }


def test_shipped_vocabulary(shipped_files):
    bpe, dictionary, layout = read_tokenizer(Folder(shipped_files))
    assert bpe is GPT2BPE.shipped()
    assert dictionary == Dictionary.roberta()
    assert layout == SequenceLayout.of(dictionary)


def test_no_files(tmp_path):
    assert read_tokenizer(Folder(tmp_path)) is None
    (tmp_path / "vocab.json").write_text("{}")
    assert read_tokenizer(Folder(tmp_path)) is None


def test_own_vocabulary_as_tokenizers_reads_it(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    write(tmp_path, small(), ["a b", "Ġ ab"])
    theirs = tokenizers.ByteLevelBPETokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    ours = Tokenizer(*read_tokenizer(Folder(tmp_path)))
    for text in (TEXT, "ab ab  abab"):
        assert ours.encode(text)[1:-1].tolist() == theirs.encode(text).ids
    assert ours.mask_idx == 262
    assert ours.pieces() == sorted(small(), key=small().get)


@pytest.mark.parametrize("as_pairs", [True, False])
def test_tokenizer_json(tmp_path, as_pairs):
    write(tmp_path, small(), ["a b", "Ġ ab"])
    vocabulary = small()
    mask = vocabulary.pop("<mask>")
    table = {
        "model": {
            "vocab": vocabulary,
            "merges": [["a", "b"], ["Ġ", "ab"]] if as_pairs else ["a b", "Ġ ab"],
        },
        "added_tokens": [{"id": mask, "content": "<mask>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    }
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "tokenizer.json").write_text(json.dumps(table))
    _, two_files, _ = read_tokenizer(Folder(tmp_path))
    _, one_file, _ = read_tokenizer(Folder(tmp_path / "one"))
    assert one_file == two_files


def test_added_tokens_json(tmp_path):
    vocabulary = small()
    mask = vocabulary.pop("<mask>")
    write(tmp_path, vocabulary, ["a b", "Ġ ab"])
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<mask>": mask}))
    _, dictionary, _ = read_tokenizer(Folder(tmp_path))
    assert dictionary.index("<mask>") == mask


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({**small(), "new": 300}, "the ids are not 0, 1, 2"),
        ({**small(), "new": 5}, "the ids are not 0, 1, 2"),
        (small(("[CLS]", "[PAD]", "[SEP]", "[UNK]")), "no RoBERTa vocabulary"),
        ({}, "no RoBERTa vocabulary"),
        ({**small(), "new": "x"}, "the ids are not"),
        ({**small(), "new": [1]}, "the ids are not"),
        ({**small(), "257": 263}, "have the same name"),
    ],
)
def test_wrong_vocabularies(tmp_path, vocabulary, message):
    write(tmp_path, vocabulary, ["a b", "Ġ ab"])
    with pytest.raises(VocabularyError, match=message):
        read_tokenizer(Folder(tmp_path))


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"model": None},
        {"model": {"vocab": [1], "merges": []}},
        {"model": {"vocab": {}, "merges": ["abc"]}},
        {"model": {"vocab": {}, "merges": [["一", "b"]]}},
        {"model": {"vocab": {}, "merges": [], "type": "Unigram"}, "added_tokens": 3},
        {"model": {"vocab": {}, "merges": None}},
        {"model": {"vocab": {}, "merges": [[1, 2]]}},
    ],
)
def test_wrong_tokenizer_json(tmp_path, table):
    (tmp_path / "tokenizer.json").write_text(json.dumps(table))
    with pytest.raises(VocabularyError, match=r"tokenizer\.json"):
        read_tokenizer(Folder(tmp_path))


OTHERS = (
    "BertJapaneseTokenizer",
    "BertweetTokenizer",
    "PhobertTokenizer",
    "RoFormerTokenizer",
    "LayoutLMTokenizer",
    "LayoutLMv2TokenizerFast",
    "NobodysTokenizer",
    "",
    3,
    ["BertTokenizer"],
)


@pytest.mark.system
@pytest.mark.parametrize("named", OTHERS)
@pytest.mark.parametrize("where", ["tokenizer_config.json", "config.json"])
def test_other_kinds_are_refused_by_name(shipped_files, named, where):
    (shipped_files / where).write_text(json.dumps({"tokenizer_class": named}))
    (shipped_files / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(VocabularyError, match=r"tokenizer_class is .*does not read") as refused:
        read_tokenizer(Folder(shipped_files))
    assert str(named) in str(refused.value)


def test_files_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "bpe.codes").write_text("")
    with pytest.raises(VocabularyError, match=r"bpe\.codes"):
        read_tokenizer(Folder(tmp_path))
    (tmp_path / "bpe.codes").unlink()
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordLevel"}}')
    with pytest.raises(VocabularyError, match="its model is 'WordLevel'"):
        read_tokenizer(Folder(tmp_path))


def test_a_named_kind_without_its_files(tmp_path):
    """RoBERTa's vocabulary does not stand in; a relative's model goes without one."""
    about = tmp_path / "tokenizer_config.json"
    about.write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(VocabularyError, match=r"'BertTokenizer', and .* has no WordPiece files"):
        read_tokenizer(Folder(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert read_tokenizer(Folder(tmp_path)) is None
    about.write_text('{"tokenizer_class": "RobertaTokenizerFast"}')
    assert read_tokenizer(Folder(tmp_path)) is None
