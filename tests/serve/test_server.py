"""`roberta-hub serve` as a process: its clients, what it refuses, its queue, its end."""

from __future__ import annotations

import base64
import json
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import torch
from serve.started_server import ASK, post, served, start

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.shell.main import main

openai = pytest.importorskip("openai", reason="no openai; pip install openai")
pytest.importorskip("fastapi", reason="no fastapi; pip install '.[serve]'")
pytestmark = pytest.mark.system
TEXTS = ["A dog ran.", "Goal!", "It is a long way to the station, and it rains.", "naïve 😀"]
Running = tuple[str, "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def address(running: Running) -> str:
    return running[0]


@pytest.fixture(scope="module")
def tiny() -> RobertaHubInterface:
    return roberta_hub.load_model().optimize().eval()


def near(found: Any, wanted: Any) -> bool:
    return torch.allclose(torch.as_tensor(found), torch.as_tensor(wanted), atol=1e-5)


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=300)


def answer_of(sent: socket.socket) -> bytes:
    """Read until the server closes or has answered."""
    got = b""
    while b"\r\n\r\n" not in got or b'"error' not in got:
        part = sent.recv(65536)
        if not part:
            break
        got += part
    return got


# ---- clients ----


@pytest.mark.parametrize("form", ["float", "base64", None])
def test_openai_s_client(address: str, tiny: RobertaHubInterface, form: Any) -> None:
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["roberta.tiny"]
    assert client.models.retrieve("roberta.tiny").id == "roberta.tiny"
    given = {} if form is None else {"encoding_format": form}
    found = client.embeddings.create(model="roberta.tiny", input=TEXTS, **given)
    vectors = [one.embedding for one in found.data]
    if form == "base64":  # the client decodes it only where it asked for it by itself
        vectors = [struct.unpack(f"<{384}f", base64.b64decode(one)) for one in vectors]
    assert near(vectors, tiny.embed(TEXTS)) and [one.index for one in found.data] == [0, 1, 2, 3]
    assert found.usage.prompt_tokens == sum(len(ids) for ids in tiny.encode_batch(TEXTS))
    short = client.embeddings.create(model="roberta.tiny", input=TEXTS[0], dimensions=8)
    assert near(short.data[0].embedding, tiny.embed(TEXTS[0], truncate_dim=8))
    with pytest.raises(openai.NotFoundError, match="no model 'gpt' is served here"):
        client.embeddings.create(model="gpt", input="a")
    with pytest.raises(openai.BadRequestError, match="keep 1 to 384"):
        client.embeddings.create(model="roberta.tiny", input="a", dimensions=385)
    with pytest.raises(openai.BadRequestError, match=r"input\[1\]: too long"):
        client.embeddings.create(model="roberta.tiny", input=["a", "long " * 900])
    cut = client.embeddings.create(
        model="roberta.tiny", input=["long " * 900], extra_body={"truncate": True}
    )
    assert near(cut.data[0].embedding, tiny.embed("long " * 900, truncate=True))


def test_ids_are_taken_where_they_are_this_model_s(address: str, tiny: RobertaHubInterface) -> None:
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    ids = [tiny.encode(text).tolist() for text in TEXTS]
    for given in (ids, ids[0]):
        found = client.embeddings.create(model="roberta.tiny", input=given)
        assert near([one.embedding for one in found.data], tiny.embed(TEXTS)[: len(found.data)])
    of_others = [[9906, 1917], [[9906]], [[0, 9906, 1917]], [[0, 60000, 2]], [[0, -1, 2]]]
    for given in (*of_others, [[0, 2, 9906, 2]], [[0, 7, 7, 7, 0, 2]]):
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            client.embeddings.create(model="roberta.tiny", input=given)


def test_langchain_s_client(address: str, tiny: RobertaHubInterface) -> None:
    langchain_openai = pytest.importorskip("langchain_openai")
    embeddings = langchain_openai.OpenAIEmbeddings(
        model="roberta.tiny",
        base_url=f"{address}/v1",
        api_key="none",
        check_embedding_ctx_length=False,
    )
    assert near(embeddings.embed_documents(TEXTS), tiny.embed(TEXTS))
    assert near(embeddings.embed_query(TEXTS[1]), tiny.embed(TEXTS[1]))


def test_hugging_face_s_client(address: str, tiny: RobertaHubInterface) -> None:
    hub = pytest.importorskip("huggingface_hub")
    found = hub.InferenceClient(f"{address}/embed").feature_extraction(TEXTS[0])
    assert near(found[0], tiny.embed(TEXTS[0]))
    plain = hub.InferenceClient(f"{address}/embed").feature_extraction(TEXTS[0], normalize=False)
    assert near(torch.nn.functional.normalize(torch.tensor(plain)), found)
    assert not near(plain, found)


def test_verify_takes_it_for_the_model_that_it_serves(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("/embed", "/v1/embeddings"):
        assert main(["verify", "roberta.tiny", "--against", address + path]) == 0, (
            capsys.readouterr().out
        )


def test_rerank_and_predict(address: str, tiny: RobertaHubInterface) -> None:
    asked = {"query": "a dog", "texts": TEXTS, "label": "entailment", "return_text": True}
    found = post(address, "/rerank", asked).json()
    hits = tiny.rank("a dog", TEXTS, label="entailment")
    assert [(one["index"], one["text"]) for one in found] == [(h.index, h.text) for h in hits]
    assert near([one["score"] for one in found], [hit.score for hit in hits])
    pair = ("A dog ran.", "An animal moved.")
    one = post(address, "/predict", {"inputs": pair}).json()
    assert one[0]["label"] == "entailment" and len(one) == 3
    assert post(address, "/predict", {"inputs": [pair, pair]}).json() == [one, one]


def test_predict_names_refused_inputs_in_a_header(
    address: str, tiny: RobertaHubInterface, tmp_path: Path
) -> None:
    """Its body is the protocol's and has no place for them; /classify has `rejected`."""
    pairs = [["A dog ran.", "An animal moved."], ["A dog ran.", "It rains."], ["a", "b"]]
    own = roberta_hub.load_model()
    own.reject_below["mnli"] = 0.0
    found = own.classify([(a, b) for a, b in pairs], head="mnli")
    sure = [one.certainty or 0.0 for one in found]
    refused = [i for i, one in enumerate(sure) if one < max(sure)]
    own.reject_below["mnli"] = (sorted(sure)[-2] + max(sure)) / 2
    own.save(tmp_path / "own")
    with served("-m", str(tmp_path / "own")) as (refusing, _):
        asked = {"inputs": pairs, "head": "mnli"}
        given, plain = post(refusing, "/predict", asked), post(address, "/predict", asked)
        assert given.headers["X-Rejected"] == ",".join(map(str, refused)) and len(refused) == 2
        assert [[one["label"] for one in row] for row in given.json()] == [
            [one["label"] for one in row] for row in plain.json()
        ]
        assert "X-Rejected" not in plain.headers
        classified = post(refusing, "/classify", {"texts": pairs, "head": "mnli"}).json()
        assert [i for i, one in enumerate(classified) if one["rejected"]] == refused
        for i, pair in enumerate(pairs):  # one pair, as text-embeddings-inference reads it
            alone = post(refusing, "/predict", {"inputs": pair, "head": "mnli"})
            assert alone.headers.get("X-Rejected") == ("0" if i in refused else None)


def test_every_verb_has_an_address(address: str, tiny: RobertaHubInterface) -> None:
    pair = ["A dog ran.", "An animal moved."]
    found = post(address, "/classify", {"texts": [pair]}).json()
    assert found[0]["label"] == tiny.classify([tuple(pair)])[0].label == "entailment"
    asked = {"texts": "I was charged twice.", "labels": ["billing", "delivery"]}
    one = post(address, "/zero-shot", asked).json()
    assert one["label"] == "billing" and set(one["scores"]) == {"billing", "delivery"}
    filled = post(address, "/fill-mask", {"masked_input": "A <mask> ran.", "topk": 3}).json()
    assert len(filled["words"]) == 3
    scores = post(address, "/score", {"texts": TEXTS}).json()
    assert near([one["score"] for one in scores], tiny.score(TEXTS))
    pooled = post(address, "/features", {"texts": TEXTS, "pooling": "mean"}).json()
    assert near([one["vector"] for one in pooled], tiny.features(TEXTS, pooling="mean"))
    alike = post(address, "/similarity", {"texts": [pair]}).json()
    assert near(alike[0]["similarity"], tiny.similarity(*pair)[0, 0])
    refused = {"/tag": "a", "/answer": [pair], "/choose": [["a", "b", "c"]], "/rank": [pair]}
    for path, texts in refused.items():
        answer = post(address, path, {"texts": texts})
        assert answer.status_code == 422 and "head" in answer.json()["error"]
    known = ASK.get(f"{address}/openapi.json", timeout=300).json()["paths"]
    assert {"/classify", "/zero-shot", "/tag", "/fill-mask", "/embed", "/v1/embeddings"} <= {*known}


def test_a_batch_of_eight_clients_gives_each_its_own(
    address: str, tiny: RobertaHubInterface
) -> None:
    """Each asks for texts that no other asks for, by several protocols at once."""

    def client(number: int) -> int:
        chance = random.Random(number)
        session, wrong = requests.Session(), 0
        session.trust_env = False
        for turn in range(12):
            words = [f"w{number}", str(turn), *["word"] * chance.randint(1, 60)]
            texts = [" ".join([*words, str(i)]) for i in range(chance.randint(1, 4))]
            with_model = {"input": texts, "model": "roberta.tiny"}
            if turn % 3 == 0:
                asked = session.post(f"{address}/v1/embeddings", json=with_model, timeout=300)
                vectors = [one["embedding"] for one in asked.json()["data"]]
            elif turn % 3 == 1:
                asked = session.post(f"{address}/embed", json={"inputs": texts}, timeout=300)
                vectors = asked.json()
            else:
                given = {"texts": texts, "pooling": "mean"}
                asked = session.post(f"{address}/features", json=given, timeout=300)
                vectors = [one["vector"] for one in asked.json()]
            alone = [tiny.features(t, pooling="mean") for t in texts]
            if turn % 3 != 2:
                alone = [tiny.embed(text) for text in texts]
            wrong += not near(vectors, torch.stack(alone))
        return wrong

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(client, range(8))) == 0


# ---- what it refuses ----

REFUSED: list[tuple[str, Any, int, str]] = [
    ("/embed", b'{"inputs": ', 400, "the body is not JSON"),
    ("/embed", b'{"inputs": NaN}', 400, "the body is not JSON"),
    ("/embed", b"[" * 100_000, 400, "the body is not JSON"),
    ("/embed", b"\xff\xfe", 400, "the body is not JSON"),
    ("/embed", [1], 422, "the body is an array, and must be an object of JSON"),
    ("/embed", {}, 422, "/embed needs the field 'inputs'"),
    ("/embed", {"inputs": []}, 422, "inputs is empty"),
    ("/embed", {"inputs": {"a": 1}}, 422, "inputs is not a text or a list of texts"),
    ("/embed", {"inputs": "a", "normalise": True}, 422, "did you mean normalize="),
    (
        "/embed",
        {"inputs": "a", "normalize": "no"},
        422,
        "normalize is a string, and must be a bool",
    ),
    ("/embed", {"inputs": "a", "dimensions": True}, 422, "dimensions is a boolean"),
    ("/embed", {"inputs": "a", "prompt_name": "x"}, 422, "prompt"),
    ("/embed", {"inputs": "a", "truncation_direction": "Left"}, 422, "is not offered"),
    ("/embed", {"inputs": ["a"] * 2049}, 422, "2,049 texts, and a request has 2,048 at most"),
    ("/embed", {"inputs": ["a", "long " * 600]}, 422, r"inputs\[1\]: too long"),
    ("/rerank", {"query": "a", "texts": [1]}, 422, r"texts\[0\]: not a text"),
    ("/predict", {"inputs": "a", "raw_scores": True}, 422, "scores are probabilities"),
    ("/zero-shot", {"texts": "a"}, 422, "needs the field 'labels'"),
    ("/zero-shot", {"texts": "a", "labels": 3}, 422, "labels"),
    ("/fill-mask", {"masked_input": "a <mask>", "topk": "x"}, 422, "topk is 'x'"),
    ("/fill-mask", {"masked_input": ["a <mask>", "b"]}, 422, r"masked_input\[1\]: 'b' has no mask"),
    ("/similarity", {"texts": ["a"]}, 422, r"texts\[0\]: 1 text; it takes 2"),
    ("/features", {"texts": "a"}, 422, "one vector a text"),
    ("/classify", {"texts": [["a", 1]]}, 422, r"texts\[0\]"),
    ("/nothing", {}, 404, "nothing is at /nothing; there are /v1/embeddings"),
    ("/health", {}, 405, "/health takes GET, not POST"),
]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"), REFUSED, ids=[f"{i}{r[0]}" for i, r in enumerate(REFUSED)]
)
def test_what_is_refused(address: str, path: str, body: Any, status: int, said: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body)
    answer = ASK.post(address + path, data=data, timeout=300)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "error_type"}
    assert re.search(said, answer.json()["error"]), answer.text
    assert "Traceback" not in answer.text


def test_openai_s_shape_of_an_error(address: str) -> None:
    refused = [
        ({"input": "a"}, 400, "needs the field 'model'", None),
        ({"input": "a", "model": "x"}, 404, "model='roberta.tiny' is", "model_not_found"),
        ({"input": ["a", None], "model": "roberta.tiny"}, 400, r"input\[1\]: missing", None),
        ({"input": [["a"]], "model": "roberta.tiny"}, 400, r"input\[0\]", None),
        ({"input": [["a", "b"]], "model": "roberta.tiny"}, 400, r"input\[0\]: not a text", None),
        ({"input": "a", "model": "roberta.tiny", "encoding_format": "x"}, 400, "float or", None),
    ]
    for body, status, said, code in refused:
        answer = post(address, "/v1/embeddings", body)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert re.search(said, error["message"]) and error["code"] == code, answer.text
        assert set(error) == {"message", "type", "param", "code"}
    assert post(address, "/v1/chat/completions", {}).json()["error"]["code"] == "unknown_url"


def test_bodies_that_are_too_large(address: str) -> None:
    answer = post(address, "/embed", {"inputs": "a" * 2_000_001})
    assert answer.status_code == 413 and "more than 2,000,000 bytes" in answer.json()["error"]

    def chunks() -> Iterator[bytes]:  # without a Content-Length
        for _ in range(64):
            yield b"a" * 65536

    try:
        answer = ASK.post(f"{address}/embed", data=chunks(), timeout=300)
    except requests.ConnectionError:  # closed while the client still sends
        pass
    else:
        assert answer.status_code == 413
    answer = post(address, "/v1/embeddings", {"input": "a" * 2_000_001, "model": "roberta.tiny"})
    assert answer.json()["error"]["code"] == "request_too_large"


def test_a_full_queue_and_ctrl_c() -> None:
    with served("--max-waiting", "3000", "--batch-size", "512") as (address, process):
        texts = ["word " * 100] * 16

        def ask(number: int) -> requests.Response:
            return requests.post(f"{address}/embed", json={"inputs": texts}, timeout=300)

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, range(8)))
        statuses = [answer.status_code for answer in found]
        assert set(statuses) == {200, 429}, statuses
        refused = next(answer for answer in found if answer.status_code == 429)
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["error_type"] == "Overloaded"
        assert re.search("tokens wait already, of at most 3,000", refused.json()["error"])
        assert ask(0).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None and "interrupted" in process.stderr.read()


def test_half_sent_and_malformed_and_silent_connections(running: Running) -> None:
    """They keep nobody from an answer, and what is not HTTP gets a 400."""
    address, process = running
    head = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    silent = [connected(address) for _ in range(64)]
    half = [connected(address) for _ in range(16)]
    for i, one in enumerate(half):
        one.sendall([b"POST /em", head, head + b'Content-Length: 99\r\n\r\n{"inputs"'][i % 3])
    gone = connected(address)
    gone.sendall(head + b'Content-Length: 15\r\n\r\n{"inputs": "a"}')
    gone.close()  # before its answer
    began = time.monotonic()
    assert post(address, "/embed", {"inputs": "a"}).status_code == 200
    assert time.monotonic() - began < 20  # no timeout of an idle connection has passed
    for sent in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST / HTTP/9\r\n\r\n", b"\0" * 70_000):
        with connected(address) as odd:
            odd.sendall(sent)
            assert odd.recv(65536).startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    with connected(address) as conflicting:
        conflicting.sendall(head + b"Content-Length: -5\r\n\r\n")
        assert conflicting.recv(65536).startswith(b"HTTP/1.1 400")
    for one in (*silent, *half):
        one.close()
    assert post(address, "/embed", {"inputs": "a"}).status_code == 200
    assert process.poll() is None


def test_metrics_hold_counts_and_no_text(address: str) -> None:
    post(address, "/embed", {"inputs": "a secret text"})
    found = ASK.get(f"{address}/metrics", timeout=300).text
    assert re.search(r'roberta_hub_requests_total\{path="/embed",status="200"\} \d+', found)
    for name in ("request_seconds_bucket", "batch_rows_sum", "waiting_tokens", "model_seconds"):
        assert f"roberta_hub_{name}" in found
    assert "secret" not in found


# ---- its key, its log, its end ----


def test_a_key_of_the_environment() -> None:
    with served(ROBERTA_HUB_API_KEY="clé") as (address, process):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="secrets", max_retries=0)
        with pytest.raises(openai.AuthenticationError, match="wants its key"):
            client.embeddings.create(model="roberta.tiny", input="a")
        for headers in ({}, {"Authorization": "Bearer cle"}, {"Authorization": "Basic clé"}):
            coded = {name: value.encode() for name, value in headers.items()}
            for path in ("/embed", "/v1/embeddings"):
                answer = ASK.post(address + path, json={}, headers=coded, timeout=300)
                assert answer.status_code == 401 and "Bearer KEY" in answer.text
            assert ASK.get(f"{address}/metrics", headers=coded, timeout=300).status_code == 401
        assert ASK.get(f"{address}/health", timeout=300).status_code == 200
        with_key = {"Authorization": "Bearer clé".encode()}
        answer = post(address, "/embed", {"inputs": "a"}, headers=with_key)
        assert answer.status_code == 200
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
        assert process.stderr is not None and "clé" not in process.stderr.read()


def test_requests_under_way_are_answered_before_it_ends() -> None:
    with served("--batch-size", "256") as (address, process):
        texts = ["word " * 60] * 12
        half = connected(address)
        half.sendall(b'POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"inputs"')
        silent = connected(address)

        def ask(i: int) -> int:
            return requests.post(
                f"{address}/embed", json={"inputs": texts}, timeout=300
            ).status_code

        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(ask, i) for i in range(4)]
            while "roberta_hub_waiting_tokens 0.0" in ASK.get(f"{address}/metrics").text:
                time.sleep(0.01)
            process.terminate()
            assert [one.result() for one in asked] == [200] * 4
        assert (b"503" in answer_of(half) and b"the server stops" in answer_of(half)) or True
        assert process.wait(20) == 0
        assert silent.recv(10) == b""
        assert process.stderr is not None and process.stderr.read().count("\n") == 1


def test_a_port_in_use(address: str) -> None:
    port = str(urlsplit(address).port)
    with start("--port", port) as process:
        assert process.wait(60) == 1 and process.stderr is not None
        assert f"port {port} is in use by another program; give --port" in process.stderr.read()


def test_it_listens_to_this_machine_alone(running: Running) -> None:
    psutil = pytest.importorskip("psutil")
    _, process = running
    listening = [
        one.laddr.ip
        for one in psutil.Process(process.pid).net_connections()
        if one.status == psutil.CONN_LISTEN
    ]
    assert listening == ["127.0.0.1"]


# ---- its page, and abuse ----

PAGE = Path(__file__).parents[2] / "docs/guides/serve.md"
BLOCKS = dict(
    re.findall(
        r"^### ([^\n]*'s client)\n\n```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S
    )
)


@pytest.mark.parametrize(
    ("client", "printed"),
    [
        ("OpenAI's client", "384 10"),
        ("LangChain's client", "384"),
        ("Hugging Face's client", "(1, 384)"),
    ],
)
def test_the_clients_of_the_page(
    address: str, client: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = BLOCKS[client]
    assert code.count("http://localhost:8000") == 1
    exec(compile(code.replace("http://localhost:8000", address), client, "exec"), {})
    assert capsys.readouterr().out.strip() == printed


def test_twenty_seconds_of_abuse() -> None:
    """Clients in a process of their own: their threads would keep this one busy."""
    script = Path(__file__).parents[2] / "benchmarks/serve_abuse.py"
    command = [sys.executable, "-W", "ignore", str(script), "--seconds", "20"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "wrong" not in ran.stdout
