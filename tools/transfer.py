"""Gives a trained encoder another vocabulary, as the start of a new model.

Layers know nothing of spelling; the embedding does. Each piece of the new vocabulary gets the mean
of the donor's vectors for its letters, so that the layers read the same words as before. What the
new pieces tell beyond that (case, accents, another cut) and the LM head are left to training.

Legend: V new vocabulary, C width of both models, E width of a factorized embedding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta, require_roberta
from roberta_hub.text.task import Task
from roberta_hub.text.tokenizer import Tokenizer

FIRST_LOGITS_SPREAD = 4.0
"""Spread of the LM head's first logits around the words' frequencies, for a feature of length
sqrt(E): some words are likelier, none is certain."""


def transfer(
    donor: RobertaHubInterface,
    tokenizer: Tokenizer,
    frequencies: Tensor,
    *,
    embedding_dim: int | None = None,
) -> RobertaHubInterface:
    """Make a model with a donor's layers and another vocabulary.

    Segments are given up: the donor's first one is added to the positions. Heads are dropped.

    Args:
        donor: a model whose embeddings have the width of its layers (BERT, RoBERTa, MiniLM).
        tokenizer: of the new model.
        frequencies: how often each new id occurs in text. They weigh the factorization, and are the
            first biases of the LM head. Shape: (V,)
        embedding_dim: E; None: the embedding is not factorized.

    Returns:
        A model in train mode with an LM head and no other. It makes sentence vectors as the donor
        does.

    Raises:
        InputError: a donor with a factorized embedding or pre-norm layers, or frequencies of
            another vocabulary.

    Example:
        >>> import roberta_hub
        >>> donor = roberta_hub.load_model("roberta.base", pretrained=False)
        >>> tokenizer = Tokenizer.shipped()
        >>> model = transfer(donor, tokenizer, torch.ones(len(tokenizer)))
        >>> model.cfg.num_layers, model.encode("Hello world!").tolist()
        (12, [0, 31414, 232, 328, 2])
    """
    source = require_roberta(donor.model, "a vocabulary's transfer reads")
    if source.config.embedding_dim is not None or source.config.normalize_before:
        raise InputError(
            "the donor's embedding is factorized or its layers are pre-norm; give one without"
        )
    if frequencies.shape != (len(tokenizer),):
        raise InputError(
            f"frequencies have shape {tuple(frequencies.shape)}, the vocabulary has "
            f"{len(tokenizer)} words"
        )
    layout = tokenizer.layout
    config = replace(
        RobertaConfig(),
        vocab_size=len(tokenizer),
        padding_idx=layout.pad,
        embedding_dim=embedding_dim,
        **{
            name: getattr(source.config, name)
            for name in (
                "max_positions",
                "embed_dim",
                "ffn_dim",
                "num_layers",
                "num_heads",
                "num_unique_layers",
                "activation_fn",
            )
        },
    )
    model = Roberta(config)
    model.transformer.layers.load_state_dict(source.transformer.layers.state_dict())
    with torch.no_grad():
        _set_embeddings(model, source, mean_vectors(donor, tokenizer), frequencies)
        _set_lm_head(model, frequencies)
    model.sentence_layers = copy.deepcopy(source.sentence_layers)
    if donor.sentence is not None and "pooler" in donor.sentence.pooling:
        model.pooler = copy.deepcopy(source.pooler)
    task = Task(tokenizer.dictionary, layout=layout)
    return RobertaHubInterface(config, task, model, bpe=tokenizer.engine, sentence=donor.sentence)


def mean_vectors(donor: RobertaHubInterface, tokenizer: Tokenizer) -> Tensor:
    """Compute the mean of the donor's word vectors for each piece of a vocabulary: (V, C).

    A piece without letters that the donor knows has the donor's vector for the unknown.
    """
    table = require_roberta(
        donor.model, "a vocabulary's transfer reads"
    ).transformer.embed_tokens.weight
    own, new = donor.tokenizer.layout, tokenizer.layout
    ids = dict(enumerate(spellings(donor.tokenizer, tokenizer)))
    ids |= {new.bos: [own.bos], new.eos: [own.eos], new.pad: [own.pad], new.unk: [own.unk]}
    if new.mask is not None and own.mask is not None:
        ids[new.mask] = [own.mask]
    rows = [ids[i] or [own.unk] for i in range(len(tokenizer))]
    flat = torch.tensor([i for row in rows for i in row])
    starts = torch.tensor([0, *map(len, rows)]).cumsum(0)[:-1]
    return torch.nn.functional.embedding_bag(flat, table.detach().float(), starts, mode="mean")


def spellings(donor: Tokenizer, tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Spell each token of a vocabulary in the donor's tokens; empty for tokens without text.

    A piece that begins a word, or with a capital letter, is spelt as a word, another one as the
    rest of a word.

    Example:
        >>> from itertools import islice
        >>> tokenizer = Tokenizer.shipped()
        >>> next(islice(spellings(tokenizer, tokenizer), 232, None))  # " world"
        [232]
    """
    rest = _rests(donor)
    longest = max(map(len, rest), default=0)
    is_text, begins = tokenizer.words.tolist(), tokenizer.beginnings.tolist()
    for i in range(len(tokenizer)):
        text = tokenizer.decode_id(i)
        if not is_text[i] or "\N{REPLACEMENT CHARACTER}" in text or not text.strip():
            yield []
            continue
        # A donor of WordPiece drops the blank, one of bytes needs it.
        word = donor.ids_of(text).tolist()
        word = [w for w in word if w != donor.layout.unk]
        inside = text[0].isalnum() and not text[0].isupper() and not begins[i]
        yield (inside and _cut("".join(map(donor.decode_id, word)), rest, longest)) or word


def _rests(donor: Tokenizer) -> dict[str, int]:
    """Find the donor's pieces that continue a word, by their text."""
    inside = (donor.words & ~donor.beginnings).nonzero().squeeze(1).tolist()
    return {donor.decode_id(i).strip(): i for i in inside}


def _cut(text: str, rest: dict[str, int], longest: int) -> list[int]:
    """Cut the rest of a word into the longest pieces; empty where one is missing."""
    text, found, start = text.strip(), [], 0
    while start < len(text):
        ends = range(min(start + longest, len(text)), start, -1)
        end = next((end for end in ends if text[start:end] in rest), None)
        if end is None:
            return []
        found.append(rest[text[start:end]])
        start = end
    return found


def _set_embeddings(model: Roberta, source: Roberta, words: Tensor, frequencies: Tensor) -> None:
    encoder, donor = model.transformer, source.transformer
    mean = words.new_zeros(words.size(1))
    projection = encoder.embed_projection
    if projection is not None:
        # The best factors for a text: the rows that matter most are those that occur.
        weights = (frequencies + 1.0) / (frequencies + 1.0).sum()
        mean = weights @ words
        words = words - mean
        _, _, directions = torch.linalg.svd(weights.sqrt()[:, None] * words, full_matrices=False)
        directions = directions[: encoder.embed_tokens.embedding_dim]  # (E, C), orthonormal
        projection.weight.copy_(directions.t())
        words = words @ directions.t()
    encoder.embed_tokens.weight.copy_(words)
    encoder.embed_tokens.weight[model.config.padding_idx] = 0.0
    places = donor.embed_positions.weight[source.config.padding_idx + 1 :] + mean
    if donor.segment_embeddings is not None:
        places = places + donor.segment_embeddings.weight[0]
    encoder.embed_positions.weight[model.config.padding_idx + 1 :] = places
    encoder.embed_positions.weight[model.config.padding_idx] = 0.0
    assert encoder.layernorm_embedding is not None  # RobertaConfig's default
    if donor.layernorm_embedding is not None:
        encoder.layernorm_embedding.load_state_dict(donor.layernorm_embedding.state_dict())


def _set_lm_head(model: Roberta, frequencies: Tensor) -> None:
    """Begin with the words' frequencies, and features as they leave the encoder."""
    head = model.encoder.lm_head
    assert head is not None  # RobertaConfig's default
    shares = (frequencies + 0.1) / (frequencies + 0.1).sum()
    head.bias.copy_(shares.log())
    spread = head.weight[shares.topk(min(1000, len(shares))).indices].norm(dim=1).mean()
    head.layer_norm.weight.fill_(float(FIRST_LOGITS_SPREAD / spread) / head.weight.size(1) ** 0.5)
