"""Loads are told in the unit in which they were asked for, in every part of a report."""

import io

import pytest

from reports.analyse import analyse
from reports.cost import cost_table
from reports.faces.terminal import print_report
from reports.ledger_text import ledger_table
from reports.load import load_run
from reports.loads import axis_name, load_cell, load_mark, load_name, load_size
from reports.page import page
from reports.plots import draw
from tests.support.records import make_record
from tests.support.run_builder import build_run, numbered

PACED = (1, 4.0, 100.0)
"""One worker, 4 requests/s, by 100 nominal tokens/s."""


@pytest.mark.parametrize(
    ("load", "name", "cell", "size", "mark"),
    [
        ((1, None, None), "1 user", "1", 1, "1"),
        ((1, 2.5, None), "2.5 requests/s", "2.5/s", 2.5, "2.5"),
        ((1, 9.597831, None), "9.598 requests/s", "9.598/s", 9.598, "9.598"),
        (PACED, "6,000 tokens/min", "6,000 tokens/min", 6000, "6,000"),
    ],
    ids=["users", "requests", "a rate that was found", "tokens"],
)
def test_a_load_has_one_name(load, name, cell, size, mark):
    """Users, requests/s or tokens/min."""
    assert name == load_name(*load)
    assert cell == load_cell(*load)
    assert size == load_size(*load)
    assert mark == load_mark(*load)


def test_an_axis_is_named_after_what_set_the_pace():
    """Users, requests/s, tokens/min."""
    assert "concurrent users" == axis_name([(None, None)])
    assert "offered rate (requests/s)" == axis_name([(4.0, None)])
    assert "offered rate (tokens/min)" == axis_name([(4.0, 100.0)])


@pytest.fixture
def paced(tmp_path):
    """A run of one step of 6,000 nominal tokens/min, with a price."""
    users, rate_rps, tokens_per_s = PACED
    step = {"stage": 0, "kind": "rate", "target_users": users, "rate_rps": rate_rps}
    plan = [{**step, "rate_tokens_per_s": tokens_per_s}]
    records = numbered([make_record(started_s=n / 4) for n in range(40)])
    prices = {"price_in": 0.5, "price_out": 1.5}
    folder = build_run(
        tmp_path / "run", records, stage_plan=plan, shape="open-loop", settings=prices
    )
    return load_run(folder)


def test_a_pace_of_tokens_is_told_in_tokens_everywhere(paced, tmp_path):
    """Stage table, sentences, ledger, cost, page and plot: never the mean of requests/s."""
    report, out = analyse(paced), io.StringIO()
    print_report(report, out, tmp_path)
    lines = out.getvalue().splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.split()[:1] == ["rate"]) :]
    said = [text for text in report.headline if "requests/s" in text or "tokens/min" in text]

    assert ["6,000", "tokens/min"] == table[1].split()[:2]
    assert any(text.startswith("6,000 tokens/min: ") for text in said)
    assert any(text.endswith("at 6,000 tokens/min.") for text in said)
    assert not any("4 requests/s" in text or "4/s" in text for text in said)
    assert "6,000 tokens/min" == ledger_table(report.ledger)[0][0]
    assert "6,000 tokens/min" == cost_table(report.cost)[0][0]
    assert 100.0 == report.stages[0].rate_tokens_per_s
    assert '<th scope="row">6,000 tokens/min</th>' in page(report, paced, {})
    assert "offered rate (tokens/min)" in draw("concurrency", report, paced, tmp_path)
