"""What a hub refuses, and what it and the network do wrong, at a name: each is a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from families import KINDS, write_family
from hub_server import HubServer, as_hub, listing, load, read_folder, sha256, weights_asked
from server import body, redirect, status

import roberta_hub
from roberta_hub.scale.models import LoadedModel

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.system
NAME = "owner/tiny-bert"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as running:
        yield running


def digest_of(folder: Path) -> str:
    return LoadedModel(roberta_hub.load_model(folder)).digest


def test_no_network(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    said = load(tmp_path, None, NAME, env=nowhere)
    assert said["error"] == "DownloadError" and "127.0.0.1:9 cannot be reached" in said["text"]
    assert "HTTPS_PROXY and HF_ENDPOINT" in said["text"]
    load(tmp_path, hub, NAME)
    assert load(tmp_path, None, NAME, env=nowhere)["digest"] == digest_of(bert)
    home = tmp_path / "new"
    home.mkdir()
    said = load(home, None, NAME, env={**nowhere, "HF_HOME": str(tmp_path / "hf")})
    assert said["digest"] == digest_of(bert) and "cannot be reached" in said["warnings"][0]
    assert "The cache's" in said["warnings"][0]


# ---- refusals of the hub ----


def test_an_endpoint_that_is_not_https_is_refused(tmp_path: Path) -> None:
    said = load(tmp_path, None, NAME, env={"HF_ENDPOINT": "http://hub.example"})
    assert said["error"] == "DownloadError" and "only https is followed" in said["text"]


def test_a_proxy_is_taken(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    """The endpoint itself does not answer; the proxy is asked for its addresses."""
    hub.publish(NAME, bert)
    away = "http://127.0.0.1:9"  # another host than the CDN
    env = {"HF_ENDPOINT": away, "HTTP_PROXY": hub.url, "NO_PROXY": ""}
    said = load(tmp_path, None, NAME, env=env)
    assert said.get("digest") == digest_of(bert), said
    assert hub.order and all(away in asked or "/lfs/" in asked for asked in hub.order)


@pytest.mark.parametrize("kind", KINDS)
def test_every_family_by_name_is_as_by_path(tmp_path: Path, hub: HubServer, kind: str) -> None:
    pytest.importorskip("sentencepiece")
    folder = write_family(kind, tmp_path / "it")
    hub.publish(NAME, folder)
    said = load(tmp_path, hub, NAME)
    assert said.get("digest") == digest_of(folder), said


def test_a_commit_that_the_hub_lost(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    first = hub.publish(NAME, bert)
    load(tmp_path, hub, NAME)
    del hub.models[NAME].commits[first]
    hub.publish(NAME, {**read_folder(bert), "new.txt": b""})
    assert first in load(tmp_path, hub, NAME)["source"], "what is here stays"
    for path in (tmp_path / "hf").rglob("model.safetensors"):
        path.unlink()
    said = load(tmp_path, hub, NAME)
    assert said["error"] == "UnknownNameError" and f"no revision '{first}'" in said["text"]
    assert "revision='main'" in said["text"] and "download --update" in said["shell"]
    assert first not in load(tmp_path, hub, NAME, revision="main")["source"]


def test_not_found_or_private(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish("owner/private", bert, private=True)
    for name in ("owner/none", "owner/private"):
        said = load(tmp_path, hub, name)
        assert said["error"] == "UnknownNameError", said
        for part in (f"no path {name!r} here", hub.url, "private or gated", "hf auth login"):
            assert part in said["text"]
    said = load(tmp_path, hub, "owner/none", env={"HF_TOKEN": "hf_x"})
    assert "your token does not open it" in said["text"]
    said = load(tmp_path, hub, "owner/private", env={"HF_TOKEN": "hf_x"})
    assert f"at {commit} " in said["source"]
    assert "Bearer hf_x" in hub.tokens.values()
    assert set(hub.cdn.tokens.values()) == {""}, "no token goes to another host"
    for typed, meant in (
        ("sentence-transformers/all-MiniLM-L12-v3", "sentence-transformers/all-MiniLM-L12-v2"),
        ("facebook/roberta.base", "FacebookAI/roberta-base"),
        ("google-bert/bert-base-uncasd", "google-bert/bert-base-uncased"),
    ):
        assert f"did you mean {meant}" in load(tmp_path, hub, typed)["text"]


def test_gated(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert, gated=True)
    for env in ({}, {"HF_TOKEN": "hf_no"}):
        said = load(tmp_path, hub, NAME, env=env)
        assert said["error"] == "DownloadError"
        for part in (f"{NAME} is gated", f"{hub.url}/{NAME}", "hf auth login"):
            assert part in said["text"]
    hub.accepted.add("Bearer hf_yes")
    assert load(tmp_path, hub, NAME, env={"HF_TOKEN": "hf_yes"})["digest"] == digest_of(bert)


INFO = f"/api/models/{NAME}/revision/main?blobs=true"


def test_a_busy_hub_is_asked_again_as_it_says(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    hub.plan[INFO] = [status(429, {"Retry-After": "1"}), status(503), as_hub]
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)
    assert hub.hits[INFO] == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            status(429, {"Retry-After": "3600"}),
            ["answered 429", "wait 3600 seconds", "hf auth login"],
        ),
        (status(403), ["answered 403", "token"]),
        (
            status(401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
            ["answered 401", "not valid"],
        ),
        (body(b"<html>log in</html>"), ["not given", "login page"]),
        (body(b"[]"), ["not given", "HF_ENDPOINT"]),
        (body(b'{"id": "a/b", "sha": "../../x", "siblings": []}'), ["not given", "its commit is"]),
        (status(403, {"X-Error-Message": "Access to this resource is disabled."}), ["is disabled"]),
    ],
)
def test_an_answer_that_is_none(
    tmp_path: Path, hub: HubServer, answer: Any, words: list[str]
) -> None:
    hub.publish(NAME, {})
    hub.plan[INFO] = [answer]
    said = load(tmp_path, hub, NAME)
    assert said.get("error") == "DownloadError", said
    for part in [NAME, *words]:
        assert part in said["text"], said["text"]
    assert hub.hits[INFO] == 1


def test_a_hub_that_fails_is_told(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    hub.plan[INFO] = [status(500)]
    said = load(tmp_path, hub, NAME)
    assert said["error"] == "DownloadError" and "answered 500" in said["text"]
    assert hub.hits[INFO] == 3


# ---- files on the way ----


def path_of(hub: HubServer, commit: str, file: str) -> str:
    return f"/{NAME}/resolve/{commit}/{file}"


@pytest.mark.parametrize(
    ("file", "answer", "words"),
    [
        (
            "vocab.txt",
            status(404, {"X-Error-Code": "EntryNotFound"}),
            "404 for a file that it lists",
        ),
        ("vocab.txt", status(403), "the token does not allow it"),
        ("model.safetensors", status(403), "answered 403; try again later"),
        ("model.safetensors", status(500), "answered 500; try again later"),
    ],
)
def test_a_file_that_is_not_given(
    tmp_path: Path, hub: HubServer, bert: Path, file: str, answer: Any, words: str
) -> None:
    """The settings by the hub itself, the weights by the CDN."""
    commit = hub.publish(NAME, bert)
    blob = f"/lfs/{sha256((bert / file).read_bytes())}"
    hub.plan[f"HEAD {path_of(hub, commit, file)}"] = [answer] if file == "vocab.txt" else [as_hub]
    hub.cdn.plan[blob] = [answer]
    said = load(tmp_path, hub, NAME)
    assert said.get("error") == "DownloadError" and words in said["text"], said
    assert not list((tmp_path / "torch").rglob("names/*.json")), "nothing is pinned"
    hub.plan.clear()
    hub.cdn.plan.clear()
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)


def test_a_busy_hub_is_asked_again_for_a_file(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish(NAME, bert)
    busy = status(429, {"Retry-After": "0"})
    content = (bert / "model.safetensors").read_bytes()
    hub.plan[f"HEAD {path_of(hub, commit, 'config.json')}"] = [busy, as_hub]
    blob = f"/lfs/{sha256(content)}"
    hub.cdn.plan[blob] = [busy, body(content)]
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)
    assert hub.cdn.hits[blob] == 2


def test_another_commit_than_asked_for_is_refused(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    commit = hub.publish(NAME, bert)
    content = (bert / "config.json").read_bytes()
    told = {"X-Repo-Commit": "f" * 40, "ETag": '"x"', "Content-Length": str(len(content))}
    asked = path_of(hub, commit, "config.json")
    hub.plan[f"HEAD {asked}"] = [lambda handler: handler.start(200, told)]
    hub.plan[asked] = [body(content, headers={"X-Repo-Commit": "f" * 40})]
    said = load(tmp_path, hub, NAME)
    assert said.get("error") == "DownloadError" and "gives it of another" in said["text"], said
    assert commit in said["text"]


def test_a_pointer_and_other_bytes_are_no_weights(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    commit = hub.publish(NAME, bert)
    content = (bert / "model.safetensors").read_bytes()
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        sha256(content).encode(),
        len(content),
    )
    changed = content[:-1] + bytes([content[-1] ^ 1])
    asked = path_of(hub, commit, "model.safetensors")
    for number, (wrong, words) in enumerate(
        (
            (pointer, "a pointer of Git LFS"),
            (changed, "not sha256:"),
            (content[:900], "900 bytes of"),
        )
    ):
        home = tmp_path / str(number)
        home.mkdir()
        told = {"X-Repo-Commit": commit, "ETag": '"wrong"', "Content-Length": str(len(wrong))}
        hub.plan[f"HEAD {asked}"] = [lambda handler, told=told: handler.start(200, told)]
        hub.plan[asked] = [body(wrong)]
        for _ in range(2):  # what is wrong in the cache stays wrong
            said = load(home, hub, NAME)
            assert said.get("error") == "DownloadError" and words in said["text"], said
            assert "force_download=True" in said["text"] and "--force" in said["shell"]
        hub.plan.clear()
        said = load(home, hub, NAME, force_download=True)
        assert said.get("digest") == digest_of(bert), said


def test_a_disk_that_is_full_is_told(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish(NAME, bert)
    told = listing(NAME, hub.models[NAME], commit, whole=True)
    for about in told["siblings"]:
        if about["rfilename"] == "model.safetensors":
            about["size"] = about["lfs"]["size"] = 10**18
    hub.plan[INFO] = [body(json.dumps(told).encode())]
    said = load(tmp_path, hub, NAME)
    assert said.get("error") == "DownloadError" and "free some room" in said["text"], said
    assert not weights_asked(hub)


def test_a_renamed_model_is_followed(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish("new/tiny-bert", bert)
    hub.plan[INFO] = [redirect(f"{hub.url}/api/models/new/tiny-bert/revision/main?blobs=true", 307)]
    for file in ("config.json", *(p.name for p in bert.iterdir())):
        for verb in ("", "HEAD "):
            at = f"{hub.url}/new/tiny-bert/resolve/{commit}/{file}"
            hub.plan[f"{verb}{path_of(hub, commit, file)}"] = [redirect(at, 307)]
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)
