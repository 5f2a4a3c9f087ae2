"""`verify` names a fault that was put into a real peer, and none of a sound one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peers_at_fault import PROMPT, Service, copied, served, with_weights
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError
from roberta_hub.model import kernels
from roberta_hub.settings import SentenceLayer
from roberta_hub.verification.records import Verification

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

MEAN = SentenceSettings(pooling="mean", normalize=True)


def named(found: Verification, kind: str = "fault") -> list[str]:
    return [finding.name for finding in found.findings if finding.kind == kind]


# ---- faults of folders ----


def tanh(folder: Path, place: Path) -> Path:
    return copied(folder, place, config={"hidden_act": "gelu_new"})


def epsilon(folder: Path, place: Path) -> Path:
    return copied(folder, place, config={"layer_norm_eps": 1e-12})


def positions(folder: Path, place: Path) -> Path:
    def edit(weights: dict[str, torch.Tensor]) -> None:
        (name,) = (name for name in weights if "position_embeddings" in name)
        weights[name] = torch.cat([weights[name][1:], weights[name][-1:]])

    return with_weights(folder, place, edit)


def without_merges(folder: Path, place: Path) -> Path:
    copied(folder, place)
    path = place / "tokenizer.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    table["model"]["merges"] = []
    path.write_text(json.dumps(table), encoding="utf-8")
    (place / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    return place


def shorter(folder: Path, place: Path) -> Path:
    return copied(folder, place, tokenizer_config={"model_max_length": 128})


def one_segment(folder: Path, place: Path) -> Path:
    """As a server does that hands on no token types."""

    def edit(weights: dict[str, torch.Tensor]) -> None:
        (name,) = (name for name in weights if "token_type_embeddings" in name)
        weights[name] = weights[name][:1].repeat(2, 1)

    return with_weights(folder, place, edit)


def one_separator(folder: Path, place: Path) -> Path:
    copied(folder, place, tokenizer_config={"tokenizer_class": "PreTrainedTokenizerFast"})
    path = place / "tokenizer.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    parts = {"<s>": 0, "</s>": 2}
    one, two = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    begin, end = ({"SpecialToken": {"id": name, "type_id": 0}} for name in parts)
    table["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [begin, one, end],
        "pair": [begin, one, end, two, end],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for name, number in parts.items()
        },
    }
    path.write_text(json.dumps(table), encoding="utf-8")
    return place


def other_layer(folder: Path, place: Path) -> Path:
    def edit(weights: dict[str, torch.Tensor]) -> None:
        (name,) = (name for name in weights if "layer.1.output.dense.weight" in name)
        weights[name] = weights[name] + 0.01 * torch.randn(weights[name].shape)

    return with_weights(folder, place, edit)


def swapped_rows(folder: Path, place: Path) -> Path:
    def edit(weights: dict[str, torch.Tensor]) -> None:
        (name,) = (name for name in weights if "word_embeddings.weight" in name)
        weights[name] = torch.cat([weights[name][:1], weights[name][:-1]])

    return with_weights(folder, place, edit)


@pytest.mark.parametrize(
    ("spoil", "kind", "name", "first"),
    [
        (tanh, "roberta", "activation", "layer 1"),
        (tanh, "bert", "activation", "layer 1"),
        (epsilon, "roberta", "layer norm epsilon", "embeddings"),
        (positions, "roberta", "positions", "embeddings"),
        (positions, "bert", "positions", "embeddings"),
        (without_merges, "roberta", "merges", "ids"),
        (shorter, "roberta", "truncation", "ids"),
        (shorter, "bert", "truncation", "ids"),
        (swapped_rows, "roberta", "ids", "embeddings"),
        (one_segment, "bert", "segments", "embeddings"),
        (one_separator, "roberta", "pairs", "ids"),
        (other_layer, "roberta", "unknown", "layer 2"),
    ],
)
def test_a_fault_of_a_folder(
    folders: Any, models: Any, tmp_path: Path, spoil: Any, kind: str, name: str, first: str
) -> None:
    right = folders(kind)
    found = roberta_hub.verify(models(right), spoil(right, tmp_path / "peer"))
    assert named(found) == [name], str(found)
    assert found.first is not None and found.first.name == first
    assert not found.ok and found.verdict == "different"


def lowered(value: bool) -> Callable[[dict[str, Any]], None]:
    def edit(table: dict[str, Any]) -> None:
        table["normalizer"]["lowercase"] = value

    return edit


def kept_accents(table: dict[str, Any]) -> None:
    table["normalizer"]["strip_accents"] = False


@pytest.mark.parametrize(
    ("edit", "kind", "name", "settings"),
    [
        (lowered(False), "bert", "casing", {"do_lower_case": False}),
        (lowered(True), "bert-cased", "casing", {"do_lower_case": True}),
        (kept_accents, "bert", "accents", {"strip_accents": False}),
    ],
)
def test_a_fault_of_the_letters(
    folders: Any,
    models: Any,
    tmp_path: Path,
    edit: Any,
    kind: str,
    name: str,
    settings: dict[str, Any],
) -> None:
    right = folders(kind)
    place = copied(right, tmp_path / "peer", tokenizer_config=settings)
    path = place / "tokenizer.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    edit(table)
    path.write_text(json.dumps(table), encoding="utf-8")
    found = roberta_hub.verify(models(right), place)
    assert name in named(found) and set(named(found)) <= {name, "accents"}, str(found)
    assert found.first is not None and found.first.name == "ids"
    assert re.match(r"piece \d+ is ", found.first.where)


# ---- faults of sentence-transformers' modules ----


def cls(folder: Path, place: Path) -> Path:
    copied(folder, place)
    path = place / "1_Pooling/config.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    table = {k: v for k, v in table.items() if not k.startswith("pooling_mode")}
    path.write_text(json.dumps(table | {"pooling_mode_cls_token": True}), encoding="utf-8")
    return place


def unnormalized(folder: Path, place: Path) -> Path:
    copied(folder, place)
    path = place / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(modules[:2]), encoding="utf-8")
    return place


def unprompted(folder: Path, place: Path) -> Path:
    changes = {"prompts": {}, "default_prompt_name": None}
    return copied(folder, place, config_sentence_transformers=changes)


def narrower(folder: Path, place: Path) -> Path:
    return copied(folder, place, config_sentence_transformers={"truncate_dim": 20})


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (cls, "pooling"),
        (unnormalized, "normalization"),
        (unprompted, "prompt"),
        (narrower, "width"),
    ],
)
def test_a_fault_of_the_modules(
    folders: Any, models: Any, tmp_path: Path, spoil: Any, name: str
) -> None:
    pytest.importorskip("sentence_transformers")
    asked = SentenceSettings(
        pooling="mean", normalize=True, prompts={"query": PROMPT}, default_prompt="query"
    )
    right = folders("roberta", asked)
    found = roberta_hub.verify(models(right), spoil(right, tmp_path / "peer"))
    assert named(found) == [name], str(found)
    assert found.first is not None and found.first.name == "vectors"


def test_the_layers_over_the_vector_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    roberta = small_roberta().eval()
    dense = SentenceLayer(kind="dense", activation="tanh")
    roberta.model.add_sentence_layers((dense,), {"sentence_layers.0.linear.weight": (8, 32)}, 32)
    roberta.sentence = SentenceSettings(layers=(dense,))
    roberta.save(tmp_path / "peer", format="huggingface")
    assert roberta_hub.verify(roberta, tmp_path / "peer").ok
    path = tmp_path / "peer/modules.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8"))[:2]), encoding="utf-8")
    found = roberta_hub.verify(roberta, tmp_path / "peer")
    assert named(found) == ["layers"], str(found)


# ---- faults of servers ----


@pytest.mark.parametrize("protocol", ["/embed", "/v1/embeddings"])
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"pooling": "cls"}, "pooling"),
        ({"pooling": "max"}, "pooling"),
        ({"normalize": False}, "normalization"),
        ({"longest": 128}, "truncation"),
        ({"longest": 100}, "truncation"),
        ({"settings": SentenceSettings(normalize=True, max_length=96)}, "truncation"),
        ({"prompt": PROMPT}, "prompt"),
        ({"lower": True}, "casing"),
        ({"positions": "shifted"}, "positions"),
        ({"positions": "running on"}, "positions"),
        ({"positions": "from the left"}, "positions"),
        ({"masked": False}, "padding"),
        ({"width": 20}, "width"),
        ({"noise": 0.02}, "unknown"),
        ({"pooling": "cls", "normalize": False}, "normalization, pooling"),
        ({"pooling": "max", "longest": 64}, "pooling, truncation"),
    ],
    ids=lambda value: value if isinstance(value, str) else " and ".join(value),
)
def test_a_fault_of_a_server(
    folders: Any, models: Any, fault: dict[str, Any], name: str, protocol: str
) -> None:
    right = folders("roberta", fault.get("settings", MEAN))
    options = {name: value for name, value in fault.items() if name != "settings"}
    with served(Service(right, **options)) as root:
        found = roberta_hub.verify(models(right), root + protocol)
    assert ", ".join(sorted(named(found))) == name, str(found)
    if fault == {"positions": "shifted"}:
        assert "counts positions 1 too far on" in str(found)


def test_a_server_with_the_gelu_of_tanh(folders: Any, models: Any, tmp_path: Path) -> None:
    right = folders("roberta", MEAN)
    with served(Service(tanh(right, tmp_path / "peer"))) as root:
        found = roberta_hub.verify(models(right), root)
    assert named(found) == ["activation"], str(found)
    assert "GELU by tanh" in str(found)


def test_a_server_without_the_prompt(folders: Any, models: Any) -> None:
    right = folders(
        "roberta",
        SentenceSettings(normalize=True, prompts={"query": PROMPT}, default_prompt="query"),
    )
    with served(Service(right)) as root:
        found = roberta_hub.verify(models(right), root)
    assert named(found) == ["prompt"], str(found)
    assert "puts no prompt before texts, where the model has 'query: '" in str(found)


def test_a_server_whose_threads_share_a_tokenizer(folders: Any, models: Any) -> None:
    """Truncation set for one request and read by another, as it was in real servers."""
    import time

    right = folders("roberta", MEAN)
    whole, short = Service(right), Service(right, longest=16)
    busy: list[int] = []

    def answer(texts: list[str], **options: Any) -> list[list[float]]:
        busy.append(1)
        time.sleep(0.002)
        leaks = len(busy) > 1
        try:
            return (short if leaks else whole)(texts, **options)
        finally:
            busy.pop()

    with served(answer) as root:
        found = roberta_hub.verify(models(right), root)
    assert named(found) == ["threads"], str(found)


def test_what_a_server_refuses_is_no_fault(folders: Any, models: Any) -> None:
    right = folders("roberta", MEAN)
    with served(Service(right), most=300) as root:
        found = roberta_hub.verify(models(right), root)
    assert found.verdict == "same", str(found)
    assert sorted(named(found, "by design")) == ["refused", "special tokens in texts"]


# ---- precision ----


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["roberta", "bert"])
def test_less_precision_of_a_folder(
    folders: Any, models: Any, tmp_path: Path, dtype: str, kind: str
) -> None:
    import transformers

    right = folders(kind)
    place = copied(right, tmp_path / "peer")
    model = transformers.AutoModel.from_pretrained(right, dtype=getattr(torch, dtype))
    model.save_pretrained(place)
    found = roberta_hub.verify(models(right), place, least_cosine=0.9)
    assert (found.verdict, named(found), found.ok) == ("precision", [], True), str(found)
    assert named(found, "precision") == [dtype]
    assert not roberta_hub.verify(models(right), place, least_cosine=1.0).ok


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_less_precision_of_a_server(folders: Any, models: Any, dtype: torch.dtype) -> None:
    right = folders("roberta", MEAN)
    with served(Service(right, dtype=dtype)) as root:
        found = roberta_hub.verify(models(right), root, least_cosine=0.9)
    assert (found.verdict, found.ok) == ("precision", True), str(found)
    assert named(found, "precision") == [str(dtype).removeprefix("torch.")]


@pytest.mark.parametrize(
    ("spoil", "dtype"),
    [
        (tanh, torch.float16),
        (positions, torch.float16),
        (positions, torch.bfloat16),
        (None, torch.float16),
        (None, torch.bfloat16),
    ],
)
def test_a_fault_that_less_precision_hides(
    folders: Any, models: Any, tmp_path: Path, spoil: Any, dtype: torch.dtype
) -> None:
    """Half precision is farther off than the GELU of tanh, and both are named."""
    right = folders("gottbert", MEAN, hidden_size=128, intermediate_size=256)
    peer = spoil(right, tmp_path / "peer") if spoil else right
    with served(Service(peer, dtype=dtype)) as root:
        found = roberta_hub.verify(models(right), root, least_cosine=0.9)
    names = {tanh: ["activation"], positions: ["positions"], None: []}[spoil]
    assert named(found) == names, str(found)
    assert named(found, "precision") == [str(dtype).removeprefix("torch.")]


def test_int8_of_onnx_runtime(folders: Any, models: Any, tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    pytest.importorskip("onnxscript")
    right = folders("roberta")
    roberta_hub.load_model(right).export(tmp_path / "onnx")
    quantization.quantize_dynamic(
        tmp_path / "onnx/model.onnx",
        tmp_path / "onnx/int8.onnx",
        weight_type=quantization.QuantType.QInt8,
    )
    found = roberta_hub.verify(models(right), tmp_path / "onnx/int8.onnx", least_cosine=0.5)
    assert (named(found), named(found, "precision")) == ([], ["int8"]), str(found)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_our_own_model_in_less_precision(folders: Any, models: Any, dtype: Any) -> None:
    if dtype == "bfloat16" and (lacking := kernels.missing_features(dtype)):
        pytest.skip(lacking)
    right = folders("roberta", MEAN)
    peer = roberta_hub.load_model(right)
    peer.optimize(dtype)
    found = roberta_hub.verify(models(right), peer, least_cosine=0.5)
    assert (named(found), named(found, "precision")) == ([], [dtype]), str(found)


# ---- what is said ----


@pytest.fixture(scope="module")
def report(folders: Any, models: Any, tmp_path_factory: pytest.TempPathFactory) -> Verification:
    right = folders("roberta")
    return roberta_hub.verify(
        models(right), tanh(right, tmp_path_factory.mktemp("report") / "peer")
    )


def test_the_report_in_every_form(report: Verification) -> None:
    said = str(report)
    assert "does not answer as" in said and "first differs at: layer 1" in said
    names = [own["name"] for own in json.loads(json.dumps(report.to_dict()))["findings"]]
    assert names == ["special tokens in texts", "activation"]
    assert report.to_dict()["first_difference"].startswith("layer 1")
    page = report.to_markdown()
    assert "| activation | computes the GELU by tanh" in page and "| embeddings |" in page
    assert "activation" in report._repr_html_() and "script" not in report._repr_html_()
    assert report.faults[0].after < 0.2 * report.faults[0].before


def test_texts_of_the_caller_are_asked_too(folders: Any, models: Any) -> None:
    right = folders("roberta", MEAN)
    service = Service(right)

    def peer(texts: list[str]) -> list[list[float]]:
        rows = service(texts)
        return [
            [-x for x in row] if "secret" in t else row for t, row in zip(texts, rows, strict=True)
        ]

    assert roberta_hub.verify(models(right), peer).ok
    found = roberta_hub.verify(models(right), peer, ["A secret word."])
    assert named(found) == ["unknown"] and found.faults[0].texts == ("A secret word.",)


@pytest.mark.parametrize(
    ("peer", "error", "said"),
    [
        (3, InputTypeError, r"3 is a int; compare with an ONNX file"),
        ("nowhere/model.onnx", InputError, "is no file or folder"),
        ("http://127.0.0.1:9/embed", InputError, "cannot be asked: ConnectionError"),
        (lambda texts: [[1.0]], InputError, "numbers of shape"),
    ],
)
def test_what_is_no_peer(folders: Any, models: Any, peer: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        roberta_hub.verify(models(folders("roberta")), peer)


def test_another_model_is_no_peer(folders: Any, models: Any) -> None:
    with pytest.raises(InputError, match=r"vectors of 48 numbers, and the model of 32"):
        roberta_hub.verify(models(folders("roberta")), lambda texts: [[0.5] * 48 for _ in texts])


def test_a_gguf_needs_its_library(folders: Any, models: Any, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(
        MissingExtraError, match=r"llama-cpp-python, .*pip install llama-cpp-python"
    ):
        roberta_hub.verify(models(folders("roberta")), tmp_path / "model.gguf")


def test_a_server_that_is_none(folders: Any, models: Any) -> None:
    with (
        served(lambda texts, **options: [["a"] for _ in texts]) as root,
        pytest.raises(InputError, match=r"(?s)numbers|no list"),
    ):
        roberta_hub.verify(models(folders("roberta")), root + "/embed")


def test_a_damaged_model_judges_nobody(folders: Any, tmp_path: Path) -> None:
    roberta = roberta_hub.load_model(folders("roberta"))
    with torch.no_grad():
        roberta.model.transformer.layers[1].fc1.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"weight .*layers\.1\.fc1\.weight holds NaN"):
        roberta_hub.verify(roberta, folders("roberta"))


def test_the_model_is_as_before(folders: Any, models: Any) -> None:
    roberta: RobertaHubInterface = roberta_hub.load_model(folders("roberta", MEAN))
    roberta.optimize()
    before = roberta.embed(["It was late."])
    roberta_hub.verify(roberta, lambda texts: roberta.embed(texts, truncate=True))
    assert torch.equal(before, roberta.embed(["It was late."]))
    assert {p.dtype for p in roberta.parameters()} == {torch.float32} and roberta.training
