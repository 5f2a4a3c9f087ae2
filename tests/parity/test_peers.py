"""The peers run: what real fairseq and transformers make is sound before anything is compared."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from roberta_hub import fairseq_bridge
from roberta_hub.errors import MissingExtraError

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq, pytest.mark.filterwarnings("ignore")]

IDS = torch.tensor([[0, 5, 6, 7, 2, 1], [0, 9, 10, 11, 12, 2]])  # (2, 6), one pad
HEADS = {"mnli": 3}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> peers.Peer:
    data = peers.dictionary(tmp_path_factory.mktemp("data"), 60)
    made = peers.fairseq_model(data, heads=HEADS, tokens_per_sample=64)
    made.model.eval()
    return made


# --- the bridge ----------------------------------------------------------------------------------


def run_python(code: str) -> str:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_fairseq_after_a_failed_import_leaves_dataclasses_alone() -> None:
    """In a fresh process; the plain import dies first, on the Pythons where it does."""
    out = run_python(
        """
import dataclasses, sys, threading
strict = dataclasses._get_field
try:
    import fairseq
except ValueError as error:
    print(error)
from roberta_hub.fairseq_bridge import import_fairseq
found = []
threads = [threading.Thread(target=lambda: found.append(import_fairseq())) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert found == [sys.modules["fairseq"]] * 4, found
assert dataclasses._get_field is strict
from fairseq.dataclass.configs import CommonConfig
assert CommonConfig.__hash__ is None
import fairseq, fairseq_cli.train, fairseq_cli.preprocess, fairseq.models.roberta
print("fine", fairseq.__version__)
"""
    )
    assert "fine" in out
    assert "mutable default" in out


def test_importing_the_bridge_does_not_import_fairseq() -> None:
    out = run_python("import sys, roberta_hub.fairseq_bridge; print('fairseq' in sys.modules)")
    assert out.strip() == "False"


@pytest.mark.parametrize("missing", ["fairseq", "bitarray"])
def test_missing_package_is_named(missing: str, tmp_path: Path) -> None:
    (tmp_path / "fairseq").mkdir()  # an empty folder of that name is no fairseq
    out = run_python(
        f"""
import sys
sys.path.append({str(tmp_path)!r})
sys.modules[{missing!r}] = None
from roberta_hub.errors import MissingExtraError
from roberta_hub.fairseq_bridge import import_fairseq
try:
    import_fairseq()
except MissingExtraError as error:
    print(error)
"""
    )
    assert f"'{missing}' is not installed" in out
    assert "pip install --no-deps fairseq==0.12.2" in out


def test_a_folder_called_fairseq_is_not_fairseq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fairseq").mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == "fairseq"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingExtraError, match="'fairseq' is not installed"):
        fairseq_bridge.import_fairseq()


# --- vocabularies --------------------------------------------------------------------------------


def test_dictionary_has_robertas_shape(tmp_path: Path) -> None:
    lines = peers.dictionary(tmp_path).joinpath("dict.txt").read_text().splitlines()
    symbols = [line.split()[0] for line in lines]
    assert len(symbols) == 50260 and symbols[:3] == ["13", "262", "11"]
    assert symbols[-4:] == ["50256", "madeupword0000", "madeupword0001", "madeupword0002"]


def test_written_bpe_is_a_bpe(tmp_path: Path) -> None:
    peers.real_fairseq()
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    tokens = peers.toy_tokens()
    bpe = get_encoder(*map(str, peers.write_bpe(tokens, tmp_path)))
    ids = bpe.encode("Hello world, and the café")
    assert bpe.decode(ids) == "Hello world, and the café"
    assert [tokens[i] for i in ids[:2]] == [b"Hello", b" world"]


@pytest.mark.skipif(peers.original_bpe() is None, reason="no original vocab.bpe here")
def test_shipped_tokens_write_gpt2s_own_files(tmp_path: Path) -> None:
    originals = peers.original_bpe()
    assert originals is not None
    written = peers.write_bpe(peers.shipped_tokens(), tmp_path)
    assert json.loads(written[0].read_text()) == json.loads(originals[0].read_text())
    assert written[1].read_text("utf-8") == originals[1].read_text("utf-8")


# --- models and checkpoints ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("roberta_base", {}),
        ("roberta_prenorm", {}),
        ("roberta_base", {"untie_weights_roberta": True, "encoder_layerdrop": 0.2}),
        ("roberta_base", {"spectral_norm_classification_head": True, "pooler_dropout": 0.3}),
    ],
)
def test_models_run_and_no_parameter_is_neutral(
    arch: str, options: dict[str, Any], peer: peers.Peer
) -> None:
    model = peers.fairseq_model(peer.data, arch, heads=HEADS, **options).model.eval()
    logits, _ = model(IDS)
    scores, _ = model(IDS, classification_head_name="mnli")
    assert logits.shape == (2, 6, 65) and scores.shape == (2, 3)
    assert all(parameter.std() > 0.02 for parameter in model.parameters())


def test_full_sizes_and_seed(peer: peers.Peer) -> None:
    full = peers.fairseq_model(peer.data, **{**peers.FULL, "encoder_layers": 1}).model
    assert full.encoder.sentence_encoder.layers[0].fc1.weight.shape == (3072, 768)
    weights = [peers.fairseq_model(peer.data, seed=s).model.state_dict() for s in (0, 0, 1)]
    key = "encoder.lm_head.dense.bias"
    assert torch.equal(weights[0][key], weights[1][key])
    assert not torch.equal(weights[0][key], weights[2][key])


@pytest.mark.parametrize("era", peers.ERAS)
def test_fairseq_reads_every_era_with_help_and_none_without(
    era: peers.Era, peer: peers.Peer, tmp_path: Path
) -> None:
    path = peers.save_era(peer, tmp_path, era)
    with pytest.raises(Exception, match="Unsupported global"):
        peers.hub_interface(tmp_path, stock=True)
    hub = peers.hub_interface(tmp_path)
    assert torch.equal(hub.model(IDS)[0], peer.model(IDS)[0])
    want = peer.model(IDS, classification_head_name="mnli")[0].log_softmax(-1)
    assert torch.equal(hub.predict("mnli", IDS), want)
    assert (path.read_bytes()[:2] == b"PK") == (era != "legacy")


def test_eras_have_their_marks(peer: peers.Peer, tmp_path: Path) -> None:
    states = {}
    with peers.fairseq_loads_its_own_files():
        for era in peers.ERAS:
            half = era == "legacy"
            states[era] = torch.load(peers.save_era(peer, tmp_path / era, era, half=half))
    layer = "sentence_encoder.layers.1."
    legacy = states["legacy"]["model"]
    assert legacy[f"decoder.{layer}self_attn.in_proj_weight"].dtype == torch.float16
    assert "decoder.sentence_encoder.emb_layer_norm.weight" in legacy
    assert type(states["legacy"]["extra_state"]["train_meters"]["wps"]).__name__ == "TimeMeter"
    assert not hasattr(states["legacy"]["args"], "layernorm_embedding")
    assert f"encoder.{layer}self_attn.q_proj.weight" in states["args"]["model"]
    assert type(states["cfg"]["cfg"]).__name__ == "DictConfig"
    plain = states["plain"]["model"]
    copies = [key for key in plain if key.startswith(f"encoder.{layer}") and "_weight" in key]
    assert len(copies) == 4 and "encoder.sentence_encoder.version" in plain
    assert type(states["plain"]["cfg"]["model"]).__name__ == "Namespace"


def test_saved_arguments_can_be_overridden(peer: peers.Peer, tmp_path: Path) -> None:
    for era in peers.ERAS:
        peers.save_era(peer, tmp_path, era, dropout=0.25)
        encoder = peers.hub_interface(tmp_path).model.encoder.sentence_encoder
        assert encoder.dropout_module.p == 0.25
    assert peer.args.dropout == peer.cfg.model.dropout == 0.1


def test_stock_fairseq_reads_a_plain_dict_without_help(peer: peers.Peer, tmp_path: Path) -> None:
    """What a file must hold so that nobody needs to allow anything."""
    path = peers.save_era(peer, tmp_path)
    with peers.fairseq_loads_its_own_files():
        state = torch.load(path)
    model = vars(copy.deepcopy(state["cfg"]["model"]))
    state["cfg"] = {
        "model": {**model, "load_checkpoint_heads": True},
        "task": {"_name": "masked_lm", "data": "."},
        "bpe": None,
    }
    del state["last_optimizer_state"], state["criterion"], state["task_state"]
    torch.save(state, path)
    hub = peers.hub_interface(tmp_path, stock=True, encoder_layers_to_keep="1")
    assert list(hub.model.classification_heads) == ["mnli"]
    assert len(hub.model.encoder.sentence_encoder.layers) == 1


def test_stock_fairseq_cannot_reload_spectral_norm(peer: peers.Peer, tmp_path: Path) -> None:
    made = peers.fairseq_model(peer.data, heads=HEADS, spectral_norm_classification_head=True)
    peers.save_era(made, tmp_path)
    with pytest.raises(KeyError, match=r"out_proj\.weight"):
        peers.hub_interface(tmp_path)


def test_stock_fairseqs_fast_path_dies_with_relu(peer: peers.Peer, tmp_path: Path) -> None:
    made = peers.fairseq_model(peer.data, activation_fn="relu")
    peers.save_era(made, tmp_path)
    hub = peers.hub_interface(tmp_path)
    assert torch.equal(hub.model(IDS)[0], made.model.eval()(IDS)[0])
    for layer in hub.model.encoder.sentence_encoder.layers:
        layer.can_use_fastpath = True  # as fairseq leaves it
    with pytest.raises(RuntimeError, match="Mask Type"):
        hub.model(IDS)


# --- training ------------------------------------------------------------------------------------


def test_train_masked_lm_and_on(tmp_path: Path) -> None:
    data = peers.train(tmp_path, updates=3)
    hub = peers.hub_interface(data, checkpoint="checkpoint_last.pt")
    assert hub.extract_features(IDS).shape == (2, 6, 32)
    losses = peers.continue_training(data / "checkpoint_last.pt", data, updates=2)
    assert len(losses) == 2 and all(0 < loss < 8 for loss in losses)
    assert (
        len(peers.continue_training(data / "checkpoint_last.pt", data, updates=4, reset=False)) == 1
    )
    with pytest.raises(RuntimeError, match="Unsupported global"):
        peers.continue_training(data / "checkpoint_last.pt", data, stock=True)


def test_train_sentence_prediction(tmp_path: Path) -> None:
    data = peers.train(tmp_path, "sentence_prediction", updates=2)
    assert {path.parent.name for path in data.rglob("dict.txt")} == {data.name, "input0", "label"}
    hub = peers.hub_interface(data, checkpoint="checkpoint_last.pt")
    assert hub.predict("sentence_classification_head", IDS).shape == (2, 2)
    assert {"neg", "pos"} <= set(hub.task.label_dictionary.symbols)


# --- transformers --------------------------------------------------------------------------------


@peers.needs_transformers
@pytest.mark.parametrize("weights", ["safetensors", "bin"])
@pytest.mark.parametrize("kind", ["mlm", "cls"])
def test_hf_models_run_and_come_back(kind: Any, weights: Any, tmp_path: Path) -> None:
    model = peers.hf_model(kind, num_labels=3)
    shape = (2, 6, 65) if kind == "mlm" else (2, 3)
    mask = IDS != 1
    logits = model(IDS, attention_mask=mask).logits
    assert logits.shape == shape
    assert all(parameter.std() > 0.02 for parameter in model.parameters())
    peers.save_hf(model, tmp_path, weights)
    names = {path.name for path in tmp_path.iterdir()}
    assert {
        "config.json",
        "model.safetensors" if weights == "safetensors" else "pytorch_model.bin",
    } <= names
    back = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(back(IDS, attention_mask=mask).logits, logits)
