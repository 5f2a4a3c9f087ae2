"""Where a model comes from: two servers, and three caches before any of them."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from archives import GOOD, OTHER, PATH, TOY, assert_model, pinned, python, visible
from server import Server, body, cut, ranged, redirect, status
from small_models import take_any_shape

import roberta_hub
from roberta_hub.checkpoint.fetch import download, http
from roberta_hub.checkpoint.fetch.catalogue import files_of, find_record
from roberta_hub.checkpoint.fetch.download import fetch_model, find_in_torch_hub
from roberta_hub.checkpoint.fetch.records import MODELS, Origin, Record, Remote, archive, repository
from roberta_hub.errors import CheckpointError, DownloadError

REPOSITORY = "/FacebookAI/roberta-large-mnli/resolve/main/"
BOTH = replace(TOY, origins=(*TOY.origins, repository("FacebookAI/roberta-large-mnli")))
SIZES: dict[str, Any] = {
    "vocab_size": 50265,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 40,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
}
SHOUTED = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def theirs(transformers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """roberta-large-mnli as Hugging Face has it, but small."""
    folder = tmp_path_factory.mktemp("theirs")
    torch.manual_seed(1)
    config = transformers.RobertaConfig(
        **SIZES, id2label=SHOUTED, label2id={name: i for i, name in SHOUTED.items()}
    )
    transformers.RobertaForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture
def second(server: Server, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Hugging Face is well, fairseq's server is not."""
    take_any_shape(monkeypatch)
    files = {name: (theirs / name).read_bytes() for name in ("config.json", "model.safetensors")}
    for name, content in files.items():
        server.plan[REPOSITORY + name] = [body(content)]
    server.plan[PATH] = [status(404)]
    server.plan["/roberta.large.mnli.tar.gz"] = [status(404)]
    return files


# ---- the second source ----


@pytest.mark.parametrize(
    "answer",
    [
        status(404),
        status(403),
        status(503),
        cut(GOOD, 100),
        redirect(PATH),
        redirect("file:///x"),
        redirect("http://example.invalid/"),
        body(b"<html>log in</html>"),
        body(b""),
    ],
    ids=["404", "403", "503", "broken", "loop", "file", "downgrade", "web page", "empty"],
)
def test_when_the_first_fails_for_good_the_second_is_asked(
    server: Server, cache: Path, second: dict[str, bytes], answer: Any
):
    server.plan[PATH] = [answer]
    with pytest.warns(UserWarning, match=r"(?s)toy\.tar\.gz.*Hugging Face's copy of toy"):
        folder = fetch_model(BOTH)
    assert folder == cache / "toy"
    assert {path.name for path in folder.iterdir()} == {*second, "manifest.json"}
    assert all((folder / name).read_bytes() == content for name, content in second.items())
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["source"] == server.url + REPOSITORY.rstrip("/")
    assert manifest["archive_sha256"] is None
    first_use = json.loads((cache / "digests.json").read_text())
    assert first_use.keys() == {file.url for file in files_of(BOTH, "huggingface")}
    assert visible(cache) == {"toy", "digests.json"}
    before = server.hits.total()
    assert fetch_model(BOTH) == folder
    assert server.hits.total() == before


def test_by_name_the_head_is_mnli_whichever_source(
    server: Server, second: dict[str, bytes], theirs: Path, transformers: Any
):
    with pytest.warns(UserWarning, match="fetched instead") as caught:
        roberta = roberta_hub.load_model("roberta.large.mnli", progress=False).eval()
    assert caught[0].filename == __file__
    assert roberta.head_labels("mnli") == ("contradiction", "neutral", "entailment")
    assert list(roberta.model.classification_heads) == ["mnli"]
    tokens = roberta.encode("Hello world!", "Hello.")
    model = transformers.RobertaForSequenceClassification.from_pretrained(theirs).eval()
    with torch.no_grad():
        wanted = model(tokens[None]).logits
    torch.testing.assert_close(roberta.predict("mnli", tokens, return_logits=True), wanted)
    # The same directory by its path keeps what Hugging Face calls things.
    assert roberta_hub.load_model(theirs).head_labels("sentence_classification_head") == tuple(
        SHOUTED.values()
    )


def test_labels_of_the_file_in_another_order_stay_in_that_order(
    server: Server, second: dict[str, bytes]
):
    config = json.loads(second["config.json"])
    config["id2label"] = {"0": "ENTAILMENT", "1": "NEUTRAL", "2": "CONTRADICTION"}
    server.plan[REPOSITORY + "config.json"] = [body(json.dumps(config).encode())]
    with pytest.warns(UserWarning, match="fetched instead"):
        roberta = roberta_hub.load_model("roberta.large.mnli", progress=False)
    assert roberta.head_labels("mnli") == ("entailment", "neutral", "contradiction")
    config.pop("id2label")
    server.plan[REPOSITORY + "config.json"] = [body(json.dumps(config).encode())]
    (Path(torch.hub.get_dir()) / "checkpoints/roberta_hub/digests.json").unlink()
    with pytest.warns(UserWarning, match="fetched instead"):
        roberta = roberta_hub.load_model("roberta.large.mnli", force_download=True, progress=False)
    assert roberta.head_labels("mnli") == ("contradiction", "neutral", "entailment")


def test_a_masked_lm_from_the_second_source(
    server: Server, transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    take_any_shape(monkeypatch)
    transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SIZES)).save_pretrained(tmp_path)
    for name in ("config.json", "model.safetensors"):
        content = (tmp_path / name).read_bytes()
        server.plan[f"/FacebookAI/roberta-base/resolve/main/{name}"] = [ranged(content)]
    server.plan[f"/FacebookAI/roberta-base/resolve/main/{name}"].insert(
        0, ranged(content, sent=5000)
    )
    with pytest.warns(UserWarning, match="fetched instead"):
        roberta = roberta_hub.load_model("roberta.base", progress=False).eval()
    assert "bytes=5000-" in server.ranges
    assert roberta.encode("Hello world!").tolist() == [0, 31414, 232, 328, 2]
    assert len(roberta.fill_mask("Hello <mask>!", topk=3)) == 3
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    again = roberta_hub.load_model("roberta.base").eval()
    tokens = roberta.encode("Hello")
    assert torch.equal(again.extract_features(tokens), roberta.extract_features(tokens))


def test_a_wrong_digest_is_an_alarm_and_not_a_failure(
    server: Server, cache: Path, second: dict[str, bytes]
):
    server.plan[PATH] = [body(OTHER)]
    with pytest.raises(DownloadError, match="sha256"):
        fetch_model(pinned(BOTH, sha256="0" * 64))
    server.plan[PATH] = [body(GOOD[:-8], length=False)]
    with pytest.raises(CheckpointError, match="refused"):
        fetch_model(BOTH)
    assert server.hits[REPOSITORY + "config.json"] == 0
    assert visible(cache) == set()


def second_pinned(model: Remote) -> Record:
    config, _ = files_of(BOTH, "huggingface")
    return replace(BOTH, origins=(BOTH.origins[0], Origin("huggingface", (config, model))))


def test_the_second_sources_digests_are_enforced_too(
    server: Server, cache: Path, second: dict[str, bytes]
):
    _, model = files_of(BOTH, "huggingface")
    wrong = second_pinned(replace(model, size=1 << 30, sha256="0" * 64))
    with pytest.raises(DownloadError, match="the catalogue says 0000"), pytest.warns(UserWarning):
        fetch_model(wrong)
    assert visible(cache) == set()
    with pytest.warns(UserWarning):
        folder = fetch_model(BOTH)
    server.plan[REPOSITORY + "config.json"] = [body(second["config.json"] + b" ")]
    with pytest.raises(DownloadError, match=r"recorded in .*digests"), pytest.warns(UserWarning):
        fetch_model(BOTH, force=True)
    assert (folder / "config.json").read_bytes() == second["config.json"]
    # Pinned later to what is there: adopted. To something else: not taken for it.
    from hashlib import sha256

    content = second["model.safetensors"]
    same = replace(model, size=len(content), sha256=sha256(content).hexdigest())
    assert download.find_cached(second_pinned(same)) == folder
    assert download.find_cached(wrong) is None


def test_when_both_fail_both_are_named(server: Server, cache: Path):
    with pytest.raises(DownloadError) as caught, pytest.warns(UserWarning):
        fetch_model(replace(BOTH, origins=(archive("none.tar.gz"), BOTH.origins[1])))
    for part in ("none.tar.gz answered 404", "config.json answered 404", "Before that"):
        assert part in str(caught.value)
    assert visible(cache) == set()


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", b"<html>log in</html>"), ("model.safetensors", b"<html>log in</html>")],
)
def test_what_is_no_model_is_not_kept(
    server: Server, cache: Path, second: dict[str, bytes], name: str, content: bytes
):
    server.plan[REPOSITORY + name] = [body(content)]
    with pytest.raises(DownloadError, match=f"{name} is not what it should"), pytest.warns():
        fetch_model(BOTH)
    server.plan[REPOSITORY + name] = [body(second[name][:-9], length=False)]
    with pytest.raises(DownloadError, match=f"{name} is not what it should"), pytest.warns():
        fetch_model(BOTH)
    assert visible(cache) == set()


def test_a_model_that_lies_nowhere_else(server: Server):
    server.plan["/roberta.large.wsc.tar.gz"] = [status(404)]
    wsc = find_record("roberta.large.wsc")
    assert wsc is not None and [origin.kind for origin in wsc.origins] == ["fairseq"]
    with warnings.catch_warnings(), pytest.raises(DownloadError, match="404"):
        warnings.simplefilter("error")
        fetch_model(wsc)


def test_an_unsafe_mirror_or_a_damaged_table_of_digests_asks_nobody_else(
    server: Server, cache: Path, second: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
):
    server.plan[PATH] = [body(GOOD)]
    cache.mkdir(parents=True)
    (cache / "digests.json").write_text("{")
    with pytest.raises(DownloadError, match="is damaged"):
        fetch_model(BOTH)
    monkeypatch.setenv(http.MIRROR_ENV, "http://example.invalid")
    with pytest.raises(DownloadError, match="ROBERTA_HUB_MIRROR leads to"):
        fetch_model(BOTH)
    assert server.hits[REPOSITORY + "config.json"] == 0
    assert visible(cache) == {"digests.json"}


@pytest.mark.parametrize("base", ["http://example.invalid", "ftp://127.0.0.1", "http://["])
def test_an_unsafe_endpoint_is_refused(
    second: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, base: str
):
    monkeypatch.setenv(download.ENDPOINT_ENV, base)
    with pytest.raises(DownloadError, match="HF_ENDPOINT leads to"), pytest.warns(UserWarning):
        fetch_model(BOTH)


def test_without_a_mirror_it_is_their_own_servers_over_https(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def note(url: str, *args: object, **keywords: object) -> None:
        asked.append(url)
        raise DownloadError("stop")

    monkeypatch.setattr(download, "receive", note)  # nothing may leave this machine in a test
    with pytest.raises(DownloadError), pytest.warns(UserWarning):
        fetch_model(MODELS[0])
    assert asked == [
        "https://dl.fbaipublicfiles.com/fairseq/models/roberta.base.tar.gz",
        "https://huggingface.co/FacebookAI/roberta-base/resolve/main/config.json",
    ]


# ---- torch.hub's cache ----


@pytest.fixture
def kept(cache: Path) -> Path:
    """Where `torch.hub.load_state_dict_from_url` keeps what it downloads."""
    cache.parent.mkdir(parents=True)
    return cache.parent / "toy.tar.gz"


def test_what_torch_hub_downloaded_is_not_downloaded_again(
    server: Server, cache: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(pickle.UnpicklingError):  # it cannot read archives, but it keeps them
        torch.hub.load_state_dict_from_url(server.url + PATH, progress=False)
    assert kept.read_bytes() == GOOD
    assert find_in_torch_hub(TOY) == kept
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    folder = fetch_model(TOY)
    assert_model(folder)
    assert server.hits[PATH] == 1
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["source"], manifest["archive_size"]) == (str(kept), len(GOOD))
    assert kept.read_bytes() == GOOD
    # Whether it came from that URL is not known, so it is not the digest of first use.
    assert visible(cache) == {"toy"}


def test_with_torch_hubs_archive_no_socket_is_opened(cache: Path, kept: Path):
    torch_file = kept
    torch_file.write_bytes(GOOD)
    code = (
        "sys.addaudithook(lambda e, a: os._exit(99) if e.startswith('socket.') else None)\n"
        "print(download.fetch_model(TOY))"
    )
    process = python(code, ROBERTA_HUB_OFFLINE="1")
    assert process.communicate(timeout=60) == (f"{cache / 'toy'}\n", "")


@pytest.mark.parametrize(
    "content", [GOOD[:-8], b"<html>", b"", OTHER], ids=["cut", "page", "empty", "other"]
)
def test_an_archive_that_cannot_be_used_is_passed_over(
    server: Server, cache: Path, kept: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
):
    kept.write_bytes(content)
    from hashlib import sha256

    record = pinned(TOY, sha256=sha256(GOOD).hexdigest()) if content == OTHER else TOY
    with pytest.warns(UserWarning, match=re.escape(f"passed over. {kept}")):
        assert_model(fetch_model(record))
    assert kept.read_bytes() == content
    assert server.hits[PATH] == 1
    assert_model(fetch_model(record))  # and without a word
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    (cache / "toy" / "model.pt").unlink()
    with pytest.raises(DownloadError, match="forbids"), pytest.warns(UserWarning):
        fetch_model(record)


def test_of_another_size_it_is_not_even_read(server: Server, kept: Path):
    kept.write_bytes(GOOD)
    assert find_in_torch_hub(pinned(TOY, size=len(GOOD) + 1)) is None


def test_force_asks_the_server(server: Server, kept: Path):
    kept.write_bytes(OTHER)
    assert_model(fetch_model(TOY, force=True))
