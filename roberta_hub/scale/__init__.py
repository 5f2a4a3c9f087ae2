"""Runs one machine's verbs over a lake of text: a table in, a table out; planned units of work."""

from roberta_hub.scale.run import lake
from roberta_hub.scale.status import Report, Status, status
from roberta_hub.scale.verb import Verb

__all__ = ["Report", "Status", "Verb", "lake", "status"]
