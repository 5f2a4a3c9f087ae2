"""Runs `roberta-hub train`: pre-training and fine-tuning, with settings as hydra writes them."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take nothing: all that follows `train`, `--help` too, are settings."""


def run(given: argparse.Namespace) -> int:
    """Train as `given.settings` say; the exit status."""
    from roberta_hub.train.run import command  # with all that it needs

    return command(given.settings)
