"""Holds what hub users reach of a fairseq task through `roberta.task`."""

from __future__ import annotations

from dataclasses import dataclass

from roberta_hub.errors import VocabularyError
from roberta_hub.keywords import names_others
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.layout import SequenceLayout


@names_others
@dataclass(frozen=True)
class Task:
    """The part of a fairseq task that hub users reach through `roberta.task`: its dictionaries."""

    source_dictionary: Dictionary
    """Symbols of the text."""
    label_dictionary: Dictionary | None = None
    """Names of the classes, if the checkpoint is a classifier's: class i is symbol i +
    `nspecial`."""
    name: str = "masked_lm"
    """fairseq's name of the task."""
    init_token: int | None = None
    """Id that this task puts before every input, if it does."""
    longest: int | None = None
    """Longest input in tokens, of tasks that state one."""
    layout: SequenceLayout | None = None
    """Which ids are special and how sentences are joined; None: RoBERTa's."""

    @property
    def dictionary(self) -> Dictionary:
        """The source dictionary."""
        return self.source_dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The source dictionary: what is predicted are its symbols."""
        return self.source_dictionary

    @property
    def mask_idx(self) -> int:
        """Id of `<mask>`.

        Example:
            >>> Task(Dictionary.roberta()).mask_idx
            50264
        """
        layout = SequenceLayout.of(self.source_dictionary) if self.layout is None else self.layout
        if layout.mask is None:
            raise VocabularyError(
                f"the dictionary has no {MASK}; load it with add_mask=True, if the model was "
                "trained with one"
            )
        return layout.mask

    def max_positions(self) -> int | None:
        """Longest input in tokens; None, as in fairseq's `masked_lm`: whatever the model takes."""
        return self.longest
