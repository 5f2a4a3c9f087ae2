"""Compares a model with a peer that runs it: a file, a folder, a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from statistics import median
from typing import Any

import torch
from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.checkpoint.names.families import FAMILIES
from roberta_hub.errors import InputError
from roberta_hub.export.graph import AnswerKind, ExportedAnswer
from roberta_hub.hub import load_model
from roberta_hub.inference.classify import Activation, activate, activation_of
from roberta_hub.inference.dtype_choice import check_least_cosine
from roberta_hub.inference.heads import is_numbered
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.finite_weights import check_weights
from roberta_hub.settings import DEFAULT_THRESHOLD, Head, HeadKind
from roberta_hub.text.texts import Texts, as_texts
from roberta_hub.text.tokenizer import Text
from roberta_hub.verification.diagnosis import (
    EXPLAINS,
    PROBE_TEXTS,
    SAME,
    Question,
    State,
    cuts_of_ids,
    cuts_of_vectors,
    diagnose,
    first_difference,
    gap,
)
from roberta_hub.verification.faults import (
    Fault,
    model_faults,
    normalization,
    shifted,
    shortened,
    text_faults,
    vector_faults,
    without_layers,
)
from roberta_hub.verification.peers import Given, Peer, Rows, peer_of
from roberta_hub.verification.records import Finding, Kind, Stage, Verification
from roberta_hub.verification.servers import RefusedTextError
from roberta_hub.verification.setup import VECTORS, Setup, for_vectors, setup_of
from roberta_hub.verification.texts import PLAIN, Probe, probes

LEAST_COSINE = 0.99
"""Default lower bound of the cosine of answers in less precision."""
BATCH_TEXTS = 6
"""Texts of a batch in which padding is tested."""
BATCH_LENGTH = 150
"""Most tokens of a text in it."""
THREADS = 8
"""Callers at once, of a server."""
MASKED_LENGTH = 64
"""Most tokens of a text whose masked word is compared: every token has a vocabulary of numbers."""
SHORT_TOKENS = 32
"""Tokens of a text that no service has a right to refuse for its length."""
REFUSALS = (400, 413, 414, 422)
"""Statuses with which a service refuses a text; others are its own trouble."""
PRETRAINED = {h.name for table in FAMILIES.values() for h in table.heads if h.labels}
"""Heads of BERT's and ALBERT's pre-training, which a whole model may leave out."""
MEANINGS: dict[HeadKind, str] = {
    "single_label": "probabilities that add up to 1",
    "multi_label": "a probability for each label by itself",
    "regression": "no probabilities",
}
UNIT = 0.02
"""How far from 1 the length of a normalized vector may be, in bfloat16."""


def verify(
    a: RobertaHubInterface | str | os.PathLike[str],
    b: Any,
    texts: Texts | None = None,
    *,
    least_cosine: float | None = None,
) -> Verification:
    """Compare a model with a peer that should give the same answers, and name the peer's faults.

    Every answer that both give is compared: ids, hidden states, vectors, the pooler, masked words,
    and the labels of each head, by their names. Both get the same texts, which reveal faults: texts
    with lengths around every limit, batches with padding, pairs, capitals, accents, Chinese, emoji,
    names of special tokens, spaces, empty texts. Our model computes in float64. If the answers
    differ by more than the rounding of float32, our model imitates each known fault. The fault with
    which they agree is named. A difference that no known fault explains is called "unknown".

    Args:
        a: the model; or its name or path.
        b: the peer. It is an ONNX file; a folder, for transformers, and with modules.json also for
            sentence-transformers; the http address of a server of sentence vectors, such as
            text-embeddings-inference, vLLM or infinity; a .gguf file for llama-cpp-python; a model
            of transformers, of sentence-transformers or of this package; or a function from a list
            of texts to a vector for each.
        texts: additional texts; None: only the built-in texts.
        least_cosine: lowest cosine that a peer in lower precision may have; None: 0.99.

    Returns:
        A `Verification` with `ok`, `verdict`, `compared`, `findings` and `stages`. It prints as a
        report, and a notebook draws it.

    Raises:
        InputTypeError: `b` is none of these.
        InputError: a file, folder or server cannot be read or reached, an answer has another form,
            a server wants a key or fewer requests, or the weights of `a` contain NaN.
        MissingExtraError: a library that the peer needs is not installed.

    Example:
        >>> import roberta_hub
        >>> roberta = roberta_hub.load_model("roberta.tiny")
        >>> found = roberta_hub.verify(roberta, roberta_hub.load_model("roberta.tiny"))
        >>> found.ok, found.verdict, found.compared[:3]
        (True, 'same', ('ids', 'hidden states', 'masked words'))
    """
    roberta = a if isinstance(a, RobertaHubInterface) else load_model(a)
    check_weights(roberta.model)
    least = LEAST_COSINE if least_cosine is None else check_least_cosine(least_cosine, "auto")
    own = [] if texts is None else as_texts(texts)[0]
    setup = setup_of(roberta)
    peer = peer_of(b, setup)
    limits = sorted({setup.limit, for_vectors(setup).limit})
    asked = probes(setup.tokenizer, limits, own)
    work = _Work(setup, peer, asked, embeds=roberta.sentence is not None)
    work.run()
    name = roberta.source if isinstance(a, RobertaHubInterface) else str(a)
    return Verification(
        name,
        peer.name,
        peer.reader,
        tuple(work.stages),
        tuple(work.findings),
        len(work.answered),
        work.cosine,
        least,
        len(work.given),
        tuple(work.compared),
        work.uncompared,
    )


class _Work:
    """Goes through what a peer can be asked, from ids to vectors."""

    def __init__(self, setup: Setup, peer: Peer, asked: Sequence[Probe], *, embeds: bool) -> None:
        self.setup, self.peer, self.asked, self.embeds = setup, peer, asked, embeds
        self.stages: list[Stage] = []
        self.findings: list[Finding] = []
        self.faults: list[Fault] = []
        self.of_texts: list[Fault] = []
        """Those that change ids, which answers to our ids do not show."""
        self.rounding: Fault | None = None
        self.cosine = 1.0
        self.compared: list[str] = []
        self.uncompared: dict[str, str] = {}
        """Answers of one or of both that are not compared, each with the reason."""
        self.given: set[Text] = set()
        self.answered: set[Text] = set()
        self.spoiled = False
        """Whether hidden states differ, so that what is made of them does."""

    def run(self) -> None:
        peer = self.peer
        if peer.lacks:
            self.findings.append(Finding("fault", "head", peer.lacks, "the weights", 0.0, 0.0))
        if peer.ids is not None:
            self._ids(peer.ids)
        if peer.states is not None:
            self._states(peer.states)
        for given in peer.answers:
            self._answer(given)
        if peer.vectors is not None:
            self._vectors(peer.vectors)
        self._left()

    def _left(self) -> None:
        """Say which answers were not compared; one that both give forbids a verdict."""
        ours = {_title(head.type, head.name): head.name for head in self.setup.heads}
        model = self.setup.model
        there = {
            "vectors": self.embeds,
            "pooler": model.pooler is not None,
            "masked words": model.encoder.lm_head is not None,
            "replaced tokens": model.replaced_head is not None,
            **dict.fromkeys(ours, True),
        }
        for name, is_there in there.items():
            if is_there and name not in self.compared:
                self.uncompared.setdefault(name, "not given by the peer")
        trained = [head for head in self.setup.heads if head.name not in PRETRAINED]
        is_bare = not any(given.head for given in self.peer.answers)
        if self.peer.whole and is_bare and trained and not (self.peer.lacks or self.peer.unasked):
            said = f"has no head, and our model has {', '.join(head.name for head in trained)}"
            self.findings.append(Finding("fault", "head", said, "heads", 0.0, 0.0))
        for name, why in self.peer.unasked.items():
            if name != "vectors" or self.embeds:
                self.uncompared[name] = why
                said = f"not asked, though the peer gives it: {why}"
                self.findings.append(Finding("not asked", name, said, name, 0.0, 0.0))

    def _ids(self, ids: Callable[[Sequence[Text]], list[Tensor]]) -> None:
        question = Question(
            "ids",
            self.asked,
            lambda setup, texts: [setup.ids(text) for text in texts],
            lambda texts: list(ids(texts)),
        )
        faults = text_faults(self.setup, prompts=False)
        found, state, _ = diagnose(
            question, State(self.setup), faults, of_texts=faults, cuts=cuts_of_ids(question)
        )
        self._note(found, state)
        self.of_texts = list(self.faults)
        self._count("ids", question)
        differ = self._differing(question, found)
        text = differ[0] if differ else None
        where = "" if text is None else self._piece(question, text)
        self.stages.append(Stage("ids", len(differ) / len(self.asked), not differ, text, where))

    def _count(self, name: str, question: Question, texts: Sequence[Text] | None = None) -> None:
        """Note that an answer was compared, and on which texts."""
        self.compared += [name] * (name not in self.compared)
        own = [asked.text for asked in question.asked]
        self.given |= {*(own if texts is None else texts)}
        self.answered |= {*own}

    def _piece(self, question: Question, text: Text) -> str:
        """Say which piece of a text differs, and how."""
        (theirs,), ours = question.answers([text]), self.setup.ids(text)
        assert theirs is not None
        at = first_difference(theirs.tolist(), ours.tolist())
        there = [self._shown(ids, at) for ids in (theirs, ours)]
        return f"piece {at} is {there[0]}, and {there[1]} in our model"

    def _shown(self, ids: Tensor, at: int) -> str:
        if at >= len(ids):
            return f"missing ({len(ids)} in all)"
        number = int(ids[at])
        known = 0 <= number < len(self.setup.tokenizer)
        piece = repr(self.setup.tokenizer.pieces([number])[0]) if known else "outside the table"
        return f"{number} {piece}"

    def _states(self, states: Callable[[Sequence[Tensor]], list[list[Tensor]]]) -> None:
        self._from_ids(
            "hidden states",
            self.peer.stages,
            lambda setup, ids: [depth[0] for depth in setup.states([ids])],
            states,
            self.asked,
        )

    def _answer(self, given: Given) -> None:
        """Compare an answer that is made of ids, if our model has it."""
        answer, head, model = given.answer, None, self.setup.model
        if given.head is not None:
            head = self._counterpart(given.head)
            if head is None:
                return
            answer = ExportedAnswer(given.answer.kind, head.name)
        lacking = {
            "language": model.encoder.lm_head is None or self.setup.tokenizer.layout.mask is None,
            "replaced": model.replaced_head is None,
            "pooled": answer != VECTORS and model.pooler is None,
        }
        if lacking.get(answer.kind):
            return
        name = _title(answer.kind, answer.name)
        if head is not None and given.head is not None and not given.head.name:
            name = self._compared_of(name, head)
        asked = self._texts_for(answer, head)
        ask = given.ask
        if head is not None and given.head is not None and head.labels is not None:
            ask = self._by_name(name, answer, head, given, asked)
        if answer.kind == "language":
            ask = partial(self._at_masks, ask)
        self._from_ids(
            name,
            (given.stage or name,),
            lambda setup, ids: setup.answers([ids], answer),
            lambda sequences: [ask(sequences)],
            asked,
            answer,
            head,
        )

    def _compared_of(self, name: str, ours: Head) -> str:
        """Name what a head of another library shows of ours, which may decide by more than it."""
        why = _own_decision(ours)
        if why is None:
            return name
        self.uncompared[name] = why
        return f"probabilities of {ours.name}"

    def _counterpart(self, theirs: Head) -> Head | None:
        """Find the head of ours that a peer's is: by name, by labels, or as the only one."""
        ours = [head for head in self.setup.heads if head.type == theirs.type]
        others = [given.head for given in self.peer.answers if given.head is not None]
        taken = {head.name for head in others}
        free = [head for head in ours if head.name not in taken]
        labels, width = {*(theirs.labels or ())}, len(theirs.labels or ())
        for alike in (
            [head for head in ours if head.name == theirs.name],
            [head for head in free if labels and {*(head.labels or ())} == labels],
            [head for head in free if not theirs.name and len(head.labels or ()) == width],
            free if len(ours) == 1 and [o.type for o in others].count(theirs.type) == 1 else [],
        ):
            if len(alike) == 1:
                return alike[0]
        if len(ours) > 1 and not theirs.name and not theirs.labels:
            raise InputError(
                f"{self.peer.name} has a head without names of its labels, and it is not clear "
                f"which answer of our model that is: {'; '.join(map(_described, ours))}; id2label "
                "in its config.json says it"
            )
        title = _title(theirs.type, theirs.name)
        if ours and (not theirs.name or not others[1:]):
            has = f" with the labels {_listed(theirs.labels)}" if theirs.labels else ""
            said = f"has a head{has}, and our model has {'; '.join(map(_described, ours))}"
            self.findings.append(Finding("fault", "head", said, title, 0.0, 0.0))
        return None

    def _texts_for(self, answer: ExportedAnswer, head: Head | None) -> Sequence[Probe]:
        """Return the texts that an answer is asked of: pairs where a head judges pairs."""
        singles = [asked for asked in self.asked if isinstance(asked.text, str)]
        if answer.kind == "language":
            short = [a for a in singles if not a.long and len(self.setup.ids(a.text)) > 2]
            return [a for a in short if len(self.setup.ids(a.text)) <= MASKED_LENGTH]
        if answer.kind == "replaced" or (head is not None and head.inputs == "one"):
            return singles
        if head is not None and head.inputs == "pair":
            plain = zip(PLAIN, PLAIN[1:], strict=False)
            pairs = [asked for asked in self.asked if not isinstance(asked.text, str)]
            return [*(Probe(pair, "a pair", plain=True) for pair in plain), *pairs]
        return self.asked

    def _at_masks(self, ask: Rows, sequences: Sequence[Tensor]) -> list[Tensor]:
        """Answers of a language model at the mask of each sequence: (V,)."""
        found, count = ask(sequences), len(self.setup.tokenizer)
        places = [self.setup.mask_of(ids) for ids in sequences]
        return [rows[at, :count] for rows, at in zip(found, places, strict=True)]

    def _by_name(
        self, name: str, answer: ExportedAnswer, ours: Head, given: Given, asked: Sequence[Probe]
    ) -> Rows:
        """Return what asks a head and puts its numbers in the order of our labels."""
        theirs, ask = given.head, given.ask
        assert theirs is not None and ours.labels is not None
        self._meanings(name, ours, theirs)
        if theirs.labels is None:
            self.uncompared[f"names of the {name}"] = "the peer does not say them"
            return ask
        if is_numbered(theirs.labels) and is_numbered(ours.labels):
            return ask
        if sorted(theirs.labels) != sorted(ours.labels):
            said = (
                f"names the labels {_listed(theirs.labels)}, and our model {_listed(ours.labels)}"
            )
            self.findings.append(Finding("fault", "labels", said, name, 0.0, 0.0))
            return ask
        order = [theirs.labels.index(label) for label in ours.labels]
        if order == sorted(order):
            return ask

        def by_name(sequences: Sequence[Tensor]) -> list[Tensor]:
            return [rows[..., order] for rows in ask(sequences)]

        ids = [self.setup.ids(one.text) for one in asked if one.plain][:PROBE_TEXTS]
        exact = [self.setup.answers([own], answer)[0] for own in ids]
        named, placed = (
            median(gap(way([own])[0], one) for own, one in zip(ids, exact, strict=True))
            for way in (by_name, ask)
        )
        if named <= placed:
            return by_name
        wrong = [(o, t) for o, t in zip(ours.labels, theirs.labels, strict=True) if o != t]
        said = f"exchanges labels: says {wrong[0][1]!r} where our model says {wrong[0][0]!r}"
        self.findings.append(Finding("fault", "labels", said, name, named, placed))
        return ask

    def _meanings(self, name: str, ours: Head, theirs: Head) -> None:
        """Compare what two heads make of the same numbers."""
        if theirs.kind not in (None, ours.kind) and len(ours.labels or ()) > 1:
            made, own = (MEANINGS[head.kind or "regression"] for head in (theirs, ours))
            said = f"makes {made} of the numbers, and our model {own}"
            self.findings.append(Finding("fault", "probabilities", said, name, 0.0, 0.0))
        if not theirs.name:
            return  # other libraries have neither, as `_own_decision` says
        if theirs.thresholds != ours.thresholds and {DEFAULT_THRESHOLD} != {
            *(theirs.thresholds or (DEFAULT_THRESHOLD,)),
            *(ours.thresholds or (DEFAULT_THRESHOLD,)),
        }:
            said = "gives labels from other probabilities on (thresholds)"
            self.findings.append(Finding("fault", "thresholds", said, name, 0.0, 0.0))
        if (theirs.reject_below, theirs.known_pieces) != (ours.reject_below, ours.known_pieces):
            said = "refuses other answers (reject_below)"
            self.findings.append(Finding("fault", "reject_below", said, name, 0.0, 0.0))
        if theirs.words != ours.words:
            said = f"cuts texts into {theirs.words!r}, and our model into {ours.words!r}"
            self.findings.append(Finding("fault", "words", said, name, 0.0, 0.0))

    def _from_ids(
        self,
        name: str,
        stages: Sequence[str],
        own: Callable[[Setup, Tensor], list[Tensor]],
        theirs: Callable[[Sequence[Tensor]], list[list[Tensor]]],
        asked: Sequence[Probe],
        answer: ExportedAnswer | None = None,
        head: Head | None = None,
    ) -> None:
        """Compare what both make of the ids of our tokenizer, at one or more stages."""
        kind = "features" if answer is None else answer.kind

        def ids_of(setup: Setup, text: Text) -> Tensor:
            return setup.masked(setup.ids(text)) if kind == "language" else setup.ids(text)

        last = dict[Text, Tensor]()
        worst: list[tuple[float, Text | None]] = [(0.0, None)] * len(stages)
        for one in asked:
            ids = ids_of(self.setup, one.text)
            found = [stage[0] for stage in theirs([ids])]
            for i, (exact, other) in enumerate(zip(own(self.setup, ids), found, strict=True)):
                worst[i] = max(worst[i], (gap(other, exact), one.text), key=lambda pair: pair[0])
            last[one.text] = found[-1]
        question = Question(
            stages[-1],
            asked,
            lambda setup, texts: [own(setup, ids_of(setup, text))[-1] for text in texts],
            lambda texts: [last[text] for text in texts],
        )
        known = [fault for fault in self.faults if fault not in self.of_texts]
        state, faults = self._start(question, State(self.setup), known), model_faults(self.setup)
        if answer == VECTORS:
            state = self._shape(question, state)
            faults += vector_faults(self.setup)
        of_pairs = [fault for fault in faults if fault.name == "segments"]
        if self.rounding is not None and answer != VECTORS:
            faults = of_pairs  # the others were looked for where the rounding was found
        found_here, state, limit = diagnose(
            question, state, faults, of_texts=of_pairs, dtype=self.peer.dtype
        )
        self._note(found_here, state)
        self._count(name, question)
        way: Activation | None = "softmax" if kind in ("language", "token") else None
        if head is not None and head.kind is not None:
            way = activation_of(head.kind, None)
        self._least_cosine(question, state, way)
        for stage, (far, text) in zip(stages, worst, strict=True):
            where = ""
            if text is not None and far > SAME and kind in ("language", "classification"):
                where = self._most_probable(last[text], question.ours(self.setup, [text])[0], head)
            self.stages.append(Stage(stage, far, far <= SAME, text, where))
        if kind == "features":
            self.spoiled = any(f.name == "unknown" for f in found_here)

        def alone(texts: Sequence[Text]) -> list[Tensor]:
            return [last[text] for text in texts]

        def together(texts: Sequence[Text]) -> list[Tensor]:
            return theirs([ids_of(self.setup, text) for text in texts])[-1]

        self._batches(question, state, alone, together, limit)

    def _most_probable(self, theirs: Tensor, ours: Tensor, head: Head | None) -> str:
        """Say which label or word is the most probable to each, if they differ."""
        if theirs.shape != ours.shape or len(ours) < 2:
            return ""
        there, here = (int(numbers.argmax()) for numbers in (theirs, ours))
        if there == here:
            return ""
        if head is not None and head.labels is not None:
            said = [head.labels[i] for i in (there, here)]
        else:
            said = self.setup.tokenizer.pieces([there, here])
        return f"most probable is {said[0]!r}, and {said[1]!r} in our model"

    def _vectors(self, vectors: Callable[[Sequence[str]], list[Tensor]]) -> None:
        silent: dict[Text, int] = {}

        def alone(texts: Sequence[Any]) -> list[Tensor | None]:
            return [_one(vectors, text, silent) for text in texts]

        singles = [asked for asked in self.asked if isinstance(asked.text, str)]
        question = Question(
            "vectors",
            singles,
            lambda setup, texts: setup.vectors([setup.ids(text) for text in texts]),
            alone,
        )
        setup = for_vectors(self.setup)
        self._unanswered(question, silent)
        state = self._start(question, State(setup), self.faults)
        state = self._shape(question, state)
        of_texts = text_faults(setup)
        found, state, limit = diagnose(
            question,
            state,
            [*of_texts, *model_faults(setup), *vector_faults(setup)],
            of_texts=of_texts,
            cuts=cuts_of_vectors(question),
            dtype=self.peer.dtype,
        )
        self._note(found, state)
        self._least_cosine(question, state)
        self._count("vectors", question, [asked.text for asked in singles])
        first = State(setup)
        texts = [asked.text for asked in question.asked]
        kept = [text for text in texts if text not in _texts_by_design(self.findings)]
        gaps = question.gaps(first, kept)
        far = max(range(len(kept)), key=lambda i: gaps[i])
        self.stages.append(Stage("vectors", gaps[far], gaps[far] <= SAME, kept[far]))
        known = dict(zip(texts, question.answers(texts), strict=True))
        self._batches(
            question, state, lambda texts: [known[text] for text in texts], vectors, limit
        )
        if self.peer.shared:
            self._threads(vectors, known, limit)

    def _unanswered(self, question: Question, silent: dict[Text, int]) -> None:
        """Note the texts without an answer, and continue with the others.

        A service may refuse a text for its length, and an empty one; what it cannot do is a fault.
        """
        texts = [asked.text for asked in question.asked]
        answers = dict(zip(texts, question.answers(texts), strict=True))
        of = f"of {len(texts)} texts"

        def note(kind: Kind, name: str, said: str, own: Sequence[Text]) -> None:
            if own:
                stage = question.stage
                self.findings.append(Finding(kind, name, said, stage, 0.0, 0.0, tuple(own)))

        failed = [text for text in texts if silent.get(text, 0) not in (0, *REFUSALS)]
        statuses = ", ".join(map(str, sorted({silent[text] for text in failed})))
        note("fault", "errors", f"answers {statuses} to {len(failed)} {of}", failed)
        nonfinite = [text for text in texts if silent.get(text) == 0]
        note("fault", "numbers", f"answers {len(nonfinite)} {of} with NaN or infinity", nonfinite)
        refused = [text for text in texts if silent.get(text) in REFUSALS]
        lengths = {text: (len(self.setup.ids(text)), len(text)) for text in texts}
        longest = [
            max((lengths[t][i] for t in texts if answers[t] is not None), default=0) for i in (0, 1)
        ]
        long = [
            text
            for text in refused
            if not text
            or (
                lengths[text][0] > SHORT_TOKENS
                and any(lengths[text][i] > longest[i] for i in (0, 1))
            )
        ]
        least = min((lengths[text][0] for text in long), default=0)
        said = f"refuses {len(long)} {of}, the shortest of {least} tokens"
        note("by design", "refused", said, long)
        short = [text for text in refused if text not in long]
        note("fault", "refused", f"refuses {len(short)} {of}, which are not too long", short)
        question.asked = [asked for asked in question.asked if answers[asked.text] is not None]
        if not any(asked.plain for asked in question.asked):
            listed = "; ".join(found.said for found in self.findings if found.texts)
            raise InputError(f"{self.peer.name} has no answer to a plain sentence: it {listed}")

    def _start(self, question: Question, state: State, faults: Sequence[Fault]) -> State:
        """Take over what is known of ids and states, where the answers show it too."""
        state = replace(state, rounding=self.rounding)
        known = reduce(State.with_fault, faults, state)
        texts = [asked.text for asked in question.asked]

        def wrong(tried: State) -> tuple[int, float]:
            gaps = question.gaps(tried, texts)
            return sum(far > SAME for far in gaps), median(gaps)

        return min(known, state, key=wrong) if faults else state

    def _shape(self, question: Question, state: State) -> State:
        """Name another width, and another length of vectors: they can be read off."""
        plain = [a.text for a in question.asked if a.plain]
        theirs = [answer for answer in question.answers(plain) if answer is not None]
        ours = question.ours(state.setup, plain)
        width = len(theirs[0])
        if width != len(ours[0]) and state.setup.settings.layers:
            bare = state.with_fault(without_layers(state.setup))
            if len(question.ours(bare.setup, plain[:1])[0]) == width:
                state = self._name(question, state, without_layers(state.setup), plain)
                ours = question.ours(state.setup, plain)
        if width < len(ours[0]):
            fault = min(
                shortened(width),
                key=lambda one: median(question.gaps(state.with_fault(one), plain)),
            )
            state = self._name(question, state, fault, plain)
            ours = question.ours(state.setup, plain)
        if len(theirs[0]) != len(ours[0]):
            raise InputError(
                f"{self.peer.name} gives vectors of {len(theirs[0])} numbers, and the model of "
                f"{len(ours[0])}: it is another model"
            )
        if _are_unit(theirs) != _are_unit(ours):
            state = self._name(question, state, normalization(state.setup), plain)
        return state

    def _name(self, question: Question, state: State, fault: Fault, plain: Sequence[Text]) -> State:
        after = state.with_fault(fault)
        gaps = median(question.gaps(state, plain)), median(question.gaps(after, plain))
        self.findings.append(Finding("fault", fault.name, fault.said, question.stage, *gaps))
        return after

    def _batches(
        self,
        question: Question,
        state: State,
        alone: Callable[[Sequence[Any]], Sequence[Tensor | None]],
        together: Callable[[Sequence[Any]], list[Tensor]],
        limit: float,
    ) -> None:
        """Ask texts of several lengths in one batch, where padding must change nothing."""
        stage = f"{question.stage} in a batch"
        worst: tuple[float, Text | None] = (0.0, None)
        spoiled: list[tuple[list[Text], list[Tensor]]] = []
        for texts in self._batch_texts(question):
            single = [own for own in alone(texts) if own is not None]
            try:
                answers = together(texts)
            except RefusedTextError as error:
                by_design = error.status in REFUSALS
                kind: Kind = "by design" if by_design else "fault"
                said = f"answers {error.status} to a batch of {len(texts)} texts"
                name = "refused" if by_design else "errors"
                self.findings.append(Finding(kind, name, said, stage, 0.0, 0.0, tuple(texts)))
                return
            gaps = [gap(one, own) for one, own in zip(answers, single, strict=True)]
            far = max(range(len(texts)), key=lambda i: gaps[i])
            worst = max(worst, (gaps[far], texts[far]), key=lambda one: one[0])
            if gaps[far] > max(limit, SAME):
                spoiled.append((texts, answers))
        same = not spoiled
        self.stages.append(Stage(stage, worst[0], worst[0] <= SAME, worst[1]))
        if not same:
            found = _exchanged(alone, spoiled, worst, stage, max(limit, SAME))
            if found is None:
                found = self._padding(question, state, spoiled, worst, stage, alone, together)
            self.findings.append(found)

    def _batch_texts(self, question: Question) -> Iterator[list[Text]]:
        most = MASKED_LENGTH if question.stage == "masked words" else BATCH_LENGTH
        texts = [asked.text for asked in question.asked]
        fitting = [t for t in texts if 2 < len(self.setup.ids(t)) <= most]
        fitting = [t for t in fitting if t not in _texts_by_design(self.findings)]
        ordered = sorted(fitting, key=lambda text: len(self.setup.ids(text)))
        half = len(ordered) // 2
        mixed = [
            text for pair in zip(ordered[half:], ordered[:half], strict=False) for text in pair
        ]
        for start in (0, len(mixed) // BATCH_TEXTS // 2 * BATCH_TEXTS):
            if len(texts := mixed[start : start + BATCH_TEXTS]) > 1:
                yield texts

    def _padding(
        self,
        question: Question,
        state: State,
        spoiled: Sequence[tuple[list[Text], list[Tensor]]],
        worst: tuple[float, Text | None],
        stage: str,
        alone: Callable[[Sequence[Any]], Sequence[Tensor | None]],
        together: Callable[[Sequence[Any]], list[Tensor]],
    ) -> Finding:
        """Say why an answer changes with the batch that its text is in."""
        texts = () if worst[1] is None else (worst[1],)
        for said, offsets in (
            ("counts positions on from one text of a batch to the next", _running_on),
            ("counts padding on the left as positions", _from_the_left),
            ("counts positions through the padded batch, row after row", _row_after_row),
        ):
            left = 0.0
            for row, answers in spoiled:
                lengths = [len(state.setup.ids(text)) for text in row]
                for text, answer, offset in zip(row, answers, offsets(lengths), strict=True):
                    setup = shifted(offset)(state.setup) if offset else state.setup
                    left = max(left, gap(answer, question.ours(setup, [text])[0]))
            if left <= max(SAME, EXPLAINS * worst[0]):
                return Finding("fault", "positions", said, stage, worst[0], left, texts)
        # Without padding: each text in a batch of its own kind.
        left = max(
            max(gap(answer, own) for answer in together([text, text]))
            for row, _ in spoiled
            for text, own in zip(row, alone(row), strict=True)
            if own is not None
        )
        if left <= max(SAME, EXPLAINS * worst[0]):
            said = "answers a text otherwise when longer texts are in its batch: padding is read"
            return Finding("fault", "padding", said, stage, worst[0], left, texts)
        said = "answers a text otherwise in a batch, and nothing that is looked for explains it"
        return Finding("fault", "unknown", said, stage, worst[0], worst[0], texts)

    def _threads(
        self,
        vectors: Callable[[Sequence[str]], list[Tensor]],
        known: dict[Any, Tensor | None],
        limit: float,
    ) -> None:
        """Ask from several threads at once, where no request must touch another."""
        texts = [text for text, answer in known.items() if answer is not None] * 2
        order = [texts[i * 7 % len(texts)] for i in range(len(texts))]
        with ThreadPoolExecutor(THREADS) as pool:
            answers = list(pool.map(lambda text: _one(vectors, text, {}), order))
        gaps = [
            (gap(answer, own), text)
            for answer, text in zip(answers, order, strict=True)
            if (own := known[text]) is not None
        ]
        worst, text = max(gaps, key=lambda one: one[0])
        stage = f"vectors, {THREADS} at once"
        self.stages.append(Stage(stage, worst, worst <= SAME, text))
        wrong = tuple(dict.fromkeys(text for far, text in gaps if far > max(limit, SAME)))
        if not wrong:
            return
        again = [(_one(vectors, text, {}), known[text]) for text in wrong]
        left = max(gap(answer, own) for answer, own in again if own is not None)
        name, said = "threads", f"answers otherwise, or not at all, when {THREADS} ask at once"
        if left > max(limit, SAME):
            name, said = "unknown", "answers a text otherwise when it is asked again"
        self.findings.append(Finding("fault", name, said, stage, worst, left, wrong))

    def _note(self, found: Iterable[Finding], state: State) -> None:
        """Keep what was found, once each; what hidden states show, heads show too."""
        for finding in found:
            known = {(own.kind, own.name) for own in self.findings if own.stage != finding.stage}
            is_known = self.spoiled if finding.name == "unknown" else True
            if (finding.kind, finding.name) not in known or not is_known:
                self.findings.append(finding)
        self.faults += [fault for fault in state.faults if fault not in self.faults]
        self.rounding = self.rounding or state.rounding

    def _differing(self, question: Question, found: Sequence[Finding]) -> list[Text]:
        texts = [asked.text for asked in question.asked]
        gaps = question.gaps(State(self.setup), texts)
        expected = _texts_by_design(found)
        return [t for t, far in zip(texts, gaps, strict=True) if far > 0 and t not in expected]

    def _least_cosine(
        self, question: Question, state: State, way: Activation | None = None
    ) -> None:
        """Keep the least cosine of answers to plain sentences; of heads, that of probabilities."""
        plain = [asked.text for asked in question.asked if asked.plain]
        ours = question.ours(state.setup, plain)
        for theirs, own in zip(question.answers(plain, state.change), ours, strict=True):
            if theirs is not None and theirs.shape == own.shape and own.size(-1) > 1:
                rows = [numbers.double().reshape(-1, own.shape[-1]) for numbers in (theirs, own)]
                there, here = (activate(one, way) if way else one for one in rows)
                least = float(torch.cosine_similarity(there, here).min())
                self.cosine = min(self.cosine, least)


def _one(
    vectors: Callable[[Sequence[str]], list[Tensor]], text: str, silent: dict[Text, int]
) -> Tensor | None:
    """Ask about one text; None: there is no answer, and `silent` has the status, 0 for NaN."""
    try:
        found = vectors([text])[0]
    except RefusedTextError as error:
        silent[text] = error.status
        return None
    if found.isfinite().all():
        return found
    silent[text] = 0
    return None


def _exchanged(
    alone: Callable[[Sequence[Any]], Sequence[Tensor | None]],
    spoiled: Sequence[tuple[list[Text], list[Tensor]]],
    worst: tuple[float, Text | None],
    stage: str,
    limit: float,
) -> Finding | None:
    """Find out whether the answers of a batch are right, and in another order."""
    left = 0.0
    for texts, answers in spoiled:
        single = [own for own in alone(texts) if own is not None]
        nearest = [
            min(range(len(single)), key=lambda i: gap(answer, single[i])) for answer in answers
        ]
        if sorted(nearest) != list(range(len(texts))):
            return None
        left = max(left, *(gap(own, single[i]) for own, i in zip(answers, nearest, strict=True)))
    if left > limit:
        return None
    said = "gives the answers of a batch in another order than its texts"
    shown = () if worst[1] is None else (worst[1],)
    return Finding("fault", "order", said, stage, worst[0], left, shown)


def _title(kind: AnswerKind, head: str) -> str:
    """Name an answer for people."""
    plain = {
        "features": "hidden states",
        "pooled": "pooler" if head else "vectors",
        "language": "masked words",
        "replaced": "replaced tokens",
    }
    what = {"classification": "labels", "token": "tags", "span": "spans"}
    return plain.get(kind) or f"{what[kind]} of {head or 'its head'}"


def _own_decision(head: Head) -> str | None:
    """Say by what a head gives labels that other libraries do not have; None: by nothing."""
    if head.reject_below is not None:
        return "the peer answers every text, and our model refuses some: reject_below"
    if {*(head.thresholds or ())} - {DEFAULT_THRESHOLD}:
        return f"the peer gives labels from {DEFAULT_THRESHOLD:g} on, and our model has thresholds"
    return None


def _listed(labels: Sequence[str] | None) -> str:
    return short_repr(list(labels or ()), 120)


def _described(head: Head) -> str:
    return f"{head.name} with {_listed(head.labels)}" if head.labels else head.name


def _are_unit(rows: Sequence[Tensor]) -> bool:
    return all(abs(float(row.norm()) - 1) < UNIT for row in rows)


def _texts_by_design(found: Sequence[Finding]) -> set[Text]:
    return {text for finding in found if finding.kind == "by design" for text in finding.texts}


def _running_on(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:i]) for i in range(len(lengths))]


def _from_the_left(lengths: Sequence[int]) -> list[int]:
    return [max(lengths) - length for length in lengths]


def _row_after_row(lengths: Sequence[int]) -> list[int]:
    return [i * max(lengths) for i in range(len(lengths))]
