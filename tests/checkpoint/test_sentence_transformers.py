"""sentence-transformers directories: what they say is read, kept and written; the rest is refused.

The real package is the peer: it loads what we save and gives the same vectors, and we give those of
what it saves.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from families import SENTENCES, write_family
from small_models import assert_close, small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings
from roberta_hub.errors import CheckpointError
from roberta_hub.files import MAX_JSON_BYTES
from roberta_hub.folder import Folder
from roberta_hub.formats.sentence_transformers import (
    SETTINGS_FILES,
    find_body,
    read_sentence_settings,
    sentence_files,
)

OLD = "sentence_transformers.models."
PARTS = [
    {"idx": 0, "name": "0", "path": "", "type": f"{OLD}Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{OLD}Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{OLD}Normalize"},
]
MEAN = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}


def write(directory: Path, **files: Any) -> Path:
    """A directory's settings; a file's name is given with `_` for what no keyword has."""
    names = {
        "modules": "modules.json",
        "pooling": "1_Pooling/config.json",
        "normalize": "2_Normalize/config.json",
        "body": "sentence_bert_config.json",
        "model": "config_sentence_transformers.json",
        "tokenizer": "tokenizer_config.json",
    }
    for name, content in ({"modules": PARTS[:2], "pooling": MEAN} | files).items():
        path = directory / names[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return directory


# ---- reading ----


def test_what_all_minilm_says(tmp_path: Path) -> None:
    write(
        tmp_path,
        modules=PARTS,
        body={"max_seq_length": 256, "do_lower_case": False},
        model={"__version__": {"sentence_transformers": "2.0.0"}},
        tokenizer={"model_max_length": 512},
    )
    # Its 2_Normalize is no folder: git holds no empty one.
    found = read_sentence_settings(Folder(tmp_path))
    assert found == SentenceSettings(pooling="mean", normalize=True, max_length=256)
    assert find_body(Folder(tmp_path)) == Folder(tmp_path)


def test_what_version_6_writes(tmp_path: Path) -> None:
    body = {
        "transformer_task": "feature-extraction",
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
        "module_output_name": "token_embeddings",
    }
    new = "sentence_transformers.base.modules."
    kinds = (
        f"{new}transformer.Transformer",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        f"{new}normalize.Normalize",
    )
    write(
        tmp_path,
        modules=[part | {"type": kind} for part, kind in zip(PARTS, kinds, strict=True)],
        pooling={
            "embedding_dimension": 32,
            "pooling_mode": ["mean", "cls"],
            "include_prompt": True,
        },
        normalize={
            "module_input_name": "sentence_embedding",
            "module_output_name": "sentence_embedding",
        },
        body=body,
        model={
            "model_type": "SentenceTransformer",
            "prompts": {"query": "query: ", "document": None},
            "default_prompt_name": "query",
            "similarity_fn_name": "dot",
        },
        tokenizer={"model_max_length": 64},
    )
    assert read_sentence_settings(Folder(tmp_path)) == SentenceSettings(
        pooling=("mean", "cls"),
        normalize=True,
        max_length=64,
        prompts={"query": "query: ", "document": ""},
        default_prompt="query",
        similarity="dot",
    )


@pytest.mark.parametrize(
    ("pooling", "names"),
    [
        ({"pooling_mode_cls_token": True}, ("cls",)),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}, ("max",)),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ("mean_sqrt_len",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean")),
        ({"pooling_mode_weightedmean_tokens": False, "pooling_mode_lasttoken": False}, ("mean",)),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, ("mean_sqrt_len",)),
        ({"pooling_mode": "cls", "pooling_mode_mean_tokens": True}, ("cls",)),
    ],
)
def test_both_spellings_of_poolings(tmp_path: Path, pooling: Any, names: tuple[str, ...]) -> None:
    found = read_sentence_settings(Folder(write(tmp_path, pooling=pooling)))
    assert found is not None and found.pooling == names


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"body": {"max_seq_length": None}}, None),
        ({"body": {"max_seq_length": 128}, "tokenizer": {"model_max_length": 512}}, 128),
        ({"tokenizer": {"model_max_length": 512}}, 512),
        ({"tokenizer": {"model_max_length": int(1e30)}}, None),
        ({"tokenizer": {"model_max_length": 1e30}}, None),
        ({"body": {"max_seq_length": 9, "tokenizer_args": {"model_max_length": 7}}}, 7),
    ],
)
def test_the_limit(tmp_path: Path, files: Any, limit: int | None) -> None:
    found = read_sentence_settings(Folder(write(tmp_path, **files)))
    assert found is not None and found.max_length == limit


def test_a_cross_encoder_makes_no_vectors(tmp_path: Path) -> None:
    body = {"transformer_task": "sequence-classification"}
    write(tmp_path, modules=PARTS[:1], body=body, model={"model_type": "CrossEncoder"})
    assert read_sentence_settings(Folder(tmp_path)) is None


# ---- what is refused ----

UNREAD: list[tuple[dict[str, Any], str]] = [
    ({"modules": [PARTS[0], {"path": "x", "type": f"{OLD}WeightedLayerPooling"}]}, "WeightedLa"),
    ({"modules": [PARTS[0], {"path": "x", "type": f"{OLD}Dense"}, PARTS[1]]}, "er, Dense, Pooling"),
    ({"modules": [*PARTS[:2], {"path": "x", "type": f"{OLD}CNN"}]}, "CNN"),
    ({"modules": [PARTS[0] | {"type": "os.system"}, *PARTS[1:]]}, "os.system"),
    ({"modules": [PARTS[0] | {"type": "custom_st.Transformer"}, PARTS[1]]}, "custom_st"),
    ({"modules": [PARTS[0] | {"type": f"{OLD}CLIPModel"}, PARTS[1]]}, "CLIPModel"),
    ({"modules": [PARTS[0] | {"type": ["a"]}, PARTS[1]]}, r"the part \['a'\]"),
    ({"modules": [PARTS[1], PARTS[0]]}, "a Pooling as the first part"),
    ({"modules": [PARTS[0], PARTS[2], PARTS[1]]}, "Transformer, Normalize, Pooling"),
    ({"modules": PARTS[:1]}, "the parts Transformer, which"),
    ({"model": {"model_type": "SparseEncoder"}}, "SparseEncoder"),
    ({"model": {"model_type": ["a"]}}, "model_type"),
    ({"model": {"colour": 8}}, "colour"),
    ({"pooling": {"pooling_mode": ["mean", "attention"]}}, "attention"),
    ({"pooling": {"pooling_mode_attention": True}}, "pooling_mode_attention"),
    ({"pooling": MEAN | {"colour": "red"}}, "colour"),
    ({"body": {"tokenizer_name_or_path": "x"}}, "tokenizer_name_or_path"),
    ({"body": {"model_kwargs": {"subfolder": "x"}}}, "subfolder"),
    ({"body": {"transformer_task": "fill-mask"}}, "fill-mask"),
    ({"body": {"query_length": 32}}, "query_length 32"),
    ({"body": {"config_args": {"num_hidden_layers": 1}}}, "config_args"),
    ({"body": {"tokenizer_args": {"padding_side": "left"}}}, "padding_side"),
    ({"body": {"modality_config": {"image": {}}}}, "modality_config"),
    ({"modules": PARTS, "normalize": {"module_input_name": "token_embeddings"}}, "token_embeddi"),
]


@pytest.mark.parametrize(("files", "says"), UNREAD)
def test_other_parts_are_refused_by_name(tmp_path: Path, files: Any, says: str) -> None:
    with pytest.raises(CheckpointError, match=says) as raised:
        read_sentence_settings(Folder(write(tmp_path, **files)))
    assert "is not read here" in str(raised.value)


@pytest.mark.parametrize(
    "place",
    ["../..", "..", "1_Pooling/../..", "/etc", "a/b", ".hidden", "a\0b", "~", "C:\\x", 3, None, {}],
)
def test_a_part_lies_in_the_directory(tmp_path: Path, place: Any) -> None:
    write(tmp_path / "model", modules=[PARTS[0], PARTS[1] | {"path": place}])
    with pytest.raises(CheckpointError, match="is no folder of"):
        read_sentence_settings(Folder(tmp_path / "model"))
    write(tmp_path / "model", modules=[PARTS[0] | {"path": place}, PARTS[1]])
    with pytest.raises(CheckpointError, match="is no folder of"):
        find_body(Folder(tmp_path / "model"))


def test_a_folder_may_be_no_link(tmp_path: Path) -> None:
    write(tmp_path / "other")
    write(tmp_path / "model")
    shutil.rmtree(tmp_path / "model/1_Pooling")
    os.symlink(tmp_path / "other/1_Pooling", tmp_path / "model/1_Pooling")
    with pytest.raises(CheckpointError, match="is a link"):
        read_sentence_settings(Folder(tmp_path / "model"))


def test_files_may_be_links(tmp_path: Path) -> None:
    """So they lie in Hugging Face's cache."""
    write(tmp_path / "blobs")
    for name in ("modules.json", "1_Pooling/config.json"):
        link = tmp_path / "snapshots/main" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(tmp_path / "blobs" / name, link)
    assert read_sentence_settings(Folder(tmp_path / "snapshots/main")) == SentenceSettings()


DEEP = "[" * 100_000 + "]" * 100_000
BAD: list[tuple[dict[str, Any], str]] = [
    ({"modules": {"0": PARTS[0]}}, "expected a JSON list, found dict"),
    ({"modules": []}, "0 parts"),
    ({"modules": [PARTS[0], PARTS[1] | {"name": "0"}]}, "part 1 has the name '0'"),
    ({"model": {"truncate_dim": 0}}, "truncate_dim is 0"),
    ({"pooling": MEAN | {"include_prompt": "no"}}, "include_prompt is 'no'"),
    ({"modules": PARTS * 50}, "150 parts, must be 1 to 100"),
    ({"modules": [PARTS[0], ["Pooling"]]}, "part 1 is"),
    ({"modules": "[1, 2"}, "not readable JSON"),
    ({"modules": DEEP}, "modules.json: (not readable JSON|1 part|part 0)"),
    ({"modules": " " * (MAX_JSON_BYTES + 1)}, "larger than 10,000,000 bytes, the limit"),
    ({"pooling": " " * (MAX_JSON_BYTES + 1)}, "larger than 10,000,000 bytes, the limit"),
    ({"pooling": [True]}, "expected a JSON object, found list"),
    ({"pooling": {"pooling_mode_mean_tokens": "true"}}, "must be true or false"),
    ({"pooling": {"pooling_mode_mean_tokens": 1}}, "must be true or false"),
    ({"pooling": {"pooling_mode": {"mean": 1}}}, "not a name or a list"),
    ({"pooling": {"pooling_mode": [["mean"]]}}, "not a name or a list"),
    ({"pooling": {"pooling_mode": []}}, "one or more"),
    ({"body": {"max_seq_length": "256"}}, "max_seq_length is '256'"),
    ({"body": {"max_seq_length": 0}}, "max_seq_length is 0"),
    ({"body": {"max_seq_length": True}}, "max_seq_length is True"),
    ({"body": {"do_lower_case": "false"}}, "do_lower_case is 'false'"),
    ({"body": {"do_lower_case": None}}, "do_lower_case is None"),
    ({"body": ["a"]}, "expected a JSON object, found list"),
    ({"body": {"tokenizer_args": ["model_max_length"]}}, "settings of the tokenizer"),
    ({"model": {"prompts": ["query: "]}}, "prompts is"),
    ({"model": {"prompts": {"query": 3}}}, "prompts is"),
    ({"model": {"default_prompt_name": "query"}}, "default_prompt_name is 'query'"),
    ({"model": {"default_prompt_name": ["query"]}}, "default_prompt_name is"),
    ({"model": {"similarity_fn_name": "maxsim"}}, "similarity_fn_name is 'maxsim'"),
    ({"model": {"similarity_fn_name": {}, "prompts": {}}}, None),
]


@pytest.mark.parametrize(("files", "says"), BAD)
def test_damaged_files_are_sentences(tmp_path: Path, files: Any, says: str | None) -> None:
    write(tmp_path, **files)
    if says is None:  # an empty value is none
        assert read_sentence_settings(Folder(tmp_path)) == SentenceSettings()
        return
    with pytest.raises(CheckpointError, match=says) as raised:
        read_sentence_settings(Folder(tmp_path))
    assert len(str(raised.value)) < 1000


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "1_Pooling/config.json").unlink()
    os.mkfifo(tmp_path / "1_Pooling/config.json")
    with pytest.raises(CheckpointError, match="named pipe"):
        read_sentence_settings(Folder(tmp_path))


# ---- whole directories ----

SETTINGS = SentenceSettings(
    pooling=("cls", "mean"),
    normalize=True,
    max_length=40,
    prompts={"query": "query: ", "passage": ""},
    default_prompt="passage",
    lower_case=True,
    similarity="dot",
)
TEXTS = [*SENTENCES[:6], "x", "", "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 4]


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare RoBERTa with a byte-level vocabulary of 380 pieces, as transformers saves it."""
    return write_family("gottbert", tmp_path_factory.mktemp("body"), head="bare")


@pytest.fixture(scope="module")
def encoder(body: Path) -> RobertaHubInterface:
    model = roberta_hub.load_model(body).eval()
    assert model.sentence is None
    model.sentence = SETTINGS
    return model


@pytest.mark.parametrize("format", ["roberta_hub", "huggingface"])
def test_settings_are_saved_and_loaded(
    encoder: RobertaHubInterface, format: Any, tmp_path: Path
) -> None:
    encoder.save(tmp_path, format=format)
    again = roberta_hub.load_model(tmp_path).eval()
    assert again.sentence == SETTINGS
    assert torch.equal(again.embed(TEXTS, truncate=True), encoder.embed(TEXTS, truncate=True))
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    written = sentence_files(SETTINGS, 32, 48).keys()
    assert written <= {*SETTINGS_FILES}
    assert names.issuperset(written) == (format == "huggingface")
    encoder.sentence, kept = None, encoder.sentence  # an older save's files go
    try:
        encoder.save(tmp_path, format=format)
    finally:
        encoder.sentence = kept
    assert roberta_hub.load_model(tmp_path).sentence is None
    assert not names.intersection(SETTINGS_FILES) & {
        str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")
    }


@pytest.mark.parametrize("bad", [["mean"], {"pooling": "middle"}, {"colour": 1}, 3])
def test_a_damaged_store_is_a_sentence(
    encoder: RobertaHubInterface, bad: Any, tmp_path: Path
) -> None:
    encoder.save(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {"sentence": bad}))
    with pytest.raises(CheckpointError, match="not a configuration"):
        roberta_hub.load_model(tmp_path)


def test_an_order_that_switches_cannot_say(tmp_path: Path) -> None:
    for pooling in (("mean", "cls"), ("cls", "mean"), ("mean_sqrt_len",)):
        given = SentenceSettings(pooling=pooling)
        for name, data in sentence_files(given, 32, 48).items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        assert read_sentence_settings(Folder(tmp_path)) == dataclasses.replace(given, max_length=48)


@pytest.mark.system
@pytest.mark.parametrize(("given", "written"), [(None, 48), (20, 20), (512, 48)])
def test_a_server_in_rust_reads_every_file(given: int | None, written: int, tmp_path: Path) -> None:
    """text-embeddings-inference has types without null for these, and refuses to start."""
    roberta = small_roberta(heads={"topic": 2}, num_layers=1)
    roberta.sentence = SentenceSettings(normalize=True, max_length=given, prompts={"q": "q: "})
    roberta.save(tmp_path, "huggingface", "topic")
    read = {path.name: json.loads(path.read_bytes()) for path in tmp_path.glob("*.json")}
    assert read["sentence_bert_config.json"]["max_seq_length"] == written
    config = read["config.json"]
    assert all(type(name) is str for name in [config["model_type"], *config["architectures"]])
    for name in ("max_position_embeddings", "pad_token_id"):
        assert type(config[name]) is int and config[name] >= 0
    assert all(type(label) is str for label in config["id2label"].values())
    assert all(type(i) is int for i in config["label2id"].values())
    prompts = read["config_sentence_transformers.json"]["prompts"]
    assert prompts == {"q": "q: "}
    pooling = json.loads((tmp_path / "1_Pooling/config.json").read_bytes())
    switches = ("pooling_mode_cls_token", "pooling_mode_mean_tokens")
    assert [pooling[name] for name in switches] == [False, True]
    assert type(read["tokenizer.json"]["model"]["vocab"]) is dict


def test_the_older_layout(body: Path, tmp_path: Path) -> None:
    """The model lies in a folder of its own."""
    shutil.copytree(body, tmp_path / "0_Transformer")
    limit = {"max_seq_length": 40, "do_lower_case": False}
    (tmp_path / "0_Transformer/sentence_roberta_config.json").write_text(json.dumps(limit))
    write(tmp_path, modules=[PARTS[0] | {"path": "0_Transformer"}, PARTS[1]])
    found = roberta_hub.load_model(tmp_path).eval()
    assert found.sentence == SentenceSettings(max_length=40)
    plain = roberta_hub.load_model(body).eval()
    assert torch.equal(found.embed(TEXTS[:1]), plain.embed(TEXTS[:1]))


def test_a_named_file_of_weights(body: Path, tmp_path: Path) -> None:
    """In the directory it keeps its settings; by itself it is the model alone."""
    shutil.copytree(body, tmp_path, dirs_exist_ok=True)
    write(tmp_path, modules=PARTS)
    named = roberta_hub.load_model(tmp_path, checkpoint_file="model.safetensors")
    assert named.sentence == SentenceSettings(normalize=True)
    write(tmp_path, modules=[*PARTS, {"path": "3_Dense", "type": f"{OLD}Dense"}])
    with pytest.raises(CheckpointError, match=r"Dense.*give its file of weights"):
        roberta_hub.load_model(tmp_path)
    assert roberta_hub.load_model(tmp_path / "model.safetensors").sentence is None


# ---- the real package ----


@pytest.fixture(scope="module")
def package() -> Any:
    """sentence-transformers without a word or a network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    found = pytest.importorskip("sentence_transformers")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    return found


KINDS = ["gottbert", "xlm-roberta", "bert", "e5"]
RERANKERS = ["gottbert", "xlm-roberta", "bert"]
POOLED: list[tuple[Any, bool]] = [
    ("mean", True),
    ("cls", False),
    ("max", False),
    ("mean_sqrt_len_tokens", True),
    (("mean", "cls", "max"), False),
]


def their_vectors(model: Any, texts: list[Any], **options: Any) -> torch.Tensor:
    found: torch.Tensor = model.encode(
        texts, convert_to_tensor=True, show_progress_bar=False, device="cpu", **options
    )
    return found.float()


@pytest.fixture(scope="module", params=KINDS)
def their_body(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    return write_family(request.param, folder, head="bare", seed=1)


@pytest.mark.system
@pytest.mark.parametrize(("pooling", "normalize"), POOLED)
def test_what_it_saves(
    package: Any, their_body: Path, pooling: Any, normalize: bool, tmp_path: Path
) -> None:
    parts = package.sentence_transformer.modules
    transformer = package.base.modules.Transformer(str(their_body), max_seq_length=30)
    modules = [transformer, parts.Pooling(32, pooling)]
    modules += [package.base.modules.Normalize()] if normalize else []
    prompts = {"query": "Search: ", "document": "Found: "}
    peer = package.SentenceTransformer(
        modules=modules, prompts=prompts, default_prompt_name="document", device="cpu"
    )
    peer.save(str(tmp_path), create_model_card=False)
    ours = roberta_hub.load_model(tmp_path).eval()
    assert ours.sentence is not None and ours.sentence.max_length == 30
    assert ours.sentence.normalize is normalize
    assert_close(ours.embed(TEXTS, truncate=True), their_vectors(peer, TEXTS))
    asked = their_vectors(peer, TEXTS, prompt_name="query")
    assert_close(ours.embed(TEXTS, prompt_name="query", truncate=True), asked)
    cut = their_vectors(peer, TEXTS, truncate_dim=8, normalize_embeddings=normalize)
    assert_close(ours.embed(TEXTS, truncate_dim=8, truncate=True), cut)
    own = their_vectors(peer, TEXTS, prompt="My own: ")
    assert_close(ours.embed(TEXTS, prompt="My own: ", truncate=True), own)
    found = package.util.semantic_search(
        peer.encode_query(TEXTS[:2], convert_to_tensor=True, show_progress_bar=False),
        peer.encode_document(TEXTS, convert_to_tensor=True, show_progress_bar=False),
        top_k=4,
    )
    for hits, theirs in zip(ours.search(TEXTS[:2], TEXTS, 4, truncate=True), found, strict=True):
        assert [hit.index for hit in hits] == [hit["corpus_id"] for hit in theirs]
        scores = [hit["score"] for hit in theirs]
        assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-5)
    again = tmp_path / "again"
    ours.save(again, format="huggingface")
    theirs_again = package.SentenceTransformer(str(again), device="cpu")
    assert_close(their_vectors(theirs_again, TEXTS), their_vectors(peer, TEXTS))
    assert theirs_again.prompts == prompts and theirs_again.default_prompt_name == "document"


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_what_we_save(
    package: Any, encoder: RobertaHubInterface, similarity: str, tmp_path: Path
) -> None:
    pairs: list[Any] = [(TEXTS[0], TEXTS[1]), (TEXTS[-1], TEXTS[0]), (TEXTS[2], TEXTS[-1])]
    pairs += [(TEXTS[-1][:50], TEXTS[-1][:51]), (TEXTS[-1][:53], TEXTS[-1][:50])]
    kept = encoder.sentence
    encoder.sentence = SentenceSettings(
        pooling=("max", "mean_sqrt_len"), max_length=23, lower_case=True, similarity=similarity
    )
    try:
        encoder.save(tmp_path, format="huggingface")
        peer = package.SentenceTransformer(str(tmp_path), device="cpu")
        for texts in (TEXTS, pairs):
            vectors = encoder.embed(texts, truncate=True)
            assert_close(vectors, their_vectors(peer, [*texts]))
            assert_close(
                encoder.similarity(vectors, vectors[:2]), peer.similarity(vectors, vectors[:2])
            )
    finally:
        encoder.sentence = kept


def test_a_model_without_settings(package: Any, their_body: Path) -> None:
    """Theirs makes one with mean pooling."""
    ours = roberta_hub.load_model(their_body).eval()
    peer = package.SentenceTransformer(str(their_body), device="cpu")
    assert_close(ours.embed(TEXTS[:-1]), their_vectors(peer, TEXTS[:-1]))


@pytest.mark.system
@pytest.mark.parametrize("kind", RERANKERS)
@pytest.mark.parametrize("saved", [False, True])
def test_a_cross_encoder(package: Any, kind: str, saved: bool, tmp_path: Path) -> None:
    folder = write_family(kind, tmp_path / "plain", head="sentence", num_labels=1)
    peer = package.CrossEncoder(str(folder), activation_fn=torch.nn.Identity(), device="cpu")
    if saved:
        peer.save(str(tmp_path / "saved"))
        folder = tmp_path / "saved"
    short = [text[:20] for text in TEXTS[:-1]]
    pairs = [(first, second) for first in short[:3] for second in short[3:]]
    theirs = peer.predict(pairs, show_progress_bar=False, convert_to_tensor=True).float()
    ours = roberta_hub.load_model(folder).eval()
    assert ours.sentence is None
    found = ours.classify(pairs)
    assert_close(torch.tensor([hit.score for hit in found]), theirs)
    assert all(
        set(hit.scores) == {hit.label} and hit.scores[hit.label] == hit.score for hit in found
    )
    by_sigmoid = package.CrossEncoder(str(folder), activation_fn=torch.nn.Sigmoid(), device="cpu")
    hits = ours.rank(short[0], short[3:])
    wanted = by_sigmoid.rank(short[0], short[3:], show_progress_bar=False)
    assert {hit.index: hit.score for hit in hits} == pytest.approx(
        {row["corpus_id"]: float(row["score"]) for row in wanted}, abs=2e-6
    )
    with pytest.raises(ValueError, match="needs a head with 'entailment'"):
        ours.zero_shot(TEXTS[:1], ["art", "sport"], head="sentence_classification_head")
    ours.labels["sentence_classification_head"] = ("entailment",)
    with pytest.raises(ValueError, match="one output, which is a score"):
        ours.zero_shot(TEXTS[:1], ["art", "sport"], head="sentence_classification_head")


# ---- cross-encoders: what changes a score is honoured or refused ----

IDENTITY = "torch.nn.modules.linear.Identity"


def write_cross_encoder(package: Any, directory: Path, kind: str = "bert", count: int = 1) -> Path:
    plain = write_family(kind, directory / "plain", head="sentence", num_labels=count)
    package.CrossEncoder(str(plain), device="cpu").save_pretrained(str(directory / "saved"))
    return directory / "saved"


def change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.system
@pytest.mark.parametrize(
    ("file", "settings", "named"),
    [
        (
            "config_sentence_transformers.json",
            {"prompts": {"q": "the dog: "}, "default_prompt_name": "q"},
            "default_prompt_name is 'q'",
        ),
        (
            "config_sentence_transformers.json",
            {"activation_fn": "torch.nn.modules.activation.ReLU"},
            "activation_fn is .*ReLU",
        ),
        (
            "config_sentence_transformers.json",
            {"activation_fn": "mine.Sigmoid"},
            "activation_fn is 'mine.Sigmoid'",
        ),
        ("config_sentence_transformers.json", {"truncate_dim": 8}, "truncate_dim"),
        (
            "config.json",
            {"sbert_ce_default_activation_function": "torch.nn.modules.activation.ReLU"},
            "sbert_ce_default_activation_function",
        ),
        (
            "config.json",
            {"sentence_transformers": {"activation_fn": "mine.Identity"}},
            "sentence_transformers.activation_fn",
        ),
        ("sentence_bert_config.json", {"max_seq_length": 8}, "max_seq_length 8"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case True"),
        (
            "sentence_bert_config.json",
            {"processor_kwargs": {"model_max_length": 8}},
            "processor_kwargs.model_max_length 8",
        ),
        ("sentence_bert_config.json", {"processor_kwargs": {"a": 1}}, "processor_kwargs with 'a'"),
        ("sentence_bert_config.json", {"query_length": 8}, "query_length"),
    ],
)
def test_what_changes_a_score_is_refused(
    package: Any, file: str, settings: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """As the package does, which gives other scores for each, a cross-encoder reads them."""
    folder = write_cross_encoder(package, tmp_path)
    change(folder / file, **settings)
    with pytest.raises(CheckpointError, match=named):
        roberta_hub.load_model(folder)


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("config_sentence_transformers.json", {"prompts": {"q": ""}, "default_prompt_name": "q"}),
        ("config_sentence_transformers.json", {"prompts": {"q": "the dog: "}}),
        ("sentence_bert_config.json", {"max_seq_length": 66}),
        ("config_sentence_transformers.json", {"activation_fn": None}),
    ],
)
def test_what_changes_no_score_is_read(
    package: Any, file: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_cross_encoder(package, tmp_path)
    change(folder / file, **settings)
    peer = package.CrossEncoder(str(folder), device="cpu")
    wanted = peer.predict([("late train", TEXTS[0])], show_progress_bar=False)
    hits = roberta_hub.load_model(folder).eval().rank("late train", [TEXTS[0]])
    assert hits[0].score == pytest.approx(float(wanted[0]), abs=2e-6)


@pytest.mark.parametrize("name", ["activation.Sigmoid", "linear.Identity", "activation.Softmax"])
def test_the_activation_of_several_outputs(package: Any, name: str, tmp_path: Path) -> None:
    """Sigmoid makes a head of any number of labels, and the scores are the package's."""
    folder = write_cross_encoder(package, tmp_path, count=3)
    change(folder / "config_sentence_transformers.json", activation_fn=f"torch.nn.modules.{name}")
    peer = package.CrossEncoder(str(folder), device="cpu")
    pairs = [("late train", TEXTS[0])]
    wanted = peer.predict(pairs, show_progress_bar=False, convert_to_tensor=True).float()[0]
    if name == "linear.Identity":
        wanted = wanted.softmax(-1)
    found = roberta_hub.load_model(folder).eval().classify(pairs)[0]
    assert (found.labels is not None) == (name == "activation.Sigmoid")
    assert_close(torch.tensor([found.scores[f"LABEL_{i}"] for i in range(3)]), wanted)


@pytest.mark.system
@pytest.mark.parametrize("problem", ["regression", "multi_label", "single_label"])
@pytest.mark.parametrize("name", ["Sigmoid", "Softmax"])
def test_the_activation_counts_before_problem_type(
    package: Any, name: str, problem: str, tmp_path: Path
) -> None:
    """sentence-transformers does not look at transformers' key."""
    folder = write_cross_encoder(package, tmp_path, count=3)
    kind = problem if problem == "regression" else f"{problem}_classification"
    change(folder / "config.json", problem_type=kind)
    function = f"torch.nn.modules.activation.{name}"
    change(folder / "config_sentence_transformers.json", activation_fn=function)
    peer = package.CrossEncoder(str(folder), device="cpu")
    pairs = [("late train", TEXTS[0])]
    wanted = peer.predict(pairs, show_progress_bar=False, convert_to_tensor=True).float()[0]
    found = roberta_hub.load_model(folder).eval().classify(pairs)[0]
    assert_close(torch.tensor([found.scores[f"LABEL_{i}"] for i in range(3)]), wanted)


@pytest.mark.parametrize(
    "settings",
    [
        {"sbert_ce_default_activation_function": IDENTITY},
        {"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.1.0"}},
    ],
)
def test_a_reranker_that_gives_its_output(
    package: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    """As those of MS MARCO: the output is `classify`'s, and `rank` orders texts alike."""
    folder = write_family("bert", tmp_path, head="sentence", num_labels=1)
    change(folder / "config.json", **settings)
    peer = package.CrossEncoder(str(folder), device="cpu")
    texts = [text[:20] for text in TEXTS[:-1]]
    pairs = [("late train", text) for text in texts]
    wanted = peer.predict(pairs, show_progress_bar=False, convert_to_tensor=True).float()
    ours = roberta_hub.load_model(folder).eval()
    assert_close(torch.tensor([found.score for found in ours.classify(pairs)]), wanted)
    order = [hit.index for hit in ours.rank("late train", texts)]
    assert order == sorted(range(len(texts)), key=lambda i: -float(wanted[i]))
