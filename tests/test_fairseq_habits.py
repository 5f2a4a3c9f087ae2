"""What scripts of fairseq's do to a loaded model and its configuration, beside its verbs."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from roberta_hub import (
    RobertaConfig,
    RobertaHubError,
    RobertaHubInterface,
    RobertaModel,
    load_model,
)
from roberta_hub.model.dropout import FairseqDropout
from roberta_hub.model.layer import STALE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.task import Task

SIZES = {"embed_dim": 32, "ffn_dim": 64, "num_layers": 2, "num_heads": 4, "max_positions": 64}


@pytest.fixture
def roberta() -> RobertaHubInterface:
    torch.manual_seed(0)
    config = RobertaConfig(**SIZES)  # type: ignore[arg-type]
    return RobertaHubInterface(config, Task(Dictionary.roberta()), RobertaModel(config)).eval()


def spread(roberta: RobertaHubInterface, draws: int = 8) -> float:
    """How far features of one text lie apart over some draws of dropout."""
    ids = roberta.encode("Hello world!")
    with torch.no_grad():
        return float(
            torch.stack([roberta.extract_features(ids) for _ in range(draws)]).std(0).max()
        )


@pytest.mark.parametrize("optimized", [False, True])
def test_dropout_of_one_module_in_a_model_that_is_in_eval_mode(
    roberta: RobertaHubInterface, optimized: bool
) -> None:
    """Monte Carlo dropout: every module of the name, or one layer's alone, on and off again."""
    if optimized:
        roberta.optimize()
    layer = roberta.model.encoder.sentence_encoder.layers[0]
    assert spread(roberta) == 0.0
    layer.dropout_module.p = 0.2
    assert spread(roberta) == 0.0 and layer.dropout == 0.2
    layer.dropout_module.train()
    assert spread(roberta) > 1e-3
    roberta.eval()
    assert spread(roberta) == 0.0
    for module in roberta.modules():
        if type(module).__name__ == "FairseqDropout":
            module.train()
    assert spread(roberta) > 1e-3
    with pytest.raises(RobertaHubError, match=r"generators; \.train\(\)"):
        layer.dropout_module.apply_during_inference = True
    layer.dropout_module.p = 0.0
    roberta.eval()
    layer.dropout_module.train()
    assert spread(roberta) == 0.0


PLACES = (
    "dropout_module",
    "layers.0.dropout_module",
    "layers.1.self_attn.dropout_module",
    "layers.1.activation_dropout_module",
)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_of_dropout_is_a_module(roberta: RobertaHubInterface, place: str) -> None:
    encoder = roberta.model.encoder.sentence_encoder
    module = encoder.get_submodule(place)
    assert isinstance(module, FairseqDropout)
    owner: nn.Module = encoder.get_submodule(place.rpartition(".")[0])
    module.p = 0.4
    module.train()
    if "self_attn" in place:  # by its own mode, as in fairseq
        assert spread(roberta) == 0.0
        owner.train()
    assert spread(roberta) > 0.0
    name = place.rpartition(".")[2].removesuffix("_module")
    assert getattr(owner, name) == 0.4  # the attribute of 0.2.0 reads and sets the same
    setattr(owner, name, 0.0)
    assert module.p == 0.0 and spread(roberta) == 0.0


def test_arguments_under_fairseqs_names(roberta: RobertaHubInterface) -> None:
    for arguments in (roberta.cfg.model, roberta.cfg["model"], roberta.args, roberta.model.args):
        assert arguments.max_positions == arguments["max_positions"] == 64
        assert arguments.get("encoder_layers") == 2 and arguments.get("nothing", 7) == 7
        assert "arch" in arguments and "nothing" not in arguments
        assert dict(arguments.items()) == vars(arguments) and list(arguments.keys())
        assert pickle.loads(pickle.dumps(arguments)) == arguments == copy.deepcopy(arguments)
    assert pickle.loads(pickle.dumps(roberta.cfg)) == roberta.cfg == copy.deepcopy(roberta.cfg)


def test_a_change_that_would_be_lost_is_refused(roberta: RobertaHubInterface) -> None:
    for arguments in (roberta.cfg.model, roberta.args, roberta.model.args):
        with pytest.raises(RobertaHubError, match=r"would change nothing.*load_model takes"):
            arguments.max_positions = 128
        with pytest.raises(RobertaHubError, match="would change nothing"):
            arguments["dropout"] = 0.3
    assert roberta.args.max_positions == 64


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("cfg.task", r"roberta\.task"),
        ("cfg['bpe']", r"roberta\.bpe"),
        ("cfg.encoder_layers", r"cfg\.model\.encoder_layers"),
        ("cfg.optimization", r"cfg\.model has"),
        ("args['encoder_layer']", "there are .*encoder_layers"),
    ],
)
def test_what_a_configuration_here_has_not(
    roberta: RobertaHubInterface, expression: str, remedy: str
) -> None:
    with pytest.raises(RobertaHubError, match=remedy):
        eval(f"roberta.{expression}", {"roberta": roberta})
    assert not hasattr(roberta.cfg, "optimization")


def test_a_state_dict_with_the_second_copy_of_each_layer(roberta: RobertaHubInterface) -> None:
    """0.12 has one, whose values training leaves as they were: they are left out."""
    state: dict[str, Tensor] = dict(roberta.state_dict())
    for number in (0, 1):
        for name in STALE:
            state[f"model.encoder.sentence_encoder.layers.{number}.{name}"] = torch.ones(3)
    before = dict(state)
    roberta.load_state_dict(state)
    assert state == before and set(roberta.state_dict()) == {
        k for k in state if "_weight" not in k and "_bias" not in k
    }
    state["model.encoder.sentence_encoder.layers.0.other_weight"] = torch.ones(3)
    with pytest.raises(RuntimeError, match="other_weight"):
        roberta.load_state_dict(state)


# ---- engines of a script's own ----


class Letters:
    """An engine with fairseq's methods alone."""

    def encode(self, x: str) -> str:
        return " ".join(x.replace(" ", "_"))

    def decode(self, x: str) -> str:
        return x.replace(" ", "").replace("_", " ")


def lettered() -> RobertaHubInterface:
    letters = Dictionary()
    for letter in "_abcdef":
        letters.add_symbol(letter)
    letters.add_symbol("<mask>")
    config = RobertaConfig(**SIZES, vocab_size=len(letters))  # type: ignore[arg-type]
    return RobertaHubInterface(config, Task(letters), RobertaModel(config)).eval()


def test_an_engine_that_takes_the_place_of_the_bpe() -> None:
    roberta = lettered()
    before = roberta.bpe
    with pytest.raises(RobertaHubError, match="units such as _, a, b"):
        roberta.encode("a bad cafe")
    roberta.bpe = Letters()
    ids = roberta.encode("a bad z", "cafe")
    assert ids.tolist() == [0, 5, 4, 6, 5, 8, 4, 3, 2, 2, 7, 5, 10, 9, 2]
    assert roberta.decode(roberta.encode("a bad cafe")) == "a bad cafe"
    assert roberta.decode(ids) == ["a bad <unk>", "cafe"]
    assert isinstance(pickle.loads(pickle.dumps(roberta)).bpe, Letters)
    assert torch.equal(roberta.extract_features(ids), copy.deepcopy(roberta).extract_features(ids))
    assert len(roberta.embed(["a bad cafe", "dad"])) == 2
    with pytest.raises(RobertaHubError, match="Letters does not say which characters"):
        roberta.offsets("a bad cafe")
    roberta.bpe = before
    with pytest.raises(RobertaHubError, match="units such as"):
        roberta.encode("a")


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (None, r"roberta\.bpe is a NoneType without encode\(\)"),
        ({"a": 1}, r"roberta\.bpe is a dict without encode\(\)"),
        (type("Ids", (), {"encode": lambda self, x: [1, 2]})(), r"Ids\.encode gives a list"),
    ],
)
def test_an_engine_that_is_none(engine: object, said: str) -> None:
    roberta = lettered()
    roberta.bpe = engine
    with pytest.raises(RobertaHubError, match=said):
        roberta.encode("a bad cafe")


def test_a_model_with_an_engine_of_ones_own_is_not_saved(
    roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    before, roberta.bpe = roberta.bpe, Letters()
    for form in ("roberta_hub", "fairseq", "huggingface"):
        with pytest.raises(RobertaHubError, match="Letters of your own"):
            roberta.save(tmp_path / form, form)
        assert not (tmp_path / form).exists()
    roberta.bpe = before
    roberta.save(tmp_path / "kept")


def test_a_model_of_units_is_saved_and_read(tmp_path: Path) -> None:
    roberta = lettered()
    ids = torch.tensor([0, 5, 8, 2])
    for form in ("roberta_hub", "fairseq"):
        roberta.save(tmp_path / form, form)
        again = load_model(tmp_path / form).eval()
        assert again.task.source_dictionary.index("c") == 7 == again.task.dictionary.index("c")
        assert torch.equal(again.extract_features(ids), roberta.extract_features(ids))
        with pytest.raises(RobertaHubError, match="units such as _, a, b"):
            again.encode("a")


# ---- hooks ----


def test_hooks_see_fairseqs_shapes_and_may_change_them(roberta: RobertaHubInterface) -> None:
    """Layers get (T, B, C), as there; without hooks rows are packed."""
    batch = torch.tensor([[0, 9, 10, 11, 2], [0, 9, 2, 1, 1]])
    encoder = roberta.model.encoder.sentence_encoder
    features, logits = roberta.extract_features(batch), roberta.model(batch)[0]
    shapes: dict[str, object] = {}

    def look(name: str) -> object:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            shapes[name] = (
                tuple(output.shape) if isinstance(output, Tensor) else sorted(output)[:1]  # type: ignore[call-overload]
            )

        return hook

    watched = {
        "embed_tokens": (2, 5, 32),
        "layernorm_embedding": (2, 5, 32),
        "layers.0": (5, 2, 32),
        "layers.1.fc1": (5, 2, 64),
        "layers.1.final_layer_norm": (5, 2, 32),
        "layers.0.self_attn": (5, 2, 32),
    }
    handles = [
        encoder.get_submodule(name).register_forward_hook(look(name))  # type: ignore[arg-type]
        for name in watched
    ]
    assert torch.allclose(roberta.extract_features(batch), features, atol=1e-6)
    assert shapes == watched
    handles.append(encoder.register_forward_hook(look("encoder")))  # type: ignore[arg-type]
    head = roberta.model.encoder.lm_head
    assert head is not None
    handles.append(head.register_forward_hook(look("head")))  # type: ignore[arg-type]
    assert torch.allclose(roberta.model(batch)[0], logits, atol=1e-5)
    assert shapes["encoder"] == ["encoder_embedding"] and shapes["head"] == (2, 5, 50265)
    masked = batch.eq(10)
    assert torch.allclose(roberta.model(batch, masked_tokens=masked)[0], logits[masked], atol=1e-5)
    for handle in handles:
        handle.remove()

    def silence(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        return output * 0

    handle = encoder.layers[1].final_layer_norm.register_forward_hook(silence)
    assert not roberta.extract_features(batch).any()
    handle.remove()
    assert torch.equal(roberta.extract_features(batch), features)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_gradients_where_a_layer_has_a_hook(roberta: RobertaHubInterface, mode: str) -> None:
    roberta.train(mode == "train")
    for module in roberta.modules():
        if isinstance(module, FairseqDropout):
            module.p = 0.0
    batch = torch.tensor([[0, 9, 10, 11, 2], [0, 9, 2, 1, 1]])
    encoder = roberta.model.encoder.sentence_encoder

    def gradients() -> list[Tensor]:
        roberta.zero_grad()
        roberta.model(batch)[0].logsumexp(-1)[batch.ne(1)].sum().backward()
        return [p.grad.clone() for p in encoder.parameters() if p.grad is not None]

    plain = gradients()
    encoder.layers[0].register_forward_hook(lambda *seen: None)
    for one, other in zip(plain, gradients(), strict=True):
        assert torch.allclose(one, other, atol=2e-5)


def test_a_symbol_that_is_added_to_the_dictionary_changes_no_answer(
    roberta: RobertaHubInterface,
) -> None:
    before = roberta.fill_mask("a <mask>.", topk=3)
    for number in range(3):  # the first before anything is asked of the vocabulary again
        roberta.task.source_dictionary.add_symbol(f"zz{number}")
        assert roberta.fill_mask("a <mask>.", topk=3) == before
    fresh = RobertaHubInterface(roberta.cfg, Task(Dictionary.roberta()), roberta.model).eval()
    fresh.task.source_dictionary.add_symbol("zz")
    assert fresh.fill_mask("a <mask>.", topk=3) == before
    assert len(fresh.tokenizer) == 50265 and len(fresh.task.source_dictionary) == 50266
