"""RoBERTa's relatives arrive with their vocabularies, from either publisher, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from archives import VOCABULARY, WEIGHTS, model_files, pack, regular, visible
from safetensors.torch import save
from server import Server, body, ranged, status

from roberta_hub.checkpoint.fetch.catalogue import find_record
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.checkpoint.fetch.http import MIRROR_ENV
from roberta_hub.checkpoint.fetch.records import Record
from roberta_hub.errors import CheckpointError, DownloadError

PIECES = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n"
SETTINGS = b'{"do_lower_case": true}'
TENSORS = save({"weight": torch.arange(100_000.0)})
BERT = {"config.json": b"{}", "model.safetensors": TENSORS, "vocab.txt": PIECES}


def record_of(name: str) -> Record:
    found = find_record(name)
    assert found is not None
    return found


def serve(server: Server, repository: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        server.plan[f"/{repository}/resolve/main/{name}"] = [body(content)]


def files_in(folder: Path) -> dict[str, bytes]:
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    del found["manifest.json"]
    return found


# ---- Hugging Face's repositories ----


def test_a_repository_comes_with_its_vocabulary(server: Server, cache: Path) -> None:
    files = {**BERT, "tokenizer_config.json": SETTINGS}
    serve(server, "google-bert/bert-base-uncased", files)
    folder = fetch_model(record_of("bert-base-uncased"))
    assert folder == cache / "bert.base.uncased"
    assert files_in(folder) == files  # tokenizer.json is not there, and need not be
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["files"].keys() == files.keys()
    assert manifest["source"] == f"{server.url}/google-bert/bert-base-uncased/resolve/main"
    seen = json.loads((cache / "digests.json").read_text())
    assert {url.rpartition("/")[2] for url in seen} == files.keys()
    before = server.hits.total()
    assert fetch_model(record_of("bert.base.uncased")) == folder
    assert server.hits.total() == before


@pytest.mark.parametrize("name", ["config.json", "vocab.txt"])
def test_without_a_file_that_is_needed_there_is_no_model(
    server: Server, cache: Path, name: str
) -> None:
    serve(server, "google-bert/bert-base-uncased", {k: v for k, v in BERT.items() if k != name})
    with pytest.raises(DownloadError, match=f"resolve/main/{name} answered 404"):
        fetch_model(record_of("bert.base.uncased"))
    assert visible(cache) == set()


@pytest.mark.parametrize("code", [403, 503])
def test_an_optional_file_that_is_refused_is_no_absent_file(
    server: Server, cache: Path, code: int
) -> None:
    serve(server, "google-bert/bert-base-uncased", BERT)
    server.plan["/google-bert/bert-base-uncased/resolve/main/tokenizer.json"] = [status(code)]
    with pytest.raises(DownloadError, match=rf"tokenizer\.json .*{code}"):
        fetch_model(record_of("bert.base.uncased"))
    assert visible(cache) == set()


def test_an_optional_file_that_changed_is_an_alarm(server: Server, cache: Path) -> None:
    serve(server, "google-bert/bert-base-uncased", {**BERT, "tokenizer_config.json": SETTINGS})
    fetch_model(record_of("bert.base.uncased"))
    serve(server, "google-bert/bert-base-uncased", {"tokenizer_config.json": b"{}"})
    with pytest.raises(DownloadError, match=r"tokenizer_config\.json: it has sha256"):
        fetch_model(record_of("bert.base.uncased"), force=True)


def test_weights_in_the_old_form_are_taken_where_there_are_no_others(
    server: Server, cache: Path
) -> None:
    old = {"config.json": b"{}", "pytorch_model.bin": WEIGHTS, "vocab.txt": PIECES}
    serve(server, "google-bert/bert-base-uncased", old)
    folder = fetch_model(record_of("bert.base.uncased"))
    assert files_in(folder) == old
    before = server.hits.total()
    assert fetch_model(record_of("bert.base.uncased")) == folder
    assert server.hits.total() == before


@pytest.mark.parametrize("own", [True, False])
def test_spanberts_vocabulary_is_bert_base_caseds(server: Server, own: bool) -> None:
    repository = "SpanBERT/spanbert-base-cased"
    serve(server, repository, {"config.json": b"{}", "pytorch_model.bin": WEIGHTS})
    serve(server, repository if own else "google-bert/bert-base-cased", {"vocab.txt": PIECES})
    folder = fetch_model(record_of("SpanBERT/spanbert-base-cased"))
    assert files_in(folder).keys() == {"config.json", "pytorch_model.bin", "vocab.txt"}
    assert server.hits[f"/{repository}/resolve/main/model.safetensors"] == 0


def test_a_sentence_encoder_comes_with_its_pooling(server: Server) -> None:
    files = {**BERT, "modules.json": b"[]", "1_Pooling/config.json": b'{"a": 1}'}
    serve(server, "sentence-transformers/all-MiniLM-L6-v2", files)
    assert files_in(fetch_model(record_of("sentence-transformers/all-MiniLM-L6-v2"))) == files


def test_a_web_page_is_no_vocabulary(server: Server, cache: Path) -> None:
    page = b"\n<!DOCTYPE html><html>log in</html>"
    serve(server, "google-bert/bert-base-uncased", {**BERT, "vocab.txt": page})
    with pytest.raises(DownloadError, match=r"vocab\.txt is not what it should be.*web page"):
        fetch_model(record_of("bert.base.uncased"))
    assert visible(cache) == set()


def test_a_vocabulary_without_an_end_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roberta_hub.checkpoint.fetch.download.SMALL_BYTES", len(PIECES) - 1)
    serve(server, "google-bert/bert-base-uncased", BERT)
    with pytest.raises(DownloadError, match=r"vocab\.txt sends more than"):
        fetch_model(record_of("bert.base.uncased"))


def test_weights_that_break_off_are_resumed(server: Server) -> None:
    serve(server, "google-bert/bert-base-uncased", BERT)
    weights = "/google-bert/bert-base-uncased/resolve/main/model.safetensors"
    server.plan[weights] = [ranged(TENSORS, sent=150_000)]
    assert files_in(fetch_model(record_of("bert.base.uncased"))) == BERT
    assert server.hits[weights] == 3
    assert "bytes=300000-" in server.ranges


# ---- archives of fairseq's hub ----


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("xlmr.base", "/xlmr.base.tar.gz"),
        ("xlmr.xxl", "/xlmr/xlmr.xxl.tar.gz"),
        ("camembert.v0", "/camembert-base.tar.gz"),
        ("camembert-base-wikipedia-4gb", "/camembert-base-wikipedia-4gb.tar.gz"),
    ],
)
def test_an_archive_comes_with_its_sentencepiece_model(
    server: Server, name: str, path: str
) -> None:
    top = Path(path).name.removesuffix(".tar.gz") + "/"
    more = [regular(f"{top}sentencepiece.bpe.model", b"\x0a\x00"), regular(f"{top}README", b"")]
    server.plan[path] = [body(pack(*model_files(top), *more))]
    assert files_in(fetch_model(record_of(name))) == {
        "model.pt": WEIGHTS,
        "dict.txt": VOCABULARY,
        "sentencepiece.bpe.model": b"\x0a\x00",
    }


def test_gottbert_lies_elsewhere_and_a_mirror_has_it_too(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [regular("g/vocab.json", b"{}"), regular("g/merges.txt", b"#version: 0.2\n")]
    server.plan["/gottbert-base.tar.gz"] = [body(pack(*model_files("g/"), *more))]
    folder = fetch_model(record_of("gottbert-base"))
    assert files_in(folder).keys() == {"model.pt", "dict.txt", "vocab.json", "merges.txt"}
    monkeypatch.delenv(MIRROR_ENV)
    (archive,) = record_of("gottbert-base").origins[0].files
    assert archive.url == "https://dl.gottbert.de/fairseq/models/gottbert-base.tar.gz"


def test_a_vocabulary_is_no_checkpoint_of_an_archive(tmp_path: Path) -> None:
    from roberta_hub.checkpoint.fetch.archive import extract_archive

    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(pack(*model_files(), regular("toy/merges.txt", b"")))
    with pytest.raises(CheckpointError, match=r"checkpoint_file is 'merges.txt'"):
        extract_archive(archive, "merges.txt")
