"""The same numbers as real fairseq 0.12.2, on checkpoints that it wrote, in every era's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface, collate_tokens, load_model
from roberta_hub.errors import Advice
from roberta_hub.fairseq_bridge import from_fairseq, to_fairseq

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
TOLERANCE = 1e-5
TEXTS = [
    "Hello world!",
    "",
    " Where's the <mask> gone? </s>",
    "can’t 🙂 naïve",
    "A longer sentence, which makes the batch ragged: one, two, three, four, five, six.",
]


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.float(), theirs.float(), atol=TOLERANCE, rtol=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with RoBERTa's dict.txt, 50,265 symbols with the specials."""
    return peers.dictionary(tmp_path_factory.mktemp("data"))


def pair(
    data: Path, folder: Path, era: peers.Era = "plain", **arguments: Any
) -> tuple[RobertaHubInterface, Any]:
    """(ours, fairseq's) interface on one file of random weights, biases and norms."""
    peer = peers.fairseq_model(data, heads={"mnli": 3, "one": 1}, **arguments)
    (folder / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    peers.save_era(peer, folder, era)
    ours = load_model(folder).eval()
    return ours, peers.hub_interface(folder)


@pytest.mark.parametrize("era", ["plain", "args", "legacy"])
def test_heads_of_every_name_that_fairseq_takes(data: Path, tmp_path: Path, era: peers.Era) -> None:
    """Written by fairseq, read by us, and written by us, read by stock fairseq."""
    names = ("mnli_", "_cls", "my head", "主题", "настроение", "é")
    peer = peers.fairseq_model(data, heads={name: 2 + i for i, name in enumerate(names)})
    for name in ("a.b", "keys", "training", "forward", "__init__", ""):
        with pytest.raises(KeyError):  # which is where we draw the line too
            peer.model.register_classification_head(name, num_classes=2)
    (tmp_path / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    peers.save_era(peer, tmp_path, era)
    ours, theirs = load_model(tmp_path).eval(), peers.hub_interface(tmp_path)
    ours.default_head, ours.inputs = "主题", {"my head": "pair"}
    ours.save(tmp_path / "again", "fairseq")
    stock = peers.hub_interface(tmp_path / "again", stock=True)
    tokens = ours.encode("Hello world!")
    with torch.no_grad():
        for name in names:
            assert_close(ours.predict(name, tokens), theirs.predict(name, tokens))
            assert_close(ours.predict(name, tokens), stock.predict(name, tokens))


def ragged(ours: RobertaHubInterface, limit: int) -> Tensor:
    long = torch.arange(4, 4 + limit) * 37 % 50000 + 4
    return collate_tokens([*ours.encode_batch(TEXTS), long], pad_idx=1)


def compare(ours: RobertaHubInterface, theirs: Any, limit: int) -> None:
    """Ids, every hidden state, logits, head outputs and fill_mask, on every real token."""
    for text in TEXTS:
        assert ours.encode(text).tolist() == theirs.encode(text).tolist()
        assert ours.encode(text, "b").tolist() == theirs.encode(text, "b").tolist()
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
    tokens = ragged(ours, limit)
    real = tokens.ne(1)
    with torch.no_grad():
        states = ours.extract_features(tokens, return_all_hiddens=True)
        expected = theirs.extract_features(tokens, return_all_hiddens=True)
        assert len(states) == len(expected)
        for state, wanted in zip(states, expected, strict=True):
            assert_close(state[real], wanted[real])
            assert not state[~real].any()
        assert_close(ours.extract_features(tokens)[real], theirs.extract_features(tokens)[real])
        assert_close(ours.model(tokens)[0][real], theirs.model(tokens)[0][real])
        masked = real & (torch.rand(tokens.shape, generator=torch.Generator().manual_seed(0)) < 0.3)
        assert_close(
            ours.model(tokens, masked_tokens=masked)[0],
            theirs.model(tokens, masked_tokens=masked)[0],
        )
        for head in ("mnli", "one"):
            assert_close(ours.predict(head, tokens), theirs.predict(head, tokens))
            assert_close(
                ours.predict(head, tokens, return_logits=True),
                theirs.predict(head, tokens, return_logits=True),
            )
    for masked_text in ("The capital of France is <mask>.", "<mask> is here", "I<mask>, too"):
        mine, wanted = ours.fill_mask(masked_text, topk=7), theirs.fill_mask(masked_text, topk=7)
        assert [row[0] for row in mine] == [row[0] for row in wanted]
        assert [row[2] for row in mine] == [row[2] for row in wanted]
        for (_, p, _), (_, q, _) in zip(mine, wanted, strict=True):
            assert p == pytest.approx(q, abs=TOLERANCE)


@pytest.mark.parametrize("era", peers.ERAS)
def test_every_era(data: Path, tmp_path: Path, era: peers.Era) -> None:
    compare(*pair(data, tmp_path, era), limit=64)


@pytest.mark.parametrize(
    "arguments",
    [
        {"arch": "roberta_prenorm"},
        {"untie_weights_roberta": True},
        {"activation_fn": "relu", "pooler_activation_fn": "relu"},
        {"activation_fn": "gelu_accurate"},
        {"pooler_dropout": 0.3, "dropout": 0.2},
        {"quant_noise_pq": 0.1},
    ],
    ids=str,
)
def test_every_architecture(data: Path, tmp_path: Path, arguments: dict[str, Any]) -> None:
    compare(*pair(data, tmp_path, **arguments), limit=64)


def test_half_precision_file_is_widened(data: Path, tmp_path: Path) -> None:
    peer = peers.fairseq_model(data, heads={"mnli": 3, "one": 1})
    (tmp_path / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    peers.save_era(peer, tmp_path, "legacy", half=True)
    ours = load_model(tmp_path).eval()
    assert next(ours.parameters()).dtype is torch.float32
    compare(ours, peers.hub_interface(tmp_path), limit=64)


def test_spectral_norm_head(data: Path, tmp_path: Path) -> None:
    """U11: fairseq cannot reload such a file itself, so the model in memory is the witness."""
    peer = peers.fairseq_model(data, heads={"mnli": 3}, spectral_norm_classification_head=True)
    peers.save_era(peer, tmp_path)
    ours = load_model(tmp_path, data_name_or_path=str(data)).eval()
    # In float64: logits are around 60, and fairseq divides by the norm anew in each forward.
    peer.model.eval().double()
    ours.double()
    tokens = ragged(ours, 64)
    with torch.no_grad():
        features = peer.model(tokens, features_only=True)[0]
        wanted = peer.model.classification_heads["mnli"](features)
        assert_close(ours.predict("mnli", tokens, return_logits=True).double(), wanted)


@pytest.mark.parametrize("keep", ["0,2", "2,0", "1"])
def test_layers_to_keep_prunes_as_fairseq_does(data: Path, tmp_path: Path, keep: str) -> None:
    peer = peers.fairseq_model(data, encoder_layers=3)
    (tmp_path / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    peers.save_era(peer, tmp_path)
    ours = load_model(tmp_path, encoder_layers_to_keep=keep).eval()
    theirs = peers.hub_interface(tmp_path, encoder_layers_to_keep=keep)
    tokens = ours.encode(TEXTS[-1])
    with torch.no_grad():
        assert_close(ours.extract_features(tokens), theirs.extract_features(tokens))


def test_a_model_built_from_kept_layers_is_not_pruned_twice(data: Path, tmp_path: Path) -> None:
    """fairseq cannot reload such a file; the model in memory is the witness."""
    peer = peers.fairseq_model(data, encoder_layers=4, encoder_layers_to_keep="0,3")
    peers.save_era(peer, tmp_path)
    ours = load_model(tmp_path, data_name_or_path=str(data)).eval()
    tokens = ours.encode(TEXTS[-1]).unsqueeze(0)
    with torch.no_grad():
        assert_close(ours.model(tokens)[0], peer.model.eval()(tokens)[0])


def test_overrides_take_effect(data: Path, tmp_path: Path) -> None:
    peers.save_era(peers.fairseq_model(data), tmp_path)
    ours = load_model(tmp_path, data_name_or_path=str(data), dropout=0.33, attention_dropout=0.2)
    assert (ours.cfg.dropout, ours.cfg.attention_dropout) == (0.33, 0.2)
    with pytest.raises(KeyError, match="dropout"):
        load_model(tmp_path, data_name_or_path=str(data), dropoutt=0.1)
    with pytest.raises(roberta_hub.RobertaHubError, match=r"max_positions.*trained with"):
        load_model(tmp_path, data_name_or_path=str(data), max_positions=99)


def test_gradients(data: Path, tmp_path: Path) -> None:
    """Every parameter's gradient, through the LM head and through a classification head."""
    ours, theirs = pair(data, tmp_path)
    tokens = ragged(ours, 64)
    real = tokens.ne(1)
    for hub in (ours, theirs):
        hub.zero_grad()
        loss = hub.model(tokens)[0][real].log_softmax(-1)[:, 7].mean()
        loss = loss + hub.predict("mnli", tokens)[:, 1].mean()
        loss.backward()
    expected = dict(theirs.model.named_parameters())
    compared = 0
    for name, parameter in ours.model.named_parameters():
        if parameter.grad is None:
            assert expected[name].grad is None, name
            continue
        compared += 1
        scale = max(1.0, float(expected[name].grad.abs().max()))
        torch.testing.assert_close(
            parameter.grad, expected[name].grad, atol=TOLERANCE * scale, rtol=1e-4, msg=name
        )
    assert compared > 40


def test_left_padding_gives_the_same_features(data: Path, tmp_path: Path) -> None:
    ours, theirs = pair(data, tmp_path)
    left = collate_tokens(ours.encode_batch(TEXTS), pad_idx=1, left_pad=True)
    with torch.no_grad():
        assert_close(
            ours.extract_features(left)[left.ne(1)], theirs.extract_features(left)[left.ne(1)]
        )


def test_model_and_interface_move_both_ways(data: Path, tmp_path: Path) -> None:
    ours, theirs = pair(data, tmp_path)
    moved = to_fairseq(ours)
    assert type(moved).__module__.startswith("fairseq.")
    back = from_fairseq(moved)
    assert isinstance(back, RobertaHubInterface)
    tokens = ragged(ours, 64)
    with torch.no_grad():
        wanted = ours.predict("mnli", tokens)
        for hub in (moved, back, from_fairseq(theirs)):
            assert not hub.training
            assert_close(hub.predict("mnli", tokens), wanted)
            assert_close(hub.model(tokens)[0][tokens.ne(1)], ours.model(tokens)[0][tokens.ne(1)])
    filled = [[row[0] for row in hub.fill_mask("a <mask>")] for hub in (moved, ours)]
    assert filled[0] == filled[1]
    model = to_fairseq(ours.model)
    again = from_fairseq(model)
    for name, tensor in ours.model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_a_real_fairseq_model_works_inside_our_interface(data: Path, tmp_path: Path) -> None:
    ours, theirs = pair(data, tmp_path)
    wrapped = RobertaHubInterface(theirs.cfg, theirs.task, theirs.model).eval()
    texts = [*TEXTS, ("a pair", "of sentences")]
    for mine, other in zip(ours.features(texts), wrapped.features(texts), strict=True):
        assert_close(mine, other)
    assert_close(
        ours.features(texts, layer=1, pooling="mean"),
        wrapped.features(texts, layer=1, pooling="mean"),
    )
    for mine, other in zip(
        ours.classify(texts, "mnli"), wrapped.classify(texts, "mnli"), strict=True
    ):
        assert mine.label == other.label
        assert mine.score == pytest.approx(other.score, abs=TOLERANCE)
    assert ours.score(texts) == pytest.approx(wrapped.score(texts), abs=1e-3)
    assert [r[0] for r in ours.fill_mask("a <mask>")] == [
        r[0] for r in wrapped.fill_mask("a <mask>")
    ]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("arch", "limit"), [("roberta_base", 512), ("roberta_large", 128)])
def test_full_sizes(data: Path, tmp_path: Path, arch: str, limit: int) -> None:
    compare(*pair(data, tmp_path, arch=arch, std=0.02, **peers.FULL), limit=limit)


def test_base_shape_in_one_layer_fewer(data: Path, tmp_path: Path) -> None:
    """roberta.base's own width, heads and 512 positions; the depth is left to make test-full."""
    full = dict(peers.FULL) | {"encoder_layers": 3}
    compare(*pair(data, tmp_path, std=0.02, **full), limit=512)


def test_weights_load_around_heads_as_theirs_do(data: Path) -> None:
    """Heads that the checkpoint lacks keep their weights, and those that the model lacks go."""
    theirs = peers.fairseq_model(data, heads={"old": 3, "size": 2}).model
    ours = from_fairseq(theirs)
    for model in (ours, theirs):
        model.register_classification_head("new", 2)
        model.register_classification_head("size", 4)
        for name in ("new", "size"):
            for tensor in model.classification_heads[name].parameters():
                torch.nn.init.constant_(tensor, 0.5)
    given = {key: tensor + 1 for key, tensor in theirs.state_dict().items() if ".new." not in key}
    for part in ("dense", "out_proj"):
        for kind in ("weight", "bias"):
            given[f"classification_heads.gone.{part}.{kind}"] = given[
                f"classification_heads.old.{part}.{kind}"
            ]
    given |= {key: given[key][:2] for key in given if ".size.out_proj" in key}
    with pytest.warns(Advice, match="head"):
        ours.load_state_dict(dict(given))
    theirs.load_state_dict(dict(given))
    wanted = theirs.state_dict()
    for key, tensor in ours.state_dict().items():
        assert torch.equal(tensor, wanted[key]), key
    assert ours.classification_heads["new"].dense.bias[0] == 0.5
    assert ours.classification_heads["size"].dense.bias[0] == 0.5
