"""A learnt vocabulary read by real transformers and real fairseq: the ids that we give."""

from __future__ import annotations

import warnings
from argparse import Namespace
from pathlib import Path

import pytest
import torch

import roberta_hub
from roberta_hub.text import Tokenizer
from roberta_hub.train.config import compose
from roberta_hub.train.data.learnt_vocabulary import learn_vocabulary
from roberta_hub.train.data.preprocessing import preprocess_text
from roberta_hub.train.run import make_model, run

from .fairseq_peer import hub_interface, real_fairseq

pytestmark = pytest.mark.parity

TIGRINYA = """ቆልዓ ናብ ቤት ትምህርቲ ይኸይድ።
ኣደ መጽሓፍ ተንብብ፡ ቆልዓ ድማ ይሰምዕ።

ንግሆ ጸሓይ ትበርቕ፡ ምሸት ጸሓይ ትዓርብ።
ኣቦ ናብ ስራሕ ይኸይድ፡ ኣደ ኣብ ቤት ትሰርሕ። 12 ቆልዑ፡ 120 መጽሓፍ!
"""
TEXTS = [
    *[line for line in TIGRINYA.splitlines() if line],
    "ቆልዓ",
    " ቆልዓ  ይኸይድ ",
    "a text, in another script; it's 3.5%",
    "\ta tab\nand a line\u00a0and 日本 \U0001f600 e\u0301",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("learnt")
    (work / "corpus.txt").write_text(TIGRINYA * 4, encoding="utf-8")
    learn_vocabulary([str(work / "corpus.txt")], work / "mine", 340, progress=False)
    return work


@pytest.fixture(scope="module")
def ours(folder: Path) -> Tokenizer:
    from roberta_hub.train.vocabularies import read_vocabulary

    return read_vocabulary(str(folder / "mine"))


@pytest.mark.parametrize("name", ["RobertaTokenizer", "RobertaTokenizerFast", "AutoTokenizer"])
def test_transformers(folder: Path, ours: Tokenizer, name: str) -> None:
    import transformers

    theirs = getattr(transformers, name).from_pretrained(str(folder / "mine"))
    assert len(theirs) == len(ours)
    for text in TEXTS:
        assert theirs(text)["input_ids"] == ours.encode(text).tolist(), text
        pair = theirs(text, "ቆልዓ")["input_ids"]
        assert pair == ours.encode(text, "ቆልዓ").tolist()
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": len(ours) - 1}
    assert {word: theirs.convert_tokens_to_ids(word) for word in special} == special
    # what a mark of the model is in a text of transformers' is text for us
    assert theirs("ቆልዓ <mask>")["input_ids"][-2] == ours.mask_idx


def test_fairseqs_bpe_and_dictionary(folder: Path, ours: Tokenizer) -> None:
    real_fairseq()
    from fairseq.data import Dictionary
    from fairseq.data.encoders.gpt2_bpe import GPT2BPE

    mine = folder / "mine"
    names = {"gpt2_encoder_json": mine / "encoder.json", "gpt2_vocab_bpe": mine / "vocab.bpe"}
    bpe = GPT2BPE(Namespace(**{name: str(path) for name, path in names.items()}))
    dictionary = Dictionary.load(str(mine / "dict.txt"))
    assert dictionary.add_symbol("<mask>") == ours.mask_idx
    assert len(dictionary) == len(ours)
    for text in TEXTS:
        line = f"<s> {bpe.encode(text)} </s>"
        ids = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False)
        assert ids.tolist() == ours.encode(text).tolist(), text
        assert bpe.decode(dictionary.string(ids[1:-1])) == text
    assert dictionary.count == [*[1] * 4, *ours.dictionary.count[4:-1], 1]


def test_fairseq_reads_what_was_preprocessed(folder: Path, ours: Tokenizer) -> None:
    real_fairseq()
    from fairseq.data import Dictionary, data_utils

    source = {"train": [str(folder / "corpus.txt")]}
    preprocess_text(source, folder / "bin", ours, progress=False)
    dictionary = Dictionary.load(str(folder / "bin/dict.txt"))
    found = data_utils.load_indexed_dataset(str(folder / "bin/train"), dictionary)
    lines = (TIGRINYA * 4).splitlines()
    assert [found[i].tolist() for i in range(len(found))] == [
        ours.encode(line).tolist()[1:] for line in lines
    ]


def test_a_model_of_two_commands_in_fairseq_and_in_transformers(
    folder: Path, ours: Tokenizer
) -> None:
    settings = ["pretrain=tiny", f"data.train={folder / 'corpus.txt'}", "loop.precision=no"]
    settings += ["architecture.num_layers=2", "architecture.embed_dim=16", "loop.max_updates=2"]
    settings += ["architecture.embedding_dim=null", "task.options.block_size=16"]
    settings += [f"data.vocabulary={folder / 'mine'}", f"output={folder / 'run'}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(compose(settings))
    model = roberta_hub.load_model(folder / "run/last").eval()
    model.save(folder / "fairseq", format="fairseq")
    model.save(folder / "huggingface", format="huggingface")
    bpe = folder / "fairseq/encoder.json", folder / "fairseq/vocab.bpe"
    theirs = hub_interface(folder / "fairseq", bpe=bpe)
    import transformers

    name = str(folder / "huggingface")
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    encoder = transformers.AutoModel.from_pretrained(name, add_pooling_layer=False).eval()
    for text in TEXTS[:5]:
        ids = model.encode(text)
        assert torch.equal(ids, ours.encode(text))
        assert torch.equal(theirs.encode(text), ids)
        assert tokenizer(text)["input_ids"] == ids.tolist()
        with torch.no_grad():
            states = model.extract_features(ids)
            torch.testing.assert_close(theirs.extract_features(ids), states, atol=2e-5, rtol=0)
            hidden = encoder(ids[None]).last_hidden_state
            torch.testing.assert_close(hidden, states, atol=2e-5, rtol=0)


def test_training_from_the_folder_of_the_data_alone(folder: Path, ours: Tokenizer) -> None:
    source = {"train": [str(folder / "corpus.txt")]}
    preprocess_text(source, folder / "alone", ours, progress=False)
    settings = ["pretrain=tiny", f"data.train={folder / 'alone'}", f"output={folder / 'run2'}"]
    settings += ["architecture.num_layers=1", "task.options.block_size=16"]
    model = make_model(compose(settings))
    assert model.model.config.vocab_size == len(ours)
    for text in TEXTS:
        assert torch.equal(model.encode(text), ours.encode(text)), text
