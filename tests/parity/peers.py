"""Real fairseq 0.12.2 and real transformers, making small seeded things for the parity tests.

Nothing here is roberta_hub's: each function drives a peer through the peer's own machinery, so
that a test has something to compare with. Sizes are tiny unless a test asks for more.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import warnings
from argparse import Namespace
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from roberta_hub.fairseq_bridge import import_fairseq
from roberta_hub.text.vocabulary import shipped_tables

needs_fairseq = pytest.mark.skipif(
    importlib.util.find_spec("fairseq") is None, reason="pip install --no-deps fairseq==0.12.2"
)
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="pip install transformers"
)

Era = Literal["legacy", "args", "cfg", "plain"]
ERAS: tuple[Era, ...] = ("legacy", "args", "cfg", "plain")

TINY = {
    "encoder_layers": 2,
    "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 64,
    "encoder_attention_heads": 4,
    "max_positions": 64,
}
"""What `fairseq_model` and `train` build unless told otherwise; `FULL` leaves the arch's own sizes."""
FULL: dict[str, Any] = dict.fromkeys(TINY)
"""Pass as overrides (`**FULL`) for the arch's own sizes: roberta_base, roberta_large."""

# Fields of a 0.12.2 Namespace that no file of 2019 has.
_LATER_THAN_2019 = {
    "adaptive_input",
    "ema_decay",
    "encoder_layerdrop",
    "encoder_layers_to_keep",
    "encoder_learned_pos",
    "ffn_blocks_to_remove",
    "ffn_reg_scale_factor",
    "layernorm_embedding",
    "load_checkpoint_heads",
    "max_source_positions",
    "mha_heads_to_keep",
    "mha_reg_scale_factor",
    "min_params_to_wrap",
    "no_scale_embedding",
    "no_token_positional_embeddings",
    "quant_noise_pq",
    "quant_noise_pq_block_size",
    "quant_noise_scalar",
    "spectral_norm_classification_head",
    "stop_min_lr",
    "untie_weights_roberta",
}


# --- real fairseq, quietly -----------------------------------------------------------------------


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
        *(dictconfig.DictConfig, listconfig.ListConfig, base.ContainerMetadata, base.Metadata),
        *(nodes.AnyNode, nodes.StringNode, nodes.IntegerNode, nodes.FloatNode, nodes.BooleanNode),
        *(Any, dict, list, int, float, str, bool, tuple, defaultdict),
    ]
    with torch.serialization.safe_globals(allowed):
        yield


def _meters(meters: ModuleType) -> tuple[type, ...]:
    return meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter


# --- vocabularies --------------------------------------------------------------------------------


def dictionary(
    directory: Path, symbols: int | Sequence[str] | None = None, labels: Sequence[str] = ()
) -> Path:
    """Write `dict.txt` as fairseq's preprocessing writes it, `<mask>` left to the task.

    Args:
        directory: Made if missing.
        symbols: The symbols in order; or a number N for '0'..str(N-1); or None for the 50,257 ids
            of GPT-2 in RoBERTa's order. Padded with madeupwords so that the table with its 4 specials is a multiple
            of 8 long, as fairseq pads it.
        labels: Also write `label/dict.txt` with these names and `input0/dict.txt`, the layout of
            a sentence_prediction task.

    Returns:
        `directory`, ready to be a fairseq task's `data`.
    """
    if symbols is None:
        symbols = [str(number) for number in shipped_tables().order]
    names = [str(i) for i in range(symbols)] if isinstance(symbols, int) else list(symbols)
    _write_dictionary(directory / "dict.txt", names)
    if labels:
        _write_dictionary(directory / "input0" / "dict.txt", names)
        _write_dictionary(directory / "label" / "dict.txt", list(labels))
    return directory


def _write_dictionary(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fillers = [f"madeupword{i:04d}" for i in range(-(len(names) + 4) % 8)]
    lines = [f"{name} {len(names) - i}" for i, name in enumerate(names)]
    lines += [f"{name} 0" for name in fillers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def toy_tokens() -> list[bytes]:
    """A small byte-level BPE table in GPT-2's id order: the 256 bytes, then merges."""
    pieces = (
        b" t|he| a| the|in|re|on| w|or|er| s|nd| an| and| o|ll|el|ell|ello|Hello|ld| wor| world"
    )
    tokens = [bytes([b]) for b in _byte_order()]
    return tokens + pieces.split(b"|")


def shipped_tokens() -> list[bytes]:
    """GPT-2's 50,256 tokens in id order, from the vocabulary that roberta_hub ships."""
    tokens = [bytes([byte]) for byte in _byte_order()]
    for left, right in shipped_tables().merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def write_bpe(tokens: Sequence[bytes], directory: Path) -> tuple[Path, Path]:
    """Write `encoder.json` and `vocab.bpe`, the two files of GPT-2's BPE.

    Args:
        tokens: The bytes of each token in GPT-2's id order without `<|endoftext|>`: first the 256
            single bytes, and token 256 + k is what merge k makes.
        directory: Made if missing.

    Returns:
        The paths of the two files.
    """
    rank = {token: i for i, token in enumerate(tokens)}
    letters = _byte_letters()

    def readable(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    def halves(token: bytes) -> tuple[bytes, bytes]:
        # Merging with every earlier merge must leave two parts, the pair of this token's merge.
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            ranks = [rank.get(a + b, len(rank)) for a, b in pairwise(parts)]
            i = ranks.index(min(ranks))
            if ranks[i] >= rank[token]:
                raise ValueError(f"{token!r} is no merge of two earlier tokens")
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return parts[0], parts[1]

    directory.mkdir(parents=True, exist_ok=True)
    encoder, merges = directory / "encoder.json", directory / "vocab.bpe"
    ids = {readable(token): i for i, token in enumerate(tokens)} | {"<|endoftext|>": len(tokens)}
    encoder.write_text(json.dumps(ids), encoding="utf-8")
    pairs = (" ".join(map(readable, halves(token))) for token in tokens[256:])
    merges.write_text("\n".join(["#version: 0.2", *pairs]) + "\n", encoding="utf-8")
    return encoder, merges


def _byte_order() -> list[int]:
    """Bytes in GPT-2's id order: those that print, then the others."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return prints + sorted(set(range(256)) - set(prints))


def _byte_letters() -> dict[int, str]:
    """GPT-2's letter for each byte: itself where it prints, else the next one from U+0100 on."""
    order = _byte_order()
    return {byte: chr(byte) if i < 188 else chr(0x100 + i - 188) for i, byte in enumerate(order)}


def original_bpe() -> tuple[Path, Path] | None:
    """Where GPT-2's own `encoder.json` and `vocab.bpe` lie: `$ROBERTA_HUB_SHARED`, `../shared`."""
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    folder = Path(os.environ.get("ROBERTA_HUB_SHARED", beside)) / "vocab"
    files = folder / "encoder.json", folder / "vocab.bpe"
    return files if all(file.is_file() for file in files) else None


# --- models --------------------------------------------------------------------------------------


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
    """`encoder_layers=2, untie_weights_roberta=True` → the words of a command line; None: left out."""
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


# --- checkpoints of every era --------------------------------------------------------------------


def save_era(
    peer: Peer,
    directory: Path,
    era: Era = "plain",
    *,
    half: bool = False,
    name: str = "model.pt",
    **args: Any,
) -> Path:
    """Save as fairseq of an era did, dictionaries beside it.

    Args:
        peer: From `fairseq_model`.
        directory: Made if missing.
        era: "legacy" (≤ 0.9, as the published files): not a zip, `args`, fused in_proj, keys
            `decoder.` and `emb_layer_norm`, pickled meters. "args" (0.10): zip, `args`,
            `emb_layer_norm`. "cfg" (main, 2020-10 to 2021-03): a pickled DictConfig. "plain"
            (0.12): what `Trainer.state_dict` returns.
        half: Cast the weights to float16, as the published files have them.
        name: Of the file.
        **args: Values to put over the saved arguments.

    Returns:
        The path of the checkpoint.
    """
    from fairseq.dataclass.utils import omegaconf_no_object_check

    prenorm = peer.args.encoder_normalize_before
    if prenorm and era in ("legacy", "args"):
        raise ValueError(f"there was no pre-norm RoBERTa in the era {era!r}")
    state = _trainer_state(peer)
    weights = state["model"]
    if era != "plain":
        weights = _without_copies(weights)
    if era in ("legacy", "args") or (era == "cfg" and not prenorm):
        weights = _renamed(weights, {"layernorm_embedding": "emb_layer_norm"})
        weights = OrderedDict((k, v) for k, v in weights.items() if not k.endswith(".version"))
    if era == "legacy":
        weights = _renamed(_fused(weights), {"encoder.": "decoder."})
    if half:
        weights = OrderedDict((key, value.half()) for key, value in weights.items())
    state["model"] = weights

    if era == "plain":
        model = Namespace(**{**vars(peer.cfg.model), **args})
        state["cfg"] = {**state["cfg"], "model": model}
    elif era == "cfg":
        state["cfg"] = copy.deepcopy(peer.cfg)
        with omegaconf_no_object_check():  # as fairseq puts a Namespace into a DictConfig
            state["cfg"].model = Namespace(**{**vars(peer.cfg.model), **args})
    else:
        del state["cfg"], state["criterion"], state["task_state"]
        fields = dict(vars(peer.args))
        if era == "legacy":
            fields = {key: value for key, value in fields.items() if key not in _LATER_THAN_2019}
            fields |= {"min_lr": -1, "raw_text": False, "lazy_load": False}
        state["args"] = Namespace(**{**fields, **args})

    directory.mkdir(parents=True, exist_ok=True)
    for file in ("dict.txt", "input0/dict.txt", "label/dict.txt"):
        source, target = peer.data / file, directory / file
        if source.is_file() and not (target.exists() and target.samefile(source)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    if era == "legacy":
        _save_2019(state, directory / name)
    else:
        torch.save(state, directory / name)
    return directory / name


def _trainer_state(peer: Peer) -> dict[str, Any]:
    """What fairseq 0.12.2's trainer would save now, the iterator's part of it included."""
    from fairseq import utils
    from fairseq.trainer import Trainer

    with _quiet():
        criterion = peer.task.build_criterion(peer.cfg.criterion)
        trainer = Trainer(peer.cfg, peer.task, peer.model, criterion)
        trainer.consolidate_optimizer()  # sets an attribute that state_dict() reads
        state: dict[str, Any] = utils.move_to_cpu(trainer.state_dict())
    iterator = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
    state["extra_state"].update(train_iterator=iterator, val_loss=None)
    return state


def _without_copies(weights: Mapping[str, Tensor]) -> OrderedDict[str, Tensor]:
    """Leave out the 8 BetterTransformer copies per layer, which came with 0.12."""
    copies = ("in_proj", "out_proj", "fc1", "fc2")
    endings = tuple(f".{copy}_{kind}" for copy in copies for kind in ("weight", "bias"))
    return OrderedDict((k, v) for k, v in weights.items() if not k.endswith(endings))


def _fused(weights: Mapping[str, Tensor]) -> OrderedDict[str, Tensor]:
    """`q_proj`, `k_proj`, `v_proj` as one `in_proj_weight` and one `in_proj_bias`, in that order."""
    fused: OrderedDict[str, Tensor] = OrderedDict()
    for key, value in weights.items():
        stem, _, kind = key.rpartition(".")
        if stem.endswith("q_proj"):
            parts = [weights[f"{stem[:-6]}{letter}_proj.{kind}"] for letter in "qkv"]
            fused[f"{stem[:-6]}in_proj_{kind}"] = torch.cat(parts)
        elif not stem.endswith(("k_proj", "v_proj")):
            fused[key] = value
    return fused


def _renamed(weights: Mapping[str, Tensor], names: Mapping[str, str]) -> OrderedDict[str, Tensor]:
    renamed: OrderedDict[str, Tensor] = OrderedDict()
    for key, value in weights.items():
        for new, old in names.items():
            key = key.replace(new, old, 1)
        renamed[key] = value
    return renamed


def _save_2019(state: dict[str, Any], path: Path) -> None:
    """Save in the old file format, with the meters that a trainer of 2019 pickled whole."""
    from fairseq import meters

    average, time, stopwatch = kinds = _meters(meters)
    made: OrderedDict[str, Any] = OrderedDict(
        train_loss=_object(average, val=2.5, avg=2.75, sum=275.0, count=100),
        wps=_object(time, init=0, start=1.5, n=1000),
        train_wall=_object(stopwatch, sum=12.5, n=100, start_time=None),
    )
    state["extra_state"].pop("metrics", None)
    state["extra_state"]["train_meters"] = made
    homes = [kind.__module__ for kind in kinds]
    try:
        for kind in kinds:  # moved to fairseq.logging.meters in 2020
            kind.__module__ = "fairseq.meters"
        torch.save(state, path, _use_new_zipfile_serialization=False)
    finally:
        for kind, home in zip(kinds, homes, strict=True):
            kind.__module__ = home


def _object(kind: type, **attributes: Any) -> Any:
    """An object of a class whose attributes have changed since."""
    made: Any = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


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


# --- training ------------------------------------------------------------------------------------

_SYMBOLS = 60
_LABELS = ("neg", "pos")


def train(directory: Path, task: str = "masked_lm", updates: int = 6, **overrides: Any) -> Path:
    """Train a tiny model for a few steps: fairseq-preprocess, then fairseq-train, in a process.

    Args:
        directory: Gets the toy text, the binarised data, the dictionaries and the checkpoint.
        task: masked_lm or sentence_prediction (two classes, "neg" and "pos", head
            `sentence_classification_head`).
        updates: Steps of 4 sentences.
        **overrides: fairseq-train's arguments by name, as for `fairseq_model`.

    Returns:
        `directory`: `checkpoint_last.pt`, `dict.txt`; for sentence_prediction also
        `input0/dict.txt` and `label/dict.txt`.
    """
    classify = task == "sentence_prediction"
    dictionary(directory, _SYMBOLS)
    commands = _preprocessing(directory, classify)
    arguments = _training(directory, directory, task, updates, overrides)
    _run([*commands, ["train", arguments]])
    return directory


def continue_training(
    checkpoint: Path,
    data: Path,
    task: str = "masked_lm",
    updates: int = 4,
    *,
    reset: bool = True,
    stock: bool = False,
    **overrides: Any,
) -> list[float]:
    """Let real fairseq train on from a checkpoint, `fairseq-train --restore-file`.

    Args:
        checkpoint: Any .pt; its architecture must be what `overrides` say (default: `TINY`).
        data: A folder from `train` of the same task.
        task: Of the new run.
        updates: `--max-update`; with `reset=False` the steps in the checkpoint's own optimizer
            state count.
        reset: Start optimizer, schedule, meters and data anew; False: take them from the file.
        stock: fairseq as it is, without `fairseq_loads_its_own_files`.
        **overrides: fairseq-train's arguments by name.

    Returns:
        The loss of each step, in fairseq's bits.
    """
    resets = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
    overrides = {"restore_file": checkpoint, **dict.fromkeys(resets, reset), **overrides}
    out = checkpoint.parent / f"{checkpoint.stem}_continued"
    log = _run([["train", _training(data, out, task, updates, overrides)]], stock=stock)
    steps = (line.split(" | train_inner | ") for line in log.splitlines())
    return [float(json.loads(step[1])["loss"]) for step in steps if len(step) == 2]


def _preprocessing(directory: Path, classify: bool) -> list[list[Any]]:
    """Write toy text, ids as words, and the commands that binarise it."""
    rng = random.Random(0)
    (directory / "text").mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 48), ("valid", 8)):
        labels = [rng.choice(_LABELS) for _ in range(count)]
        lines = []
        for label in labels:  # a class is the half of the vocabulary that its sentences favour
            start = _LABELS.index(label) * _SYMBOLS // 4
            words = [start + rng.randrange(_SYMBOLS * 3 // 4) for _ in range(rng.randint(5, 20))]
            lines.append(" ".join(map(str, words)))
        (directory / "text" / f"{split}.input0").write_text("\n".join(lines) + "\n")
        (directory / "text" / f"{split}.label").write_text("\n".join(labels) + "\n")

    def command(column: str, destination: Path, srcdict: Path | None) -> list[Any]:
        text = {part: directory / "text" / f"{part}.{column}" for part in ("train", "valid")}
        flags = _flags(
            only_source=True,
            trainpref=text["train"],
            validpref=text["valid"],
            destdir=destination,
            srcdict=srcdict,
            workers=1,
        )
        return ["preprocess", flags]

    shared = directory / "dict.txt"
    if not classify:
        return [command("input0", directory, shared)]
    return [
        command("input0", directory / "input0", shared),
        command("label", directory / "label", None),
    ]


def _training(
    data: Path, out: Path, task: str, updates: int, overrides: Mapping[str, Any]
) -> list[str]:
    flags: dict[str, Any] = {
        "task": task,
        "criterion": task,
        "arch": "roberta_base",
        "save_dir": out,
        "max_update": updates,
        "no_epoch_checkpoints": True,
        "log_format": "json",
        "log_interval": 1,
        "seed": 1,
    }
    if task == "sentence_prediction":
        flags |= {"num_classes": len(_LABELS), "init_token": 0, "separator_token": 2}
    if task == "masked_lm":
        flags |= {"tokens_per_sample": TINY["max_positions"], "sample_break_mode": "complete"}
    return [str(data), *_OPTIMIZATION, *_flags(**{**flags, **TINY, **overrides})]


def _run(commands: Sequence[Any], *, stock: bool = False) -> str:
    """Run commands of fairseq; their output, or a RuntimeError with the end of it."""
    here = Path(__file__).resolve().parent
    root = here.parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), str(here)]),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "PEERS_STOCK": "1" if stock else "",
    }
    done = subprocess.run(
        [sys.executable, str(here / "train_fairseq.py"), json.dumps(commands)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    output = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"real fairseq exited with {done.returncode}:\n{output[-4000:]}")
    return output


# --- transformers --------------------------------------------------------------------------------


def hf_model(
    kind: Literal["mlm", "cls"] = "mlm", *, seed: int = 0, std: float = 0.1, **config: Any
) -> Any:
    """A real RobertaForMaskedLM or RobertaForSequenceClassification, every parameter randomised.

    Args:
        kind: "mlm" or "cls".
        seed: Of the parameters.
        std: How far they spread around their neutral value.
        **config: transformers' RobertaConfig by name over the tiny sizes (`num_labels=3`, …).

    Returns:
        The model in eval mode; `save_hf` writes it.
    """
    # transformers imports torchaudio where it finds one, and dies with a torchaudio built for
    # another torch (an OSError about libc10_cuda.so); nothing here needs it.
    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]
    import transformers

    sizes = {
        "vocab_size": _SYMBOLS + 5,
        "hidden_size": TINY["encoder_embed_dim"],
        "intermediate_size": TINY["encoder_ffn_embed_dim"],
        "num_hidden_layers": TINY["encoder_layers"],
        "num_attention_heads": TINY["encoder_attention_heads"],
        "max_position_embeddings": TINY["max_positions"] + 2,
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
    }
    classes = {
        "mlm": transformers.RobertaForMaskedLM,
        "cls": transformers.RobertaForSequenceClassification,
    }
    model: Any = classes[kind](transformers.RobertaConfig(**{**sizes, **config}))
    randomise(model, seed, std)
    return model.eval()


def save_hf(
    model: Any, directory: Path, weights: Literal["safetensors", "bin"] = "safetensors"
) -> Path:
    """Save a transformers model: `config.json` and `model.safetensors` or `pytorch_model.bin`.

    transformers 5 no longer writes the `.bin`, so that one is `torch.save`d as version 4 did.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if weights == "safetensors":
        model.save_pretrained(directory)
    else:
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(directory)
        torch.save(model.state_dict(), directory / "pytorch_model.bin")
    return directory
