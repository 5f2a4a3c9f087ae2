"""Pronouns as fairseq's own wsc task sets them up.

The same ids, the same masked span, the same scores.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from roberta_hub import load_model
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.pronouns import parse, span_scores, with_candidate

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]

CASES = [
    (
        "The _trophy_ would not fit in the brown suitcase because [it] was too big.",
        "the brown suitcase",
    ),
    ("[It] rained, so the match was off.", "The match"),
    ("Sam pulled up a chair because [he] wanted to sit.", "Sam"),
    ("Ann asked Bea whether the keys were [hers].", "Bea's"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wsc")
    peers.dictionary(folder)
    peers.save_era(peers.fairseq_model(folder), folder, "args", task="wsc", init_token=None)
    return folder


def wsc_task(interface: object, init_token: int | None) -> object:
    """fairseq's task around its own dictionary and BPE, without the data it wants to load."""
    peers.real_fairseq()
    from fairseq.examples.roberta.wsc.wsc_task import WSCTask

    task = WSCTask.__new__(WSCTask)
    task.vocab = interface.task.source_dictionary  # type: ignore[attr-defined]
    task.bpe, task.tokenizer = interface.bpe, None  # type: ignore[attr-defined]
    task.args = Namespace(init_token=init_token)
    return task


@pytest.mark.parametrize(("sentence", "candidate"), CASES)
@pytest.mark.parametrize("init_token", [None, 0])
def test_ids_spans_and_scores(
    folder: Path, sentence: str, candidate: str, init_token: int | None
) -> None:
    ours = load_model(folder).eval()
    assert (ours.task.name, ours.task.init_token) == ("wsc", None)
    theirs = peers.hub_interface(folder, task="masked_lm")
    schema = parse(sentence)
    lead = " " if schema.before.endswith(" ") else ""
    trail = " " if schema.after.startswith(" ") else ""
    wanted, mask = wsc_task(theirs, init_token).binarize_with_mask(  # type: ignore[attr-defined]
        candidate, schema.before.rstrip(), schema.after.lstrip(), lead, trail
    )
    ids, start, end = with_candidate(
        ours.tokenizer, schema, candidate, init_token=init_token is not None
    )
    assert ids.tolist() == wanted.tolist()
    span = mask.nonzero().squeeze(1).tolist()
    if init_token is not None:
        span = span[:-1]  # fairseq counts <s> twice there, and masks one token too many
    assert list(range(start, end)) == span
    with torch.no_grad():
        hidden = wanted.clone()
        hidden[start:end] = theirs.task.mask_idx
        logits = theirs.model(hidden.unsqueeze(0))[0][0]
        expected = F.log_softmax(logits, -1)[range(start, end), wanted[start:end]].mean()
    runner = Runner(model=ours.model, tokenizer=ours.tokenizer)
    (score,) = span_scores(runner, schema, [candidate], init_token=init_token is not None)
    assert score == pytest.approx(float(expected), abs=1e-5)


ROWS = [
    ("The trophy would not fit in the suitcase because it was too big.", "The trophy", "it", 9),
    ("Sam pulled up a chair for Tim, but he was late.", "sam", "he", 8),
    ("He said that Bob's dog was his last night.", "Bob's dog", "his", 6),
    ("It rained, so the match was off.", "the match", "It", 0),
    ("Ann asked Bea whether the keys were hers or not.", "the keys.", "hers", 7),
    ("Ann told her sister.", "Ann", "her", 1),  # one too low
]


@pytest.mark.filterwarnings("ignore")
def test_the_loop_of_the_readme_reads_the_same_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fairseq's needs a pipeline and a detokenizer; spaCy's tokens and plain joining stand in.

    It loses a full stop that stands right behind the pronoun, and ours does not.
    """
    import spacy

    from roberta_hub.fairseq_names import pronoun_files as ours

    peers.real_fairseq()
    from fairseq.examples.roberta.wsc import wsc_utils as theirs

    class Joined:
        def detokenize(self, tokens: list[str], return_str: bool) -> str:
            return " ".join(tokens)

    monkeypatch.setattr(theirs, "get_detokenizer", Joined)
    monkeypatch.setattr(theirs, "get_spacy_nlp", lambda: spacy.blank("en"))
    monkeypatch.setattr(ours, "english_pipeline", lambda: spacy.blank("en"))
    path = tmp_path / "val.jsonl"
    with open(path, "w") as file:
        for number, (text, query, pronoun, place) in enumerate(ROWS):
            target = {"span1_text": query, "span2_text": pronoun, "span2_index": place}
            row = {"text": text, "target": target, **({"label": number % 2 == 0} if number else {})}
            file.write(json.dumps(row) + "\n")
    sentences = list(ours.jsonl_iterator(path, eval=True))
    assert sentences == list(theirs.jsonl_iterator(path, eval=True))
    assert len(sentences) == len(ROWS)
    for positive in (True, False):
        own, wanted = (m.jsonl_iterator(path, positive_only=positive) for m in (ours, theirs))
        for one, other in zip(own, wanted, strict=True):
            assert [str(part) for part in one] == [str(part) for part in other]
            assert (one[1].start, one[1].end) == (other[1].start, other[1].end)
    for sentence, _ in sentences:
        assert ours.convert_sentence_to_json(sentence) == theirs.convert_sentence_to_json(sentence)
    for unmarked in ("[It] rained.", "Ann said [it] to _Bea_ again."):
        assert ours.convert_sentence_to_json(unmarked) == theirs.convert_sentence_to_json(unmarked)


def test_noun_phrases_are_fairseqs() -> None:
    """A common noun beside a name is a phrase of its own: "mayor" and "Ann", beside the chunk."""
    spacy = pytest.importorskip("spacy")
    from roberta_hub.inference.pronouns import candidates_in, noun_phrases, parse

    peers.real_fairseq()
    from fairseq.examples.roberta.wsc import wsc_utils as theirs

    doc = spacy.tokens.Doc(
        spacy.blank("en").vocab,
        words=["The", "town", "mayor", "Ann", "met", "Bob", "because", "she", "won"],
        pos=["DET", "NOUN", "NOUN", "PROPN", "VERB", "PROPN", "SCONJ", "PRON", "VERB"],
        heads=[3, 2, 3, 4, 4, 4, 8, 8, 4],
        deps=["det", "compound", "nmod", "nsubj", "ROOT", "dobj", "mark", "nsubj", "advcl"],
    )
    spans = [(span.start, span.end) for span in theirs.extended_noun_chunks(doc)]
    assert [(span.start, span.end) for span in noun_phrases(doc)] == spans
    chunks = theirs.extended_noun_chunks(doc)
    wanted = theirs.filter_noun_chunks(chunks, exclude_pronouns=True, exclude_query="Bob")
    schema = parse("The town mayor Ann met _Bob_ because [she] won")
    assert candidates_in(doc, schema) == [span.text for span in wanted]
