"""Peers that compute with transformers, right or with a fault put in, and a server for them."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from families import write_family
from torch import Tensor

import roberta_hub
from roberta_hub import SentenceSettings

POSITIONS = 194
"""Rows of the position table: texts of 192 tokens fit where padding is 1."""
PROMPT = "query: "


def folder_of(
    kind: str, place: Path, sentence: SentenceSettings | None = None, **sizes: Any
) -> Path:
    """A random model as Hugging Face's folder with all files of its tokenizer."""
    sizes = {"max_position_embeddings": POSITIONS, **sizes}
    raw = write_family(kind, place / f"{kind}-raw", **sizes)
    roberta = roberta_hub.load_model(raw)
    roberta.sentence = sentence
    roberta.save(place / kind, format="huggingface")
    return place / kind


def copied(folder: Path, place: Path, **changes: dict[str, Any]) -> Path:
    """A copy of a folder with other values in its JSON files: `config={"hidden_act": "relu"}`."""
    shutil.copytree(folder, place, dirs_exist_ok=True)
    for name, values in changes.items():
        path = place / f"{name}.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(found | values), encoding="utf-8")
    return place


def with_weights(folder: Path, place: Path, edit: Callable[[dict[str, Tensor]], None]) -> Path:
    """A copy of a folder with other weights."""
    from safetensors.torch import load_file, save_file

    copied(folder, place)
    weights = load_file(place / "model.safetensors")
    edit(weights)
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    return place


@dataclass
class Service:
    """Sentence vectors by transformers, as a server of them computes; one fault each."""

    folder: Path
    pooling: str = "mean"
    normalize: bool = True
    prompt: str = ""
    longest: int = 192
    lower: bool = False
    positions: str = "right"
    """"shifted", "running on" from row to row, or "from the left"."""
    masked: bool = True
    """Whether padding is left out of attention and mean."""
    dtype: torch.dtype = torch.float32
    noise: float = 0.0
    width: int | None = None
    """First numbers of a vector that are given."""
    asked: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        import transformers

        transformers.utils.logging.disable_progress_bar()
        model = transformers.AutoModel.from_pretrained(self.folder, dtype=self.dtype).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.model = model
        if self.noise:
            generator = torch.Generator().manual_seed(1)
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    if "layer.1." in name and "dense.weight" in name:
                        weight += self.noise * torch.randn(weight.shape, generator=generator)

    def __call__(self, texts: Sequence[str], **options: Any) -> list[list[float]]:
        self.asked += 1
        given = [self.prompt + (text.lower() if self.lower else text) for text in texts]
        with self._lock:
            side = "left" if self.positions == "from the left" else "right"
            rows = self.tokenizer(
                given,
                padding=True,
                padding_side=side,
                truncation=True,
                max_length=self.longest,
                return_tensors="pt",
            )
        mask = rows["attention_mask"]
        where = self._positions(mask)
        if where is not None:
            rows["position_ids"] = where
        if not self.masked:
            rows["attention_mask"] = torch.ones_like(mask)
            mask = rows["attention_mask"]
        with torch.no_grad():
            states = self.model(**rows).last_hidden_state
        vectors = self._pooled(states, mask, options.get("pooling", self.pooling))[:, : self.width]
        if options.get("normalize", self.normalize) and self.normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors.float().tolist()

    def _positions(self, mask: Tensor) -> Tensor | None:
        first = self.model.config.pad_token_id + 1
        steps = torch.arange(mask.size(1)).expand_as(mask)
        if self.positions == "shifted":
            return (steps + first + 1).clamp(max=POSITIONS - 1)
        if self.positions == "from the left":
            return steps + first
        if self.positions == "running on":
            lengths = mask.sum(1)
            before = lengths.cumsum(0) - lengths
            return (steps + first + before[:, None]).clamp(max=POSITIONS - 1)
        return None

    def _pooled(self, states: Tensor, mask: Tensor, pooling: str) -> Tensor:
        if pooling == "cls":
            first = mask.argmax(1)
            return states[torch.arange(len(states)), first]
        if pooling == "max":
            return states.masked_fill(mask[..., None] == 0, -1e9).amax(1)
        weights = mask[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


@contextmanager
def served(answer: Callable[..., list[list[float]]], *, most: int | None = None) -> Iterator[str]:
    """Serve vectors over HTTP on this machine: /embed, /v1/embeddings and /v1/models.

    Args:
        answer: from texts to vectors.
        most: characters of a text over which the server refuses it.

    Yields:
        The address of its root.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._say(200, {"object": "list", "data": [{"id": "the-model"}]})
            else:
                self._say(404, {"error": "not found"})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked = json.loads(body)
            openai = self.path.endswith("/embeddings")
            texts = asked["input" if openai else "inputs"]
            if most is not None and any(len(text) > most for text in texts):
                self._say(413, {"error": f"at most {most} characters", "error_type": "Validation"})
                return
            if openai:
                assert asked["model"] == "the-model"
                rows = enumerate(answer(texts))
                data = [{"object": "embedding", "index": i, "embedding": row} for i, row in rows]
                self._say(200, {"object": "list", "data": data[::-1], "model": asked["model"]})
            elif self.path == "/embed":
                self._say(200, answer(texts, normalize=asked["normalize"]))
            else:
                self._say(404, {"error": "not found"})

        def _say(self, status: int, found: Any) -> None:
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
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
