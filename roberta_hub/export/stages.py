"""Turns errors of torch, the ONNX exporter and ONNX Runtime into `ExportError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from roberta_hub.errors import ExportError, Remedy, RobertaHubError

_PACKAGES = {"onnx": ("torch", "onnx", "onnxscript", "onnxruntime"), "torch": ("torch",)}
"""Packages of each format, whose versions are reported."""


@contextmanager
def stage(what: str, format: str, opset: int, remedy: Remedy) -> Iterator[None]:
    """Report the failing step of an export, with versions.

    OSErrors, MemoryErrors and Ctrl-C pass unchanged.

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
