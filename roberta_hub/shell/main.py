"""Runs the command roberta-hub: finds the verb that is asked for, and imports only that."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Protocol

import roberta_hub
from roberta_hub.errors import RobertaHubError
from roberta_hub.terminal import clean


class Verb(Protocol):
    """What the module of a verb offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say what the verb takes."""

    def run(self, given: argparse.Namespace) -> int:
        """Do what is asked, print the result and return the exit status."""


VERBS = {
    "scan": "what is inside a checkpoint, without running it",
    "doctor": "versions, devices, cache, environment, a self-test",
    "pin": "for maintainers: catalogue rows with the digests on record here",
    "models": "names, sizes, and which are in the cache",
    "train": "pre-train or fine-tune; see train --help",
}
"""The verbs with their help. It stands here, so that `roberta-hub --help` imports none of them."""
_EXAMPLES = """\
examples:
  roberta-hub scan model.pt                what a file from elsewhere asks for, without running it
  roberta-hub scan --json *.pt *.tar.gz    the same for programs
  roberta-hub doctor --verify              is everything in order, the cached files included

scan exits with 0 if load_model accepts what the files ask for, 1 if anything is refused, 2 if one
is no checkpoint; doctor with 1 if there is a problem; pin with 1 if records contradict each other.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: what follows `roberta-hub`; None: this process's own.

    Returns:
        The exit status.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="roberta-hub",
        description="Scans files before loading, looks after installation and cache, trains.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=roberta_hub.__version__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    asked = next((word for word in arguments if not word.startswith("-")), "")
    for name, summary in VERBS.items():
        own = verbs.add_parser(name, help=summary, add_help=name != "train")
        if name == asked:
            verb(name).add_arguments(own)
    given, settings = parser.parse_known_args(arguments)
    if settings and given.verb != "train":
        parser.error(f"unrecognized arguments: {' '.join(settings)}")
    given.settings = settings
    for stream in (sys.stdout, sys.stderr):  # an odd character in a path is no reason to crash
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    try:
        return verb(given.verb).run(given)
    except RobertaHubError as error:
        print(f"roberta-hub: {clean(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def verb(name: str) -> Verb:
    """Import the module of one verb, which brings torch and all else that the verb needs."""
    if name == "scan":
        from roberta_hub.shell import scan

        return scan
    if name == "doctor":
        from roberta_hub.shell import doctor

        return doctor
    if name == "pin":
        from roberta_hub.shell import pin

        return pin
    if name == "models":
        from roberta_hub.shell import models

        return models
    from roberta_hub.shell import train

    return train
