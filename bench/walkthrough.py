"""``python -m bench.walkthrough``: the pictures of ``docs/reading-a-report.md``, from a real run.

A ladder is run against the embedded endpoint, and its report's plots become ``docs/figures``; the
first screen is taken in headless Chromium. What each says is put into the page beside it.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.harness import SUITE
from bench.pages import DOCS, put_measured
from metrics.run_files import PLOTS_FOLDER, REPORT_HTML
from reports.analyse import analyse
from reports.load import load_run
from reports.plots import PLOTS
from reports.render import render_run

FIGURES = DOCS / "figures"
PAGE = "reading-a-report.md"
LADDER = (
    *("--stages", "1,2,4,8,16,24,32", "--hold", "20s", "--settle", "4s"),
    *("--slo", "ttft_p50<500ms,tpot_p95<80ms", "--price-in", "0.27", "--price-out", "1.10"),
    *("--seed", "7", "--run-name", "walkthrough"),
)
SCREEN = {"width": 1100, "height": 800}
PHONE = {"width": 390, "height": 844}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Run the ladder unless a run is given, and make every picture."""
    parser = argparse.ArgumentParser(prog="python -m bench.walkthrough", description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="a saved run to use instead of a new one")
    given = parser.parse_args().run
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        raise SystemExit("no Chromium was found, and the first screen is taken in it: make browser")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        if given is None:
            shutil.copytree(_new_run(Path(folder)), run)
        else:
            shutil.copytree(given, run)
        render_run(run, sys.stdout)
        _take_screens(chromium, run / REPORT_HTML)
        _copy_plots(run)
    return 0


def _new_run(folder: Path) -> Path:
    runs = folder / "runs"
    command = [sys.executable, "-m", "bench.first_ramp", "--runs-dir", str(runs), *LADDER]
    code = subprocess.run(command, cwd=SUITE, check=False).returncode
    found = sorted(runs.glob("*/run.json"))
    if code or not found:
        raise SystemExit(f"the ladder ended with exit code {code}: see above, and try a quiet host")
    return found[-1].parent


def _take_screens(chromium: str, page_file: Path) -> None:
    """The first screen as on a desk and on a dark phone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, size, scheme in (("answer", SCREEN, "light"), ("phone", PHONE, "dark")):
            context = browser.new_context(viewport=size, color_scheme=scheme)
            page = context.new_page()
            page.goto(page_file.resolve().as_uri())
            if name == "answer":
                page.locator("#answer").screenshot(path=FIGURES / f"report-{name}.png")
            else:
                page.screenshot(path=FIGURES / f"report-{name}.png")
            context.close()
        browser.close()


def _copy_plots(folder: Path) -> None:
    run = load_run(folder)
    report = analyse(run)
    put_measured(PAGE, "the answer", "\n".join(f"> {text}" for text in report.headline))
    for name, plot in PLOTS.items():
        if plot.missing(report, run) is None:
            picture = folder / PLOTS_FOLDER / f"{name}.png"
            shutil.copyfile(picture, FIGURES / f"report-{name}.png")
            put_measured(PAGE, name, f"> {plot.sentence(report, run)}")


if __name__ == "__main__":
    sys.exit(main())
