"""Hidden states of texts, per token or pooled."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from roberta_hub.arguments import one_of, switch, whole_number
from roberta_hub.inference.batching import BatchStates, Reading
from roberta_hub.inference.pooling import pooled
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.windows import Windows
from roberta_hub.settings import Pooling
from roberta_hub.text.tokenizer import Text


def features(
    model: VerbModel,
    texts: Sequence[Text],
    *,
    layer: int = -1,
    pooling: Pooling | None = None,
    normalize: bool = False,
) -> list[Tensor] | Tensor:
    """Hidden states of each text, (T_i, C), or one vector a text, (len(texts), C), when pooled.

    See `RobertaHubInterface.features`.
    """
    one_of("pooling", pooling, (None, "cls", "mean", "max", "pooler"))
    layer = whole_number("layer", layer, hint="-1 is the features, 0 the embeddings, 1 a layer")
    normalize = switch("normalize", normalize)
    runner = model.runner
    windows, firsts, which = runner.encode(texts)
    if pooling is not None:
        vectors = pooled(runner, windows, (pooling,), layer=layer)
        return (F.normalize(vectors, dim=-1) if normalize else vectors)[which]

    def read(rows: BatchStates) -> list[Tensor]:
        # A view would keep its whole batch alive as long as the caller keeps one text.
        return [part.clone() for part in rows.split()]

    def merge(text: Windows, parts: list[Tensor]) -> Tensor:
        states = text.merge(parts)
        return F.normalize(states, dim=-1) if normalize else states

    merged = runner.run_windows(windows, Reading(read=read, merge=merge, layer=layer))
    # Duplicate texts get tensors of their own, which the caller may change.
    return [merged[n] if firsts[n] == i else merged[n].clone() for i, n in enumerate(which)]
