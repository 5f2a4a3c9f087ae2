"""Says how to install an extra, by what this package was installed from."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "roberta-hub"


def install(extra: str) -> str:
    """Return the command that installs what an extra names.

    No index has this package under a name that is known to be ours. So the command names the clone,
    the file or the address that this installation came from (PEP 610); where none is recorded, the
    extra's own packages.

    Example:
        >>> install("words").startswith("pip install ")
        True
    """
    try:
        installed: Distribution | None = distribution(NAME)
    except PackageNotFoundError:
        installed = None
    origin = _origin(installed)
    clone = Path(__file__).resolve().parents[1]
    if (clone / "setup.py").is_file():  # also where torch.hub keeps it, or on PYTHONPATH
        itself = origin.get("url") == clone.as_uri()
        editable = "-e " if itself and origin.get("dir_info", {}).get("editable") else ""
        return f'pip install {editable}"{clone}[{extra}]"'
    place = _place(origin, extra)
    if place is None:
        place = " ".join(f'"{need}"' for need in _needs(installed, extra))
    return f"pip install {place}" if place else f'pip install ".[{extra}]" in a clone of {NAME}'


def _origin(installed: Distribution | None) -> dict[str, Any]:
    """What pip recorded of the place that the package came from; {} where it recorded none."""
    try:
        found = json.loads((installed and installed.read_text("direct_url.json")) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _place(origin: dict[str, Any], extra: str) -> str | None:
    """What pip installs; None where nothing was recorded, or it is gone."""
    url = origin.get("url")
    if not isinstance(url, str):
        return None
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = Path(url2pathname(parts.path))
        return f'"{path}[{extra}]"' if path.exists() else None
    vcs = origin.get("vcs_info", {})
    if vcs:
        revision = vcs.get("requested_revision")
        url = f"{vcs.get('vcs')}+{url}" + (f"@{revision}" if revision else "")
    return f'"{NAME}[{extra}] @ {url}"'


def _needs(installed: Distribution | None, extra: str) -> list[str]:
    """The packages of an extra, from the installed metadata."""
    needs = (installed.requires if installed is not None else None) or []
    marks = (f"extra == '{extra}'", f'extra == "{extra}"')
    return [n.split(";")[0].strip() for n in needs if n.split(";")[-1].strip() in marks]
