"""Turns text into ids and back; this room knows no weights, and no files but its vocabulary's."""

from roberta_hub.text.alignment import align
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.layout import Layout
from roberta_hub.text.pieces import Engine
from roberta_hub.text.task import Task
from roberta_hub.text.tokenizer import Tokenizer

__all__ = ["GPT2BPE", "Dictionary", "Engine", "Layout", "Task", "Tokenizer", "align"]
