"""RoBERTa as fairseq's hub gave it, on today's Python and torch. This is the whole public API."""

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import RobertaHubError
from roberta_hub.hub import RobertaModel, available_models, load_model
from roberta_hub.inference.answer import Answer
from roberta_hub.inference.classify import Prediction
from roberta_hub.inference.tag import Span
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import collate_tokens

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Prediction",
    "RobertaConfig",
    "RobertaHubError",
    "RobertaHubInterface",
    "RobertaModel",
    "Span",
    "available_models",
    "collate_tokens",
    "load_model",
]
