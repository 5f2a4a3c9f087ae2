"""Counts requests and batches for Prometheus."""

from __future__ import annotations

from typing import Any

from roberta_hub.server.batcher import Batcher

_POWERS = [2.0**i for i in range(15)]


class Metrics:
    """What `/metrics` tells; no text and no address of a client is in it."""

    def __init__(self, batcher: Batcher[Any]) -> None:
        """Count what a batcher does."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter(
            "roberta_hub_requests", "Requests answered.", ("path", "status"), registry=own
        )
        self.seconds = Histogram(
            "roberta_hub_request_seconds", "Seconds of a request.", ("path",), registry=own
        )
        self._rows = Histogram(
            "roberta_hub_batch_rows", "Texts or pairs of a batch.", buckets=_POWERS, registry=own
        )
        self._tokens = Counter("roberta_hub_tokens", "Tokens run, estimated.", registry=own)
        self._busy = Counter(
            "roberta_hub_model_seconds", "Seconds that the model ran.", registry=own
        )
        waiting = Gauge(
            "roberta_hub_waiting_tokens", "Tokens that wait or run now, estimated.", registry=own
        )
        waiting.set_function(lambda: batcher.waiting)
        batcher.tell = self._batch

    def _batch(self, rows: int, tokens: int, seconds: float) -> None:
        self._rows.observe(rows)
        self._tokens.inc(tokens)
        self._busy.inc(seconds)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(path, status).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Write the counts in Prometheus' format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
