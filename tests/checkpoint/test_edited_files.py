"""Files that an editor, git or a transfer as text changed: read, or named as what they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from families import write_family

from roberta_hub import RobertaHubError, load_model

TEXT = "The dog is in the house."
BOM = b"\xef\xbb\xbf"


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


def with_trailing_comma(data: bytes) -> bytes:
    return data.rstrip().removesuffix(b"}").rstrip() + b",\n}\n"


def as_utf16(data: bytes) -> bytes:
    return data.decode().encode("utf-16")


@pytest.mark.parametrize("name", ["vocab.txt", "config.json", "tokenizer_config.json"])
def test_a_byte_order_mark_is_no_part_of_a_file(name: str, tmp_path: Path):
    folder = write_family("bert", tmp_path)
    roberta = load_model(folder)
    wanted, states = roberta.encode(TEXT), roberta.features(TEXT)
    change(folder / name, lambda data: BOM + data)
    again = load_model(folder)
    assert torch.equal(again.encode(TEXT), wanted)
    assert torch.equal(again.features(TEXT), states)
    if name == "vocab.txt":
        change(folder / name, lambda data: data.replace(b"\n", b"\r\n"))
        assert torch.equal(load_model(folder).encode(TEXT), wanted)


@pytest.mark.parametrize(
    ("name", "how", "match"),
    [
        ("vocab.txt", as_utf16, "is UTF-16, as an editor saved it"),
        ("config.json", as_utf16, "is UTF-16, as an editor saved it; save it as UTF-8"),
        ("tokenizer_config.json", as_utf16, "is UTF-16"),
        ("config.json", with_trailing_comma, "comma before"),
        ("tokenizer_config.json", with_trailing_comma, "comma before"),
    ],
)
def test_what_an_editor_did_is_named(
    name: str, how: Callable[[bytes], bytes], match: str, tmp_path: Path
):
    folder = write_family("bert", tmp_path)
    change(folder / name, how)
    with pytest.raises(RobertaHubError, match=match):
        load_model(folder)


@pytest.mark.parametrize(
    ("kind", "name"), [("xlm-roberta", "sentencepiece.bpe.model"), ("albert", "spiece.model")]
)
def test_a_sentencepiece_model_with_other_line_ends_is_named(kind: str, name: str, tmp_path: Path):
    folder = write_family(kind, tmp_path)
    change(folder / name, lambda data: data.replace(b"\n", b"\r\n"))
    with pytest.raises(RobertaHubError, match=r"became CRLF, as git .* fetch it again as a binary"):
        load_model(folder)
