"""Drives Locust's page in headless Chromium, in a process of its own; prints what it saw as JSON.

``python -m tests.support.web_page URL CHROMIUM STAGES``: starts a run as the form has it and waits
for its end, then starts a second one with other stages and stops it by hand.
"""

import json
import sys
import tempfile

from playwright.sync_api import sync_playwright

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LIMIT_MS = 60_000


def drive(url, chromium, stages):
    """Two runs in one page; the page's texts, its source and the errors on its console."""
    errors = []
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=list(QUIET)
        )
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        source = page.content()
        page.get_by_text("Custom parameters").click()
        fields = [field.get_attribute("name") for field in page.locator("input").all()]
        page.get_by_role("button", name="Start").click()
        page.get_by_role("button", name="New").wait_for(timeout=LIMIT_MS)
        first = page.inner_text("body")

        page.get_by_role("button", name="New").click()
        page.get_by_text("Custom parameters").last.click()
        page.locator("input[name=stages]").last.fill(stages)
        page.locator("input[name=hold]").last.fill("60s")
        page.get_by_role("button", name="Start").last.click()
        stop = page.get_by_role("button", name="Stop")
        stop.wait_for(timeout=LIMIT_MS)
        page.wait_for_timeout(4000)
        stop.click()
        page.get_by_role("button", name="New").wait_for(timeout=LIMIT_MS)
        second = page.inner_text("body")
        browser.close()
    return {
        "fields": [name for name in fields if name],
        "source": source,
        "first": first,
        "second": second,
        "errors": errors,
    }


if __name__ == "__main__":
    print(json.dumps(drive(*sys.argv[1:4])))
