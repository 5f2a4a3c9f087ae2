"""Hostile, damaged and unfit fairseq files give our errors, never code, a crash or a hang."""

from __future__ import annotations

import os
import pickle
import random
import re
import sys
import threading
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from checkpoints import (
    DICTIONARY,
    ENCODER,
    LABELS,
    TABLE,
    assert_refused,
    assert_refused_or_loads,
    fairseq_file,
    fairseq_state,
    legacy_pickle,
    outputs,
    small,
    with_pickle,
)
from torch import Tensor

from roberta_hub import RobertaHubError, load_model
from roberta_hub.checkpoint.checkpoint import MAX_HEADS
from roberta_hub.checkpoint.untrusted.unpickle import load_pickle, plain
from roberta_hub.errors import CheckpointError
from roberta_hub.formats.fairseq import read_state

BOTH = pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])

# ---- code ----


class Command:
    """Runs a shell command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


NAIVE = "import sys, torch; torch.load(sys.argv[1], weights_only=False)"


@pytest.mark.system
@BOTH
def test_code_in_a_pickle_is_never_run(tmp_path: Path, legacy: bool):
    marker = tmp_path / "harm"
    state = {**fairseq_state(small()), "extra_state": Command(f"touch {marker}")}
    path = fairseq_file(tmp_path / "a", state, legacy=legacy)
    forks.run("-c", NAIVE, path, check=True)
    assert marker.exists()  # so the file is a real attack
    marker.unlink()
    message = assert_refused(path, f"{os.name}.system", "nothing in it was run", "safetensors")
    assert not marker.exists()
    assert str(path) in message


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("builtins", "eval", ("open({marker!r}, 'w')",)),
        ("builtins", "exec", ("open({marker!r}, 'w')",)),
        ("pathlib", "Path.touch", ("{marker}",)),
        ("subprocess", "check_call", (("touch", "{marker}"),)),
        ("torch", "hub.load", ("{marker}",)),
        ("torch.serialization", "load", ("{marker}",)),
        ("roberta_hub.hub", "load_model", ("{marker}",)),
        ("builtins", "bytearray", (10**12,)),
        ("torch", "FloatTensor", (10**12,)),
        ("torch._utils", "_rebuild_sparse_tensor", ()),
        ("argparse", "Namespace._get_kwargs", ()),
    ],
)
def test_only_names_of_weights_are_looked_up(tmp_path: Path, module: str, name: str, arguments):
    marker = tmp_path / "harm"
    filled = pickle.dumps(arguments, 2)[2:-1].replace(b"{marker}", os.fsencode(marker))
    opcodes = b"\x80\x02c" + f"{module}\n{name}\n".encode() + filled + b"R."
    for path in (
        with_pickle(fairseq_file(tmp_path / "zip"), opcodes),
        legacy_pickle(fairseq_file(tmp_path / "old"), opcodes),
    ):
        assert_refused(path, f"{module}.{name}"[:20], "nothing in it was run")
    assert not marker.exists()


def test_a_namespace_may_be_called_and_dressed_up_but_stays_data(tmp_path: Path):
    # Namespace() by REDUCE, then BUILD with attributes that shadow its class and its methods.
    shadows = {"__class__": 7, "_get_kwargs": 8, "__dict__": 9, "dropout": 0.25}
    state = fairseq_state(small())
    args = {**vars(state["args"]), **shadows}
    reduced = b"cargparse\nNamespace\n)R" + pickle.dumps(args, 2)[2:-1] + b"b"
    plain_args = pickle.dumps({"args": 1, "model": {}}, 2)
    path = with_pickle(
        fairseq_file(tmp_path), plain_args.replace(b"K\x01", reduced).replace(b"q\x00", b"")
    )
    found = plain(load_pickle(path)["args"], "file")
    assert found["dropout"] == 0.25
    assert found["__class__"] == 7


@pytest.mark.parametrize("where", ["state", "model", "args"])
@pytest.mark.parametrize("method", ["items", "keys", "get", "values", "__iter__"])
def test_methods_shadowed_by_a_file_are_not_called(tmp_path: Path, where: str, method: str):
    state = OrderedDict(fairseq_state(small()))
    state["model"] = OrderedDict(state["model"])
    state["args"] = OrderedDict(vars(state["args"]))
    target = state if where == "state" else state[where]
    vars(target)["shadow"] = Namespace  # torch.load restores an OrderedDict's attributes
    path = fairseq_file(tmp_path, state)
    with zipfile.ZipFile(path) as archive:
        opcodes = archive.read("model/data.pkl")
    name = f"X{chr(len(method))}\0\0\0{method}".encode()
    with_pickle(path, opcodes.replace(b"X\x06\0\0\0shadow", name))
    loaded = load_pickle(path)
    assert vars(loaded if where == "state" else dict.get(loaded, where))[method] is Namespace
    assert outputs(load_model(path))


def test_tensors_with_attributes_are_refused(tmp_path: Path):
    state = fairseq_state(small())
    table = torch.nn.Parameter(state["model"][TABLE])
    for name in ("numel", "data_ptr", "is_floating_point", "to"):
        setattr(table, name, 3)
    state["model"][TABLE] = table
    assert_refused(fairseq_file(tmp_path, state), "_rebuild_parameter_with_state")


def test_stand_ins_take_anything_and_do_nothing(tmp_path: Path):
    name = b"cfairseq.meters\nAverageMeter\n"
    state = pickle.dumps({"val": 1.5, "__class__": 1, "__setstate__": 2, "update": 3}, 2)[2:-1]
    loaded = load_pickle(
        with_pickle(
            fairseq_file(tmp_path),
            b"\x80\x02" + name + b"(K\x01K\x02tR" + state + b"b" + state + b"b.",
        )
    )
    assert type(loaded).__name__ == "AverageMeter"
    assert loaded.state["val"] == 1.5
    assert not [name for name in vars(type(loaded)) if not name.startswith("__")]
    assert "fairseq" not in sys.modules or type(loaded).__module__ != "fairseq.meters"


# ---- bombs ----


def nested(depth: int) -> bytes:
    return b"\x80\x02}(" + b")" + b"\x85" * depth + b"K\x01u."


HASH = "import sys; from roberta_hub import load_model; load_model(sys.argv[1])"


@pytest.mark.system
@BOTH
def test_deep_tuples_do_not_end_the_process(tmp_path: Path, legacy: bool):
    path = fairseq_file(tmp_path)
    path = (legacy_pickle if legacy else with_pickle)(path, nested(1_000_000))
    done = forks.run("-c", HASH, path)
    assert done.returncode == 1, done.stderr  # a segmentation fault would be -11
    assert "nests tuples" in done.stderr


def test_text_encoded_again_and_again_is_refused(tmp_path: Path):
    code = b"c_codecs\nencode\n"
    text, hexadecimal = b"X\x04\x00\x00\x00aaaa", b"X\x03\x00\x00\x00hex"
    once = code + text + b"X\x06\x00\x00\x00latin1\x86R"
    assert load_pickle(with_pickle(fairseq_file(tmp_path), b"\x80\x02" + once + b".")) == b"aaaa"
    many = code * 40 + text + b"X\x06\x00\x00\x00latin1\x86R" + (hexadecimal + b"\x86R") * 39
    assert_refused(with_pickle(fairseq_file(tmp_path), b"\x80\x02" + many + b"."), "without end")


@pytest.mark.parametrize("kind", [list, dict, Namespace])
def test_shared_parts_of_parts_are_not_spelled_out(tmp_path: Path, kind: type):
    bomb: Any = 1
    for _ in range(40):  # 2 ** 40 values once written out
        pair = {"a": bomb, "b": bomb}
        bomb = (
            Namespace(**pair)
            if kind is Namespace
            else kind(pair.values() if kind is list else pair)
        )
    state = {**fairseq_state(small()), "args": {"dropout": bomb}}
    assert_refused(fairseq_file(tmp_path, state), "100,000 values")


@pytest.mark.system
@pytest.mark.parametrize("depth", [60, 100_000])
def test_a_deep_configuration(tmp_path: Path, depth: int):
    opened, closed = b"X\x01\x00\x00\x00a", b"s" * depth
    inside = (b"}" + opened) * depth + b"K\x01" + closed
    opcodes = b"\x80\x02}(X\x04\x00\x00\x00args" + inside + b"X\x05\x00\x00\x00model}u."
    assert_refused(with_pickle(fairseq_file(tmp_path), opcodes), "nested deeper")


@BOTH
@pytest.mark.parametrize("elements", [9, 1 << 20, 1 << 38])
def test_expanded_tensors_are_refused(tmp_path: Path, legacy: bool, elements: int):
    state = fairseq_state(small())
    state["model"]["encoder.lm_head.bias"] = torch.zeros(1).expand(elements)
    assert_refused(fairseq_file(tmp_path, state, legacy=legacy), "claims more elements")


def test_many_views_of_one_tensor_do_not_multiply(tmp_path: Path):
    state = fairseq_state(small())
    shared = torch.zeros(100_000)
    state["model"] |= {f"x{i}": shared[i:] for i in range(100)}
    assert_refused(fairseq_file(tmp_path, state), "more than the file's")


@BOTH
def test_storages_that_claim_terabytes(tmp_path: Path, legacy: bool):
    path = fairseq_file(tmp_path, legacy=legacy)

    # 16 elements in the pickle become 2**40, as an 8-byte integer.
    def claim(match: re.Match[bytes]) -> bytes:
        return b"\x8a\x06\x00\x00\x00\x00\x00\x01" + match[1]

    if legacy:
        spoiled, count = re.subn(rb"K\x10(Ntq)", claim, path.read_bytes())
        path.write_bytes(spoiled)
    else:
        with zipfile.ZipFile(path) as archive:
            spoiled, count = re.subn(rb"K\x10(tq)", claim, archive.read("model/data.pkl"))
        with_pickle(path, spoiled)
    assert count
    if legacy:
        assert_refused(path, "download")
    else:  # mapped, so that no more is read than there is
        torch.testing.assert_close(outputs(load_model(path)), outputs(small()))


# ---- not a checkpoint ----


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"\0", "zeros"),
        (b"\0" * 5000, "zeros"),
        (b"\x80", "damaged"),
        (b"P", "damaged"),
        (b"PK\x03\x04", "damaged"),
        (b"<!DOCTYPE html><title>Log in</title>", "web page"),
        (b"\n<HTML>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"\x1f\x8b" + b"x" * 50, "compressed"),
        (b"hello world\n" * 100, "plain text"),
        (pickle.dumps({"model": {}}, 2), "damaged"),
        (pickle.dumps({"model": {}}, 4), "damaged"),
        (random.Random(0).randbytes(5000), "download"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes, word: str):
    path = fairseq_file(tmp_path)
    path.write_bytes(content)
    assert_refused(path, word, str(path))


HARM = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect")
HARM += (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "shutil.rmtree",
    "pickle.find_class",
    "ctypes.dlopen",
)


@pytest.fixture
def harm() -> Iterator[list[str]]:
    """What Python was asked for meanwhile that a file of weights has no need of."""
    events: list[str] = []
    watched = threading.get_ident()

    def note(event: str, arguments: object) -> None:
        if watched == threading.get_ident() and event in HARM:
            events.append(f"{event} {arguments}")

    sys.addaudithook(note)  # stays for as long as the process runs
    yield events
    watched = -1


@pytest.mark.system
@pytest.mark.parametrize("begins", [b"", b"\x80", b"\x80\x02", b"PK\x03\x04", b"\x1f\x8b"])
def test_a_thousand_files_of_noise(tmp_path: Path, begins: bytes, harm: list[str]):
    """Always a sentence of ours, nothing run, also where noise begins like a pickle."""
    path = fairseq_file(tmp_path)
    del harm[:]
    for seed in range(1000):
        draw = random.Random(seed)
        path.write_bytes(begins + draw.randbytes(draw.choice([1, 30, 400, 5000])))
        assert_refused(path, "model.pt")
    assert harm == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dict.txt", "model.pt"]


def test_a_missing_file_and_a_directory(tmp_path: Path):
    (tmp_path / "dict.txt").write_bytes(DICTIONARY)
    assert_refused(tmp_path, "model.pt")
    (tmp_path / "model.pt").mkdir()
    assert_refused(tmp_path, "model.pt")
    with pytest.raises(CheckpointError, match="is a directory"):
        load_pickle(tmp_path / "model.pt")
    with pytest.raises(RobertaHubError, match="a path must exist"):
        load_model(tmp_path / "none.pt")


def test_other_zip_files(tmp_path: Path):
    path = fairseq_file(tmp_path)
    for compression, names, word in (
        (zipfile.ZIP_STORED, ["word/document.xml"], "without a checkpoint"),
        (zipfile.ZIP_DEFLATED, ["a/data.pkl"], "compressed zip"),
        (zipfile.ZIP_STORED, ["a/data.pkl", "a/constants.pkl"], "TorchScript"),
    ):
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name in names:
                archive.writestr(name, bytes(1 << 20))
        assert_refused(path, word)


@BOTH
@pytest.mark.parametrize(
    ("state", "word"),
    [
        ([1, 2], "found list"),
        (torch.zeros(3), "found Tensor"),
        ("text", "found str"),
        ({}, "found keys []"),
        ({"args": None}, "found keys ['args']"),
        ({"model": 3, 5: 6}, "found keys ['model']"),
        ({"model": [1]}, "'model'"),
        ({"model": {}}, "no RoBERTa encoder"),
        ({"model": {"a": 1}}, "'a', a int"),
        ({"model": {3: torch.zeros(1)}}, "a int"),
        ({"model": {((),): torch.zeros(1)}}, "a tuple"),
        ({"model": {TABLE: torch.zeros(3)}}, "no RoBERTa encoder"),
        ({"roberta.embeddings.word_embeddings.weight": torch.zeros(1)}, "Hugging Face"),
    ],
)
def test_states_of_another_form(tmp_path: Path, legacy: bool, state: Any, word: str):
    assert_refused(fairseq_file(tmp_path, state, legacy=legacy), word)


# ---- damage ----


@BOTH
def test_truncated_files_are_refused(tmp_path: Path, legacy: bool):
    path = fairseq_file(tmp_path, legacy=legacy)
    content = path.read_bytes()
    for kept in [
        1,
        2,
        10,
        100,
        1000,
        *range(0, len(content), len(content) // 13),
        len(content) - 1,
    ]:
        path.write_bytes(content[:kept])
        assert_refused(path, str(path))


@pytest.mark.system
@BOTH
def test_flipped_bits_are_refused_or_harmless(tmp_path: Path, legacy: bool):
    path = fairseq_file(tmp_path, legacy=legacy)
    content = path.read_bytes()
    start = 0 if legacy else content.index(b"data.pkl")
    ends = [*range(start, start + 6000, 211), *range(0, len(content), len(content) // 30)]
    kept = 0
    for place in ends:
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << place % 8
        path.write_bytes(spoiled)
        kept += assert_refused_or_loads(path)
    assert 0 < kept < len(ends)


# ---- an architecture that does not fit ----


def test_missing_tensors_are_listed(tmp_path: Path):
    state = fairseq_state(small())
    for name in ("fc1.bias", "final_layer_norm.weight"):
        del state["model"][f"{ENCODER}layers.1.{name}"]
    assert_refused(
        fairseq_file(tmp_path, state), "2 tensors are missing", "layers.1.fc1.bias", "incomplete"
    )


def test_unexpected_tensors_are_refused_or_ignored_with_a_warning(tmp_path: Path):
    state = fairseq_state(small())
    state["model"]["encoder.surprise"] = torch.zeros(3)
    path = fairseq_file(tmp_path, state)
    assert_refused(path, "encoder.surprise", "strict=False")
    with pytest.warns(UserWarning, match=r"encoder\.surprise"):
        loaded = load_model(path, strict=False)
    torch.testing.assert_close(outputs(loaded), outputs(small()))


@pytest.mark.parametrize(
    ("name", "shape", "cause"),
    [
        ("encoder.lm_head.bias", (17,), "vocabulary"),
        (f"{ENCODER}layers.0.fc2.weight", (8, 17), "base and large"),
        (f"{ENCODER}layers.1.self_attn.q_proj.weight", (8,), "base and large"),
        (f"{ENCODER}layers.1.self_attn.q_proj.bias", (), "base and large"),
        (f"{ENCODER}layers.0.fc1.weight", (16,), "base and large"),
    ],
)
def test_wrong_shapes_are_named(tmp_path: Path, name: str, shape: tuple[int, ...], cause: str):
    state = fairseq_state(small())
    right = tuple(state["model"][name].shape)
    state["model"][name] = torch.zeros(shape)
    assert_refused(fairseq_file(tmp_path, state), name, str(shape), cause)
    assert right != shape


@pytest.mark.parametrize("name", ["embed_tokens.weight", "embed_positions.weight"])
@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (2, 0), (2, 8), (0, 8)])
def test_degenerate_tables(tmp_path: Path, name: str, shape: tuple[int, ...]):
    state = fairseq_state(small())
    state["model"].pop("encoder.lm_head.weight")
    state["model"][ENCODER + name] = torch.zeros(shape)
    assert_refused(fairseq_file(tmp_path, state))


@pytest.mark.parametrize("shape", [(), (0,), (0, 8), (7, 8), (24,), (9, 8)])
def test_degenerate_fused_projections(tmp_path: Path, shape: tuple[int, ...]):
    state = fairseq_state(small())
    for part in "qkv":
        del state["model"][f"{ENCODER}layers.0.self_attn.{part}_proj.weight"]
    state["model"][f"{ENCODER}layers.0.self_attn.in_proj_weight"] = torch.zeros(shape)
    assert_refused(fairseq_file(tmp_path, state))


@pytest.mark.parametrize(
    "value", [{"encoder_embed_dim": 16}, {"encoder_layers": 3}, {"max_positions": 99}]
)
def test_an_override_cannot_change_a_size(tmp_path: Path, value: dict[str, int]):
    assert_refused(fairseq_file(tmp_path), **value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dropout": "0.1"},
        {"dropout": float("nan")},
        {"dropout": 10**400},
        {"dropout": -1},
        {"dropout": torch.zeros(3)},
        {"adaptive_input": torch.zeros(3)},
        {"activation_fn": "os.system"},
        {"activation_fn": ["gelu"]},
        {"pooler_activation_fn": "nothing"},
        {"encoder_attention_heads": 0},
        {"encoder_attention_heads": -2},
        {"encoder_attention_heads": 3},
        {"encoder_attention_heads": 10**400},
        {"encoder_attention_heads": True},
        {"encoder_attention_heads": "2"},
        {"encoder_layers_to_keep": "0,x"},
        {"encoder_layers_to_keep": "0,1,7"},
        {"encoder_layers_to_keep": [float("inf")]},
        {"encoder_normalize_before": "yes"},
        {"no_token_positional_embeddings": True},
        {"quant_noise_pq": "x" * 10**6},
    ],
    ids=lambda arguments: str(arguments)[:40],
)
def test_arguments_of_wrong_types_and_values(tmp_path: Path, arguments: dict[str, Any]):
    state = fairseq_state(small(heads={"mnli": "abc"}))
    vars(state["args"]).update(arguments)
    assert_refused(fairseq_file(tmp_path, state))


# ---- heads ----


@pytest.mark.parametrize(
    "name",
    [
        "a.b",
        "__init__",
        "",
        "keys",
        "../../x",
        "a" * 5000,
        "a\n",
        " ",
        "a\x00b",
        "x" * 10_000,
        "_modules",
        "forward",
        "training",
        "a\u202eb",
        "a\ud800",
        "\u200d",
        "-a",
        "a ",
    ],
)
def test_hostile_head_names(tmp_path: Path, name: str):
    state = fairseq_state(small(heads={"mnli": "abc"}))
    heads = {k: v for k, v in state["model"].items() if k.startswith("classification_heads.")}
    state["model"] |= {k.replace("mnli", name, 1): v for k, v in heads.items()}
    assert_refused(fairseq_file(tmp_path, state))


@pytest.mark.system
def test_too_many_heads(tmp_path: Path):
    state = fairseq_state(small(heads={"mnli": "abc"}))
    heads = {k: v for k, v in state["model"].items() if k.startswith("classification_heads.")}
    for i in range(10_000):
        state["model"] |= {k.replace("mnli", f"h{i}"): v for k, v in heads.items()}
    assert_refused(fairseq_file(tmp_path, state), "heads", f"{MAX_HEADS}")


@pytest.mark.parametrize(
    "key", ["x", "x.dense.weight", "x.out_proj.weight", "x.other", "x.dense.bias"]
)
@pytest.mark.parametrize("shape", [(), (0, 0), (3, 8)])
def test_incomplete_heads(tmp_path: Path, key: str, shape: tuple[int, ...]):
    state = fairseq_state(small())
    state["model"][f"classification_heads.{key}"] = torch.zeros(shape)
    assert_refused(fairseq_file(tmp_path, state), "x")


# ---- numbers ----


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_that_are_no_numbers(tmp_path: Path, value: float, dtype: torch.dtype):
    roberta = small(dtype=dtype)
    with torch.no_grad():
        roberta.model.encoder.sentence_encoder.layers[1].fc1.bias[3] = value
    path = fairseq_file(tmp_path, fairseq_state(roberta))
    assert_refused(path, "layers.1.fc1.bias", "allow_nonfinite=True")
    loaded = load_model(path, allow_nonfinite=True).model.encoder.sentence_encoder
    assert not loaded.layers[1].fc1.bias.isfinite().all()


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("wanted", [None, torch.float16, "bfloat16", "float32"])
def test_dtypes_are_widened_by_default_and_chosen_on_request(tmp_path: Path, stored, wanted):
    path = fairseq_file(tmp_path, fairseq_state(small(dtype=stored)))
    right = getattr(torch, wanted) if isinstance(wanted, str) else wanted or torch.float32
    parameters = dict(load_model(path, dtype=wanted).model.named_parameters())
    assert {parameter.dtype for parameter in parameters.values()} == {right}
    expected = small().model.state_dict()[TABLE].to(stored).to(right)
    assert torch.equal(parameters[TABLE], expected)


@pytest.mark.parametrize(
    "dtype", ["int8", torch.int32, "float8_e4m3fn", torch.complex64, "load", "", 7, "float"]
)
def test_bad_dtypes_are_refused(tmp_path: Path, dtype: Any):
    path = fairseq_file(tmp_path)
    if dtype == "float":  # torch.float is float32's other name
        assert load_model(path, dtype=dtype)
        return
    with pytest.raises(RobertaHubError, match=r"choose torch\.float32"):
        load_model(path, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.uint8])
def test_integer_weights_are_refused(tmp_path: Path, dtype: torch.dtype):
    state = fairseq_state(small())
    name = f"{ENCODER}layers.0.fc1.weight"
    state["model"][name] = state["model"][name].to(dtype)
    assert_refused(fairseq_file(tmp_path, state), name, str(dtype))


@pytest.mark.parametrize(
    "make",
    [
        Tensor.to_sparse,
        Tensor.to_sparse_csr,
        lambda eye: torch.quantize_per_tensor(eye, 0.1, 0, torch.qint8),
        lambda eye: eye.to(torch.complex64),
        lambda eye: eye.to(torch.float8_e4m3fn),
        lambda eye: eye.to("meta"),
    ],
    ids=["sparse", "csr", "quantized", "complex", "float8", "meta"],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_tensors_that_are_not_plain_numbers(tmp_path: Path, make: Callable[[Tensor], Tensor]):
    state = fairseq_state(small())
    state["model"][f"{ENCODER}layers.0.self_attn.q_proj.weight"] = make(torch.eye(8))
    assert_refused(fairseq_file(tmp_path, state))
    with pytest.raises(
        RobertaHubError, match="only plain float16"
    ):  # as the bridge hands them over
        read_state(state, "memory", {})


# ---- dictionaries and the user's folder ----


@pytest.mark.parametrize(
    "content", [b"", b"a 1\n", DICTIONARY + b"more 1\n", b"\xff\xfe", b"a\n", b"\0"]
)
@pytest.mark.parametrize("name", ["dict.txt", "label/dict.txt"])
def test_dictionaries_that_do_not_fit(tmp_path: Path, content: bytes, name: str):
    path = fairseq_file(tmp_path)
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / "dict.txt").write_bytes(LABELS)
    (tmp_path / name).write_bytes(content)
    if name == "dict.txt":
        assert_refused(path, "dict.txt")
    elif content in (b"a 1\n", DICTIONARY + b"more 1\n"):
        assert load_model(path)  # any symbols can be labels
    else:
        with pytest.raises(RobertaHubError, match=r"label/dict\.txt"):
            load_model(path)


@BOTH
def test_loading_leaves_the_users_folder_as_it_is(tmp_path: Path, legacy: bool):
    good = fairseq_file(tmp_path / "good", legacy=legacy)
    bad = fairseq_file(tmp_path / "bad", {"model": {}}, legacy=legacy)

    def photograph() -> dict[Path, tuple[bytes, int]]:
        files = [path for name in ("good", "bad") for path in (tmp_path / name).rglob("*")]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = photograph()
    load_model(good)
    assert_refused(bad)
    loaded = load_model(good)
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.zero_()
    assert photograph() == before


@pytest.mark.parametrize("bit", [0, 6, 7])
def test_a_flipped_bit_among_the_weights_is_found(tmp_path: Path, bit: int):
    """torch reads over it: a mantissa's bit shows nowhere, an exponent's as a weight of 1e30."""
    path = fairseq_file(tmp_path)
    data = bytearray(path.read_bytes())
    table = small().model.encoder.sentence_encoder.embed_tokens.weight.detach().numpy().tobytes()
    at = bytes(data).index(table)
    data[at + len(table) // 2] ^= 1 << bit
    path.write_bytes(data)
    for twin in (True, False):
        assert_refused(path, "damaged", "CRC", twin=twin)


def test_a_file_without_checksums_is_read(tmp_path: Path):
    torch.serialization.set_crc32_options(False)
    try:
        path = fairseq_file(tmp_path)
    finally:
        torch.serialization.set_crc32_options(True)
    load_model(path)


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_layers_are_missed(tmp_path: Path, lost: int):
    state = fairseq_state(small(num_layers=3))
    weights = state["model"]
    for name in list(weights):
        if any(f".layers.{i}." in name for i in range(3 - lost, 3)):
            del weights[name]
    path = fairseq_file(tmp_path, state)
    assert_refused(path, "say 3 layers", f"encoder_layers={3 - lost}")
    assert load_model(path, encoder_layers=3 - lost).model.config.num_layers == 3 - lost


def test_a_rewritten_file_does_not_change_a_loaded_model(tmp_path: Path):
    path = fairseq_file(tmp_path)
    loaded = load_model(path)
    before = outputs(loaded)
    with open(path, "r+b") as file:  # in place, as `cp` does
        file.write(bytes(path.stat().st_size))
    torch.testing.assert_close(outputs(loaded), before, rtol=0, atol=0)
    os.truncate(path, 0)
    torch.testing.assert_close(outputs(loaded), before, rtol=0, atol=0)


def test_two_square_matrices_in_one_storage_stay_two(tmp_path: Path):
    state = fairseq_state(small())
    name = f"{ENCODER}layers.0.self_attn.q_proj.weight"
    state["model"][f"{ENCODER}layers.0.self_attn.k_proj.weight"] = state["model"][name].T
    weights = load_model(fairseq_file(tmp_path, state)).model.state_dict()
    assert torch.equal(weights[name.replace("q_proj", "k_proj")], weights[name].T)
