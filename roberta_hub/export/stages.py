"""Turns what torch, the ONNX exporter and ONNX Runtime raise into an `ExportError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from roberta_hub.errors import ExportError, Remedy, RobertaHubError

_PACKAGES = {"onnx": ("torch", "onnx", "onnxscript", "onnxruntime"), "torch": ("torch",)}
"""By the format, whose versions decide what works."""


@contextmanager
def stage(what: str, format: str, opset: int, remedy: Remedy) -> Iterator[None]:
    """Name the step of an export that fails, and with which versions.

    What a disk refuses, lack of memory and Ctrl-C pass as they are.

    Args:
        what: the step, "tracing the model".
        format: "onnx" or "torch".
        opset: of ONNX.
        remedy: what may do instead.

    Raises:
        ExportError: anything else was raised inside.

    Example:
        >>> with stage("tracing the model", "torch", 18, Remedy("Another torch may do")):
        ...     raise KeyError("aten.what")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        roberta_hub.errors.ExportError: tracing the model fails (KeyError: 'aten.what'; torch ...
    """
    try:
        yield
    except (RobertaHubError, OSError, MemoryError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        asked = f"opset {opset}, " * (format == "onnx")
        raise ExportError(
            f"{what} fails ({type(error).__name__}: {said}; {asked}{_versions(format)}); nothing "
            "was written.",
            remedy=remedy,
        ) from error


def _versions(format: str) -> str:
    found = []
    for name in _PACKAGES[format]:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)
