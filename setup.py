"""Describes the package to pip.

Tool settings are in pyproject.toml, the versions that `make` installs in constraints.txt.
"""

import platform
import re
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

here = Path(__file__).parent
version = re.search(r'__version__ = "(.+)"', (here / "roberta_hub/__init__.py").read_text())[1]

extras = {
    "words": ["spacy>=3.8"],
    "train": [
        "accelerate>=1.0",
        "hydra-core>=1.3.6",
        "omegaconf>=2.3,<2.4",
        "tensorboard",
    ],
    "vocabulary": ["tokenizers>=0.21"],
    "tables": ["pyarrow>=15"],
    "scale": ["pyarrow>=17"],
    "ray": ["pyarrow>=17", "ray>=2.60"],
    "onnx": ["onnx>=1.18", "onnxscript>=0.5", "onnxruntime>=1.20"],
    "multilingual": ["sentencepiece>=0.2.3"],
    "hub": ["huggingface_hub>=1.31"],
    "evaluation": ["pytrec-eval-terrier>=0.5.7"],
    "index": ["bm25s>=0.3", "datasketch>=1.6", "lancedb>=0.40", "pyarrow>=17"],
    "docs": ["mkdocs-material>=9.6", "mkdocstrings[python]>=1.0", "nbconvert", "nbformat"],
    "plots": ["matplotlib>=3.7"],
    "serve": [
        "fastapi>=0.110",
        "uvicorn>=0.30",
        "orjson>=3.10",
        "prometheus-client>=0.20",
    ],
    "ui": ["gradio>=6.30,<7"],
    "notebooks": ["matplotlib>=3.7", "spacy>=3.8", "nbclient", "jupytext", "ipykernel"],
}
extras["test"] = [
    *extras["notebooks"],
    *extras["train"],
    *extras["vocabulary"],
    *extras["tables"],
    *extras["scale"],
    *extras["multilingual"],
    *extras["hub"],
    *extras["evaluation"],
    *extras["index"],
    *extras["onnx"],
    *extras["serve"],
    "pandas>=2",
    "polars",
    "pytest>=8",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "faiss-cpu",
    "html5lib",
    "psutil",
    "pyyaml",
    "blingfire==0.1.8",
    "transformers>=4.40",
    "peft>=0.17",
    "datasets>=3",
    "langchain-core>=0.3",
    "langchain-openai>=1.0",
    "openai>=2",
    "seqeval",
    "vaderSentiment",
    "textblob",
    "markdown-it-py",
    "scikit-learn",  # sentence-transformers', which is installed with --no-deps
    "numpy",
    "scipy",
    "joblib",
    # stock fairseq itself is installed with --no-deps: its pins are refused by today's pip
    "bitarray",
    "sacrebleu",
    "cython",
    "cffi",
]
extras["bench"] = [
    *extras["test"],
    "onnx",
    "onnxruntime>=1.20",
    "openvino>=2025.1",
    "nncf>=2.15",
    "ctranslate2>=4.5",
    "tokenizers>=0.21",
    "cleanlab",
]
extras["dev"] = [
    *extras["test"],
    *extras["docs"],
    *extras["ui"],
    "ruff",
    "mypy",
    "pydoclint",
    "types-requests",
    "types-tqdm",
    "playwright",
    "zizmor",
]


class Library(build_ext):
    """Builds compiled.cpp as a library for ctypes, which knows nothing of Python's versions."""

    def get_ext_filename(self, fullname: str) -> str:
        """Name the file without a version of Python."""
        return f"{fullname.replace('.', '/')}.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """List none: a library for ctypes has no PyInit function."""
        return []


class Wheel(bdist_wheel):
    """One wheel for every Python: of this platform with the library, of any without it."""

    def get_tag(self) -> tuple[str, str, str]:
        """Tell Python, ABI and platform apart, the last only where it matters."""
        built = any(Path(self.get_finalized_command("build").build_lib).rglob("_compiled.so"))
        return "py3", "none", super().get_tag()[2] if built else "any"


def is_linux_on_x86() -> bool:
    """Whether the compiled layers are of use: they are for Linux on x86-64."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


# Optional: without a compiler everything works, and layers take longer.
compiled = Extension(
    "roberta_hub.model._compiled",
    ["roberta_hub/model/compiled.cpp"],
    depends=[str(path.relative_to(here)) for path in here.glob("roberta_hub/model/*.h")],
    extra_compile_args=["-O3", "-std=c++17", "-g0", "-pthread", "-Wno-maybe-uninitialized"],
    extra_link_args=["-pthread"],
    optional=True,
)

setup(
    name="roberta-hub",
    version=version,
    description="RoBERTa and its relatives, with fairseq's torch.hub interface, on today's Python",
    # No URLs: none is known yet. With one, README's relative links become absolute here.
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    keywords=[
        "roberta",
        "xlm-roberta",
        "camembert",
        "bert",
        "fairseq",
        "torch hub",
        "transformer",
        "nlp",
        "text classification",
        "zero-shot",
        "sentence embeddings",
        "masked language model",
    ],
    packages=find_packages(include=["roberta_hub", "roberta_hub.*"]),
    package_data={
        "roberta_hub": [
            "py.typed",
            "text/unicode.json",
            "text/vocabulary/*",
            "train/conf/*.yaml",
            "train/conf/*/*.yaml",
            "models/*/*",
        ]
    },
    ext_modules=[compiled] if is_linux_on_x86() else [],
    cmdclass={"build_ext": Library, "bdist_wheel": Wheel},
    python_requires=">=3.11",
    install_requires=[
        "torch>=2.6",
        "tiktoken>=0.9",
        "regex",
        "requests>=2.31",
        "safetensors>=0.4.3",
        "filelock>=3.20.3",
        "tqdm",
        "click>=8.1",
    ],
    extras_require=extras,
    entry_points={"console_scripts": ["roberta-hub=roberta_hub.shell.main:main"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Natural Language :: English",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)
