"""The interface object: fairseq's methods, their faults mended, around our model or fairseq's."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from parity import peers
from small_models import assert_close, copied, small_model, small_roberta
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubError, RobertaHubInterface, collate_tokens
from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.fairseq_bridge import from_fairseq
from roberta_hub.text import Dictionary, Task

TEXTS = ["Hello world!", "", " with space ", "can’t 🙂 naïve", "A longer one: one, two, three."]
PAIR = ("Hello", "the world")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def _made() -> RobertaHubInterface:
    return small_roberta(heads={"mnli": 3}, pooler_dropout=0.1)


@pytest.fixture
def roberta(_made: RobertaHubInterface) -> RobertaHubInterface:
    return copied(_made)


# ---- encode and decode ----


@pytest.mark.parametrize("text", ["", " ", "  ", "\0", "\r\n", "\ufeff", "\u2028", "\xa0", *TEXTS])
def test_any_text_survives_a_round_trip(roberta: RobertaHubInterface, text: str) -> None:
    ids = roberta.encode(text)
    assert ids.dtype is torch.long and ids.dim() == 1
    assert (ids[0], ids[-1]) == (0, 2)
    assert roberta.decode(ids) == text
    assert roberta.decode(ids.to(torch.int32)) == text


def test_the_published_ids(roberta: RobertaHubInterface) -> None:
    assert roberta.encode("Hello world!").tolist() == [0, 31414, 232, 328, 2]
    assert roberta.encode("").tolist() == [0, 2]
    assert roberta.encode("Hello", "world").tolist() == [0, 31414, 2, 2, 8331, 2]
    assert roberta.encode("Hello", "world", no_separator=True).tolist() == [0, 31414, 2, 8331, 2]
    assert roberta.decode(roberta.encode("Hello", "world")) == ["Hello", "world"]


@pytest.mark.parametrize("special", ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"])
def test_specials_in_text_are_text(roberta: RobertaHubInterface, special: str) -> None:
    ids = roberta.encode(f"a {special} b")
    assert ids[1:-1].tolist() == [i for i in ids[1:-1].tolist() if 3 < i < 50260]
    assert roberta.decode(ids) == f"a {special} b"
    assert torch.equal(roberta.encode_batch([f"a {special} b"])[0], ids)


def test_encode_batch_is_encode(roberta: RobertaHubInterface) -> None:
    items = [*TEXTS, PAIR, (*PAIR, "more")]
    for item, ids in zip(items, roberta.encode_batch(items), strict=True):
        assert torch.equal(ids, roberta.encode(*((item,) if isinstance(item, str) else item)))


def test_pieces_lie_where_offsets_say(roberta: RobertaHubInterface) -> None:
    for text in TEXTS:
        pieces, offsets = roberta.tokenize(text), roberta.offsets(text)
        assert len(pieces) == len(offsets) == len(roberta.encode(text)) - 2
        covered = {i for start, end in offsets for i in range(start, end)}
        assert covered == set(range(len(text)))
        for piece, (start, end) in zip(pieces, offsets, strict=True):
            if text.isascii():
                assert piece.replace("Ġ", " ") == text[start:end]


@pytest.mark.system
@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([0, 31414, 2, 1, 1], "Hello"),
        ([1, 1, 0, 31414, 2], "Hello"),
        ([0, 31414, 50264, 2], "Hello<mask>"),
        ([0, 31414, 3, 2], "Hello<unk>"),
        ([0, 50261, 2], "madeupword0000"),
        ([], ""),
        ([0, 2], ""),
    ],
)
def test_decode_of_what_fairseq_dies_on(
    roberta: RobertaHubInterface, ids: list[int], text: str
) -> None:
    assert roberta.decode(torch.tensor(ids, dtype=torch.long)) == text


# ---- bad input: the built-in that fits, and a message that helps ----

LONG = torch.zeros(1, 49, dtype=torch.long)
BAD: list[tuple[str, Callable[[RobertaHubInterface], Any], type[Exception], str]] = [
    ("encode None", lambda r: r.encode(None), TypeError, "NoneType"),
    ("encode bytes", lambda r: r.encode(b"a"), TypeError, "bytes"),
    ("encode list", lambda r: r.encode(["a"]), TypeError, "list"),
    ("encode surrogate", lambda r: r.encode("a\ud800"), ValueError, "surrogate"),
    (
        "decode 2-D",
        lambda r: r.decode(torch.zeros(1, 2, dtype=torch.long)),
        ValueError,
        r"\(1, 2\)",
    ),
    ("decode -1", lambda r: r.decode(torch.tensor([0, -1])), ValueError, r"tokens\[1\] is -1"),
    ("decode 50265", lambda r: r.decode(torch.tensor([50265])), ValueError, r"0 to 50264"),
    ("decode float", lambda r: r.decode(torch.tensor([0.0])), TypeError, "float32"),
    (
        "too long",
        lambda r: r.extract_features(LONG),
        ValueError,
        r"tokens exceeds maximum length: "
        r"49 > 48.*stride=N",
    ),
    ("too long, head", lambda r: r.predict("mnli", LONG), ValueError, "49 > 48"),
    (
        "id -1",
        lambda r: r.extract_features(torch.tensor([0, -1])),
        ValueError,
        r"id -1 at row 0, "
        r"position "
        r"1.*0\.\.50264",
    ),
    (
        "id 50265",
        lambda r: r.predict("mnli", torch.tensor([50265])),
        ValueError,
        "id 50265 at row 0, position 0",
    ),
    (
        "float ids",
        lambda r: r.extract_features(torch.zeros(1, 2)),
        TypeError,
        "float32; ids are integers",
    ),
    ("bool ids", lambda r: r.extract_features(torch.zeros(1, 2).bool()), TypeError, "bool"),
    (
        "3-D",
        lambda r: r.extract_features(torch.zeros(1, 1, 2).long()),
        ValueError,
        r"\(1, 1, 2\); "
        r"pass \(T,\)",
    ),
    ("0-D", lambda r: r.extract_features(torch.tensor(0)), ValueError, r"shape \(\)"),
    ("no tokens", lambda r: r.extract_features(torch.zeros(0).long()), ValueError, "length 0"),
    ("ragged list", lambda r: r.extract_features([[0, 2], [0]]), TypeError, "makes no id tensor"),
    ("tensors", lambda r: r.predict("mnli", [torch.tensor([0, 2])]), TypeError, "collate_tokens"),
    ("str", lambda r: r.extract_features("Hello"), TypeError, "str; pass a LongTensor"),
    (
        "head",
        lambda r: r.predict("nli", torch.tensor([0, 2])),
        KeyError,
        "'nli'; this model has mnli",
    ),
    (
        "head name",
        lambda r: r.register_classification_head("a.b", 2),
        ValueError,
        "'a.b' cannot name",
    ),
    (
        "no classes",
        lambda r: r.register_classification_head("a"),
        ValueError,
        "num_classes is None",
    ),
    (
        "labels",
        lambda r: r.register_classification_head("a", 3, labels=["x", "y"]),
        ValueError,
        "2 labels",
    ),
]


@pytest.mark.parametrize(
    ("call", "builtin", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_input(
    roberta: RobertaHubInterface, call: Any, builtin: type[Exception], message: str
) -> None:
    with pytest.raises(builtin, match=message) as caught:
        call(roberta)
    assert isinstance(caught.value, RobertaHubError)
    assert str(caught.value) == caught.value.args[0]  # readable, also where it is a KeyError


# ---- extract_features and predict ----


def test_ids_in_any_form(roberta: RobertaHubInterface) -> None:
    ids = roberta.encode("Hello world!")
    wanted = roberta.extract_features(ids)
    assert wanted.shape == (1, 5, 32)
    for form in (ids.unsqueeze(0), ids.int(), ids.tolist(), [ids.tolist()], tuple(ids.tolist())):
        assert torch.equal(roberta.extract_features(form), wanted)  # type: ignore[arg-type]
    assert roberta.extract_features(torch.empty(0, 5, dtype=torch.long)).shape == (0, 5, 32)
    assert roberta.predict("mnli", torch.empty(0, 5, dtype=torch.long)).shape == (0, 3)


@pytest.mark.parametrize("left_pad", [False, True])
def test_a_padded_batch_is_its_singles(roberta: RobertaHubInterface, left_pad: bool) -> None:
    sequences = [*roberta.encode_batch(TEXTS), torch.empty(0, dtype=torch.long)]
    tokens = collate_tokens(sequences, left_pad=left_pad)
    states = roberta.extract_features(tokens, return_all_hiddens=True)
    assert len(states) == 4
    assert torch.equal(states[-1], roberta.extract_features(tokens))
    logits = roberta.predict("mnli", tokens, return_logits=True)
    answers = roberta.predict("mnli", tokens)
    assert_close(answers, logits.log_softmax(-1))
    for i, ids in enumerate(sequences):
        real = tokens[i].ne(1)
        assert not any(state[i, ~real].any() for state in states)
        if not len(ids):  # nothing but padding
            assert answers[i].isfinite().all()
            continue
        for state, wanted in zip(states, roberta.extract_features(ids, True), strict=True):
            assert_close(state[i, real], wanted[0])
        assert_close(answers[i], roberta.predict("mnli", ids)[0])


def test_modes_and_gradients_are_the_callers(roberta: RobertaHubInterface) -> None:
    ids = roberta.encode("Hello world!")
    for call in (roberta.extract_features, lambda t: roberta.predict("mnli", t)):
        roberta.eval().zero_grad()
        assert torch.equal(call(ids), call(ids))
        call(ids).square().sum().backward()
        assert roberta.model.encoder.sentence_encoder.embed_tokens.weight.grad.any()  # type: ignore[union-attr]
        assert not roberta.training
        roberta.train()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert not torch.equal(call(ids), call(ids))
        assert roberta.training and roberta.model.training
        with torch.no_grad():
            assert not call(ids).requires_grad


def caught(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in found]


def test_predict_warns_once_where_dropout_is_on(roberta: RobertaHubInterface) -> None:
    ids = roberta.encode("Hello")

    def predict() -> None:
        roberta.predict("mnli", ids)

    assert caught(predict) == []
    roberta.train()
    roberta.model.eval()  # what counts is the model
    assert caught(predict) == []
    roberta.eval()
    roberta.model.train()
    (message,) = caught(predict)
    assert "dropout on" in message and ".eval()" in message
    assert caught(predict) == []
    dry = small_roberta(heads={"mnli": 3}, dropout=0.0).train()
    assert caught(lambda: dry.predict("mnli", ids)) == []


def test_autocast_and_inference_mode(roberta: RobertaHubInterface) -> None:
    ids = collate_tokens(roberta.encode_batch(TEXTS))
    wanted = roberta.predict("mnli", ids)
    with torch.inference_mode():
        assert torch.equal(roberta.predict("mnli", ids), wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(roberta.predict("mnli", ids).float(), wanted, 6e-2)
    assert_close(roberta.half().predict("mnli", ids).float(), wanted, 1e-2)


def test_registering_a_head(roberta: RobertaHubInterface) -> None:
    roberta.register_classification_head(
        "topic", num_classes=2, embedding_size=99, inner_dim=7, labels=["art", "sport"]
    )
    assert roberta.predict("topic", roberta.encode("Goal!")).shape == (1, 2)
    assert roberta.head_labels("topic") == ("art", "sport")
    assert roberta.model.classification_heads["topic"].dense.weight.shape == (7, 32)  # type: ignore[index, union-attr]
    with pytest.warns(UserWarning, match="re-registering"):
        roberta.register_classification_head("topic", 3)
    assert roberta.head_labels("topic") == ("0", "1", "2")


# ---- the object ----


def test_fairseqs_attributes(roberta: RobertaHubInterface) -> None:
    assert roberta.task.mask_idx == 50264
    assert roberta.task.source_dictionary[50264] == "<mask>"
    assert roberta.bpe.decode(roberta.bpe.encode("Hello world")) == "Hello world"
    assert roberta.cfg is roberta.model.config
    assert roberta.device == torch.device("cpu")
    assert roberta.model.max_positions() == 48  # type: ignore[operator]
    assert roberta.model.supported_targets == {"self"}
    assert isinstance(roberta.model, roberta_hub.hub.roberta.Roberta)


def test_the_card(roberta: RobertaHubInterface) -> None:
    card = repr(roberta)
    parameters = sum(p.numel() for p in roberta.parameters())
    for part in (f"{parameters:,}", "50,265 symbols", "48 tokens", "mnli (0, 1, 2)", "eval"):
        assert part in card
    assert "train" in repr(roberta.train())


@pytest.mark.system
def test_copies_and_pickles_answer_alike(roberta: RobertaHubInterface) -> None:
    for twin in (copy.deepcopy(roberta), pickle.loads(pickle.dumps(roberta))):
        assert torch.equal(twin.features(["Hello"])[0], roberta.features(["Hello"])[0])
        assert twin.fill_mask("a <mask>") == roberta.fill_mask("a <mask>")


def test_the_same_answers_in_any_dtype_and_after_moving(roberta: RobertaHubInterface) -> None:
    wanted = roberta.features(TEXTS, pooling="mean")
    assert_close(roberta.double().features(TEXTS, pooling="mean"), wanted.double())
    assert torch.equal(roberta.float().to("cpu").features(TEXTS, pooling="mean"), wanted)


# ---- a real fairseq model inside ----


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[RobertaHubInterface, Any]:
    """(our interface on our copy, our interface on fairseq's model)"""
    data = peers.dictionary(tmp_path_factory.mktemp("data"))
    peer = peers.fairseq_model(data, heads={"mnli": 3}, pooler_dropout=0.2)
    model = from_fairseq(peer.model)
    task = Task(Dictionary.of(peer.task.source_dictionary))
    ours = RobertaHubInterface(model.config, task, model)  # type: ignore[arg-type]
    return ours.eval(), RobertaHubInterface(peer.cfg, peer.task, peer.model).eval()


def same_filled(ours: Any, theirs: Any) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, list):
            same_filled(mine, other)
        else:
            assert (mine[0], mine[2]) == (other[0], other[2])
            assert mine[1] == pytest.approx(other[1], rel=1e-3)


@pytest.mark.system
@peers.needs_fairseq
def test_fairseqs_model_gives_the_same_answers(both: tuple[RobertaHubInterface, Any]) -> None:
    ours, theirs = both
    items = [*TEXTS, PAIR, TEXTS[0]]
    for mine, other in zip(ours.encode_batch(items), theirs.encode_batch(items), strict=True):
        assert torch.equal(mine, other)
    for left_pad in (False, True):
        tokens = collate_tokens(ours.encode_batch(items), left_pad=left_pad)
        real = tokens.ne(1)
        with torch.no_grad():
            mine_states: list[Tensor] = ours.extract_features(tokens, return_all_hiddens=True)
            other_states: list[Tensor] = theirs.extract_features(tokens, return_all_hiddens=True)
            for a, b in zip(mine_states, other_states, strict=True):
                assert_close(a[real], b[real])
        if not left_pad:  # there fairseq's head reads padding
            assert_close(ours.predict("mnli", tokens), theirs.predict("mnli", tokens))
    for options in ({}, {"layer": 1}, {"pooling": "cls"}, {"layer": 0, "pooling": "mean"}):
        for a, b in zip(
            ours.features(items, **options), theirs.features(items, **options), strict=True
        ):
            assert_close(a, b)
    for mine, other in zip(ours.classify(items), theirs.classify(items), strict=True):
        assert dict(mine.scores) == pytest.approx(dict(other.scores), abs=1e-5)
    assert ours.score(items) == pytest.approx(theirs.score(items), abs=1e-3)
    masked = ["a <mask>", "<mask> and <mask>", "I<mask>, too"]
    same_filled(ours.fill_mask(masked), theirs.fill_mask(masked))
    sentence = "The trophy would not fit in the suitcase because [it] was big."
    candidates = ["the trophy", "the suitcase"]
    for options in ({"candidates": candidates}, {"candidates": candidates[::-1]}):
        assert ours.disambiguate_pronoun(sentence, **options) == theirs.disambiguate_pronoun(
            sentence, **options
        )


@pytest.mark.parametrize(
    ("task", "with_bos"),
    [
        (Task(Dictionary.roberta()), True),
        (Task(Dictionary.roberta(), name="wsc"), False),
        (Task(Dictionary.roberta(), name="wsc", init_token=0), True),
        (SimpleNamespace(cfg=SimpleNamespace(_name="masked_lm")), True),
        (SimpleNamespace(cfg=None, args=SimpleNamespace(task="wsc", init_token=None)), False),
        (SimpleNamespace(cfg=None, args=SimpleNamespace(task="wsc", init_token=0)), True),
    ],
    ids=["masked_lm", "wsc", "wsc, init", "their masked_lm", "their wsc", "their wsc, init"],
)
def test_which_tasks_put_bos_in_front_of_a_schema(task: Any, with_bos: bool) -> None:
    """fairseq's WSCTask is not in its package but in examples/, so only what it keeps is tried."""
    if isinstance(task, SimpleNamespace):
        task.source_dictionary = Dictionary.roberta()
    roberta = small_roberta()
    seen: list[list[int]] = []
    embed = roberta.model.encoder.sentence_encoder.embed_tokens  # type: ignore[union-attr]
    embed.register_forward_hook(lambda module, args, out: seen.append(args[0].tolist()))  # type: ignore[union-attr]
    own = RobertaHubInterface(roberta.cfg, task, roberta.model)
    own.disambiguate_pronoun("Here [it] is", ["the dog"])
    assert (seen[0][0] == 0) == with_bos


@pytest.mark.system
@peers.needs_fairseq
def test_fairseqs_model_keeps_its_mode_and_warns(both: tuple[RobertaHubInterface, Any]) -> None:
    theirs = both[1]
    wanted = theirs.features(["Hello"])[0]
    ids = theirs.encode("Hello")
    theirs.train()
    try:
        assert torch.equal(theirs.features(["Hello"])[0], wanted)
        assert theirs.model.training
        (message,) = caught(lambda: theirs.predict("mnli", ids))
        assert "dropout on" in message
        assert not torch.equal(theirs.extract_features(ids), theirs.extract_features(ids))
        theirs.extract_features(ids).sum().backward()
    finally:
        theirs.eval()
    theirs.register_classification_head("topic", 2, labels=["art", "sport"])
    theirs.eval()
    assert theirs.classify(["Hello"], head="topic")[0].label in ("art", "sport")
    with pytest.raises(TypeError, match="from_fairseq"):
        theirs.save(Path("never"))


def test_texts_for_a_dictionary_of_other_units_are_refused() -> None:
    """Every piece would be unknown, and every answer wrong without a word; ids are right."""
    dictionary = Dictionary()
    for symbol in ("▁a", "▁the", "▁cat", "<mask>"):
        dictionary.add_symbol(symbol)
    model = small_model(vocab_size=len(dictionary))
    roberta = RobertaHubInterface(model.config, Task(dictionary), model).eval()
    ids = dictionary.encode_line("<s> ▁the ▁cat </s>", append_eos=False).long()
    assert roberta.extract_features(ids).shape[:2] == (1, 4)
    for refused in (roberta.encode, roberta.embed):
        with pytest.raises(VocabularyError, match=r"units such as ▁a, ▁the.*encode_line.*bpe"):
            refused("the cat")


@peers.needs_fairseq
def test_heads_that_fairseqs_model_cannot_have(both: tuple[RobertaHubInterface, Any]) -> None:
    _, theirs = both
    with pytest.raises(InputTypeError, match=r"register_token_head changes roberta_hub models, .*"):
        theirs.register_token_head("t", labels=["O", "B-a"])
    with pytest.raises(InputTypeError, match=r"register_span_head changes roberta_hub models, .*"):
        theirs.register_span_head("s")
    with pytest.raises(InputError, match=r"'a\.b' cannot name a classification head"):
        theirs.register_classification_head("a.b", 2)
