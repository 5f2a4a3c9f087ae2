"""answer() against every span of the context, scored one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from questions import states_of
from small_models import copied, randomise, small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.inference.answer import ContextWindow, answers, best_spans, context_windows
from roberta_hub.inference.batching import Runner

CASES = [
    ("Who wrote it?", "Ada Lovelace wrote it, in 1843."),
    ("Where?", "naïve 🙂 İstanbul’s epipheny!?"),
    ("When was it?", "  Two   spaces\nand lines "),
    ("Why?", "x"),
]
SAME = 5e-5
"""Between a probability of a batch and of one text, relative.

A float32 sum of K = 32 terms in another order is off by some sqrt(K) * 2**-24 = 3.4e-7 of it, and
after 3 layers of 6 products by sqrt(18) times that, 1.4e-6. Logits here are up to 18, so 2.6e-5;
the logarithm of a probability is two of them less two norms, which is sqrt(4) times that, 5e-5.
"""
LONG = " ".join(f"word {i} of many;" for i in range(20))


@pytest.fixture(scope="module")
def _model() -> RobertaHubInterface:
    roberta = small_roberta(heads={"mnli": 3})
    roberta.register_span_head("squad")
    randomise(roberta.model.span_heads["squad"], seed=3, std=1.0)
    return roberta


@pytest.fixture
def roberta(_model: RobertaHubInterface) -> Iterator[RobertaHubInterface]:
    before = [p._version for p in _model.parameters()]
    yield _model.eval()
    assert [p._version for p in _model.parameters()] == before


def plain(
    roberta: RobertaHubInterface, question: str, context: str, longest: int
) -> tuple[str, float, float]:
    """(best stretch, its probability, that of none), over all starts and ends."""
    ids, skip = roberta.encode(question, context), len(roberta.encode(question)) + 1
    with torch.no_grad():
        logits = roberta.model.span_heads["squad"](states_of(roberta, ids))
    logits = torch.cat([logits[:1], logits[skip:-1]])
    start, end = logits.softmax(0).unbind(1)
    best = max(
        (float(start[1 + i] * end[1 + j]), i, j)
        for i in range(len(logits) - 1)
        for j in range(i, min(i + longest, len(logits) - 1))
    )
    offsets = roberta.offsets(context)
    stretch = context[offsets[best[1]][0] : offsets[best[2]][1]]
    return stretch.strip(), best[0], float(start[0] * end[0])


@pytest.mark.parametrize("longest", [1, 2, 30])
@pytest.mark.parametrize(("question", "context"), CASES)
def test_the_best_of_all_stretches(roberta, question, context, longest):
    wanted, score, none = plain(roberta, question, context, longest)
    forced = roberta.answer(question, context, "squad", max_answer_tokens=longest, no_answer=False)
    assert (forced.text, forced.score) == (wanted, pytest.approx(score, rel=1e-4))
    assert context[forced.start : forced.end] == forced.text
    free = roberta.answer(question, context, "squad", max_answer_tokens=longest)
    if score > none:
        assert free == forced
    else:
        assert (free.text, free.start, free.end) == ("", 0, 0)
        assert free.score == pytest.approx(none, rel=1e-4)


def test_some_have_an_answer_and_some_have_none(roberta):
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer, batch_tokens=25)
    cases = [(question, context) for question, _ in CASES for _, context in CASES]
    found = answers(runner, cases, "squad")
    for ours, case in zip(found, cases, strict=True):  # a batch is its singles
        single = roberta.answer(*case, "squad")
        assert (ours.text, ours.start, ours.end) == (single.text, single.start, single.end)
        assert ours.score == pytest.approx(single.score, rel=SAME)
    assert {bool(answer.text) for answer in found} == {True, False}


@pytest.mark.parametrize("no_answer", [True, False])
@pytest.mark.parametrize(
    ("question", "context", "which"),
    [("Who?", "", "context"), ("Who?", " \n", "context"), ("", "Ada", "question"), ("\t", "", "q")],
)
def test_what_is_empty_is_an_error_that_says_which(roberta, question, context, which, no_answer):
    with pytest.raises(InputError, match=f"^{which}.* is empty; answer takes the question first"):
        roberta.answer(question, context, "squad", no_answer=no_answer)
    with pytest.raises(InputError, match=rf"^{which}[a-z]*\[1\]: .* is empty"):
        roberta.answer(["Who?", question], ["Ada", context], "squad")


def test_a_stretch_is_never_empty(roberta):
    """The head prefers the blanks: pieces of their own between words, by which no one is helped."""
    context = "Ada    \n\n   wrote   \n it"
    pieces = roberta.encode("Who?", context)
    head = copied(roberta)
    with torch.no_grad():
        states = states_of(head, pieces)
        skip = len(head.encode("Who?")) + 1
        blank = [
            i + skip
            for i, (start, end) in enumerate(head.offsets(context))
            if not context[start:end].strip()
        ]
        assert len(blank) > 4
        wanted = torch.zeros(len(states), 2, dtype=torch.double)
        wanted[blank], wanted[0] = 9.0, 12.0
        solved = torch.linalg.pinv(states.double()) @ wanted
        out = head.model.span_heads["squad"]
        layer = getattr(out, "out_proj", out)
        layer.weight.copy_(solved.T)
        layer.bias.zero_()
    assert head.answer("Who?", context, "squad").text == ""
    for longest in (1, 2, 30):
        found = head.answer(
            "Who?", context, "squad", no_answer=False, max_answer_tokens=longest, topk=50
        )
        assert all(answer.text.strip() and answer.text == answer.text.strip() for answer in found)
        assert found[0] == head.answer(
            "Who?", context, "squad", no_answer=False, max_answer_tokens=longest
        )


def test_the_best_answers_are_the_best_of_all_stretches(roberta):
    question, context = CASES[0]
    ids, skip = roberta.encode(question, context), len(roberta.encode(question)) + 1
    with torch.no_grad():
        logits = roberta.model.span_heads["squad"](states_of(roberta, ids))
    logits = torch.cat([logits[:1], logits[skip:-1]])
    start, end = logits.softmax(0).unbind(1)
    offsets, wanted = roberta.offsets(context), {"": float(start[0] * end[0])}
    for i in range(len(offsets)):
        for j in range(i, len(offsets)):
            stretch = context[offsets[i][0] : offsets[j][1]].strip()
            score = float(start[1 + i] * end[1 + j])
            wanted[stretch] = max(score, wanted.get(stretch, 0.0))
    order = sorted(wanted, key=lambda text: -wanted[text])
    found = roberta.answer(question, context, "squad", topk=10_000)
    assert [answer.text for answer in found] == order and len(order) > 50
    assert [a.score for a in found] == pytest.approx([wanted[t] for t in order], rel=1e-3)
    for topk in (1, 2, 7):
        few = roberta.answer(question, context, "squad", topk=topk)
        assert few == found[:topk]
        some = roberta.answer(question, context, "squad", topk=topk, no_answer=False)
        assert some == [a for a in found if a.text][:topk]
    assert roberta.answer(question, context, "squad") == found[0]


def test_the_best_answers_of_windows_are_different_stretches(roberta):
    found = roberta.answer("Who?", LONG, "squad", stride=10, topk=40)
    assert len({(a.start, a.end) for a in found}) == len(found) == 40
    assert found[0] == roberta.answer("Who?", LONG, "squad", stride=10)
    assert all(LONG[a.start : a.end] == a.text for a in found)


def test_lists_of_questions(roberta):
    questions, contexts = zip(*CASES, strict=True)

    def same(found, wanted):
        assert [(a.text, a.start, a.end) for a in found] == [
            (a.text, a.start, a.end) for a in wanted
        ]
        assert [a.score for a in found] == pytest.approx([a.score for a in wanted], rel=SAME)

    same(
        roberta.answer(list(questions), iter(contexts), "squad"),
        [roberta.answer(*case, "squad") for case in CASES],
    )
    same(
        roberta.answer(list(questions), contexts[0], "squad"),
        [roberta.answer(question, contexts[0], "squad") for question in questions],
    )
    same(
        roberta.answer(questions[0], list(contexts), "squad"),
        [roberta.answer(questions[0], context, "squad") for context in contexts],
    )
    best = roberta.answer(list(questions), list(contexts), "squad", topk=2)
    for own, case in zip(best, CASES, strict=True):
        same(own, roberta.answer(*case, "squad", topk=2))
    assert roberta.answer([], [], "squad") == [] == roberta.answer([], "Ada", "squad")


def test_windows_cover_a_long_context(roberta):
    tokenizer = roberta.tokenizer
    whole = tokenizer.encode(LONG)[1:-1]
    found = context_windows(tokenizer, "Who is it?", LONG, 48, 10)
    head = [*tokenizer.encode("Who is it?").tolist(), 2]
    covered: set[int] = set()
    for window in found:
        assert len(window.ids) == 48 and window.ids[: window.column].tolist() == head
        part = whole[window.first : window.first + window.count]
        assert window.ids[window.column :].tolist() == [*part.tolist(), 2]
        covered |= set(range(window.first, window.first + window.count))
    assert covered == set(range(len(whole)))
    firsts = [window.first for window in found]
    shared = found[0].count - 10
    assert firsts == [*range(0, len(whole) - found[0].count, shared), len(whole) - found[0].count]


def test_the_surest_window_answers(roberta):
    tokenizer = roberta.tokenizer
    own = context_windows(tokenizer, "Who?", LONG, 48, 10)
    offsets, best = tokenizer.offsets(LONG), []
    for window in own:
        with torch.no_grad():
            logits = roberta.model.span_heads["squad"](states_of(roberta, window.ids))
        best += best_spans(logits, window, 30, offsets)[0]
    first, last, _, score = max(best, key=lambda span: span[2])
    found = roberta.answer("Who?", LONG, "squad", stride=10, no_answer=False)
    assert found.text == LONG[offsets[first][0] : offsets[last][1]].strip()
    assert found.score == pytest.approx(score, rel=1e-4)
    cut = roberta.answer("Who?", LONG, "squad", truncate=True, no_answer=False)
    assert cut.end <= offsets[own[0].count - 1][1]
    # Unless it is told, windows share 128 tokens, or half of a smaller room.
    assert roberta.answer("Who?", LONG, "squad", stride=own[0].count // 2) == roberta.answer(
        "Who?", LONG, "squad"
    )


def test_a_span_by_hand():
    """Four tokens of context behind `<s> question </s> </s>`, the window beginning at the 10th."""
    window = ContextWindow(torch.arange(9), 4, 10, 4)
    logits = torch.zeros(9, 2)
    logits[0] = torch.tensor([1.0, 1.0])
    logits[5, 0], logits[6, 1], logits[4, 1] = (
        3.0,
        2.0,
        4.0,
    )  # an end before the start does not count
    logits[2] = 50.0  # nor does the question
    ink = [(i, i + 1) for i in range(20)]
    [(first, last, margin, score)], none = best_spans(logits, window, 30, ink)
    assert (first, last, margin) == (11, 12, pytest.approx(3.0))
    start = torch.tensor([1.0, 0, 3, 0, 0]).softmax(0)
    end = torch.tensor([1.0, 4, 0, 2, 0]).softmax(0)
    assert score == pytest.approx(float(start[2] * end[3]))
    assert none == pytest.approx(float(start[0] * end[0]))
    ((_, _, margin, _),), _ = best_spans(
        logits.index_fill(0, torch.tensor([0]), 3.0), window, 9, ink
    )
    assert margin == pytest.approx(-1.0)
    assert best_spans(logits, window, 1, ink)[0][0][:2] == (10, 10)


def test_what_cannot_be_answered(roberta):
    with pytest.raises(InputError, match="question: too long: with its marks 65 tokens"):
        roberta.answer("word " * 60, "Ada", "squad")
    with pytest.raises(InputError, match="stride is 44; the question leaves room for 42"):
        roberta.answer("Who?", LONG, "squad", stride=44)
    with pytest.raises(InputError, match="exclude each other"):
        roberta.answer("Who?", LONG, "squad", stride=4, truncate=True)
    with pytest.raises(InputError, match="max_answer_tokens is 0, must be at least 1"):
        roberta.answer("Who?", "Ada", "squad", max_answer_tokens=0)
    with pytest.raises(InputError, match="2 questions and 1 contexts; pass as many of both"):
        roberta.answer(["Who?", "Why?"], ["Ada"], "squad")
    with pytest.raises(InputTypeError, match=r"context\[1\]: missing \(a float\)"):
        roberta.answer("Who?", ["Ada", float("nan")], "squad")
    with pytest.raises(InputError, match=r"question\[1\]: too long"):
        roberta.answer(["Who?", "word " * 60], "Ada", "squad")
    with pytest.raises(InputError, match="topk is 0, must be at least 1"):
        roberta.answer("Who?", "Ada", "squad", topk=0)
    with pytest.raises(UnknownNameError, match=r"no span head 'mnli'; .* 'mnli' is for classify"):
        roberta.answer("Who?", "Ada", "mnli")
    with pytest.raises(UnknownNameError, match=r"register_span_head\(name\) makes a new one"):
        roberta.answer("Who?", "Ada", "sqad")
