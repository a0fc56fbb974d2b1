"""Drives the live tab in headless Chromium, in a process of its own; prints what it saw as JSON.

``python -m tests.support.live_tab URL CHROMIUM SECONDS [PICTURES]``: starts a run as the form has
it (of at most so many seconds), opens the tab, waits for the report's link, and reads the figures
off the page. With a folder for pictures it takes some on the way, light, dark and narrow.
"""

import json
import sys
import tempfile
import urllib.parse
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.support.web_page import QUIET

ROWS = """() => [...document.querySelectorAll("#stages tbody tr")].map((row) =>
  Object.fromEntries([...row.cells].map((cell) => [cell.dataset.name, cell.dataset.value])))"""
TILES = """() => Object.fromEntries([...document.querySelectorAll("#tiles div")].map((tile) =>
  [tile.querySelector("dt").textContent, tile.querySelector(".value").textContent]))"""
DRAWN = """() => [...document.querySelectorAll("#plots path.line")].filter((line) =>
  (line.getAttribute("d").match(/[ML]/g) || []).length > 3).length"""
FORM = """() => [...document.querySelectorAll(
  "form .swarmgauge-group, form [name][aria-describedby]")]
  .map((one) => one.name ? [one.name, document.getElementById(one.getAttribute("aria-describedby"))
    .textContent] : ["group", one.textContent])"""


class Watch:
    """Of all pages: errors, requests that leave their own address, and what the tab was sent."""

    def __init__(self, browser, own):
        self.errors, self.outside, self.answers = [], [], []
        browser.on("weberror", lambda error: self.errors.append(str(error.error)))
        browser.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        browser.on("request", lambda request: self._request(request, own))
        browser.on("requestfinished", self._finished)

    def _request(self, request, own):
        parts = urllib.parse.urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != own:
            self.outside.append(request.url)

    def _finished(self, request):
        if urllib.parse.urlsplit(request.url).path.endswith("/live.json"):
            self.answers.append(request)


def drive(url, chromium, seconds, pictures=None):
    """One run, seen through the tab."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        browser = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=list(QUIET),
            viewport={"width": 1280, "height": 900},
        )
        page = browser.new_page()
        watch = Watch(browser, urllib.parse.urlsplit(url).netloc)
        page.goto(url)
        page.get_by_text("Custom parameters").click()
        page.locator(".swarmgauge-group").first.wait_for()
        form = page.evaluate(FORM)
        if pictures is not None:
            page.wait_for_timeout(800)  # Locust unfolds it slowly
            _picture(page, pictures, "form")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("tab", name="Live").click()
        tab = page.frame_locator(".swarmgauge-frame")
        tab.locator("#stages tr.current").wait_for(timeout=60_000)
        for number in range(1, 1 + (pictures is not None)):
            page.wait_for_timeout(12_000 * number)
            _pictures_of_a_run(browser, page, pictures, url)
        tab.get_by_role("link", name="The report").wait_for(timeout=1000 * (seconds + 60))
        page.wait_for_timeout(500)
        frame = page.frames[1]
        seen = {
            "form": form,
            "rows": frame.evaluate(ROWS),
            "tiles": frame.evaluate(TILES),
            "drawn": frame.evaluate(DRAWN),
            "phase": frame.inner_text("#phase"),
            "headline": frame.inner_text("#headline"),
            "report": tab.get_by_role("link", name="The report").get_attribute("href"),
            "theme": frame.evaluate("document.documentElement.dataset.theme"),
        }
        seen["hard_to_use"] = _hard_to_use(frame)
        _picture(page, pictures, "ended")
        sizes = [request.sizes() for request in watch.answers]
        page.get_by_role("tab", name="Charts").click()
        seen["hidden_beside_another_tab"] = page.locator(".swarmgauge-frame").is_hidden()
        with browser.expect_page() as opened:
            page.get_by_role("tab", name="Live").click()
            tab.get_by_role("link", name="The report").click()
        opened.value.wait_for_load_state()
        seen["report_title"] = opened.value.title()
        browser.close()
    return {
        **seen,
        "errors": watch.errors,
        "outside": watch.outside,
        "answer_bytes": [sum(size.values()) for size in sizes],
    }


def _hard_to_use(frame):
    """What axe finds in the tab that is serious or worse, in light and in dark."""
    found = []
    for theme in ("dark", "light"):
        frame.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        for one in Axe().run(frame).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                found.append([theme, one["id"], [node["html"][:200] for node in one["nodes"]]])
    return found


def _picture(page, folder, name):
    if folder is not None:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def _pictures_of_a_run(browser, page, folder, url):
    _picture(page, folder, "light")
    page.evaluate("localStorage.theme = 'dark'")
    page.wait_for_timeout(300)
    _picture(page, folder, "dark-frame")
    alone = browser.new_page()
    alone.goto(urllib.parse.urljoin(url, "swarmgauge/live"))
    alone.wait_for_timeout(3000)
    _picture(alone, folder, "dark")
    alone.set_viewport_size({"width": 390, "height": 844})
    alone.wait_for_timeout(500)
    _picture(alone, folder, "narrow-dark")
    alone.evaluate("localStorage.theme = 'light'")
    alone.reload()
    alone.wait_for_timeout(3000)
    _picture(alone, folder, "narrow")
    alone.close()


if __name__ == "__main__":
    url, chromium, seconds, *rest = sys.argv[1:]
    print(json.dumps(drive(url, chromium, float(seconds), *rest)))
