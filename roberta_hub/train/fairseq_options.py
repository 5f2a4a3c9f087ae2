"""Translates a command of fairseq-train or fairseq-hydra-train into our settings.

Each option is in `OPTIONS` once: what it becomes, or why it is without effect, or what to do where
it is not supported. An option that is not there is refused by name.
docs/reference/fairseq_options.md shows the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, MissingExtraError, UnknownNameError, close_names
from roberta_hub.extras import install
from roberta_hub.train.fairseq_program import is_hydra, split_program
from roberta_hub.train.limits import check_references

NO_SIZE = "no size of a batch; give --batch-size (--max-sentences) or --max-tokens"
PRETRAINED = (
    "begin with pretrained weights by restore=false (of a command of fairseq's --reset-optimizer) "
    "and a model.pt that is there"
)
"""What a file to restore that is missing was meant for."""
Settings = dict[str, Any]
Given = Mapping[str, Any]
"""Options that a command gives, by fairseq's names."""
YAML_LIMIT = 100_000
"""Bytes of a recipe; fairseq's largest has 2,000."""


@dataclass(frozen=True)
class Option:
    """What becomes of one option."""

    becomes: str
    """For the table: a setting, or a sentence."""
    kind: type = str
    """fairseq's type of it: str, int, float, or list, of numbers; of a flag bool."""
    setting: str | None = None
    """The setting that takes the value as it is."""
    allowed: tuple[Any, ...] | None = None
    """Values that change nothing here; another one is refused with `becomes` as the remedy."""
    early: bool = False
    """Whether `_basics` reads it, together with others."""

    @property
    def flag(self) -> bool:
        """Whether it stands alone on a command line."""
        return self.kind is bool


def _to(setting: str, kind: type = str) -> Option:
    return Option(f"`{setting}`", kind, setting)


def _nothing(why: str, kind: type = str) -> Option:
    return Option(f"without effect: {why}", kind)


def _only(*allowed: Any, remedy: str, kind: type = str) -> Option:
    return Option(remedy, kind, allowed=allowed)


def _read(becomes: str, kind: type = str) -> Option:
    return Option(becomes, kind, early=True)


_KEPT = "the best model, the last one and the newest state are kept"
_SCALE = "torch chooses the scale of the loss"
_LOADER = "batches are made in the process that trains"
_PROCESSES = "torchrun starts the processes"
OPTIONS: dict[str, Option] = {
    # task and data
    "data": _read("`data.train`, and `data.valid` where the folder has that split"),
    "task": _read("`task.name`"),
    "criterion": _read("the task's own loss; another one is refused"),
    "train_subset": _read("the split of `data.train`"),
    "valid_subset": _read("the split of `data.valid`"),
    "sample_break_mode": _to("task.options.sentences"),
    "tokens_per_sample": _to("task.options.block_size", int),
    "mask_prob": _to("task.options.mask_prob", float),
    "leave_unmasked_prob": _to("task.options.leave_prob", float),
    "random_token_prob": _to("task.options.random_prob", float),
    "mask_whole_words": _read("`task.options.unit=word`; else `unit=fairseq`", bool),
    "freq_weighted_replacement": _only(
        False, remedy="tokens are drawn evenly; leave it out", kind=bool
    ),
    "mask_multiple_length": _only(1, remedy="task.options.unit=span masks runs of words", kind=int),
    "mask_stdev": _only(0, remedy="task.options.unit=span masks runs of words", kind=float),
    "shorten_method": _read("`task.options.truncate=true` for truncate; random_crop is refused"),
    "shorten_data_split_list": _only("", remedy="leave it out: all splits are cut alike"),
    "num_classes": _nothing("the labels of the folder say it"),
    "init_token": _read("0 is `<s>`, which is always there; of wsc `task.options.init_token`", int),
    "separator_token": _only(
        2, remedy="give 2, `</s>`, with which pairs are joined here", kind=int
    ),
    "no_shuffle": _only(False, remedy="leave it out: the order is random here", kind=bool),
    "max_positions": _read(
        "`task.options.max_length`; of new weights `architecture.max_positions`", int
    ),
    "max_option_length": _to("task.options.max_option_length", int),
    "classification_head_name": _to("task.head"),
    "ranking_head_name": _to("task.head"),
    "regression_target": _read("`task.name=regression`", bool),
    "wsc_cross_entropy": _to("task.options.cross_entropy", bool),
    "wsc_margin_alpha": _to("task.options.margin_alpha", float),
    "wsc_margin_beta": _to("task.options.margin_beta", float),
    "bpe": _nothing("the model has its tokenizer"),
    "user_dir": _nothing("wsc, winogrande and commonsense_qa are here; other tasks are refused"),
    # model
    "arch": _read(
        "`model=roberta.base` or `roberta.large` with `pretrained=false`, unless a file is restored"
    ),
    "dropout": _to("architecture.dropout", float),
    "attention_dropout": _to("architecture.attention_dropout", float),
    "activation_dropout": _to("architecture.activation_dropout", float),
    "pooler_dropout": _to("architecture.pooler_dropout", float),
    "encoder_layerdrop": _to("architecture.layerdrop", float),
    "activation_fn": _to("architecture.activation_fn"),
    "encoder_layers": _to("architecture.num_layers", int),
    "encoder_embed_dim": _to("architecture.embed_dim", int),
    "encoder_ffn_embed_dim": _to("architecture.ffn_dim", int),
    "encoder_attention_heads": _to("architecture.num_heads", int),
    # optimizer and schedule
    "optimizer": _only("adam", remedy="give adam, the one optimizer here"),
    "lr": _read("`optimizer.lr`; one rate", list),
    "adam_betas": _read("`optimizer.betas`"),
    "adam_eps": _to("optimizer.eps", float),
    "weight_decay": _to("optimizer.weight_decay", float),
    "clip_norm": _to("optimizer.clip_norm", float),
    "lr_scheduler": _read("`optimizer.schedule`: polynomial_decay, fixed; another one is refused"),
    "warmup_updates": _to("optimizer.warmup_updates", int),
    "total_num_update": _to("optimizer.total_updates", int),
    "end_learning_rate": _to("optimizer.end_lr", float),
    "power": _to("optimizer.power", float),
    "force_anneal": _only(None, remedy="leave it out: fixed rates stay fixed", kind=int),
    "max_update": _to("loop.max_updates", int),
    "max_epoch": _to("loop.max_epochs", int),
    "stop_time_hours": _read("`loop.max_minutes`", float),
    "update_freq": _read("`batch.update_freq`; one number, times the processes", list),
    # batches
    "batch_size": _to("batch.batch_size", int),
    "max_tokens": _to("batch.max_tokens", int),
    "required_batch_size_multiple": _to("batch.multiple", int),
    "batch_size_valid": _nothing("evaluation chooses its own"),
    "max_tokens_valid": _nothing("evaluation chooses its own"),
    "num_workers": _nothing(_LOADER),
    "data_buffer_size": _nothing(_LOADER),
    "ignore_unused_valid_subsets": _nothing("one split is judged by", bool),
    "skip_invalid_size_inputs_valid_test": _only(
        False, remedy="leave it out: nothing is skipped; --shorten-method truncate cuts", kind=bool
    ),
    "curriculum": _only(0, remedy="leave it out: every epoch is shuffled", kind=int),
    "validate_interval": _only(1, remedy="give --validate-interval-updates", kind=int),
    "validate_interval_updates": _read("`loop.evaluate_every`", int),
    "disable_validation": _read("no `data.valid`", bool),
    # checkpoints
    "save_dir": _to("output"),
    "restore_file": _read("`model`; with its optimizer `restore=true`"),
    "finetune_from_model": _read("`model`"),
    "reset_optimizer": _read("`restore=false`", bool),
    "reset_lr_scheduler": _read("`restore=false`", bool),
    "reset_meters": _nothing("meters begin again", bool),
    "reset_dataloader": _read("`restore=false`", bool),
    "best_checkpoint_metric": _read("`task.metric`"),
    "maximize_best_checkpoint_metric": _read("must fit the metric", bool),
    "patience": _to("loop.patience", int),
    "save_interval_updates": _to("loop.save_every", int),
    "save_interval": _nothing(_KEPT),
    "keep_interval_updates": _nothing(_KEPT),
    "keep_last_epochs": _nothing(_KEPT),
    "keep_best_checkpoints": _nothing(_KEPT),
    "no_epoch_checkpoints": _nothing(_KEPT, bool),
    "no_last_checkpoints": _nothing(_KEPT, bool),
    "no_save_optimizer_state": _nothing(_KEPT, bool),
    # precision, processes, logs
    "seed": _to("seed", int),
    "fp16": _read("`loop.precision=fp16`", bool),
    "bf16": _read("`loop.precision=bf16`", bool),
    "memory_efficient_fp16": _only(False, remedy="give --fp16", kind=bool),
    "fp16_init_scale": _nothing(_SCALE),
    "fp16_scale_window": _nothing(_SCALE),
    "threshold_loss_scale": _nothing(_SCALE),
    "fp16_no_flatten_grads": _nothing(_SCALE, bool),
    "cpu": _read("no half precision; the device is what there is", bool),
    "ddp_backend": _nothing(_PROCESSES),
    "distributed_world_size": _nothing(_PROCESSES),
    "distributed_port": _nothing(_PROCESSES),
    "find_unused_parameters": _to("loop.find_unused_parameters", bool),
    "log_format": _nothing("log.csv has the numbers"),
    "log_interval": _to("loop.log_every", int),
    "no_progress_bar": _read("`loop.progress=false`", bool),
    "tensorboard_logdir": _read("`loop.tensorboard=true`"),
}
"""Every option by fairseq's name, with underscores."""
ALIASES = {"max_sentences": "batch_size", "a": "arch"}
"""Older and shorter names."""
RENAMED = {"truncate_sequence": "say --shorten-method truncate"}
"""Options of other versions, each with what to do."""
DEFAULTS: Settings = {
    "optimizer.lr": 0.25,
    "optimizer.betas": [0.9, 0.999],
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.0,
    "optimizer.decay": "fairseq",
    "optimizer.clip_norm": 0.0,
    "optimizer.schedule": "fixed",
    "optimizer.warmup_updates": 0,
    "batch.batch_size": None,
    "batch.max_tokens": None,
    "batch.multiple": 8,
    "batch.order": "fairseq",
    "loop.fairseq_files": True,
    "loop.log_every": 100,
    "output": "checkpoints",
    "seed": 1,
}
"""What fairseq 0.12 takes where an option is not given."""
TASKS = {
    "masked_lm": ("masked_lm", "masked_lm"),
    "sentence_prediction": ("classification", "sentence_prediction"),
    "commonsense_qa": ("choice", "sentence_ranking"),
    "wsc": ("wsc", "wsc"),
    "winogrande": ("winogrande", "winogrande"),
}
"""fairseq's task -> ours, and the criterion of its recipe."""
ARCHITECTURES = {
    "roberta": "roberta.base",
    "roberta_base": "roberta.base",
    "roberta_large": "roberta.large",
}


def translate(words: Sequence[str]) -> tuple[Settings, list[str]]:
    """Translate a command of fairseq's into settings.

    Example:
        >>> settings, said = translate(
        ...     "fairseq-train data-bin --task masked_lm --arch roberta_base --max-tokens 4096 "
        ...     "--tokens-per-sample 512 --max-update 100 --num-workers 2".split()
        ... )
        >>> settings["task.options.block_size"], settings["batch.max_tokens"], said
        (512, 4096, ['--num-workers: batches are made in the process that trains'])
    """
    words, said = split_program(words)
    given = _from_hydra(words) if is_hydra(words) else _from_words(words)
    settings = dict(DEFAULTS)
    for name, value in given.items():
        option = OPTIONS[name]
        if option.early:
            continue
        if option.setting is not None:
            settings[option.setting] = value
        elif option.allowed is None:
            why = option.becomes.removeprefix("without effect: ")
            said.append(f"{_flag(name)}: {why}")
        elif value not in option.allowed:
            raise InputError(f"{_flag(name)} {value} cannot be had here; {option.becomes}")
    return _basics(given, settings), said


def _from_words(words: Sequence[str]) -> Settings:
    """Read the words of fairseq-train: options by name, and the folder of data."""
    given: Settings = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or re.fullmatch(r"-\d.*", word):
            if "data" in given:
                raise InputError(
                    f"{word}: the data is {given['data']} already; quote what has blanks"
                )
            given["data"] = word
            continue
        flag, equals, value = word.partition("=")
        name = _known(flag)
        if OPTIONS[name].flag:
            given[name] = True
            continue
        if not equals and not left:
            raise InputError(f"{flag} needs a value")
        given[name] = _typed(name, value if equals else left.pop(0))
    return given


def _known(flag: str) -> str:
    name = flag.lstrip("-").replace("-", "_")
    name = ALIASES.get(name, name)
    if name not in OPTIONS:
        said = f"fairseq's option {flag} is not known here"
        if name in RENAMED:
            raise UnknownNameError(f"{said}; {RENAMED[name]}")
        near = close_names(name, (*OPTIONS, *ALIASES))
        hint = f"did you mean {near}? Else leave it out" if near else "leave it out"
        raise UnknownNameError(
            f"{said}; {hint}, or train with fairseq, whose checkpoints load here"
        )
    return name


def _from_hydra(words: Sequence[str]) -> Settings:
    """Read a yaml file of fairseq's, and the settings that a command adds."""
    try:
        import yaml
        from omegaconf import OmegaConf
    except ImportError:
        raise MissingExtraError(f"fairseq's yaml files need hydra: {install('train')}") from None
    path, added = _words_of_hydra(words)
    _check_yaml(path)
    try:  # every value as text: its option says of which type it is
        read: Any = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
        tree = OmegaConf.create(read or {})
        for key, value in added.items():
            OmegaConf.update(tree, key, yaml.load(value, yaml.BaseLoader))
        check_references(OmegaConf.to_container(tree, resolve=False))
        found = OmegaConf.to_container(tree, resolve=True, throw_on_missing=False)
    except Exception as error:  # yaml's errors and omegaconf's have no base of their own
        raise InputError(f"{path}: {str(error).splitlines()[0][:200]}") from None
    given: Settings = {}
    for section, part in (found if isinstance(found, dict) else {}).items():
        group = str(section)
        options: dict[Any, Any] = part if isinstance(part, dict) else {"_name": part}
        for name, own in options.items():
            if own == "???":
                raise InputError(f"{group}.{name!s} is not set; add {group}.{name!s}=VALUE")
            kind = "arch" if group == "model" else group
            option = _known(kind if name == "_name" else str(name))
            if own not in ("", "null", "~", None):
                given[option] = _typed(option, own)
    return given


def _words_of_hydra(words: Sequence[str]) -> tuple[Path, dict[str, str]]:
    """Return the yaml file that a command names, and what it adds: text by `group.name`."""
    place: dict[str, str] = {}
    added: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        flag, equals, value = word.partition("=")
        if flag.lstrip("-") in ("config-dir", "config-name"):
            place[flag.lstrip("-")] = value if equals else (left.pop(0) if left else "")
        elif word in ("-m", "--multirun"):
            continue  # one run, unless a setting lists several, which is refused later
        elif equals and not word.startswith("-"):
            added[flag.lstrip("+")] = value
        else:
            raise InputError(f"{word}: no setting of fairseq-hydra-train; write group.name=value")
    path = Path(place.get("config-dir", "."), place.get("config-name", ""))
    path = path if path.suffix == ".yaml" else path.with_name(f"{path.name}.yaml")
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file; --config-dir and --config-name name it")
    return path, added


def _check_yaml(path: Path) -> None:
    """Refuse what no recipe of fairseq's has: size, and aliases that multiply."""
    import yaml

    if (size := os.path.getsize(path)) > YAML_LIMIT:
        raise InputError(f"{path} has {size:,} bytes; a recipe has at most {YAML_LIMIT:,}")
    try:
        text = path.read_text(encoding="utf-8")
        aliases = any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: {str(error).splitlines()[0][:200]}") from None
    if aliases:
        raise InputError(f"{path} has aliases of YAML (*name), which no recipe has; write them out")


def _typed(name: str, value: Any) -> Any:
    """Read a value as the type that fairseq has for this option.

    Example:
        >>> [_typed(name, "007") for name in ("save_dir", "seed", "lr")]
        ['007', 7, 7]
        >>> _typed("update_freq", ["16"]), _typed("lr", "[1e-5]"), _typed("dropout", "1e-1")
        (16, 1e-05, 0.1)
    """
    kind = OPTIONS[name].kind
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if kind is str:
        return value
    if kind is list:
        parts = value if isinstance(value, list) else str(value).strip("[]() ").split(",")
        if len(parts) > 1:
            return value
        number = _number(name, parts[0], float)
        return int(number) if number.is_integer() else number
    if kind is bool:
        return _switch(name, str(value))
    return _number(name, value, kind)


def _switch(name: str, text: str) -> bool:
    for words, meant in ((("true", "1", "yes", "on"), True), (("false", "0", "no", "off"), False)):
        if text.lower() in words:
            return meant
    raise InputError(f"{_flag(name)} {text[:60]}: must be true or false")


def _number(name: str, text: Any, kind: type[int] | type[float]) -> Any:
    """Read one number; a whole one may also be written as 1e5."""
    with suppress(ValueError):
        return kind(str(text))
    with suppress(ValueError):
        if (number := float(str(text))).is_integer():
            return int(number)
    what = "a whole number" if kind is int else "a number"
    raise InputError(f"{_flag(name)} {str(text)[:60]}: must be {what}, as fairseq has it")


def _basics(given: Given, settings: Settings) -> Settings:
    """Settings that several options decide together."""
    found = dict(settings)
    found |= _task(given)
    found |= _model(given)
    found |= _optimization(given, found)
    return found


def _task(given: Given) -> Settings:
    task, criterion = given.get("task", "translation"), given.get("criterion")
    if task not in TASKS:
        remedy = (
            "finetune=race data.train=RACE/train data.valid=RACE/dev reads RACE's own files"
            if task == "sentence_ranking"
            else f"there are {', '.join(TASKS)}"
        )
        missing = "" if "task" in given else f"--task is missing, and then it is {task}: "
        raise InputError(f"{missing}--task {task} cannot be had here; {remedy}")
    name, own = TASKS[task]
    if criterion not in (None, own):
        raise InputError(f"--criterion {criterion} cannot be had here; {task} learns with {own}")
    if given.get("regression_target"):
        name = "regression"
    found: Settings = {"task.name": name}
    if given.get("shorten_method", "none") not in ("none", "truncate"):
        raise InputError(
            "--shorten-method random_crop cannot be had here; truncate cuts at the end"
        )
    truncates = given.get("shorten_method") == "truncate"
    if task == "masked_lm":
        found["task.options.unit"] = "word" if given.get("mask_whole_words") else "fairseq"
        found["task.options.sentences"] = given.get("sample_break_mode", "none")
        found["task.options.block_size"] = given.get("tokens_per_sample", 1024)
        if truncates:
            raise InputError(
                "--shorten-method truncate cannot be had here; --sample-break-mode none cuts lines"
            )
    elif truncates:
        found["task.options.truncate"] = True
    start = given.get("init_token")
    if task == "wsc" or task == "winogrande":
        found["task.options.init_token"] = start is not None
    elif task != "masked_lm" and start != 0:
        raise InputError(
            f"--init-token {start} cannot be had here; give 0, `<s>`, as the recipes do"
        )
    if task not in ("masked_lm", "sentence_prediction"):
        found["batch.order"], found["batch.multiple"] = "random", 1
    return {**found, **_data(given, task), **_metric(given, name)}


def _data(given: Given, task: str) -> Settings:
    if "data" not in given:
        raise InputError("no folder of data: it is the word of fairseq-train that has no option")
    data, train = str(given["data"]), str(given.get("train_subset", "train"))
    valid = str(given.get("valid_subset", "valid"))
    if "," in valid:
        raise InputError(f"--valid-subset {valid} cannot be had here; name one split")
    if task in ("commonsense_qa", "wsc", "winogrande"):
        found = {"data.train": f"{data.rstrip('/')}/{train}.jsonl"}
        held_out, formatted = f"{data.rstrip('/')}/{valid}.jsonl", {"data.format": task}
        is_there = os.path.isfile(held_out)
        found |= formatted if task == "commonsense_qa" else {}
    else:
        first = data if os.path.exists(data) else data.split(os.pathsep)[0]
        found = {"data.train": data if train == "train" else os.path.join(first, train)}
        held_out = os.path.join(first, valid)
        parts = (first, os.path.join(first, "input0"))
        is_there = any(os.path.isfile(os.path.join(part, f"{valid}.idx")) for part in parts)
    if is_there and not given.get("disable_validation"):
        found["data.valid"] = held_out
    return found


def _metric(given: Given, task: str) -> Settings:
    metric = given.get("best_checkpoint_metric", "loss")
    best = "higher" if given.get("maximize_best_checkpoint_metric") else "lower"
    if (best == "higher") == (metric in ("loss", "ppl")):
        raise InputError(
            f"--best-checkpoint-metric {metric}, and the {best} one would be the best; "
            f"{'add' if best == 'lower' else 'leave out'} --maximize-best-checkpoint-metric"
        )
    return {"task.metric": {"ppl": "perplexity", "pearson_corr": "pearson"}.get(metric, metric)}


def _model(given: Given) -> Settings:
    arch = given.get("arch", "roberta")
    if arch not in ARCHITECTURES:
        raise InputError(f"--arch {arch} cannot be had here; there are {', '.join(ARCHITECTURES)}")
    file, resets = given.get("restore_file"), ("reset_optimizer", "reset_lr_scheduler")
    fresh = any(given.get(name) for name in (*resets, "reset_dataloader"))
    if given.get("finetune_from_model") is not None:
        file, fresh = given["finetune_from_model"], True
    if file is None:
        file = _left_by_fairseq(Path(given.get("save_dir", "checkpoints")))
    longest = given.get("max_positions")
    if file is None:
        found: Settings = {"model": ARCHITECTURES[arch], "pretrained": False}
        return found if longest is None else {**found, "architecture.max_positions": longest}
    found = {"model": str(file), **({} if fresh else {"restore": True})}
    if longest is not None and given.get("task") != "masked_lm":
        found["task.options.max_length"] = longest
    return found


def _left_by_fairseq(folder: Path) -> Path | None:
    """Find the checkpoint that fairseq's own run resumes from; ours resumes from its state."""
    from roberta_hub.train.loop.state import find_state

    last = folder / "checkpoint_last.pt"
    return last if last.is_file() and find_state(folder) is None else None


def _optimization(given: Given, settings: Settings) -> Settings:
    found: Settings = {}
    for option, setting in {"lr": "optimizer.lr", "update_freq": "batch.update_freq"}.items():
        value = given.get(option)
        if isinstance(value, (str, list)):
            raise InputError(f"{_flag(option)} {value} cannot be had here; give one number")
        if value is not None:
            found[setting] = value
    if "update_freq" in given:
        world = int(os.environ.get("WORLD_SIZE", "1"))
        found["batch.update_freq"] = given["update_freq"] * world
    if "adam_betas" in given:
        betas = re.findall(r"[\d.]+(?:[eE]-?\d+)?", str(given["adam_betas"]))
        found["optimizer.betas"] = [float(beta) for beta in betas]
    schedule = given.get("lr_scheduler", "fixed")
    if schedule not in ("fixed", "polynomial_decay"):
        raise InputError(
            f"--lr-scheduler {schedule} cannot be had here; there are polynomial_decay and fixed"
        )
    found["optimizer.schedule"] = schedule
    if given.get("fp16") and given.get("bf16"):
        raise InputError("--fp16 and --bf16 exclude each other; choose one")
    half = "fp16" if given.get("fp16") else "bf16" if given.get("bf16") else "no"
    found["loop.precision"] = "no" if given.get("cpu") else half
    if given.get("stop_time_hours"):
        found["loop.max_minutes"] = 60 * given["stop_time_hours"]
    if given.get("validate_interval_updates"):
        found["loop.evaluate_every"] = given["validate_interval_updates"]
    if given.get("no_progress_bar"):
        found["loop.progress"] = False
    if given.get("tensorboard_logdir"):
        found["loop.tensorboard"] = True
    for name in ("loop.max_epochs", "loop.max_updates"):
        found[name] = settings.get(name) or None  # 0 is without an end there
    if settings.get("loop.save_every") == 0:  # at the end of an epoch alone
        found["loop.save_every"] = None
    if settings.get("loop.patience", 0) < 0:
        found["loop.patience"] = None
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Write settings in hydra's grammar.

    Example:
        >>> as_overrides({"seed": 1, "output": "a b", "data.valid": None, "task.options.x": [0.9]})
        ['seed=1', "output='a b'", 'data.valid=null', 'task.options.x=[0.9]']
    """
    return [f"{name}={_text(value)}" for name, value in settings.items()]


_PLAIN = re.compile(
    r"(?!(?:true|false|null|nan|inf)$)(?:\.{0,2}/)*[A-Za-z_][\w./-]*", re.IGNORECASE
)
"""Texts that hydra reads as text without quotes."""


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)


def table() -> str:
    """Write the table of all options, for docs/reference/fairseq_options.md."""
    lines = ["| fairseq's option | here |", "|---|---|"]
    for name, option in OPTIONS.items():
        said = option.becomes
        if option.allowed is not None:
            kept = ", ".join(
                "not given" if v in (None, False, "") else str(v) for v in option.allowed
            )
            said = f"{kept}; else refused: {said}"
        lines.append(f"| `{_flag(name)}` | {said} |")
    return "\n".join(lines) + "\n"
