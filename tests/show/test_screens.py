"""Every display in Debian's Chromium, light and dark, on a phone and on a desk, as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hostile_strings import hostile_strings
from scripts import TOOLS, load_script
from small_models import small_roberta

from roberta_hub.show.display import Display
from roberta_hub.show.marked_text import Mark, MarkedText
from roberta_hub.show.strip import Chip, Strip

pytest.importorskip("playwright", reason="no playwright; pip install '.[dev]'")
pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]


tool = load_script(TOOLS / "screenshots.py")
if tool.chromium() is None:
    pytest.skip("no Chromium; apt install chromium", allow_module_level=True)


def looks(shown: dict[str, Any], folder: Path) -> list[Any]:
    seen = list(tool.look(tool.pages_of(shown, folder)))
    assert len(seen) == len(shown) * len(tool.SCHEMES) * len(tool.WIDTHS)
    return seen


def test_every_display_fits_and_can_be_read(tmp_path: Path) -> None:
    labels = {"mnli": ("contradiction", "neutral", "entailment")}
    roberta = small_roberta(heads={"mnli": 3}, num_layers=3, max_positions=100, labels=labels)
    for seen in looks(tool.displays(roberta), tmp_path):
        assert seen.faults() == [], seen
        assert seen.page <= seen.window == seen.width
        assert seen.contrast >= 4.5


def test_no_text_breaks_a_page(tmp_path: Path) -> None:
    texts = [text for text in hostile_strings(60) if text.strip()]
    marks = [[Mark(0, len(text), 1.0, text, text[:20])] for text in texts]
    parts = [MarkedText(text, own) for text, own in zip(texts, marks, strict=True)]
    chips = Strip([Chip(text[:200], "1", 1, text) for text in texts])
    shown = {"words": Display("", parts, {}), "pieces": Display(texts[0], [chips], {})}
    for seen in looks(shown, tmp_path):
        assert seen.page <= seen.window and seen.clipped == () and seen.outside == (), seen


FAULTS = {
    "wide": ('<div style="width:3000px">a</div>', "pixels wide"),
    "clipped": ('<div style="width:90px;overflow:hidden"><img width=500></div>', "clipped"),
    "markup": ("&lt;table&gt; &lt;td style=&quot;", "raw markup"),
    "outside": ('<img src="https://example.org/a.png" width=9>', "from outside"),
    "faint": ('<p style="color:#8888">hardly to be seen</p>', "contrast"),
}


def test_faults_are_seen(tmp_path: Path) -> None:
    pages = {}
    for name, (body, _) in FAULTS.items():
        path = tmp_path / f"{name}.html"
        path.write_text(tool.PAGE.format(name=name, body=body), encoding="utf-8")
        pages[name] = path.as_uri()
    for seen in tool.look(pages, tmp_path / "shots", schemes=["light"], widths=[375]):
        assert any(FAULTS[seen.name][1] in fault for fault in seen.faults()), seen.faults()
        assert (tmp_path / "shots" / f"{seen.name}-light-375.png").stat().st_size > 500
