"""`answer` in the situations of transformers 4's tests of its question-answering pipeline.

They are those of tests/pipelines/test_pipelines_question_answering.py of huggingface/transformers.
Version 5 has no such pipeline, so two others answer: SQuAD's own rule, as run_squad.py of
google-research/bert decodes (the best pair of a start and an end, against that of `[CLS]`), on the
logits of the real model; and the pipeline of transformers 4.57.6 itself, whose answers on the same
folders are recorded in tests/data/question_answering.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from roberta_hub import load_model
from roberta_hub.errors import InputError, InputTypeError

from .record_question_answering import ANSWERS, CONTEXTS, KINDS, QUESTIONS, write

pytestmark = pytest.mark.parity
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

RECORDED = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the kind, transformers' model, its tokenizer, ours) of one folder."""
    folder = write(request.param, tmp_path_factory.mktemp(request.param))
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return request.param, model, tokenizer, load_model(folder).eval()


def squads(
    model: Any, tokenizer: Any, question: str, context: str, longest: int
) -> dict[tuple[int, int], float]:
    """Each stretch of the context, by its characters, and (0, 0) for none: its probability.

    A "▁" by itself holds no character, though tokenizers gives it that of the next piece.
    """
    read = tokenizer(question, context, return_offsets_mapping=True, return_tensors="pt")
    offsets, sides = read.pop("offset_mapping")[0].tolist(), read.sequence_ids(0)
    for i, piece in enumerate(read.tokens()):
        if piece == "▁":
            offsets[i][1] = offsets[i][0]
    with torch.no_grad():
        found = model(**read)
    own = [0, *(i for i, side in enumerate(sides) if side == 1)]
    start = found.start_logits[0][own].double().softmax(0).tolist()
    end = found.end_logits[0][own].double().softmax(0).tolist()
    stretches = {(0, 0): start[0] * end[0]}
    for i in range(1, len(own)):
        for j in range(i, min(i + longest, len(own))):
            first, last = offsets[own[i]][0], offsets[own[j]][1]
            text = context[first:last]
            first += len(text) - len(text.lstrip())
            if text.strip():
                place = (first, first + len(text.strip()))
                stretches[place] = max(stretches.get(place, 0.0), start[i] * end[j])
    return stretches


def near(score: float) -> Any:
    return pytest.approx(score, rel=2e-4)


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_pair_of_a_start_and_an_end(both: Any, longest: int) -> None:
    _, model, tokenizer, ours = both
    none = 0
    for question in QUESTIONS:
        for context in CONTEXTS:
            every = squads(model, tokenizer, question, context, longest)
            ranked = sorted(every, key=lambda place: -every[place])
            found = ours.answer(question, context, max_answer_tokens=longest, topk=20)
            assert [a.score for a in found] == [near(every[place]) for place in ranked[:20]]
            for answer in found:
                assert every[answer.start, answer.end] == near(answer.score)
                assert answer.text == context[answer.start : answer.end]
            assert found[0] == ours.answer(question, context, max_answer_tokens=longest)
            none += ranked[0] == (0, 0)
            some = [place for place in ranked if place != (0, 0)]
            forced = ours.answer(question, context, max_answer_tokens=longest, no_answer=False)
            assert (forced.start, forced.end) == some[0] and forced.score == near(every[some[0]])
    assert none < len(QUESTIONS) * len(CONTEXTS)


def test_the_pipeline_of_version_4(both: Any) -> None:
    """Without `align_to_words`, which widens an answer to the words of its edges.

    Of contexts with a blank that is a piece it may answer the blank, and we never do.
    """
    kind, _, tokenizer, ours = both
    rows = RECORDED["answers"][kind]
    assert len(rows) == 2 * len(QUESTIONS) * len(CONTEXTS)
    blank = {c for c in CONTEXTS if {"▁", "Ġ"} & {*tokenizer.tokenize(c)}}
    rows = [row for row in rows if row["context"] not in blank]
    assert len(rows) >= 6
    for row in rows:
        found = ours.answer(
            row["question"],
            row["context"],
            max_answer_tokens=RECORDED["longest"],
            no_answer=row["impossible"],
        )
        assert (found.text, found.score) == (row["answer"].strip(), near(row["score"]))


def test_lists(both: Any) -> None:
    """Of two questions and one context, of as many of both, and their pairs as dicts."""
    *_, ours = both
    single = [[ours.answer(q, c) for c in CONTEXTS] for q in QUESTIONS]
    assert same(ours.answer(QUESTIONS, CONTEXTS[0]), [row[0] for row in single])
    assert same(ours.answer(QUESTIONS[0], CONTEXTS), single[0])
    assert same(ours.answer(QUESTIONS, CONTEXTS[:3]), [single[i][i] for i in range(3)])
    assert same(ours.answer([QUESTIONS[0]] * 2, CONTEXTS[0]), [single[0][0]] * 2)
    for questions, contexts in ((QUESTIONS[:2], CONTEXTS[:3]), (QUESTIONS, CONTEXTS[:2])):
        with pytest.raises(
            InputError, match=rf"{len(questions)} questions and {len(contexts)} con"
        ):
            ours.answer(questions, contexts)


def same(found: Any, wanted: Any) -> bool:
    return [(a.text, a.start, near(a.score)) for a in wanted] == [
        (a.text, a.start, a.score) for a in found
    ]


@pytest.mark.parametrize(
    ("question", "context", "which"),
    [("", "C", "question"), (None, "C", "question"), ("Q", "", "context"), ("Q", None, "context")],
)
def test_what_is_missing(both: Any, question: Any, context: Any, which: str) -> None:
    *_, ours = both
    with pytest.raises((InputError, InputTypeError), match=which):
        ours.answer(question, context)
    with pytest.raises((InputError, InputTypeError), match=which):
        ours.answer(["Q", question], ["C", context])


def test_logits_of_a_million(tmp_path: Path) -> None:
    """Their probabilities are 0 and 1, and no number is NaN."""
    folder = write("distilbert", tmp_path)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder)
    plain = load_model(folder).eval().answer(QUESTIONS[0], CONTEXTS[0], no_answer=False)
    with torch.no_grad():
        for parameter in model.qa_outputs.parameters():
            parameter.mul_(1e6)
    model.save_pretrained(folder)
    ours = load_model(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    every = squads(model.eval(), tokenizer, QUESTIONS[0], CONTEXTS[0], 30)
    found = ours.answer(QUESTIONS[0], CONTEXTS[0], no_answer=False)
    assert (found.text, found.start) == (plain.text, plain.start)
    assert found.score == near(every[found.start, found.end])
    for answer in ours.answer(QUESTIONS[0], CONTEXTS[0], topk=20):
        assert 0 <= answer.score <= 1


def test_a_long_context(both: Any) -> None:
    """In windows, each by itself; batches of any size answer the same."""
    *_, ours = both
    context = "HuggingFace was founded in Paris. " * 20
    found = ours.answer(QUESTIONS[0], context, no_answer=False)
    assert found.text and context[found.start : found.end] == found.text
    for size in (70, 1000):
        again = ours.answer(QUESTIONS[0], context, no_answer=False, batch_tokens=size)
        assert same([again], [found])
