"""disambiguate_pronoun: scores by hand, candidates from a Doc parsed by hand, wrong marks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from questions import log_probs_of

from roberta_hub import RobertaHubInterface
from roberta_hub.inference.pronouns import candidates_in, parse
from roberta_hub.text import Dictionary, Task

BEFORE, AFTER = "The trophy would not fit in the brown suitcase because", " was too big."
PHRASES = ["the trophy", "the brown suitcase", "suitcase", "The city councilmen"]
MARKED = f"{BEFORE} [it]{AFTER}"


@pytest.fixture(params=["wsc", "masked_lm", "wsc with init_token"])
def wsc(roberta: RobertaHubInterface, request: pytest.FixtureRequest) -> RobertaHubInterface:
    name, *init = request.param.split(" with ")
    task = Task(Dictionary.roberta(), name=name, init_token=0 if init else None)
    own = RobertaHubInterface(roberta.cfg, task, roberta.model)
    return own.eval()


def by_hand(roberta: RobertaHubInterface, phrase: str) -> float:
    """Mean log-probability of the phrase's pieces, all of them masked."""
    lead = roberta.encode(BEFORE)[1:-1]
    own = roberta.encode(f" {phrase}")[1:-1]
    rest = roberta.encode(AFTER)[1:-1]
    bos = [] if roberta.task.name == "wsc" and roberta.task.init_token is None else [0]
    mask = torch.full_like(own, roberta.task.mask_idx)
    ids = torch.cat([torch.tensor(bos, dtype=torch.long), lead, mask, rest, torch.tensor([2])])
    start = len(bos) + len(lead)
    rows = log_probs_of(roberta, ids)[start : start + len(own)]
    return float(rows.gather(1, own.unsqueeze(1)).mean())


def test_the_best_candidate(wsc: RobertaHubInterface) -> None:
    scores = {phrase: by_hand(wsc, phrase) for phrase in PHRASES}
    assert len(set(scores.values())) == len(PHRASES)
    best = max(scores, key=scores.__getitem__)
    assert wsc.disambiguate_pronoun(MARKED, candidates=PHRASES) == best
    assert wsc.disambiguate_pronoun(MARKED, candidates=[f" {p} " for p in PHRASES]) == best
    for phrase in PHRASES:
        assert wsc.disambiguate_pronoun(MARKED, candidates=[phrase]) == phrase


def test_a_guess_is_true_if_no_candidate_beats_it(wsc: RobertaHubInterface) -> None:
    guesses = ["The trophy", "the brown suitcase"]
    verdicts = []
    for guess, other in (guesses, reversed(guesses)):
        marked = MARKED.replace(guess, f"_{guess}_")
        mine = by_hand(wsc, guess)
        for phrase in PHRASES:
            answer = wsc.disambiguate_pronoun(marked, candidates=[phrase])
            assert answer is (mine >= by_hand(wsc, phrase))
        everyone = wsc.disambiguate_pronoun(marked, candidates=PHRASES)
        assert everyone is all(mine >= by_hand(wsc, phrase) for phrase in PHRASES)
        assert wsc.disambiguate_pronoun(marked, candidates=[guess]) is True
        verdicts.append(wsc.disambiguate_pronoun(marked, candidates=[other]))
    assert sorted(verdicts) == [False, True]


def test_no_candidates_is_an_error_that_says_what_to_do(wsc: RobertaHubInterface) -> None:
    for candidates in ([], [" "]):
        with pytest.raises(ValueError, match=r"found nothing .*'it' could refer to.*candidates=\["):
            wsc.disambiguate_pronoun(MARKED, candidates=candidates)
    with pytest.raises(ValueError, match="too long"):
        wsc.disambiguate_pronoun("word " * 60 + "[it] is", candidates=["x"])


def test_the_mode_comes_back(wsc: RobertaHubInterface) -> None:
    wanted = wsc.disambiguate_pronoun(MARKED, candidates=PHRASES)
    wsc.train()
    try:
        assert wsc.disambiguate_pronoun(MARKED, candidates=PHRASES) == wanted
        assert wsc.model.training
    finally:
        wsc.eval()


@pytest.mark.parametrize(
    "sentence",
    [
        "no marks",
        "two [it] and [it]",
        "open [it",
        "wrong ]it[",
        "one _guess [it]",
        "a _b_ _c_ [it]",
        None,
    ],
)
def test_marks_that_are_wrong(sentence: Any) -> None:
    with pytest.raises(ValueError, match=r"mark|order"):
        parse(sentence)


def test_marks_are_read() -> None:
    schema = parse("_The trophy._ did not fit, as [it,] was big.")
    assert (schema.pronoun, schema.query) == ("it", "The trophy")
    assert schema.text == "The trophy. did not fit, as it, was big."
    assert parse(MARKED).query is None
    assert parse(MARKED).text == MARKED.replace("[", "").replace("]", "")


# ---- candidates of a parsed sentence ----


def doc_of(words: str, pos: str, heads: list[int], deps: str) -> Any:
    spacy = pytest.importorskip("spacy")
    names = words.split()
    return spacy.tokens.Doc(
        spacy.blank("en").vocab,
        words=names,
        spaces=[following != "." for following in [*names[1:], "."]],
        pos=pos.split(),
        heads=heads,
        deps=deps.split(),
    )


DOC = {
    "words": "The city councilmen refused the angry demonstrators because they feared violence .",
    "pos": "DET NOUN NOUN VERB DET ADJ NOUN SCONJ PRON VERB NOUN PUNCT",
    "heads": [2, 2, 3, 3, 6, 6, 3, 9, 9, 3, 9, 3],
    "deps": "det compound nsubj ROOT det amod dobj mark nsubj advcl dobj punct",
}
SENTENCE = "The city councilmen refused the angry demonstrators because [they] feared violence."


def test_candidates_are_chunks_and_noun_runs_without_pronouns() -> None:
    found = candidates_in(doc_of(**DOC), parse(SENTENCE))  # type: ignore[arg-type]
    assert found == [
        "The city councilmen",
        "city councilmen",
        "the angry demonstrators",
        "demonstrators",
        "violence",
    ]


def test_candidates_leave_out_what_overlaps_the_guess() -> None:
    guessed = SENTENCE.replace("The city councilmen", "_The city councilmen_")
    found = candidates_in(doc_of(**DOC), parse(guessed))  # type: ignore[arg-type]
    assert found == ["the angry demonstrators", "demonstrators", "violence"]


def test_a_sentence_without_nouns_has_no_candidates() -> None:
    doc = doc_of(
        "They ran because they hid .",
        "PRON VERB SCONJ PRON VERB PUNCT",
        [1, 1, 4, 4, 1, 1],
        "nsubj ROOT mark nsubj advcl punct",
    )
    assert candidates_in(doc, parse("They ran because [they] hid.")) == []


def test_without_a_pipeline_the_error_names_the_ways_out(roberta: RobertaHubInterface) -> None:
    spacy = pytest.importorskip("spacy")
    if any(name.startswith("en_") for name in spacy.util.get_installed_models()):
        assert isinstance(roberta.disambiguate_pronoun(MARKED), str)
        return
    with pytest.raises(ImportError, match=r"spacy download en_core_web_lg.*candidates=\["):
        roberta.disambiguate_pronoun(MARKED)
