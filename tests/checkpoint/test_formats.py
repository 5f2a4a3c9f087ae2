"""Round trips: what `save` writes is the same model again, in every format that can express it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from checkpoints import IDS, LABELS, outputs, small

import roberta_hub
from roberta_hub import RobertaHubError, RobertaHubInterface, load_model

TWO_HEADS = {"mnli": ("no", "maybe", "yes"), "sst-2": ("bad", "good")}
NLI = {"mnli": TWO_HEADS["mnli"]}
PRE_NORM = {"normalize_before": True, "layernorm_embedding": False}

MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "factorized": {"embedding_dim": 3},
    "shared layers": {"num_layers": 4, "num_unique_layers": 2},
    "factorized and shared": {"embedding_dim": 3, "num_layers": 4, "num_unique_layers": 1},
    "untied": {"untie_weights": True},
    "factorized and untied": {"embedding_dim": 3, "untie_weights": True},
    "pre-norm": PRE_NORM,
    "no LM head": {"lm_head": False},
    "one head": {"heads": NLI},
    "two heads": {"heads": TWO_HEADS},
    "spectral norm": {"heads": NLI, "spectral_norm_heads": True},
    "label dictionary": {"heads": {"sst-2": ("neg", "pos")}, "label_dictionary": LABELS},
    "relu": {"activation_fn": "relu", "lm_head": False},
    "eps": {"layer_norm_eps": 1e-12},
    "quant noise": {"quant_noise_pq": 0.1},
    "dropouts": {"dropout": 0.2, "attention_dropout": 0.3, "pooler_dropout": 0.4, "layerdrop": 0.5},
    "half precision": {"dtype": torch.float16},
    "brain floats": {"dtype": torch.bfloat16, "heads": NLI},
}
REFUSALS = {
    ("fairseq", "no LM head"): "without language-model head",
    ("fairseq", "relu"): "without language-model head",
    ("fairseq", "eps"): "LayerNorm eps",
    ("huggingface", "pre-norm"): "pre-norm layers",
    ("huggingface", "quant noise"): "quantization-noise",
    ("huggingface", "two heads"): r"choose with save\(\.\.\., head=\.\.\.\) among mnli, sst-2",
}


def saved(roberta: RobertaHubInterface, folder: Path, format: Any, **options: Any) -> Path:
    roberta.save(folder, format, **options)
    return folder


def assert_alike(got: list[torch.Tensor], expected: list[torch.Tensor], exact: bool) -> None:
    tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(got, expected, **tolerance)


@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_is_the_same_model(tmp_path: Path, name: str, format: str):
    model = dict(MODELS[name])
    heads = model.get("heads", {})
    roberta = small(**model)
    if (format, name) in REFUSALS:
        with pytest.raises(RobertaHubError, match=REFUSALS[format, name]):
            roberta.save(tmp_path, format)
        assert list(tmp_path.iterdir()) == []
        return
    # Half precision is computed in float32 on both sides: a widened copy of the same numbers.
    once = load_model(saved(roberta, tmp_path / "once", format))
    expected = roberta.to(torch.float32)
    hugging = format == "huggingface"
    theirs = ["sentence_classification_head"] if hugging and heads else list(heads)
    exact = format == "roberta_hub" or (
        name
        not in (
            "factorized",
            "factorized and shared",
            "factorized and untied",
            "shared layers",
            "spectral norm",
            "half precision",
        )
        and not hugging
    )
    assert_alike(outputs(once, theirs), outputs(expected, list(heads)), exact)

    twice = load_model(saved(once, tmp_path / "twice", "roberta_hub"))
    assert_alike(outputs(twice, theirs), outputs(once, theirs), exact=True)
    assert twice.model.config == once.model.config
    assert twice.labels == once.labels
    if format == "roberta_hub":
        assert once.model.config == roberta.model.config
    assert [once.head_labels(head) for head in theirs] == [heads[head] for head in heads]
    if not hugging:
        assert once.task.source_dictionary == roberta.task.source_dictionary
        assert once.task.label_dictionary == roberta.task.label_dictionary


def test_what_fairseqs_file_has_no_place_for_survives_in_it(tmp_path: Path):
    roberta = small(heads=TWO_HEADS)
    roberta.task = dataclasses.replace(roberta.task, name="sentence_prediction")
    again = load_model(saved(roberta, tmp_path, "fairseq"))
    assert again.labels == TWO_HEADS
    assert again.task.name == "sentence_prediction"
    # No class at all is pickled: any torch reads it without an allow-list.
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    assert isinstance(state["cfg"]["model"], dict)


def test_hugging_face_gets_the_head_that_is_asked_for(tmp_path: Path):
    roberta = small(heads=TWO_HEADS)
    for head, labels in TWO_HEADS.items():
        again = load_model(saved(roberta, tmp_path / head, "huggingface", head=head))
        assert again.labels == {"sentence_classification_head": labels}
        assert_alike(
            outputs(again, ["sentence_classification_head"]), outputs(roberta, [head]), False
        )
    with pytest.raises(RobertaHubError, match="no head 'cola' to save; there are mnli, sst-2"):
        roberta.save(tmp_path, "huggingface", head="cola")
    with pytest.raises(RobertaHubError, match="choose fairseq, roberta_hub, huggingface"):
        roberta.save(tmp_path, "onnx")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_files_are_half_as_large(tmp_path: Path, dtype: torch.dtype):
    wide = {"embed_dim": 64, "ffn_dim": 256}
    for format, file in (("roberta_hub", "model.safetensors"), ("fairseq", "model.pt")):
        folder = tmp_path / format
        small(**wide).save(folder / "full", format)
        small(**wide, dtype=dtype).save(folder / "half", format)
        full, half = (os.path.getsize(folder / name / file) for name in ("full", "half"))
        assert half < 0.6 * full
        kept = load_model(folder / "half", dtype=dtype) if format == "roberta_hub" else None
        if kept is not None:
            assert {p.dtype for p in kept.model.parameters()} == {dtype}


@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_saving_over_itself_leaves_a_loaded_model_alone(tmp_path: Path, format: Any, dtype: Any):
    small(seed=1).save(tmp_path, format)
    first = load_model(tmp_path, dtype=dtype)  # our own format stays mapped
    before = outputs(first.to(torch.float32)) if dtype else outputs(first)
    for seed in (2, 3):
        small(seed=seed).save(tmp_path, format)
        torch.testing.assert_close(outputs(first), before, rtol=0, atol=0)
    first.save(tmp_path, format)
    torch.testing.assert_close(outputs(first), before, rtol=0, atol=0)
    torch.testing.assert_close(outputs(load_model(tmp_path)), before, rtol=0, atol=1e-6)


def test_training_a_mapped_model_does_not_write_into_its_file(tmp_path: Path):
    small().save(tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    loaded = load_model(tmp_path)
    loss = loaded.model(IDS)[0].square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter -= 0.1
    assert (tmp_path / "model.safetensors").read_bytes() == content
    torch.testing.assert_close(outputs(load_model(tmp_path)), outputs(small()), rtol=0, atol=0)


# ---- saving that fails ----


def photograph(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("format", ["fairseq", "huggingface"])
def test_a_format_that_cannot_express_the_model_changes_nothing(tmp_path: Path, format: Any):
    small().save(tmp_path, format)
    before = photograph(tmp_path)
    bad = small(lm_head=False) if format == "fairseq" else small(**PRE_NORM)
    with pytest.raises(RobertaHubError, match="cannot express"):
        bad.save(tmp_path, format)
    assert photograph(tmp_path) == before


SAVE_WITH_LIMITS = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
import roberta_hub
from checkpoints import small
roberta = small({"mnli": ["a" * 50_000, "b"]}, seed=9)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in 1000, 30_000:  # not even the weights fit; the weights do, the labels do not
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try: roberta.save(sys.argv[2], sys.argv[3])
    except roberta_hub.RobertaHubError as error: print(error)
    else: print("saved")
"""


@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
def test_a_disk_that_fills_up_leaves_the_old_files(tmp_path: Path, format: Any):
    small(seed=1).save(tmp_path, format)
    before = photograph(tmp_path)
    here = str(Path(__file__).parent)
    done = forks.run("-c", SAVE_WITH_LIMITS, here, tmp_path, format)
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    assert len(messages) == 2
    for message in messages:
        assert message.startswith(f"{tmp_path}: cannot be written")
        assert "what was there is as before" in message
    assert photograph(tmp_path) == before


@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
def test_places_that_cannot_be_written(tmp_path: Path, format: Any):
    (tmp_path / "file").write_text("mine")
    for target in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RobertaHubError, match=r"cannot be written.*choose another directory"):
            small().save(target, format)
    assert photograph(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize(
    ("format", "last"),
    [("roberta_hub", "dict.txt"), ("fairseq", "dict.txt"), ("huggingface", "vocab.json")],
)
def test_a_folder_where_a_file_should_go(tmp_path: Path, format: Any, last: str):
    small(seed=1).save(tmp_path, format)
    (tmp_path / last).unlink()
    (tmp_path / last / "mine").mkdir(parents=True)
    before = photograph(tmp_path)
    with pytest.raises(RobertaHubError, match=f"{last} is a directory"):
        small(seed=2).save(tmp_path, format)
    assert photograph(tmp_path) == before


@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
def test_other_files_in_the_folder_stay(tmp_path: Path, format: Any):
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        small().save(tmp_path, format)
        assert (tmp_path / "notes.txt").read_text() == "mine"
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.fixture
def own_vocabulary(tmp_path: Path) -> roberta_hub.RobertaHubInterface:
    """A model with a BPE of its own: three merges."""
    from roberta_hub.text import Dictionary, Task
    from roberta_hub.text.bpe import GPT2BPE

    bpe = GPT2BPE([(b"t", b"h"), (b"th", b"e"), (b" ", b"the")])
    dictionary = Dictionary()
    for number in reversed(range(bpe.max_id + 1)):
        dictionary.add_symbol(str(number))
    dictionary.add_symbol("<mask>")
    config = roberta_hub.RobertaConfig(
        vocab_size=len(dictionary), embed_dim=8, ffn_dim=8, num_layers=1, num_heads=2
    )
    model = roberta_hub.RobertaModel(config)
    hub = roberta_hub.RobertaHubInterface(config, Task(dictionary), model, bpe=bpe)
    assert set(hub.tokenizer.engine.fairseq_files()) == {"encoder.json", "vocab.bpe"}
    return hub.eval()


@pytest.mark.parametrize("format", ["roberta_hub", "fairseq", "huggingface"])
def test_a_bpe_of_its_own_is_saved_and_read_again(own_vocabulary, tmp_path: Path, format) -> None:
    own_vocabulary.save(tmp_path / "model", format=format)
    again = roberta_hub.load_model(tmp_path / "model").eval()
    for text in ("the cat", " the theatre", "naïve 🙂", ""):
        assert again.encode(text).tolist() == own_vocabulary.encode(text).tolist()
        assert again.decode(again.encode(text)) == text
        torch.testing.assert_close(again.features([text])[0], own_vocabulary.features([text])[0])


@pytest.mark.parametrize("first", ["roberta_hub", "fairseq", "huggingface"])
@pytest.mark.parametrize("second", ["roberta_hub", "fairseq", "huggingface"])
def test_formats_do_not_mix_in_a_directory(own_vocabulary, tmp_path: Path, first, second) -> None:
    """Loading would find one of the two, perhaps the old one; nothing is written then."""
    own_vocabulary.save(tmp_path / "model", format=first)
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    if first == second:
        own_vocabulary.save(tmp_path / "model", format=second)
        return
    with pytest.raises(roberta_hub.RobertaHubError, match="another directory"):
        own_vocabulary.save(tmp_path / "model", format=second)
    assert {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()} == before


def test_what_an_earlier_save_left_behind_goes(own_vocabulary, tmp_path: Path) -> None:
    """A vocabulary that is not written again must not be read with the new weights."""
    own_vocabulary.save(tmp_path / "model")
    assert (tmp_path / "model" / "merges.txt").exists()
    config = roberta_hub.RobertaConfig(embed_dim=8, ffn_dim=8, num_layers=1, num_heads=2)
    from roberta_hub.text import Dictionary, Task

    plain = roberta_hub.RobertaHubInterface(
        config, Task(Dictionary.roberta()), roberta_hub.RobertaModel(config)
    )
    plain.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    again = roberta_hub.load_model(tmp_path / "model")
    assert again.encode("Hello world!").tolist() == [0, 31414, 232, 328, 2]
