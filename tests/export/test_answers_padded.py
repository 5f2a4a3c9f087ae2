"""Every answer of every family, as it is traced, against the packed model: padding on any side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from exported_answers import FACTORIZED, FAMILIES, answers, made, padded, untraced
from families import theirs, write_family
from small_models import assert_close
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import ExportError
from roberta_hub.export.check import answer_packed, check
from roberta_hub.export.graph import ExportedAnswer, Graph

pytestmark = pytest.mark.system

TEXTS = ["The train was late.", "", "Where can I buy a ticket to Berlin for tomorrow?"]


@pytest.fixture(scope="module", params=[*FAMILIES, FACTORIZED])
def roberta(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RobertaHubInterface:
    return made(request.param, tmp_path_factory.mktemp("family"))


def test_every_answer_is_the_packed_models(roberta: RobertaHubInterface) -> None:
    with torch.no_grad():
        for answer in answers(roberta):
            graph = Graph(roberta.model, answer).eval()
            difference = check(roberta.model, answer, graph.inputs, untraced(graph))
            assert difference < 5e-5, answer


def test_texts_have_the_vectors_that_the_verbs_give(roberta: RobertaHubInterface) -> None:
    for pooling in ("cls", "mean", "max"):
        graph = Graph(roberta.model, ExportedAnswer("pooled", pooling)).eval()
        wanted = roberta.features(TEXTS, pooling=pooling)
        for side in ("left", "right"):
            inputs = padded(roberta, TEXTS, side)
            if "token_type_ids" in graph.inputs:
                inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
            assert_close(untraced(graph)(inputs)["sentence_embedding"], wanted)


def test_inputs_are_those_of_the_family(roberta: RobertaHubInterface) -> None:
    tells = roberta.model.transformer.separator_idx is not None
    kind = str(roberta.tokenizer.engine.settings["tokenizer_class"])
    assert tells == kind.startswith(("Bert", "Albert", "Electra"))
    names = Graph(roberta.model, ExportedAnswer("features")).inputs
    assert names == ("input_ids", "attention_mask") + ("token_type_ids",) * tells


def test_token_types_replace_the_segments_of_the_ids(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    folder = write_family("bert", tmp_path)
    ours = roberta_hub.load_model(folder).eval()
    ids = ours.encode("The train was late.", "Why?").unsqueeze(0)
    graph = Graph(ours.model, ExportedAnswer("features")).eval()
    for types in (torch.zeros_like(ids), torch.ones_like(ids), ids % 2):
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": types}
        with torch.no_grad():
            wanted = theirs(folder).base_model(**inputs).last_hidden_state
        assert_close(untraced(graph)(inputs)["last_hidden_state"], wanted)
    derived = untraced(graph)(dict(list(inputs.items())[:2]))["last_hidden_state"]
    assert_close(derived, ours.features([("The train was late.", "Why?")])[0].unsqueeze(0))


WRONG: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "a number": (lambda x: x + 2e-4 * (x == x.max()), r"1 x 2 ids differs .* by 0\.000\d+"),
    "a NaN": (lambda x: x.where(x < x.max(), torch.nan), r"1 x 2 ids differs .* by nan"),
    "a shape": (lambda x: x[:, :1], r"has shape \(1, 1, \d+\) and the model's \(1, 2, \d+\)"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_difference_is_an_error_that_names_the_batch(wrong: str, tmp_path: Path) -> None:
    change, sentence = WRONG[wrong]
    roberta, answer = made(FACTORIZED, tmp_path), ExportedAnswer("features")
    graph = Graph(roberta.model, answer).eval()
    run = untraced(graph)
    with torch.no_grad(), pytest.raises(ExportError, match=sentence):
        check(
            roberta.model,
            answer,
            graph.inputs,
            lambda inputs: {name: change(x) for name, x in run(inputs).items()},
        )


def test_the_packed_answer_is_that_of_the_verbs(tmp_path: Path) -> None:
    """What exports are held against is what people get."""
    roberta = made(FACTORIZED, tmp_path)
    inputs = padded(roberta, TEXTS, "right")
    tokens = inputs["input_ids"].where(inputs["attention_mask"].bool(), 1)
    with torch.no_grad():
        (logits,) = answer_packed(roberta.model, ExportedAnswer("classification", "topic"), tokens)
        (words,) = answer_packed(roberta.model, ExportedAnswer("language"), tokens)
        wanted = roberta.model(tokens)[0]
    for row, found in zip(logits.softmax(-1), roberta.classify(TEXTS, "topic"), strict=True):
        scores = [found.scores[label] for label in roberta.head_labels("topic")]
        assert scores == pytest.approx(row.tolist(), abs=1e-6)
    assert_close(words, wanted)
