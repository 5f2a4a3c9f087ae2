"""The calls that users of transformers type most: each says what to write here."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaClassifier, RobertaHubInterface, load_model
from roberta_hub.train.fitting.fitted import Fitted
from roberta_hub.train.fitting.scores import Scores

IMPORTS = {
    "AutoModel": "load_model(name or path) loads",
    "AutoTokenizer": "brings its tokenizer, and verbs take texts",
    "AutoConfig": ".cfg has the configuration",
    "AutoModelForMaskedLM": ".fill_mask(text)",
    "AutoModelForSequenceClassification": ".classify(text)",
    "AutoModelForTokenClassification": ".tag(text)",
    "AutoModelForQuestionAnswering": ".answer(question, context)",
    "AutoModelForMultipleChoice": ".choose(context, options)",
    "RobertaForMaskedLM": ".fill_mask(text)",
    "RobertaForSequenceClassification": ".classify(text)",
    "RobertaTokenizerFast": "brings its tokenizer",
    "BertModel": "load_model(name or path) loads",
    "XLMRobertaForTokenClassification": ".tag(text)",
    "pipeline": "each task is a verb",
    "Trainer": "fit(table) trains a classifier of your own",
    "TrainingArguments": "fit(table)",
    "DataCollatorWithPadding": "collate_tokens pads",
    "SentenceTransformer": ".embed(texts)",
    "CrossEncoder": ".rank(query, texts)",
    "SetFitModel": "RobertaClassifier",
    "SetFitTrainer": "fit(table)",
    "util": "search(queries, corpus)",
}
"""Names that are imported, each with what the error must say."""
Call = Callable[[RobertaHubInterface], Any]
CALLS: dict[str, tuple[Call, str]] = {
    "model(**tokenizer(text, return_tensors='pt'))": (
        lambda r: r(**r.tokenizer("A goal.", return_tensors="pt")),
        "encode(text)",
    ),
    "model(input_ids)": (lambda r: r(torch.tensor([[0, 5, 2]])), "extract_features(ids)"),
    "tokenizer(texts, padding=True, truncation=True)": (
        lambda r: r.tokenizer(["a"], padding=True, truncation=True),
        "encode_batch(texts)",
    ),
    "tokenizer.batch_encode_plus(texts)": (
        lambda r: r.tokenizer.batch_encode_plus(["a"]),
        "encode_batch(texts)",
    ),
    "tokenizer.batch_decode(ids)": (lambda r: r.tokenizer.batch_decode([[0, 2]]), "decode(ids)"),
    "tokenizer.convert_tokens_to_ids(pieces)": (
        lambda r: r.tokenizer.convert_tokens_to_ids(["a"]),
        "encode(text)",
    ),
    "tokenizer.convert_ids_to_tokens(ids)": (
        lambda r: r.tokenizer.convert_ids_to_tokens([0]),
        "pieces(ids)",
    ),
    "tokenizer.mask_token": (lambda r: r.tokenizer.mask_token, "<mask>"),
    "tokenizer.vocab_size": (lambda r: r.tokenizer.vocab_size, "len("),
    "model.config": (lambda r: r.config, "cfg has the configuration"),
    "model.generate(ids)": (lambda r: r.generate("a"), "reads text and writes none"),
    "model.save_pretrained(path)": (lambda r: r.save_pretrained("x"), "save(directory, "),
    "model.push_to_hub(name)": (lambda r: r.push_to_hub("x"), "hf upload"),
    "model.resize_token_embeddings(n)": (
        lambda r: r.resize_token_embeddings(9),
        "add_tokens(words)",
    ),
    "model.get_input_embeddings()": (lambda r: r.get_input_embeddings(), "embed_tokens"),
    "model.num_parameters()": (lambda r: r.num_parameters(), "parameters()"),
    "model.gradient_checkpointing_enable()": (
        lambda r: r.gradient_checkpointing_enable(),
        "checkpoint",
    ),
    "outputs.last_hidden_state": (lambda r: r.last_hidden_state, "features(texts)"),
    "outputs.logits": (lambda r: r.logits, "predict(head, ids, return_logits=True)"),
    "pipe(text, top_k=None)": (lambda r: r.classify("a", top_k=None), "scores"),
    "pipe(text, return_all_scores=True)": (
        lambda r: r.classify("a", return_all_scores=True),
        "Prediction.scores",
    ),
    "pipe(text, truncation=True)": (lambda r: r.classify("a", truncation=True), "truncate="),
    "pipe(text, max_length=128)": (lambda r: r.classify("a", max_length=128), "truncate=True"),
    "pipe(texts, batch_size=8)": (lambda r: r.classify(["a"], batch_size=8), "batch_tokens="),
    "pipe(text, candidate_labels=labels)": (
        lambda r: r.zero_shot("a", candidate_labels=["b"]),
        "labels=",
    ),
    "pipe(text, aggregation_strategy='simple')": (
        lambda r: r.tag("a", aggregation_strategy="simple"),
        "aggregation=",
    ),
    "pipe(text, top_k=3)": (lambda r: r.fill_mask("A <mask>.", top_k=3), "topk="),
    "from_pretrained(name, num_labels=2)": (
        lambda r: load_model(r.source, num_labels=2),
        "register_classification_head",
    ),
    "from_pretrained(name, device_map='auto')": (
        lambda r: load_model(r.source, device_map="auto"),
        "device=",
    ),
    "from_pretrained(name, torch_dtype='auto')": (
        lambda r: load_model(r.source, torch_dtype="auto"),
        "dtype=",
    ),
    "from_pretrained(name, use_fast=True)": (
        lambda r: load_model(r.source, use_fast=True),
        "one tokenizer for each vocabulary",
    ),
    "from_pretrained(name, output_hidden_states=True)": (
        lambda r: load_model(r.source, output_hidden_states=True),
        "return_all_hiddens=True",
    ),
    "SentenceTransformer(name).encode(texts, convert_to_tensor=True)": (
        lambda r: r.embed(["a"], convert_to_tensor=True),
        "torch tensor",
    ),
}
"""What is called, with what the error must say."""
TAKEN: dict[str, Call] = {
    "model.eval()": lambda r: r.eval(),
    "model.train()": lambda r: r.train().eval(),
    "model.to('cpu')": lambda r: r.to("cpu"),
    "model.parameters()": lambda r: next(r.parameters()),
    "model.state_dict()": lambda r: r.state_dict(),
    "model.device": lambda r: r.device,
    "tokenizer.tokenize(text)": lambda r: r.tokenize("A goal."),
    "tokenizer.encode(text)": lambda r: r.tokenizer.encode("A goal."),
    "tokenizer.decode(ids)": lambda r: r.tokenizer.decode(r.encode("A goal.")),
    "len(tokenizer)": lambda r: len(r.tokenizer),
}
"""What is written as in transformers, and answers."""


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    heads = {"topic": ("art", "sport")}
    return small_roberta(heads={"topic": 2}, labels=heads, num_layers=1).eval()


@pytest.mark.parametrize("name", IMPORTS)
def test_what_is_imported_says_what_is_ours(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from roberta_hub import {name}")
    assert IMPORTS[name] in str(caught.value), str(caught.value)
    with pytest.raises(AttributeError) as asked:
        getattr(roberta_hub, name)
    assert IMPORTS[name] in str(asked.value) and not hasattr(roberta_hub, name)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_called_says_what_is_ours(roberta: RobertaHubInterface, name: str) -> None:
    call, said = CALLS[name]
    with pytest.raises(roberta_hub.RobertaHubError) as caught:
        call(roberta)
    assert said in str(caught.value), str(caught.value)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_the_same_answers(roberta: RobertaHubInterface, name: str) -> None:
    TAKEN[name](roberta)


ASKED: dict[str, tuple[Call, str]] = {
    "pipe": (lambda r: r.pipe, "a verb takes any number of texts"),
    "most_similar": (lambda r: r.most_similar, "search(queries, corpus)"),
    "ents": (lambda r: r.ents, "tag(text) gives names"),
    "cos_sim": (lambda r: r.cos_sim, "similarity(a, b)"),
    "unknown": (lambda r: r.qqzzqq, "help(roberta)"),
    "mask_token_id": (lambda r: r.tokenizer.mask_token_id, "tokenizer.mask_idx"),
    "pad_token_id": (lambda r: r.tokenizer.pad_token_id, "tokenizer.layout.pad"),
    "get_vocab": (lambda r: r.tokenizer.get_vocab(), "source_dictionary.indices"),
    "unknown of a tokenizer": (lambda r: r.tokenizer.qqzzqq, "help(roberta.tokenizer)"),
    "encode": (lambda r: r.tokenizer.encode("x", add_special_tokens=False), "always adds <s>"),
    "encode pt": (lambda r: r.tokenizer.encode("x", return_tensors="pt"), "a torch tensor"),
    "encode cut": (lambda r: r.tokenizer.encode("x", max_length=3), "verbs take truncate=True"),
    "encode truncation": (lambda r: r.tokenizer.encode("x", truncation=True), "verbs take trunc"),
    "decode": (
        lambda r: r.tokenizer.decode([0, 2], skip_special_tokens=True),
        "decode leaves special tokens out",
    ),
    "classifier save": (lambda r: RobertaClassifier().save, "model_.save(directory)"),
    "classifier folder": (lambda r: RobertaClassifier().save_pretrained, "'huggingface'"),
    "classifier classify": (lambda r: RobertaClassifier().classify, "predict_proba(X)"),
    "classifier fitted": (lambda r: RobertaClassifier().fitted, "fitted_ has"),
    "margins": (lambda r: RobertaClassifier().decision_function, "predict_proba(X)"),
    "partial": (lambda r: RobertaClassifier().partial_fit, "fit(X, y) learns all rows at once"),
    "coef": (lambda r: RobertaClassifier().coef_, "model_.explain(text)"),
    "labels of a list": (lambda r: answers(r).label, "[answer.label for answer in answers]"),
    "frame": (lambda r: answers(r).to_df, "to_pandas()"),
    "probability": (lambda r: answers(r)[0].probability, "score is the probability"),
    "confidence": (lambda r: answers(r)[0].confidence, "score is the probability"),
    "task args": (lambda r: r.task.args, "roberta.args has the model's"),
    "task cfg": (lambda r: r.task.cfg, "roberta.cfg has"),
    "task data": (lambda r: r.task.load_dataset, "`roberta-hub train` reads data"),
    "lr": (lambda r: r.args.lr, "`roberta-hub train` has those of training"),
    "texts for ids": (lambda r: r.predict("topic", ["a"]), "encode(text) gives ids"),
    "decode text": (lambda r: r.decode("Hello"), "encode(text) gives ids"),
    "decode texts": (lambda r: r.decode(["Hello"]), "encode(text) gives ids"),
    "tuples": (lambda r: r.fill_mask("A <mask>.").to_pandas(), "pandas.DataFrame(...) of the list"),
    "lists of tuples": (
        lambda r: r.fill_mask(["A <mask>."]).to_pandas(),
        "pandas.DataFrame(...) of each answer",
    ),
}
"""What is asked of a model and of what it answers, with what the error must say."""


def answers(roberta: RobertaHubInterface) -> Any:
    return roberta.classify(["a"])


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_has_a_remedy(name: str) -> None:
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": ("art", "sport")}).eval()
    call, said = ASKED[name]
    with pytest.raises((AttributeError, TypeError, ValueError)) as caught:
        call(roberta)
    assert isinstance(caught.value, roberta_hub.RobertaHubError), caught.value
    assert said in str(caught.value), caught.value


def test_fitted_has_its_numbers_by_name() -> None:
    for owner, name in ((Fitted, "accuracy"), (Fitted, "metrics"), (Scores, "accuracy")):
        empty = object.__new__(owner)
        assert not hasattr(empty, name) and not hasattr(empty, "__array__")
        with pytest.raises(AttributeError, match="numbers has accuracy, F1"):
            getattr(empty, name)


def test_an_unfitted_classifier_says_so_and_is_cloned() -> None:
    mine = RobertaClassifier(epochs=2)
    assert not hasattr(mine, "classes_") and not hasattr(mine, "save")
    with pytest.raises(Exception, match="is not fitted yet"):
        _ = mine.fitted_
    base = pytest.importorskip("sklearn.base")
    assert base.clone(mine).get_params() == mine.get_params()
    assert copy.deepcopy(mine).epochs == pickle.loads(pickle.dumps(mine)).epochs == 2
