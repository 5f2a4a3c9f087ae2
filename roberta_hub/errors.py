"""Defines the one family of errors.

Each error is also the built-in that fits, so `except ValueError` keeps working. A message says what
went wrong, where, the limit, and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_names(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the names that look like an unknown one, for a message; "" where none does.

    Example:
        >>> near_names("dropuot", ["dropout", "layers"])
        'dropout'
    """
    return " or ".join(difflib.get_close_matches(str(name)[:100], list(known), n=3, cutoff=cutoff))


class RobertaHubError(Exception):
    """Base of every error that roberta_hub raises on purpose."""

    def __str__(self) -> str:
        # KeyError would show repr(message), quotes and escapes included.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class InputError(RobertaHubError, ValueError):
    """A value has the right type but cannot be used: too long, out of range, empty."""


class InputTypeError(RobertaHubError, TypeError):
    """A value has the wrong type: bytes where text is needed, floats where ids are."""


class UnknownNameError(RobertaHubError, KeyError, ValueError):
    """A head, model name, layer or option that does not exist; the message lists what does."""


class UnknownAttributeError(RobertaHubError, AttributeError):
    """A method or attribute that an object does not have; the message says what does its work."""


class VocabularyError(RobertaHubError, ValueError):
    """A dictionary or BPE table that cannot be read, or that does not fit the weights."""


class CheckpointError(RobertaHubError, OSError, ValueError):
    """A checkpoint that is missing, damaged, unsafe, or of another shape than its configuration."""


class DownloadError(RobertaHubError, OSError):
    """A download that failed, was refused, or was forbidden by ROBERTA_HUB_OFFLINE."""


class MissingExtraError(RobertaHubError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class ExportError(RobertaHubError, RuntimeError):
    """An export that fails, or a file that does not answer as the model does; none was kept."""


class LakeError(InputError):
    """Units of a lake could not be done; all others are. `report` says which, and why."""

    report: object = None


class LicenceWarning(UserWarning):
    """Says what the licence of a model forbids, when the model is loaded by its name.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", LicenceWarning)  # once it has been read
    """
