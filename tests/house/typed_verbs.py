"""What a type checker sees of every public verb; `test_types.py` runs mypy on it, and runs it.

mypy refuses an `assert_type` whose type is another, `Any` too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import torch
from torch import Tensor

from roberta_hub import Answer, Hit, Prediction, RobertaHubInterface, Span
from roberta_hub.config import ReadOnlyArguments
from roberta_hub.export.folder import Exported
from roberta_hub.inference.words import AlignedDoc, AlignedWord
from roberta_hub.show.display import Display
from roberta_hub.show.sheet import Picture

MANY = ["A dog ran.", "Goal!"]
PAIRS = [("A dog ran.", "A cat sat.")]
Filling = tuple[str, float, str]


def ids(roberta: RobertaHubInterface) -> None:
    assert_type(roberta.device, torch.device)
    assert_type(roberta.max_positions, int)
    assert_type(roberta.args, ReadOnlyArguments)
    assert_type(roberta.bpe, Any)
    tokens = assert_type(roberta.encode("a", "b", no_separator=True), Tensor)
    assert_type(roberta.decode(tokens), str | list[str])
    assert_type(roberta.encode_batch("a"), Tensor)
    assert_type(roberta.encode_batch(MANY), list[Tensor])
    assert_type(roberta.encode_batch(iter(MANY)), list[Tensor])
    assert_type(roberta.tokenize("a"), list[str])
    assert_type(roberta.offsets("a"), list[tuple[int, int]])
    assert_type(roberta.extract_features(tokens), Tensor)
    assert_type(roberta.extract_features(tokens, False), Tensor)
    assert_type(roberta.extract_features(tokens, return_all_hiddens=True), list[Tensor])
    for either in (True, False):
        assert_type(roberta.extract_features(tokens, either), Tensor | list[Tensor])
    assert_type(roberta.predict("mnli", tokens, return_logits=True), Tensor)


def vectors(roberta: RobertaHubInterface) -> None:
    assert_type(roberta.features("a"), Tensor)
    assert_type(roberta.features("a", pooling="mean"), Tensor)
    assert_type(roberta.features(MANY, layer=0, batch_tokens=64), list[Tensor])
    assert_type(roberta.features(MANY, pooling="cls", truncate=True), Tensor)
    assert_type(roberta.features(MANY, pooling="max", normalize=True), Tensor)
    # One answer is no list of them: the line below is one that mypy has to refuse.
    assert_type(roberta.features("a"), list[Tensor])  # type: ignore[assert-type]


def sentences(roberta: RobertaHubInterface) -> None:
    assert_type(roberta.embed("a"), Tensor)
    vectors = assert_type(roberta.embed(PAIRS, "query: ", truncate=True), Tensor)
    assert_type(roberta.embed("a", truncate_dim=8), Tensor)
    ranges = [vectors.amin(0).tolist(), vectors.amax(0).tolist()]
    assert_type(roberta.embed("a", dtype="int8", ranges=ranges), Tensor)
    assert_type(roberta.search("a", MANY, words=True, rerank=None), list[Hit])
    assert_type(roberta.similarity(MANY, vectors), Tensor)
    assert_type(roberta.search("a", MANY, topk=1), list[Hit])
    assert_type(roberta.search(MANY, vectors), list[list[Hit]])
    assert_type(roberta.search(vectors, iter(MANY)), list[list[Hit]])


def exports(roberta: RobertaHubInterface, folder: Path) -> None:
    made = assert_type(roberta.export(folder / "exported", "torch", pooling="mean"), Exported)
    assert_type(made.difference, float | None)
    assert_type(made.outputs, tuple[str, ...])


def pieces(roberta: RobertaHubInterface) -> None:
    assert_type(roberta.replaced("a"), list[float])
    assert_type(roberta.replaced(MANY), list[list[float]])


def words(roberta: RobertaHubInterface) -> None:
    doc = assert_type(roberta.extract_features_aligned_to_words("It was late."), AlignedDoc)
    assert_type(doc[1], AlignedWord)
    for word in doc:
        assert_type(word.text, str)
        assert_type(word.vector, Tensor)
    assert_type(doc[1:3], Any)
    deep = roberta.extract_features_aligned_to_words("It was late.", return_all_hiddens=True)
    assert_type(deep, AlignedDoc)


def language(roberta: RobertaHubInterface) -> None:
    found = assert_type(roberta.fill_mask("a <mask>"), list[Filling])
    for text, probability, word in found:
        assert_type((text, probability, word), Filling)
    assert_type(roberta.fill_mask("a <mask>", topk=2, targets=["b"]), list[Filling])
    assert_type(roberta.fill_mask(["a <mask>"], 2, stride=4), list[list[Filling]])
    assert_type(roberta.fill_mask(text for text in ["a <mask>"]), list[list[Filling]])
    assert_type(roberta.disambiguate_pronoun("A dog ran; [it] ate.", ["A dog"]), bool | str)
    assert_type(roberta.score("a"), float)
    assert_type(roberta.score(MANY, progress=False), list[float])
    assert_type(roberta.fill_mask(["a <mask>"]), list[Filling])  # type: ignore[assert-type]


def heads(roberta: RobertaHubInterface) -> None:
    labels = ["art", "sport"]
    assert_type(roberta.classify("a", "topic"), Prediction)
    assert_type(roberta.classify("a", "topic").to_dict(), dict[str, Any])
    assert_type(roberta.classify(MANY, head="topic", multi_label=True), list[Prediction])
    assert_type(roberta.classify(PAIRS, "mnli"), list[Prediction])
    assert_type(roberta.classify([["a", "b"]], "mnli"), list[Prediction])
    assert_type(roberta.zero_shot("a", labels, head="mnli"), Prediction)
    assert_type(roberta.zero_shot(MANY, labels, head="mnli"), list[Prediction])
    assert_type(roberta.zero_shot(MANY, labels, by="meaning"), list[Prediction])
    assert_type(roberta.tag("a", "ner"), list[Span])
    assert_type(roberta.tag("a", "ner", aggregation="first"), list[Span])
    assert_type(roberta.tag(MANY, "ner"), list[list[Span]])
    assert_type(roberta.answer("Who?", "Ada wrote it.", "squad"), Answer)
    assert_type(roberta.answer("Who?", "Ada wrote it.", "squad", topk=2), list[Answer])
    assert_type(roberta.answer(["Who?"], "Ada wrote it.", "squad"), list[Answer])
    assert_type(roberta.answer(["Who?"], ["Ada wrote."], "squad", topk=2), list[list[Answer]])
    assert_type(roberta.choose("a", labels, "grade"), Prediction)
    assert_type(roberta.rank("a", MANY, 1, "grade"), list[Hit])
    assert_type(roberta.predict_proba(PAIRS, "mnli"), Tensor)
    assert_type(roberta.head_labels("mnli"), tuple[str, ...])


def displays(roberta: RobertaHubInterface) -> None:
    for shown in (roberta.explain("a b"), roberta.explain(("a", "b"), "mnli", progress=False)):
        assert_type(shown, Display)
        assert_type(shown.to_dict(), dict[str, Any])
        assert_type(shown.png(), Picture)
    assert_type(roberta.token_strip(("a", "b")), Display)
    assert_type(roberta.attention("a", 1, attention_head=0), Display)
    assert_type(roberta.classify("a", "topic").png(), Picture)


def registration(roberta: RobertaHubInterface, folder: Path) -> None:
    roberta.register_classification_head("new", labels=["a", "b"])
    roberta.register_token_head("words", 3)
    roberta.register_span_head("spans")
    assert_type(roberta.add_tokens(["[E1]", "[E2]"], special=True, lstrip=True), int)
    assert_type(roberta.add_tokens("new", normalized=None, single_word=True), int)
    assert_type(roberta.optimize(), RobertaHubInterface)
    assert_type(roberta.optimize("auto", least_cosine=0.99), RobertaHubInterface)
    assert_type(roberta.to("cpu", torch.float32), RobertaHubInterface)
    if torch.cuda.is_available():
        assert_type(roberta.cuda(), RobertaHubInterface)
    roberta.save(folder, format="roberta_hub")
