"""What `verify` says of servers and functions that answer oddly."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch
from peers_at_fault import Service

import roberta_hub
from roberta_hub import SentenceSettings
from roberta_hub.errors import InputError
from roberta_hub.verification.records import Verification

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

MEAN = SentenceSettings(pooling="mean", normalize=True)
Reply = tuple[int, dict[str, str], bytes]


def named(found: Verification, kind: str = "fault") -> list[str]:
    return [finding.name for finding in found.findings if finding.kind == kind]


@contextmanager
def replying(reply: Callable[[str, list[str]], Reply]) -> Iterator[str]:
    """Serve on this machine what a function of path and texts replies with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(404, {}, b"{}")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._say(*reply(self.path, asked.get("inputs", asked.get("input"))))

        def _say(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *about: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def said(value: Any, status: int = 200) -> Reply:
    return status, {"content-type": "application/json"}, json.dumps(value).encode()


@pytest.fixture(scope="module")
def right(folders: Any) -> Service:
    return Service(folders("roberta", MEAN))


@pytest.fixture
def model(folders: Any, models: Any) -> Any:
    return models(folders("roberta", MEAN))


# ---- statuses ----


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_fails_at_most_texts(model: Any, right: Service, status: int) -> None:
    def reply(path: str, texts: list[str]) -> Reply:
        if any(text[:1] in "TNSdt" for text in texts):
            return said({"error": "out of memory"}, status)
        return said(right(texts))

    with replying(reply) as root:
        found = roberta_hub.verify(model, root + "/embed")
    assert "errors" in named(found) and not found.ok, str(found)
    assert found.texts < found.asked and f"on {found.texts} of {found.asked} texts" in str(found)
    (errors,) = [f for f in found.faults if f.stage == "vectors" and f.name == "errors"]
    assert len(errors.texts) == found.asked - found.texts
    assert f"answers {status} to {len(errors.texts)} of {found.asked} texts" in str(found)


def test_a_server_that_fails_at_all_texts(model: Any) -> None:
    with (
        replying(lambda path, texts: said({"error": "no"}, 500)) as root,
        pytest.raises(InputError, match=r"no answer to a plain sentence: it answers 500 to \d+ of"),
    ):
        roberta_hub.verify(model, root + "/embed")


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "wants a key"), (403, "lets nobody in"), (429, "takes fewer requests")],
)
def test_what_is_no_refusal_of_a_text(model: Any, right: Service, status: int, remedy: str) -> None:
    def reply(path: str, texts: list[str]) -> Reply:
        return said({"error": "x"}, status) if len(texts[0]) > 40 else said(right(texts))

    with (
        replying(reply) as root,
        pytest.raises(InputError, match=rf"/embed answers {status}: .*{remedy}"),
    ):
        roberta_hub.verify(model, root + "/embed")


def test_short_texts_that_are_refused(model: Any, right: Service) -> None:
    def reply(path: str, texts: list[str]) -> Reply:
        return said({"error": "x"}, 422) if "Paris" in texts else said(right(texts))

    with replying(reply) as root:
        found = roberta_hub.verify(model, root + "/embed")
    assert "refused" in named(found) and not found.ok, str(found)
    (fault,) = [f for f in found.faults if f.stage == "vectors"]
    assert fault.texts == ("Paris",) and found.texts == found.asked - 1


def test_long_and_empty_texts_may_be_refused(model: Any, right: Service) -> None:
    def reply(path: str, texts: list[str]) -> Reply:
        long = any(len(text) > 300 or not text for text in texts)
        return said({"error": "x"}, 413) if long else said(right(texts))

    with replying(reply) as root:
        found = roberta_hub.verify(model, root + "/embed")
    assert found.ok and named(found, "by design")[0] == "refused", str(found)
    assert f"on {found.texts} of {found.asked} texts" in str(found) and found.texts < found.asked


# ---- where texts go ----


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_texts_are_not_sent_on(model: Any, right: Service, status: int) -> None:
    got: list[str] = []

    def other(path: str, texts: list[str]) -> Reply:
        got.extend(texts)
        return said(right(texts))

    with replying(other) as elsewhere:
        to = {"location": f"{elsewhere}/embed"}
        with (
            replying(lambda path, texts: (status, to, b"")) as root,
            pytest.raises(InputError, match=rf"answers {status} and leads to {elsewhere}/embed; t"),
        ):
            roberta_hub.verify(model, root + "/embed")
    assert got == []


def test_an_address_that_two_parsers_read_otherwise(model: Any) -> None:
    to = {"location": "http://127.0.0.2\\@127.0.0.1/embed"}
    with (
        replying(lambda path, texts: (307, to, b"")) as root,
        pytest.raises(InputError, match=r"not sent on|cannot be asked"),
    ):
        roberta_hub.verify(model, root + "/embed")


def test_a_redirect_within_the_server_is_followed(model: Any, right: Service) -> None:
    def reply(path: str, texts: list[str]) -> Reply:
        if path == "/embed":
            return 307, {"location": "/v2/embed"}, b""
        return said(right(texts))

    with replying(reply) as root:
        assert roberta_hub.verify(model, root + "/embed").ok


def test_a_redirect_without_an_end(model: Any) -> None:
    with (
        replying(lambda path, texts: (307, {"location": "/embed"}, b"")) as root,
        pytest.raises(InputError, match="answers 307"),
    ):
        roberta_hub.verify(model, root + "/embed")


# ---- precision of storage ----

STORED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "float16": lambda rows: rows.half().double(),
    "bfloat16": lambda rows: rows.bfloat16().double(),
    "4 decimals": lambda rows: rows.round(decimals=4),
    "5 decimals": lambda rows: rows.round(decimals=5),
}


@pytest.mark.parametrize("name", STORED)
def test_vectors_that_are_stored_in_less_precision(model: Any, name: str) -> None:
    def peer(texts: list[str]) -> Any:
        return STORED[name](model.embed(texts, truncate=True).double()).tolist()

    found = roberta_hub.verify(model, peer)
    assert found.ok and named(found) == [], str(found)
    if name != "5 decimals":  # 1.6e-5 of a short vector, as near as float32 may be
        assert (found.verdict, named(found, "precision")) == ("precision", [name])


@pytest.mark.parametrize("name", [*STORED, "6 decimals"])
def test_stored_vectors_of_the_model_in_the_box(name: str) -> None:
    tiny = roberta_hub.load_model("roberta.tiny")
    way = STORED.get(name, lambda rows: rows.round(decimals=6))

    def peer(texts: list[str]) -> Any:
        return way(tiny.embed(texts, truncate=True).double()).tolist()

    found = roberta_hub.verify(tiny, peer)
    if name == "6 decimals":  # 6e-6, as float32's rounding in a deep model
        assert (found.verdict, found.ok) == ("same", True), str(found)
    else:
        assert (found.verdict, found.ok, named(found)) == ("precision", True, []), str(found)
        assert named(found, "precision") == [name]


def test_a_fault_beside_stored_vectors(model: Any, folders: Any) -> None:
    first = Service(folders("roberta", MEAN), pooling="cls")
    found = roberta_hub.verify(
        model, lambda texts: torch.tensor(first(texts)).half().double().tolist()
    )
    assert (named(found), named(found, "precision")) == (["pooling"], ["float16"]), str(found)


# ---- batches ----


def test_a_batch_that_stays_sorted(model: Any, right: Service) -> None:
    found = roberta_hub.verify(model, lambda texts: right(sorted(texts, key=len)))
    assert named(found) == ["order"], str(found)
    assert "gives the answers of a batch in another order than its texts (100.0 %" in str(found)


def test_a_cause_that_explains_nothing_is_not_named(model: Any, right: Service) -> None:
    def peer(texts: list[str]) -> list[list[float]]:
        rows = right(texts)
        return (
            rows if len(rows) == 1 else [[x + 0.1 * (i + 1) for x in r] for i, r in enumerate(rows)]
        )

    found = roberta_hub.verify(model, peer)
    assert named(found) == ["unknown"] and "(0.0 %" not in str(found), str(found)


def test_noise_is_no_matter_of_threads(model: Any, right: Service) -> None:
    lock, count = threading.Lock(), [0]

    def reply(path: str, texts: list[str]) -> Reply:
        with lock:
            count[0] += 1
            off = 0.1 * (count[0] > 60)
        return said([[x + off for x in row] for row in right(texts)])

    with replying(reply) as root:
        found = roberta_hub.verify(model, root + "/embed")
    assert "threads" not in named(found) and "unknown" in named(found), str(found)


def test_padding_says_how_much_it_explains(model: Any, folders: Any) -> None:
    found = roberta_hub.verify(model, Service(folders("roberta", MEAN), masked=False))
    assert named(found) == ["padding"]
    assert found.faults[0].explained is not None and found.faults[0].explained > 0.9


# ---- answers that are none ----

GOOD = [0.5] * 32


def of(data: Any) -> Callable[[list[str]], Reply]:
    return lambda texts: said({"data": data(texts)})


def item(row: Any, **more: Any) -> Callable[[list[str]], Reply]:
    return of(lambda texts: [{"embedding": row, **more} for _ in texts])


ODD_OPENAI: dict[str, Any] = {
    "deep": lambda texts: (200, {}, b"[" * 100_000),
    "mixed index": of(
        lambda texts: [{"embedding": GOOD, "index": "0" if i else 0} for i in range(len(texts))]
    ),
    "one index": of(lambda texts: [{"embedding": GOOD, "index": 7} for _ in texts]),
    "bad base64": item("no base64!"),
    "short base64": item(base64.b64encode(b"abc").decode()),
    "no base64": item(""),
    "nested": item([GOOD]),
    "words": item(["a"] * 32),
    "null": item([None] * 32),
    "object": item({"a": 1}),
    "huge": item([10**400] * 32),
    "bool": item([True] * 32),
    "nothing": item([]),
    "no number": item([float("nan")] * 32),
}


@pytest.mark.parametrize("name", ODD_OPENAI)
def test_an_odd_answer_of_a_server(model: Any, name: str) -> None:
    with (
        replying(lambda path, texts: ODD_OPENAI[name](texts)) as root,
        pytest.raises(InputError) as raised,
    ):
        roberta_hub.verify(model, root + "/v1/embeddings")
    assert "127.0.0.1" in str(raised.value) and "Traceback" not in str(raised.value)
    assert type(raised.value) is InputError


def test_a_server_that_answers_some_texts_with_nan(model: Any, right: Service) -> None:
    def reply(path: str, texts: list[str]) -> Reply:
        rows = right(texts)
        return said([[float("nan")] * 32 if not t else r for t, r in zip(texts, rows, strict=True)])

    with replying(reply) as root:
        found = roberta_hub.verify(model, root + "/embed")
    assert named(found) == ["numbers"] and found.faults[0].texts == ("",), str(found)


ODD_FUNCTIONS: dict[str, Any] = {
    "None": lambda texts: None,
    "text": lambda texts: "vectors",
    "dict": lambda texts: dict.fromkeys(texts, GOOD),
    "ragged": lambda texts: [[1.0], [1.0, 2.0]][: len(texts)] + [[1.0]] * (len(texts) - 2),
    "texts": lambda texts: [["a"] * 32 for _ in texts],
    "complex": lambda texts: torch.ones(len(texts), 32, dtype=torch.complex64),
    "flags": lambda texts: torch.ones(len(texts), 32, dtype=torch.bool),
    "three dimensions": lambda texts: torch.ones(len(texts), 1, 32),
    "too few": lambda texts: [],
    "numbers": lambda texts: [0.5 for _ in texts],
    "sets": lambda texts: [{0.5} for _ in texts],
    "infinity": lambda texts: [[float("inf")] * 32 for _ in texts],
    "objects": lambda texts: [[object()] * 32 for _ in texts],
}


@pytest.mark.parametrize("name", ODD_FUNCTIONS)
def test_an_odd_answer_of_a_function(model: Any, name: str) -> None:
    if name == "ragged":
        with pytest.raises(InputError):
            roberta_hub.verify(model, lambda texts: [[1.0] * (1 + len(t)) for t in texts])
        return
    with pytest.raises(InputError) as raised:
        roberta_hub.verify(model, ODD_FUNCTIONS[name])
    assert type(raised.value) is InputError


def test_vectors_of_several_forms_are_read(model: Any) -> None:
    import numpy

    def rows(texts: list[str]) -> Any:
        return model.embed(texts, truncate=True)

    for way in (
        lambda texts: iter(rows(texts).tolist()),
        lambda texts: rows(texts).numpy(),
        lambda texts: list(rows(texts)),
        lambda texts: [numpy.asarray(row) for row in rows(texts)],
        lambda texts: tuple(map(tuple, rows(texts).tolist())),
    ):
        assert roberta_hub.verify(model, way).ok


@pytest.mark.parametrize("place", ["http://[::1", "http://", "http://127.0.0.1:99999/embed"])
def test_an_address_that_is_none(model: Any, place: str) -> None:
    with pytest.raises(InputError):
        roberta_hub.verify(model, place)


def test_a_file_that_is_no_onnx(model: Any, tmp_path: Any) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="onnxruntime cannot read this file"):
        roberta_hub.verify(model, tmp_path / "model.onnx")
