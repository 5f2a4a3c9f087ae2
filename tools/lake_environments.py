"""Builds environments for other engines: lakes, exported models, servers, sentence vectors, mteb.

    python tools/lake_environments.py FOLDER [NAME]...
    ROBERTA_HUB_LAKES=FOLDER python -m pytest -q tests/scale tests/export tests/evaluation
    ROBERTA_HUB_LAKES=FOLDER python benchmarks/small.py

Each has the packages of one engine, since they do not agree on all versions: Daft wants pyarrow
before 26, optimum transformers before 5. Torch and the rest they borrow from the interpreter that
runs this.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

ENVIRONMENTS = {
    "ray": ["ray>=2.60"],
    "ray_data": ["ray[data]>=2.60"],
    "daft": ["daft>=0.7.26", "pyarrow>=17,<26"],
    "spark": ["pyspark>=4.1"],
    "moto": ["moto[s3,server]>=5"],
    "optimum": ["optimum-onnx[onnxruntime]>=0.1"],
    "openvino": ["openvino>=2025.1"],
    "litserve": ["litserve>=0.2.19"],
    "ray_serve": ["ray[serve]>=2.60"],
    "sentence_torch": ["sentence-transformers>=6.2"],
    "sentence_onnx": ["sentence-transformers[onnx]>=5"],
    "sentence_openvino": [
        "sentence-transformers>=6.2",
        "transformers>=4.51,<5.6",
        "optimum>=2.3",
        "openvino>=2026",
        "openvino-tokenizers>=2026",
        "nncf>=3.3",
        "datasets",
    ],
    "fastembed": ["fastembed>=0.7"],
    "llama": ["llama-cpp-python>=0.3.16", "gguf>=0.17"],  # built by g++ and cmake, some minutes
    "mteb": ["mteb>=2.3", "torchmetrics>=1.4"],
}
"""What each has of its own; engines of lakes need no more of Ray than its core."""
ALONE = {"sentence_openvino": ["optimum-intel>=2.2"]}
"""What is installed without its requirements: torchvision there would want a torch of its own."""
ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path, name: str) -> None:
    """Make one environment, or bring it up to date."""
    place = folder / name
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    borrowed = [str(ROOT), *dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib")))]
    # Read after the environment's own packages, which therefore come first.
    Path(own.stdout.strip(), "zz_borrowed.pth").write_text("\n".join(borrowed) + "\n")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # Some would rather have another torch, with all that a GPU needs.
    subprocess.run([*install, *ENVIRONMENTS[name], f"torch=={version('torch')}"], check=True)
    if name in ALONE:
        subprocess.run([*install, "--no-deps", *ALONE[name]], check=True)
    (place / "built").touch()  # half an environment is none


def main() -> None:
    """Build those that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ENVIRONMENTS))
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - ENVIRONMENTS.keys()):
        parser.error(f"no environment {', '.join(unknown)}; there are {', '.join(ENVIRONMENTS)}")
    for name in given.names or ENVIRONMENTS:
        build(given.folder, name)
        print(f"{given.folder / name} is ready")


if __name__ == "__main__":
    main()
