"""An installed fairseq made importable. fairseq is a peer to compare with, never a dependency."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import threading
from types import ModuleType

from roberta_hub.errors import MissingExtraError

_IMPORTING = threading.RLock()


def import_fairseq() -> ModuleType:
    """Import stock fairseq 0.12.2 on today's Python.

    Since Python 3.11 a dataclass refuses a default that has no hash, and fairseq's configs are
    full of them (`common: CommonConfig = CommonConfig()`): a plain `import fairseq` dies. The
    check is eased for fairseq's own classes during the import and stands again afterwards.

    Returns:
        The module `fairseq`; plain imports of it and of `fairseq_cli` work from then on.

    Raises:
        MissingExtraError: fairseq, or a package that it imports, is not installed.
    """
    with _IMPORTING:
        try:
            spec = importlib.util.find_spec("fairseq")
            if spec is None or spec.origin is None:  # no origin: a mere folder of that name
                raise ModuleNotFoundError("No module named 'fairseq'", name="fairseq")
            strict = dataclasses._get_field  # type: ignore[attr-defined]

            def eased(cls: type, name: str, *rest: object) -> object:
                default = getattr(cls, name, None)
                if isinstance(default, dataclasses.Field):
                    default = default.default
                kind = type(default)
                if kind.__hash__ is not None or not kind.__module__.startswith("fairseq."):
                    return strict(cls, name, *rest)
                kind.__hash__ = object.__hash__  # all that the check looks at
                try:
                    return strict(cls, name, *rest)
                finally:
                    kind.__hash__ = None

            dataclasses._get_field = eased  # type: ignore[attr-defined]
            try:
                return importlib.import_module("fairseq")
            finally:
                dataclasses._get_field = strict  # type: ignore[attr-defined]
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"fairseq cannot be imported: {error.name!r} is not installed. "
                "Run `pip install --no-deps fairseq==0.12.2` and "
                "`pip install hydra-core omegaconf bitarray sacrebleu regex tqdm numpy`"
            ) from error
