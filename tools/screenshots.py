"""Looks at pages with Chromium as a reader does: light and dark, on a phone and on a desk.

    python tools/screenshots.py                            # every display, drawn by a small model
    python tools/screenshots.py site/index.html lesson.html --out shots
    python tools/screenshots.py http://127.0.0.1:8000/start/

It writes a picture of each page into a folder, to be looked at, and a line of numbers: how wide the
page and its window are, what is clipped, raw markup, addresses outside, and the least contrast of a
letter. It exits with 1 where one of them is wrong. It needs playwright (`.[dev]`) and Chromium
(`apt install chromium`); no page gets anything from outside this machine.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SCHEMES = ("light", "dark")
WIDTHS = (375, 1100)
LEAST_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3."""
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{name}</title><style>
body {{ margin: 16px; font: 14px sans-serif; background: #fff; color: #212121 }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #e0e0e0 }} }}
</style></head><body>{body}</body></html>"""
"""A page with nothing but a display, about as JupyterLab shows it."""
LOOK = """() => {
  const root = document.documentElement
  const visible = e => e.getClientRects().length && getComputedStyle(e).visibility != "hidden"
  const name = e => e.tagName.toLowerCase() + (e.className ? "." + e.className : "")
    + " " + (e.textContent || e.alt || "").trim().slice(0, 30)
  const clipped = [], raw = []
  // Not <s> and <mask>, which are tokens.
  const tags = "a|b|br|code|div|em|h[1-6]|i|img|li|ol|p|pre|script|span|strong|style|table|td|tr|ul"
  const markup = new RegExp(`</?(${tags})[\\s>/]|&(lt|gt|amp|quot|#\\d+);`, "i")
  for (const e of document.body.querySelectorAll("*")) {
    if (!visible(e)) continue
    const style = getComputedStyle(e)
    if (["hidden", "clip"].includes(style.overflowX) && e.clientWidth > 1
        && e.scrollWidth > e.clientWidth + 1) clipped.push(name(e))
    const broken = e.tagName == "IMG" && !(e.complete && e.naturalWidth)
    if (broken) clipped.push("no picture " + name(e))
    if (e.closest("img, svg, canvas") == e) {
      let box = e.getBoundingClientRect(), p = e.parentElement
      while (p && getComputedStyle(p).overflowX == "visible") p = p.parentElement
      const scrolls = p && ["auto", "scroll"].includes(getComputedStyle(p).overflowX)
      if (!scrolls && (box.right > root.clientWidth + 1 || box.left < -1)) clipped.push(name(e))
    }
  }
  const rgb = text => {
    const n = text.match(/[\\d.]+/g).map(Number)
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]
  }
  const over = (top, below, a) => [0, 1, 2].map(i => a * top[i] + (1 - a) * below[i])
  const light = c => {
    const l = c.map(v => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]
  }
  // What lies behind an element: the tints of all that it stands in, over the page's own white.
  const behind = e => {
    const chain = []
    for (let p = e; p; p = p.parentElement) chain.unshift(p)
    return chain.reduce((page, p) => {
      const c = rgb(getComputedStyle(p).backgroundColor)
      return over(c, page, c[3])
    }, [255, 255, 255])
  }
  let contrast = 21, faintest = ""
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.data.trim()
    if (!text || !visible(e) || e.closest("svg, script, style, noscript")) continue
    if (!e.closest("pre, code") && markup.test(text)) raw.push(text.slice(0, 60))
    const page = behind(e), style = getComputedStyle(e), ink = rgb(style.color)
    let opacity = ink[3]
    for (let p = e; p; p = p.parentElement) opacity *= getComputedStyle(p).opacity
    if (!opacity) continue
    const lights = [light(over(ink, page, opacity)), light(page)].sort((a, b) => a - b)
    const ratio = (lights[1] + 0.05) / (lights[0] + 0.05)
    if (ratio < contrast) [contrast, faintest] = [ratio, text.slice(0, 30)]
  }
  return {scroll: root.scrollWidth, client: root.clientWidth, clipped, raw, contrast, faintest}
}"""
"""What a page looks like, as numbers. Contrast does not see pictures behind letters."""


@dataclass(frozen=True)
class Look:
    """One page in one window."""

    name: str
    scheme: str
    width: int
    page: int
    """scrollWidth: what the page would like."""
    window: int
    """clientWidth: what it has."""
    clipped: tuple[str, ...]
    """Elements that are cut off, and pictures that are not there."""
    raw: tuple[str, ...]
    """Texts with markup in them, but for code."""
    outside: tuple[str, ...]
    """Addresses on other machines, which the page asked for."""
    contrast: float
    """The least of a letter, 1 to 21."""
    faintest: str

    def faults(self) -> list[str]:
        """Say what is wrong."""
        found = [f"clipped: {name}" for name in self.clipped]
        found += [f"raw markup: {text}" for text in self.raw]
        found += [f"from outside: {address}" for address in self.outside]
        if self.page > self.window:
            found.append(f"{self.page} pixels wide in a window of {self.window}")
        if self.contrast < LEAST_CONTRAST:
            found.append(f"contrast {self.contrast:.1f}: {self.faintest}")
        return found

    def __str__(self) -> str:
        return (
            f"{self.name:<24} {self.scheme:<5} {self.width:>4}  page {self.page:>4} of "
            f"{self.window:>4}  clipped {len(self.clipped)}  raw {len(self.raw)}  outside "
            f"{len(self.outside)}  contrast {self.contrast:.1f}"
        )


def chromium() -> str | None:
    """Find Debian's browser."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def look(
    pages: Mapping[str, str],
    out: Path | None = None,
    *,
    schemes: Sequence[str] = SCHEMES,
    widths: Sequence[int] = WIDTHS,
    wait_ms: int = 0,
) -> Iterator[Look]:
    """Open each page in each window.

    Args:
        pages: names, each with an address (file://, or http:// on this machine).
        out: the folder of the pictures, NAME-SCHEME-WIDTH.png; None: none are made.
        schemes: what the browser says it prefers.
        widths: of the window, in pixels.
        wait_ms: for pages that build themselves, after they are loaded.
    """
    from playwright.sync_api import sync_playwright

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme in schemes:
            for width in widths:
                context = browser.new_context(
                    viewport={"width": width, "height": 800}, color_scheme=scheme
                )
                outside: list[str] = []
                context.route("**/*", partial(_only_here, outside))
                page = context.new_page()
                for name, address in pages.items():
                    outside.clear()
                    page.goto(address, wait_until="load")
                    if wait_ms:
                        page.wait_for_timeout(wait_ms)
                    seen: dict[str, Any] = page.evaluate(LOOK)
                    if out is not None:
                        file = out / f"{name}-{scheme}-{width}.png"
                        page.screenshot(path=str(file), full_page=True)
                    yield Look(
                        name,
                        scheme,
                        width,
                        seen["scroll"],
                        seen["client"],
                        clipped=tuple(seen["clipped"]),
                        raw=tuple(seen["raw"]),
                        outside=tuple(outside),
                        contrast=seen["contrast"],
                        faintest=seen["faintest"],
                    )
                context.close()
        browser.close()


def _only_here(outside: list[str], route: Any) -> None:
    parts = urlsplit(route.request.url)
    if parts.scheme in ("file", "data", "blob") or parts.hostname in ("127.0.0.1", "localhost"):
        route.continue_()
    else:
        outside.append(route.request.url)
        route.abort()


def displays(roberta: Any) -> dict[str, Any]:
    """Draw one of every display.

    Args:
        roberta: a `RobertaHubInterface` with a head "mnli", to which heads are added.
    """
    roberta.register_token_head("ner", labels=["O", "B-PER", "B-PLACE"])
    roberta.register_span_head("squad")
    long = (
        "The committee that was chosen in the spring of 1998 has met eleven times since, twice in "
        "Geneva and nine times by telephone, and it has not yet decided what to do about the whale."
    )
    few = "The capital of France is Paris, and its teapot is beautiful."
    pair = ("A man plays the guitar.", "Nobody makes music.")
    corpus = ["A dog ran home.", "Goal! The match is over.", few, long]
    question = roberta.answer("Where did it meet?", long, "squad", no_answer=False)
    return {
        "card": roberta,
        "surprise": roberta.explain(long),
        "surprise-pair": roberta.explain(pair),
        "contribution": roberta.explain(pair, "mnli"),
        "token_strip": roberta.token_strip((long, "naïve 🙂 can’t 漢字 שלום")),
        "attention": roberta.attention(few, 1, 0),
        "attention-long": roberta.attention(long, 1, 0),
        "attention-layers": roberta.attention(few),
        "attention-heads": roberta.attention(few, layer=1),
        "fill_mask": roberta.fill_mask("Paris is the <mask> of France."),
        "fill_mask-masks": roberta.fill_mask("<mask> is the <mask> of France.", topk=3),
        "classify": roberta.classify([pair, pair[::-1]], "mnli"),
        "zero_shot": roberta.zero_shot(few, ["travel", "sport", "cooking"], head="mnli"),
        "tag": roberta.tag(few, "ner"),
        "answer": question,
        "search": roberta.search("Where is Paris?", corpus),
    }


def pages_of(shown: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Write a page for each display.

    Args:
        shown: names, each with what has `_repr_html_`.
        folder: of the pages.
    """
    addresses = {}
    for name, display in shown.items():
        path = folder / f"{name}.html"
        path.write_text(PAGE.format(name=name, body=display._repr_html_()), encoding="utf-8")
        addresses[name] = path.as_uri()
    return addresses


def main() -> None:
    """Look at what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", help="files or addresses; none: every display")
    parser.add_argument("--out", type=Path, default=Path("shots"), help="folder of the pictures")
    parser.add_argument("--wait", type=int, default=0, metavar="MS", help="after a page is loaded")
    given = parser.parse_args()
    if chromium() is None:
        sys.exit("no Chromium; apt install chromium")
    with tempfile.TemporaryDirectory() as folder:
        if given.pages:
            addresses = {}
            for page in given.pages:
                is_address = "://" in page
                name = re.sub(r"\W+", "-", urlsplit(page).path if is_address else page).strip("-")
                addresses[name] = page if is_address else Path(page).resolve().as_uri()
        else:
            import roberta_hub

            shown = displays(roberta_hub.load_model("roberta.tiny"))
            addresses = pages_of(shown, Path(folder))
        faults = 0
        for seen in look(addresses, given.out, wait_ms=given.wait):
            print(seen, *(f"    {fault}" for fault in seen.faults()), sep="\n", flush=True)
            faults += len(seen.faults())
    sys.exit(f"{faults} faults" if faults else 0)


if __name__ == "__main__":
    main()
