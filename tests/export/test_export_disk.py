"""An export that a disk or a person stops leaves the folder as it was, and says so."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import forks
import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
LIMITED = f"""
import gc, resource, signal, sys
from small_models import small_roberta
from roberta_hub.errors import CheckpointError
roberta = small_roberta(num_layers=1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, {resource.RLIM_INFINITY}))
try: roberta.export(sys.argv[1], sys.argv[2])
except CheckpointError as error: print(error)
gc.collect()
"""


@pytest.mark.parametrize("format", ["torch", "onnx"])
def test_a_disk_that_fills_up(format: str, tmp_path: Path) -> None:
    if format == "onnx":
        pytest.importorskip("onnxscript")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = forks.run("-c", LIMITED, tmp_path / "out", format, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "out: cannot be written (File too large); what was there is as before" in done.stdout
    assert "what was there is as before" in done.stdout
    assert list(tmp_path.iterdir()) == []
