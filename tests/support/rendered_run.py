"""A built run, rendered: its exit code, and its figures as other programs read them."""

import csv
import io
import json
from pathlib import Path

from reports.analyse import analyse
from reports.faces.terminal import print_report
from reports.load import load_run
from reports.render import render_run
from tests.support.records import make_record
from tests.support.schemas import misfits


def strict(path):
    """JSON as a parser reads it that knows no NaN."""

    def refuse(name):
        raise ValueError(name)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def rendered(folder, slo=None):
    """Exit code, summary and terminal text of a run, whose figures fit their schema."""
    out = io.StringIO()
    code = render_run(folder, out, slo)
    summary = strict(folder / "summary.json")
    assert [] == misfits("summary", summary)
    return code, summary, out.getvalue()


def report_of(folder, slo=None):
    """A saved run, analysed."""
    return analyse(load_run(folder), slo)


def printed(report, out):
    """What a terminal or a log shows of a report."""
    print_report(report, out, Path("runs/r"))
    return out.getvalue()


def csv_rows(folder):
    """The rows of summary.csv as dicts, after checking that all have the same width."""
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as lines:
        table = list(csv.reader(lines))
    assert {len(table[0])} == {len(row) for row in table}
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


def good(n, **changes):
    """``n`` successes a tenth of a second apart in the window."""
    return [make_record(**{"started_s": 1 + n * 0.1, **changes}) for n in range(n)]
