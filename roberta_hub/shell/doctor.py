"""Runs `roberta-hub doctor`: diagnoses an installation, and names remedies.

It checks versions, the cache and the environment, and runs a self-test.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import torch

import roberta_hub
from roberta_hub.checkpoint.converted import copies
from roberta_hub.checkpoint.fetch import download, http
from roberta_hub.checkpoint.fetch.archive import sha256_of
from roberta_hub.checkpoint.fetch.cache import (
    CHECKPOINT_FILE,
    DICTIONARY_FILES,
    MANIFEST_FILE,
    cache_root,
    is_complete,
)
from roberta_hub.checkpoint.fetch.catalogue import DOWNLOADED_MODELS
from roberta_hub.checkpoint.fetch.digests import known_digests
from roberta_hub.checkpoint.fetch.repositories import fault_of, pinned_repositories, pins
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.files import abandoned, read_json
from roberta_hub.hub import RobertaModel
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model import compiled, kernels, matrices
from roberta_hub.model.packing import collate_tokens
from roberta_hub.terminal import clean, without_secrets
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.task import Task

DOWNLOAD_BYTES = 3 << 30
"""Bytes for a first download of roberta.large, archive and unpacked files."""
ENVIRONMENT_VARIABLES = (
    "TORCH_HOME",
    "XDG_CACHE_HOME",
    "PYTORCH_FAIRSEQ_CACHE",
    "REQUESTS_CA_BUNDLE",
    download.OFFLINE_ENV,
    http.MIRROR_ENV,
    download.ENDPOINT_ENV,
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    kernels.PIN_VARIABLE,
    compiled.LEVEL_VARIABLE,
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "RAY_ADDRESS",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
)
"""Environment variables that change what the package does."""
REQUIRED_PACKAGES = (
    "torch",
    "tiktoken",
    "regex",
    "requests",
    "safetensors",
    "filelock",
    "tqdm",
    "click",
)
"""Packages without which something fails."""
PACKAGES = (
    *REQUIRED_PACKAGES,
    "sentencepiece",
    "huggingface_hub",
    "numpy",
    "spacy",
    "fairseq",
    "transformers",
)


def doctor(*, verify: bool = False) -> int:
    """Print the state of the installation, and the remedy of each problem."""
    problems: list[str] = []
    print("\n".join([*_versions(problems), *_cache(problems, verify), "", "Environment"]))
    for name in ENVIRONMENT_VARIABLES:
        if name in os.environ:
            print(f"  {name} = {without_secrets(os.environ[name])}")
    for name in (http.MIRROR_ENV, download.ENDPOINT_ENV):
        base = os.environ.get(name) or "https://"
        if not re.match(r"https://|http://(localhost|127\.0\.0\.1|\[::1\])(:|/|$)", base):
            problems.append(f"{name} is no https URL and is refused; correct or unset it")
    try:
        print(f"\nSelf-test\n  {_self_test()}")
    except Exception as error:  # any failure here is a finding
        what = f"{type(error).__name__}: {clean(error)}"
        again = "pip install --force-reinstall tiktoken regex safetensors"
        problems.append(f"self-test: {what}; reinstall its dependencies: {again}")
    print(f"\n{len(problems)} problems" if problems else "\nNo problems")
    print(*(f"  {number}. {text}" for number, text in enumerate(problems, 1)), sep="\n")
    return 1 if problems else 0


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


def _versions(problems: list[str]) -> Iterator[str]:
    package = Path(roberta_hub.__file__).resolve().parent
    hub = Path(torch.hub.get_dir()).resolve()
    copies = [
        folder.parent
        for folder in sorted(hub.glob("*/roberta_hub"))
        if (folder / "__init__.py").is_file()
    ]
    home = "torch.hub's copy" if package.parent in copies else "a checkout"
    kind = "installed" if "site-packages" in package.parts else home
    yield f"roberta_hub {roberta_hub.__version__} from {clean(package)} ({kind})"
    yield from (f"  torch.hub also has {clean(c)}" for c in copies if c != package.parent)
    yield f"  Python {platform.python_version()} on {platform.platform()}"
    for name in ("roberta-hub", *PACKAGES):
        try:
            # torch itself says for which device it was built, pip does not.
            version = torch.__version__ if name == "torch" else importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed"
        if name == "roberta-hub" and version not in ("not installed", roberta_hub.__version__):
            here = f"{roberta_hub.__version__} from {clean(package)} is imported"
            problems.append(f"pip has roberta-hub {version}, but {here}; pip uninstall one of them")
        elif version == "not installed" and name in REQUIRED_PACKAGES:
            problems.append(f"{name} is not installed; pip install {name}")
        yield f"  {name} {version}"
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < (2, 10):
        problems.append(
            f"torch {torch.__version__} has CVE-2026-24747: a hostile .pt file can corrupt memory "
            "even with weights_only; pip install -U 'torch>=2.10', until then load pickles of "
            "people you trust only"
        )
    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    cards += ["Apple MPS"] if torch.backends.mps.is_available() else []
    yield f"  devices: CPU with {torch.get_num_threads()} threads{''.join(f', {c}' for c in cards)}"
    yield f"  layers after optimize(): {_layer_implementation()}"


def _layer_implementation() -> str:
    """Which implementation computes layers, and why."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "torch's operators; the compiled part is for Linux on x86-64"
    if not compiled.LIBRARY_PATH.is_file():
        return "torch's operators; the compiled part was not built (pip install builds it by g++)"
    try:
        level = compiled.chosen_level()
    except InputError as error:
        return str(error)
    if level is None:
        return "torch's operators; the compiled part needs AVX2, or is of an older version"
    pin = os.environ.get(kernels.PIN_VARIABLE, "").strip().lower()
    if pin not in ("", "compiled"):
        return f"torch's operators, as {kernels.PIN_VARIABLE} says"
    many, few = [], []
    for name in compiled.WEIGHT_FORMATS:
        own, rows = compiled.level_of(name), matrices.compiled_rows_here(name)
        told = name if own == level else f"{name} ({own})"
        if rows == kernels.ANY_ROWS:
            many.append(told)
        elif rows:
            few.append(f"{told} up to {rows} tokens")
    if not many and not few:
        return (
            f"torch's operators; compiled layers for {level} were not measured on such a CPU, or "
            "$ONEDNN_MAX_CPU_ISA keeps them out"
        )
    return f"compiled for {level}, with weights in {', '.join([*many, *few])}"


def _cache(problems: list[str], verify: bool) -> Iterator[str]:
    root = cache_root()
    there = next(place for place in (root, *root.parents) if place.exists())
    free, writable = shutil.disk_usage(there).free, os.access(there, os.W_OK | os.X_OK)
    yield f"\nCache {clean(root)}, {_size(free)} free, {'' if writable else 'NOT '}writable"
    if not writable or free < DOWNLOAD_BYTES:
        size = _size(DOWNLOAD_BYTES)
        fault = f"has less than {size} free" if writable else "cannot be written"
        problems.append(
            f"{clean(there)} {fault}: cached models load, new downloads may fail; make room, or "
            "set TORCH_HOME to another folder"
        )
    stages = copies().glob(".incomplete-*")
    for folder in sorted(place for place in (*root.glob("*"), *stages) if place.is_dir()):
        if folder == copies():
            kept = [path.stat().st_size for path in folder.glob("*.safetensors")]
            yield f"  {folder.name}: safetensors copies of {len(kept)} pickles, {_size(sum(kept))}"
            continue
        if folder == pins():
            yield from _names(problems, verify)
            continue
        shown = clean(folder)
        leftover = re.fullmatch(r"\.(?:incomplete|old)-(.+)~\w+", folder.name)
        if leftover and (
            not abandoned(folder, locked=True) or _in_use(folder.with_name(f".{leftover[1]}.lock"))
        ):
            yield f"  {clean(leftover[1])}: another process is at work"
        elif leftover:
            problems.append(f"{shown} was left by a killed process; load that model, or delete it")
        elif not (bad := _defects(folder, verify)):
            manifest = read_json(folder / MANIFEST_FILE)
            size = sum(about["size"] for about in manifest["files"].values())
            origin = f"from {without_secrets(manifest.get('source'))}"
            digest = f"archive sha256 {clean(manifest.get('archive_sha256') or 'none')}"
            state = "complete, verified" if verify else "complete"
            yield f"  {clean(folder.name)}: {state}, {_size(size)}, {digest}, {origin}"
        else:
            problems.append(f"{shown}: {bad}; delete that folder and load the model again")
    for record in DOWNLOADED_MODELS:
        if (found := download.find_in_fairseq_cache(record)) is not None:
            yield f"  {record.name}: also in fairseq's cache, without digest: {clean(found)}"
        if (found := download.find_in_torch_hub(record)) is not None:
            yield f"  {record.name}: also as an archive in torch.hub's cache: {clean(found)}"
    try:
        known_digests()
    except RobertaHubError as error:
        problems.append(clean(error))


def _names(problems: list[str], verify: bool) -> Iterator[str]:
    """Say which models at Hugging Face are pinned, and whether their files are as they were."""
    try:
        for found in pinned_repositories():
            if (bad := fault_of(found, hashed=verify)) is not None:
                again = f"roberta-hub download --force {found.name}"
                problems.append(clean(f"{bad}: it is not what the hub lists; {again}"))
            elif all((found.folder / name).exists() for name in found.checked):
                state = "complete, verified" if verify else "complete"
                yield clean(f"  {found.label}: {state}, in {found.folder}")
            else:
                yield clean(
                    f"  {found.label}: not in {found.folder}, and fetched when it is loaded"
                )
    except RobertaHubError as error:
        problems.append(clean(error))


def _in_use(lock: Path) -> bool:
    """Whether a process holds this lock. A missing lock file is not created."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0) if lock.exists() else nullcontext():
            return False
    except OSError as error:  # a Timeout, or a cache that is read-only
        return isinstance(error, Timeout)


def _defects(folder: Path, verify: bool) -> str:
    """Defects of a folder of the cache; "": none."""
    try:
        files = read_json(folder / MANIFEST_FILE)["files"]
        checkpoint = next((name for name in files if name not in DICTIONARY_FILES), CHECKPOINT_FILE)
        if not is_complete(folder, checkpoint):
            return "not complete, files are missing or of another size than its manifest says"
        for name in files if verify else ():
            if sha256_of(folder / name) != files[name]["sha256"]:
                return f"{clean(name)} changed since it was downloaded"
        return ""
    except (RobertaHubError, OSError, LookupError, TypeError, AttributeError) as error:
        return f"its manifest cannot be used ({clean(error)})"


def _self_test() -> str:
    config = RobertaConfig(embed_dim=16, ffn_dim=32, num_layers=2, num_heads=2, max_positions=32)
    model = RobertaModel(config).eval()
    ids = RobertaHubInterface(config, Task(Dictionary.roberta()), model).encode("Hello world!")
    if ids.tolist() != [0, 31414, 232, 328, 2]:
        raise RobertaHubError(f"'Hello world!' is {ids.tolist()}, not [0, 31414, 232, 328, 2]")
    tokens = collate_tokens([ids, ids[1:3], ids[:4]])  # (3, 5)
    encoder, real = model.transformer, tokens.ne(config.padding_idx)
    with torch.no_grad():
        gap = model(tokens, features_only=True)[0] - encoder.finish(encoder.padded(tokens)[-1])
    if not gap[real].abs().max() < 1e-4:
        raise RobertaHubError(f"packed and padded computation differ by {gap[real].abs().max()}")
    return "'Hello world!' has the right ids; packed and padded computation agree"
