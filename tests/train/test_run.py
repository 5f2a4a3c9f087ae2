"""From a command line to a model that classifies; what cannot be trained says why."""

import shlex

import forks
import pytest
import torch
from small_models import small_model, small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.text import Dictionary, Task
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.train import train
from roberta_hub.train.config import compose, fields
from roberta_hub.train.run import command, make_model, usage

GOOD = ["a fine film", "great fun", "I loved it", "warm and clever", "a joy to watch"]
BAD = ["a dull film", "no fun", "I hated it", "cold and stupid", "a bore to watch"]


@pytest.fixture
def material(tmp_path):
    rows = [f"{text}\tgood" for text in GOOD] + [f"{text}\tbad" for text in BAD]
    path = tmp_path / "reviews.tsv"
    path.write_text("\n".join(["text\tverdict", *rows]) + "\n")
    small_roberta().save(tmp_path / "model")
    return tmp_path


def settings(folder, *more):
    return [
        "finetune=sst_2",
        f"model={folder}/model",
        f"data.train={folder}/reviews.tsv",
        f"data.valid={folder}/reviews.tsv",
        "data.format=tsv",
        "data.columns={sentence: text, label: verdict}",
        f"output={folder}/run",
        "optimizer.lr=1e-2",
        "optimizer.total_updates=null",
        "optimizer.warmup_updates=2",
        "batch.batch_size=5",
        "loop.max_updates=40",
        "loop.max_epochs=null",
        "loop.progress=false",
        "loop.evaluate_every=20",
        *more,
    ]


@pytest.mark.system
def test_a_command_trains_a_model(material, capsys):
    assert command(settings(material)) == 0
    shown = capsys.readouterr().out
    assert "stopped after update 40 (max_updates)" in shown and "best: " in shown
    roberta = roberta_hub.load_model(material / "run/best").eval()
    labels = [p.label for p in roberta.classify(["a fine film", "a dull film"], head="sst_2")]
    assert labels == ["good", "bad"]
    assert (material / "run/train.json").exists()


@pytest.mark.system
def test_train_goes_on_and_returns_the_best(material):
    first = train(compose(settings(material, "loop.max_updates=20", "optimizer.total_updates=40")))
    second = train(compose(settings(material, "optimizer.total_updates=40")))
    assert first.labels["sst_2"] == second.labels["sst_2"]


def test_errors_are_one_line_in_a_shell(material):
    for setting, words in {
        "finetune=sts": "did you mean",
        "task.name=clasification": "did you",
    }.items():
        found = forks.run("-m", "roberta_hub", "train", *settings(material), setting)
        assert found.returncode == 1 and words in found.stderr, found.stderr
        assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("data.train=nowhere.tsv", r"data\.train: nowhere\.tsv: no such file"),
        ("data.valid=nowhere.tsv", r"data\.valid: nowhere\.tsv: no such file"),
        ("data.train=null", r"data\.train is not set"),
        ("task.name=clasification", "did you mean classification"),
        ("task.options={max_lenght: 3}", "did you mean max_length"),
    ],
)
def test_what_is_wrong_is_seen_before_a_model_is_fetched(material, monkeypatch, setting, words):
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    config = compose([*settings(material), setting, "model=roberta.large"])
    with pytest.raises(ValueError, match=words):
        train(config)


def test_without_a_recipe():
    with pytest.raises(InputError, match=r"begin with one of pretrain=base, .*finetune=mnli"):
        compose(["data.train=x.tsv"])


def test_the_command_to_go_on_with_can_be_pasted(material, capsys):
    given = settings(material, "loop.max_minutes=0")
    command(given)
    printed = capsys.readouterr().out.rpartition("with the settings ")[2]
    assert shlex.split(printed) == given


def test_architecture(material):
    config = compose(settings(material, "architecture.dropout=0.3"))
    changed = make_model(config)
    layer = changed.model.encoder.sentence_encoder.layers[0]
    same = roberta_hub.load_model(material / "model").model.encoder.sentence_encoder.layers[0]
    assert layer.dropout == 0.3 and torch.equal(layer.fc1.weight, same.fc1.weight)
    with pytest.raises(InputError, match=r"architecture\.num_layers cannot change"):
        make_model(compose(settings(material, "architecture.num_layers=1")))


@pytest.mark.system
def test_a_new_architecture_is_drawn_from_the_seed():
    tiny = ["pretrain=tiny", "architecture.num_layers=1", "architecture.embedding_dim=8"]
    one, two, three = (make_model(compose([*tiny, f"seed={seed}"])) for seed in (1, 1, 2))
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    weights = [m.model.state_dict()[name] for m in (one, two, three)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert one.model.config.embedding_dim == 8 and one.training


def test_no_such_task(material):
    with pytest.raises(UnknownNameError, match="did you mean classification"):
        train(compose(settings(material, "task.name=clasification")))


def test_help_lists_recipes_and_fields():
    for word in ("mnli", "sts_b", "tiny", "optimizer.[lr | betas", "data.[train"):
        assert word in usage()


@pytest.mark.parametrize("width", [50, 78, 98])
def test_help_says_what_every_field_is(width: int) -> None:
    """In the words of the docstring below it, with its default, its choices and its least value."""
    said = usage(width)
    plain = " ".join(said.split())
    for name in fields():
        assert f"\n  {name}=" in said, name
    for words in (
        "optimizer.lr=N The peak of the learning rate. [default: 1e-5; x>=0]",
        "model=TEXT Name or path of what `load_model` loads. [default: roberta.base]",
        "loop.precision=[no|bf16|fp16]",
        "data.limit=N Use this many training examples; null: all. [x>=1]",
        "resume=[true|false] Whether to resume a run in `output`. [default: true]",
        "pretrained=[true|false] false: the architecture of `model` with random weights",
        "Adam's: how slowly it forgets gradients, and their squares. [default: [0.9, 0.98]]",
    ):
        assert words in plain
    body = said.partition("the run:")[2].partition("examples:")[0]
    assert all(len(line) <= width for line in body.splitlines() if line.startswith("    "))


def test_another_architecture_keeps_the_models_own_vocabulary_and_source(material):
    """0.1.0 made an interface with RoBERTa's BPE and "random weights" of it."""
    own, dictionary = GPT2BPE([(b"f", b"i"), (b"fi", b"n")]), Dictionary()
    for number in range(own.max_id + 1):
        dictionary.add_symbol(str(number))
    dictionary.add_symbol("<mask>")
    model = small_model(vocab_size=len(dictionary), max_positions=48, dropout=0.1)
    mine = RobertaHubInterface(model.config, Task(dictionary), model, bpe=own)
    mine.save(material / "model")
    text = "a fine film"
    ids = mine.encode(text).tolist()
    given = settings(material, "architecture.dropout=0.2", "loop.max_updates=2")
    plain, made = make_model(compose(given[:-2])), make_model(compose(given))
    assert made.cfg.dropout == 0.2 and made.bpe.encode(text) == own.encode(text)
    assert made.source == plain.source != "random weights" and "random" not in repr(made)
    trained = train(compose(given))
    for found in (made, trained, roberta_hub.load_model(material / "run/last")):
        assert found.encode(text).tolist() == ids
        assert found.bpe.encode(text) == own.encode(text)


@pytest.mark.system
def test_a_vocabulary_of_another_size_is_refused():
    for name, value in {"vocab_size": 10, "padding_idx": 5}.items():
        with pytest.raises(InputError, match=rf"architecture\.{name} is {value}"):
            make_model(compose(["pretrain=tiny", f"architecture.{name}={value}"]))
