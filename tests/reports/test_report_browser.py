"""The report as a browser shows it and as the checker of the HTML standard reads it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reports.__main__ import main
from tests.support.processes import ROOT
from tests.support.report_runs import eventful_run
from tests.support.run_builder import build_run

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
JAVA = shutil.which("java")
CHECKER = ROOT / ".checker" / "node_modules" / "vnu-jar" / "build" / "dist" / "vnu.jar"

in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
checked = pytest.mark.skipif(
    JAVA is None or not CHECKER.exists(), reason="no Java or no vnu.jar: make checker"
)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of a run with everything and of a run with nothing."""
    folder = tmp_path_factory.mktemp("runs")
    runs = eventful_run(folder / "eventful"), build_run(folder / "empty", [])
    for run in runs:
        main([str(run), "--quiet"])
    return [run / "report.html" for run in runs]


@pytest.fixture(scope="module")
def seen(pages):
    """What Chromium saw of them."""
    command = [sys.executable, "-m", "tests.support.report_browser", CHROMIUM, *map(str, pages)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@in_chromium
def test_pages_open_without_errors_requests_or_barriers(seen):
    """Nothing on the console, nothing fetched, no grave finding of axe, no sideways scrolling.

    In light and in dark, on a wide screen and on a phone.
    """
    assert 6 == len(seen["colours"])
    assert {} == seen["faults"]


@in_chromium
def test_pages_and_plots_follow_the_colour_scheme(seen):
    """Dark paper and light letters, in the plots too; on paper always black on white."""
    light, dark = (seen["colours"][f"0 wide {scheme}"] for scheme in ("light", "dark"))

    assert "rgb(255, 255, 255)" == light["paper"]
    assert light["paper"] != dark["paper"]
    assert light["ink"] in light["plots"]
    assert dark["ink"] in dark["plots"]
    assert not set(light["plots"]) & set(dark["plots"])
    assert light == seen["printed"]["0 wide dark"]


@checked
def test_pages_are_valid_html(pages):
    """The Nu HTML Checker has no word to say, neither an error nor a warning."""
    command = [JAVA, "-Xmx512m", "-jar", str(CHECKER), "--format", "json", "--stdout"]

    done = subprocess.run(
        [*command, *map(str, pages)], capture_output=True, text=True, timeout=150, check=False
    )

    said = json.loads(done.stdout)["messages"]
    assert [] == [(Path(m["url"]).parent.name, m["message"], m.get("extract")) for m in said]


@checked
def test_the_checker_goes_red(tmp_path):
    """A paragraph in a list is told, so that silence means something."""
    bad = tmp_path / "bad.html"
    bad.write_text("<!DOCTYPE html><html lang=en><title>x</title><ul><p>x</p></ul>", "utf-8")

    done = subprocess.run(
        [JAVA, "-jar", str(CHECKER), "--format", "json", "--stdout", str(bad)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert any("not allowed" in m["message"] for m in json.loads(done.stdout)["messages"])
