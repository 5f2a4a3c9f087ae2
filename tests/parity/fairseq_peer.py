"""Real fairseq 0.12.2, driven by its own machinery: models with random weights, and its hub."""

from __future__ import annotations

import contextlib
import logging
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn

from roberta_hub.fairseq_bridge import import_fairseq

from .vocabularies import original_bpe, shipped_tokens, write_bpe

Era = Literal["legacy", "args", "cfg", "plain"]
ERAS: tuple[Era, ...] = ("legacy", "args", "cfg", "plain")

TINY = {
    "encoder_layers": 2,
    "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 64,
    "encoder_attention_heads": 4,
    "max_positions": 64,
}
"""What `fairseq_model` and `train` build unless told otherwise; `FULL` leaves the arch's own
sizes."""
FULL: dict[str, Any] = dict.fromkeys(TINY)
"""Pass as overrides (`**FULL`) for the arch's own sizes: roberta_base, roberta_large."""

# Fields of a 0.12.2 Namespace that no file of 2019 has.


@cache
def real_fairseq() -> ModuleType:
    """Import real fairseq, and undo the logging that it sets up on the root logger meanwhile."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        with _quiet():
            return import_fairseq()
    finally:
        logging.disable(logging.NOTSET)
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hydra 1.3 and torch 2.13 call half of what fairseq 0.12.2 does deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def fairseq_loads_its_own_files() -> Iterator[None]:
    """Let fairseq's bare `torch.load(f)` read what fairseq itself writes, in every era.

    torch ≥ 2.6 loads weights only, and stock 0.12.2 does not know: it cannot reload its own
    checkpoint. Only classes are allowed here, so a hostile file is still refused.
    """
    real_fairseq()
    from fairseq import meters
    from omegaconf import base, dictconfig, listconfig, nodes

    allowed: list[Any] = [
        Namespace,
        # era "legacy": its pickles call the meters by their old module
        *((kind, f"fairseq.meters.{kind.__name__}") for kind in _meters(meters)),
        # era "cfg": a tree of omegaconf nodes, and the types that they name
        dictconfig.DictConfig,
        listconfig.ListConfig,
        base.ContainerMetadata,
        base.Metadata,
        nodes.AnyNode,
        nodes.StringNode,
        nodes.IntegerNode,
        nodes.FloatNode,
        nodes.BooleanNode,
        Any,
        dict,
        list,
        int,
        float,
        str,
        bool,
        tuple,
        defaultdict,
    ]
    with torch.serialization.safe_globals(allowed):
        yield


def _meters(meters: ModuleType) -> tuple[type, ...]:
    return meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter


@dataclass(frozen=True)
class Peer:
    """A model of real fairseq, with what fairseq needs to save it or to train on."""

    model: Any
    """`fairseq.models.roberta.RobertaModel`, in train mode as fairseq builds it."""
    args: Namespace
    """Every command-line argument, as the parser of fairseq-train returns them."""
    cfg: Any
    """The same as fairseq's DictConfig."""
    task: Any
    data: Path
    """Folder of the dictionaries."""


def fairseq_model(
    data: Path,
    arch: str = "roberta_base",
    *,
    task: str = "masked_lm",
    heads: Mapping[str, int] | None = None,
    seed: int = 0,
    std: float = 0.1,
    **overrides: Any,
) -> Peer:
    """Build a RobertaModel through fairseq's parser, task and arch, then randomise every parameter.

    Args:
        data: A folder from `dictionary`.
        arch: roberta_base, roberta_large, roberta_prenorm, xlm.
        task: masked_lm, sentence_prediction (needs `dictionary(labels=…)` and `num_classes=`), …
        heads: Classification heads to register, name → number of classes.
        seed: Of the parameters.
        std: How far they spread around their neutral value.
        **overrides: fairseq-train's arguments by name (`untie_weights_roberta=True`,
            `encoder_layerdrop=0.2`, …) over `TINY`; `**FULL` gives the arch's own sizes.
    """
    real_fairseq()
    from fairseq import tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    args = _parse([str(data), *_flags(task=task, arch=arch, **{**TINY, **overrides})])
    with _quiet():
        cfg = convert_namespace_to_omegaconf(args)
        built = tasks.setup_task(cfg.task)
        model = built.build_model(cfg.model)
    for name, classes in (heads or {}).items():
        model.register_classification_head(name, num_classes=classes)
    randomise(model, seed, std)
    return Peer(model, args, cfg, built, data)


def randomise(model: nn.Module, seed: int = 0, std: float = 0.1) -> None:
    """Draw every parameter anew: norm weights around 1, everything else, biases too, around 0.

    Neutral initial values (zero biases, unit norms, empty padding rows) hide parameters that a
    port swaps or forgets; so would equal values in two of them, hence one stream for all.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            neutral = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(neutral + std * torch.randn(parameter.shape, generator=generator))


def _flags(**values: Any) -> list[str]:
    """`encoder_layers=2, untie_weights_roberta=True` → the words of a command line.

    None: left out.
    """
    words: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


_OPTIMIZATION = _flags(
    optimizer="adam",
    adam_betas="(0.9, 0.98)",
    adam_eps=1e-6,
    lr_scheduler="polynomial_decay",
    lr=1e-3,
    warmup_updates=1,
    total_num_update=100,
    batch_size=4,
    required_batch_size_multiple=1,
    num_workers=0,
    cpu=True,
)


def _parse(words: Sequence[str]) -> Namespace:
    from fairseq import options

    words = list(words)
    if "--criterion" not in words:
        words += ["--criterion", words[words.index("--task") + 1]]
    args: Namespace = options.parse_args_and_arch(
        options.get_training_parser(), [*_OPTIMIZATION, *words]
    )
    return args


def hub_interface(
    directory: Path,
    *,
    checkpoint: str = "model.pt",
    bpe: tuple[Path, Path] | None = None,
    stock: bool = False,
    **kwargs: Any,
) -> Any:
    """Real fairseq's `RobertaModel.from_pretrained` on a folder from `save_era` or `train`.

    Args:
        directory: With the checkpoint and its dictionaries.
        checkpoint: File name.
        bpe: encoder.json and vocab.bpe; None: GPT-2's, written from ours where the originals lack.
        stock: fairseq as it is, without `fairseq_loads_its_own_files`, and with its fast path,
            which it takes for activation_fn="relu" and which dies on today's torch.
        **kwargs: As fairseq takes them.

    Returns:
        fairseq's `RobertaHubInterface`, in eval mode.
    """
    real_fairseq()
    from fairseq.models.roberta import RobertaModel

    encoder, merges = bpe or original_bpe() or write_bpe(shipped_tokens(), directory / "bpe")
    kwargs = {"gpt2_encoder_json": str(encoder), "gpt2_vocab_bpe": str(merges), **kwargs}
    with _quiet(), contextlib.nullcontext() if stock else fairseq_loads_its_own_files():
        hub = RobertaModel.from_pretrained(str(directory), checkpoint_file=checkpoint, **kwargs)
    if not stock:
        for layer in hub.model.encoder.sentence_encoder.layers:
            layer.can_use_fastpath = False
    return hub.eval()
