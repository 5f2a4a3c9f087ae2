"""fairseq 0.12.2 encodes and decodes as we do: a toy XLM-R, CamemBERT and GottBERT."""

from __future__ import annotations

import random
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece_toys
from torch import nn

from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text import Dictionary, Tokenizer
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.fairseq_files import engine_in, tokenizer_keywords

spm = pytest.importorskip("sentencepiece")
tokenizers = pytest.importorskip("tokenizers")

from .fairseq_peer import real_fairseq  # noqa: E402
from .peers import needs_fairseq  # noqa: E402

pytestmark = [pytest.mark.parity, needs_fairseq]
OVERWRITTEN = ("<unk>", "<s>", "</s>")
HOSTILE = ("<mask> <s> x", "a\0b", "ﬁx  Ⅷ ", "e\u0301 \u200b", "zz🧿🧿 q", "1,000\t£5", "", "  ")


def write_sentencepiece(directory: Path, *, overwritten: bool) -> None:
    data = sentencepiece_toys.trained("unigram")
    (directory / "sentencepiece.bpe.model").write_bytes(data)
    library = spm.SentencePieceProcessor(model_proto=data)
    pieces = [library.id_to_piece(i) for i in range(3, library.get_piece_size())]
    flag = " #fairseq:overwrite"
    lines = [f"{word} 999{flag}" for word in OVERWRITTEN if overwritten]
    text = "".join(line + "\n" for line in [*lines, *(f"{piece} 999" for piece in pieces)])
    (directory / "dict.txt").write_text(text, encoding="utf-8")


def write_gottbert(directory: Path) -> None:
    """As GottBERT was made: tokenizers' byte BPE, whose ids dict.txt names in another order."""
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(
        sentencepiece_toys.lines(1500),
        vocab_size=1200,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        show_progress=False,
    )
    bpe.save_model(str(directory))
    ids = [str(i) for i in range(5, bpe.get_vocab_size())]
    random.Random(0).shuffle(ids)
    text = "".join(f"{i} {len(ids) - n}\n" for n, i in enumerate(ids))
    (directory / "dict.txt").write_text(text, encoding="utf-8")


KINDS: dict[str, tuple[Any, str]] = {
    "xlmr": (lambda folder: write_sentencepiece(folder, overwritten=False), "sentencepiece"),
    "camembert": (lambda folder: write_sentencepiece(folder, overwritten=True), "sentencepiece"),
    "gottbert": (write_gottbert, "hf_byte_bpe"),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(kind)
    KINDS[kind][0](folder)
    return folder


def hub_of(directory: Path, bpe: str, **keywords: object) -> Any:
    """fairseq's hub object without a model."""
    real_fairseq()
    from fairseq.data import Dictionary as Theirs
    from fairseq.models.roberta.hub_interface import RobertaHubInterface

    dictionary = Theirs.load(str(directory / "dict.txt"))
    dictionary.add_symbol("<mask>")
    settings = Namespace(
        bpe=bpe,
        sentencepiece_model=str(directory / "sentencepiece.bpe.model"),
        bpe_vocab=str(directory / "vocab.json"),
        bpe_merges=str(directory / "merges.txt"),
        **keywords,
    )
    task = Namespace(source_dictionary=dictionary)
    model = nn.Linear(1, 1)
    model.max_positions = lambda: 512  # type: ignore[assignment]
    return RobertaHubInterface(Namespace(bpe=settings), task, model)


def ours_in(directory: Path, **keywords: object) -> Tokenizer:
    engine = engine_in(Folder(directory), tokenizer_keywords("gpt2", dict(keywords)))
    assert engine is not None
    words = (directory / "dict.txt").read_bytes()
    return Tokenizer(engine, Dictionary.parse(words, "dict.txt", add_mask=True))


@pytest.fixture(scope="module")
def theirs(kind: str, directory: Path) -> Any:
    return hub_of(directory, KINDS[kind][1])


@pytest.fixture(scope="module")
def ours(directory: Path) -> Tokenizer:
    return ours_in(directory)


LINES = [*sentencepiece_toys.lines(200), *HOSTILE]


def test_ids_are_fairseqs(ours: Tokenizer, theirs: Any) -> None:
    assert len(ours) == len(theirs.task.source_dictionary)
    assert ours.mask_idx == theirs.task.source_dictionary.index("<mask>")
    for line, ids in zip(LINES, ours.encode_batch(LINES), strict=True):
        assert ids.tolist() == theirs.encode(line).tolist()
    for single in (False, True):
        pair = theirs.encode(LINES[0], LINES[1], no_separator=single).tolist()
        assert ours.encode(LINES[0], LINES[1], no_separator=single).tolist() == pair


def test_symbols_are_fairseqs(ours: Tokenizer, theirs: Any) -> None:
    for line in LINES:
        symbols = theirs.bpe.encode(line)
        assert ours.engine.encode(line) == symbols
        assert ours.engine.decode(symbols) == theirs.bpe.decode(symbols)
        for symbol in symbols.split():
            begins = theirs.bpe.is_beginning_of_word(symbol)
            assert ours.engine.is_beginning_of_word(symbol) == begins


def test_text_is_fairseqs(kind: str, ours: Tokenizer, theirs: Any) -> None:
    """A difference: fairseq shows CamemBERT's second `<s>` and `</s>`; ours leave no trace."""
    for line in LINES:
        ids = ours.encode(line)
        text = theirs.decode(ids)
        if kind == "camembert":
            assert text.startswith("<s>") and text.endswith("</s>")
            text = text[3:-4].strip()
        if 3 in ids and kind == "gottbert":
            continue  # fairseq cannot decode a name
        assert ours.decode(ids) == text


def test_what_fairseq_fails_on(kind: str, ours: Tokenizer, theirs: Any) -> None:
    ids = ours.encode_masked("mela <mask> moni")
    assert "<mask>" in str(ours.decode(ids))
    if kind == "gottbert":
        with pytest.raises(TypeError):
            theirs.decode(ids)


def test_fairseqs_files_come_back(kind: str, ours: Tokenizer, tmp_path: Path) -> None:
    """What is written beside a checkpoint is found under the names that fairseq looks for."""
    files = ours.engine.fairseq_files()
    found = {"gottbert": {"vocab.json", "merges.txt"}}.get(kind, {"sentencepiece.bpe.model"})
    assert set(files) == found
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "dict.txt").write_bytes(ours.dictionary.dumps(with_mask=False))
    again, theirs = ours_in(tmp_path), hub_of(tmp_path, KINDS[kind][1])
    for line in LINES[:60]:
        ids = ours.encode(line).tolist()
        assert again.encode(line).tolist() == ids == theirs.encode(line).tolist()


def test_camemberts_two_ids(directory: Path) -> None:
    write_sentencepiece(directory, overwritten=True)
    tokenizer = ours_in(directory)
    ids = tokenizer.encode("mela 🧿").tolist()
    assert (ids[0], ids[-1], tokenizer.layout.pad) == (5, 6, 1)
    assert 3 in ids and 4 not in ids
    assert tokenizer.dictionary.symbols[:7] == ["<s>", "<pad>", "</s>", "<unk>", *OVERWRITTEN]
    assert (tokenizer.dictionary.bos(), tokenizer.dictionary.eos()) == (0, 2)
    plain = tokenizer.encode("mela").tolist()
    assert tokenizer.decode([0, *plain[1:-1], 2]) == tokenizer.decode(plain) == "mela"
    assert tokenizer.engine.settings["tokenizer_class"] == "CamembertTokenizer"


def test_a_space_before_a_text(tmp_path: Path) -> None:
    write_gottbert(tmp_path)
    theirs = hub_of(tmp_path, "hf_byte_bpe", bpe_add_prefix_space=True)
    ours = ours_in(tmp_path, bpe_add_prefix_space=True)
    for line in LINES[:50]:
        assert ours.encode(line).tolist() == theirs.encode(line).tolist()


# ---- keywords ----


def test_keywords_name_files_elsewhere(tmp_path: Path) -> None:
    for folder in ("model", "tables"):
        (tmp_path / folder).mkdir()
    write_sentencepiece(tmp_path / "tables", overwritten=False)
    write_gottbert(tmp_path / "tables")
    there, empty = tmp_path / "tables", tmp_path / "model"
    for name in ("sentencepiece_model", "sentencepiece_vocab"):
        keywords: dict[str, Any] = {name: there / "sentencepiece.bpe.model", "dropout": 0.1}
        chosen = tokenizer_keywords("gpt2", keywords)
        assert keywords == {"dropout": 0.1} and chosen.kind == "sentencepiece"
        engine = engine_in(Folder(empty), chosen)
        assert engine is not None and engine.encode("mela").startswith("▁")
    paths = {"bpe_vocab": there / "vocab.json", "bpe_merges": there / "merges.txt"}
    engine = engine_in(Folder(empty), tokenizer_keywords("hf_byte_bpe", dict(paths)))
    assert isinstance(engine, GPT2BPE) and engine is not GPT2BPE.shipped()
    # fairseq's GottBERT gives bare names, which mean the model's directory.
    bare = {"bpe_vocab": "vocab.json", "bpe_merges": "merges.txt"}
    assert isinstance(engine_in(Folder(there), tokenizer_keywords("hf_byte_bpe", bare)), GPT2BPE)
    assert engine_in(Folder(empty), tokenizer_keywords("gpt2", {})) is None
    assert engine_in(None, tokenizer_keywords(None, {})) is None


def test_gpt2s_own_merges_are_gpt2s(tmp_path: Path) -> None:
    """Hugging Face's files of RoBERTa beside a model.pt: dict.txt names GPT-2's ids, not theirs."""
    (tmp_path / "vocab.json").write_text("{}")
    merges = ["#version: 0.2", *GPT2BPE.shipped().printable_merges(), ""]
    (tmp_path / "merges.txt").write_text("\n".join(merges), encoding="utf-8")
    assert engine_in(Folder(tmp_path), tokenizer_keywords("gpt2", {})) is None


@pytest.mark.parametrize(
    ("bpe", "keywords", "reason"),
    [
        ("bert", {}, "choose gpt2, sentencepiece, hf_byte_bpe"),
        ("gpt2", {"sentencepiece_enable_sampling": True}, "enable_sampling makes the ids"),
        ("sentencepiece", {"sentencepiece_alpha": 0.1}, "sentencepiece_alpha makes the ids"),
        ("sentencepiece", {"bpe_vocab": "a"}, "bpe_vocab belongs to another kind"),
        ("hf_byte_bpe", {"bpe_vocab": "a"}, "bpe_vocab and bpe_merges belong together"),
        ("gpt2", {"gpt2_vocab_bpe": "a"}, "belong together"),
        ("hf_byte_bpe", {"bpe_add_prefix_space": "no"}, "choose True or False"),
    ],
)
def test_keywords_that_cannot_be(bpe: str, keywords: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        tokenizer_keywords(bpe, keywords)


def test_a_kind_without_its_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"needs sentencepiece\.bpe\.model, which .* lacks"):
        engine_in(Folder(tmp_path), tokenizer_keywords("sentencepiece", {}))
    no = tokenizer_keywords("sentencepiece", {"sentencepiece_enable_sampling": False})
    assert no.kind == "sentencepiece"
