"""What a report says of a run that was ended before its plan was through."""

import html

import pytest

from reports.analyse import analyse
from reports.load import load_run
from tests.support.rendered_run import good, rendered
from tests.support.run_builder import build_run, numbered

REASONS = {
    "requests": "all 200 requests of --max-requests were sent",
    "budget": "stopped for the budget of $1.00: $0.90 spent",
    "quota": "10 answers in a row said the quota is used up (worker 0-abc)",
}


def ended(folder, kind, **meta):
    """A run that was ended so."""
    why = {"ended_early": REASONS[kind], "ended_by": kind}
    return build_run(folder, numbered(good(20)), **why, **meta)


def sentences_of(folder):
    """Those of the first lines that tell of an early end."""
    headline = analyse(load_run(folder)).headline
    return [text for text in headline if text.startswith(("The run ended", "The search ended"))]


@pytest.mark.parametrize("kind", REASONS)
def test_every_face_says_why_the_run_was_ended(tmp_path, kind):
    """One sentence behind the counts: on the terminal, in the page and in summary.json."""
    folder = ended(tmp_path / "r", kind)
    _, summary, terminal = rendered(folder)
    expected = f"The run ended before its plan was through: {REASONS[kind]}."

    assert [expected] == sentences_of(folder)
    assert expected == summary["headline"][1]
    assert expected in " ".join(terminal.split())
    assert expected in html.unescape((folder / "report.html").read_text(encoding="utf-8"))


def test_a_run_that_followed_its_plan_says_nothing_of_it(tmp_path):
    """Nothing was ended early."""
    assert [] == sentences_of(build_run(tmp_path / "r", numbered(good(20))))


@pytest.mark.parametrize("shape", ["knee", "limits"])
def test_a_search_says_it_once(tmp_path, shape):
    """--max-requests ended it: told once, in the words of the search where it has its own."""
    why = REASONS["requests"]
    found = sentences_of(ended(tmp_path / "r", "requests", shape=shape, search_ended=why))

    assert 1 == len(found)
    assert why in found[0]
