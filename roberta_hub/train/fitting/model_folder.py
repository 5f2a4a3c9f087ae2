"""Writes the folder of a model that was made of a table: the model and a README.md, all at once."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from roberta_hub.arguments import path_of
from roberta_hub.errors import CheckpointError, InputError, Remedy, RobertaHubError
from roberta_hub.files import DISK_ERRORS, publishing_all, reason_of
from roberta_hub.folder import Folder
from roberta_hub.formats.ours import OURS, is_ours
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.text.learnt import digest, unpack
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.fitting.fitted import Fitted

README_MARK = "<!-- Made by roberta-hub fit, which may write over this folder. -->"
"""The first line of the README.md, by which a folder of ours is known."""
README = "README.md"
_ANOTHER = Remedy("name another folder with output=...", "name another folder with --output")


def check_output(output: object) -> Path:
    """Return the folder to write into, before a model is fetched or trained for it.

    Example:
        >>> check_output("mine").name
        'mine'
    """
    directory = path_of("output", output)
    for place in (directory, *directory.parents):
        try:
            there = stat.S_ISDIR(place.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # a name that is too long, a folder that cannot be read
            raise InputError(f"output is {str(directory)[:200]}: {error.strerror}") from None
        if not there:
            raise InputError(
                f"output is {str(directory)[:200]}, and {str(place)[:200]} is a file",
                remedy=_ANOTHER,
            )
    if directory.exists() and any(directory.iterdir()) and not holds_model(directory):
        names = Folder(directory).listing()
        raise InputError(
            f"output is {str(directory)[:200]}, which holds {names} and was not made by fit",
            remedy=_ANOTHER,
        )
    _check_writable(directory)
    return directory


def _check_writable(directory: Path) -> None:
    """Refuse a folder that cannot be written, or of which none can be made."""
    place = Path(os.path.abspath(directory))
    while not place.is_dir() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise InputError(
            f"output is {str(directory)[:200]}, and {place} cannot be written ({error.strerror})",
            remedy=_ANOTHER,
        ) from None


def holds_model(directory: Path) -> bool:
    """Tell whether a folder holds a model that `fit` made, which another one may replace."""
    try:
        with open(directory / README, encoding="utf-8") as file:
            marked = file.readline().strip() == README_MARK
        return marked and is_ours(Folder(directory))
    except (OSError, ValueError, RobertaHubError):
        return False


def check_same_table(directory: Path, texts: Sequence[Text]) -> None:
    """Refuse to replace the model of another table, where nobody has named the folder.

    A table is the same where it has half of the texts that the model there was trained on, or where
    the model was trained on half of its texts: rows come and go.
    """
    if not holds_model(directory):
        return
    learnt = unpack(Folder(directory).json("config.json").get("learnt"))
    own = set(map(digest, texts))
    if 2 * len(own & learnt) < max(1, min(len(own), len(learnt))):
        raise InputError(
            f"{directory} holds a model that fit made of another table",
            remedy=Remedy(
                "name another folder with output=...",
                f"--output NAME writes this one elsewhere, --output {directory} replaces that one",
            ),
        )


def finished(
    roberta: RobertaHubInterface, fitted: Fitted, output: Path | None, card: Callable[[Path], str]
) -> RobertaHubInterface:
    """Write a trained model and load it again; without a folder, leave it as a loaded one is."""
    if output is None:
        made = roberta.to("cpu").train()
        made.source = f"fit of {fitted.source}"
    else:
        write_folder(roberta, output, card(output))
        made = load_model(output)
    made.fitted = fitted.of(made)
    return made


def write_folder(roberta: RobertaHubInterface, output: Path, card: str) -> None:
    """Write the model and its card into a folder; what is there is whole at every instant.

    A vocabulary that an earlier model left there goes, else it would be read with the new weights.
    """
    try:
        with publishing_all(output, OURS.passing) as work:
            roberta.save(work)
            (work / README).write_text(f"{README_MARK}\n{card}\n", encoding="utf-8")
    except OSError as error:  # CheckpointError is one, and names a temporary file
        cause = error.__cause__ if isinstance(error, RobertaHubError) else error
        if not isinstance(cause, OSError) or cause.errno not in DISK_ERRORS:
            raise
        raise CheckpointError(
            f"{str(output)[:200]}: cannot be written ({reason_of(cause)}); what was there is as "
            "before. Free some room",
            remedy=Remedy("or name another folder with output=...", "or name another with -o"),
        ) from error
