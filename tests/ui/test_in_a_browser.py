"""The page in Debian's Chromium: on a phone and on a desk, light and dark, with hostile texts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hostile_strings import hostile_strings
from scripts import TOOLS, load_script
from ui.serving import served

pytest.importorskip("playwright", reason="no playwright; pip install '.[dev]'")
pytest.importorskip("gradio", reason="no gradio; pip install '.[ui]'")
pytestmark = pytest.mark.system
tool = load_script(TOOLS / "screenshots.py")
if tool.chromium() is None:
    pytest.skip("no Chromium; apt install chromium", allow_module_level=True)

WIDTHS = (375, 1280)
TABS = {
    "Fill a mask": "years",
    "Label": "sports",
    "Two texts": "contradiction",
    "Compare": "A puppy plays outside.",
    "Search": "The museum opens at nine.",
    "Tokens": "epi",
}
"""Each tab with a word of its first answer."""
AT_REST = """e => {
  for (let p = e; p; p = p.parentElement) if (getComputedStyle(p).opacity < 0.5) return false
  return document.getAnimations().every(one => one.playState != "running")
}"""
"""Whether an answer is no longer faint, as it is while another one is awaited."""
PICTURES = os.environ.get("ROBERTA_HUB_PICTURES")
"""Folder for pictures, to be looked at; none are made without it."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        yield playwright.chromium.launch(executable_path=tool.chromium(), args=arguments)


class Reader:
    """A window on the page, and what it has asked for and complained of."""

    def __init__(self, browser: Any, address: str, width: int, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.goto(address)
        self.page.get_by_role("button", name="Ask", exact=True).first.wait_for()

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def tab(self, title: str) -> Any:
        """Open a tab; return its panel."""
        tab = self.page.get_by_role("tab", name=title, exact=True)
        if not tab.first.is_visible():
            self.page.locator(".overflow-menu > button").click()
            self.page.locator(".overflow-dropdown button", has_text=title).click()
        else:
            tab.first.click()
        return self.page.get_by_role("tabpanel").locator("visible=true").first

    def outside(self) -> list[str]:
        """Addresses of other machines that it asked for."""
        local = ("127.0.0.1", None)
        return [url for url in self.asked if urlsplit(url).hostname not in local]


@pytest.mark.parametrize("scheme", tool.SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_tab_answers_fits_and_can_be_read(
    browser: Any, address: str, width: int, scheme: str
) -> None:
    reader = Reader(browser, address, width, scheme)
    for title, word in TABS.items():
        panel = reader.tab(title)
        if title != "Fill a mask":  # which is answered when the page opens
            panel.get_by_role("button", name="Ask", exact=True).click()
        found = panel.get_by_text(word).locator("visible=true").first
        found.wait_for(timeout=10_000)
        reader.page.wait_for_function(AT_REST, arg=found.element_handle())
        seen = reader.page.evaluate(tool.LOOK)
        if PICTURES:
            name = f"{title.replace(' ', '-').lower()}-{scheme}-{width}.png"
            reader.page.screenshot(path=str(Path(PICTURES) / name), full_page=True)
        assert seen["scroll"] <= seen["client"] == width, (title, seen)
        assert seen["raw"] == [], title
        assert seen["contrast"] >= tool.LEAST_CONTRAST, (title, seen["faintest"], seen["contrast"])
    assert reader.outside() == [] and reader.complaints == []
    reader.context.close()


def test_the_first_answer_is_there_within_a_second(browser: Any, address: str) -> None:
    reader = Reader(browser, address, 1280, "light")
    start = time.perf_counter()
    reader.page.get_by_text("years").locator("visible=true").first.wait_for(timeout=10_000)
    assert time.perf_counter() - start < 1
    reader.context.close()


def test_an_example_is_answered_when_it_is_chosen(browser: Any, address: str) -> None:
    reader = Reader(browser, address, 375, "light")
    panel = reader.tab("Fill a mask")
    panel.get_by_text("She is a student at Harvard <mask>.").last.click()
    panel.get_by_text("University").locator("visible=true").first.wait_for(timeout=10_000)
    assert panel.get_by_role("textbox").first.input_value() == "She is a student at Harvard <mask>."
    reader.context.close()


def test_what_is_under_an_answer_is_copied(browser: Any, address: str) -> None:
    reader = Reader(browser, address, 1280, "light")
    panel = reader.tab("Fill a mask")
    panel.get_by_role("textbox").first.fill('It\'s a <mask> "day" $(date).')
    panel.get_by_role("button", name="Ask", exact=True).click()
    panel.get_by_text("It's a").first.wait_for()  # before it the page has its first example's code
    for title, wanted in (
        ("Copy as Python", "text = 'It\\'s a <mask> \"day\" $(date).'"),
        ("Copy as shell", "'It'\"'\"'s a <mask> \"day\" $(date).'"),
    ):
        panel.get_by_role("button", name=title).click()
        panel.get_by_text("load_model" if "Python" in title else "fill-mask").first.wait_for()
        panel.get_by_title("Copy").locator("visible=true").last.click()
        if PICTURES:
            reader.page.screenshot(path=str(Path(PICTURES) / f"{title}.png"), full_page=True)
        reader.page.wait_for_timeout(200)
        assert wanted in reader.page.evaluate("navigator.clipboard.readText()")
        panel.get_by_role("button", name=title).click()
    reader.context.close()


def test_hostile_texts_stay_texts(browser: Any, address: str) -> None:
    reader = Reader(browser, address, 375, "light")
    panel = reader.tab("Tokens")
    count = reader.page.locator("script, img, svg, iframe, style, h1").count()
    box, ask = (
        panel.get_by_role("textbox").first,
        panel.get_by_role("button", name="Ask", exact=True),
    )
    texts = [text for text in hostile_strings(60) if text.strip() and text.isprintable()]
    for number, text in enumerate([*texts, "${alert(1)} {{7*7}}", "a" * 10_000]):
        box.fill(f"{number} {text}")
        ask.click()
        panel.get_by_text(str(number), exact=True).locator("visible=true").first.wait_for()
        seen = reader.page.evaluate(tool.LOOK)
        assert seen["scroll"] <= seen["client"], text
    assert reader.page.locator("script, img, svg, iframe, style, h1").count() == count
    assert reader.outside() == [] and reader.complaints == []
    reader.context.close()


def test_the_last_of_quick_questions_is_answered(browser: Any, address: str) -> None:
    reader = Reader(browser, address, 1280, "light")
    panel = reader.tab("Tokens")
    for text in [*"abcdefghij", "the last question"]:
        panel.get_by_role("textbox").first.fill(text)
        panel.get_by_role("button", name="Ask", exact=True).click()
    panel.get_by_text("Ġquestion").locator("visible=true").first.wait_for(timeout=20_000)
    reader.context.close()


def test_an_error_is_a_sentence(browser: Any, address: str) -> None:
    reader = Reader(browser, address, 375, "dark")
    panel = reader.tab("Fill a mask")
    panel.get_by_role("textbox").first.fill("no gap")
    panel.get_by_role("button", name="Ask", exact=True).click()
    panel.get_by_text("has no mask: please add one <mask> token").first.wait_for()
    seen = reader.page.evaluate(tool.LOOK)
    assert seen["contrast"] >= tool.LEAST_CONTRAST
    assert reader.complaints == []
    reader.context.close()
