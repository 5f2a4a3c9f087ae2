"""Shows a model as a page to play with, by gradio (the extra `ui`).

`page` is what a hosted space launches; `serve` is `roberta-hub ui`, on this machine alone.
"""

from roberta_hub.ui.blocks import page
from roberta_hub.ui.server import serve

__all__ = ["page", "serve"]
