"""fairseq's functions that load: `hub_utils`, `checkpoint_utils`, `tasks` and `encoders`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.checkpoint.untrusted.unpickle import load_pickle, plain
from roberta_hub.config import ReadOnlyArguments
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizers import read_dictionaries
from roberta_hub.hub import load_model
from roberta_hub.interface import LOADED, LOADED_PARTS, RobertaHubInterface
from roberta_hub.text.bpe import GPT2BPE, GPT2Encoder
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.fairseq_files import TOKENIZER_KINDS, engine_in, tokenizer_keywords
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.task import Task

TASKS = ("masked_lm", "multilingual_masked_lm", "sentence_prediction", "sentence_ranking")
"""fairseq's tasks of a RoBERTa, which are dictionaries here."""
MASKED = ("masked_lm", "multilingual_masked_lm")
"""Those that add `<mask>` to the dictionary."""


def from_pretrained(
    model_name_or_path: str | os.PathLike[str],
    checkpoint_file: str = "model.pt",
    data_name_or_path: str = ".",
    archive_map: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Load models as fairseq's `hub_utils.from_pretrained` does.

    Args:
        model_name_or_path: see `roberta_hub.load_model`.
        checkpoint_file: in that directory; several are joined by os.pathsep.
        data_name_or_path: folder of dict.txt; beginning with "." from the model's directory.
        archive_map: other names of models: each with a name or a path, or with a dict of `path` and
            further keywords.
        kwargs: fairseq's arguments, and the keywords of `load_model`.

    Returns:
        `args`, `task` and `models`: what `RobertaHubInterface(args, task, models[0])` takes.
    """
    target = (archive_map or {}).get(str(model_name_or_path), model_name_or_path)
    if isinstance(target, Mapping):
        kwargs = {name: value for name, value in target.items() if name != "path"} | kwargs
        checkpoint_file = kwargs.pop("checkpoint_file", checkpoint_file)
        target = target["path"]
    files = checkpoint_file.split(os.pathsep)
    several = [None] if files == ["model.pt"] else files
    loaded = [
        load_model(target, checkpoint_file=file, data_name_or_path=data_name_or_path, **kwargs)
        for file in several
    ]
    first = loaded[0]
    data = os.path.abspath(os.path.join(target, data_name_or_path))
    return {
        "args": _arguments(first, data),
        "task": first.task,
        "models": [roberta.model for roberta in loaded],
    }


def load_model_ensemble_and_task(
    filenames: Sequence[str],
    arg_overrides: Mapping[str, Any] | None = None,
    task: Any = None,
    strict: bool = True,
    suffix: str = "",
    num_shards: int = 1,
    state: object = None,
) -> tuple[list[Any], ReadOnlyArguments, Any]:
    """Load models as fairseq's `checkpoint_utils.load_model_ensemble_and_task` does.

    Args:
        filenames: files of weights.
        arg_overrides: fairseq's arguments; `data` is the folder of dict.txt, else it is the file's.
        task: returned in place of the first file's.
        strict: see `roberta_hub.load_model`.
        suffix: "" alone.
        num_shards: 1 alone.
        state: None alone.

    Returns:
        The models, the first one's arguments, and its task.

    Raises:
        InputError: shards, or a state in memory.
    """
    if suffix or num_shards != 1 or state is not None:
        raise InputError(
            "suffix, num_shards and state are for fairseq's trainer: give the path of a whole file"
        )
    overrides = dict(arg_overrides or {})
    data = os.path.abspath(overrides.pop("data")) if overrides.get("data") else "."
    loaded = [
        load_model(_file(name), data_name_or_path=data, strict=strict, **overrides)
        for name in _listed(filenames)
    ]
    folder = data if data != "." else os.path.dirname(os.path.abspath(filenames[0]))
    models = [roberta.model for roberta in loaded]
    return models, _arguments(loaded[0], folder), loaded[0].task if task is None else task


def load_model_ensemble(
    filenames: Sequence[str],
    arg_overrides: Mapping[str, Any] | None = None,
    task: Any = None,
    strict: bool = True,
    suffix: str = "",
    num_shards: int = 1,
    state: object = None,
) -> tuple[list[Any], ReadOnlyArguments]:
    """Load models and the first one's arguments; see `load_model_ensemble_and_task`."""
    models, arguments, _ = load_model_ensemble_and_task(
        filenames, arg_overrides, task, strict, suffix, num_shards, state
    )
    return models, arguments


def load_checkpoint_to_cpu(
    path: str, arg_overrides: Mapping[str, Any] | None = None, load_on_all_ranks: bool = False
) -> dict[str, Any]:
    """Read what is in a checkpoint of any era, without running anything in it.

    Args:
        path: of the file.
        arg_overrides: values to put over those of `args` and of `cfg["model"]`.
        load_on_all_ranks: changes nothing: every process that calls it reads.

    Returns:
        The file's dict. "model" has its tensors under the file's own names, `args` is a Namespace
        or None, and `cfg` is read by attribute and by key. Objects of fairseq's classes are inert.

    Raises:
        CheckpointError: missing, damaged, unsafe, or no dict with "model".
    """
    state = load_pickle(Path(_file(path)))
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise CheckpointError(f"{path}: no fairseq checkpoint: it has no dict 'model'")
    found, overrides = dict(dict.items(state)), dict(arg_overrides or {})
    arguments, cfg = (plain(found.get(name), path) for name in ("args", "cfg"))
    if isinstance(arguments, dict):
        arguments |= overrides
        sections = {"model": arguments} | {
            name: {**arguments, "_name": arguments.get(name)} for name in ("task", "criterion")
        }
    else:
        sections = dict(cfg) if isinstance(cfg, dict) else {}
        sections["model"] = {**(sections.get("model") or {}), **overrides}
    found["args"] = Namespace(**arguments) if isinstance(arguments, dict) else None
    found["cfg"] = _tree(sections)
    return found


def setup_task(cfg: Any) -> Task:
    """Read a task's dictionaries, which are what a task is here.

    Args:
        cfg: Namespace or section of a configuration with `data`, and the task's name as `_name` or
            `task`.

    Raises:
        InputError: a task of fairseq's that is none of a RoBERTa, or no dict.txt.
    """
    values = dict(cfg) if isinstance(cfg, Mapping) else vars(cfg)
    name = values.get("_name") or values.get("task") or "masked_lm"
    if name not in TASKS:
        raise InputError(f"no task {short_repr(name)}; there are {', '.join(TASKS)}")
    data = str(values.get("data", "."))
    words, labels = read_dictionaries(Folder(data))
    if words is None:
        raise InputError(f"{data} has no dict.txt, and no input0/dict.txt; name its folder as data")
    return Task(
        Dictionary.parse(words, f"{data}/dict.txt", add_mask=True),
        None if labels is None else Dictionary.parse(labels, f"{data}/label/dict.txt"),
        name=str(name),
    )


@dataclass(frozen=True)
class TaskClass:
    """What stands for one of fairseq's classes of tasks: called, it makes a task."""

    name: str
    """fairseq's name of it."""

    def __call__(
        self, cfg: object, dictionary: Dictionary, label_dictionary: Dictionary | None = None
    ) -> Task:
        """Make a task of its dictionaries; a masked model's gets `<mask>`, as in fairseq.

        Args:
            cfg: its arguments, which say nothing here.
            dictionary: of the texts.
            label_dictionary: of the classes.
        """
        if self.name in MASKED:
            dictionary.add_symbol(MASK)
        return Task(dictionary, label_dictionary, name=self.name)

    def setup_task(self, cfg: Any) -> Task:
        """Read the dictionaries; see `setup_task`."""
        return setup_task(cfg)


def get_task(name: str) -> TaskClass:
    """Return what makes tasks of one kind.

    Raises:
        InputError: a task of fairseq's that is none of a RoBERTa.

    Example:
        >>> get_task("masked_lm")(None, Dictionary()).mask_idx
        4
    """
    if name not in TASKS:
        raise InputError(f"no task {short_repr(name)}; there are {', '.join(TASKS)}")
    return TaskClass(name)


def register_bpe(name: str, dataclass: Any = None) -> Callable[[type], type]:
    """Let `build_bpe` make a caller's own engine by its name; decorates its class.

    Args:
        name: of the engine.
        dataclass: of its arguments; None: it takes what `build_bpe` is given.

    Raises:
        InputError: there is one of that name.
    """
    if name in _registered or name in TOKENIZER_KINDS:
        raise InputError(f"there is an engine {name!r}; choose another name")

    def register(kind: type) -> type:
        _registered[name] = (kind, dataclass)
        return kind

    return register


_registered: dict[str, tuple[type, Any]] = {}
"""Classes that a script registered, with those of their arguments."""


@dataclass
class GPT2BPEConfig:
    """Paths of GPT-2's two files; None: those in the package."""

    gpt2_encoder_json: str | None = None
    gpt2_vocab_bpe: str | None = None


def build_gpt2(cfg: Any) -> SubwordTokenizer | None:
    """Make GPT-2's BPE as fairseq's class `GPT2BPE` does of its arguments.

    Args:
        cfg: with `gpt2_encoder_json` and `gpt2_vocab_bpe`; other arguments say nothing here.
    """
    names = ("gpt2_encoder_json", "gpt2_vocab_bpe")
    return build_bpe(Namespace(bpe="gpt2", **{name: getattr(cfg, name, None) for name in names}))


def build_bpe(cfg: Any) -> SubwordTokenizer | None:
    """Make what cuts texts, by fairseq's name and files.

    Args:
        cfg: "gpt2", or a name of `register_bpe`; a Namespace with `bpe`, or a section with `_name`,
            and the paths that the kind has: `sentencepiece_model`; `bpe_vocab` and `bpe_merges`;
            `gpt2_encoder_json` and `gpt2_vocab_bpe`, which are GPT-2's in the package where they
            are addresses.

    Returns:
        None where no kind is named.

    Example:
        >>> build_bpe("gpt2").encode("Hello world!")
        '15496 995 0'
    """
    if isinstance(cfg, ReadOnlyArguments) and LOADED in cfg:
        engine: SubwordTokenizer = cfg[LOADED]
        return engine
    values = {"bpe": cfg} if isinstance(cfg, str) or cfg is None else dict(vars(cfg))
    kind = values.get("_name") or values.get("bpe")
    if kind is None:
        return None
    if kind in _registered:
        made, arguments = _registered[kind]
        if arguments is None:
            return made(cfg)  # type: ignore[no-any-return]
        names = {field.name for field in fields(arguments)} & values.keys()
        return made(arguments(**{name: values[name] for name in names}))  # type: ignore[no-any-return]
    given = {name: value for name, value in values.items() if name in _FILES}
    if any(str(value).startswith("http") for value in given.values()):
        given = {}  # the addresses of GPT-2's own tables
    keywords = tokenizer_keywords(kind, given)
    return engine_in(None, keywords) or GPT2BPE.shipped()


_FILES = (
    "gpt2_encoder_json",
    "gpt2_vocab_bpe",
    "sentencepiece_model",
    "sentencepiece_vocab",
    "sentencepiece_enable_sampling",
    "bpe_vocab",
    "bpe_merges",
    "bpe_add_prefix_space",
)


def build_tokenizer(cfg: Any) -> None:
    """Return None: a RoBERTa has no tokenizer before its BPE.

    Raises:
        InputError: a tokenizer is named.
    """
    values = {"tokenizer": cfg} if isinstance(cfg, str) or cfg is None else vars(cfg)
    name = values.get("_name") or values.get("tokenizer")
    if name is not None:
        raise InputError(
            f"no tokenizer {short_repr(name)}: RoBERTa cuts texts by its BPE alone; give it the "
            "text as it was written"
        )


def get_encoder(encoder_json_path: str, vocab_bpe_path: str) -> GPT2Encoder:
    """Read GPT-2's encoder of its two files: `encode(text)` and `decode(ids)` of numbers."""
    return GPT2BPE.from_files(encoder_json_path, vocab_bpe_path).bpe


def _arguments(roberta: RobertaHubInterface, data: str) -> ReadOnlyArguments:
    """The configuration of a loaded model in sections, with what else was loaded."""
    parts = {name: getattr(roberta, name) for name in LOADED_PARTS}
    bpe = {"_name": "gpt2" if isinstance(roberta.bpe, GPT2BPE) else "sentencepiece"}
    return ReadOnlyArguments(
        {
            "model": roberta.args,
            "task": ReadOnlyArguments({"_name": roberta.task.name, "data": data}),
            "bpe": ReadOnlyArguments({**bpe, LOADED: roberta.bpe}),
            LOADED: {**parts, "bpe": roberta.bpe},
        }
    )


def _tree(value: Any) -> Any:
    if isinstance(value, dict):
        return ReadOnlyArguments({name: _tree(part) for name, part in value.items()})
    return value


def _file(name: object) -> str:
    if not os.path.isfile(str(name)):
        raise CheckpointError(f"Model file not found: {name}")
    return str(name)


def _listed(filenames: object) -> list[str]:
    if isinstance(filenames, str) or not isinstance(filenames, (list, tuple)) or not filenames:
        raise InputError(f"filenames is {short_repr(filenames)}; pass a list of paths")
    return list(filenames)
