"""Makes a tagger of a table of texts with spans: chooses how it learns, trains it, measures it."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference import windows
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.tag import OUTSIDE, first_pieces, split_words
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import require_roberta
from roberta_hub.rows.left_out import LeftOut, short_place
from roberta_hub.show.markdown import fenced, inline
from roberta_hub.text.learnt import digest
from roberta_hub.train.data.masking import Maskable, Masking, mask
from roberta_hub.train.fitting.examples import wrap_note
from roberta_hub.train.fitting.fitted import Fitted
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.model_card import (
    MAY_BE_KNOWN,
    duration_of,
    shell_command,
    versions,
)
from roberta_hub.train.fitting.model_folder import check_output, finished, holds_model
from roberta_hub.train.fitting.recipe import (
    SMALL_TABLE_ROWS,
    batch_for,
    learns_embeddings,
    run_config,
)
from roberta_hub.train.fitting.spans import Annotated
from roberta_hub.train.fitting.starting_model import (
    count_tokens,
    judged_kind,
    keep_head,
    load_to_train,
    memory_note,
)
from roberta_hub.train.fitting.tag_examples import RULE, TagExamples
from roberta_hub.train.fitting.tag_scores import judge_spans, judged, tagged
from roberta_hub.train.rates import scale_rate
from roberta_hub.train.reports import duration
from roberta_hub.train.settings import (
    Config,
    TaskConfig,
)
from roberta_hub.train.tasks.evaluation import chance_loss
from roberta_hub.train.tasks.finetuning import FineTuning, Hide
from roberta_hub.train.tasks.tokens import TokenObjective, encoded_words
from roberta_hub.train.tasks.trained_head import make_head

HEAD = "tagger"
"""The head of a tagger."""
LEARNING_RATE = 5e-5
"""Peak of the learning rate for a width of 768."""
SEEN = 15_000
"""Rows that are seen in all where the table has fewer."""
EPOCHS = (3, 12)
"""How often each row is seen, at least and at most."""
SHORT = 20
"""Tokens of a text: where the mean is at most this, a small table gets smaller updates."""
SHORT_BATCH = 8
"""Most rows of these updates."""
HIDDEN = 0.12
"""Share of a short text's tokens that the model does not see while it learns."""
LENGTH = 256
"""Tokens of a window, where the model takes as many."""
OVERLAP = 64
"""Tokens that the windows of a long text share."""
_MEANINGLESS = ("minutes", "balance", "pooling", "trials", "reject")
"""Options of classifiers that say nothing to a tagger, which learns once."""


def check_options(options: LearningOptions) -> None:
    """Refuse the options that mean nothing to a tagger.

    Example:
        >>> check_options(LearningOptions(pooling="mean"))
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: pooling means nothing to a tagger; leave out pooling=...
    """
    for name in _MEANINGLESS:
        if getattr(options, name):
            raise InputError(
                f"{name} means nothing to a tagger",
                remedy=Remedy(f"leave out {name}=...", f"leave out --{name}"),
            )


@dataclass(frozen=True)
class ReadyTagger:
    """A model and the texts with spans that it will be trained on."""

    examples: TagExamples
    roberta: RobertaHubInterface
    train_on: list[Annotated]
    """The rows of the training: those of the examples whose spans no piece of the model cuts."""
    config: Config
    options: LearningOptions
    output: Path | None
    """None: the model stays in memory."""
    notes: list[str]
    """What is read in windows, what is cut by a piece, and what is replaced."""
    hidden: float = 0.0
    """Share of a text's tokens that the model does not see while it learns."""

    def summary(self) -> str:
        """Write which model learns for how long, under what is unusual."""
        size = sum(parameter.numel() for parameter in self.roberta.model.parameters())
        about = f"{self.config.model} ({size / 1e6:,.1f} M parameters) learns "
        plan = duration_of(self.config, len(self.train_on))
        return "\n".join([*map(wrap_note, self.notes), about + plan])

    def train(self, progress: bool | None = None) -> RobertaHubInterface:
        """Train once, measure on the held-out rows, and write the folder, if there is one."""
        from roberta_hub.train.loop.updates import updates

        began = time.monotonic()
        roberta, tags = self.roberta, self.examples.tags
        pieces = require_roberta(roberta.model, "fit trains").transformer.embed_tokens
        pieces.requires_grad_(learns_embeddings(len(self.train_on)))
        loop = dataclasses.replace(self.config.loop, progress=progress)
        config = dataclasses.replace(self.config, loop=loop)
        names = make_head(roberta, config, len(tags), tags, "token")
        roberta.word_rules[HEAD] = RULE
        updates(tagging_of(config, roberta, names, self.train_on, self.hidden), config)
        pieces.requires_grad_(True)
        keep_head(roberta, "token", HEAD)
        fitted = self._judged(names, began)
        roberta.learnt |= {digest(row.text) for row in self.train_on}
        return finished(roberta, fitted, self.output, lambda output: self._card(fitted, output))

    def _judged(self, names: Sequence[str], began: float) -> Fitted:
        """Ask the model about every row that was held out, long ones in windows."""
        roberta = self.roberta
        texts = [row.text for row in self.examples.valid]
        unsure = holds_model(Path(self.config.model)) and not roberta.learnt
        places, how = judged_kind(texts, roberta.learnt, "held out", unsure=unsure)
        rows, texts = [self.examples.valid[i] for i in places], [texts[i] for i in places]
        with_windows = Runner(
            model=roberta.model,
            tokenizer=roberta.tokenizer,
            stride=min(OVERLAP, roberta.max_positions // 4),
            progress=False,
        )
        answers = tagged(with_windows, texts, HEAD, names, RULE)
        return Fitted(
            source=self.examples.source,
            scores=judge_spans(rows, answers, self.train_on, how),
            rows=judged(rows, answers),
            choice=None,
            seconds=time.monotonic() - began,
            notes=(*self.examples.notes, *self.notes),
        )

    def _card(self, fitted: Fitted, output: Path) -> str:
        """Write what the tagger is for, what it was made of, and what it reaches."""
        config, source = self.config, os.path.basename(self.examples.source)
        kept = "" if learns_embeddings(len(self.train_on)) else "; its tokens' embeddings stayed"
        model = inline(config.model)
        load = f"mine = roberta_hub.load_model({str(output)!r})"
        usage = f'import roberta_hub\n\n{load}\nprint(mine.tag("a text"))'
        known = fitted.scores.how == "may be known"
        seen = MAY_BE_KNOWN if known else "These rows were not learnt, and chose nothing"
        return f"""\
# {inline(output.absolute().name)}

Finds spans in a text: {", ".join(map(inline, self.examples.labels))}.
Made by roberta_hub from {inline(source)}.

{fenced(usage, "python")}

It labels runs of letters and digits, and every other character, as its `config.json` says.

## Data

{fenced(self.examples.summary())}

## Scores on the rows that were held out

{fenced(fitted.scores.summary())}

{seen}. A span is right if its edges and its label are.

## How it was made

{fenced(self._command(output))}

{model} learnt {duration_of(config, len(self.train_on))}, with a learning rate of at most
{config.optimizer.lr:g}{kept}; all of it took {duration(fitted.seconds)}. {versions()}.
"""

    def _command(self, output: Path) -> str:
        """Write what makes the tagger again: the command, or of data in memory the call."""
        examples, config = self.examples, self.config
        said = {name: value for name, value in dataclasses.asdict(self.options).items() if value}
        given = {
            **{name: value for name, value in examples.given.items() if value is not None},
            "model": config.model,
            "output": str(output),
            "task": "tagging",
            "epochs": config.loop.max_epochs,
            **said,
            "seed": config.seed,
        }
        plain = all(isinstance(v, (str, int, float, os.PathLike)) for v in given.values())
        if examples.in_memory or not plain:
            given = {n: v for n, v in given.items() if n != "valid" or isinstance(v, float)}
            call = ", ".join(f"{name}={value!r}" for name, value in given.items())
            table = examples.source if examples.in_memory else repr(examples.source)
            return f"roberta_hub.fit({table}, {call})"
        words = ["roberta-hub", "fit", examples.source]
        for name, value in given.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return shell_command(words)


def prepare_tagger(
    examples: TagExamples,
    *,
    model: str | os.PathLike[str] = "roberta.tiny",
    output: str | os.PathLike[str] | None = None,
    options: LearningOptions | None = None,
) -> ReadyTagger:
    """Load the model, and choose how it learns the spans."""
    options = options or LearningOptions()
    check_options(options)
    directory = None if output is None else check_output(output)
    model, roberta = load_to_train(model)
    every = [*examples.train, *examples.valid]
    lengths = count_tokens(roberta, [r.text for r in every], [r.where for r in every])
    limit = min(options.max_length or LENGTH, roberta.max_positions)
    left = LeftOut()
    train = [row for row in examples.train if not _is_cut(roberta, row, left)]
    if not any(row.spans for row in train):
        raise InputError(f"{examples.source}: no span can be learnt; {left.notes()[0]}")
    notes = left.notes()
    long = [r.where for r, length in zip(every, lengths, strict=True) if length > limit]
    if long:
        notes.append(
            f"{len(long):,} of {len(every):,} texts have more than {limit} tokens and are read in "
            f"windows, first {short_place(long[0])}; `tag` reads a text in windows with stride=..."
        )
    if directory is not None and holds_model(directory):
        notes.append(f"{directory} holds a model that fit made before; the new one replaces it")
    knows = holds_model(Path(model))
    notes += memory_note(roberta, model, [row.text for row in every], knows=knows)
    width = require_roberta(roberta.model, "fit trains").config.embed_dim
    short = len(train) <= SMALL_TABLE_ROWS and sum(lengths) <= SHORT * len(lengths)
    config = _recipe(len(train), width, limit, options, short=short)
    config = dataclasses.replace(config, model=model)
    hidden = HIDDEN if short else 0.0
    return ReadyTagger(examples, roberta, train, config, options, directory, notes, hidden)


def _is_cut(roberta: RobertaHubInterface, row: Annotated, left: LeftOut) -> bool:
    """Tell whether a piece has parts inside and outside of a span, which it cannot label."""
    parts = split_words(row.text, RULE)
    pieces = first_pieces(roberta.tokenizer, row.text, parts, RULE)
    seen: dict[int, tuple[str, int]] = {}
    for part, piece, tag in zip(parts, pieces, tags_of(parts, row.spans), strict=True):
        if piece is None:
            continue
        other, start = seen.setdefault(piece, (tag, part[0]))
        if other[2:] != tag[2:] or (part[0] != start and tag.startswith("B-")):
            inside = row.text[start : part[1]]
            left.add("a span that cuts a piece of the model's", row.where, repr(inside))
            return True
    return False


def tags_of(parts: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int, str]]) -> list[str]:
    """Give each part of a text its tag: "O", or "B-" or "I-" with the label of its span.

    Example:
        >>> tags_of([(0, 3), (4, 7), (8, 12)], [(4, 12, "LOC")])
        ['O', 'B-LOC', 'I-LOC']
    """
    tags, left = [], list(spans)[::-1]
    for start, _ in parts:
        while left and left[-1][1] <= start:
            left.pop()
        inside = bool(left) and left[-1][0] <= start
        mark = "B" if inside and left[-1][0] == start else "I"
        tags.append(f"{mark}-{left[-1][2]}" if inside else OUTSIDE)
    return tags


def _recipe(rows: int, width: int, limit: int, options: LearningOptions, *, short: bool) -> Config:
    """Choose how long and how fast to train on so many rows; see docs/background/decisions.md."""
    batch = min(batch_for(rows), SHORT_BATCH) if short else batch_for(rows)
    return run_config(
        TaskConfig(name="tokens", head=HEAD, options={"max_length": limit}),
        rows=rows,
        batch=options.batch_size or batch,
        epochs=options.epochs or min(max(SEEN // rows, EPOCHS[0]), EPOCHS[1]),
        rate=options.learning_rate or scale_rate(LEARNING_RATE, width),
        seed=options.seed,
    )


def tagging_of(
    config: Config,
    interface: RobertaHubInterface,
    names: Sequence[str],
    rows: Sequence[Annotated],
    hidden: float = 0.0,
) -> FineTuning:
    """Make the task of labelling the parts of texts, each by its first piece.

    A text that is too long becomes several examples, windows that overlap. Each of its parts has
    its label in the window in which it is farthest from a cut.
    """
    limit = config.task.options["max_length"]
    texts = [row.text for row in rows]
    sequences = interface.tokenizer.encode_batch(texts)
    layout = interface.tokenizer.layout
    fitted = windows.fit_windows(sequences, texts, limit, layout, stride=min(OVERLAP, limit // 4))
    numbers = {name: i for i, name in enumerate(names)}
    ids: list[Tensor] = []
    columns: list[Tensor] = []
    labels: list[Tensor] = []
    for row, own in zip(rows, fitted, strict=True):
        parts = split_words(row.text, RULE)
        pieces = first_pieces(interface.tokenizer, row.text, parts, RULE)
        tags = tags_of(parts, row.spans)
        seen = {p: numbers[tag] for p, tag in zip(pieces[::-1], tags[::-1], strict=True) if p}
        for w, (window, places) in enumerate(zip(own.ids, own.columns, strict=True)):
            here = [
                (column, seen[place])
                for column, place in enumerate(places.tolist())
                if place in seen and int(own.best[place]) == w
            ]
            if here:
                ids.append(window)
                columns.append(torch.tensor([column for column, _ in here]))
                labels.append(torch.tensor([number for _, number in here]))

    return FineTuning(
        interface,
        TokenObjective(config.task.head),
        encoded_words(ids, columns, labels),
        None,
        metric="loss",
        chance=chance_loss(len(names)),
        hide=_hiding(interface, hidden, config.seed),
    )


def _hiding(interface: RobertaHubInterface, hidden: float, seed: int) -> Hide | None:
    """Make what hides tokens of the texts; None: none are hidden, or the model has no `<mask>`."""
    if not hidden or interface.tokenizer.layout.mask is None:
        return None
    maskable = Maskable.of(interface.tokenizer)
    masking = Masking(prob=hidden, leave=0.0, random=0.0)

    def hide(ids: Tensor, lengths: tuple[int, ...], indices: Sequence[int], epoch: int) -> Tensor:
        numbers = torch.tensor(indices)
        return mask(ids, lengths, numbers, maskable, masking, seed=seed, epoch=epoch)[0]

    return hide
