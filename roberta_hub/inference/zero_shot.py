"""Zero-shot classification: by entailment, by sentence vectors, or by both."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.arguments import advise, one_of, short_repr, switch, text_of
from roberta_hub.errors import InputError, Place, Remedy, placed
from roberta_hub.inference.batching import Runner, deduplicate
from roberta_hub.inference.classify import Prediction, window_values
from roberta_hub.inference.embed import text_vectors, within_limit
from roberta_hub.inference.heads import (
    Heads,
    entails,
    is_numbered,
)
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.model.known_head import heads_of
from roberta_hub.model.nli_labels import ENTAILMENT, contradiction_index, entailment_index
from roberta_hub.settings import (
    DEFAULT_THRESHOLD,
    HYPOTHESIS,
    WAYS,
    SentenceSettings,
    Way,
    ZeroShotSettings,
)
from roberta_hub.text.texts import as_strings
from roberta_hub.text.tokenizer import Text

ABOUT_TEMPLATE = "This text is about {}."
"""By meaning, a text is compared with the label and with this sentence; the mean is taken."""
MULTI_LABEL_TEMPERATURE = 2.0
"""Temperature of logits with cosines under `multi_label`: a cosine says less than its rank."""
ENTAILMENT_LABELS = 10
"""By both, entailment is computed for this many labels of a text, the nearest by meaning."""
_NO_NLI_HEAD = Remedy(
    "load a model that has one, or register and train one; roberta.labels[HEAD] = [...] names the "
    "classes of a head",
    "-m takes a model that has one; `roberta-hub train finetune=mnli` trains one",
)
_NO_NLI_HEAD_BUT_VECTORS = Remedy(
    'pass by="meaning", which asks this model\'s sentence vectors, or load a model that has one',
    "say --by meaning, which asks this model's sentence vectors; or -m takes a model that has one",
)
_VECTORS_AND_NO_HEAD = Remedy(
    'leave head= out and pass by="meaning", which asks this model\'s sentence vectors, or load a '
    "model that has one",
    "leave --head out and say --by meaning, which asks this model's sentence vectors; or -m takes "
    "a model that has one",
)
_SAY_THE_ORDER = Remedy(
    "roberta.labels[HEAD] = [...] names the classes of a head in the order of its training, "
    '["contradiction", "neutral", "entailment"] for one; so does id2label in config.json',
    "id2label in config.json names the classes of a head in the order of its training, "
    '{"0": "contradiction", "1": "neutral", "2": "entailment"} for one',
)
_NO_VECTORS = Remedy(
    'pass by="entailment", or set roberta.sentence = SentenceSettings(...) if its vectors compare',
    "say --by entailment, or -m takes a model with sentence vectors",
)


def zero_shot(
    model: VerbModel,
    texts: Sequence[Text],
    labels: Sequence[str],
    *,
    hypothesis: str = HYPOTHESIS,
    head: str | None = None,
    multi_label: bool = False,
    by: str | None = None,
    none: str | None = None,
) -> list[Prediction]:
    """Judge labels in words. See `RobertaHubInterface.zero_shot`."""
    multi_label = switch("multi_label", multi_label)
    labels = _check_labels(labels)
    _check_none(none, labels, multi_label=multi_label)
    _advise_of_labels(labels, texts)
    if "{}" not in text_of("hypothesis", hypothesis):
        raise InputError(f"hypothesis {short_repr(hypothesis)} has no {{}} for the label")
    way = _way(model, by, labels, head, hypothesis)
    asked = None if way == "meaning" else _entailment_head(model, head)
    words = labels if way == "entailment" else list(map(in_words, labels))
    hypotheses = [hypothesis.replace("{}", word) for word in words]
    by_itself = multi_label or len(labels) == 1
    if asked is not None and (by_itself or none is not None):
        _check_contradiction(model.heads, asked)
    judged = _judge(model, texts, words, hypotheses, asked, way)
    scores = judged(by_itself)
    thresholds = [DEFAULT_THRESHOLD] * len(labels) if multi_label else None
    found = [Prediction.of(labels, row, thresholds) for row in scores.tolist()]
    if none is None or not found:
        return found
    fits = judged(True).amax(-1).tolist()
    return [one.refuse(own, DEFAULT_THRESHOLD, none) for one, own in zip(found, fits, strict=True)]


def _way(
    model: VerbModel, by: str | None, labels: Sequence[str], head: str | None, hypothesis: str
) -> Way:
    """Choose the way: the caller's, else the recorded one, else entailment.

    A single label or a head means entailment; so does a hypothesis if the recorded way is
    meaning.
    """
    one_of("by", by, (None, *WAYS))
    own_words = hypothesis != HYPOTHESIS
    if by == "meaning" and (head is not None or own_words):
        what = "head" if head is not None else "hypothesis"
        given = head if head is not None else hypothesis
        raise InputError(
            f"{what} is {short_repr(given)} and by is 'meaning', which compares the text with "
            f"the label itself and has no {what}",
            remedy=Remedy(
                f'leave {what}= out, or pass by="entailment" or by="both"',
                f"leave --{what} out, or say --by entailment or --by both",
            ),
        )
    found: Way = "entailment"
    if by is not None:
        found = by  # type: ignore[assignment]
    elif model.zero_shot is not None and head is None and len(labels) > 1:
        found = model.zero_shot.by
        if found == "meaning" and own_words:
            found = "entailment"
    if found != "entailment" and model.sentence is None:
        raise InputError(
            f"by is {found!r}, and this model was not trained to make sentence vectors "
            "(roberta.sentence is None)",
            remedy=_NO_VECTORS,
        )
    return found


def _entailment_head(model: VerbModel, head: str | None) -> str:
    """Find the head: the named one, else one that judges entailment."""
    heads = model.heads
    remedy = _NO_NLI_HEAD if model.sentence is None else _NO_NLI_HEAD_BUT_VECTORS
    if any(_is_numbered(heads, own) for own in heads_of(heads.model, "classification")):
        remedy = _SAY_THE_ORDER
    name = heads.find(
        head,
        "classification",
        "zero_shot",
        fits=partial(_judges_entailment, heads),
        need="head for entailment, one of whose labels is 'entailment'",
        remedy=remedy,
    )
    labels = heads.labels(name)
    if _is_numbered(heads, name):
        raise InputError(
            f"head {name!r} has the classes {', '.join(labels[:6])}, which do not say which is "
            f"{ENTAILMENT!r}",
            remedy=_SAY_THE_ORDER,
        )
    if not entails(labels):
        raise InputError(
            f"head {name!r} knows {', '.join(labels)}; zero_shot needs a head with {ENTAILMENT!r}",
            remedy=_another_head(model),
        )
    if len(labels) == 1:
        raise InputError(
            f"head {name!r} has one output, which is a score and no choice between classes; "
            "zero_shot needs a head that tells entailment from other classes",
            remedy=_another_head(model),
        )
    if heads.inputs(name) == "one":
        raise InputError(
            f"head {name!r} was trained on single texts; zero_shot needs a head that judges pairs",
            remedy=_another_head(model),
        )
    return name


def _check_contradiction(heads: Heads, head: str) -> None:
    """Check that a head says which class is weighed against entailment."""
    labels = heads.labels(head)
    if len(labels) > 2 and contradiction_index(labels) is None:
        raise InputError(
            f"head {head!r} has the classes {', '.join(labels[:6])}; a label by itself is "
            "entailment against contradiction, and they do not say which is contradiction",
            remedy=_SAY_THE_ORDER,
        )


def _judges_entailment(heads: Heads, head: str) -> bool:
    labels = heads.labels(head)
    return len(labels) > 1 and entails(labels) and heads.inputs(head) == "pair"


def _another_head(model: VerbModel) -> Remedy:
    """What to do about a named head that does not judge entailment."""
    own = heads_of(model.heads.model, "classification")
    able = [head for head in own if _judges_entailment(model.heads, head)]
    if able:
        return Remedy(f"pass head={able[0]!r}", f"say --head {shlex.quote(able[0])}")
    if model.sentence is not None:
        return _VECTORS_AND_NO_HEAD
    return _NO_NLI_HEAD


def _is_numbered(heads: Heads, head: str) -> bool:
    """Whether nobody named the classes of a head that may judge pairs."""
    labels = heads.labels(head)
    return len(labels) > 1 and is_numbered(labels) and heads.inputs(head) != "one"


def _check_labels(labels: Sequence[str]) -> Sequence[str]:
    """Return the labels, checked."""
    labels = as_strings(labels, "labels", "labels")
    if not labels or len(set(labels)) != len(labels):
        raise InputError(
            f"labels is {short_repr(labels)}; pass a list of different labels, at least one"
        )
    if blank := [label for label in labels if not label.strip()]:
        raise InputError(f"labels is {short_repr(labels)}; {blank[0]!r} is no word")
    return labels


def _check_none(none: object, labels: Sequence[str], *, multi_label: bool) -> None:
    """Check the label of texts that no label fits."""
    if none is None:
        return
    if not text_of("none", none).strip():
        raise InputError(f"none is {short_repr(none)}; give a label for texts that no label fits")
    if none in labels:
        raise InputError(
            f"none is {short_repr(none)}, which is one of the labels; leave it out there"
        )
    if multi_label:
        raise InputError(
            "none is for labels of which a text has one; with several, a text that no label fits "
            "has none anyway",
            remedy=Remedy("leave none=... out", "leave --none out"),
        )


SENTENCE_WORDS = 5
"""Words of a label from which on it reads as a text of its own."""


def _advise_of_labels(labels: Sequence[str], texts: Sequence[Text]) -> None:
    """Warn of labels that differ by case or blanks alone, and of labels that read as texts."""
    known: dict[str, str] = {}
    for label in labels:
        other = known.setdefault(" ".join(label.split()).casefold(), label)
        if other != label:
            advise(
                f"labels has {short_repr(other)} and {short_repr(label)}, which differ by case or "
                "blanks alone; they share what one of them would get"
            )
            break
    most = max((len(text.split()) for text in texts if isinstance(text, str)), default=0)
    if 0 < most < SENTENCE_WORDS <= min(len(label.split()) for label in labels):
        advise(
            f"labels has whole sentences ({short_repr(labels[0])}) and texts has words "
            f"({short_repr(texts[0])}); are they exchanged? zero_shot takes the texts first, then "
            "the labels"
        )


def _judge(
    model: VerbModel,
    texts: Sequence[Text],
    labels: Sequence[str],
    hypotheses: Sequence[str],
    head: str | None,
    way: Way,
) -> Callable[[bool], Tensor]:
    """Ask the model; return what gives each label's probability by itself, or of all of them.

    Its probabilities have the shape (texts, labels).
    """
    settings = model.zero_shot or ZeroShotSettings()
    sequences = model.runner.tokenizer.encode_batch(
        texts
    )  # before deduplication, so that errors carry the caller's index
    firsts, which = deduplicate(texts)
    if not firsts:
        return lambda by_itself: torch.empty(0, len(labels))
    distinct = [texts[i] for i in firsts]
    ids = [sequences[i] for i in firsts]
    near = cosines = table = None
    if way != "entailment":
        cosines, apart = _cosines(model, distinct, ids, firsts, labels)
        above = cosines - settings.middle  # has no effect under the softmax over labels
    if head is not None:
        if cosines is not None and len(labels) > ENTAILMENT_LABELS:
            near = cosines.topk(ENTAILMENT_LABELS, dim=-1).indices
        table = _entailments(model.runner, distinct, ids, firsts, hypotheses, head, near)

    def logits(by_itself: bool) -> Tensor:
        if table is None or head is None:
            return settings.scale * above
        found = _entailed(table, model.heads.labels(head), against=by_itself)
        if near is not None:
            found = _fill_unasked(found, near, len(labels))
        if cosines is None:
            return found
        return (found + settings.weight * apart**2 * above) / settings.temperature

    def probabilities(by_itself: bool) -> Tensor:
        found = logits(by_itself)
        if not by_itself:
            return found.softmax(-1)[which]
        return (found if cosines is None else found / MULTI_LABEL_TEMPERATURE).sigmoid()[which]

    return probabilities


def _entailed(table: Tensor, classes: Sequence[str], *, against: bool) -> Tensor:
    """Compute logits of entailment: (n, k, classes) -> (n, k)."""
    own, other = entailment_index(classes), contradiction_index(classes)
    assert own is not None  # entailment_head
    entailed = table[..., own]
    if not against:
        return entailed
    return entailed - table[..., 1 - own if other is None else other]


def _entailments(
    runner: Runner,
    texts: Sequence[Text],
    ids: Sequence[Tensor],
    numbers: Sequence[int],
    hypotheses: Sequence[str],
    head: str,
    near: Tensor | None,
) -> Tensor:
    """Compute a head's logits of texts with hypotheses; each is tokenized once."""
    with placed(lambda at: Place("labels", at.index)):
        asked = runner.tokenizer.encode_batch(hypotheses)
    layout = runner.tokenizer.layout
    between = torch.full((layout.separators - 1,), layout.eos)
    seconds = [torch.cat([between, own[1:]]) for own in asked]
    count = len(hypotheses) if near is None else near.size(1)
    chosen = [range(count)] * len(texts) if near is None else near.tolist()
    pairs = [
        torch.cat([own, seconds[k]]) for own, row in zip(ids, chosen, strict=True) for k in row
    ]
    windows = runner.fit_windows(
        pairs,
        [text for text in texts for _ in range(count)],
        [number for number in numbers for _ in range(count)],
    )
    return window_values(runner, windows, head).view(len(texts), count, -1)


def _cosines(
    model: VerbModel,
    texts: Sequence[Text],
    ids: Sequence[Tensor],
    numbers: Sequence[int],
    labels: Sequence[str],
) -> tuple[Tensor, float]:
    """Compare the vectors of texts with those of labels.

    A text over the limit of sentence vectors but within the model's is read in windows; one over
    the model's is cut or read in windows as the caller says, else refused.
    """
    settings, runner = model.sentence or SentenceSettings(), model.runner
    runner.fit_windows(ids, texts, numbers)  # for its errors
    if not runner.truncate and runner.stride is None:
        runner = replace(runner, stride=0)
    runner = within_limit(runner, settings)
    prompt = settings.find_prompt(None, None)
    of_texts = text_vectors(runner, texts, settings, prompt)
    forms = [*labels, *(ABOUT_TEMPLATE.replace("{}", label) for label in labels)]
    with placed(lambda at: Place("labels", at.index % len(labels))):
        of_forms = text_vectors(replace(runner, progress=False), forms, settings, prompt)
    of_texts, of_forms = (F.normalize(v.float(), dim=-1).cpu() for v in (of_texts, of_forms))
    alone, about = (of_texts @ of_forms.T).view(len(texts), 2, len(labels)).unbind(1)
    named = of_forms[: len(labels)]
    others = len(labels) * (len(labels) - 1)
    alike = float((named @ named.T).sum() - len(labels)) / others if others else 0.0
    return (alone + about) / 2, 1 - alike


def _fill_unasked(logits: Tensor, near: Tensor, count: int) -> Tensor:
    """Fill the logits of labels that were not asked with the least of those that were.

    They are farther by meaning than any label that was asked, so they must not rank before one.

    Args:
        logits: of entailment. Shape: (n, k)
        near: indices of their labels. Shape: (n, k)
        count: number of all labels.
    """
    least = logits.amin(-1, keepdim=True).expand(-1, count)
    return least.scatter(-1, near, logits)


def in_words(label: str) -> str:
    """Turn an identifier into words: underscores become spaces.

    Example:
        >>> in_words("card_not_working")
        'card not working'
    """
    return re.sub(r"[_\s]+", " ", label).strip() or label
