"""Any model by its name: huggingface_hub itself asks a real server, and our readers read.

What a hub refuses and does wrong is in test_names_refused.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forks
import pytest
from families import SIZES, write_family
from hub_server import HubServer, environment, load, read_folder, weights_asked

import roberta_hub
from roberta_hub.scale.models import LoadedModel

pytest.importorskip("huggingface_hub")
NAME = "owner/tiny-bert"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with other weights."""
    return write_family("bert", tmp_path_factory.mktemp("other"), seed=1)


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as running:
        yield running


def digest_of(folder: Path, **keywords: Any) -> str:
    return LoadedModel(roberta_hub.load_model(folder, **keywords)).digest


def shell(home: Path, hub: HubServer | None, *arguments: str, **env: str) -> Any:
    return forks.run("-m", "roberta_hub", *arguments, cwd=home, env=environment(home, hub, **env))


# ---- one line ----


def test_a_name_loads_in_one_line(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish(NAME, bert)
    said = load(tmp_path, hub, NAME)
    assert said["digest"] == digest_of(bert)
    assert said["source"].startswith(f"{NAME} at {commit} (") and not said["warnings"]
    before = hub.hits.total()
    assert load(tmp_path, hub, NAME)["digest"] == said["digest"]
    assert hub.hits.total() == before, "what is here and pinned is not asked for again"


def test_only_what_readers_want_is_fetched(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    more = {
        "pytorch_model.bin": b"a pickle",
        "tf_model.h5": b"x",
        "model.onnx": b"x",
        "modeling_own.py": b"raise SystemExit(9)",
        "onnx/model.onnx": b"x",
        "README.md": b"# it",
        "training_args.bin": b"x",
        "optimizer.pt": b"x",
        "model.pt": b"a pickle",
        "runs/best/model.safetensors": b"x",
        "model_head.pkl": b"x",
        ".gitattributes": b"",
    }
    hub.publish(NAME, {**more, **read_folder(bert)})
    said = load(tmp_path, hub, NAME)
    assert said["digest"] == digest_of(bert)
    assert hub.fetched() == {p.name for p in bert.iterdir()} & hub.fetched()
    assert "model_head.pkl is SetFit's head" in "".join(said["warnings"])


def test_a_whole_clone_in_the_cache_is_read_as_a_fetched_one(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    """`hf download NAME` puts all files there, a model.pt and pickles too."""
    more = {"pytorch_model.bin": b"a pickle", "model.pt": b"a pickle"}
    hub.publish(NAME, {**more, **read_folder(bert)})
    code = f"from huggingface_hub import snapshot_download; print(snapshot_download({NAME!r}))"
    run = forks.run("-c", code, env=environment(tmp_path, hub))
    assert run.returncode == 0, run.stderr
    assert {"model.pt", "pytorch_model.bin"} <= {p.name for p in Path(run.stdout.strip()).iterdir()}
    assert load(tmp_path, None, NAME, env={"HF_HUB_OFFLINE": "1"})["digest"] == digest_of(bert)


def test_a_pickle_is_taken_where_there_is_no_safetensors_and_never_run(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    import torch
    from safetensors.torch import load_file

    files = read_folder(bert)
    del files["model.safetensors"]
    torch.save(load_file(bert / "model.safetensors"), tmp_path / "it.bin")
    hub.publish(NAME, {**files, "pytorch_model.bin": (tmp_path / "it.bin").read_bytes()})
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)

    class Evil:
        def __reduce__(self) -> Any:
            return exec, ("open('was-run', 'w')",)

    torch.save({"x": Evil()}, tmp_path / "evil.bin")
    hub.publish("owner/evil", {**files, "pytorch_model.bin": (tmp_path / "evil.bin").read_bytes()})
    said = load(tmp_path, hub, "owner/evil")
    assert said["error"] == "CheckpointError" and not (tmp_path / "was-run").exists()


def test_shards_come_by_their_index(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    from transformers import AutoModelForMaskedLM

    folder = shutil.copytree(bert, tmp_path / "shards")
    (folder / "model.safetensors").unlink()
    AutoModelForMaskedLM.from_pretrained(bert).save_pretrained(folder, max_shard_size="20KB")
    shards = {p.name for p in folder.glob("model-*.safetensors")}
    assert len(shards) > 2
    hub.publish(NAME, folder)
    said = load(tmp_path, hub, NAME)
    assert said["digest"] == digest_of(folder) == digest_of(bert)
    assert weights_asked(hub) == shards
    files = read_folder(folder)
    del files[min(shards)]
    hub.publish("owner/lost", files)
    hub.order.clear()
    assert f"names {min(shards)}, which is not there" in load(tmp_path, hub, "owner/lost")["text"]
    assert not weights_asked(hub)


def test_a_model_with_code_of_its_own_is_read_by_its_family(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    files = read_folder(bert)
    config = json.loads(files["config.json"])
    config["auto_map"] = {"AutoModel": "modeling_own.Own"}
    code = {"modeling_own.py": b"open('was-run', 'w')", "configuration_own.py": b"1 / 0"}
    hub.publish(NAME, {**files, **code, "config.json": json.dumps(config).encode()})
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)
    assert not hub.fetched() & {*code} and not (tmp_path / "was-run").exists()


@pytest.mark.system
def test_other_formats_by_name(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    """Ours, fairseq's, BERT's old name of config.json, and an old sentence-transformers folder."""
    roberta = write_family("roberta", tmp_path / "roberta")
    roberta_hub.load_model(bert).save(tmp_path / "ours")
    roberta_hub.load_model(roberta).save(tmp_path / "fairseq", "fairseq")
    shutil.copytree(bert, tmp_path / "google")
    (tmp_path / "google/config.json").rename(tmp_path / "google/bert_config.json")
    shutil.copytree(bert, tmp_path / "old/0_Transformer")
    parts = [("", "0_Transformer", "Transformer"), ("", "1_Pooling", "Pooling")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (_, path, kind) in enumerate(parts)
    ]
    (tmp_path / "old/modules.json").write_text(json.dumps(modules))
    (tmp_path / "old/1_Pooling").mkdir()
    (tmp_path / "old/1_Pooling/config.json").write_text('{"pooling_mode_max_tokens": true}')
    for folder in ("ours", "fairseq", "google", "old"):
        commit = hub.publish(f"owner/{folder}", tmp_path / folder)
        said = load(tmp_path, hub, f"owner/{folder}")
        assert said.get("digest") == digest_of(tmp_path / folder), said
        assert said["source"].startswith(f"owner/{folder} at {commit} (")
    assert "1_Pooling/config.json" in hub.fetched()


def test_the_caller_names_the_file_of_weights(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    files = read_folder(bert)
    hub.publish(NAME, {**files, "other.safetensors": files["model.safetensors"]})
    said = load(tmp_path, hub, NAME, checkpoint_file="other.safetensors")
    assert said.get("digest") == digest_of(bert), said
    assert weights_asked(hub) == {"other.safetensors"}
    for wrong in ("none.safetensors", "../x.bin", "vocab.txt"):
        said = load(tmp_path, hub, NAME, checkpoint_file=wrong)
        assert said["error"] == "CheckpointError" and "model.safetensors, other" in said["text"]


# ---- which commit ----


@pytest.mark.system
def test_a_commit_is_pinned_until_another_is_named(
    tmp_path: Path, hub: HubServer, bert: Path, other: Path
) -> None:
    first = hub.publish(NAME, bert)
    assert f"at {first} " in load(tmp_path, hub, NAME)["source"]
    second = hub.publish(NAME, other)
    said = load(tmp_path, hub, NAME)
    assert f"at {first} " in said["source"] and said["digest"] == digest_of(bert)
    run = shell(tmp_path, hub, "download", "--update", NAME)
    assert run.returncode == 0 and f"{second}, no longer at {first}" in run.stderr
    assert run.stdout.strip().endswith(second)
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(other)
    assert f"at {first} " in load(tmp_path, hub, NAME, revision=first)["source"]
    assert f"at {first} " in load(tmp_path, hub, NAME)["source"], "revision= named it"
    assert f"at {second} " in load(tmp_path, hub, NAME, revision="main")["source"]
    assert f"at {second} " in load(tmp_path, None, NAME, env={"HF_HUB_OFFLINE": "1"})["source"]


@pytest.mark.system
def test_a_revision_is_a_branch_a_tag_or_a_commit(
    tmp_path: Path, hub: HubServer, bert: Path, other: Path
) -> None:
    hub.publish(NAME, other)
    tag = hub.publish(NAME, bert, branch="v1.0")
    assert load(tmp_path, hub, NAME, revision="v1.0")["digest"] == digest_of(bert)
    assert f"at {tag} " in load(tmp_path, hub, NAME)["source"], "the first use, which pins"
    said = load(tmp_path, hub, NAME, revision="v2.0")
    assert said["error"] == "UnknownNameError" and "no revision 'v2.0'" in said["text"]
    for wrong in ("../../x", "", "a b", "-x"):
        said = load(tmp_path, hub, NAME, revision=wrong)
        assert said["error"] == "UnknownNameError" and "no revision" in said["text"], wrong
    assert f"at {tag} " in load(tmp_path, hub, NAME)["source"], "what fails pins nothing"
    offline = {"HF_HUB_OFFLINE": "1"}
    assert f"at {tag} " in load(tmp_path, None, NAME, revision="v1.0", env=offline)["source"]


def test_a_revision_of_what_has_none_is_refused(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    for name, words in (
        (
            "roberta.base",
            "roberta.base is a name of the catalogue; FacebookAI/roberta-base has some",
        ),
        ("roberta.large.wsc", "is a name of the catalogue"),
        (str(bert), "is a path"),
    ):
        said = load(tmp_path, hub, name, revision="main")
        assert said["error"] == "InputError" and words in said["text"]
    assert not hub.order


@pytest.mark.system
def test_a_name_of_the_catalogue_with_a_revision_is_asked_at_the_hub(
    tmp_path: Path, hub: HubServer
) -> None:
    folder = write_family("roberta", tmp_path / "roberta")
    commit = hub.publish("FacebookAI/roberta-base", folder)
    for name in ("roberta-base", "FacebookAI/roberta-base"):
        said = load(tmp_path, hub, name, revision="main")
        assert said["source"].startswith(f"FacebookAI/roberta-base at {commit} (")
        assert said["digest"] == digest_of(folder)


def test_force_fetches_the_same_commit_again(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish(NAME, bert)
    load(tmp_path, hub, NAME)
    hub.order.clear()
    assert f"at {commit} " in load(tmp_path, hub, NAME, force_download=True)["source"]
    assert weights_asked(hub) == {"model.safetensors"}


@pytest.mark.system
def test_a_note_that_is_damaged_is_an_error(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    load(tmp_path, hub, NAME)
    (note,) = (tmp_path / "torch/hub/checkpoints/roberta_hub/names").glob("*.json")
    note.write_text(note.read_text()[:-30])
    said = load(tmp_path, hub, NAME)
    assert said["error"] == "DownloadError" and str(note) in said["text"]
    note.unlink()
    assert "digest" in load(tmp_path, hub, NAME)


# ---- names without an owner, paths, and words ----


def test_a_name_that_is_known_without_its_owner(tmp_path: Path, hub: HubServer) -> None:
    folder = write_family("distilbert", tmp_path / "it")
    commit = hub.publish("distilbert/distilbert-base-cased", folder)
    said = load(tmp_path, hub, "distilbert-base-cased")
    assert said["source"].startswith(f"distilbert/distilbert-base-cased at {commit} (")
    assert said["digest"] == digest_of(folder)


@pytest.mark.parametrize(
    "name", ["no-such-model", "bert", "./owner/tiny-bert", "a/b/c", "x/.y", ""]
)
def test_other_words_never_go_to_the_network(tmp_path: Path, hub: HubServer, name: str) -> None:
    said = load(tmp_path, hub, name)
    assert said["error"] in ("UnknownNameError", "InputError")
    assert not hub.order and not said["hub"], "nor is huggingface_hub imported"


def test_a_path_that_exists_wins(tmp_path: Path, hub: HubServer, bert: Path, other: Path) -> None:
    hub.publish(NAME, other)
    shutil.copytree(bert, tmp_path / NAME)
    shutil.copytree(bert, tmp_path / "distilroberta-base")
    shutil.copytree(bert, tmp_path / "roberta-base")
    for name in (NAME, "distilroberta-base", "roberta-base"):
        said = load(tmp_path, hub, name)
        assert said["digest"] == digest_of(bert) and not said["hub"]
    assert not hub.order


# ---- what is refused, before any weight ----


def config_of(**settings: Any) -> dict[str, bytes]:
    return {"config.json": json.dumps(settings).encode(), "model.safetensors": b"x" * 100}


@pytest.mark.system
@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            config_of(model_type="deberta-v2"),
            [
                "'deberta-v2'",
                "roberta, xlm-roberta",
                "transformers reads it: AutoModel.from_pretrained('owner/tiny-bert')",
            ],
        ),
        (
            config_of(architectures=["GPT2LMHeadModel"]),
            ["'GPT2LMHeadModel'", "transformers reads it"],
        ),
        (
            config_of(model_type="own", auto_map={"AutoModel": "modeling.M"}),
            ["trust_remote_code=True", "nothing here does"],
        ),
        (
            config_of(model_type="bert", position_embedding_type="relative_key"),
            ["position_embedding_type"],
        ),
        ({"model_index.json": b"{}"}, ["no config.json", "diffusers reads it"]),
        ({"model.gguf": b"x"}, ["no config.json", "llama.cpp reads it"]),
        ({"thing.xyz": b"x"}, ["no config.json", "timm reads it"]),
        (
            {
                **config_of(model_type="bert", vocab_size=99, **SIZES),
                "model.safetensors": None,
                "tf_model.h5": b"x",
            },
            ["no weights that are read", "TensorFlow or Flax reads it"],
        ),
        (
            {
                **config_of(model_type="bert", vocab_size=99, **SIZES),
                "modules.json": b'[{"idx": 0, "name": "0", "path": "", "type": '
                b'"sentence_transformers.models.CLIPModel"}]',
            },
            ["CLIPModel"],
        ),
    ],
)
def test_another_family_is_refused_before_any_weight(
    tmp_path: Path, hub: HubServer, files: dict[str, bytes | None], words: list[str]
) -> None:
    present = {name: content for name, content in files.items() if content is not None}
    hub.publish(NAME, present, library="timm")
    said = load(tmp_path, hub, NAME)
    assert said.get("error") == "CheckpointError"
    for part in words:
        assert part in said["text"], said["text"]
    assert not weights_asked(hub) and "tf_model.h5" not in hub.fetched()
    assert not list((tmp_path / "torch").rglob("names/*.json")), "nothing is pinned"


# ---- adapters ----


@pytest.mark.system
def test_an_adapter_is_merged_into_its_base_by_name(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    from test_adapters import write_adapter

    write_adapter(tmp_path / "adapter", "bert", "owner/base")
    write_adapter(tmp_path / "here", "bert", bert)
    hub.publish("owner/base", bert)
    hub.publish("owner/lora", tmp_path / "adapter")
    said = load(tmp_path, hub, "owner/lora")
    assert "LoRA adapter of 'owner/base'" in said["text"] and "adapter=True merges" in said["text"]
    assert not weights_asked(hub)
    said = load(tmp_path, hub, "owner/lora", adapter=True)
    assert said["digest"] == digest_of(tmp_path / "here", adapter=True) != digest_of(bert)
    assert (
        load(tmp_path, None, "owner/lora", adapter=True, env={"HF_HUB_OFFLINE": "1"})["digest"]
        == said["digest"]
    )
    run = shell(tmp_path, hub, "download", "owner/lora")
    assert run.returncode == 0, run.stderr


# ---- offline ----


@pytest.mark.system
def test_what_transformers_fetched_loads_offline(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    commit = hub.publish(NAME, bert)
    code = (
        "import sys; from huggingface_hub import hf_hub_download\n"
        f"for name in sys.argv[1:]: hf_hub_download({NAME!r}, name)"
    )
    names = sorted({p.name for p in bert.iterdir()})
    assert forks.run("-c", code, *names, env=environment(tmp_path, hub)).returncode == 0
    for variable in ("HF_HUB_OFFLINE", "ROBERTA_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        home = tmp_path / variable
        home.mkdir()
        env = {variable: "1", "HF_HOME": str(tmp_path / "hf")}
        said = load(home, None, NAME, env=env)
        assert said["digest"] == digest_of(bert) and commit in said["source"]
        assert "does not say whether the model has modules.json" in said["warnings"][0]
        assert "modules.json" in load(home, None, NAME, env=env)["warnings"][0], "and again"
    before = hub.hits.total()
    said = load(home, hub, NAME, env={"HF_HOME": env["HF_HOME"]})
    assert said["digest"] == digest_of(bert) and not said["warnings"], "the hub says what there is"
    assert hub.hits.total() == before + 1
    assert not load(home, None, NAME, env=env)["warnings"]


@pytest.mark.system
def test_offline_and_not_in_the_cache(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    for variable in ("HF_HUB_OFFLINE", "ROBERTA_HUB_OFFLINE"):
        said = load(tmp_path, hub, NAME, env={variable: "1"})
        assert said["error"] == "DownloadError"
        for part in (NAME, f"{variable} forbids", str(tmp_path / "hf"), "HF_HOME"):
            assert part in said["text"]
    assert not hub.order
    load(tmp_path, hub, NAME)
    (weights,) = (tmp_path / "hf").rglob("model.safetensors")
    weights.unlink()
    said = load(tmp_path, hub, NAME, env={"HF_HUB_OFFLINE": "1"})
    assert "model.safetensors is not in the cache" in said["text"]
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert), "what is lost is fetched again"


@pytest.mark.system
def test_a_folder_that_lacks_what_was_named_is_said(tmp_path: Path, hub: HubServer) -> None:
    """A path that is not there looks like the name of a model."""
    (tmp_path / "run").mkdir()
    unreachable = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    for env in ({}, {"HF_HUB_OFFLINE": "1"}, unreachable):
        said = load(tmp_path, hub, "run/best", env=env)
        assert said["text"].startswith("the folder run has no best; ")
        assert "the folder" not in load(tmp_path, hub, "nobody/best", env=env)["text"]


# ---- without the extra, and how light it is ----


def test_without_huggingface_hub_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('it is not here')")
    env = {"PYTHONPATH": f"{tmp_path}:{environment(tmp_path)['PYTHONPATH']}"}
    said = load(tmp_path, None, NAME, env=env)
    assert said["error"] == "MissingExtraError"
    for part in (NAME, "huggingface_hub", "[hub]"):
        assert part in said["text"]
    assert "digest" in load(tmp_path, None, "roberta.tiny", env=env)


def test_other_names_do_not_import_it(tmp_path: Path, bert: Path) -> None:
    assert not load(tmp_path, None, "roberta.tiny")["hub"]
    assert not load(tmp_path, None, str(bert))["hub"]


# ---- the shell ----


@pytest.mark.system
def test_the_shell_takes_names(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish(NAME, bert)
    run = shell(tmp_path, hub, "download", NAME)
    assert run.returncode == 0 and run.stdout.strip().endswith(f"snapshots/{commit}"), run.stderr
    run = shell(tmp_path, None, "fill-mask", "-m", NAME, "The [MASK] barked.", HF_HUB_OFFLINE="1")
    assert run.returncode == 0 and "barked" in run.stdout, run.stderr
    run = shell(tmp_path, None, "models", HF_HUB_OFFLINE="1")
    (line,) = [line for line in run.stdout.splitlines() if line.startswith(NAME)]
    assert "2 x 32" in line and "apache-2.0" in line and f"yes, at {commit[:12]}" in line
    run = shell(tmp_path, None, "models", NAME, "roberta.tiny", HF_HUB_OFFLINE="1")
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["name", NAME, "roberta.tiny"]
    run = shell(tmp_path, None, "convert", NAME, "new", "--to", "huggingface", HF_HUB_OFFLINE="1")
    assert run.returncode == 0 and (tmp_path / "new/config.json").is_file(), run.stderr


@pytest.mark.system
def test_the_doctor_knows_the_pinned_models(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    commit = hub.publish(NAME, bert)
    assert shell(tmp_path, hub, "download", NAME).returncode == 0
    told = shell(tmp_path, hub, "doctor", "--verify").stdout
    assert f"{NAME} at {commit}: complete, verified, in" in told and "No problems" in told
    (weights,) = (tmp_path / "hf").rglob("model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.resolve().write_bytes(content)
    assert "is not sha256:" in shell(tmp_path, hub, "doctor", "--verify").stdout
    run = shell(tmp_path, hub, "download", "--force", NAME)
    assert run.returncode == 0, run.stderr
    assert load(tmp_path, hub, NAME)["digest"] == digest_of(bert)
    weights.unlink()
    assert f"{NAME} at {commit}: not in" in shell(tmp_path, hub, "doctor").stdout


@pytest.mark.system
def test_models_asks_nobody_for_what_was_deleted(
    tmp_path: Path, hub: HubServer, bert: Path
) -> None:
    commit = hub.publish(NAME, bert)
    load(tmp_path, hub, NAME)
    shutil.rmtree(tmp_path / "hf")
    run = shell(tmp_path, None, "models", HF_HUB_OFFLINE="1")
    assert run.returncode == 0 and f"no, pinned at {commit[:12]}" in run.stdout, run.stderr


def test_models_asks_for_settings_alone(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    run = shell(tmp_path, hub, "models", NAME)
    assert run.returncode == 0 and run.stdout.splitlines()[1].split()[-1] == "no", run.stderr
    assert hub.fetched() == {"config.json"}
    run = shell(tmp_path, hub, "models", "no-such-model")
    assert run.returncode == 1 and "no model 'no-such-model'" in run.stderr


def test_download_refuses_before_it_fetches(tmp_path: Path, hub: HubServer, bert: Path) -> None:
    hub.publish(NAME, bert)
    for arguments, words in (
        ((NAME, "no-such-model"), "no model 'no-such-model'"),
        ((NAME, "roberta.base", "--update"), "roberta.base is a name of the catalogue"),
        ((NAME, "--update", "--revision", "x"), "give one"),
    ):
        run = shell(tmp_path, hub, "download", *arguments)
        assert run.returncode and words in run.stderr, run.stderr
    assert not hub.order
