"""``docs/reading-a-report.md`` shows what a report has."""

import re
from pathlib import Path

from reports.plots import PLOTS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_shows_every_plot_with_what_it_says():
    """A small picture with words in its place, and the plot's own sentence below it.

    Plots of 429s are left to ``docs/rate-limits.md``: the walk's run has none.
    """
    text = (DOCS / "reading-a-report.md").read_text(encoding="utf-8")
    pictures = dict(re.findall(r"!\[([^\]]+)\]\((figures/[^)]+)\)", text))
    walked = [name for name in PLOTS if not name.startswith("limits-")]

    assert {f"figures/report-{name}.png" for name in [*walked, "answer", "phone"]} == set(
        pictures.values()
    )
    assert [] == [name for name in pictures.values() if (DOCS / name).stat().st_size > 150_000]
    for name in walked:
        assert re.search(rf"<!-- measured: {name} -->\n\n> \S.*\n\n<!-- measured: end -->", text)
