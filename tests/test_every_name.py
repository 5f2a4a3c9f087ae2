"""Every name that can be loaded: its size, its help, its licence, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import roberta_hub
from roberta_hub import load_model
from roberta_hub.checkpoint.fetch import catalogue
from roberta_hub.checkpoint.fetch.catalogue import config_of, find_record, names_of
from roberta_hub.checkpoint.fetch.download import OFFLINE_ENV
from roberta_hub.checkpoint.fetch.owners import OWNERS, full_name
from roberta_hub.checkpoint.fetch.records import MODELS, RELATIVES, Record
from roberta_hub.errors import (
    DownloadError,
    InputError,
    LicenceWarning,
    UnknownNameError,
    VocabularyError,
)
from roberta_hub.text.missing import NoVocabulary

REPO = Path(__file__).resolve().parents[1]
FAIRSEQ = (
    "xlmr.base",
    "xlmr.large",
    "xlmr.xl",
    "xlmr.xxl",
    "camembert",
    "camembert.v0",
    "camembert-base",
    "camembert-large",
    "camembert-base-ccnet",
    "camembert-base-ccnet-4gb",
    "camembert-base-wikipedia-4gb",
    "camembert-base-oscar-4gb",
    "gottbert-base",
)
"""The 13 names of fairseq's hub (`hub_models` in model_xlmr.py, model_camembert.py, …)."""
HUGGING_FACE = {
    "roberta-base": "roberta.base",
    "FacebookAI/roberta-large-mnli": "roberta.large.mnli",
    "xlm-roberta-base": "xlmr.base",
    "FacebookAI/xlm-roberta-large": "xlmr.large",
    "facebook/xlm-roberta-xxl": "xlmr.xxl",
    "almanach/camembert-base": "camembert",
    "uklfr/gottbert-base": "gottbert-base",
    "bert-base-uncased": "bert.base.uncased",
    "google-bert/bert-base-uncased": "bert.base.uncased",
    "bert-large-cased-whole-word-masking": "bert.large.cased.wwm",
    "google-bert/bert-base-multilingual-cased": "bert.base.multilingual.cased",
    "bert-base-chinese": "bert.base.chinese",
    "distilbert-base-uncased": "distilbert.base.uncased",
    "albert-base-v2": "albert.base.v2",
    "albert/albert-xxlarge-v1": "albert.xxlarge.v1",
    "google/electra-small-discriminator": "electra.small.discriminator",
    "google/electra-large-generator": "electra.large.generator",
    "SpanBERT/spanbert-large-cased": "spanbert.large.cased",
    "sentence-transformers/all-MiniLM-L6-v2": "all.minilm.l6.v2",
}
M, BILLION = 10**6, 10**9
PUBLISHED: dict[str, tuple[tuple[int, ...], float]] = {
    # name: (layers, width, feed-forward, width of the embeddings, rows), published parameters
    "xlmr.base": ((12, 768, 3072, 768, 250002), 278 * M),
    "xlmr.large": ((24, 1024, 4096, 1024, 250002), 560 * M),
    "xlmr.xl": ((36, 2560, 10240, 2560, 250880), 3.5 * BILLION),
    "xlmr.xxl": ((48, 4096, 16384, 4096, 250880), 10.7 * BILLION),
    "camembert": ((12, 768, 3072, 768, 32005), 110 * M),
    "camembert-large": ((24, 1024, 4096, 1024, 32005), 335 * M),
    "camembert-base-ccnet": ((12, 768, 3072, 768, 32005), 110 * M),
    "camembert-base-ccnet-4gb": ((12, 768, 3072, 768, 32005), 110 * M),
    "camembert-base-wikipedia-4gb": ((12, 768, 3072, 768, 32005), 110 * M),
    "camembert-base-oscar-4gb": ((12, 768, 3072, 768, 32005), 110 * M),
    "gottbert-base": ((12, 768, 3072, 768, 52009), 125 * M),
    "bert.base.uncased": ((12, 768, 3072, 768, 30522), 110 * M),
    "bert.base.cased": ((12, 768, 3072, 768, 28996), 110 * M),
    "bert.large.uncased": ((24, 1024, 4096, 1024, 30522), 340 * M),
    "bert.large.cased": ((24, 1024, 4096, 1024, 28996), 340 * M),
    "bert.large.uncased.wwm": ((24, 1024, 4096, 1024, 30522), 340 * M),
    "bert.large.cased.wwm": ((24, 1024, 4096, 1024, 28996), 340 * M),
    "bert.base.multilingual.cased": ((12, 768, 3072, 768, 119547), 178 * M),
    "bert.base.multilingual.uncased": ((12, 768, 3072, 768, 105879), 167 * M),
    "bert.base.chinese": ((12, 768, 3072, 768, 21128), 102 * M),
    "distilbert.base.uncased": ((6, 768, 3072, 768, 30522), 66 * M),
    "albert.base.v1": ((12, 768, 3072, 128, 30000), 12 * M),
    "albert.large.v1": ((24, 1024, 4096, 128, 30000), 18 * M),
    "albert.xlarge.v1": ((24, 2048, 8192, 128, 30000), 60 * M),
    "albert.xxlarge.v1": ((12, 4096, 16384, 128, 30000), 235 * M),
    "albert.base.v2": ((12, 768, 3072, 128, 30000), 12 * M),
    "albert.large.v2": ((24, 1024, 4096, 128, 30000), 18 * M),
    "albert.xlarge.v2": ((24, 2048, 8192, 128, 30000), 60 * M),
    "albert.xxlarge.v2": ((12, 4096, 16384, 128, 30000), 235 * M),
    "electra.small.discriminator": ((12, 256, 1024, 128, 30522), 14 * M),
    "electra.small.generator": ((12, 256, 1024, 128, 30522), 14 * M),
    "electra.base.discriminator": ((12, 768, 3072, 768, 30522), 110 * M),
    "electra.base.generator": ((12, 256, 1024, 768, 30522), 34 * M),
    "electra.large.discriminator": ((24, 1024, 4096, 1024, 30522), 335 * M),
    "electra.large.generator": ((24, 256, 1024, 1024, 30522), 51 * M),
    "spanbert.base.cased": ((12, 768, 3072, 768, 28996), 110 * M),
    "spanbert.large.cased": ((24, 1024, 4096, 1024, 28996), 340 * M),
    "all.minilm.l6.v2": ((6, 384, 1536, 384, 30522), 22.7 * M),
}
"""Of the papers and model cards; what they print is rounded, and some leave out heads."""


def counted(name: str, numbers: tuple[int, ...]) -> int:
    """How many numbers such a model has, from its description alone."""
    layers, c, ffn, e, rows = numbers
    family = name.split(".")[0]
    one_type = family in ("xlmr", "camembert") or name.startswith(("camembert", "gottbert"))
    # Positions are counted from the row behind padding's: 514 rows of which 512 are used, or 513.
    positions, segments = (514, 0) if one_type else (513, 0 if family == "distilbert" else 2)
    total = (rows + positions + segments) * e
    pre_norm = name in ("xlmr.xl", "xlmr.xxl")
    total += 2 * (c if pre_norm else e)  # the norm of the embeddings, or the last layer's
    projected = family == "albert" or (family == "electra" and e != c)
    total += (e * c + c) if projected else 0
    layer = 4 * (c * c + c) + (c * ffn + ffn) + (ffn * c + c) + 4 * c
    total += layer * (1 if family == "albert" else layers)
    if family in ("bert", "albert", "spanbert", "all"):
        total += c * c + c  # the pooler
    if family in ("bert", "albert"):
        total += 2 * c + 2  # next sentence, or order
    if name.endswith("discriminator"):
        total += c * c + c + c + 1
    elif family not in ("spanbert", "all"):
        total += (c * e + e) + 2 * e + rows  # the LM head; its matrix is the table
    return total


@pytest.mark.system
@pytest.mark.parametrize("record", RELATIVES, ids=lambda record: record.name)
def test_a_relative_has_the_published_size(record: Record) -> None:
    numbers, published = PUBLISHED[record.name]
    roberta = load_model(record.name, pretrained=False, device="meta")
    copies = ("classification_heads.nsp.dense", "classification_heads.sop.dense")  # of the pooler
    named = roberta.model.named_parameters()
    count = sum(weight.numel() for name, weight in named if not name.startswith(copies))
    assert count == counted(record.name, numbers)
    assert abs(count - published) <= 0.06 * published  # papers round: 340 M is 335, 235 M is 223
    value, unit = record.parameters.split()
    unit_size = M if unit == "M" else BILLION
    assert abs(count - float(value) * unit_size) <= max(0.011 * count, 0.51 * unit_size)
    assert {parameter.device.type for parameter in roberta.parameters()} == {"meta"}
    assert roberta.family == record.family
    assert len(roberta.task.source_dictionary) == numbers[-1]
    assert record.parameters in record.summary and record.download in record.summary
    assert record.licence and record.languages and record.vocabulary


def test_the_table_has_every_relative() -> None:
    assert list(PUBLISHED) == [record.name for record in RELATIVES]


def test_the_largest_is_built_on_meta_within_seconds() -> None:
    start = time.process_time()
    load_model("xlmr.xxl", pretrained=False, device="meta", dtype="float16")
    assert time.process_time() - start < 30


@pytest.mark.parametrize("name", FAIRSEQ)
def test_fairseqs_names_are_all_here(name: str) -> None:
    record = find_record(name)
    assert record is not None and name in (record.name, *record.aliases)
    assert record.origins[0].kind == "fairseq"
    own = {"camembert": "camembert-base", "camembert.v0": "camembert-base"}.get(name, name)
    assert record.origins[0].files[0].url.endswith(f"/fairseq/models/{archive(own)}")


def archive(name: str) -> str:
    folder = "xlmr/" if name in ("xlmr.xl", "xlmr.xxl") else ""
    return f"{folder}{name}.tar.gz"


def test_camemberts_three_names_are_one_record() -> None:
    assert find_record("camembert") is find_record("camembert.v0") is find_record("camembert-base")


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_faces_names_are_aliases(name: str) -> None:
    record = find_record(name)
    assert record is not None and record.name == HUGGING_FACE[name]


def test_what_is_uncertain_is_said() -> None:
    unsure = {record.name: record.unsure for record in MODELS if record.unsure}
    assert "vocab_size" in unsure["gottbert-base"] and "vocab_size" in unsure["xlmr.xl"]
    assert all("activation_fn" in unsure[f"albert.base.{v}"] for v in ("v1", "v2"))
    assert "repository" in unsure["camembert-large"]
    for record in MODELS:  # and sizes that nobody looked up are called so
        assert record.download.startswith("about") == ("download" in record.unsure), record.name
    files = [f for r in MODELS for o in r.origins for f in (*o.files, *o.optional)]
    assert all(file.size is file.sha256 is None for file in files), "never an invented digest"


@pytest.fixture
def from_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `torch.hub.list("owner/repo")` does after its download."""
    monkeypatch.setattr(torch.hub, "_get_cache_or_reload", lambda *args, **keywords: str(REPO))


@pytest.mark.system
def test_torch_hub_lists_and_explains_every_name(from_github: None) -> None:
    listed = torch.hub.list("owner/roberta_hub")
    for record in MODELS:
        text = torch.hub.help("owner/roberta_hub", record.name)
        assert record.summary in text and "Example:" in text and record.name in text
        for name in (record.name, *record.aliases):
            assert name in listed
        assert not any(name in listed for name in names_of(record) if "/" in name)
        assert all(len(line) <= 100 for line in text.splitlines())
    assert "CC-BY-NC 4.0" in torch.hub.help("owner/roberta_hub", "spanbert.base.cased")
    assert "AGPLv3" in torch.hub.help("owner/roberta_hub", "gottbert-base")


def test_torch_hub_loads_a_name_with_hyphens() -> None:
    small: dict[str, Any] = {
        **{"encoder_layers": 1, "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8},
        "encoder_attention_heads": 2,
    }
    for name in ("camembert-base", "camembert_base", "camembert.v0"):
        roberta = torch.hub.load(str(REPO), name, source="local", pretrained=False, **small)
        assert roberta.family == "camembert"


# ---- without a vocabulary ----


@pytest.mark.system
@pytest.mark.parametrize("name", ["xlmr.base", "camembert", "bert.base.uncased", "albert.base.v2"])
def test_a_relative_without_a_vocabulary_takes_ids_and_no_texts(name: str) -> None:
    small = {"encoder_layers": 1}
    if not name.startswith("albert"):
        small |= {"encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8, "encoder_attention_heads": 2}
    roberta = load_model(name, pretrained=False, **small).eval()
    assert isinstance(roberta.bpe, NoVocabulary)
    layout, tokens = roberta.tokenizer.layout, torch.tensor([[5, 7, 9]])
    tokens = torch.tensor([layout.bos, 7, 9, layout.eos])
    assert roberta.extract_features(tokens).shape[:2] == (1, 4)
    roberta.register_classification_head("topic", num_classes=2)
    roberta.default_head = "topic"
    assert roberta.predict("topic", tokens).shape == (1, 2)
    (file,) = find_record(name).vocabulary  # type: ignore[union-attr]
    for ask in (
        roberta.encode,
        roberta.tokenize,
        roberta.offsets,
        roberta.features,
        roberta.classify,
        roberta.fill_mask,
        roberta.score,
        roberta.bpe.encode,
        roberta.embed,
        lambda text: roberta.decode(tokens),
    ):
        with pytest.raises(VocabularyError) as caught:
            ask("Hello <mask> world")
        for part in (name, file, "vocabulary=PATH"):
            assert part in str(caught.value)
    assert "vocabulary" in repr(roberta)


def test_a_vocabulary_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    for path, words in (
        (tmp_path / "none", "is not there"),
        (tmp_path / "words.txt", "is called otherwise.*vocab.txt"),
        (tmp_path / "empty", "holds none of vocab.txt"),
    ):
        with pytest.raises(VocabularyError, match=words):
            load_model("bert.base.uncased", pretrained=False, device="meta", vocabulary=path)


# ---- names that are not here ----


def test_any_other_repository_is_asked_at_hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    """`checkpoint/test_names_at_the_hub.py` asks a server."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv(OFFLINE_ENV, "1")
    for name, full in (
        ("owner/no-such-model", "owner/no-such-model"),
        ("stsb-roberta-large", "sentence-transformers/stsb-roberta-large"),
    ):
        with pytest.raises(DownloadError, match=f"{full} is not in the cache .*{OFFLINE_ENV} forb"):
            load_model(name)
    with pytest.raises(UnknownNameError, match=r"did you mean xlmr\.base"):
        load_model("xlm-roberta-bse")
    with pytest.raises(UnknownNameError, match="a path must exist"):
        load_model("./no/such/folder")


def test_a_name_without_an_owner_has_one_and_is_not_in_the_catalogue() -> None:
    bare = [name for names in OWNERS.values() for name in names]
    assert len(set(bare)) == len(bare) > 40
    for owner, names in OWNERS.items():
        for name in names:
            assert full_name(name) == full_name(f"{owner}/{name}") == f"{owner}/{name}"
            assert find_record(name) is find_record(f"{owner}/{name}") is None


# ---- licences ----


@pytest.mark.system
def test_spanberts_licence_is_said_when_its_weights_are_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    families = pytest.importorskip("families")
    folder = families.write_family("bert-cased", tmp_path / "it", head="bare")
    models = [replace(record, unsure=catalogue.SHAPE_FIELDS) for record in catalogue.MODELS]
    monkeypatch.setattr(catalogue, "MODELS", tuple(models))
    monkeypatch.setattr("roberta_hub.formats.source.fetch_model", lambda *a, **k: folder)
    with pytest.warns(LicenceWarning, match=r"CC-BY-NC 4\.0, which forbids commercial use"):
        roberta = load_model("SpanBERT/spanbert-base-cased")
    assert "licence: CC-BY-NC 4.0" in repr(roberta)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LicenceWarning)
        load_model("spanbert.base.cased")
        load_model("bert.base.cased")
        load_model("spanbert.base.cased", pretrained=False, device="meta")


# ---- how light it is ----


@pytest.mark.system
def test_hubconf_takes_the_standard_library_alone() -> None:
    code = (
        "import sys, hubconf\n"
        "print([m for m in ('torch', 'numpy', 'requests', 'roberta_hub') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


def test_shapes_are_configurations() -> None:
    for record in MODELS:
        config = config_of(record)
        assert config.num_segments == (2 if record.family in ("bert", "albert", "electra") else 0)
        of_bert = config.num_segments == 2 or record.family == "distilbert"
        assert (config.padding_idx == 0) == (config.layer_norm_eps == 1e-12) == of_bert
    with pytest.raises(InputError):
        roberta_hub.RobertaConfig(num_segments=2)
