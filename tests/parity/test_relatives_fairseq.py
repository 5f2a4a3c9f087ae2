"""XLM-R, CamemBERT and GottBERT: whole archives that fairseq 0.12.2 wrote and reads beside us."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("sentencepiece")

from families import byte_pairs, sentencepiece_model, write_bytes

from roberta_hub import CamembertModel, GottbertModel, RobertaHubInterface, XLMRModel, load_model
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.fairseq_names.loading import build_bpe, from_pretrained
from roberta_hub.fairseq_names.word_alignment import align_bpe_to_words

from . import peers
from .fairseq_peer import _quiet

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
TOLERANCE = 1e-5
CLASSES = {"xlmr": XLMRModel, "camembert": CamembertModel, "gottbert": GottbertModel}
FAMILIES = {"xlmr": "xlm-roberta", "camembert": "camembert", "gottbert": "roberta"}
TEXTS = (
    "She reads the news in English, German and French every morning.",
    "Le train de Paris était en retard, et nous avons bu un café.",
    " Gott sei Dank ist das Wetter   heute schön\tund warm. ",
    "今天天气很好，我们去公园。",
    "नमस्ते दुनिया, आज मौसम अच्छा है।",
    "Nobody 🤷🏽 knew <mask> why </s> the dog <unk>",
    "",
)
MASKED = (
    "She reads the <mask> in English.",
    "<mask> reads the news",
    "Le train de Paris<mask>, en retard",
    "Wetter heute <mask>",
)


def write_vocabulary(kind: str, folder: Path) -> None:
    """What fairseq's archives hold beside model.pt, in small."""
    folder.mkdir(parents=True)
    if kind == "gottbert":
        write_bytes(folder)
        (folder / "tokenizer_config.json").unlink()
        alphabet, merges = byte_pairs(120)
        rows = range(4, 4 + len(alphabet) + len(merges))
        symbols = [f"{i} 1" for i in rows]
    else:
        model, _ = sentencepiece_model("xlmr")
        (folder / "sentencepiece.bpe.model").write_bytes(model)
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(model)
        pieces = map(processor.id_to_piece, range(3, processor.get_piece_size()))
        symbols = [f"{piece} 999" for piece in pieces]
        if kind == "camembert":
            twice = ("<unk>", "<s>", "</s>")
            symbols[:0] = [f"{symbol} 999 #fairseq:overwrite" for symbol in twice]
    (folder / "dict.txt").write_text("\n".join(symbols) + "\n", encoding="utf-8")


@pytest.fixture(scope="module", params=["xlmr", "camembert", "gottbert"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is in an archive."""
    folder = tmp_path_factory.mktemp("archive") / f"{kind}.toy"
    write_vocabulary(kind, folder)
    peer = peers.fairseq_model(folder, max_positions=128)
    dictionary = peer.task.source_dictionary
    special = [i for i, symbol in enumerate(dictionary.symbols) if symbol.strip("</>") != symbol]
    with torch.no_grad():  # fairseq's fill_mask dies of specials among the best
        peer.model.encoder.lm_head.bias[[i for i in special if len(dictionary[i]) > 1]] = -50
    peers.save_era(peer, folder, "args")
    return folder


@pytest.fixture(scope="module")
def theirs(kind: str, folder: Path) -> Any:
    peers.real_fairseq()
    from fairseq.models import roberta

    names = {"xlmr": "XLMRModel", "camembert": "CamembertModel", "gottbert": "GottbertModel"}
    with _quiet(), peers.fairseq_loads_its_own_files():
        hub = getattr(roberta, names[kind]).from_pretrained(str(folder))
    for layer in hub.model.encoder.sentence_encoder.layers:
        layer.can_use_fastpath = False
    return hub.eval()


@pytest.fixture(scope="module")
def ours(kind: str, folder: Path) -> RobertaHubInterface:
    return CLASSES[kind].from_pretrained(folder).eval()


def test_the_same_ids_and_the_same_texts(kind: str, ours: RobertaHubInterface, theirs: Any) -> None:
    for text in TEXTS:
        assert ours.encode(text).tolist() == theirs.encode(text).tolist()
        for single in (False, True):
            mine = ours.encode(text, TEXTS[0], no_separator=single)
            assert mine.tolist() == theirs.encode(text, TEXTS[0], no_separator=single).tolist()
    for text in TEXTS[:5]:
        decoded = theirs.decode(theirs.encode(text))
        if kind == "camembert":  # fairseq decodes its own `<s>` and `</s>` as words
            decoded = decoded.removeprefix("<s> ").removesuffix("</s>")
        assert ours.decode(ours.encode(text)) == decoded
        assert ours.bpe.encode(text) == theirs.bpe.encode(text)


def test_the_same_features(ours: RobertaHubInterface, theirs: Any) -> None:
    for text in TEXTS:
        tokens = ours.encode(text)
        states = ours.extract_features(tokens, return_all_hiddens=True)
        wanted = theirs.extract_features(tokens, return_all_hiddens=True)
        assert len(states) == len(wanted) == 3
        for state, other in zip(states, wanted, strict=True):
            torch.testing.assert_close(state, other, atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(
            ours.extract_features(tokens), theirs.extract_features(tokens), atol=TOLERANCE, rtol=0
        )


def test_the_same_words_for_masks(kind: str, ours: RobertaHubInterface, theirs: Any) -> None:
    for text in MASKED:
        mine, wanted = ours.fill_mask(text, topk=6), theirs.fill_mask(text, topk=6)
        if kind != "gottbert":  # a text of fairseq's may begin with a space, that of its first word
            wanted = [(row[0].lstrip(" "), *row[1:]) for row in wanted]
        assert mine == [(row[0], pytest.approx(row[1], abs=TOLERANCE), row[2]) for row in wanted]


def test_the_loaded_model_knows_its_family(
    kind: str, folder: Path, ours: RobertaHubInterface
) -> None:
    assert ours.family == load_model(folder).family == FAMILIES[kind]
    layout = ours.tokenizer.layout
    assert (layout.bos, layout.eos) == ((5, 6) if kind == "camembert" else (0, 2))


def test_hub_utils_parts_and_words_as_in_fairseq(
    kind: str, folder: Path, ours: RobertaHubInterface, theirs: Any
) -> None:
    """An interface of the parts keeps engine and family; words get the pieces that fairseq says."""
    from fairseq.models.roberta import alignment_utils

    bpe = "hf_byte_bpe" if kind == "gottbert" else "sentencepiece"
    x = from_pretrained(str(folder), bpe=bpe, load_checkpoint_heads=True)
    hub = RobertaHubInterface(x["args"], x["task"], x["models"][0]).eval()
    assert (hub.family, type(hub.bpe)) == (FAMILIES[kind], type(ours.bpe))
    assert build_bpe(x["args"].bpe) is hub.bpe
    text, words = (
        "She reads the news, in Paris.",
        ["She", "reads", "the", "news", ",", "in", "Paris", "."],
    )
    ids = ours.encode(text)
    assert torch.equal(hub.encode(text), ids)
    assert torch.equal(hub.extract_features(ids), ours.extract_features(ids))
    found = align_bpe_to_words(hub, ids, words)
    assert found == align_bpe_to_words(ours, ids, words) and all(found)
    if kind != "camembert":  # there fairseq asks for an `<s>` of id 0, and it is 5
        assert found == alignment_utils.align_bpe_to_words(theirs, ids, words)


def test_an_archive_by_path_and_what_is_saved(
    kind: str, folder: Path, ours: RobertaHubInterface, tmp_path: Path
) -> None:
    archive = tmp_path / f"{kind}.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, arcname=folder.name)
    tokens = ours.encode(TEXTS[1])
    wanted = ours.extract_features(tokens)
    for path in (archive, folder / "model.pt"):
        again = load_model(path).eval()
        assert again.encode(TEXTS[1]).tolist() == tokens.tolist()
        assert torch.equal(again.extract_features(tokens), wanted)
    ours.save(tmp_path / "saved", format="fairseq")
    again = load_model(tmp_path / "saved").eval()
    assert again.encode(TEXTS[1]).tolist() == tokens.tolist()
    assert torch.equal(again.extract_features(tokens), wanted)


# ---- files that are missing, and fairseq's keywords ----


def copy_without(folder: Path, target: Path, *names: str) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        if path.is_file() and path.name not in names:
            (target / path.name).write_bytes(path.read_bytes())
    return target


ENGINE = ("sentencepiece.bpe.model", "vocab.json", "merges.txt")


def test_without_its_engine_a_model_takes_ids_alone(
    kind: str, folder: Path, ours: RobertaHubInterface, tmp_path: Path
) -> None:
    bare = copy_without(folder, tmp_path / "bare", *ENGINE, "dict.txt")
    tokens = ours.encode(TEXTS[0])
    if kind == "gottbert":  # its rows might be of any dictionary with GPT-2's pieces
        with pytest.raises(VocabularyError, match=r"put the dict.txt that the model was trained"):
            load_model(bare)
    bare = copy_without(folder, tmp_path / "without", *ENGINE)
    if kind != "gottbert":
        numbers = load_model(bare).eval()
        assert torch.equal(numbers.extract_features(tokens), ours.extract_features(tokens))
        for ask in (numbers.encode, numbers.fill_mask, numbers.features, numbers.tokenize):
            with pytest.raises(VocabularyError, match=r"vocabulary=.*sentencepiece\.bpe\.model"):
                ask("Hello <mask>")
        with pytest.raises(VocabularyError, match="vocabulary="):
            numbers.decode(tokens)
        again = load_model(bare, vocabulary=folder)
        assert again.encode(TEXTS[0]).tolist() == tokens.tolist()
    with pytest.raises(VocabularyError, match=r"sentencepiece\.bpe\.model|vocab\.json"):
        CLASSES[kind].from_pretrained(bare)
    if kind == "gottbert":
        files = {f"bpe_{name.split('.')[0]}": str(folder / name) for name in ENGINE[1:]}
    else:
        files = {"sentencepiece_model": str(folder / ENGINE[0])}
    again = CLASSES[kind].from_pretrained(bare, **files)
    assert again.encode(TEXTS[0]).tolist() == tokens.tolist()


def test_random_ids_and_second_vocabularies_are_refused(kind: str, folder: Path) -> None:
    with pytest.raises(InputError, match="sentencepiece_enable_sampling"):
        load_model(folder, sentencepiece_enable_sampling=True)
    with pytest.raises(InputError, match="brings its own vocabulary"):
        load_model(folder, vocabulary=folder)


def test_the_roberta_in_the_package_has_no_sentencepiece() -> None:
    with pytest.raises(VocabularyError, match="sentencepiece"):
        load_model("roberta.tiny", bpe="sentencepiece")
    with pytest.raises(InputError, match="bpe"):
        load_model("roberta.tiny", bpe="fastbpe")
