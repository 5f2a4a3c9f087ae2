"""Coverage-guided fuzzing of one reader with atheris (`pip install atheris`).

    python -m tests.fuzz.fuzz_readers checkpoint --seconds 600

`--corpus DIRECTORY` and `--findings DIRECTORY` are optional.

Ends at once with the offending input when a reader raises anything but a RobertaHubError, takes ten
seconds or two gigabytes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from .mutate import mutated

NAMES = ("dictionary", "safetensors", "archive", "checkpoint", "config", "twin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, help="kept between runs; default: a new folder")
    parser.add_argument("--findings", type=Path, default=Path(), help="where offending inputs go")
    chosen = parser.parse_args()

    # Before the instrumentation, which makes importing torch take a minute.
    import pickletools
    import tarfile
    import zipfile

    import atheris
    import torch
    from torch import _weights_only_unpickler as unpickler

    with atheris.instrument_imports(include=["roberta_hub"]):
        from .targets import TARGETS, survive
    for function in (
        unpickler.Unpickler.load,
        unpickler._read_global_instruction,
        torch.load,
        torch.serialization._load,
        torch.serialization._legacy_load,
        pickletools._genops,
        tarfile.TarInfo.frombuf,
        tarfile.TarInfo._proc_member,
        tarfile.TarInfo._proc_pax,
        tarfile.TarInfo._proc_gnulong,
        tarfile.TarFile.next,
        tarfile.nti,
        zipfile.ZipFile._RealGetContents,
        zipfile._EndRecData,
        zipfile._EndRecData64,
    ):
        atheris.instrument_func(getattr(function, "__func__", function))
    target = TARGETS[chosen.target]
    # Memory for the files that the readers want by path: a disk would wear, and slow all down.
    room = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=room) as folder:
        home = Path(folder)
        corpus = chosen.corpus or home / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target.seeds()):
            (corpus / f"seed-{number}").write_bytes(seed)
        words = home / "words"
        words.write_text("\n".join(_escaped(token) for token in target.tokens), encoding="ascii")
        work = home / "work"
        work.mkdir()
        options = [
            f"-max_total_time={chosen.seconds}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-max_len=16384",
            f"-dict={words}",
            "-print_final_stats=1",
            f"-artifact_prefix={chosen.findings.resolve() / f'fuzz-{chosen.target}-'}",
        ]

        def once(data: bytes) -> None:
            survive(target, data, work)

        def mutate(data: bytes, max_size: int, seed: int) -> bytes:
            if seed % 2:
                return bytes(atheris.Mutate(data, max_size))
            return mutated(chosen.target, bytes(data), random.Random(seed))[:max_size]

        atheris.Setup([sys.argv[0], *options, str(corpus)], once, custom_mutator=mutate)
        atheris.Fuzz()


def _escaped(token: str) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in token.encode()) + '"'


if __name__ == "__main__":
    main()
