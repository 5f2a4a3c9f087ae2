"""Compares our answers about a random folder with those of its peers."""

from __future__ import annotations

import random
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.inference.tag import probabilities

from . import folder_texts
from .folder_found import PROBABILITY, TOLERANCE, Found
from .folder_models import Model
from .folder_peers import Text, TextPeer, has_run, is_graphemic, states
from .folder_tokenizers import Vocabulary

LONGEST_ANSWER = 30
OF_A_MODEL = (
    "byte_fallback",
    "add_dummy_prefix",
    "remove_extra_whitespaces",
    "user_defined_symbols",
)
"""What a `.model` alone says, and transformers' classes do not ask it."""


@dataclass
class Case:
    """A folder that both read."""

    draw: random.Random
    vocabulary: Vocabulary
    model: Model
    ours: RobertaHubInterface
    peer: TextPeer
    found: Found
    limit: int
    """Longest text in tokens."""
    tolerance: float = TOLERANCE
    """Of states."""
    has_pairs: bool = True
    """Else the table of segments has one row, and transformers dies of the second."""

    def texts(self, count: int) -> list[str]:
        return folder_texts.texts(self.draw, self.vocabulary.words, count)

    def plain(self, count: int) -> list[str]:
        """Short texts that fit."""
        rows = [folder_texts.plain(self.draw, self.vocabulary.words) for _ in range(2 * count)]
        return [row for row in rows if self.fits(row)][:count]

    def fits(self, text: Text) -> bool:
        if not isinstance(text, str) and not self.has_pairs:
            return False
        is_short = len(self.peer.ids(text)) <= self.limit
        return is_short and self.peer.is_same(text) and not is_open(self, text)

    def pairs(self, count: int) -> list[tuple[str, str]]:
        rows = [
            (folder_texts.plain(self.draw, most=3), folder_texts.plain(self.draw, most=3))
            for _ in range(3 * count)
        ]
        return [row for row in rows if self.fits(row)][:count]

    def pipeline(self, task: str, **options: Any) -> Any:
        return transformers.pipeline(
            task, model=self.model.peer, tokenizer=self.peer.theirs, device="cpu", **options
        )


# ---- ids ----


def is_open(case: Case, text: Text) -> bool:
    """Whether ids are others than transformers' where a documented difference lets them be."""
    given = (text,) if isinstance(text, str) else text
    if not expected(case, text)[1]:
        return False
    return bool(case.ours.encode(*given).tolist() != case.peer.ids(text))


def expected(case: Case, text: Text) -> tuple[list[int] | None, str]:
    """Ids of a text; None where a documented difference leaves them open, and its name."""
    peer = case.peer
    parts = (text,) if isinstance(text, str) else text
    is_unigram = case.vocabulary.model is not None
    if not is_unigram:
        return peer.ids(text), ""
    from_model = case.vocabulary.about["layout"] == "own files" or (
        "tokenizer.json" in case.vocabulary.about.get("without", ())
    )
    is_albert = case.vocabulary.engine == "albert"
    if from_model:
        names = [name for name in OF_A_MODEL if name in case.vocabulary.about]
        if not is_albert and "user_defined_symbols" in names:
            names.remove("user_defined_symbols")
        if is_albert and any("," in part for part in parts):
            names.append("ALBERT's commas")
        if names:
            name = names[0] if names[0].startswith("ALBERT") else f"{names[0]} of a .model"
            return peer.by_model(text, cut_commas=is_albert), name
    if (peer.mapped and any(map(is_graphemic, parts))) or any(map(has_run, parts)):
        return peer.by_sentencepiece(text), "SentencePiece's character map"
    return peer.ids(text), ""


def check_ids(case: Case) -> list[str]:
    """Ids of texts, of pairs, of texts that are cut; returns texts for vectors."""
    draw, words = case.draw, case.vocabulary.words
    controls = [word for word in sorted(case.peer.controls) if draw.random() < 0.3]
    lines = [*case.texts(12), *folder_texts.texts(draw, [*words, *controls], 3)]
    pairs = list(zip(lines[::2], lines[1::2], strict=False))
    runner = case.ours._sentence_runner(truncate=True)[1]
    kept = []
    for text in (*lines, *pairs):
        given = (text,) if isinstance(text, str) else text
        theirs, name = expected(case, text)
        with case.found.asking("encode"):
            ours = case.ours.encode(*given).tolist()
            if name and ours != case.peer.ids(text):
                asked = "SentencePiece agrees" if theirs is not None else "nobody is asked"
                case.found.documented[f"{name}: {asked}"] += 1
                if theirs is not None:
                    case.found.same("ids by SentencePiece", ours, theirs, text)
                continue
            case.found.same("ids", ours, case.peer.ids(text), text)
            cut = runner.ids([text])[0].tolist()
            if case.limit > 4:
                case.found.same("ids, cut", cut, case.peer.cut(text, case.limit), text)
            if not case.peer.is_same(text):
                case.found.documented["control words are text"] += 1
            elif isinstance(text, str):
                kept.append(text)
    return kept


# ---- states ----


def check_states(case: Case, texts: list[str]) -> None:
    """Hidden states of texts and pairs; the pooler."""
    if not texts:
        return
    inputs = [case.peer.inputs(text, case.limit) for text in texts]
    theirs = states(case.model.peer, inputs)
    with case.found.asking("features"):
        ours = case.ours.features(texts, truncate=True)
        for text, mine, other in zip(texts, ours, theirs, strict=True):
            case.found.close("states", mine, other, text, case.tolerance)
    pairs = case.pairs(3)
    with case.found.asking("features of pairs"):
        ours = case.ours.features(pairs)
        others = [case.peer.inputs(pair) for pair in pairs]
        for pair, mine, other in zip(pairs, ours, states(case.model.peer, others), strict=True):
            case.found.close("states of pairs", mine, other, pair, case.tolerance)
    base = case.model.peer.base_model
    if case.model.head == "bare" and getattr(base, "pooler", None) is not None:
        with case.found.asking("pooler"):
            mine = case.ours.features(texts, pooling="pooler", truncate=True)
            with torch.no_grad():
                wanted = [base(**given).pooler_output[0] for given in inputs]
            case.found.close("pooler", mine, torch.stack(wanted), texts)


# ---- heads ----


def check_sentence(case: Case) -> None:
    """classify, as the pipeline; zero_shot, as its pipeline."""
    config, found = case.model.peer.config, case.found
    ask = case.pipeline("text-classification")
    one = config.num_labels == 1 and config.problem_type != "regression"
    options: dict[str, Any] = {"multi_label": True} if one else {}
    texts, pairs = case.plain(4), case.pairs(2)
    is_nli = any("entail" in name.lower() for name in case.model.labels)
    inputs: list[Any] = [*texts, *({"text": a, "text_pair": b} for a, b in pairs)]
    theirs = ask(inputs, top_k=None) if inputs else []
    if is_nli and len(case.model.labels) > 1:  # such a head is asked about pairs alone
        with found.asking("classify texts of a head for pairs"):
            case.ours.classify(texts[:1], **options)
        theirs, texts = theirs[len(texts) :], []
    with found.asking("classify"):
        for text, ours, other in zip(
            [*texts, *pairs], case.ours.classify([*texts, *pairs], **options), theirs, strict=True
        ):
            scores = {row["label"]: row["score"] for row in other}
            found.same("labels", sorted(ours.scores), sorted(scores), text)
            if ours.scores.keys() != scores.keys():
                continue
            names = sorted(scores)
            mine, others = (torch.tensor([own[n] for n in names]) for own in (ours.scores, scores))
            found.close("scores", mine, others, text, PROBABILITY)
            if max(scores.values()) - scores[ours.label] > PROBABILITY * max(
                1, *map(abs, scores.values())
            ):
                found.same("label", ours.label, other[0]["label"], text)
            if config.problem_type == "multi_label_classification" and not one:
                clear = {n for n in names if abs(scores[n] - 0.5) > PROBABILITY}
                given = {n for n in names if scores[n] >= 0.5}
                found.same("labels given", {*ours.labels} & clear, given & clear, text)
    texts = inputs[: len(inputs) - len(pairs)]
    if is_nli and config.num_labels == 3 and texts:
        zero = case.pipeline("zero-shot-classification")
        several = case.draw.random() < 0.5
        choices = ["art", "sport", "news"][: case.draw.randint(1, 3)]
        at = [name.lower().startswith("entail") for name in case.model.labels].index(True)
        if not case.model.labels[0 if at else -1].lower().startswith("contra"):
            # transformers goes by the place and not by the name: docs/start/from_transformers.md.
            found.documented["contradiction is another class than the first"] += 1
            several, choices = False, ["art", "sport", "news"]
        template = case.draw.choice(("This example is {}.", "Is it {}?"))
        texts = [text for text in texts if case.fits((text, template.format("sport")))]
        if texts:
            rows = zero(texts, choices, hypothesis_template=template, multi_label=several)
            with found.asking("zero_shot"):
                answers = case.ours.zero_shot(
                    texts, choices, hypothesis=template, multi_label=several, by="entailment"
                )
                for text, ours, other in zip(texts, answers, rows, strict=True):
                    mine = torch.tensor([ours.scores[n] for n in other["labels"]])
                    found.close("zero_shot", mine, torch.tensor(other["scores"]), text, PROBABILITY)


def check_tokens(case: Case) -> None:
    """Probabilities of pieces; spans by each strategy where both know the same words."""
    found = case.found
    ask = case.pipeline("token-classification")
    runner = case.ours._runner()
    (head,) = case.ours.model.token_heads
    texts = [text for text in case.texts(6) if case.fits(text) and not is_open(case, text)]
    for text in texts:
        with found.asking("tag"):
            (own,) = probabilities(runner, [text], head)
            with torch.no_grad():
                logits = case.model.peer(**case.peer.inputs(text)).logits[0]
            found.close("pieces", own, logits.softmax(-1), text, PROBABILITY)
    strategies = {"simple": "piece", "first": "first", "average": "average", "max": "max"}
    for text in case.plain(6):
        if is_open(case, text):
            continue
        pieces = case.peer.theirs.convert_ids_to_tokens(case.peer.ids(text))
        words = case.vocabulary.engine == "wordpiece"
        if has_lone(case, text):
            continue
        own = case.peer.own.intersection(case.peer.ids(text))
        unknown = case.peer.theirs.unk_token in pieces
        for theirs, ours in strategies.items():
            # A heuristic on letters takes characters of several byte pieces apart.
            is_odd = not words and (unknown or not text.isascii())
            if theirs != "simple" and (own or is_odd):
                continue
            rows = ask(text, aggregation_strategy=theirs)
            wanted = [said(text, row) for row in rows]
            wanted = [row for row in wanted if row[1] < row[2]]
            with found.asking("tag"):
                spans = case.ours.tag(text, aggregation=ours)  # type: ignore[call-overload]
                mine = [(s.label, s.start, s.end) for s in spans]
                scores = torch.tensor([s.score for s in spans])
                if mine != [row[:3] for row in wanted] and nearly_tied(case, text):
                    continue
                found.same(f"tag, {ours}", mine, [row[:3] for row in wanted], text)
                if len(mine) == len(wanted):
                    others = torch.tensor([row[3] for row in wanted])
                    found.close(f"tag, {ours}", scores, others, text, PROBABILITY)


def has_lone(case: Case, text: str) -> bool:
    """Whether places of pieces differ.

    A space that is a piece covers a letter in fast tokenizers and nothing here, of a letter whose
    mark is dropped they have the letter alone, and behind an added word with `rstrip` a byte-level
    one that adds spaces moves a letter's place.
    """
    is_marked = any(unicodedata.category(character)[0] == "M" for character in text)
    has_own = bool(case.peer.own.intersection(case.peer.ids(text)))
    is_marked |= has_own and case.vocabulary.engine == "bytes"  # a space that is not in the text
    return is_marked or bool({"▁", "Ġ"}.intersection(case.peer.textual.encode(text).tokens))


def nearly_tied(case: Case, text: str) -> bool:
    """Whether two labels of a piece are as likely as each other but for rounding."""
    with torch.no_grad():
        own = case.model.peer(**case.peer.inputs(text)).logits[0].softmax(-1)
    best = own.topk(2, dim=-1).values
    return bool((best[:, 0] - best[:, 1] < PROBABILITY).any())


def said(text: str, row: dict[str, Any]) -> tuple[str, int, int, float]:
    """(label, start, end, score) of the pipeline's group, without blanks at its edges."""
    start, end = row["start"], row["end"]
    start += len(text[start:end]) - len(text[start:end].lstrip())
    end -= len(text[start:end]) - len(text[start:end].rstrip())
    return row["entity_group"], start, end, float(row["score"])


def check_lm(case: Case) -> None:
    """fill_mask, as the pipeline; the rows that have no word have no part in it."""
    found, draw, theirs = case.found, case.draw, case.peer.theirs
    count = max(theirs.get_vocab().values()) + 1
    ask = case.pipeline("fill-mask")
    for _ in range(4):
        before, after = folder_texts.plain(draw, most=3), folder_texts.plain(draw, most=3)
        kind = draw.random()
        mask = theirs.mask_token
        text = f"{before} {mask} {after}" if kind < 0.6 else f"{before} {mask}"
        text = f"{mask} {after}" if kind > 0.8 else text
        # The blank before a mask belongs to it, whatever `lstrip` says: docs/reference/formats.md.
        asked = text.replace(f" {mask}", mask)
        if len(theirs(asked)["input_ids"]) > case.limit or expected(case, asked)[1]:
            continue  # the mask is text for `is_open`, and here it parts the text
        rows = ask(asked, top_k=min(count, 100))
        with torch.no_grad():
            given = case.peer.inputs(asked)
            logits = case.model.peer(**given).logits[0]
        at = given["input_ids"][0] == theirs.mask_token_id
        known = float(logits[at][0].softmax(-1)[:count].sum())
        with found.asking("fill_mask"):
            ours = case.ours.fill_mask(text, topk=5)
            wanted = {row["token"]: row["score"] / known for row in rows}
            listed = [
                row["score"] / known
                for row in rows
                if row["token"] < count and is_listed(case, row["token"])
            ]
            scores = torch.tensor([probability for _, probability, _ in ours])
            if len(listed) >= 5:
                found.close("fill_mask", scores, torch.tensor(listed[:5]), text, PROBABILITY)
            numbers = [theirs.convert_tokens_to_ids(word.piece) for *_, word in ours]  # type: ignore[attr-defined]
            others = torch.tensor([wanted.get(number, 9.0) for number in numbers])
            found.close("fill_mask's words", scores, others, (text, ours), PROBABILITY)


def is_listed(case: Case, number: int) -> bool:
    """Whether fill_mask answers with a row: no special word, and a piece that a text may have."""
    piece = case.peer.theirs.convert_ids_to_tokens(number)
    if number in case.peer.control_ids:
        return False
    if case.vocabulary.engine != "wordpiece" or number in case.peer.own:
        return piece not in case.peer.controls
    return piece not in case.peer.controls and case.peer.is_reachable(piece)


def check_span(case: Case) -> None:
    """Answer, against the search over every pair of transformers' logits."""
    for _ in range(4):
        question = folder_texts.plain(case.draw, most=3)
        context = folder_texts.plain(case.draw, case.vocabulary.words, most=6)
        if not case.fits((question, context)) or is_open(case, (question, context)):
            continue
        if has_lone(case, context):
            continue
        given = case.peer.theirs(
            question, context, return_tensors="pt", return_offsets_mapping=True
        )
        places = given.sequence_ids(0)
        offsets = given.pop("offset_mapping")[0].tolist()
        out = None
        with torch.no_grad():
            out = case.model.peer(**given)
        best, null = best_span(out, places, offsets, context)
        with case.found.asking("answer"):
            ours = case.ours.answer(question, context, no_answer=False)
            mine, other = torch.tensor([ours.score]), torch.tensor([best[0]])
            case.found.close("answer's score", mine, other, (question, context), PROBABILITY)
            if best[0] - best[3] > PROBABILITY:
                case.found.same("answer", (ours.start, ours.end), best[1:3], (question, context))
            ours = case.ours.answer(question, context)
            if abs(best[0] - null) > PROBABILITY:
                is_null = null > best[0]
                case.found.same("no answer", ours.text == "", is_null, (question, context))


def best_span(
    out: Any, places: list[int | None], offsets: list[list[int]], context: str
) -> tuple[tuple[float, int, int, float], float]:
    """(score, first character, end, the second best's score), and the score of no answer."""
    own = [n for n, place in enumerate(places) if place == 1]
    kept = torch.tensor([0, *own])
    start = out.start_logits[0, kept].softmax(0).tolist()
    end = out.end_logits[0, kept].softmax(0).tolist()
    found: dict[tuple[int, int], float] = {}
    for first in range(len(own)):
        for last in range(first, min(len(own), first + LONGEST_ANSWER)):
            inked = [
                stretch
                for n in own[first : last + 1]
                for stretch in [bare(context, *offsets[n])]
                if stretch[0] < stretch[1]
            ]
            if inked:
                place = inked[0][0], inked[-1][1]
                score = start[first + 1] * end[last + 1]
                found[place] = max(found.get(place, 0.0), score)
    ranked = sorted(((score, place) for place, score in found.items()), reverse=True)
    score, (begin, stop) = ranked[0]
    second = ranked[1][0] if len(ranked) > 1 else 0.0
    return (score, begin, stop, second), start[0] * end[0]


def bare(text: str, start: int, end: int) -> tuple[int, int]:
    """A stretch without blanks at its edges."""
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def check_choice(case: Case) -> None:
    """Choose, against the softmax over options."""
    context = folder_texts.plain(case.draw, most=3)
    options = [folder_texts.plain(case.draw, most=3) for _ in range(3)]
    if len({*options}) < 3 or not all(case.fits((context, option)) for option in options):
        return
    if any(is_open(case, (context, option)) for option in options):
        return
    scores = []
    for option in options:
        given = case.peer.inputs((context, option))
        with torch.no_grad():
            scores.append(case.model.peer(**{k: v[None] for k, v in given.items()}).logits[0, 0])
    theirs = torch.stack(scores).softmax(0)
    with case.found.asking("choose"):
        ours = case.ours.choose(context, options)
        mine = torch.tensor([ours.scores[option] for option in options])
        case.found.close("choose", mine, theirs, (context, options), PROBABILITY)


def check_pretraining(case: Case) -> None:
    """replaced, next sentences, order of sentences, and the language model beside them."""
    out_of: dict[str, Tensor]
    for pair in case.pairs(3):
        given = case.peer.inputs(pair)
        with torch.no_grad():
            out_of = dict(case.model.peer(**given))
        ids = given["input_ids"]
        if case.model.family == "electra":
            with case.found.asking("replaced"):
                (mine,) = case.ours.replaced([pair])
                kept = torch.tensor(case.peer.textual.encode(*pair).special_tokens_mask) == 0
                case.found.close(
                    "replaced",
                    torch.tensor(mine),
                    out_of["logits"].sigmoid()[0][kept],
                    pair,
                    PROBABILITY,
                )
            continue
        names = {"seq_relationship_logits": "nsp", "sop_logits": "sop", "logits": "nsp"}
        for key, head in names.items():
            if key in out_of:
                with case.found.asking(head):
                    mine = case.ours.predict(head, ids[0], return_logits=True)
                    case.found.close(head, mine, out_of[key], pair)
        if "prediction_logits" in out_of:
            features = case.ours.extract_features(ids[0])
            mine = case.ours.model.encoder.output_layer(features)  # type: ignore[union-attr, operator]
            case.found.close("logits", mine, out_of["prediction_logits"], pair)


CHECKS: dict[str, Callable[[Case], None]] = {
    "lm": check_lm,
    "sentence": check_sentence,
    "tokens": check_tokens,
    "span": check_span,
    "choice": check_choice,
    "pretraining": check_pretraining,
    "next": check_pretraining,
}


def load(folder: Any, **options: Any) -> RobertaHubInterface:
    """Our model of a folder, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return roberta_hub.load_model(folder, **options).eval()
