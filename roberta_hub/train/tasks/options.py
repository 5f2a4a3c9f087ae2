"""Reads what a configuration says of a task: its options, its data, its metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from roberta_hub.config import check_head_name
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.data.blocks import BLOCK_MODES
from roberta_hub.train.data.data_bins import Split
from roberta_hub.train.data.masking import Masking
from roberta_hub.train.data.segment_pairs import PAIR_MODES
from roberta_hub.train.limits import read_options, suggestion
from roberta_hub.train.settings import Config

PRETRAINING_TASKS = ("masked_lm", "replaced_tokens")
"""The tasks that learn from text alone; all others are fine-tuning."""
NEXT_SENTENCE, SENTENCE_ORDER, SPAN_BOUNDARY = "next_sentence", "sentence_order", "span_boundary"
OBJECTIVES = (NEXT_SENTENCE, SENTENCE_ORDER, SPAN_BOUNDARY)
"""What pre-training may learn in addition to masked or replaced tokens."""
START_METHODS = ("random", "informed", "matching")
"""How pre-training sets the first weights."""


@dataclass(frozen=True)
class FinetuningOptions:
    """The `task.options` of fine-tuning; each task reads those that concern it."""

    max_length: int | None = None
    """Longest input in tokens; None: the model's limit. Evaluation on questions cuts a long context
    into windows of the model's limit."""
    truncate: bool = False
    """Cut longer inputs, instead of an error."""
    separator: str = ","
    """Between the labels of a multi-label text in a TSV."""
    max_option_length: int = 128
    """Longest option of RACE in tokens, `<s>` and `</s>` included (fairseq `sentence_ranking`)."""
    stride: int | None = None
    """Tokens that the windows over a long context share."""
    max_answer_tokens: int = 30
    """Longest answer in evaluation."""
    cross_entropy: bool | None = None
    """Cross-entropy over query and candidates, or (False) the margin; None: True for wsc, False for
    winogrande."""
    margin_alpha: float | None = None
    """Weight of the margin; None: 1 for wsc, 5 for winogrande."""
    margin_beta: float | None = None
    """Width of the margin; None: 0 for wsc, 0.4 for winogrande."""
    beside: list[Any] | None = None
    """Other tasks that are trained at the same time: see multitask.py."""
    rehearse: str | None = None
    """Text, or a folder of tokens, on which the masked LM continues training: the same as an entry
    `{name: masked_lm, train: ...}` of `beside`."""
    rehearse_weight: float = 1.0
    """Weight of that loss, relative to the task's."""
    rehearse_share: float = 1.0
    """Tokens of text for each token of the task's examples."""
    init_token: bool = False
    """Put `<s>` before the sentences of pronoun tasks; fairseq's recipes do not."""
    scale: float = 20.0
    """What sentence vectors' cosines are multiplied by before the softmax, the inverse of a
    temperature; see sentence_vectors.py."""
    symmetric: bool = False
    """Sentence vectors: let each positive find its anchor too."""
    teacher: str | None = None
    """Name or path of a model whose sentence vectors are the targets, in its own tokens."""
    teacher_weight: float = 1.0
    """Weight of the distance from the teacher's vectors. Where their width is another, it is the
    squared difference of cosines, a small number: with pairs it needs a larger weight."""


@dataclass(frozen=True)
class PretrainingOptions:
    """The `task.options` of pre-training."""

    block_size: int | None = None
    """Tokens of a sequence; None: the model's limit."""
    sentences: str = "full"
    """"full": blocks run over the ends of documents; "doc": they do not; "none", "complete",
    "complete_doc", "eos": fairseq's `--sample-break-mode`, block for block; "segment_pair": two
    segments of several sentences; "sentence_pair": two sentences; see segment_pairs.py."""
    objectives: list[str] = field(default_factory=list)
    """What is trained besides: "next_sentence" (BERT), "sentence_order" (ALBERT), "span_boundary"
    (SpanBERT); see objectives.py."""
    unit: str = "token"
    """What is masked at once: "token", "word", "span", or as "fairseq" does it."""
    mask_prob: float = 0.15
    """Share of the tokens that the model must guess."""
    leave_prob: float = 0.1
    """Share of these that stay as they are."""
    random_prob: float = 0.1
    """Share of these that become another token."""
    copies: int | None = None
    """Static masking with this many masks of each sequence; None: dynamic."""
    start: str = "random"
    """"informed": weights from the text's statistics, which need pretrained=false; see
    initialization.py. "matching": some heads of a trained model are reset and look for the same
    word elsewhere; see matching_heads.py."""
    teacher: str | None = None
    """A model, by name or path, whose hidden states are a second target; see distillation.py."""
    teacher_weight: float = 1.0
    """Weight of the states' relative squared error, relative to the masked LM's loss."""
    generator_size: float = 0.25
    """Width of ELECTRA's generator, as a share of the model's."""
    discriminator_weight: float = 50.0
    """Weight of the second loss (Clark et al. 2020, section 2)."""

    def masking(self) -> Masking:
        """Say how tokens are chosen and replaced."""
        return Masking(
            prob=self.mask_prob,
            leave=self.leave_prob,
            random=self.random_prob,
            unit=self.unit,
            copies=self.copies,
        )


Options = TypeVar("Options", FinetuningOptions, PretrainingOptions)


@dataclass(frozen=True)
class Source:
    """Where the examples of a set are."""

    name: str
    """"train" or "valid"."""
    path: str
    splits: list[Split]
    """What fairseq-preprocess wrote there; none: the path names something else."""


@dataclass(frozen=True)
class TaskSettings(Generic[Options]):
    """What a configuration says of a task, read and checked once."""

    config: Config
    options: Options
    train: Source
    valid: Source | None


def options_of(config: Config) -> FinetuningOptions:
    """Read the options of a fine-tuning task, and check names, types and ranges."""
    options = read_options(FinetuningOptions, config.task.options)
    for name in ("max_length", "max_option_length", "max_answer_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"task.options.{name} is {value}, must be at least 1")
    for name in ("rehearse_weight", "rehearse_share", "teacher_weight"):
        if not 0 <= getattr(options, name) < float("inf"):
            raise InputError(f"task.options.{name} is {getattr(options, name)}, must be at least 0")
    if not 0 < options.scale < float("inf"):
        raise InputError(f"task.options.scale is {options.scale}, must be above 0")
    check_head_name(config.task.head)
    return options


def pretraining_options(config: Config) -> PretrainingOptions:
    """Read the options of a pre-training task, and check names, types and what goes together."""
    options = read_options(PretrainingOptions, config.task.options)
    modes, asked = (*BLOCK_MODES, *PAIR_MODES), options.objectives
    if options.sentences not in modes:
        raise UnknownNameError(
            f"task.options.sentences is {options.sentences!r}{suggestion(options.sentences, modes)}"
        )
    for name in asked:
        if name not in OBJECTIVES:
            raise UnknownNameError(
                f"task.options.objectives has {name!r}{suggestion(name, OBJECTIVES)}"
            )
        if asked.count(name) > 1:
            raise InputError(f"task.options.objectives names {name} twice; name it once")
        if name != SPAN_BOUNDARY and options.sentences not in PAIR_MODES:
            raise InputError(
                f"task.options.objectives: {name} asks about two segments, and "
                f"task.options.sentences={options.sentences} makes inputs of one; set "
                "task.options.sentences=segment_pair or sentence_pair"
            )
    if NEXT_SENTENCE in asked and SENTENCE_ORDER in asked:
        raise InputError(
            "task.options.objectives: next_sentence takes half of the second segments from other "
            "documents, sentence_order takes all from the same one; name one of the two"
        )
    if SPAN_BOUNDARY in asked and config.task.name != "masked_lm":
        raise InputError(
            "task.options.objectives: span_boundary predicts masked tokens, and "
            f"{config.task.name} shows the model none; set task.name=masked_lm"
        )
    if SPAN_BOUNDARY in asked and options.unit != "span":
        raise InputError(
            "task.options.objectives: span_boundary is of masked spans, and "
            f"task.options.unit={options.unit} masks none; set task.options.unit=span"
        )
    if asked and options.teacher is not None:
        raise InputError(
            "task.options.teacher goes with the masked LM alone; leave out task.options.objectives"
        )
    if options.teacher is not None and config.task.name != "masked_lm":
        raise InputError("task.options.teacher goes with task.name=masked_lm")
    if options.start not in START_METHODS:
        raise UnknownNameError(
            f"task.options.start is {options.start!r}{suggestion(options.start, START_METHODS)}"
        )
    if options.start == "informed" and config.pretrained:
        raise InputError(
            "task.options.start=informed makes weights from the text's statistics, in place of "
            "those that pretrained=true loads; set pretrained=false, or start=random to keep them"
        )
    return options


def metric_of(config: Config, known: Sequence[str]) -> str:
    """Return the name of the number that chooses the best checkpoint; unset, the first."""
    metric = config.task.metric or known[0]
    if metric not in known:
        raise UnknownNameError(f"task.metric is {metric!r}{suggestion(metric, known)}")
    return metric
