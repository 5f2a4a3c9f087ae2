"""Says how tokenizers that read SentencePiece files differ: names, special symbols, cleaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from roberta_hub.text.albert import Cleaning
from roberta_hub.text.dictionary import MASK, SPECIALS


@dataclass(frozen=True)
class Family:
    """One of transformers' classes of tokenizer."""

    tokenizer_class: str
    """Its name."""
    file: str | None
    """The name of its `.model` file; None: tokenizer.json alone says what the rows are."""
    first: tuple[str, ...] = SPECIALS
    """The model's first rows."""
    left_out: int = 3
    """How many of the file's first pieces are no further rows of the model."""
    mask: str = MASK
    """Stands for a token to be guessed."""
    bos: str = SPECIALS[0]
    """Begins a sequence."""
    eos: str = SPECIALS[2]
    """Ends a sentence."""
    pad: str = SPECIALS[1]
    """Fills batches."""
    unk: str = SPECIALS[3]
    """Stands for unknown characters."""
    separators: int = 2
    """How many `eos` stand between two sentences."""
    cleaning: Cleaning | None = None
    """What happens to a text first; None: nothing."""

    @property
    def settings(self) -> Mapping[str, object]:
        """What tokenizer_config.json says of it."""
        cleaning = {} if self.cleaning is None else asdict(self.cleaning)
        return {"tokenizer_class": self.tokenizer_class} | cleaning


FILE = "sentencepiece.bpe.model"
"""What fairseq calls the file, and most of transformers' classes."""
XLM_R = Family("XLMRobertaTokenizer", FILE)
"""Row 4 is the file's piece 3; `<mask>` is the last row."""
CAMEMBERT = Family(
    "CamembertTokenizer",
    FILE,
    first=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
    left_out=1,
)
"""Row 5 is the file's piece 1: `<s>` and `</s>` have two rows each, of which the second is used."""
ALBERT = Family(
    "AlbertTokenizer",
    "spiece.model",
    first=(),
    left_out=0,
    mask="[MASK]",
    bos="[CLS]",
    eos="[SEP]",
    separators=1,
    cleaning=Cleaning(),
)
"""The rows are the file's pieces."""
OTHER = Family("PreTrainedTokenizerFast", None, first=(), left_out=0)
"""The rows are tokenizer.json's pieces."""
