"""Opens reports in headless Chromium, in a process of its own; prints what it saw as JSON.

``python -m tests.support.report_browser CHROMIUM PAGE…``: each page on a wide and on a narrow
screen, in light and in dark, and as it is printed. ``faults`` are by page, screen and scheme.
"""

import json
import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.support.web_page import QUIET

SCREENS = {"wide": (1280, 900), "phone": (390, 844)}
GRAVE = ("serious", "critical")
COLOURS = """() => ({
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  plots: [...new Set([...document.querySelectorAll("svg text")].map(t => getComputedStyle(t).fill))]
})"""


def look(browser, page_path, screen, scheme):
    """What is wrong with a page there, and its colours."""
    width, height = SCREENS[screen]
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page, faults, url = context.new_page(), [], Path(page_path).resolve().as_uri()
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("request", lambda asked: asked.url != url and faults.append(f"asked: {asked.url}"))
    page.goto(url)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        faults.append(f"the page is {wide} px wide on a screen of {width} px")
    for found in Axe().run(page).response["violations"]:
        if found["impact"] in GRAVE:
            where = "; ".join(node["html"][:200] for node in found["nodes"][:3])
            faults.append(f"{found['impact']}: {found['id']}: {where}")
    colours = page.evaluate(COLOURS)
    page.emulate_media(media="print", color_scheme=scheme)
    printed = page.evaluate(COLOURS)
    context.close()
    return faults, colours, printed


def main(chromium, *pages):
    """All pages everywhere."""
    faults, colours, printed = {}, {}, {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        for number, page in enumerate(pages):
            for screen, scheme in (("wide", "light"), ("wide", "dark"), ("phone", "dark")):
                where = f"{number} {screen} {scheme}"
                found, colours[where], printed[where] = look(browser, page, screen, scheme)
                if found:
                    faults[where] = found
        browser.close()
    return {"faults": faults, "colours": colours, "printed": printed}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
