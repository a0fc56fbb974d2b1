"""A comparison's page as a browser shows it and as the checker of the HTML standard reads it."""

import json
import subprocess
import sys

import pytest

from reports.__main__ import main
from tests.reports.test_report_browser import CHECKER, CHROMIUM, JAVA, checked, in_chromium
from tests.support.compared_runs import saved
from tests.support.processes import ROOT

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A comparison with differences, and one that was refused."""
    folder = tmp_path_factory.mktemp("pages")
    a = saved(folder / "a", 1, levels=(2, 4))
    b = saved(folder / "b", 2, levels=(2, 4), tpot_s=0.024, ttft_s=0.09)
    c = saved(folder / "c", 3, records=[], settings={"think_time": "3"})
    assert 0 == main(["compare", str(a), str(b)])
    assert 4 == main(["compare", str(a), str(c)])
    return [run / "compare" / "compare.html" for run in (b, c)]


@in_chromium
def test_pages_of_comparisons_open_without_errors_requests_or_barriers(pages):
    """No console line, no request, no grave finding of axe, no sideways scrolling; light, dark."""
    command = [sys.executable, "-m", "tests.support.report_browser", CHROMIUM, *map(str, pages)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert {} == json.loads(done.stdout)["faults"]


@checked
def test_pages_of_comparisons_are_valid_html(pages):
    """The Nu HTML Checker finds nothing."""
    command = [JAVA, "-Xmx512m", "-jar", str(CHECKER), "--format", "json", "--stdout"]
    done = subprocess.run(
        [*command, *map(str, pages)], capture_output=True, text=True, timeout=150, check=False
    )
    found = json.loads(done.stdout)["messages"]

    assert [] == [m["message"] for m in found if m["type"] != "info"]
