"""LitServe around all-MiniLM-L6-v2 by this package, with its own batching.

python benchmarks/lib/served_litserve.py FOLDER PORT
"""

from __future__ import annotations

import sys
from typing import Any

import litserve


class Embedder(litserve.LitAPI):  # type: ignore[misc]
    """Vectors in OpenAI's shape, of one text a request."""

    def setup(self, device: object) -> None:
        """Load the model in the worker's process."""
        import roberta_hub

        self.roberta = roberta_hub.load_model(sys.argv[1]).optimize()

    def decode_request(self, request: Any) -> Any:
        """Read the text."""
        return request["input"]

    def batch(self, inputs: Any) -> Any:
        """Join texts."""
        return inputs

    def predict(self, texts: Any) -> Any:
        """Embed a batch, or the text of one request."""
        return self.roberta.embed(texts)

    def unbatch(self, found: Any) -> Any:
        """Part the vectors."""
        return list(found)

    def encode_response(self, found: Any) -> Any:
        """Write one vector."""
        return {"data": [{"index": 0, "embedding": found.tolist()}]}


if __name__ == "__main__":
    api = Embedder(max_batch_size=64, batch_timeout=0.002, api_path="/v1/embeddings")
    litserve.LitServer(api, accelerator="cpu").run(
        port=int(sys.argv[2]), generate_client_file=False, log_level="warning"
    )
