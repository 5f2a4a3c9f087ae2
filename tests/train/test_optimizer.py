"""fairseq's learning rates, number for number, and who decays."""

import pytest
import torch
from toy import Toy

from roberta_hub.errors import InputError
from roberta_hub.train.loop.optimizer import (
    gradient_norm,
    learning_rate,
    make_optimizer,
    parameter_groups,
    set_learning_rate,
)


class Rate:
    """What fairseq's schedulers ask of an optimizer."""

    def set_lr(self, lr):
        self.lr = lr

    def get_lr(self):
        return self.lr


def fairseq_rates(kind, count, **options):
    from parity.fairseq_peer import real_fairseq

    real_fairseq()
    from argparse import Namespace

    from fairseq.optim import FairseqOptimizer
    from fairseq.optim.lr_scheduler import fixed_schedule, polynomial_decay_schedule

    class Optimizer(Rate, FairseqOptimizer):
        def __init__(self):
            pass

    module = {
        "polynomial_decay": polynomial_decay_schedule.PolynomialDecayLRSchedule,
        "fixed": fixed_schedule.FixedLRSchedule,
    }[kind]
    optimizer = Optimizer()
    scheduler = module(Namespace(force_anneal=None, lr_shrink=0.1, **options), optimizer)
    if kind == "fixed":
        scheduler.step_begin_epoch(1)  # the trainer's first call
    rates = []
    for done in range(count):
        scheduler.step_update(done)
        rates.append(optimizer.get_lr())
    return rates


@pytest.mark.parametrize(
    ("warmup", "total", "end", "power"),
    [(10, 60, 0.0, 1.0), (0, 50, 0.0, 1.0), (7, 40, 1e-6, 2.0), (1, 30, 1e-5, 0.5)],
)
def test_polynomial_decay_is_fairseqs(warmup, total, end, power):
    theirs = fairseq_rates(
        "polynomial_decay",
        70,
        lr=[3e-4],
        warmup_updates=warmup,
        total_num_update=total,
        end_learning_rate=end,
        power=power,
    )
    ours = [
        learning_rate(n, peak=3e-4, warmup=warmup, total=total, end=end, power=power)
        for n in range(70)
    ]
    assert ours == theirs


@pytest.mark.parametrize("warmup", [0, 5])
def test_fixed_is_fairseqs(warmup):
    theirs = fairseq_rates("fixed", 20, lr=[1e-5], warmup_updates=warmup)
    ours = [learning_rate(n, peak=1e-5, schedule="fixed", warmup=warmup) for n in range(20)]
    assert ours == pytest.approx(theirs, rel=1e-15)


def test_biases_and_norms_are_spared():
    module = Toy(0.0)
    groups = parameter_groups(module, weight_decay=0.1)
    decays = {name: group["weight_decay"] for group in groups for name in group["names"]}
    for name, decay in decays.items():
        spared = name.endswith("bias") or "norm" in name
        assert decay == (0.0 if spared else 0.1), name
    assert set(decays) == {name for name, _ in module.named_parameters()}  # tied ones once


def test_fairseq_decays_everything():
    (group,) = parameter_groups(Toy(0.0), weight_decay=0.1, decay="fairseq")
    assert group["weight_decay"] == 0.1


def test_layers_have_their_own_rates():
    module = Toy(0.0)
    optimizer = make_optimizer(module, lr=1.0, layer_decay=0.5)
    set_learning_rate(optimizer, 8.0)
    rates = {name: g["lr"] for g in optimizer.param_groups for name in g["names"]}
    encoder = "roberta.encoder.sentence_encoder"
    assert rates["roberta.classification_heads.toy.dense.weight"] == 8
    assert rates[f"{encoder}.layers.1.fc1.weight"] == 4
    assert rates[f"{encoder}.layers.0.fc1.bias"] == 2
    assert rates[f"{encoder}.embed_tokens.weight"] == 1


def test_steps_are_fairseqs_adam():
    """With eps 0 the two are the same formula."""
    from parity.fairseq_peer import real_fairseq

    real_fairseq()
    from fairseq.optim.adam import Adam

    torch.manual_seed(0)
    mine, theirs = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    theirs.load_state_dict(mine.state_dict())
    options = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 0.0, "weight_decay": 0.1}
    ours = make_optimizer(mine, decay="fairseq", **options)
    peer = Adam(theirs.parameters(), **options)
    for _ in range(20):
        x = torch.randn(4, 5)
        for module, optimizer in ((mine, ours), (theirs, peer)):
            optimizer.zero_grad()
            module(x).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(mine.weight, theirs.weight, atol=2e-6, rtol=0)


def test_errors_and_norm():
    with pytest.raises(InputError, match=r"optimizer\.decay is 'all'"):
        parameter_groups(Toy(0.0), weight_decay=0.1, decay="all")
    with pytest.raises(InputError, match="no schedule 'cosine'"):
        learning_rate(1, peak=1.0, schedule="cosine")
    frozen = Toy(0.0).requires_grad_(False)
    with pytest.raises(InputError, match="requires a gradient"):
        make_optimizer(frozen, lr=1.0)
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    assert gradient_norm([parameter]).item() == 5.0
