"""Every key of the files that transformers writes beside weights is honoured or refused by name.

A key gets one other valid value from the tables below. Then the answers are transformers' own on
the same folder, or loading raises an error that names the key. A key that transformers begins to
write fails here until it has a row.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from families import write_family

import roberta_hub
from roberta_hub.errors import RobertaHubError

pytestmark = pytest.mark.parity
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

FAMILIES = ("gottbert", "xlm-roberta", "camembert", "bert", "albert", "electra", "distilbert")
"""Those with files of a vocabulary."""
TEXTS = ["The train was late.", "She reads the news in English, German and French every morning."]

WITHOUT_EFFECT = {
    "attention_dropout": 0.3,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout": 0.3,
    "classifier_dropout_prob": 0.3,
    "dropout": 0.3,
    "hidden_dropout_prob": 0.3,
    "qa_dropout": 0.3,
    "seq_classif_dropout": 0.4,
    "summary_last_dropout": 0.4,
    "initializer_range": 0.5,
    "transformers_version": "4.1.0",
    "use_cache": False,
    "label2id": {"good": 0, "so": 1, "bad": 2},
    "bos_token_id": 7,
    "eos_token_id": 7,
    "sinusoidal_pos_embds": True,
    "inner_group_num": 1,
    "summary_activation": "tanh",
    "summary_type": "mean",
    "summary_use_proj": False,
    # Of older versions, or written by hand.
    "chunk_size_feed_forward": 1,
    "decoder_start_token_id": 3,
    "finetuning_task": "mnli",
    "gradient_checkpointing": True,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 0.01,
    "output_attentions": True,
    "output_hidden_states": True,
    "task_specific_params": {"a": 1},
    "torchscript": True,
}
"""config.json's keys that change no answer in eval mode, with another value."""
CHANGED: dict[str, Any] = {
    "hidden_act": "relu",
    "activation": "relu",
    "layer_norm_eps": 0.01,
    "num_attention_heads": 2,
    "n_heads": 2,
    "num_hidden_layers": 1,
    "n_layers": 1,
    "id2label": {"0": "bad", "1": "so", "2": "good"},
    "problem_type": "multi_label_classification",
    "num_labels": 2,
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    "is_decoder": True,
    "add_cross_attention": True,
    "position_embedding_type": "relative_key",
    "hidden_size": 16,
    "dim": 16,
    "hidden_dim": 32,
    "intermediate_size": 32,
    "embedding_size": 8,
    "max_position_embeddings": 40,
    "num_hidden_groups": 2,
    "type_vocab_size": 3,
    "vocab_size": 100,
    "pad_token_id": 7,
}
"""Keys that change the answers, or that contradict the weights."""
ELSEWHERE = {
    "architectures",  # tests/checkpoint: which head a tensor belongs to
    "model_type",  # which family: another one has other names of tensors
    "dtype",  # of the file's weights, which are widened; test_hub.py
    "tie_word_embeddings",  # below, with a language-model head
}
"""Keys that other tests change."""

Answers = list[list[tuple[str, float]]]


def write(kind: str, folder: Path, **settings: Any) -> Path:
    """A model with a head for three labels."""
    return write_family(kind, folder, head="sentence", **settings)


def their_answers(folder: Path) -> Answers:
    """What transformers' pipeline answers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ask = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    return [sorted((own["label"], own["score"]) for own in found) for found in ask(TEXTS)]


def our_answers(folder: Path) -> Answers:
    found = roberta_hub.load_model(folder).eval().classify(TEXTS)
    return [sorted(own.scores.items()) for own in found]


def assert_same(ours: Answers, theirs: Answers) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert [label for label, _ in mine] == [label for label, _ in other]
        assert [score for _, score in mine] == pytest.approx([s for _, s in other], abs=2e-5)


@pytest.fixture(scope="module", params=FAMILIES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(kind, tmp_path_factory.mktemp(kind) / "model")


def changed(folder: Path, to: Path, name: str, **values: Any) -> Path:
    """A copy of a folder with other values in one of its files."""
    shutil.copytree(folder, to)
    path = to / name
    about = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**about, **values}), encoding="utf-8")
    return to


def test_every_key_of_config_has_a_row(folder: Path) -> None:
    keys = json.loads((folder / "config.json").read_text(encoding="utf-8")).keys()
    assert keys <= {*WITHOUT_EFFECT, *CHANGED, *ELSEWHERE}


def test_keys_without_effect(folder: Path, tmp_path: Path) -> None:
    other = changed(folder, tmp_path / "m", "config.json", **WITHOUT_EFFECT)
    assert our_answers(other) == our_answers(folder)


@pytest.mark.parametrize("key", CHANGED)
def test_a_key_that_counts(key: str, folder: Path, tmp_path: Path) -> None:
    other = changed(folder, tmp_path / "m", "config.json", **{key: CHANGED[key]})
    try:
        ours = our_answers(other)
    except RobertaHubError as error:
        assert key in str(error)
        return
    assert_same(ours, their_answers(other))


def test_the_same_answers_before(folder: Path) -> None:
    assert_same(our_answers(folder), their_answers(folder))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("problem", [None, "regression", "single_label", "multi_label"])
def test_what_a_head_learnt(problem: str | None, count: int, tmp_path: Path) -> None:
    """Softmax, sigmoids or the raw numbers, as the pipeline gives them."""
    folder = write("gottbert", tmp_path / "model", num_labels=count)
    kind = problem if problem in (None, "regression") else f"{problem}_classification"
    other = changed(folder, tmp_path / "m", "config.json", problem_type=kind)
    assert_same(our_answers(other), their_answers(other))


@pytest.mark.parametrize("names", [["good", "bad"], ["good", "so", "bad", "worse"]])
def test_labels_of_another_count(names: list[str], folder: Path, tmp_path: Path) -> None:
    """transformers makes a head of that size, which the weights do not fit."""
    table = {str(i): name for i, name in enumerate(names)}
    other = changed(folder, tmp_path / "m", "config.json", id2label=table)
    with pytest.raises(RobertaHubError, match=r"id2label in config\.json .* 3 outputs"):
        roberta_hub.load_model(other)


def test_a_head_that_is_not_tied_needs_its_matrix(kind: str, tmp_path: Path) -> None:
    folder = write_family(kind, tmp_path / "lm", head="lm")
    other = changed(folder, tmp_path / "m", "config.json", tie_word_embeddings=False)
    with pytest.raises(RobertaHubError, match=r"lm_head\.weight"):
        roberta_hub.load_model(other)


# ---- what a tokenizer's settings say ----

LONG = "The train was late in the news today, and we had coffee."
SETTINGS_WITHOUT_EFFECT = {
    "auto_map": {"AutoTokenizer": ["x", None]},
    "backend": "x",
    "chat_template": "x",
    "clean_up_tokenization_spaces": True,
    "errors": "ignore",
    "is_local": False,
    "legacy": False,
    "local_files_only": True,
    "max_length": 5,
    "model_input_names": ["input_ids"],  # which counts for the model: below
    "name_or_path": "x",
    "pad_to_multiple_of": 8,
    "pad_token_type_id": 1,
    "padding_side": "left",
    "sp_model_kwargs": {"enable_sampling": True},
    "special_tokens_map_file": "x",
    "stride": 2,
    "tokenizer_file": "x",
    "trim_offsets": False,
    "truncation_strategy": "longest_first",
    "unk_id": 3,
    "use_fast": False,
    "vocab_file": "x.txt",
}
"""tokenizer_config.json's keys that change no ids of transformers' fast tokenizers."""
SETTINGS_CHANGED: dict[str, dict[str, Any]] = {
    "do_lower_case": {"do_lower_case": False},
    "strip_accents": {"strip_accents": False},
    "tokenize_chinese_chars": {"tokenize_chinese_chars": False},
    "keep_accents": {"keep_accents": True},
    "add_prefix_space": {"add_prefix_space": True},
    "add_prefix_space, not": {"add_prefix_space": False},
    "model_max_length": {"model_max_length": 8},
    "max_len": {"max_len": 8},
    "truncation_side": {"model_max_length": 8, "truncation_side": "left"},
    "cls_token": {"cls_token": "[unused0]"},
    "sep_token": {"sep_token": "[unused0]"},
    "pad_token": {"pad_token": "[unused0]"},
    "unk_token": {"unk_token": "[unused0]"},
    "mask_token": {"mask_token": "[unused0]"},
    "bos_token": {"bos_token": "[unused0]"},
    "eos_token": {"eos_token": "[unused0]"},
    "tokenizer_class": {"tokenizer_class": "GPT2Tokenizer"},
    "add_bos_token": {"add_bos_token": False},
    "add_eos_token": {"add_eos_token": False},
    "extra_special_tokens": {"extra_special_tokens": ["[E1]"]},
    "additional_special_tokens": {"additional_special_tokens": ["[E1]"]},
    "do_basic_tokenize": {"do_basic_tokenize": False},
    "never_split": {"never_split": ["train"]},
}
"""Keys that change ids, or name another special word, with values that say so."""


@pytest.fixture(scope="module", params=["own files", "saved by transformers"])
def tokenizer(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the family's own files, or with tokenizer.json as transformers 5 saves it."""
    to = write_family(kind, tmp_path_factory.mktemp(kind) / "model")
    if request.param == "saved by transformers":
        found = transformers.AutoTokenizer.from_pretrained(to)
        for file in [file for file in to.iterdir() if file.name != "config.json"]:
            if file.suffix != ".safetensors":
                file.unlink()
        found.save_pretrained(to)
    return to


def their_ids(folder: Path) -> list[list[int]]:
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    limited = cut.model_max_length < 100
    return [
        *(cut(text)["input_ids"] for text in TEXTS),
        cut("The train", "was late")["input_ids"],
        cut(LONG, truncation=limited)["input_ids"],
        cut(LONG, "The train was late.", truncation=limited)["input_ids"],
    ]


def our_ids(folder: Path) -> list[list[int]]:
    roberta = roberta_hub.load_model(folder).eval()
    pair = (LONG, "The train was late.")
    runner = roberta._sentence_runner(truncate=True)[1]  # cuts pairs as tokenizers does
    return [
        *(roberta.encode(text).tolist() for text in TEXTS),
        roberta.encode("The train", "was late").tolist(),
        *(ids.tolist() for ids in runner.ids([LONG, pair])),
    ]


def test_every_key_of_the_settings_has_a_row(tokenizer: Path) -> None:
    about = json.loads((tokenizer / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert about.keys() <= {*SETTINGS_WITHOUT_EFFECT, *SETTINGS_CHANGED}


def test_settings_without_effect(tokenizer: Path, tmp_path: Path) -> None:
    values = SETTINGS_WITHOUT_EFFECT
    other = changed(tokenizer, tmp_path / "m", "tokenizer_config.json", **values)
    assert our_ids(other) == our_ids(tokenizer)


@pytest.mark.parametrize("key", SETTINGS_CHANGED)
def test_a_setting_that_counts(key: str, tokenizer: Path, tmp_path: Path) -> None:
    other = changed(tokenizer, tmp_path / "m", "tokenizer_config.json", **SETTINGS_CHANGED[key])
    try:
        ours = our_ids(other)
    except RobertaHubError as error:
        assert key.partition(",")[0] in str(error)
        return
    assert ours == their_ids(other)


@pytest.mark.parametrize("names", [["input_ids"], ["input_ids", "token_type_ids"], None])
@pytest.mark.parametrize(
    ("kind", "own"), [("bert", "DistilBertTokenizer"), ("electra", "TokenizersBackend")]
)
def test_whether_the_model_is_told_of_sentences(
    kind: str, own: str, names: list[str] | None, tmp_path: Path
) -> None:
    """`model_input_names` without token types, and classes that have none, give all the first."""
    folder = write(kind, tmp_path / "model")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    other = changed(folder, tmp_path / "m", "tokenizer_config.json", model_input_names=names)
    if names is None:
        values = {"tokenizer_class": own}
        other = changed(folder, tmp_path / "n", "tokenizer_config.json", **values)
    tokenizer = transformers.AutoTokenizer.from_pretrained(other)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(other).eval()
    given = tokenizer(*TEXTS, return_tensors="pt")
    assert ("token_type_ids" in given) == (names is not None and len(names) == 2)
    ours = roberta_hub.load_model(other).eval()
    mine = ours.predict("sentence_classification_head", ours.encode(*TEXTS), return_logits=True)
    assert mine.tolist()[0] == pytest.approx(model(**given).logits.tolist()[0], abs=2e-5)
    with pytest.raises(RobertaHubError, match="model_input_names is 'x', not a list"):
        roberta_hub.load_model(
            changed(folder, tmp_path / "o", "tokenizer_config.json", model_input_names="x")
        )


@pytest.mark.parametrize("word", ["cls", "sep", "pad", "unk", "mask"])
def test_a_special_word_of_the_map(word: str, kind: str, tmp_path: Path) -> None:
    folder = write_family(kind, tmp_path / "model")
    value = {f"{word}_token": "[unused0]"}
    other = changed(folder, tmp_path / "m", "special_tokens_map.json", **value)
    try:
        ours = our_ids(other)
    except RobertaHubError as error:
        assert f"{word}_token" in str(error)
        return
    assert ours == their_ids(other)
