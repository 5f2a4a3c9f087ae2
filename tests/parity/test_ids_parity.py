"""Unusual vocabularies: the ids that real fairseq and real transformers give, or a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel, load_model
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.text import Dictionary, Task, Tokenizer
from roberta_hub.text.huggingface import read_tokenizer

from . import peers

pytestmark = pytest.mark.parity

TEXTS = ["", "Hello world!", " a leading space", "\nx", "\u00a0y", "can’t 🙂 naïve", "two  spaces "]
MOVED = b"<unk> 9 #fairseq:overwrite\n<s> 9 #fairseq:overwrite\n</s> 9 #fairseq:overwrite\n"


def moved_dictionary() -> bytes:
    """RoBERTa's dict.txt behind three lines as CamemBERT's begins with."""
    return MOVED + Dictionary.roberta().dumps(with_mask=False)


def small(dictionary: Dictionary, rows: int | None = None) -> RobertaHubInterface:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"embed_dim": 16, "ffn_dim": 16, "num_layers": 1, "num_heads": 2}
    config = RobertaConfig(vocab_size=rows or len(dictionary), max_positions=24, **sizes)
    model = RobertaModel(config)
    peers.randomise(model)
    return RobertaHubInterface(config, Task(dictionary), model).eval()


@peers.needs_fairseq
def test_overwritten_specials(tmp_path: Path) -> None:
    """Ids as real fairseq gives them; decoding, which goes wrong there, gives the text."""
    ours = small(Dictionary.parse(moved_dictionary(), "dict.txt", add_mask=True))
    ours.save(tmp_path, format="fairseq")
    theirs, again = peers.hub_interface(tmp_path), load_model(tmp_path).eval()
    assert (ours.task.source_dictionary.bos(), ours.task.source_dictionary.eos()) == (0, 2)
    for roberta in (ours, again):
        for text in TEXTS:
            assert roberta.encode(text).tolist() == theirs.encode(text).tolist()
            assert roberta.encode(text, "b").tolist() == theirs.encode(text, "b").tolist()
            assert roberta.decode(roberta.encode(text)) == text
            assert roberta.decode(roberta.encode(text, "b")) == [text, "b"]
        assert roberta.encode("Hello")[[0, -1]].tolist() == [5, 6]
        batch = [*TEXTS, ("Hello", "world")]
        singles = [roberta.encode(*((t,) if isinstance(t, str) else t)) for t in batch]
        for one, many in zip(singles, roberta.encode_batch(batch), strict=True):
            assert one.tolist() == many.tolist()
        found = roberta.fill_mask("Hello <mask>!", topk=3)
        wanted = theirs.fill_mask("Hello <mask>!", topk=3)
        for (text, value, word), (their_text, their_value, their_word) in zip(
            found, wanted, strict=True
        ):
            assert (text, word) == (their_text, their_word)
            assert value == pytest.approx(their_value, abs=1e-5)
    long = ("one two three four five six seven eight nine ten " * 3, "and a second sentence")
    cut = ours._runner(truncate=True).encode([long])[0][0].ids[0].tolist()
    assert len(cut) == 24
    assert (cut[0], cut[-1], cut.count(6)) == (5, 6, 3)
    assert len(ours.score(["Hello world", "x"])) == 2


@peers.needs_transformers
def test_overwritten_specials_leave_for_transformers_and_come_back(tmp_path: Path) -> None:
    import transformers

    ours = small(Dictionary.parse(moved_dictionary(), "dict.txt", add_mask=True))
    ours.save(tmp_path / "hf", format="huggingface")
    ours.save(tmp_path / "own")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for folder in ("hf", "own"):
        again = load_model(tmp_path / folder)
        for text in TEXTS:
            assert again.encode(text, "b").tolist() == ours.encode(text, "b").tolist()
            assert theirs(text, "b")["input_ids"] == ours.encode(text, "b").tolist()


def write_tokenizer(folder: Path, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in tokenizer_files(Tokenizer.shipped(), 512).items():
        (folder / name).write_bytes(data)
    (folder / "config.json").write_text('{"model_type": "roberta"}')
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def both(folder: Path) -> tuple[Any, Tokenizer]:
    import transformers

    found = read_tokenizer(Folder(folder))
    assert found is not None
    return transformers.AutoTokenizer.from_pretrained(folder), Tokenizer(*found)


def compare_ids(theirs: Any, ours: Tokenizer, texts: list[str]) -> None:
    batch = ours.encode_batch([*texts, *((text, "b") for text in texts)])
    for text, single, pair in zip(texts, batch, batch[len(texts) :], strict=False):
        assert theirs(text)["input_ids"] == ours.encode(text).tolist() == single.tolist()
        wanted = theirs(text, "b")["input_ids"]
        assert wanted == ours.encode(text, "b").tolist() == pair.tolist()


@peers.needs_transformers
@pytest.mark.parametrize("resaved", [False, True], ids=["vocab.json", "tokenizer.json"])
def test_add_prefix_space(tmp_path: Path, resaved: bool) -> None:
    about = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}
    folder = write_tokenizer(tmp_path / "a", tokenizer_config=about)
    theirs, ours = both(folder)
    if resaved:
        theirs.save_pretrained(tmp_path / "b")
        (tmp_path / "b" / "config.json").write_text('{"model_type": "roberta"}')
        theirs, ours = both(tmp_path / "b")
    compare_ids(theirs, ours, TEXTS)
    masked = "Hello<mask>!"
    assert theirs(masked)["input_ids"] == ours.encode_masked(masked).tolist()
    assert ours.encode("Hello").tolist() == Tokenizer.shipped().encode(" Hello").tolist()
    for text in ("Hello world", "naïve can’t", "\nx", "", "🙂"):
        spans = ours.offsets(text)
        assert len(spans) == len(ours.encode(text)) - 2
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        if text:
            assert spans[-1][1] == len(text)
    assert ours.offsets("Hello world") == [(0, 5), (5, 11)]
    assert ours.offsets("\nx") == [(0, 0), (0, 1), (1, 2)]


@peers.needs_transformers
@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [None, False, True])
def test_which_file_says_add_prefix_space(
    tmp_path: Path, generic: bool, inner: bool, outer: bool | None
) -> None:
    theirs, _ = both(write_tokenizer(tmp_path / "a"))
    theirs.save_pretrained(tmp_path / "b")
    table = json.loads((tmp_path / "b" / "tokenizer.json").read_text())
    table["pre_tokenizer"]["add_prefix_space"] = inner
    about = {"tokenizer_class": "PreTrainedTokenizerFast" if generic else "RobertaTokenizer"}
    if outer is not None:
        about |= {"add_prefix_space": outer}
    for name, content in (("tokenizer", table), ("tokenizer_config", about)):
        (tmp_path / "b" / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "b" / "config.json").write_text('{"model_type": "roberta"}')
    theirs, ours = both(tmp_path / "b")
    for text in ("Hello", " Hello"):
        assert (
            theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)[1:-1].tolist()
        )


ADDED = ["newword", "new", "zzz qq", "naïf", "newwords"]
WITH_ADDED = [
    *TEXTS,
    "a newword b",
    "anewword",
    "newwords new",
    "renew",
    "x zzz qq y",
    "un naïf là",
    "newwordnew",
]


@peers.needs_transformers
@pytest.mark.parametrize("prefix", [False, True])
def test_added_words(tmp_path: Path, prefix: bool) -> None:
    about = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": prefix}
    theirs, _ = both(write_tokenizer(tmp_path / "a", tokenizer_config=about))
    theirs.add_tokens(ADDED)
    theirs.add_tokens(["<ent>"], special_tokens=True)
    theirs.save_pretrained(tmp_path / "b")
    (tmp_path / "b" / "config.json").write_text('{"model_type": "roberta"}')
    theirs, ours = both(tmp_path / "b")
    compare_ids(theirs, ours, WITH_ADDED)
    for text in WITH_ADDED:
        spans = ours.offsets(text)
        assert len(spans) == len(ours.encode(text)) - 2
    assert [ours.dictionary.index("<ent>")] == theirs.convert_tokens_to_ids(["<ent>"])
    compare_ids(theirs, ours, ["a <ent> b", "a<ent>b"])
    assert 0 not in ours.encode("a <s> b")[1:]  # no input writes a special token
    model = small(ours.dictionary)
    roberta = RobertaHubInterface(model.cfg, model.task, model.model, bpe=ours.engine)
    if not prefix:
        assert roberta.decode(roberta.encode("a newword b")) == "a newword b"
    for format in ("roberta_hub", "huggingface", *(["fairseq"] if not prefix else [])):
        roberta.save(tmp_path / format, format=format)  # type: ignore[arg-type]
        again = load_model(tmp_path / format)
        for text in WITH_ADDED:
            assert again.encode(text).tolist() == ours.encode(text).tolist()
    compare_ids(both(tmp_path / "huggingface")[0], ours, WITH_ADDED)
    if prefix:
        with pytest.raises(ValueError, match="puts no space before a text"):
            roberta.save(tmp_path / "fairseq", format="fairseq")


@peers.needs_transformers
def test_added_tokens_json_of_older_files(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, added_tokens={"newword": 50265, "otherwords": 50266})
    compare_ids(*both(folder), ["a newword b", "anotherwords"])


def test_another_pad_token(tmp_path: Path) -> None:
    small(Dictionary.roberta()).save(tmp_path, format="huggingface")
    config = json.loads((tmp_path / "config.json").read_text())
    # As many positions in either reading.
    config |= {"pad_token_id": 0, "max_position_embeddings": config["max_position_embeddings"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(VocabularyError, match="pad_token_id is 0"):
        load_model(tmp_path)


@peers.needs_transformers
@peers.needs_fairseq
def test_a_table_padded_to_a_multiple_of_64(tmp_path: Path) -> None:
    import transformers

    rows = -(-50265 // 64) * 64
    ours = small(Dictionary.roberta(), rows)
    with torch.no_grad():
        ours.model.encoder.lm_head.bias[50265:] = 50.0  # rows that nobody trained may hold anything
    found = ours.fill_mask("Hello <mask>!", topk=50)
    scores = ours.score(["Hello world"])
    tokens = ours.encode("Hello world")
    assert all(value > 1e-6 for _, value, _ in found[:5])
    for format in ("roberta_hub", "fairseq", "huggingface"):
        ours.save(tmp_path / format, format=format)  # type: ignore[arg-type]
        again = load_model(tmp_path / format).eval()
        assert again.encode("Hello world").tolist() == tokens.tolist()
        assert again.task.mask_idx == 50264
        torch.testing.assert_close(again.model(tokens[None])[0], ours.model(tokens[None])[0])
        refound = again.fill_mask("Hello <mask>!", topk=50)
        assert [word for _, _, word in refound] == [word for _, _, word in found]
        if format != "fairseq":  # whose dictionary names every row, so that all count
            assert again.score(["Hello world"]) == pytest.approx(scores, abs=1e-4)
    theirs = peers.hub_interface(tmp_path / "fairseq")
    assert theirs.task.mask_idx == 50264
    assert theirs.encode("Hello world").tolist() == tokens.tolist()
    hf = transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "huggingface").eval()
    with torch.no_grad():
        wanted = ours.model(tokens[None])[0]
        torch.testing.assert_close(theirs.model(tokens[None])[0], wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(hf(tokens[None]).logits, wanted, atol=1e-5, rtol=1e-5)
