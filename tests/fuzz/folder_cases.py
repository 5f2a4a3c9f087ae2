"""One case: a random folder and random texts of a seed and a number, and what became of them."""

from __future__ import annotations

import random
import shutil
import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import transformers

from roberta_hub.errors import RobertaHubError

from . import folder_adapters, folder_vectors
from .folder_checks import CHECKS, Case, check_ids, check_states, load
from .folder_found import Found, reason
from .folder_models import ENGINES, HEADS, OWN_HEADS, PREFIXES, write_model
from .folder_peers import TextPeer, tell_segments
from .folder_tokenizers import write_vocabulary

MERGED = 1e-3
"""Tolerance of states where weights are merged: both round them once more, each in its own way."""
KINDS = {"bytes": "BPE", "wordpiece": "WordPiece"}
"""What transformers has to make of an engine's files; of all others a Unigram model."""
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Outcome:
    """What became of a case."""

    number: int
    family: str
    head: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    """What was drawn."""
    found: Found = field(default_factory=Found)
    is_refused: bool = False
    """The folder is not loaded."""

    @property
    def kind(self) -> str:
        """different, refused, equal; or that the peers do not read it."""
        if self.found.different:
            return "different"
        if self.is_refused:
            return "refused"
        return "equal" if self.found.equal else "no peer"


def run_case(seed: int, number: int, keep: Path | None = None) -> Outcome:
    """Write a folder, ask both about it, compare.

    Args:
        seed: of the run.
        number: of the case; the same two give the same case.
        keep: where the folder is left; None: nowhere.
    """
    draw = random.Random(f"{seed} {number}")
    families = sorted(PREFIXES)
    family = families[number % len(families)]
    outcome = Outcome(number, family)
    room = "/dev/shm" if Path("/dev/shm").is_dir() else None
    place = Path(tempfile.mkdtemp(prefix="folders-", dir=room)) if keep is None else keep
    place.mkdir(exist_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run(draw, outcome, place)
    except Exception as error:
        frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        kind = f"{type(error).__name__}: {error}"[:150]
        if any("/roberta_hub/" in name.replace(str(ROOT), "") for name in frames):
            outcome.found.different.append(f"crash: {kind} " + traceback.format_exc()[-900:])
        else:
            asker = next(
                f
                for f in traceback.extract_tb(error.__traceback__)[::-1]
                if "folder_" in f.filename
            )
            outcome.found.peers[f"{asker.name}: {kind}"] += 1
    finally:
        if keep is None:
            shutil.rmtree(place)
    return outcome


def _run(draw: random.Random, outcome: Outcome, place: Path) -> None:
    family, found = outcome.family, outcome.found
    head = outcome.head = draw.choice((*HEADS, *OWN_HEADS.get(family, ())))
    folder = place / "model"
    folder.mkdir()
    engine = draw.choice(ENGINES[family])
    try:
        vocabulary = write_vocabulary(draw, family, engine, folder)
    except Exception as error:
        found.peers[f"tokenizer: {type(error).__name__}: {error}"[:120]] += 1
        return
    outcome.about = {"engine": engine, "tokenizer": vocabulary.about}
    if vocabulary.ids["pad"] is None:
        found.peers["no padding"] += 1
        return
    model = write_model(draw, family, head, vocabulary, folder)
    outcome.about["model"] = model.about
    options: dict[str, Any] = {}
    read = folder
    wants_adapter = draw.random() < 0.1 and head not in ("choice", "pretraining", "next")
    if wants_adapter and folder_adapters.is_there():
        read = place / "adapter"
        read.mkdir()
        outcome.about["adapter"] = folder_adapters.write_adapter(draw, model, folder, read)
        options = {"adapter": True}
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        if type(theirs.backend_tokenizer.model).__name__ != KINDS.get(engine, "Unigram"):
            found.peers["the family's class takes the vocabulary for another kind"] += 1
            return
        segments = "token_type_ids" in theirs("a", "b")
        if not segments and tell_segments(folder, family, theirs):
            found.documented["segments of ALBERT and of version 4's generic class"] += 1
            segments = True
        peer = TextPeer(theirs, vocabulary.model, segments=segments)
    except Exception as error:
        found.peers[f"AutoTokenizer: {type(error).__name__}: {error}"[:120]] += 1
        return
    if len(theirs) > model.peer.config.vocab_size:
        found.peers["words beyond the table"] += 1
    try:
        ours = load(read, **options)
    except RobertaHubError as error:
        outcome.is_refused = True
        found.refused[reason(error)] += 1
        outcome.about["refused"] = str(error)
        return
    limit = min(model.limit, theirs.model_max_length)
    found.same("limit", ours.max_positions, limit)
    case = Case(draw, vocabulary, model, ours, peer, found, limit)
    if options:
        case.tolerance = MERGED
    texts = check_ids(case)
    if max(vocabulary.rows, len(theirs)) > model.peer.config.vocab_size:
        return
    rows = getattr(model.peer.config, "type_vocab_size", 2)
    case.has_pairs = not (peer.segments and rows < 2 and family != "distilbert")
    check_states(case, texts[:6])
    if head in CHECKS:
        CHECKS[head](case)
    if options:
        return
    if head == "bare" and draw.random() < 0.7:
        made = folder_vectors.write_chain(draw, folder, model, place / "chain")
        outcome.about["vectors"] = made[0]
        folder_vectors.check_vectors(case, place / "chain", made[1])
    elif head == "sentence" and draw.random() < 0.4:
        outcome.about["cross-encoder"] = folder_vectors.write_cross_encoder(
            draw, folder, model, place / "cross"
        )
        folder_vectors.check_cross_encoder(case, place / "cross")
