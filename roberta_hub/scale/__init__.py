"""Batch inference over files: a verb as a function from table to table, planned units of work."""

from roberta_hub.scale.run import lake
from roberta_hub.scale.status import Report, Status, status
from roberta_hub.scale.verb import Verb

__all__ = ["Report", "Status", "Verb", "lake", "status"]
