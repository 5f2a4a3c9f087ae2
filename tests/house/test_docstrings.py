"""`tools/docstrings.py` sees docstrings that say something else than the signature."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''"""A module."""


def scale(x: float, by: float = 2.0, *more: float) -> float:
    """Multiply.

    Args:
        x: what is multiplied.
        by: the factor.
        more: factors too.

    Returns:
        The product.

    Example:
        >>> scale(1.0)
        2.0
    """
    return x * by * sum(more, 1.0)


class Scale:
    """A factor that is kept.

    Args:
        by: the factor.
    """

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: float) -> float:
        """The product.

        Example:
            >>> Scale(2.0)(1.0)
            2.0
        """
        return scale(x, self.by)
'''


@pytest.mark.system
@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("", "", set()),
        ("        x: what is multiplied.\n", "", {"DOC101", "DOC103"}),
        ("        by: the factor.\n        more", "        factor: it.\n        more", {"DOC103"}),
        ("x: what is multiplied.\n        by: the", "by: b.\n        x: the", {"DOC104"}),
        ("more: factors too.\n", "more: factors too.\n        y: no.\n", {"DOC102"}),
        ("by: float) -> None", "by: float, sign: int) -> None", {"DOC101", "DOC103"}),
    ],
)
def test_what_is_wrong_is_seen(tmp_path: Path, old: str, new: str, codes: set[str]) -> None:
    if not Path(sys.executable).with_name("pydoclint").is_file():
        pytest.skip("no pydoclint; `make check` installs it")
    assert old in SOURCE
    path = tmp_path / "module.py"
    path.write_text(SOURCE.replace(old, new) if old else SOURCE)
    ran = subprocess.run(
        [sys.executable, ROOT / "tools/docstrings.py", path], capture_output=True, text=True
    )
    assert ran.returncode == bool(codes), ran.stdout + ran.stderr
    found = {part for part in ran.stdout.replace(":", " ").split() if part.startswith("DOC")}
    assert codes <= found
    assert not found or str(path) in ran.stdout


def test_public_functions_tell_their_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = load_script(ROOT / "tools/docstrings.py")
    path = tmp_path / "roberta_hub/module.py"
    path.parent.mkdir()
    path.write_text(SOURCE.replace("    Args:\n        x:", "    Note:\n        x:"))
    public = {(str(path), name) for name in ("scale", "Scale", "Scale.__call__")}
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "public", lambda: public)
    assert tool.misplaced([path]) == [f"{path}:4: scale lacks Args: x, by, more"]
    path.write_text(SOURCE)
    assert tool.misplaced([path]) == []
    public.clear()
    assert [line.partition(": ")[2] for line in tool.misplaced([path])] == [
        "scale is internal: no Args, Returns",
        "Scale is internal: no Args",
    ]
