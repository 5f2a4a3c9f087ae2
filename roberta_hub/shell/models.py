"""Runs `roberta-hub models`: lists the models that can be loaded by name."""

from __future__ import annotations

from roberta_hub.checkpoint.fetch import download
from roberta_hub.checkpoint.fetch.catalogue import config_of, is_bundled
from roberta_hub.checkpoint.fetch.records import MODELS, Record
from roberta_hub.hub import RobertaModel
from roberta_hub.model.skeleton import shapes_only

COLUMN_TITLES = ("name", "shape", "parameters", "licence", "cached")


def models() -> int:
    """Print a table of the catalogue."""
    rows = [COLUMN_TITLES, *map(_row, MODELS)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMN_TITLES))]
    for name, shape, count, licence, cached in rows:
        print(
            f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {count:>{widths[2]}}  "
            f"{licence:<{widths[3]}}  {cached}"
        )
    return 0


def _row(record: Record) -> tuple[str, str, str, str, str]:
    """Describe a model, and where its files are."""
    with shapes_only():
        model = RobertaModel(config_of(record))
        if record.pooler:
            model.add_pooler()
        if record.replaced_head:
            model.add_replaced_head()
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
    if not is_bundled(record):
        cached = next((place for place, find in places.items() if find(record)), "no")
    # Some records add where the licence is stated.
    licence = record.licence.partition(";")[0].partition(" by ")[0]
    return record.name, shape, f"{count:,}", licence, cached
