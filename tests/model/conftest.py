"""The compiled part, built if need be; and one thread for every test.

Matrices this small are quickest on one, and leave the other tests their cores.
"""

from collections.abc import Iterator
from pathlib import Path

import forks
import pytest
import torch

from roberta_hub.model import compiled, kernels

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The library, built here if it was not; the tests of its numbers skip without a compiler."""
    sources = [p for p in (ROOT / "roberta_hub/model").iterdir() if p.suffix in (".cpp", ".h")]
    newest = max(source.stat().st_mtime for source in sources)
    there = compiled.library() is not None
    if there and compiled.LIBRARY_PATH.stat().st_mtime >= newest:
        if not compiled.supported_formats():
            pytest.skip("no AVX2")
        yield compiled.LIBRARY_PATH
        return
    place = tmp_path_factory.mktemp("built")
    command = ["setup.py", "-q", "build_ext", "--build-lib", place, "--build-temp", place]
    forks.run(*command, cwd=ROOT, timeout=280)
    library = next(place.rglob("_compiled.so"), None)
    if library is None:
        pytest.skip("no compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "LIBRARY_PATH", library)
        compiled.library.cache_clear()
        if not compiled.supported_formats():
            pytest.skip("no AVX2")
        yield library
    compiled.library.cache_clear()


@pytest.fixture(params=compiled.LEVELS)
def level(
    request: pytest.FixtureRequest, built: Path, monkeypatch: pytest.MonkeyPatch
) -> compiled.Level:
    """Each level of instruction sets in turn, pinned; skips those that this CPU lacks."""
    there = compiled.library()
    assert there is not None
    if request.param not in there.shapes:
        pytest.skip(f"no {request.param}")
    monkeypatch.setenv(compiled.LEVEL_VARIABLE, request.param)
    chosen: compiled.Level = request.param
    return chosen


@pytest.fixture
def amd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU on which every form runs compiled that can, and nothing pinned."""
    monkeypatch.delenv(kernels.PIN_VARIABLE, raising=False)
    others = {"amx_int8", "avx_vnni"}  # with these int8 may run on torch's operators
    features = kernels.cpu().features - others
    monkeypatch.setattr(kernels, "cpu", lambda: kernels.CPU("AuthenticAMD", features))
