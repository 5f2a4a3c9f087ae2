"""Compares a model with whoever else runs it: a file, a folder, a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from statistics import median
from typing import Any

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.hub import load_model
from roberta_hub.inference.dtype_choice import check_least_cosine
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.finite_weights import check_weights
from roberta_hub.text.texts import Texts, as_texts
from roberta_hub.text.tokenizer import Text
from roberta_hub.verification.diagnosis import (
    EXPLAINS,
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
from roberta_hub.verification.peers import Peer, peer_of
from roberta_hub.verification.records import Finding, Stage, Verification
from roberta_hub.verification.servers import RefusedTextError
from roberta_hub.verification.setup import Setup, for_vectors, setup_of
from roberta_hub.verification.texts import PLAIN, Probe, probes

LEAST_COSINE = 0.99
"""Default lower bound of the cosine of answers in less precision."""
BATCH_TEXTS = 6
"""Texts of a batch in which padding is tested."""
BATCH_LENGTH = 150
"""Most tokens of a text in it."""
THREADS = 8
"""Callers at once, of a server."""
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

    Both get the same texts, which reveal faults: texts with lengths around every limit, batches
    with padding, pairs, capitals, accents, Chinese, emoji, names of special tokens, spaces, empty
    texts. Our model computes in float64. If the answers differ by more than the rounding of
    float32, our model imitates each known fault. The fault that gives the peer's answers is named.
    A difference that no known fault explains is called "unknown".

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
        A `Verification` with `ok`, `verdict`, `findings` and `stages`. It prints as a report, and a
        notebook draws it.

    Raises:
        InputTypeError: `b` is none of these.
        InputError: a file, folder or server cannot be read or reached, an answer has another form,
            or the weights of `a` contain NaN.
        MissingExtraError: a library that the peer needs is not installed.

    Example:
        >>> import roberta_hub
        >>> roberta = roberta_hub.load_model("roberta.tiny")
        >>> found = roberta_hub.verify(roberta, roberta_hub.load_model("roberta.tiny"))
        >>> found.ok, found.verdict
        (True, 'same')
    """
    roberta = a if isinstance(a, RobertaHubInterface) else load_model(a)
    check_weights(roberta.model)
    least = LEAST_COSINE if least_cosine is None else check_least_cosine(least_cosine, "auto")
    own = [] if texts is None else as_texts(texts)[0]
    setup = setup_of(roberta)
    peer = peer_of(b, setup)
    limits = sorted({setup.limit, for_vectors(setup).limit})
    asked = probes(setup.tokenizer, limits, own)
    work = _Work(setup, peer, asked)
    work.run()
    name = roberta.source if isinstance(a, RobertaHubInterface) else str(a)
    return Verification(
        name,
        peer.name,
        peer.reader,
        tuple(work.stages),
        tuple(work.findings),
        len(asked),
        work.cosine,
        least,
    )


class _Work:
    """Goes through what a peer can be asked, from ids to vectors."""

    def __init__(self, setup: Setup, peer: Peer, asked: Sequence[Probe]) -> None:
        self.setup, self.peer, self.asked = setup, peer, asked
        self.stages: list[Stage] = []
        self.findings: list[Finding] = []
        self.faults: list[Fault] = []
        self.cosine = 1.0

    def run(self) -> None:
        if self.peer.ids is not None:
            self._ids(self.peer.ids)
        if self.peer.states is not None:
            self._states(self.peer.states)
        if self.peer.vectors is not None:
            self._vectors(self.peer.vectors)

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
        differ = self._differing(question, found)
        text = differ[0] if differ else None
        where = "" if text is None else self._piece(question, text)
        self.stages.append(Stage("ids", len(differ) / len(self.asked), not differ, text, where))

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
        peer, last = self.peer, dict[Text, Tensor]()
        worst: list[tuple[float, Text | None]] = [(0.0, None)] * len(peer.stages)
        for asked in self.asked:
            ids = self.setup.ids(asked.text)
            theirs = [stage[0] for stage in states([ids])]
            for i, (own, other) in enumerate(
                zip(self._depths(self.setup, ids), theirs, strict=True)
            ):
                worst[i] = max(worst[i], (gap(other, own), asked.text), key=lambda one: one[0])
            last[asked.text] = theirs[-1]
        question = Question(
            peer.stages[-1],
            self.asked,
            lambda setup, texts: [self._depths(setup, self.setup.ids(text))[-1] for text in texts],
            lambda texts: [last[text] for text in texts],
        )
        state, faults = State(self.setup), model_faults(self.setup)
        if peer.answer is not None and peer.answer.kind == "pooled":
            state = self._shape(question, state)
            faults += vector_faults(self.setup)
        of_pairs = [fault for fault in faults if fault.name == "segments"]
        found, state, limit = diagnose(question, state, faults, of_texts=of_pairs, dtype=peer.dtype)
        self._note(found, state)
        self._least_cosine(question, state)
        self.stages += [
            Stage(name, far, far <= SAME, text)
            for name, (far, text) in zip(peer.stages, worst, strict=True)
        ]

        def alone(texts: Sequence[Text]) -> list[Tensor]:
            return [last[text] for text in texts]

        def together(texts: Sequence[Text]) -> list[Tensor]:
            return states([self.setup.ids(text) for text in texts])[-1]

        self._batches(question, state, alone, together, limit)

    def _depths(self, setup: Setup, ids: Tensor) -> list[Tensor]:
        """What our model has to say to ids at each of the peer's stages."""
        if self.peer.answer is not None:
            return setup.answers([ids], self.peer.answer)
        return [depth[0] for depth in setup.states([ids])]

    def _vectors(self, vectors: Callable[[Sequence[str]], list[Tensor]]) -> None:
        def alone(texts: Sequence[Any]) -> list[Tensor | None]:
            return [_one(vectors, text) for text in texts]

        singles = [asked for asked in self.asked if isinstance(asked.text, str)]
        question = Question(
            "vectors",
            singles,
            lambda setup, texts: setup.vectors([setup.ids(text) for text in texts]),
            alone,
        )
        setup = for_vectors(self.setup)
        self._refused(question)
        state = self._start(question, State(setup))
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
        first = State(setup)
        kept = [a.text for a in singles if a.text not in _texts_by_design(self.findings)]
        gaps = question.gaps(first, kept)
        far = max(range(len(kept)), key=lambda i: gaps[i])
        self.stages.append(Stage("vectors", gaps[far], gaps[far] <= SAME, kept[far]))
        texts = [asked.text for asked in singles]
        known = dict(zip(texts, question.answers(texts), strict=True))
        self._batches(
            question, state, lambda texts: [known[text] for text in texts], vectors, limit
        )
        if self.peer.shared:
            self._threads(vectors, known, limit)

    def _refused(self, question: Question) -> None:
        """Note the texts that a service refuses, which is its right."""
        texts = [asked.text for asked in question.asked]
        answers = question.answers(texts)
        refused = [text for text, own in zip(texts, answers, strict=True) if own is None]
        if refused:
            least = min(len(self.setup.ids(text)) for text in refused)
            said = f"refuses texts, the shortest of {least} tokens"
            stage, shown = question.stage, tuple(refused)
            self.findings.append(Finding("by design", "refused", said, stage, 0.0, 0.0, shown))

    def _start(self, question: Question, state: State) -> State:
        """Take over what is known of ids and states, where the vectors show it too."""
        known = reduce(State.with_fault, self.faults, state)
        texts = [asked.text for asked in question.asked]

        def wrong(tried: State) -> tuple[int, float]:
            gaps = question.gaps(tried, texts)
            return sum(far > SAME for far in gaps), median(gaps)

        return min(known, state, key=wrong) if self.faults else state

    def _shape(self, question: Question, state: State) -> State:
        """Name another width, and another length of vectors: they can be read off."""
        plain = [a.text for a in question.asked if a.plain]
        theirs = [answer for answer in question.answers(plain) if answer is not None]
        ours = question.ours(state.setup, plain)
        if not theirs:
            raise InputError(f"{self.peer.name} refuses the text {plain[0]!r}")
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
            single = alone(texts)
            if any(answer is None for answer in single):
                continue
            answers = together(texts)
            gaps = [
                gap(one, own) for one, own in zip(answers, single, strict=True) if own is not None
            ]
            far = max(range(len(texts)), key=lambda i: gaps[i])
            worst = max(worst, (gaps[far], texts[far]), key=lambda one: one[0])
            if gaps[far] > max(limit, SAME):
                spoiled.append((texts, answers))
        same = not spoiled
        self.stages.append(Stage(stage, worst[0], worst[0] <= SAME, worst[1]))
        if not same:
            self.findings.append(self._padding(question, state, spoiled, worst, stage))

    def _batch_texts(self, question: Question) -> Iterator[list[Text]]:
        texts: list[Text] = [a.text for a in question.asked if isinstance(a.text, str)]
        fitting = [t for t in texts if 2 < len(self.setup.ids(t)) <= BATCH_LENGTH]
        fitting = [t for t in fitting if t not in _texts_by_design(self.findings)]
        ordered = sorted(fitting, key=lambda text: len(self.setup.ids(text)))
        half = len(ordered) // 2
        mixed = [
            text for pair in zip(ordered[half:], ordered[:half], strict=False) for text in pair
        ]
        for start in (0, len(mixed) // BATCH_TEXTS // 2 * BATCH_TEXTS):
            yield mixed[start : start + BATCH_TEXTS]

    def _padding(
        self,
        question: Question,
        state: State,
        spoiled: Sequence[tuple[list[Text], list[Tensor]]],
        worst: tuple[float, Text | None],
        stage: str,
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
        said = "answers a text otherwise when longer texts are in its batch: padding is read"
        return Finding("fault", "padding", said, stage, worst[0], worst[0], texts)

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
            answers = list(pool.map(lambda text: _one(vectors, text), order))
        gaps = [
            (gap(answer, own), text)
            for answer, text in zip(answers, order, strict=True)
            if (own := known[text]) is not None
        ]
        worst, text = max(gaps, key=lambda one: one[0])
        self.stages.append(Stage(f"vectors, {THREADS} at once", worst, worst <= SAME, text))
        if worst > max(limit, SAME):
            wrong = tuple(dict.fromkeys(text for far, text in gaps if far > max(limit, SAME)))
            said = f"answers otherwise when {THREADS} ask at once"
            stage = self.stages[-1].name
            self.findings.append(Finding("fault", "threads", said, stage, worst, worst, wrong))

    def _note(self, found: Iterable[Finding], state: State) -> None:
        """Keep what was found, once each."""
        for finding in found:
            known = {(own.kind, own.name) for own in self.findings if own.stage != finding.stage}
            if (finding.kind, finding.name) not in known:
                self.findings.append(finding)
        self.faults += [fault for fault in state.faults if fault not in self.faults]

    def _differing(self, question: Question, found: Sequence[Finding]) -> list[Text]:
        texts = [asked.text for asked in question.asked]
        gaps = question.gaps(State(self.setup), texts)
        expected = _texts_by_design(found)
        return [t for t, far in zip(texts, gaps, strict=True) if far > 0 and t not in expected]

    def _least_cosine(self, question: Question, state: State) -> None:
        plain = [text for text in PLAIN if any(a.text == text for a in question.asked)]
        ours = question.ours(state.setup, plain)
        for theirs, own in zip(question.answers(plain, state.change), ours, strict=True):
            if theirs is not None and theirs.shape == own.shape:
                rows = (theirs.double().reshape(-1, own.shape[-1]), own.reshape(-1, own.shape[-1]))
                least = float(torch.cosine_similarity(*rows).min())
                self.cosine = min(self.cosine, least)


def _one(vectors: Callable[[Sequence[str]], list[Tensor]], text: str) -> Tensor | None:
    """Ask about one text; None: the server refuses it."""
    try:
        return vectors([text])[0]
    except RefusedTextError:
        return None


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
