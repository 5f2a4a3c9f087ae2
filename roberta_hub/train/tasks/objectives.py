"""What pre-training learns: masked words (RoBERTa), or which words were replaced (ELECTRA)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.inference.batching import BATCH_TOKENS
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import pack_sequences
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.config import Config, near, read_options
from roberta_hub.train.data.batches import plan
from roberta_hub.train.data.blocks import Blocks, build, cut, open_stream
from roberta_hub.train.data.masking import Masking, Vocabulary, mask, uniform
from roberta_hub.train.loop.state import find_state
from roberta_hub.train.tasks.cross_entropy import linear_cross_entropy
from roberta_hub.train.tasks.finetuning import hidden, metric_of, roberta_of, train_path
from roberta_hub.train.tasks.start import informed_start, matching_heads
from roberta_hub.train.tasks.task import Batch, Loss

_SAMPLE = 16
"""Stream of random numbers that the generator's words are drawn with; masking.py has the others."""
STARTS = ("random", "informed", "matching")
REPLACED = "replaced"
"""Name of the head that tells replaced tokens."""


@dataclass(frozen=True)
class Options:
    """What `task.options` may say in pre-training."""

    block_size: int | None = None
    """Tokens of a sequence; None: the model's longest."""
    sentences: str = "full"
    """"full": blocks run over the ends of documents; "doc": they do not."""
    unit: str = "token"
    """What is masked: see `Masking.unit`."""
    mask_prob: float = 0.15
    leave_prob: float = 0.1
    random_prob: float = 0.1
    copies: int | None = None
    """Static masking with this many masks of each sequence; None: dynamic."""
    start: str = "random"
    """"informed": weights begin with the text's statistics and an eye for neighbours, and need
    pretrained=false. "matching": some heads of a trained model begin anew, by looking for the same
    word elsewhere. See start.py."""
    generator_size: float = 0.25
    """Width of ELECTRA's generator, as a share of the model's."""
    discriminator_weight: float = 50.0
    """Of the second loss (Clark et al. 2020, section 2)."""

    def masking(self) -> Masking:
        """How tokens are chosen."""
        return Masking(
            prob=self.mask_prob,
            leave=self.leave_prob,
            random=self.random_prob,
            unit=self.unit,
            copies=self.copies,
        )


def build_task(config: Config, interface: RobertaHubInterface) -> PreTraining:
    r"""The pre-training task that a configuration describes.

    Args:
        config: `task`, `data`, `seed` and `output` are read. `data.train` and `data.valid` name
            text files, or folders that `blocks.build` wrote.
        interface: the model; changed by training.

    Raises:
        InputError: text or settings that cannot be used.

    Example:
        >>> import tempfile, roberta_hub
        >>> from roberta_hub.train.config import DataConfig, TaskConfig
        >>> folder = Path(tempfile.mkdtemp())
        >>> text = folder / "text.txt"
        >>> _ = text.write_text("The sun rises in the east and sets in the west.\n")
        >>> data, task = DataConfig(train=str(text)), TaskConfig(name="masked_lm")
        >>> config = Config(data=data, task=task, output=str(folder))
        >>> task = build_task(config, roberta_hub.load_model("roberta.base", pretrained=False))
        >>> task.lengths(epoch=0)
        [14]
    """
    options = read_options(Options, config.task.options)
    if options.start not in STARTS:
        raise UnknownNameError(
            f"task.options.start is {options.start!r}{near(options.start, STARTS)}"
        )
    if config.task.name == "masked_lm":
        return PreTraining(config, options, interface, MaskedLM(roberta_of(interface)))
    model = ReplacedTokens(roberta_of(interface), options, config.seed)
    interface.labels[REPLACED] = ("original", "replaced")
    interface.own_head = REPLACED
    return PreTraining(config, options, interface, model)


class PreTraining:
    """A `Task` (see `task.py`) on blocks of text."""

    def __init__(
        self,
        config: Config,
        options: Options,
        interface: RobertaHubInterface,
        module: MaskedLM | ReplacedTokens,
    ) -> None:
        self.interface = interface
        self.module: nn.Module = module
        self.seed = config.seed
        self.masking = options.masking()
        self.vocabulary = Vocabulary.of(interface.tokenizer)
        self.metric = metric_of(config, "loss", module.METRICS)
        self.larger_is_better = self.metric not in ("loss", "lm_loss", "perplexity")
        self._train = _blocks(train_path(config), "train", config, options, interface)
        valid = config.data.valid
        self._valid = _blocks(valid, "valid", config, options, interface) if valid else None
        self._lengths = self._train.lengths()[: config.data.limit]
        resuming = config.resume and find_state(Path(config.output)) is not None
        if options.start == "informed" and config.pretrained:
            raise InputError(
                "task.options.start=informed makes weights from the text's statistics, in place of "
                "those that pretrained=true loads; set pretrained=false, or start=random to keep "
                "them"
            )
        if options.start == "informed" and not resuming:
            informed_start(roberta_of(interface), self._train.stream, seed=config.seed)
        if options.start == "matching" and not resuming:
            matching_heads(roberta_of(interface), self._train.stream, seed=config.seed)

    def lengths(self, epoch: int) -> Sequence[int]:
        """Tokens of each block, the same in every epoch."""
        return self._lengths

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Blocks, masked for this epoch."""
        return self._masked(self._train, indices, self.masking, self.seed, epoch)

    def _masked(
        self, blocks: Blocks, indices: Sequence[int], masking: Masking, seed: int, epoch: int
    ) -> Batch:
        padding = roberta_of(self.interface).config.padding_idx
        packed = pack_sequences(blocks.sequences(indices), padding_idx=padding)
        numbers = torch.tensor(indices)
        seen, chosen = mask(
            packed.ids,
            packed.lengths,
            numbers,
            self.vocabulary,
            masking,
            seed=seed,
            epoch=epoch,
        )
        rows = chosen.nonzero()[:, 0]
        owners = torch.repeat_interleave(numbers, torch.tensor(packed.lengths))[rows]
        targets = {
            "rows": rows,
            "ids": packed.ids[rows],
            "luck": uniform(seed, epoch, owners, packed.positions[rows], _SAMPLE).float(),
        }
        return Batch(dataclasses.replace(packed, ids=seen), targets, count=len(rows))

    def evaluate(self, interface: RobertaHubInterface | None = None) -> dict[str, float]:
        """Loss and what the module counts on the held-out blocks.

        The masks are the same in every run and kind of run.
        """
        if self._valid is None:
            return {}
        module = self.module
        if interface is not None:
            module = MaskedLM(roberta_of(interface))
        device = next(module.parameters()).device
        budget = max(BATCH_TOKENS.get(device.type, 2048), max(self._valid.lengths()))
        sums: dict[str, float] = {"loss": 0.0}
        count = 0
        judge = Masking(prob=self.masking.prob, unit=self.masking.unit)
        with evaluating(module):
            for update in plan(self._valid.lengths(), budget, seed=0, epoch=0):
                batch = self._masked(self._valid, update[0], judge, 0, 0)
                loss = module(batch.to(device))
                count += batch.count
                for name, value in {"loss": loss.total, **loss.logs}.items():
                    sums[name] = sums.get(name, 0.0) + float(value)
        numbers = {name: value / max(count, 1) for name, value in sums.items()}
        lm = numbers.get("lm_loss", numbers["loss"])
        return {**numbers, "perplexity": math.exp(min(lm, 700.0))}

    def chance(self) -> float | None:
        """The loss of knowing nothing: every id alike."""
        vocabulary = math.log(len(self.vocabulary.text))
        return vocabulary if isinstance(self.module, MaskedLM) else None

    def finish(self) -> RobertaHubInterface:
        """The trained model."""
        return self.interface


def _blocks(
    source: str, name: str, config: Config, options: Options, interface: RobertaHubInterface
) -> Blocks:
    model, tokenizer = roberta_of(interface).config, interface.tokenizer
    size = options.block_size or model.max_positions
    if size > model.max_positions:
        raise InputError(
            f"task.options.block_size is {size}, the model takes {model.max_positions} tokens; "
            "architecture.max_positions can be changed where pretrained=false"
        )
    if (Path(source) / "index.json").is_file():
        stream = open_stream(Path(source), tokenizer)
    else:
        column = str(config.data.columns.get("text", "text"))
        folder = Path(config.output) / "tokens" / name
        progress = config.loop.progress
        stream = build(source, folder, tokenizer, column=column, progress=progress)
    return cut(stream, size, mode=options.sentences, bos=tokenizer.bos, eos=tokenizer.eos)


class MaskedLM(nn.Module):
    """Guess the chosen tokens (Devlin et al. 2019, section 3.1)."""

    METRICS = ("loss", "perplexity", "top1", "top5")

    def __init__(self, roberta: Roberta) -> None:
        super().__init__()
        _require_lm_head(roberta)
        self.roberta = roberta

    def forward(self, batch: Batch) -> Loss:
        """Cross-entropy over the vocabulary, summed over chosen tokens."""
        wanted = batch.targets["ids"]
        if torch.is_grad_enabled():
            return Loss(masked_loss(self.roberta, batch))
        logits = masked_logits(self.roberta, batch).float()  # (M, V)
        return Loss(F.cross_entropy(logits, wanted, reduction="sum"), _hits(logits, wanted))


class ReplacedTokens(nn.Module):
    """Tell which tokens a small masked LM has replaced (ELECTRA, Clark et al. 2020).

    The generator has the model's depth, a share of its width, and its token embeddings. The model
    itself loses its language-model head, which nothing would train.
    """

    METRICS = ("loss", "perplexity", "lm_loss", "recall", "precision")

    def __init__(self, roberta: Roberta, options: Options, seed: int) -> None:
        super().__init__()
        self.roberta = roberta
        self.weight = options.discriminator_weight
        torch.manual_seed(seed)
        if REPLACED not in roberta.token_heads:
            roberta.register_token_head(REPLACED, 2)
        self.generator = Roberta(_smaller(roberta, options.generator_size))
        shared = roberta.transformer.embed_tokens
        self.generator.transformer.embed_tokens = shared
        self.generator.tie_weights()
        roberta.encoder.lm_head = None
        roberta.config = dataclasses.replace(roberta.config, lm_head=False)

    def forward(self, batch: Batch) -> Loss:
        """The generator's loss over chosen tokens, and the discriminator's over all tokens."""
        rows, wanted = batch.targets["rows"], batch.targets["ids"]
        logits = masked_logits(self.generator, batch).float()  # (M, V)
        lm = F.cross_entropy(logits, wanted, reduction="sum")
        with torch.no_grad():
            sample = _sample(logits, batch.targets["luck"])
            ids = batch.packed.ids.clone()
            ids[rows] = sample
            replaced = torch.zeros_like(ids)
            replaced[rows] = sample.ne(wanted).long()
        packed = dataclasses.replace(batch.packed, ids=ids)
        rebuilt = hidden(self.roberta, dataclasses.replace(batch, packed=packed))  # (N, C)
        verdicts = self.roberta.token_heads[REPLACED](rebuilt).float()  # (N, 2)
        # Of every token, but scaled to the chosen ones, which the loop divides by.
        share = len(rows) / max(len(ids), 1)
        found = F.cross_entropy(verdicts, replaced, reduction="sum") * share
        logs = {"lm_loss": lm.detach()}
        if not self.training:
            positive = verdicts.argmax(-1).eq(1)
            both = (positive & replaced.eq(1)).sum() * len(rows)
            logs["recall"] = both / replaced.sum().clamp(min=1)
            logs["precision"] = both / positive.sum().clamp(min=1)
        return Loss(lm + self.weight * found, logs)


def masked_loss(roberta: Roberta, batch: Batch) -> Tensor:
    """Cross-entropy of the chosen tokens, summed."""
    features = hidden(roberta, batch)[batch.targets["rows"]]
    head = roberta.encoder.lm_head
    assert head is not None  # _require_lm_head
    rows = head.rows(features, roberta.encoder.factor())
    return linear_cross_entropy(rows, head.weight, head.bias, batch.targets["ids"])


def masked_logits(roberta: Roberta, batch: Batch) -> Tensor:
    """LM logits of the chosen tokens only: (M, V)."""
    return roberta.encoder.output_layer(hidden(roberta, batch)[batch.targets["rows"]])


def _hits(logits: Tensor, wanted: Tensor) -> dict[str, Tensor]:
    """How often the wanted token is first, and among the first five."""
    top = logits.topk(5, dim=-1).indices.eq(wanted.unsqueeze(1))
    return {"top1": top[:, 0].sum(), "top5": top.any(1).sum()}


def _sample(logits: Tensor, luck: Tensor) -> Tensor:
    """A word from each distribution (M, V), by inversion at `luck` in 0..1: (M,)."""
    cumulative = logits.softmax(-1).cumsum(-1)
    at = (luck * cumulative[:, -1]).unsqueeze(1)
    return torch.searchsorted(cumulative, at).squeeze(1).clamp(max=logits.size(1) - 1)


def _smaller(roberta: Roberta, share: float) -> RobertaConfig:
    config = roberta.config
    if not 0.0 < share <= 1.0:
        raise InputError(f"task.options.generator_size is {share}, must lie between 0 and 1")
    heads = max(1, round(config.num_heads * share))
    width = heads * config.head_dim
    return dataclasses.replace(
        config,
        embed_dim=width,
        ffn_dim=max(1, round(config.ffn_dim * width / config.embed_dim)),
        num_heads=heads,
        embedding_dim=config.embedding_dim or config.embed_dim,
        untie_weights=False,
        lm_head=True,
    )


def _require_lm_head(roberta: Roberta) -> None:
    if roberta.encoder.lm_head is None:
        raise InputError(
            "this model has no language-model head to pre-train; begin with one that has "
            "(model=roberta.base), or with random weights (pretrained=false)"
        )
