"""What scripts of fairseq's do to a loaded model and its configuration, beside its verbs."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from roberta_hub import RobertaConfig, RobertaHubError, RobertaHubInterface, RobertaModel
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
