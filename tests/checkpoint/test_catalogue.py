import dataclasses
from urllib.parse import urlsplit

import pytest

from roberta_hub.checkpoint.fetch.catalogue import (
    DOWNLOADED_MODELS,
    bundled_path,
    config_of,
    files_of,
    find_record,
    names_of,
    suggestions,
)
from roberta_hub.checkpoint.fetch.records import MODELS, ROBERTA, Record, available_models
from roberta_hub.config import BASE, LARGE, TINY
from roberta_hub.folder import Folder
from roberta_hub.formats.ours import read_store
from roberta_hub.settings import column


def test_the_four_models_of_fairseqs_hub_in_order_and_our_own():
    assert available_models()[:5] == [
        "roberta.base",
        "roberta.large",
        "roberta.large.mnli",
        "roberta.large.wsc",
        "roberta.tiny",
    ]


def test_the_model_in_the_package_is_what_its_row_says():
    (record,) = [record for record in MODELS if record not in DOWNLOADED_MODELS]
    checkpoint = read_store(Folder(bundled_path(record)), None)
    assert checkpoint.config == config_of(record) == TINY
    assert column(checkpoint.known_heads, "labels") == dict(record.labels)


FAIRSEQS = [record for record in DOWNLOADED_MODELS if record in ROBERTA]


@pytest.mark.parametrize("record", FAIRSEQS, ids=lambda record: record.name)
def test_rows_are_consistent(record: Record):
    (archive,) = files_of(record, "fairseq")
    assert archive.url == f"https://dl.fbaipublicfiles.com/fairseq/models/{record.name}.tar.gz"
    assert urlsplit(archive.url).scheme == "https"
    assert config_of(record) == (BASE if record.name == "roberta.base" else LARGE)
    assert archive.sha256 is None, "fairseq publishes no digests; never invent one"
    assert archive.size is None, "nor sizes"
    assert record.licence == "MIT"


def test_the_second_source():
    assert {
        record.name: [file.url for file in files_of(record, "huggingface")] for record in FAIRSEQS
    } == {
        "roberta.base": urls_of("FacebookAI/roberta-base"),
        "roberta.large": urls_of("FacebookAI/roberta-large"),
        "roberta.large.mnli": urls_of("FacebookAI/roberta-large-mnli"),
        "roberta.large.wsc": [],
    }
    assert all(record.origins[0].kind == "fairseq" for record in FAIRSEQS)
    files = [file for record in MODELS for origin in record.origins[1:] for file in origin.files]
    assert all(file.size is file.sha256 is None for file in files), "never an invented one"


def urls_of(repository: str) -> list[str]:
    folder = f"https://huggingface.co/{repository}/resolve/main"
    return [f"{folder}/config.json", f"{folder}/model.safetensors"]


def test_a_record_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MODELS[0].origins = ()  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        MODELS[0].origins[0].files[0].url = "https://example.invalid"  # type: ignore[misc]


@pytest.mark.parametrize("record", MODELS, ids=lambda record: record.name)
def test_found_by_name_and_by_identifier(record: Record):
    assert find_record(record.name) is record
    assert record.identifier.isidentifier()
    assert record.identifier in (record.name, *record.aliases)
    if record in ROBERTA:
        assert record.aliases == (record.name.replace(".", "_"),)
    for alias in (*record.aliases, *record.elsewhere):
        assert find_record(alias) is record


def test_names_and_aliases_are_unique():
    names = [name for record in MODELS for name in names_of(record)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "name", ["", ".", "roberta", "roberta.huge", "../roberta.base", "ROBERTA.BASE"]
)
def test_unknown_names_are_none(name: str):
    assert find_record(name) is None


def test_labels_and_task():
    assert {record.name: record.labels for record in FAIRSEQS if record.labels} == {
        "roberta.large.mnli": {"mnli": ("contradiction", "neutral", "entailment")}
    }
    assert [record.name for record in MODELS if record.task == "wsc"] == ["roberta.large.wsc"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("roberta-base", "roberta.base"),
        ("roberta.bse", "roberta.base"),
        ("roberta-large-mnli", "roberta.large.mnli"),
        ("RoBERTa_Large_WSC", "roberta.large.wsc"),
    ],
)
def test_suggestions(typed: str, meant: str):
    assert suggestions(typed)[0] == meant


def test_nothing_is_suggested_for_another_model():
    assert suggestions("bert") == []
    assert suggestions("") == []
