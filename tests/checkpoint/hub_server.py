"""A real HTTP server on this machine that answers as Hugging Face's hub, and another as its CDN.

What it says is what huggingface_hub asks for: a model's listing, its tree, and each file, the large
ones by a redirect to another host. `plan` of `server.py` goes before all that, so that any answer
may be another.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import forks
from server import Answer, Handler, Server, status

LARGE = (".safetensors", ".bin", ".pt", ".pkl", ".h5")
"""Endings of files that the hub keeps by Git LFS, as most repositories say."""


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path there."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@dataclass
class Model:
    """A repository: its commits, and which one each branch and tag means."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    licence: str = "apache-2.0"
    library: str | None = "transformers"

    def commit(self, revision: str) -> str | None:
        revision = self.branches.get(revision, revision)
        return revision if revision in self.commits else None


def git_name(content: bytes) -> str:
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_large(name: str) -> bool:
    return name.endswith(LARGE)


class HubHandler(Handler):
    """Answers HEAD and GET, first from the plan, then from the models."""

    server: HubServer

    def do_HEAD(self) -> None:
        self.answer(f"HEAD {self.path}")

    def do_GET(self) -> None:
        self.answer(self.path)

    def answer(self, asked: str) -> None:
        with self.server.guard:
            self.server.hits[asked] += 1
            self.server.order.append(asked)
            self.server.ranges.append(self.headers.get("Range", ""))
            self.server.tokens[asked] = self.headers.get("Authorization", "")
            plan = self.server.plan.get(asked, [])
            planned: Answer | None = plan.pop(0) if len(plan) > 1 else plan[0] if plan else None
        (planned or as_hub)(self)

    def say(self, code: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.start(code, {"Content-Length": str(len(content)), **headers})
        if self.command == "GET":
            self.wfile.write(content)

    def refuse(self, code: int, error: str, message: str = "") -> None:
        told = {"X-Error-Code": error} if error else {}
        self.say(
            code, b'{"error":"no"}', {**told, **({"X-Error-Message": message} if message else {})}
        )


def as_hub(handler: Handler) -> None:
    """Answer as the hub does."""
    assert isinstance(handler, HubHandler)
    url = urlsplit(handler.path)
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    if parts[0] == "lfs":  # as a proxy
        return handler.say(200, handler.server.cdn.blobs[parts[1]], {})
    api = parts[:2] == ["api", "models"]
    name, rest = "/".join(parts[2:4] if api else parts[:2]), parts[4:] if api else parts[2:]
    model, token = handler.server.models.get(name), handler.headers.get("Authorization")
    if model is None or (model.private and token is None):
        # To those who are not logged in it says one thing of what is private and of nothing.
        if token is None:
            return handler.refuse(401, "", "Invalid username or password.")
        return handler.refuse(404, "RepoNotFound", "Repository not found")
    kind, revision = (rest + ["revision", "main"][len(rest) :])[:2] if api else rest[:2]
    commit = model.commit(revision)
    if commit is None:
        return handler.refuse(404, "RevisionNotFound", "Invalid rev id")
    files = model.commits[commit]
    if api and kind == "revision":
        whole = parse_qs(url.query).get("blobs") in (["true"], ["True"])
        return handler.say(200, json.dumps(listing(name, model, commit, whole)).encode(), {})
    if api:
        return handler.say(200, json.dumps(tree(files)).encode(), {})
    path = "/".join(rest[2:])
    if model.gated and token is None:
        return handler.refuse(401, "GatedRepo", "Access to this model is restricted")
    if model.gated and token not in handler.server.accepted:
        return handler.refuse(403, "GatedRepo", "Access to this model is restricted")
    if path not in files:
        told = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}
        return handler.say(404, b"Entry not found", told)
    content = files[path]
    told = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
    if not is_large(path):
        return handler.say(200, content, {**told, "ETag": f'"{git_name(content)}"'})
    digest = sha256(content)
    handler.server.cdn.blobs[digest] = content
    told |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
    handler.say(302, b"", {**told, "Location": f"{handler.server.cdn.url}/lfs/{digest}?signed=1"})


def listing(name: str, model: Model, commit: str, whole: bool) -> dict[str, Any]:
    siblings = []
    for path, content in model.commits[commit].items():
        about: dict[str, Any] = {"rfilename": path}
        if whole:
            about |= {"size": len(content), "blobId": git_name(content)}
            if is_large(path):
                about["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 134}
        siblings.append(about)
    return {
        "_id": "1",
        "id": name,
        "modelId": name,
        "sha": commit,
        "private": model.private,
        "gated": "manual" if model.gated else False,
        "disabled": False,
        "tags": [],
        "downloads": 1,
        "likes": 1,
        "library_name": model.library,
        "cardData": {"license": model.licence},
        "siblings": siblings,
    }


def tree(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path, content in files.items():
        about = {"type": "file", "oid": git_name(content), "size": len(content), "path": path}
        if is_large(path):
            lfs = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
            about["lfs"] = lfs  # type: ignore[assignment]
        found.append(about)
    folders = {path.rpartition("/")[0] for path in files if "/" in path}
    found += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders]
    return found


class CdnHandler(Handler):
    """Gives a blob, whole or from a byte on; it is asked without a token."""

    server: Cdn

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        with self.server.guard:
            self.server.hits[path] += 1
            self.server.ranges.append(self.headers.get("Range", ""))
            self.server.tokens[path] = self.headers.get("Authorization", "")
            plan = self.server.plan.get(path, [])
            planned = plan.pop(0) if len(plan) > 1 else plan[0] if plan else None
        if planned is not None:
            return planned(self)
        content = self.server.blobs.get(path.removeprefix("/lfs/"))
        if content is None:
            return status(403)(self)
        asked = self.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").partition("-")[0] or 0) if asked else 0
        told = {"Content-Length": str(len(content) - start), "Accept-Ranges": "bytes"}
        if asked:
            told["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.start(206 if asked else 200, told)
        self.wfile.write(content[start:])


class Cdn(Server):
    """Where the large files are: another host by its name, as the hub's is."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = CdnHandler
        self.blobs: dict[str, bytes] = {}
        self.tokens: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}"


class HubServer(Server):
    """A hub with models; `with` starts it and its CDN."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = HubHandler
        self.models: dict[str, Model] = {}
        self.accepted: set[str] = set()
        """Headers of who accepted the terms of gated models."""
        self.tokens: dict[str, str] = {}
        self.order: list[str] = []
        self.cdn = Cdn()

    def __enter__(self) -> HubServer:
        self.cdn.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *of_error: Any) -> None:
        self.cdn.release.set()
        super().__exit__(*of_error)
        self.cdn.__exit__(*of_error)

    def publish(
        self, name: str, files: Path | Mapping[str, bytes], branch: str = "main", **about: Any
    ) -> str:
        """Put a commit on a branch of a model; return what it is called."""
        content = read_folder(files) if isinstance(files, Path) else dict(files)
        model = self.models.setdefault(name, Model())
        for key, value in about.items():
            setattr(model, key, value)
        told = f"{name} {len(model.commits)} {sorted((n, sha256(c)) for n, c in content.items())}"
        commit = hashlib.sha1(told.encode()).hexdigest()
        model.commits[commit] = content
        model.branches[branch] = commit
        return commit

    def asked(self, part: str) -> list[str]:
        """What was asked for whose path has this part, in order."""
        return [asked for asked in self.order if part in asked]

    def fetched(self) -> set[str]:
        """The files that were asked for, of any model at any commit."""
        found = {asked.partition("/resolve/")[2].partition("/")[2] for asked in self.order}
        return found - {""}


def environment(home: Path, hub: HubServer | None = None, **more: str) -> dict[str, str]:
    """The variables of a person with caches of their own, whose hub this is."""
    own = {
        "HF_HOME": str(home / "hf"),
        "TORCH_HOME": str(home / "torch"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "*",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    if hub is not None:
        own["HF_ENDPOINT"] = hub.url
    taken = ("HF_", "HUGGING_FACE", "ROBERTA_HUB_", "TRANSFORMERS_", "HTTP", "http", "ALL_", "all_")
    rest = {k: v for k, v in os.environ.items() if not k.startswith(taken)}
    return {**rest, **own, **more}


def weights_asked(hub: HubServer) -> set[str]:
    return {name for name in hub.fetched() if name.endswith((".safetensors", ".bin", ".pt"))}


LOAD = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import roberta_hub
    from roberta_hub.scale.models import LoadedModel
    try:
        name, keywords = sys.argv[1], json.loads(sys.argv[2])
        roberta = roberta_hub.load_model(name, **keywords).eval()
        said = {"source": roberta.source, "digest": LoadedModel(roberta).digest}
    except roberta_hub.RobertaHubError as error:
        said = {"error": type(error).__name__, "text": str(error), "shell": error.in_shell()}
said["warnings"] = [str(w.message) for w in told]
said["hub"] = "huggingface_hub" in sys.modules
print(json.dumps(said))
"""
"""Loads a model by its name, and tells what came of it."""


def load(home: Path, hub: HubServer | None, name: str, /, **keywords: Any) -> dict[str, Any]:
    """Load a model by its name in a process of its own; return what `LOAD` tells."""
    variables = keywords.pop("env", {})
    run = forks.run(
        "-c", LOAD, name, json.dumps(keywords), cwd=home, env=environment(home, hub, **variables)
    )
    assert run.returncode == 0, run.stderr[-3000:]
    told: dict[str, Any] = json.loads(run.stdout)
    told["stderr"] = run.stderr
    return told
