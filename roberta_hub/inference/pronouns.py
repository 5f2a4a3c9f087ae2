"""Resolves pronouns in Winograd schemas, as fairseq's `roberta.large.wsc`.

"The trophy would not fit in the suitcase because _the trophy_ [it] was too big.": brackets mark the
pronoun, underscores a guess. The score of a candidate is the mean log-probability of its tokens,
masked, in the pronoun's place (fairseq `examples/roberta/wsc/wsc_task.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, InputTypeError, MissingExtraError
from roberta_hub.inference.batching import BatchStates, Runner, check_lm_head, lm_logits
from roberta_hub.inference.words import require_spacy
from roberta_hub.text.alignment import align
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.texts import as_strings
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import without_added

_PUNCTUATION = '.,"'
"""What WSC writes behind a pronoun, and is none of it."""


@dataclass(frozen=True)
class WinogradSchema:
    """A sentence around a pronoun, and the guess to judge, if any."""

    before: str
    pronoun: str
    after: str
    query: str | None

    @property
    def text(self) -> str:
        """The sentence without its marks."""
        return self.before + self.pronoun + self.after


def parse(sentence: str) -> WinogradSchema:
    """Read the marks of a sentence.

    Example:
        >>> schema = parse("The dog bit _the man_ because [he] ran.")
        >>> schema.before, schema.pronoun, schema.after, schema.query
        ('The dog bit the man because ', 'he', ' ran.', 'the man')
    """
    if not isinstance(sentence, str) or sentence.count("[") != 1 or sentence.count("]") != 1:
        raise InputError(
            f"{short_repr(sentence, 200)}: mark the pronoun, once, with square brackets: '... "
            "because [it] ...'"
        )
    if sentence.count("_") not in (0, 2):
        raise InputError(
            f"{short_repr(sentence, 200)}: mark the guess with two underscores, '_the trophy_', or "
            "not at all"
        )
    query = sentence.split("_")[1] if "_" in sentence else None
    before, rest = sentence.replace("_", "").split("[")
    if "]" not in rest:
        raise InputError(f"{short_repr(sentence, 200)}: the brackets are in the wrong order")
    pronoun, after = rest.split("]")
    # Punctuation inside the marks belongs to the sentence, not to the words.
    bare = pronoun.rstrip(".,")
    if query is not None and query.endswith((".", ",")):
        query = query[:-1]
    if query is not None and not query.strip():
        raise InputError(f"{short_repr(sentence, 200)}: there is no guess between the underscores")
    return WinogradSchema(before, bare, pronoun[len(bare) :] + after, query)


def disambiguate_pronoun(
    runner: Runner,
    sentence: str,
    *,
    candidates: Sequence[str] | None = None,
    init_token: bool = False,
) -> bool | str:
    """Judge the guess, or find the best candidate.

    See `RobertaHubInterface.disambiguate_pronoun`.
    """
    check_lm_head(runner.model, "disambiguate_pronoun")
    schema = parse(sentence)
    if isinstance(candidates, str):
        raise InputTypeError(f"candidates is one str; pass a list, [{short_repr(candidates)}]")
    if candidates is None:
        candidates = find_candidates(schema)
    candidates = as_strings(candidates, "candidates", "texts")
    candidates = [c for c in candidates if c.strip()]
    if schema.query is None and not candidates:
        raise InputError(
            f"found nothing in {schema.text!r} that {schema.pronoun!r} could refer to; name the "
            "possibilities with candidates=[...]"
        )
    guess = [schema.query] if schema.query is not None else []
    scores = span_scores(runner, schema, [*guess, *candidates], init_token=init_token)
    if schema.query is None:
        return candidates[max(range(len(scores)), key=scores.__getitem__)].strip()
    return all(scores[0] >= rival for rival in scores[1:])


def span_scores(
    runner: Runner, schema: WinogradSchema, candidates: Sequence[str], *, init_token: bool
) -> list[float]:
    """Mean log-probability of each candidate's tokens, all masked, in the pronoun's place."""
    tokenizer = runner.tokenizer
    masked, answers, spans = [], [], []
    for candidate in candidates:
        ids, start, end = with_candidate(tokenizer, schema, candidate, init_token=init_token)
        if len(ids) > runner.limit:
            raise InputError(
                f"{schema.text[:40]!r}... is too long: {len(ids)} tokens > {runner.limit}; shorten "
                "the sentence"
            )
        answers.append(ids)
        spans.append((start, end))
        hidden = ids.clone()
        hidden[start:end] = tokenizer.mask_idx
        masked.append(hidden)

    def answer(rows: BatchStates) -> list[float]:
        scores = []
        for i, states in zip(rows.indices, rows.split(), strict=True):
            start, end = spans[i]
            logits = lm_logits(runner.model, states[start:end], len(runner.tokenizer))
            wanted = answers[i][start:end].unsqueeze(1).to(logits.device)
            scores.append(float(logits.log_softmax(-1).gather(1, wanted).mean()))
        return scores

    return runner.run(masked, answer)


def with_candidate(
    tokenizer: Tokenizer, schema: WinogradSchema, candidate: str, *, init_token: bool
) -> tuple[Tensor, int, int]:
    """Replace the pronoun by a candidate: (ids, start, end) with the span of its tokens.

    As fairseq (GPT-2's BPE only), tokenize the whole sentence and count the span from its parts.
    With other tokenizers the span is the pieces inside the candidate.
    """
    lead = schema.before[len(schema.before.rstrip()) :]
    prefix, name = schema.before.rstrip(), candidate.strip()
    text = prefix + lead + name + schema.after
    ids = tokenizer.encode(text)
    if isinstance(without_added(tokenizer.engine), GPT2BPE):
        start = FIRST_PIECE + len(tokenizer.ids_of(prefix))
        end = start + len(tokenizer.ids_of(lead + name))
    else:
        first = len(prefix + lead)
        (own,) = align(tokenizer, text, [(first, first + len(name))])
        if not own:
            raise InputError(f"candidate {short_repr(candidate)} has no piece in the vocabulary")
        start, end = own[0], own[-1] + 1
    if not init_token:  # wsc models were trained without <s>
        return ids[FIRST_PIECE:], start - FIRST_PIECE, end - FIRST_PIECE
    return ids, start, end


def find_candidates(schema: WinogradSchema) -> list[str]:
    """Noun phrases of the sentence that could be meant, by an installed spaCy pipeline.

    Noun phrases without pronouns and spans that overlap the guess.
    """
    nlp = english_pipeline()
    return candidates_in(nlp(schema.text), schema)


def candidates_in(doc: Any, schema: WinogradSchema) -> list[str]:
    """Return the candidates among a parsed sentence's noun phrases."""
    start, end = len(schema.before), len(schema.before) + len(schema.pronoun)
    found: list[str] = []
    query = schema.query.lower() if schema.query is not None else None
    for span in noun_phrases(doc):
        text = span.text
        if all(token.pos_ == "PRON" for token in span):
            continue
        if span.start_char < end and span.end_char > start:
            continue  # the pronoun itself
        if query is not None and (query in text.lower() or text.lower() in query):
            continue
        if text not in found:
            found.append(text)
    return found


def noun_phrases(doc: Any) -> list[Any]:
    """Return spaCy's noun chunks, and its runs of common nouns or of names, as spans in order.

    Source: fairseq `examples/roberta/wsc/wsc_utils.py`, `extended_noun_chunks`.
    """
    spans = {(chunk.start, chunk.end) for chunk in doc.noun_chunks}
    start = 0
    for kind, run in groupby(token.pos_ for token in doc):
        end = start + len(list(run))
        if kind in ("NOUN", "PROPN"):
            spans.add((start, end))
        start = end
    return [doc[first:last] for first, last in sorted(spans)]


def place_in_wsc(text: str, pronoun: str, word: object) -> tuple[str, int] | None:
    """Find a pronoun where a row of WSC says: (the pronoun, its first character); None: not there.

    Some numbers are one too low, and punctuation after the pronoun belongs to the sentence.

    Source: fairseq `examples/roberta/wsc/wsc_utils.py`, `jsonl_iterator`.

    Example:
        >>> place_in_wsc("Ann said it.", "it.", 1)
        ('it', 9)
    """
    words, pronoun = text.split(" "), pronoun.rstrip(_PUNCTUATION)
    for at in (word, word + 1) if isinstance(word, int) and word >= 0 else ():
        if pronoun and at < len(words) and words[at].rstrip(_PUNCTUATION) == pronoun:
            return pronoun, sum(len(own) + 1 for own in words[:at])
    return None


@lru_cache(maxsize=1)
def english_pipeline() -> Any:
    """Load an installed English pipeline of spaCy's, the largest first."""
    spacy = require_spacy("disambiguate_pronoun without candidates=[...]")
    installed = sorted(spacy.util.get_installed_models())
    for name in (
        "en_core_web_lg",
        "en_core_web_trf",
        "en_core_web_md",
        "en_core_web_sm",
        *installed,
    ):
        if name in installed and name.startswith("en_"):
            return spacy.load(name)
    raise MissingExtraError(
        "no English spaCy pipeline is installed to find candidates with: run `python -m spacy "
        "download en_core_web_lg`, or name them with candidates=[...]"
    )


def trained_with_bos(task: Any) -> bool:
    """Whether inputs began with `<s>`: all but those of wsc without an init_token.

    Our task has the attributes itself, fairseq's in `cfg` or, if older, in `args`.
    """
    arguments = getattr(task, "cfg", None) or getattr(task, "args", None)
    names = [getattr(task, "name", None)]
    names += [getattr(arguments, name, None) for name in ("_name", "task")]
    init_tokens = (getattr(owner, "init_token", None) for owner in (task, arguments))
    return "wsc" not in names or any(token is not None for token in init_tokens)
