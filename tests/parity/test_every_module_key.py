"""Every key that sentence-transformers 6 writes is honoured or refused by name.

The real package saves a folder; one key gets another valid value from the tables below. Then the
vectors are the package's own on the same folder, or loading raises an error that names the key. A
key that the package begins to write fails here until it has a row.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family
from small_models import assert_close

import roberta_hub
from roberta_hub.errors import RobertaHubError

os.environ.setdefault("HF_HUB_OFFLINE", "1")
package = pytest.importorskip("sentence_transformers")
pytest.importorskip("transformers").utils.logging.disable_progress_bar()

pytestmark = pytest.mark.parity

TEXTS = [
    "The Train from Hamburg was late.",
    "x",
    "",
    "She reads the News in English, German and French every morning, and we had coffee.",
]
PROMPTS = {"query": "Find this: ", "document": ""}
TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}

WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "modules.json": {"idx": 7, "kwargs": ["task"]},
    "config_sentence_transformers.json": {
        "__version__": {"sentence_transformers": "2.0.0"},
        "requirements": {"torch": ">=1.0"},
        "similarity_fn_name": "dot",  # of `similarity`, below
    },
    "sentence_bert_config.json": {
        "unpad_inputs": False,
        "model_kwargs": {"attn_implementation": "eager"},
    },
    "1_Pooling/config.json": {},
    "2_Dense/config.json": {},
    "3_LayerNorm/config.json": {},
    "4_Dropout/config.json": {"dropout": 0.5},
    "5_Normalize/config.json": {},
}
"""Keys that change no vector, with another value."""
CHANGED: dict[str, list[dict[str, Any]]] = {
    "modules.json": [
        {"name": "0"},
        {"path": "3_LayerNorm"},
        {"type": "sentence_transformers.models.LSTM"},
        {"type": "sentence_transformers.models.WeightedLayerPooling"},
    ],
    "config_sentence_transformers.json": [
        {"model_type": "SparseEncoder"},
        {"prompts": {"query": "Look for: ", "document": ""}},
        {"default_prompt_name": "query"},
        {"truncate_dim": 5},
    ],
    "sentence_bert_config.json": [
        {"transformer_task": "fill-mask"},
        {"modality_config": {"text": TEXT | {"method_output_name": ["hidden_states", 1]}}},
        {"modality_config": {"text": TEXT | {"method_output_name": "pooler_output"}}},
        {"module_output_name": "sentence_embedding"},
        {"max_seq_length": 9},
        {"do_lower_case": True},
        {"processor_kwargs": {"model_max_length": 9}},
        {"processor_kwargs": {"do_lower_case": False}},
        {"tokenizer_args": {"model_max_length": 9}},
        {"processing_kwargs": {"text": {"max_length": 9, "truncation": True}}},
        {"query_length": 9},
        {"document_length": 9},
        {"query_expansion": {"strategy": "fixed", "length": 9}},
        {"model_kwargs": {"hidden_act": "relu"}},
        {"config_kwargs": {"num_hidden_layers": 1}},
        {"tokenizer_name_or_path": "elsewhere"},
    ],
    "1_Pooling/config.json": [
        {"embedding_dimension": 16},
        *({"pooling_mode": mode} for mode in ("cls", "max", "mean_sqrt_len_tokens")),
        *({"pooling_mode": mode} for mode in ("weightedmean", "lasttoken", "attention")),
        {"pooling_mode": ["lasttoken", "mean"]},
        {"include_prompt": False},
    ],
    "2_Dense/config.json": [
        {"in_features": 16},
        {"out_features": 16},
        {"bias": False},
        *(
            {"activation_function": f"torch.nn.modules.activation.{name}"}
            for name in ("GELU", "ReLU", "SiLU", "Sigmoid", "Mish", "Hardswish", "ReLU6", "ELU")
        ),
        {"activation_function": "torch.nn.modules.activation.LeakyReLU"},
        {"activation_function": "torch.nn.modules.linear.Identity"},
        {"activation_function": "torch.nn.ReLU"},
        {"activation_function": "elsewhere.Code"},
        {"module_input_name": "token_embeddings"},
        {"module_output_name": "token_embeddings"},
        {"use_residual": True},
    ],
    "3_LayerNorm/config.json": [{"dimension": 16}],
    "4_Dropout/config.json": [],
    "5_Normalize/config.json": [
        {"module_input_name": "token_embeddings"},
        {"module_output_name": "token_embeddings"},
    ],
}
"""Keys that change the vectors, or that contradict the weights."""
ROWS = [(name, row) for name, rows in CHANGED.items() for row in rows]
NARROW = ("in_features", "out_features", "dimension")
"""Sizes, which the weights must have."""


def vectors(model: Any, texts: list[str], **options: Any) -> torch.Tensor:
    """What the package answers."""
    found: torch.Tensor = model.encode(
        texts, convert_to_tensor=True, show_progress_bar=False, **options
    )
    return found.float()


def peer_of(folder: Path) -> Any:
    return package.SentenceTransformer(str(folder), device="cpu")


def assert_same(folder: Path) -> roberta_hub.RobertaHubInterface:
    """The package's vectors of a folder, without a prompt and with each of its own."""
    ours, theirs = roberta_hub.load_model(folder).eval(), peer_of(folder)
    for name in (None, "query", "document"):
        found = ours.embed(TEXTS, truncate=True, prompt_name=name)
        assert_close(found, vectors(theirs, TEXTS, prompt_name=name))
    return ours


@pytest.fixture(scope="module", params=["gottbert", "bert"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain with every part, as the package saves it."""
    place = tmp_path_factory.mktemp(request.param)
    body = write_family(request.param, place / "body", head="bare")
    base, own = package.base.modules, package.sentence_transformer.modules
    torch.manual_seed(0)
    norm = own.LayerNorm(32)
    torch.nn.init.normal_(norm.norm.weight)
    torch.nn.init.normal_(norm.norm.bias)
    modules = [
        base.Transformer(str(body), max_seq_length=30),
        own.Pooling(32, "mean"),
        base.Dense(32, 32),
        norm,
        own.Dropout(0.2),
        base.Normalize(),
    ]
    model = package.SentenceTransformer(modules=modules, prompts=PROMPTS, device="cpu")
    model.save(str(place / "model"), create_model_card=False)
    return place / "model"


def changed(folder: Path, to: Path, name: str, values: dict[str, Any]) -> Path:
    """A copy of a folder with other values in one file; of modules.json in its third part."""
    shutil.copytree(folder, to)
    path = to / name
    about = json.loads(path.read_text(encoding="utf-8"))
    (about[2] if name == "modules.json" else about).update(values)
    path.write_text(json.dumps(about), encoding="utf-8")
    return to


def test_every_key_has_a_row(folder: Path) -> None:
    for name, rows in CHANGED.items():
        about = json.loads((folder / name).read_text(encoding="utf-8"))
        known = {*WITHOUT_EFFECT[name], *(key for row in rows for key in row)}
        for entry in about if isinstance(about, list) else [about]:
            assert entry.keys() <= known, name
    written = {str(file.relative_to(folder)) for file in folder.rglob("*.json")}
    assert written - {"config.json", "tokenizer.json", "tokenizer_config.json"} == {*CHANGED}


def test_its_own_keys_have_rows() -> None:
    """Of the package's classes, also those that it leaves out where they are not set."""
    base, own = package.base.modules, package.sentence_transformer.modules
    kinds = {
        "sentence_bert_config.json": base.Transformer,
        "1_Pooling/config.json": own.Pooling,
        "2_Dense/config.json": base.Dense,
        "3_LayerNorm/config.json": own.LayerNorm,
        "4_Dropout/config.json": own.Dropout,
        "5_Normalize/config.json": base.Normalize,
    }
    for name, kind in kinds.items():
        known = {*WITHOUT_EFFECT[name], *(key for row in CHANGED[name] for key in row)}
        assert {*kind.config_keys} <= known, name


def test_the_same_vectors_before(folder: Path) -> None:
    ours = assert_same(folder)
    assert "mean pooling, dense (tanh), layer norm, dropout, normalized" in str(ours)


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, keys in WITHOUT_EFFECT.items() for key in keys]
)
def test_keys_without_effect(name: str, key: str, folder: Path, tmp_path: Path) -> None:
    other = changed(folder, tmp_path / "m", name, {key: WITHOUT_EFFECT[name][key]})
    before, after = (roberta_hub.load_model(place).eval() for place in (folder, other))
    assert torch.equal(after.embed(TEXTS, truncate=True), before.embed(TEXTS, truncate=True))


@pytest.mark.parametrize(
    ("name", "row"), ROWS, ids=[f"{name}-{'-'.join(row)}-{i}" for i, (name, row) in enumerate(ROWS)]
)
def test_a_key_that_counts(name: str, row: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    other = changed(folder, tmp_path / "m", name, row)
    (key,) = row
    try:
        roberta_hub.load_model(other)
    except RobertaHubError as error:
        said = {"type": "the part", "path": "3_LayerNorm/config.json"}
        assert said.get(key, key) in str(error)
        return
    assert key not in NARROW
    assert_same(other)


@pytest.mark.parametrize("kind", ["bert-cased", "gottbert", "xlm-roberta"])
@pytest.mark.parametrize("older", [False, True])
def test_lowercase_leave_added_words(kind: str, older: bool, tmp_path: Path) -> None:
    """Version 6 lower-cases between them; those that are normalized it finds in any letters."""
    from tokenizers import AddedToken
    from transformers import AutoTokenizer

    base, own = package.base.modules, package.sentence_transformer.modules
    body = write_family(kind, tmp_path / "body", head="bare", vocab_size=600)
    tokenizer = AutoTokenizer.from_pretrained(body)
    tokenizer.add_tokens([AddedToken("[WORLD]", normalized=False, lstrip=True), "Foo", "ÉTÉ"])
    tokenizer.add_tokens([AddedToken("newword", normalized=False)], special_tokens=True)
    tokenizer.save_pretrained(body)
    for file in ("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model"):
        (body / file).unlink(missing_ok=True)
    modules = [base.Transformer(str(body), do_lower_case=True), own.Pooling(32, "mean")]
    peer = package.SentenceTransformer(modules=modules, prompts=PROMPTS, device="cpu")
    peer.save(str(tmp_path / "model"), create_model_card=False)
    place = tmp_path / "model"
    if older:  # before 6, tokenizer.json says nothing of it
        shutil.copy(body / "tokenizer.json", place)
        shutil.copy(body / "tokenizer_config.json", place)
        about = {"do_lower_case": True, "max_seq_length": 30}
        (place / "sentence_bert_config.json").write_text(json.dumps(about), encoding="utf-8")
    texts = [
        "Hello [WORLD] THE dog",
        "foo FOO Foo [world]",
        "NEWWORD newword ING",
        "L'Été, ÉTÉ ΑΣ",
        *TEXTS,
    ]
    if kind == "gottbert" and not older:
        with pytest.raises(RobertaHubError, match="normalizer"):
            roberta_hub.load_model(place)
        return
    ours = roberta_hub.load_model(place).eval()
    if older:
        peer = peer_of(place)  # of its own files transformers' class drops the normalizer
    for name in (None, "query"):
        found = ours.embed(texts, truncate=True, prompt_name=name)
        wanted = torch.cat([vectors(peer, [text], prompt_name=name) for text in texts])
        assert_close(found, wanted)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity(similarity: str, folder: Path, tmp_path: Path) -> None:
    about = {"similarity_fn_name": similarity, "truncate_dim": 7}
    other = changed(folder, tmp_path / "m", "config_sentence_transformers.json", about)
    ours, theirs = roberta_hub.load_model(other).eval(), peer_of(other)
    found = vectors(theirs, TEXTS)
    wanted = theirs.similarity(found, found[:2])
    assert_close(ours.similarity(TEXTS, TEXTS[:2], truncate=True), wanted)


@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_prompts_of_a_corpus(name: str, folder: Path, tmp_path: Path) -> None:
    """`search` takes the prompt that `encode_document` takes."""
    shutil.copytree(folder, tmp_path / "m")
    path = tmp_path / "m/config_sentence_transformers.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    del about["prompts"]["document"]
    about["prompts"] |= {name: "Found here: ", "zzz": "Never: "}
    path.write_text(json.dumps(about), encoding="utf-8")
    ours, theirs = roberta_hub.load_model(tmp_path / "m").eval(), peer_of(tmp_path / "m")
    if name != "document":
        theirs.prompts.pop("document", None)  # a placeholder that it adds
    options = {"convert_to_tensor": True, "show_progress_bar": False}
    asked = theirs.encode_query(TEXTS[:1], **options)
    found = theirs.encode_document(TEXTS[1:], **options)
    wanted = theirs.similarity(asked, found)[0].sort(descending=True)
    hits = ours.search(TEXTS[0], TEXTS[1:], truncate=True)
    assert [hit.index for hit in hits] == wanted.indices.tolist()
    assert [hit.score for hit in hits] == pytest.approx(wanted.values.tolist(), abs=1e-5)


@pytest.mark.parametrize("name", ["2_Dense", "3_LayerNorm"])
def test_a_layer_needs_its_weights(name: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / name / "model.safetensors").unlink()
    with pytest.raises(RobertaHubError, match=f"{name} has no weights of its {name[2:]}"):
        roberta_hub.load_model(tmp_path / "m")


def test_weights_of_a_layer_as_a_pickle(folder: Path, tmp_path: Path) -> None:
    """As older versions saved them."""
    from safetensors.torch import load_file

    shutil.copytree(folder, tmp_path / "m")
    file = tmp_path / "m/2_Dense/model.safetensors"
    torch.save(load_file(file), file.with_name("pytorch_model.bin"))
    file.unlink()
    assert_same(tmp_path / "m")


@pytest.mark.parametrize("modes", [("mean",), ("lasttoken", "cls", "weightedmean"), ("max",)])
@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("body", ["xlm-roberta", "albert"])
def test_saved_again(
    modes: tuple[str, ...], include_prompt: bool, body: str, tmp_path: Path
) -> None:
    """What is honoured is in both formats again, and the package reads ours."""
    base, own = package.base.modules, package.sentence_transformer.modules
    place = write_family(body, tmp_path / "body", head="bare")
    torch.manual_seed(1)
    width = 32 * len(modes)
    modules = [
        base.Transformer(str(place), max_seq_length=25),
        own.Pooling(32, modes, include_prompt=include_prompt),
        base.Dense(width, 24, activation_function=torch.nn.GELU(), use_residual=True),
        base.Normalize(),
        base.Dense(24, 16, bias=False, activation_function=torch.nn.Identity()),
    ]
    peer = package.SentenceTransformer(
        modules=modules, prompts=PROMPTS, truncate_dim=9, device="cpu"
    )
    wanted = vectors(peer, TEXTS, prompt_name="query")
    ours = roberta_hub.load_model(place).eval()
    ours = _told(ours, peer, tmp_path / "peer")
    for format in ("roberta_hub", "huggingface"):
        ours.save(tmp_path / format, format=format)
        again = roberta_hub.load_model(tmp_path / format).eval()
        assert again.sentence == ours.sentence
        assert_close(again.embed(TEXTS, truncate=True, prompt_name="query"), wanted)
    theirs = peer_of(tmp_path / "huggingface")
    assert_close(vectors(theirs, TEXTS, prompt_name="query"), wanted)
    assert theirs.truncate_dim == 9
    with pytest.raises(RobertaHubError, match=r"no place for .*layers over sentence vectors"):
        ours.save(tmp_path / "fairseq", format="fairseq")


def _told(
    plain: roberta_hub.RobertaHubInterface, peer: Any, place: Path
) -> roberta_hub.RobertaHubInterface:
    """The same body with the layers of a peer: its parts beside our files of the vocabulary."""
    plain.sentence = roberta_hub.SentenceSettings()
    plain.save(place, format="huggingface")
    peer.save(str(place / "theirs"), create_model_card=False)
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        shutil.copy(place / "theirs" / name, place / name)
    about = json.loads((place / "sentence_bert_config.json").read_text(encoding="utf-8"))
    about["max_seq_length"] = 25  # which the package writes into the tokenizer's settings
    (place / "sentence_bert_config.json").write_text(json.dumps(about), encoding="utf-8")
    for part in (place / "theirs").iterdir():
        if part.is_dir():
            shutil.copytree(part, place / part.name, dirs_exist_ok=True)
    return roberta_hub.load_model(place).eval()


@pytest.mark.parametrize("kind", ["gottbert", "xlm-roberta", "camembert", "bert", "albert"])
@pytest.mark.parametrize("head", ["bare", "choice"])
def test_the_pooler(kind: str, head: Any, tmp_path: Path) -> None:
    """As transformers' pooler_output, in every format that holds it; SimCSE's vectors."""
    transformers = pytest.importorskip("transformers")
    place = write_family(kind, tmp_path / "body", head=head)
    model = transformers.AutoModel.from_pretrained(place).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    with torch.no_grad():
        wanted = torch.cat(
            [model(**tokenizer(text, return_tensors="pt")).pooler_output for text in TEXTS]
        )
    ours = roberta_hub.load_model(place).eval()
    assert_close(ours.features(TEXTS, pooling="pooler"), wanted)
    ours.sentence = roberta_hub.SentenceSettings(pooling="pooler", truncate_dim=20)
    assert "pooler pooling, cut to 20 numbers" in str(ours)
    assert_close(ours.embed(TEXTS), wanted[:, :20])
    for format in ("roberta_hub", "huggingface"):
        ours.save(tmp_path / format, format=format)
        again = roberta_hub.load_model(tmp_path / format).eval()
        assert_close(again.embed(TEXTS), wanted[:, :20])
    assert_close(vectors(peer_of(tmp_path / "huggingface"), TEXTS), wanted[:, :20])


def test_a_folder_without_pooler(tmp_path: Path) -> None:
    place = write_family("gottbert", tmp_path / "lm", head="lm")
    ours = roberta_hub.load_model(place).eval()
    assert ours.model.pooler is None
    ours.sentence = roberta_hub.SentenceSettings(pooling="pooler")
    with pytest.raises(RobertaHubError, match=r"no pooler.*RoBERTa's where its file has pooler"):
        ours.embed(TEXTS)
    with pytest.raises(RobertaHubError, match="this model has no pooler"):
        ours.save(tmp_path / "saved")
    ours.sentence = roberta_hub.SentenceSettings()
    ours.save(tmp_path / "saved", format="huggingface")
    path = tmp_path / "saved/sentence_bert_config.json"
    about = json.loads(path.read_text(encoding="utf-8")) | {
        "modality_config": {"text": TEXT | {"method_output_name": "pooler_output"}},
        "module_output_name": "sentence_embedding",
    }
    path.write_text(json.dumps(about), encoding="utf-8")
    modules = json.loads((tmp_path / "saved/modules.json").read_text(encoding="utf-8"))
    (tmp_path / "saved/modules.json").write_text(json.dumps(modules[:1]), encoding="utf-8")
    with pytest.raises(RobertaHubError, match="asks for pooler_output, and the weights have no"):
        roberta_hub.load_model(tmp_path / "saved")


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("2_Dense", {"activation_function": ["a"]}, "activation_function"),
        ("2_Dense", {"use_residual": "yes"}, "residual is 'yes'"),
        ("2_Dense", {"in_features": [32]}, "in_features"),
        ("2_Dense", {"colour": 1}, "colour"),
        ("3_LayerNorm", {"dimension": None}, "dimension"),
        ("4_Dropout", {"dropout": "x"}, "rate is 'x'"),
        ("4_Dropout", {"dropout": 1e30}, "rate is 1e"),
    ],
)
def test_damaged_layers_are_sentences(
    name: str, values: dict[str, Any], says: str, folder: Path, tmp_path: Path
) -> None:
    other = changed(folder, tmp_path / "m", f"{name}/config.json", values)
    with pytest.raises(RobertaHubError) as raised:
        roberta_hub.load_model(other)
    assert says in str(raised.value) and len(str(raised.value)) < 1000


def test_weights_of_a_layer_are_numbers(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, tmp_path / "m")
    file = tmp_path / "m/2_Dense/model.safetensors"
    weights = load_file(file)
    weights["linear.weight"][3, 4] = torch.nan
    save_file(weights, file)
    with pytest.raises(RobertaHubError, match="NaN"):
        roberta_hub.load_model(tmp_path / "m")


def test_layers_follow_the_dtype(folder: Path) -> None:
    ours = roberta_hub.load_model(folder, dtype="bfloat16").eval()
    assert {own.dtype for own in ours.model.sentence_layers.parameters()} == {torch.bfloat16}
    assert ours.embed(TEXTS, truncate=True).shape == (len(TEXTS), 32)


def test_more_layers_than_are_read(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    path = tmp_path / "m/modules.json"
    modules = json.loads(path.read_text(encoding="utf-8"))
    more = [modules[4] | {"name": f"more {number}"} for number in range(20)]
    path.write_text(json.dumps([*modules, *more]), encoding="utf-8")
    with pytest.raises(RobertaHubError, match="at most 16"):
        roberta_hub.load_model(tmp_path / "m")
