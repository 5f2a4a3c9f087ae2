"""Runs `roberta-hub models`: lists the models that can be loaded by name."""

from __future__ import annotations

import argparse

import torch

from roberta_hub.checkpoint.fetch import download
from roberta_hub.checkpoint.fetch.catalogue import config_of, ships
from roberta_hub.checkpoint.fetch.records import MODELS
from roberta_hub.hub import RobertaModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take nothing."""


def run(given: argparse.Namespace) -> int:
    """Print the table; the exit status."""
    return models()


def models() -> int:
    """Print a table of the catalogue."""
    print(f"{'name':<20} {'alias':<20} {'shape':<9} {'parameters':>11}  cached")
    for record in MODELS:
        with torch.device("meta"):
            model = RobertaModel(config_of(record))
            for head, labels in record.labels.items():
                model.register_classification_head(head, len(labels))
        count = sum(parameter.numel() for parameter in model.parameters())
        shape = f"{model.config.num_layers} x {model.config.embed_dim}"
        places = {
            "yes": download.find_cached,
            "in fairseq's cache": download.find_in_fairseq_cache,
            "in torch.hub's cache": download.find_in_torch_hub,
        }
        cached = "in the package"
        if not ships(record):
            cached = next((place for place, find in places.items() if find(record)), "no")
        print(f"{record.name:<20} {record.aliases[0]:<20} {shape:<9} {count:>11,}  {cached}")
    return 0
