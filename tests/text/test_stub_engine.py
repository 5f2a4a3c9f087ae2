"""An engine that the package does not know goes through all of it.

Words at blanks, other special symbols at other ids, one separator, segments, no BPE.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import assert_close, randomise
from stub_engine import BEGIN, END, SPECIALS, Words, layout_of, vocabulary

import roberta_hub
from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
from roberta_hub.errors import CheckpointError, InputError, VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.ours import read_store
from roberta_hub.text import GPT2BPE, Dictionary, SequenceLayout, SubwordTokenizer, Task, Tokenizer
from roberta_hub.text.alignment import align

GOOD, BAD = ("good", "fine", "warm", "clever"), ("bad", "dull", "cold", "silly")
THINGS = ("film", "book", "song", "play", "cafe", "story", "day", "dog")
PLAIN = ("the", "a", "was", "is", "and", "who", "saw", "it", "ada", "lovelace", "in", "paris")
WORDS = ["##.", "##,", "##!", "##?", *PLAIN, *THINGS, *GOOD, *BAD]
WORDS += [f"word{i}" for i in range(300 - len(WORDS))]
UNK, PAD, CLS, SEP, MASK = SPECIALS


@pytest.fixture(params=[False, True], ids=["text by text", "in one call"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    dictionary = vocabulary(WORDS)
    return Tokenizer(Words(WORDS, marked=request.param), dictionary, layout_of(dictionary))


def model_of(**overrides: Any) -> RobertaHubInterface:
    """A small model on the stub engine; with segments where the config has them."""
    dictionary = vocabulary(WORDS)
    sizes: dict[str, Any] = {"embed_dim": 32, "ffn_dim": 48, "num_layers": 2, "num_heads": 4}
    sizes |= {"num_segments": 2, "separator_idx": SEP}
    config = RobertaConfig(
        vocab_size=len(dictionary),
        padding_idx=PAD,
        max_positions=24,
        **{**sizes, "dropout": 0.0, "attention_dropout": 0.0, **overrides},
    )
    torch.manual_seed(0)
    task = Task(dictionary, layout=layout_of(dictionary))
    return RobertaHubInterface(config, task, RobertaModel(config), bpe=Words(WORDS)).eval()


@pytest.fixture
def roberta() -> RobertaHubInterface:
    hub = model_of()
    hub.register_classification_head("mood", labels=["bad", "good"])
    hub.register_classification_head("best", num_classes=1)
    hub.register_token_head("ner", labels=["O", "B-PER", "I-PER"])
    hub.register_span_head("qa")
    randomise(hub.model)
    return hub.eval()


def ids_of(*words: str) -> list[int]:
    dictionary = vocabulary(WORDS)
    return [dictionary.index(word) for word in words]


# ---- text and ids ----


def test_it_is_an_engine_and_so_is_bpe() -> None:
    assert isinstance(Words(WORDS), SubwordTokenizer) and isinstance(
        GPT2BPE.shipped(), SubwordTokenizer
    )
    assert not isinstance("gpt2", SubwordTokenizer)


def test_ids(tokenizer: Tokenizer) -> None:
    film = ids_of("the", "film", "was", "good", "##.")
    assert tokenizer.encode("The film was good.").tolist() == [CLS, *film, SEP]
    assert tokenizer.encode("the film", "a dog").tolist() == [
        CLS,
        *ids_of("the", "film"),
        SEP,
        *ids_of("a", "dog"),
        SEP,
    ]
    pair = tokenizer.encode("a dog", "a film")
    assert torch.equal(tokenizer.encode("a dog", "a film", no_separator=True), pair)
    assert tokenizer.encode("").tolist() == [CLS, SEP]
    assert tokenizer.encode("the zebra").tolist() == [CLS, *ids_of("the"), UNK, SEP]
    masked = tokenizer.encode_masked("the <mask>, <mask>").tolist()
    assert masked == [CLS, *ids_of("the"), MASK, *ids_of("[UNK]"), MASK, SEP]


def test_no_text_writes_a_special_id(tokenizer: Tokenizer) -> None:
    for text in ("[CLS] [SEP] [PAD] [MASK]", "<s></s>", f"a{BEGIN}b {END}"):
        for ids in (tokenizer.encode(text), *tokenizer.encode_batch([text, text])):
            assert not set(ids[1:-1].tolist()) & {PAD, CLS, SEP, MASK}


def test_a_batch_is_its_singles(tokenizer: Tokenizer) -> None:
    texts = ["The film was good.", "", ("a dog", "the day", "a"), "x" * 300, f"{BEGIN}the", "a dog"]
    singles = [tokenizer.encode(*([t] if isinstance(t, str) else t)).tolist() for t in texts]
    assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == singles
    assert [ids.tolist() for ids in tokenizer.encode_batch(texts[:1])] == singles[:1]


def test_decode(tokenizer: Tokenizer) -> None:
    for sentences in (["the film was good."], ["the film", "a dog"], ["a", "the day!", "a dog"]):
        decoded = tokenizer.decode(tokenizer.encode(*sentences))
        assert decoded == (sentences if len(sentences) > 1 else sentences[0])
    padded = [*tokenizer.encode("a dog").tolist(), PAD, PAD]
    assert tokenizer.decode(padded) == "a dog"
    assert tokenizer.decode([CLS, *ids_of("the"), MASK, UNK, SEP]) == "the[MASK][UNK]"
    assert [tokenizer.decode_id(i) for i in (CLS, *ids_of("dog", "##."))] == ["[CLS]", " dog", "."]


def test_offsets_lie_in_the_text_as_it_was_given(tokenizer: Tokenizer) -> None:
    text = "The CAFÉ, the cafe\u0301!"
    spans = tokenizer.offsets(text)
    assert [text[start:end] for start, end in spans] == [
        "The",
        "CAFÉ",
        ",",
        "the",
        "cafe\u0301",
        "!",
    ]
    assert tokenizer.tokenize(text) == ["the", "cafe", "##,", "the", "cafe", "##!"]
    assert align(tokenizer, text, ["The", "CAFÉ", "the", "cafe\u0301"]) == [[1], [2], [4], [5]]
    assert align(tokenizer, "a dog.", ["a", "dog."]) == [[1], [2, 3]]


def test_what_ids_are(tokenizer: Tokenizer) -> None:
    names = tokenizer.pieces()
    assert [names[i] for i in SPECIALS] == list(SPECIALS.values())
    specials = [i for i, is_word in enumerate(tokenizer.words.tolist()) if not is_word]
    assert specials == list(SPECIALS)
    assert tokenizer.beginnings[ids_of("dog", "##.", "[MASK]")].tolist() == [True, False, False]
    assert (tokenizer.bos, tokenizer.eos, tokenizer.mask_idx) == (CLS, SEP, MASK)


def test_fairseqs_names_are_there(roberta: RobertaHubInterface) -> None:
    assert roberta.bpe.encode("A dog.") == "a dog ##."
    assert roberta.bpe.decode("a dog ##. [MASK]") == "a dog.[MASK]"
    assert [roberta.bpe.is_beginning_of_word(w) for w in ("dog", "##.")] == [True, False]
    assert roberta.task.mask_idx == MASK


# ---- layouts ----


def test_segments_are_those_of_pairs() -> None:
    layout = layout_of(vocabulary(WORDS))
    one, pair = torch.tensor([CLS, 40, SEP, PAD]), torch.tensor([CLS, 40, SEP, 41, 42, SEP, PAD])
    assert layout.segments(one).tolist() == [0, 0, 0, 0]
    assert layout.segments(pair).tolist() == [0, 0, 0, 1, 1, 1, 0]
    assert layout.segments(pair.expand(2, -1)).shape == (2, 7)


@pytest.mark.parametrize("separators", [0, 3])
def test_there_are_one_or_two_separators(separators: int) -> None:
    with pytest.raises(InputError, match="1 or 2"):
        SequenceLayout(bos=0, pad=1, eos=2, unk=3, separators=separators)


def test_special_symbols_must_be_in_the_vocabulary() -> None:
    names = {"bos": "[CLS]", "pad": "[PAD]", "eos": "[SEP]", "unk": "[UNK]"}
    with pytest.raises(VocabularyError, match=r"\[SEP\]"):
        Dictionary.from_symbols(["[CLS]", "[PAD]", "[UNK]", "a"], **names)
    with pytest.raises(VocabularyError, match="two pieces have the same name, 'a'"):
        Dictionary.from_symbols([*names.values(), "a", "a"], **names)
    with pytest.raises(VocabularyError, match=r"dict\.txt"):
        vocabulary(WORDS).dumps()


# ---- the verbs ----


def test_features(roberta: RobertaHubInterface) -> None:
    texts = ["the film was good.", ("a dog", "the day is warm"), "a"]
    batch = roberta.features(texts)
    for text, found in zip(texts, batch, strict=True):
        ids = roberta.encode(*([text] if isinstance(text, str) else text))
        assert_close(found, roberta.extract_features(ids)[0].detach())
    pooled = roberta.features(texts, pooling="cls")
    assert_close(pooled, torch.stack([found[0] for found in batch]))


def test_classify_and_choose(roberta: RobertaHubInterface) -> None:
    with torch.no_grad():
        wanted = roberta.predict("mood", roberta.encode("a dog", "a day"))[0].exp()
    [found] = roberta.classify([("a dog", "a day")], "mood")
    assert [found.scores[name] for name in ("bad", "good")] == pytest.approx(wanted.tolist())
    assert roberta.choose("the film was", ["good", "bad"], "best").label in ("good", "bad")


def test_fill_mask(roberta: RobertaHubInterface) -> None:
    found = roberta.fill_mask("The <mask> was good.", topk=3)
    ids = roberta.tokenizer.encode_masked("The <mask> was good.")
    with torch.no_grad():
        logits = roberta.model(ids.unsqueeze(0))[0][0, 2]
    values = logits.softmax(-1).masked_fill(~roberta.tokenizer.words, -1.0)
    best, which = values.topk(3)
    names = [roberta.tokenizer.decode_id(int(i)) for i in which]
    assert [word for _, _, word in found] == names
    assert [text for text, _, _ in found] == [f"The{name} was good." for name in names]
    assert [p for _, p, _ in found] == pytest.approx(best.tolist(), rel=1e-4)
    ranked = roberta.fill_mask("<mask> saw it.", targets=["Ada", "dog"])
    assert sorted(word for _, _, word in ranked) == [" ada", " dog"]
    assert {text for text, _, _ in ranked} == {"ada saw it.", "dog saw it."}
    with pytest.raises(InputError, match="pieces"):
        roberta.fill_mask("the <mask>", targets=["dog!"])


def test_windows(roberta: RobertaHubInterface) -> None:
    question, long = "who saw it?", " ".join(THINGS * 8)
    with pytest.raises(InputError, match="too long"):
        roberta.features([long])
    (cut,) = roberta.features([long], truncate=True)
    assert len(cut) == roberta.max_positions
    (whole,) = roberta.features([(question, long)], stride=4)
    assert len(whole) == len(roberta.encode(question, long))
    first = roberta.encode(question, long)[: roberta.max_positions - 1]
    first = torch.cat([first, torch.tensor([SEP])])
    assert_close(whole[:10], roberta.extract_features(first)[0][:10].detach())


def test_verbs_on_words(roberta: RobertaHubInterface) -> None:
    text = "Ada Lovelace saw the café."
    for span in roberta.tag([text], "ner")[0]:
        assert text[span.start : span.end] == span.text and span.text.strip() == span.text
    answer = roberta.answer("who saw it?", text, "qa", no_answer=False)
    assert answer.text == text[answer.start : answer.end] != ""
    ids = roberta.encode("a dog", "the day")
    total = 0.0
    for place in (1, 2, 4, 5):
        masked = ids.index_fill(0, torch.tensor([place]), MASK)
        with torch.no_grad():
            logits = roberta.model(masked.unsqueeze(0))[0][0, place]
        total += float(logits.log_softmax(-1)[ids[place]])
    assert roberta.score([("a dog", "the day")]) == pytest.approx([total], rel=1e-4)
    marked = "the dog saw the film and [it] was good."
    assert roberta.disambiguate_pronoun(marked, candidates=["the dog", "the film"]).startswith(
        "the"
    )


def test_the_models_segments_are_the_layouts(roberta: RobertaHubInterface) -> None:
    ids = roberta.encode("a dog", "the day", "a film")
    before = roberta.features([("a dog", "the day", "a film")], layer=0)[0]
    with torch.no_grad():
        roberta.model.encoder.sentence_encoder.segment_embeddings.weight[1] += torch.arange(32.0)
    after = roberta.features([("a dog", "the day", "a film")], layer=0)[0]
    changed = before.ne(after).any(-1).long()
    assert changed.tolist() == roberta.tokenizer.layout.segments(ids).tolist()


# ---- training and saving ----


def sentences() -> list[tuple[str, str]]:
    moods = [(word, "good") for word in GOOD] + [(word, "bad") for word in BAD]
    return [(f"The {thing} was {word}.", label) for thing in THINGS for word, label in moods]


def test_training_and_saving(tmp_path: Path) -> None:
    from roberta_hub.train.loop.training_loop import train_loop
    from roberta_hub.train.settings import (
        BatchConfig,
        Config,
        DataConfig,
        LoopConfig,
        OptimizerConfig,
        TaskConfig,
    )
    from roberta_hub.train.tasks.build import build_task

    table = tmp_path / "moods.tsv"
    rows = [f"{text}\t{label}" for text, label in sentences()]
    table.write_text("\n".join(["sentence\tlabel", *rows]) + "\n", encoding="utf-8")
    config = Config(
        output=str(tmp_path / "run"),
        data=DataConfig(train=str(table), valid=str(table)),
        task=TaskConfig(name="classification", head="mood"),
        optimizer=OptimizerConfig(lr=1e-2),
        batch=BatchConfig(batch_size=16),
        loop=LoopConfig(max_updates=40, evaluate_every=20, progress=False),
    )
    roberta = model_of()
    report = train_loop(build_task(config, roberta), config)
    assert report.metrics["accuracy"] == 1.0
    found = roberta.eval().classify([text for text, _ in sentences()], "mood")
    assert [prediction.label for prediction in found] == [label for _, label in sentences()]
    check_saved(roberta, tmp_path / "run" / "last")


def check_saved(roberta: RobertaHubInterface, folder: Path) -> None:
    """Weights, configuration and the engine's files are there; loading says what it cannot do."""
    saved = read_store(Folder(folder))
    assert saved.config == roberta.model.config
    for name, tensor in roberta.model.state_dict().items():
        if name in saved.weights and not name.endswith("version"):
            assert torch.equal(saved.weights[name], tensor), name
    assert (folder / "words.txt").read_text("utf-8").split("\n") == roberta.tokenizer.pieces()
    about = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    assert (about["tokenizer_class"], about["lowercase"]) == ("WordsAtBlanks", True)
    assert about["layout"] == {
        **{"bos": CLS, "eos": SEP, "pad": PAD, "unk": UNK, "mask": MASK, "separators": 1}
    }
    assert not (folder / "dict.txt").exists()
    with pytest.raises(VocabularyError, match="tokenizer_class is 'WordsAtBlanks'"):
        roberta_hub.load_model(folder)


def test_a_kind_that_is_not_read_is_refused_by_name(tmp_path: Path) -> None:
    """Not replaced by RoBERTa's vocabulary, also where sentences are joined as in RoBERTa."""
    dictionary = Dictionary.parse("".join(f"{w} 1\n" for w in WORDS).encode(), "dict.txt")
    config = RobertaConfig(
        vocab_size=len(dictionary), embed_dim=8, ffn_dim=8, num_layers=1, num_heads=2
    )
    model = RobertaModel(config)
    RobertaHubInterface(config, Task(dictionary), model, bpe=Words(WORDS)).save(tmp_path)
    assert (tmp_path / "dict.txt").exists()
    with pytest.raises(VocabularyError, match="tokenizer_class is 'WordsAtBlanks'"):
        roberta_hub.load_model(tmp_path)


def saved_with_one_separator(folder: Path) -> RobertaHubInterface:
    dictionary = Dictionary.roberta()
    layout = SequenceLayout.of(dictionary, separators=1)
    config = RobertaConfig(embed_dim=8, ffn_dim=8, num_layers=1, num_heads=2)
    hub = RobertaHubInterface(config, Task(dictionary, layout=layout), RobertaModel(config))
    hub.save(folder)
    return hub


@pytest.mark.system
def test_bpe_with_another_layout_comes_back(tmp_path: Path) -> None:
    hub = saved_with_one_separator(tmp_path)
    again = roberta_hub.load_model(tmp_path)
    for one in (hub, again):
        assert one.encode("Hello", "world").tolist() == [0, 31414, 2, 8331, 2]
    assert again.tokenizer.layout == hub.tokenizer.layout
    again.save(tmp_path / "again")
    assert roberta_hub.load_model(tmp_path / "again").tokenizer.layout == hub.tokenizer.layout


@pytest.mark.system
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([], "is \\[\\], not a table"),
        ({"begin": 0}, "not a table of bos, eos"),
        ({"separators": 3}, "separators 3; it runs from 1 to 2"),
        ({"separators": True}, "separators True"),
        ({"eos": 50265}, "eos 50265; it runs from 0 to 50264"),
        ({"bos": -1}, "bos -1"),
        ({"pad": None}, "pad None"),
        ({"unk": "3"}, "unk '3'"),
    ],
)
def test_false_layouts_are_refused(tmp_path: Path, layout: object, message: str) -> None:
    saved_with_one_separator(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"layout": layout}))
    with pytest.raises(VocabularyError, match=message):
        roberta_hub.load_model(tmp_path)


@pytest.mark.parametrize("format", ["fairseq", "huggingface"])
def test_formats_without_room_say_so(
    roberta: RobertaHubInterface, tmp_path: Path, format: Any
) -> None:
    with pytest.raises(CheckpointError, match="save as 'roberta_hub'"):
        roberta.save(tmp_path / "model", format=format, head="mood")
    assert not (tmp_path / "model").exists()


@pytest.mark.system
@pytest.mark.parametrize("unit", ["token", "word"])
def test_pretraining(tmp_path: Path, unit: str) -> None:
    from roberta_hub.train.loop.training_loop import train_loop
    from roberta_hub.train.settings import (
        BatchConfig,
        Config,
        DataConfig,
        LoopConfig,
        OptimizerConfig,
        TaskConfig,
    )
    from roberta_hub.train.tasks.build import build_task

    text = tmp_path / "text.txt"
    text.write_text("\n".join(text for text, _ in sentences()) + "\n", encoding="utf-8")
    config = Config(
        output=str(tmp_path / "run"),
        data=DataConfig(train=str(text), valid=str(text)),
        task=TaskConfig(name="masked_lm", options={"unit": unit, "block_size": 20}),
        optimizer=OptimizerConfig(lr=1e-2),
        batch=BatchConfig(batch_size=16),
        loop=LoopConfig(max_updates=60, evaluate_every=0, progress=False),
    )
    roberta = model_of()
    task = build_task(config, roberta)
    train_loop(task, config)
    roberta.eval()
    best = roberta.fill_mask("The film <mask> good.", topk=1)[0]
    assert best[0] == "The film was good."


def test_earlier_names_warn() -> None:
    from roberta_hub import text

    for old, new in (("Engine", SubwordTokenizer), ("Layout", SequenceLayout)):
        with pytest.warns(DeprecationWarning, match=new.__name__):
            assert getattr(text, old) is new
    with pytest.raises(AttributeError, match="nothing"):
        _ = text.nothing  # type: ignore[attr-defined]
