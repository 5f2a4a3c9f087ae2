"""Learns a byte-level BPE from text, in the files that fairseq, transformers and we read.

The library `tokenizers` counts words and joins pairs. Nothing of the text is kept but its distinct
words, so memory grows with these alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.errors import InputError, MissingExtraError, VocabularyError
from roberta_hub.extras import install
from roberta_hub.files import new_folder, write_files
from roberta_hub.formats.tokenizer_files import fairseq_dictionary, tokenizer_files
from roberta_hub.terminal import progress_bar
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.characters import check_surrogates
from roberta_hub.text.dictionary import MASK, SPECIALS, Dictionary
from roberta_hub.text.gpt2_tables import check_merges, from_printable
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data.preprocessing import lines_as_they_are
from roberta_hub.train.data.streams import chunks, plain_bytes, source_files

BYTES = 256
"""Ids of single bytes, which every vocabulary has: so no text is unknown."""
SPECIAL_IDS = len(SPECIALS) + 1
"""Those of the special symbols, `<mask>` among them."""
MOST_SYMBOLS = 500_000
"""Largest vocabulary: its tables are well within the limits of their readers."""
LEAST_COUNT = 2
"""How often a pair must be seen to be joined, as in the classes of `tokenizers`."""
LONGEST_LINE = 100_000
"""Characters of a line that are looked at together; a longer one is cut between words."""
MAX_LENGTH = 512
"""Tokens of a sequence that RoBERTa reads, which tokenizer_config.json says."""


@dataclass(frozen=True)
class LearntVocabulary:
    """A trained vocabulary, and how much text it was trained on."""

    tokenizer: Tokenizer
    lines: int
    """Lines that are not empty."""
    tokens: int
    """Pieces that the text is cut into, without special ones."""


def learn_vocabulary(
    sources: Sequence[str],
    target: Path,
    size: int,
    *,
    column: str = "text",
    progress: bool | None = None,
) -> LearntVocabulary:
    r"""Learn a byte-level BPE, and write it as a folder that is there whole or not at all.

    The folder has fairseq's dict.txt, encoder.json and vocab.bpe, and Hugging Face's vocab.json,
    merges.txt, tokenizer.json and tokenizer_config.json. The ids are the same by either: `<s>`,
    `<pad>`, `</s>` and `<unk>`, the pieces by how often the text has them, `<mask>`.

    A line is read as `preprocess_text` reads it. The text is read twice, the second time to count
    the pieces.

    Example:
        >>> import tempfile
        >>> work = Path(tempfile.mkdtemp())
        >>> _ = (work / "a.txt").write_text("tas tas tasto\ntas\n")
        >>> found = learn_vocabulary([str(work / "a.txt")], work / "mine", 264)
        >>> found.tokenizer.pieces(found.tokenizer.encode("tas tasto <mask>"))[:4]
        ['<s>', 'tas', 'Ġtas', 't']
    """
    _check_size(size)
    paths = [path for source in sources for path in source_files(source)]
    with new_folder(target) as work:
        merges, lines = _merges(paths, size - BYTES - SPECIAL_IDS, column, progress)
        if not lines:
            raise InputError(f"{', '.join(sources)}: there is no text in it")
        try:
            check_merges(merges)
        except VocabularyError as error:
            raise VocabularyError(
                f"{', '.join(sources)}: {error}; leave out lines of one character in a row"
            ) from None
        engine = GPT2BPE(merges)
        counts = _counts(paths, engine, column, progress)
        tokenizer = Tokenizer(engine, _dictionary(counts))
        about = {
            "format": "roberta_hub vocabulary",
            "version": 1,
            "size": len(tokenizer),
            "asked": size,
            "least_count": LEAST_COUNT,
            "lines": lines,
            "tokens": int(counts.sum()),
            "learnt_by": f"tokenizers {_library().__version__}",
        }
        work.mkdir(parents=True, exist_ok=True)
        write_files(
            work,
            {
                "dict.txt": fairseq_dictionary(tokenizer, len(tokenizer) - 1),
                **engine.fairseq_files(),
                **tokenizer_files(tokenizer, MAX_LENGTH),
                "vocabulary.json": json.dumps(about, indent=2).encode(),
            },
        )
    return LearntVocabulary(tokenizer, lines, int(counts.sum()))


def _check_size(size: int) -> None:
    least = BYTES + SPECIAL_IDS
    if size <= least:
        raise InputError(
            f"a vocabulary of {size:,} has no room for a merge: {BYTES} bytes and {SPECIAL_IDS} "
            f"special symbols take {least} ids; give more, RoBERTa has 50,265"
        )
    if size > MOST_SYMBOLS:
        raise InputError(f"a vocabulary of {size:,}: the most is {MOST_SYMBOLS:,}")


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise MissingExtraError(
            f"learning a vocabulary needs tokenizers ({error}): {install('vocabulary')}"
        ) from None
    return tokenizers


def _merges(
    paths: Sequence[Path], count: int, column: str, progress: bool | None
) -> tuple[list[tuple[bytes, bytes]], int]:
    """Let `tokenizers` learn at most `count` merges; return them, and the number of lines."""
    library, stopped, lines = _library(), threading.Event(), 0
    learner = library.Tokenizer(library.models.BPE())
    learner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(
        vocab_size=BYTES + count,
        min_frequency=LEAST_COUNT,
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    with progress_bar(plain_bytes(paths), unit="B", shown=progress, label="counting words") as bar:

        def texts() -> Iterator[str]:
            nonlocal lines
            for line in _lines(paths, column, bar):
                if stopped.is_set():
                    return
                lines += 1
                yield from _cut(line)
            bar.set_description_str("joining pairs")

        _interruptibly(lambda: learner.train_from_iterator(texts(), trainer), stopped)
    found = json.loads(learner.to_str())["model"]["merges"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in found]
    return [(from_printable(left), from_printable(right)) for left, right in pairs], lines


def _interruptibly(work: Callable[[], None], stopped: threading.Event) -> None:
    """Run in a thread, so that Ctrl-C need not wait for a library that does not look for it."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # is raised where it was asked for
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        stopped.set()
        raise
    if errors:
        raise errors[0]


def _lines(paths: Sequence[Path], column: str, bar: Any) -> Iterator[str]:
    """Read the lines that are not empty, each checked, and move a bar."""
    for chunk in chunks(lines_as_they_are(paths, column)):
        for line in chunk:
            if line:
                check_surrogates(line)  # a table of JSON may have halves
                yield line
        bar.update(sum(len(line.encode()) + 1 for line in chunk))


def _cut(line: str) -> Iterator[str]:
    """Cut a long line before blanks between words, where every word ends anyway."""
    start = 0
    while len(line) - start > LONGEST_LINE:
        end = line.rfind(" ", start + 1, start + LONGEST_LINE)
        while end > start and (line[end - 1].isspace() or line[end + 1].isspace()):
            end = line.rfind(" ", start + 1, end)
        if end <= start:
            break
        yield line[start:end]
        start = end
    yield line[start:]


def _counts(paths: Sequence[Path], engine: GPT2BPE, column: str, progress: bool | None) -> Tensor:
    """Count each piece in the text: (V,)."""
    counts = torch.zeros(engine.size, dtype=torch.long)
    with progress_bar(plain_bytes(paths), unit="B", shown=progress, label="counting pieces") as bar:
        waiting: list[str] = []
        size = 0

        def count() -> None:
            ids = [torch.tensor(engine.encode_ids(text)) for text in waiting]
            counts.add_(torch.bincount(torch.cat(ids), minlength=engine.size))

        for line in _lines(paths, column, bar):
            waiting.append(line)
            size += len(line)
            if size > LONGEST_LINE:
                count()
                waiting, size = [], 0
        if waiting:
            count()
    return counts


def _dictionary(counts: Tensor) -> Dictionary:
    """Name the pieces as fairseq does, by their numbers, the most frequent first."""
    found, dictionary = counts.tolist(), Dictionary()
    for number in sorted(range(len(found) - 1), key=lambda number: -found[number]):
        dictionary.add_symbol(str(number), n=found[number])
    dictionary.add_symbol(MASK)
    return dictionary
