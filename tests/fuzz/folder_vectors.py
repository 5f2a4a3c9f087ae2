"""Random folders of sentence-transformers: chains of modules, prompts, cross-encoders."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import sentence_transformers
import torch
from sentence_transformers.base import modules as base
from sentence_transformers.sentence_transformer import modules as own

from .folder_checks import Case, is_open, load
from .folder_found import PROBABILITY
from .folder_models import Model
from .folder_peers import tell_segments

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
OLD_POOLINGS = {
    "cls": "cls_token",
    "max": "max_tokens",
    "mean": "mean_tokens",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean": "weightedmean_tokens",
    "lasttoken": "lasttoken",
}
ACTIVATIONS = (
    torch.nn.Tanh,
    torch.nn.Identity,
    torch.nn.ReLU,
    torch.nn.GELU,
    torch.nn.SiLU,
    torch.nn.Sigmoid,
    torch.nn.Mish,
    torch.nn.Softplus,
)
PROMPTS: dict[str, Any] = {
    "query": "Search: ",
    "document": "the ",
    "passage": "passage: ",
    "corpus": "",
    "clustering": "Zug",
    "STS": "a  b ",
}
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
ONE, SEVERAL = ("Identity", "Sigmoid", "Tanh"), ("Identity", "Softmax", "Sigmoid")


def write_chain(
    draw: random.Random, body: Path, model: Model, folder: Path
) -> tuple[dict[str, Any], Any]:
    """Write modules over a body; return what was chosen, and the package's model."""
    about: dict[str, Any] = {}
    length = draw.choice((None, None, draw.randint(5, model.limit)))
    lower = draw.random() < 0.2
    transformer = base.Transformer(
        str(body),
        max_seq_length=length,
        do_lower_case=lower,
        model_kwargs={"dtype": torch.float32},
    )
    modes = tuple(draw.sample(POOLINGS, draw.choice((1, 1, 1, 2, 3))))
    include = draw.random() < 0.7
    width = model.width * len(modes)
    chain: list[Any] = [transformer, own.Pooling(model.width, modes, include_prompt=include)]
    about |= {"max_seq_length": length, "do_lower_case": lower, "pooling": modes}
    about |= {"include_prompt": include}
    for _ in range(draw.choice((0, 0, 1, 2, 3))):
        kind = draw.choice(("Dense", "LayerNorm", "Dropout", "Normalize"))
        torch.manual_seed(draw.randrange(1 << 30))
        if kind == "Dense":
            out = draw.choice((width, 8, 12))
            made: Any = base.Dense(
                width,
                out,
                bias=draw.random() < 0.7,
                activation_function=draw.choice(ACTIVATIONS)(),
                use_residual=draw.random() < 0.2,
            )
            width = out
        elif kind == "LayerNorm":
            made = own.LayerNorm(width)
            torch.nn.init.normal_(made.norm.weight)
            torch.nn.init.normal_(made.norm.bias)
        else:
            made = own.Dropout(0.3) if kind == "Dropout" else base.Normalize()
        chain.append(made)
        about.setdefault("modules", []).append(str(made)[:80])
    names = draw.sample(sorted(PROMPTS), draw.choice((0, 1, 2, 4)))
    prompts = {name: PROMPTS[name] for name in names}
    default = draw.choice((None, *prompts)) if prompts else None
    cut = draw.choice((None, None, draw.randint(1, width)))
    similarity = draw.choice(SIMILARITIES)
    about |= {"prompts": prompts, "default": default, "truncate_dim": cut, "by": similarity}
    peer = sentence_transformers.SentenceTransformer(
        modules=chain,
        prompts=prompts,
        default_prompt_name=default,
        truncate_dim=cut,
        similarity_fn_name=similarity,
        device="cpu",
    )
    peer.save(str(folder), create_model_card=False)
    for name in ("sentence_bert_config.json",):
        path = folder / name
        kept = json.loads(path.read_text(encoding="utf-8"))
        kept.pop("model_kwargs", None)
        path.write_text(json.dumps(kept), encoding="utf-8")
    if draw.random() < 0.35:
        about["layout"] = "version 2"
        _as_version_2(folder, modes, model.width, length, lower)
        peer = peer_of(folder)
    # What version 6 wrote it does not read itself: transformers' class drops the normalizer.
    return about, peer


def _as_version_2(
    folder: Path, modes: tuple[str, ...], width: int, length: int | None, lower: bool
) -> None:
    """The same in the words of sentence-transformers 2 to 5."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8"))
    for part in modules:
        part["type"] = f"sentence_transformers.models.{part['type'].rpartition('.')[2]}"
    path.write_text(json.dumps(modules), encoding="utf-8")
    pooling = next(part["path"] for part in modules if part["type"].endswith("Pooling"))
    path = folder / pooling / "config.json"
    before = json.loads(path.read_text(encoding="utf-8"))
    about: dict[str, Any] = {"word_embedding_dimension": width}
    if len(modes) == 1 or [*OLD_POOLINGS].index(modes[0]) < [*OLD_POOLINGS].index(modes[1]):
        ordered = [name for name in OLD_POOLINGS if name in modes] == [*modes]
        if ordered:
            about |= {f"pooling_mode_{old}": name in modes for name, old in OLD_POOLINGS.items()}
            about["include_prompt"] = before["include_prompt"]
            path.write_text(json.dumps(about), encoding="utf-8")
    path = folder / "sentence_bert_config.json"
    body: dict[str, Any] = {"do_lower_case": lower}
    if length is not None:
        body["max_seq_length"] = length
    path.write_text(json.dumps(body), encoding="utf-8")


def peer_of(folder: Path) -> Any:
    return sentence_transformers.SentenceTransformer(
        str(folder), device="cpu", model_kwargs={"dtype": torch.float32}
    )


def check_vectors(case: Case, folder: Path, peer: Any) -> None:
    """embed with each prompt, of pairs; similarity."""
    found = case.found
    tell_segments(folder, case.model.family, peer.tokenizer)
    with found.asking("load sentence-transformers"):
        ours = load(folder)
        options = {"convert_to_tensor": True, "show_progress_bar": False, "batch_size": 1}
        longest = peer.max_seq_length
        for text in _texts(case, peer):
            name = case.draw.choice((None, *peer.prompts))
            prompt = case.draw.choice((None, None, "My own: ")) if name is None else None
            try:
                theirs = peer.encode([text], prompt_name=name, prompt=prompt, **options).float()
            except (IndexError, RuntimeError):  # it cuts at the tokenizer's length alone
                found.peers["SentenceTransformer: a text beyond the model's positions"] += 1
                continue
            with found.asking("embed"):
                if prompt is None:
                    mine = ours.embed([text], truncate=True, prompt_name=name)
                else:
                    mine = ours.embed([text], prompt, truncate=True)
                if bool(theirs.isfinite().all()):
                    found.close("vectors", mine, theirs, (text, name, prompt, longest))
        texts = [text for text in case.plain(3) if not is_open(case, text)]
        if texts:
            vectors = peer.encode(texts, **options).float()
            wanted = peer.similarity(vectors, vectors)
            with found.asking("similarity"):
                mine = ours.similarity(texts, texts, truncate=True)
                found.close("similarity", mine, wanted, texts, 3e-4)


def _texts(case: Case, peer: Any) -> list[Any]:
    """Texts that no documented difference is about, also behind a prompt and in lower case."""
    texts: list[Any] = []
    starts = ["", "My own: ", *(prompt or "" for prompt in peer.prompts.values())]
    for text in case.texts(8):
        forms = [start + text for start in starts]
        forms += [form.lower() for form in forms]
        if all(case.peer.is_same(form) and not is_open(case, form) for form in forms):
            texts.append(text)
    pairs = case.pairs(2)
    return [*texts, *(pair for pair in pairs if not is_open(case, pair))]


def write_cross_encoder(draw: random.Random, body: Path, model: Model, folder: Path) -> Any:
    """Save a cross-encoder; return the function of its scores."""
    count = model.peer.config.num_labels
    name = draw.choice((None, *(ONE if count == 1 else SEVERAL)))
    options = {"activation_fn": getattr(torch.nn, name)()} if name else {}
    if name == "Softmax":
        options = {"activation_fn": torch.nn.Softmax(dim=-1)}
    peer = sentence_transformers.CrossEncoder(
        str(body), device="cpu", model_kwargs={"dtype": torch.float32}, **options
    )
    peer.save_pretrained(str(folder))
    return name


def check_cross_encoder(case: Case, folder: Path) -> None:
    """rank and classify, as CrossEncoder.rank and predict."""
    found = case.found
    peer = sentence_transformers.CrossEncoder(
        str(folder), device="cpu", model_kwargs={"dtype": torch.float32}
    )
    tell_segments(folder, case.model.family, peer.tokenizer)
    name = type(peer.activation_fn).__name__
    count = case.model.peer.config.num_labels
    pairs = [pair for pair in case.pairs(4) if not is_open(case, pair)]
    if not pairs:
        return
    options = {"show_progress_bar": False, "batch_size": 1}  # padding on the left moves positions
    theirs = peer.predict(pairs, convert_to_tensor=True, **options).float()
    with found.asking("load cross-encoder"):
        ours = load(folder)
        with found.asking("classify pairs"):
            if count == 1:
                rows = ours.classify(pairs, multi_label=name == "Sigmoid")
                mine = torch.tensor([row.score for row in rows])
                mine = mine.tanh() if name == "Tanh" else mine
                found.close("cross-encoder", mine, theirs.flatten(), pairs, PROBABILITY)
                query = pairs[0][0]
                texts = list(dict.fromkeys(second for _, second in pairs))
                texts = [text for text in texts if case.fits((query, text))]
                if texts:
                    sigmoid = peer.rank(query, texts, **options)
                    order = {row["corpus_id"]: float(row["score"]) for row in sigmoid}
                    hits = ours.rank(query, texts)
                    places = [order[hit.index] for hit in hits]
                    falls = all(
                        a >= b - PROBABILITY for a, b in zip(places, places[1:], strict=False)
                    )
                    found.same("rank", falls, True, (query, texts))
            else:
                rows = ours.classify(pairs)
                labels = [case.model.peer.config.id2label[i] for i in range(count)]
                mine = torch.tensor([[row.scores[label] for label in labels] for row in rows])
                kind = case.model.peer.config.problem_type
                if name == "Identity":
                    theirs = (
                        theirs
                        if kind == "regression"
                        else theirs.sigmoid()
                        if kind == "multi_label_classification"
                        else theirs.softmax(-1)
                    )
                found.close("cross-encoder", mine, theirs, pairs, PROBABILITY)
