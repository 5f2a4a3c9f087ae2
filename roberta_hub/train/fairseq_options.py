"""Translates a command of fairseq-train or fairseq-hydra-train into our settings.

Each option is in `OPTIONS` once: what it becomes, or why it is without effect, or what to do where
it cannot be had. An option that is not there is refused by name. docs/reference/fairseq_options.md
shows the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, MissingExtraError, UnknownNameError, close_names
from roberta_hub.extras import install
from roberta_hub.train.limits import check_references

Settings = dict[str, Any]
Given = Mapping[str, Any]
"""Options that a command gives, by fairseq's names."""
PROGRAMS = ("fairseq-train", "fairseq-hydra-train")
YAML_LIMIT = 100_000
"""Bytes of a recipe; fairseq's largest has 2,000."""


@dataclass(frozen=True)
class Option:
    """What becomes of one option."""

    becomes: str
    """For the table: a setting, or a sentence."""
    setting: str | None = None
    """The setting that takes the value as it is."""
    allowed: tuple[Any, ...] | None = None
    """Values that change nothing here; another one is refused with `becomes` as the remedy."""
    flag: bool = False
    """Whether it stands alone on a command line."""
    early: bool = False
    """Whether `_basics` reads it, together with others."""


def _to(setting: str, *, flag: bool = False) -> Option:
    return Option(f"`{setting}`", setting, flag=flag)


def _nothing(why: str, *, flag: bool = False) -> Option:
    return Option(f"without effect: {why}", flag=flag)


def _only(*allowed: Any, remedy: str, flag: bool = False) -> Option:
    return Option(remedy, allowed=allowed, flag=flag)


def _read(becomes: str, *, flag: bool = False) -> Option:
    return Option(becomes, early=True, flag=flag)


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
    "tokens_per_sample": _to("task.options.block_size"),
    "mask_prob": _to("task.options.mask_prob"),
    "leave_unmasked_prob": _to("task.options.leave_prob"),
    "random_token_prob": _to("task.options.random_prob"),
    "mask_whole_words": _read("`task.options.unit=word`; else `unit=fairseq`", flag=True),
    "freq_weighted_replacement": _only(
        False, remedy="tokens are drawn evenly; leave it out", flag=True
    ),
    "mask_multiple_length": _only(1, remedy="task.options.unit=span masks runs of words"),
    "mask_stdev": _only(0, remedy="task.options.unit=span masks runs of words"),
    "shorten_method": _read("`task.options.truncate=true` for truncate; random_crop is refused"),
    "shorten_data_split_list": _only("", remedy="leave it out: all splits are cut alike"),
    "num_classes": _nothing("the labels of the folder say it"),
    "init_token": _read("0 is `<s>`, which is always there; of wsc `task.options.init_token`"),
    "separator_token": _only(2, remedy="give 2, `</s>`, with which pairs are joined here"),
    "no_shuffle": _only(False, remedy="leave it out: the order is random here", flag=True),
    "max_positions": _read(
        "`task.options.max_length`; of new weights `architecture.max_positions`"
    ),
    "max_option_length": _to("task.options.max_option_length"),
    "classification_head_name": _to("task.head"),
    "ranking_head_name": _to("task.head"),
    "regression_target": _read("`task.name=regression`", flag=True),
    "wsc_cross_entropy": _to("task.options.cross_entropy", flag=True),
    "wsc_margin_alpha": _to("task.options.margin_alpha"),
    "wsc_margin_beta": _to("task.options.margin_beta"),
    "bpe": _nothing("the model has its tokenizer"),
    "user_dir": _nothing("wsc, winogrande and commonsense_qa are here; other tasks are refused"),
    # model
    "arch": _read(
        "`model=roberta.base` or `roberta.large` with `pretrained=false`, unless a file is restored"
    ),
    "dropout": _to("architecture.dropout"),
    "attention_dropout": _to("architecture.attention_dropout"),
    "activation_dropout": _to("architecture.activation_dropout"),
    "pooler_dropout": _to("architecture.pooler_dropout"),
    "encoder_layerdrop": _to("architecture.layerdrop"),
    "activation_fn": _to("architecture.activation_fn"),
    "encoder_layers": _to("architecture.num_layers"),
    "encoder_embed_dim": _to("architecture.embed_dim"),
    "encoder_ffn_embed_dim": _to("architecture.ffn_dim"),
    "encoder_attention_heads": _to("architecture.num_heads"),
    # optimizer and schedule
    "optimizer": _only("adam", remedy="give adam, the one optimizer here"),
    "lr": _read("`optimizer.lr`; one rate"),
    "adam_betas": _read("`optimizer.betas`"),
    "adam_eps": _to("optimizer.eps"),
    "weight_decay": _to("optimizer.weight_decay"),
    "clip_norm": _to("optimizer.clip_norm"),
    "lr_scheduler": _read("`optimizer.schedule`: polynomial_decay, fixed; another one is refused"),
    "warmup_updates": _to("optimizer.warmup_updates"),
    "total_num_update": _to("optimizer.total_updates"),
    "end_learning_rate": _to("optimizer.end_lr"),
    "power": _to("optimizer.power"),
    "force_anneal": _only(None, remedy="leave it out: fixed rates stay fixed"),
    "max_update": _to("loop.max_updates"),
    "max_epoch": _to("loop.max_epochs"),
    "stop_time_hours": _read("`loop.max_minutes`"),
    "update_freq": _read("`batch.update_freq`; one number, times the processes"),
    # batches
    "batch_size": _to("batch.batch_size"),
    "max_tokens": _to("batch.max_tokens"),
    "required_batch_size_multiple": _to("batch.multiple"),
    "batch_size_valid": _nothing("evaluation chooses its own"),
    "max_tokens_valid": _nothing("evaluation chooses its own"),
    "num_workers": _nothing(_LOADER),
    "data_buffer_size": _nothing(_LOADER),
    "ignore_unused_valid_subsets": _nothing("one split is judged by", flag=True),
    "skip_invalid_size_inputs_valid_test": _only(
        False, remedy="leave it out: nothing is skipped; --shorten-method truncate cuts", flag=True
    ),
    "curriculum": _only(0, remedy="leave it out: every epoch is shuffled"),
    "validate_interval": _only(1, remedy="give --validate-interval-updates"),
    "validate_interval_updates": _read("`loop.evaluate_every`"),
    "disable_validation": _read("no `data.valid`", flag=True),
    # checkpoints
    "save_dir": _to("output"),
    "restore_file": _read("`model`; with its optimizer `restore=true`"),
    "finetune_from_model": _read("`model`"),
    "reset_optimizer": _read("`restore=false`", flag=True),
    "reset_lr_scheduler": _read("`restore=false`", flag=True),
    "reset_meters": _nothing("meters begin again", flag=True),
    "reset_dataloader": _read("`restore=false`", flag=True),
    "best_checkpoint_metric": _read("`task.metric`"),
    "maximize_best_checkpoint_metric": _read("must fit the metric", flag=True),
    "patience": _to("loop.patience"),
    "save_interval_updates": _to("loop.save_every"),
    "save_interval": _nothing(_KEPT),
    "keep_interval_updates": _nothing(_KEPT),
    "keep_last_epochs": _nothing(_KEPT),
    "keep_best_checkpoints": _nothing(_KEPT),
    "no_epoch_checkpoints": _nothing(_KEPT, flag=True),
    "no_last_checkpoints": _nothing(_KEPT, flag=True),
    "no_save_optimizer_state": _nothing(_KEPT, flag=True),
    # precision, processes, logs
    "seed": _to("seed"),
    "fp16": _read("`loop.precision=fp16`", flag=True),
    "bf16": _read("`loop.precision=bf16`", flag=True),
    "memory_efficient_fp16": _only(False, remedy="give --fp16", flag=True),
    "fp16_init_scale": _nothing(_SCALE),
    "fp16_scale_window": _nothing(_SCALE),
    "threshold_loss_scale": _nothing(_SCALE),
    "fp16_no_flatten_grads": _nothing(_SCALE, flag=True),
    "cpu": _read("no half precision; the device is what there is", flag=True),
    "ddp_backend": _nothing(_PROCESSES),
    "distributed_world_size": _nothing(_PROCESSES),
    "distributed_port": _nothing(_PROCESSES),
    "find_unused_parameters": _to("loop.find_unused_parameters", flag=True),
    "log_format": _nothing("log.csv has the numbers"),
    "log_interval": _to("loop.log_every"),
    "no_progress_bar": _read("`loop.progress=false`", flag=True),
    "tensorboard_logdir": _read("`loop.tensorboard=true`"),
}
"""Every option by fairseq's name, with underscores."""
ALIASES = {"max_sentences": "batch_size", "a": "arch"}
"""Older and shorter names."""
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

    Args:
        words: of the command; its program's name may come first.

    Returns:
        Settings by name, and sentences about options without effect.

    Raises:
        UnknownNameError: an option that is not known.
        InputError: a value that cannot be had here; the message says what to do.

    Example:
        >>> settings, said = translate(
        ...     "fairseq-train data-bin --task masked_lm --arch roberta_base --max-tokens 4096 "
        ...     "--tokens-per-sample 512 --max-update 100 --num-workers 2".split()
        ... )
        >>> settings["task.options.block_size"], settings["batch.max_tokens"], said
        (512, 4096, ['--num-workers: batches are made in the process that trains'])
    """
    words, said = _program(list(words))
    given = _from_hydra(words) if _is_hydra(words) else _from_words(words)
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


def _program(words: list[str]) -> tuple[list[str], list[str]]:
    """Take the program's name away, and variables before it."""
    said = []
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        said.append(f"{words.pop(0)}: set it before roberta-hub, as for any program")
    if words and Path(words[0]).name in PROGRAMS:
        hydra = Path(words.pop(0)).name == PROGRAMS[1]
        if hydra and not _is_hydra(words):
            raise InputError(
                "fairseq-hydra-train needs --config-dir and --config-name, which name its yaml file"
            )
    return words, said


def _is_hydra(words: Sequence[str]) -> bool:
    return any(word.lstrip("-").startswith("config-") for word in words)


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
        given[name] = _value(value if equals else left.pop(0))
    return given


def _known(flag: str) -> str:
    name = flag.lstrip("-").replace("-", "_")
    name = ALIASES.get(name, name)
    if name not in OPTIONS:
        near = close_names(name, OPTIONS)
        hint = f"did you mean {near}? Else leave it out" if near else "leave it out"
        raise UnknownNameError(
            f"fairseq's option {flag} is not known here; {hint}, or train with fairseq, whose "
            "checkpoints load here"
        )
    return name


def _from_hydra(words: Sequence[str]) -> Settings:
    """Read a yaml file of fairseq's, and the settings that a command adds."""
    try:
        from omegaconf import OmegaConf
    except ImportError:
        raise MissingExtraError(f"fairseq's yaml files need hydra: {install('train')}") from None
    place: dict[str, str] = {}
    added, left = [], list(words)
    while left:
        word = left.pop(0)
        flag, equals, value = word.partition("=")
        if flag.lstrip("-") in ("config-dir", "config-name"):
            place[flag.lstrip("-")] = value if equals else (left.pop(0) if left else "")
        elif word in ("-m", "--multirun"):
            continue  # one run, unless a setting lists several, which is refused below
        elif equals and not word.startswith("-"):
            added.append(word.lstrip("+"))
        else:
            raise InputError(f"{word}: no setting of fairseq-hydra-train; write group.name=value")
    path = Path(place.get("config-dir", "."), place.get("config-name", ""))
    path = path if path.suffix == ".yaml" else path.with_name(f"{path.name}.yaml")
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file; --config-dir and --config-name name it")
    _check_yaml(path)
    try:
        parts = OmegaConf.load(path), OmegaConf.from_dotlist(added)
        for part in parts:
            check_references(OmegaConf.to_container(part, resolve=False))
        tree = OmegaConf.merge(*parts)
        found = OmegaConf.to_container(tree, resolve=True, throw_on_missing=False)
    except Exception as error:  # yaml's errors and omegaconf's have no base of their own
        raise InputError(f"{path}: {str(error).splitlines()[0][:200]}") from None
    given: Settings = {}
    for key, part in (found if isinstance(found, dict) else {}).items():
        group = str(key)
        for name, value in (part if isinstance(part, dict) else {"_name": part}).items():
            if value == "???":
                raise InputError(f"{group}.{name!s} is not set; add {group}.{name!s}=VALUE")
            own = "arch" if group == "model" else group
            given[_known(own if name == "_name" else str(name))] = _value(value)
    return given


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


def _value(value: Any) -> Any:
    """Read a value as YAML does, numbers such as 1e-05 among them; a list of one is that one."""
    if isinstance(value, list):
        return _value(value[0]) if len(value) == 1 else [_value(item) for item in value]
    if not isinstance(value, str):
        return value
    text = value.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "True": True, "false": False, "False": False, "None": None}.get(
        text, text
    )


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
        raise InputError(f"--task {task} cannot be had here; {remedy}")
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
        own = os.path.join(str(given.get("save_dir", "checkpoints")), "checkpoint_last.pt")
        file = own if os.path.isfile(own) else None
    longest = given.get("max_positions")
    if file is None:
        found: Settings = {"model": ARCHITECTURES[arch], "pretrained": False}
        return found if longest is None else {**found, "architecture.max_positions": longest}
    found = {"model": str(file), **({} if fresh else {"restore": True})}
    if longest is not None and given.get("task") != "masked_lm":
        found["task.options.max_length"] = longest
    return found


def _optimization(given: Given, settings: Settings) -> Settings:
    found: Settings = {}
    for option, setting in {"lr": "optimizer.lr", "update_freq": "batch.update_freq"}.items():
        value = given.get(option)
        if isinstance(value, list) or (isinstance(value, str) and "," in value):
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


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str) and not re.fullmatch(r"[\w./-]+", value):
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
