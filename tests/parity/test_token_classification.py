"""`tag` by transformers' strategies gives what its token-classification pipeline gives.

The probabilities of `test_the_vectors_of_their_tests` are those of
tests/pipelines/test_pipelines_token_classification.py of huggingface/transformers.
"""

from __future__ import annotations

import json
import random
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family

from roberta_hub import load_model
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.tag import label_words, merge_spans, probabilities

pytestmark = pytest.mark.parity
transformers = pytest.importorskip("transformers")
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
PLAIN = ["PER", "O", "LOC", "MISC", "ORG"]
KINDS = ["roberta", "gottbert", "bert", "bert-cased", "distilbert", "electra", "xlm-roberta"]
WORDS = [
    "Mary walked from Hamburg to Berlin with an epipheny",
    "Consuelo Araújo Noguera bought two tickets for tomorrow",
    "She reads English German and French every morning",
    "Mañana vamos a comprar dos billetes para Madrid",
    "the train from the bridge was late so we had coffee in the house",
    "where can we walk in the garden when the dog barked",
    "x",
]
"""Without punctuation: transformers takes blanks for the ends of words where there is no
WordPiece."""
MARKS = [
    "Mary's dog (a brown one), in the U.S.: name:mary,town:hamburg!",
    "berlin/paris 12:30 a@b.org - 今天我们去公园。 火车晚点了",
    "naïve résumé... “was it?” she said",
]
SAME = {"first": "first", "average": "average", "max": "max", "simple": "piece"}


def tagger(kind: str, folder: Path, labels: list[str]) -> Any:
    """(the pipeline, ours) of a random model whose labels are far apart."""
    names = dict(enumerate(labels))
    numbers = {name: i for i, name in names.items()}
    write_family(
        kind,
        folder,
        head="tokens",
        num_labels=len(labels),
        id2label=names,
        label2id=numbers,
    )
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.weight.mul_(12)
    model.save_pretrained(folder)
    if kind == "roberta":  # its files are in the package
        load_model(folder).save(folder / "whole", format="huggingface")
        folder = folder / "whole"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pipeline = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer)
    return pipeline, load_model(folder)


def said(text: str, found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(label, start, end, score) of the pipeline's groups, without blanks at their edges."""
    groups = []
    for group in found:
        start, end = group["start"], group["end"]
        start += len(text[start:end]) - len(text[start:end].lstrip())
        end -= len(text[start:end]) - len(text[start:end].rstrip())
        if start < end:  # a "▁" by itself covers nothing
            groups.append(
                (group["entity_group"], start, end, pytest.approx(group["score"], abs=1e-4))
            )
    return groups


@pytest.mark.parametrize(
    "labels", [LABELS, PLAIN, ["0", "1", "2"]], ids=["BIO", "plain", "numbers"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_strategies_are_the_pipelines(tmp_path, kind, labels):
    pipeline, roberta = tagger(kind, tmp_path, labels)
    if kind in ("gottbert", "xlm-roberta"):
        # Of its own words: a space that is a piece is a word of its own in transformers.
        pieces = [p[1:] for p in roberta.tokenizer.pieces() if re.fullmatch("[▁Ġ][A-Za-z]+", p)]
        assert len(pieces) > 8
        texts = everywhere = [" ".join(pieces[n : n + 6]) for n in range(1, 40, 3)]
        assert not {"▁", "Ġ"} & {piece for text in texts for piece in roberta.tokenize(text)}
    elif kind == "roberta":
        texts, everywhere = WORDS, WORDS + MARKS
    else:
        texts = everywhere = WORDS + MARKS
    seen = set()
    for theirs, ours in SAME.items():
        for text in everywhere if theirs == "simple" else texts:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of tokenizers without words
                wanted = said(text, pipeline(text, aggregation_strategy=theirs))
            found = [
                (s.label, s.start, s.end, s.score) for s in roberta.tag(text, aggregation=ours)
            ]
            assert found == wanted, (theirs, text)
            seen.update(label for label, *_ in found)
    assert len(seen) > 1


@pytest.mark.parametrize("kind", ["roberta", "bert-cased", "xlm-roberta"])
def test_each_piece_is_the_pipelines(tmp_path, kind):
    """The strategy "none"."""
    pipeline, roberta = tagger(kind, tmp_path, PLAIN)
    runner = Runner(model=roberta.model, tokenizer=roberta.tokenizer)
    (head,) = roberta.model.token_heads
    texts = WORDS + MARKS
    for text, found in zip(texts, probabilities(runner, texts, head), strict=True):
        for piece in pipeline(text, aggregation_strategy="none", ignore_labels=[]):
            score, number = found[piece["index"]].max(0)
            assert PLAIN[int(number)] == piece["entity"]
            assert float(score) == pytest.approx(piece["score"], abs=1e-4)


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert", "albert"])
def test_a_space_that_is_a_piece_is_the_words_first(tmp_path, kind):
    """As `word_ids` has it, by which heads are trained; the pipeline makes it a word of its own."""
    folder = tmp_path / kind
    write_family(kind, folder, head="tokens")
    load_model(folder).save(tmp_path / "whole", format="huggingface")
    roberta = load_model(tmp_path / "whole")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "whole")
    from roberta_hub.inference.tag import first_pieces

    words = ["Mary", "7", "qz", "今天", "house", "Ω", "9th"]
    theirs = tokenizer(words, is_split_into_words=True).word_ids()
    text = " ".join(words)
    ends = [text.index(word) + len(word) for word in words]
    places = [(end - len(word), end) for word, end in zip(words, ends, strict=True)]
    assert first_pieces(roberta.tokenizer, text, places) == [
        theirs.index(number) for number in range(len(words))
    ]
    assert "▁" in roberta.tokenize(text)
    assert json.loads((tmp_path / "whole" / "config.json").read_text())


def test_a_kind_of_entity_may_be_called_o(tmp_path: Path) -> None:
    """B-O is an entity O, as artifacts are in CNEC; transformers takes it for outside."""
    pipeline, ours = tagger("bert", tmp_path, ["O", "B-O", "I-O"])
    text = "Mary walked from Hamburg to Berlin with an epipheny"
    pieces = pipeline(text, ignore_labels=[], aggregation_strategy="none")
    inside = {(p["start"], p["end"]) for p in pieces if p["entity"] != "O"}
    assert inside
    spans = ours.tag(text, aggregation="piece")
    assert {span.label for span in spans} == {"O"}
    for start, end in inside:
        assert any(span.start <= start and end <= span.end for span in spans)
    assert pipeline(text, aggregation_strategy="simple") == []


MISC = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
ENZO = [("Enzo", 0, [2, 2]), ("UN", 11, [2])]
"""Words of their tests with their places, and the lengths of their pieces."""
VECTORS: list[tuple[list[str], Any, list[dict[int, float]], dict[str, Any]]] = [
    (
        MISC,
        ENZO,
        [{4: 0.9968166351318359}, {4: 0.9957635998725891}, {5: 0.9986497163772583}],
        {
            "simple": [("PER", 0.99629, 0, 4), ("ORG", 0.99865, 11, 13)],
            "first": [("PER", 0.99682, 0, 4), ("ORG", 0.99865, 11, 13)],
            "max": [("PER", 0.99682, 0, 4), ("ORG", 0.99865, 11, 13)],
            "average": [("PER", 0.99629, 0, 4), ("ORG", 0.99865, 11, 13)],
        },
    ),
    (
        ["O", "MISC", "PER", "ORG", "LOC"],
        ENZO,
        [{4: 0.9968166351318359}, {4: 0.9957635998725891}, {3: 0.9986497163772583}],
        {"simple": [("LOC", 0.99629, 0, 4), ("ORG", 0.99865, 11, 13)]},
    ),
    (
        MISC,  # the average is of no piece's own label
        [("Ramazotti", 0, [2, 2, 5])],
        [{1: 0.55, 3: 0.45}, {3: 0.2, 7: 0.8}, {3: 0.4, 6: 0.6}],
        {
            "first": [("MISC", 0.55, 0, 9)],
            "max": [("LOC", 0.8, 0, 9)],
            "average": [("PER", 0.35, 0, 9)],
        },
    ),
]


def aggregated(
    pipeline: Any, words: Any, found: torch.Tensor, strategy: str
) -> list[tuple[Any, ...]]:
    """(label, score, start, end) of the pipeline's groups, "O" left out."""
    entities = []
    for word, start, lengths in words:
        at = start
        for number, length in enumerate(lengths):
            entities.append(
                {
                    "word": f"{'##' * bool(number)}{word[at - start : at - start + length]}",
                    "scores": found[len(entities)].numpy(),
                    "start": at,
                    "end": at + length,
                    "index": len(entities) + 1,
                    "is_subword": bool(number),
                }
            )
            at += length
    kind = transformers.pipelines.token_classification.AggregationStrategy(strategy)
    groups = pipeline.aggregate(entities, kind)
    return [
        (g["entity_group"], float(g["score"]), g["start"], g["end"])
        for g in groups
        if g["entity_group"] != "O"
    ]


def ours_aggregated(
    words: Any, found: torch.Tensor, labels: list[str], strategy: str
) -> list[tuple[Any, ...]]:
    places, pieces, at = [], [], 0
    for _, start, lengths in words:
        if strategy == "simple":  # each piece by itself
            for number, length in enumerate(lengths):
                first = start + sum(lengths[:number])
                places.append((first, first + length))
                pieces.append([at + number])
        else:
            places.append((start, start + sum(lengths)))
            pieces.append([*range(at, at + len(lengths))])
        at += len(lengths)
    said = label_words(found, pieces, labels, SAME[strategy])  # type: ignore[arg-type]
    text = "x" * places[-1][1]
    spans = merge_spans(text, places, [la for la, _ in said], [p for _, p in said], [*labels, "O"])
    return [(span.label, span.score, span.start, span.end) for span in spans]


@pytest.fixture(scope="module")
def aggregating(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tagger("bert-cased", tmp_path_factory.mktemp("aggregating"), MISC)[0]


@pytest.mark.parametrize("row", VECTORS, ids=["Enzo", "without B and I", "Ramazotti"])
def test_the_vectors_of_their_tests(aggregating: Any, row: Any) -> None:
    labels, words, scores, answers = row
    found = torch.zeros(len(scores), len(labels))
    for piece, own in enumerate(scores):
        for label, score in own.items():
            found[piece, label] = score
    aggregating.model.config.id2label = dict(enumerate(labels))
    for strategy, wanted in answers.items():
        close = [(la, pytest.approx(p, abs=5e-6), start, end) for la, p, start, end in wanted]
        assert aggregated(aggregating, words, found, strategy) == close
        assert ours_aggregated(words, found, labels, strategy) == close


@pytest.mark.parametrize("seed", range(60))
def test_random_vectors(aggregating: Any, seed: int) -> None:
    draw = random.Random(seed)
    labels = draw.choice([MISC, LABELS, PLAIN, ["O", "B-A-B", "I-A-B", "B-A", "I-A"]])
    words, at = [], 0
    for _ in range(draw.randint(1, 9)):
        lengths = [draw.randint(1, 4) for _ in range(draw.randint(1, 4))]
        words.append(("x" * sum(lengths), at, lengths))
        at += sum(lengths) + 1
    count = sum(len(lengths) for _, _, lengths in words)
    generator = torch.Generator().manual_seed(seed)
    found = (3 * torch.randn(count, len(labels), generator=generator)).softmax(-1)
    aggregating.model.config.id2label = dict(enumerate(labels))
    for strategy in SAME:
        assert ours_aggregated(words, found, labels, strategy) == [
            (la, pytest.approx(p, abs=1e-6), start, end)
            for la, p, start, end in aggregated(aggregating, words, found, strategy)
        ]
