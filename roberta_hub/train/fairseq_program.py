"""Takes a pasted command apart: what starts fairseq's trainer, its name, and its own words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePosixPath

from roberta_hub.errors import InputError
from roberta_hub.other_names import FAIRSEQ_PROGRAMS

PROGRAMS = {
    "fairseq-train": False,
    "train.py": False,
    "fairseq_cli.train": False,
    "fairseq-hydra-train": True,
    "hydra_train.py": True,
    "fairseq_cli.hydra_train": True,
}
"""fairseq's trainers as commands, scripts and modules, and whether they take a yaml file."""
_STARTERS = ("env", "nohup", "time", "torchrun", "srun", "accelerate", "mpirun", "deepspeed")
"""What starts a program, other than python."""
_OF_SEVERAL = re.compile(r"torch|srun|accelerate|mpirun|deepspeed")
"""In what starts several processes of it."""


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take away the program's name, and what stands before it: variables, python, torchrun, srun.

    Example:
        >>> split_program("python -m fairseq_cli.train data-bin --fp16".split())
        (['data-bin', '--fp16'], [])
        >>> split_program("SEED=1 fairseq-train data-bin".split())[1]
        ['SEED=1: set it before roberta-hub, as for any program']
    """
    words = _one_line(list(words))
    at = _place_of_program(words)
    before = words[:at] if at is not None else _variables(words)
    own = words[at + 1 :] if at is not None else words[len(before) :]
    if at is None and (other := next(filter(None, map(other_program, own[:3])), "")):
        raise InputError(f"{other}; --fairseq takes a command of fairseq-train")
    if at is None and own and _is_starter(own[0]):
        raise InputError(
            f"{own[0]} starts a program, and none of fairseq's follows; write fairseq-train before "
            "its folder of data (`$(which fairseq-train)` is empty where fairseq is not installed)"
        )
    if at is not None and PROGRAMS[_name(words[at])] and not is_hydra(own):
        raise InputError(
            "fairseq-hydra-train needs --config-dir and --config-name, which name its yaml file"
        )
    variables = _variables(before)
    said = [f"{word}: set it before roberta-hub, as for any program" for word in variables]
    starter = " ".join(before[len(variables) :]).removesuffix(" $(which")
    if _OF_SEVERAL.search(starter):
        said.append(
            f"{starter}: one process trains here; several do where it starts this command, as "
            "`torchrun --nproc-per-node N -m roberta_hub train --fairseq ...`"
        )
    return own, said


def other_program(word: str) -> str:
    """Say what does the work of a program of fairseq's that is no trainer; "": it is none.

    Example:
        >>> other_program("fairseq-preprocess")
        'fairseq-preprocess is no trainer; `roberta-hub preprocess` writes its files'
        >>> other_program("fairseq_cli/validate.py") == other_program("fairseq_cli.validate")
        True
        >>> other_program("data-bin")
        ''
    """
    name = word.removesuffix(".py").replace("/", ".").replace("-", "_")
    _, begins, short = name.rpartition("fairseq_")
    program = short.removeprefix("cli.") if begins else ""
    found = FAIRSEQ_PROGRAMS.get(program, "")
    return f"fairseq-{program.replace('_', '-')} is no trainer; {found}" if found else ""


def is_hydra(words: Sequence[str]) -> bool:
    """Whether the words of a command name a yaml file."""
    return any(word.lstrip("-").startswith("config-") for word in words)


def _one_line(words: list[str]) -> list[str]:
    r"""Undo what a paste may leave of several lines: backslashes at ends, quotes around all.

    Example:
        >>> _one_line(["fairseq-train", "\\", "\n--task", "masked_lm"])
        ['fairseq-train', '--task', 'masked_lm']
    """
    if len(words) == 1 and len(words[0].split()) > 1:
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise InputError(f"{words[0][:100]}: {str(error).lower()}; close the quote") from None
    return [word.strip("\r\n") for word in words if not word or word.strip() not in ("", "\\")]


def _place_of_program(words: Sequence[str]) -> int | None:
    """Find the word that names fairseq's program, which comes before its own options."""
    for at, word in enumerate(words):
        if word in ("--task", "--arch", "-a", "--criterion"):
            break
        if _name(word) in PROGRAMS:
            return at
    return None


def _name(word: str) -> str:
    """Name a program without its folder; `$(which NAME)` may come as two words."""
    return PurePosixPath(word.strip("$()`").replace("\\", "/")).name.removesuffix(".exe")


def _is_starter(word: str) -> bool:
    name = _name(word)
    return name.startswith("python") or name in _STARTERS


def _variables(words: Sequence[str]) -> list[str]:
    """Return the variables that a command begins with: `CUDA_VISIBLE_DEVICES=0`."""
    return list(takewhile(lambda word: re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", word), words))
