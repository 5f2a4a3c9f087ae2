"""Text ↔ ids. Knows no weights and no files but its vocabulary."""

from roberta_hub.text.alignment import align
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.task import Task
from roberta_hub.text.tokenizer import Tokenizer

__all__ = ["GPT2BPE", "Dictionary", "Task", "Tokenizer", "align"]
