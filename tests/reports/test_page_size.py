"""The page of a million requests."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from bench.report.made_up import make_run
from bench.report.measure import measure_report
from metrics.run_files import REQUESTS_PARQUET
from reports.analyse import analyse
from reports.load import complete_columns, load_run
from reports.page import page
from reports.plots import PLOTS, draw
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

MOST_BYTES = 3_000_000
LEVELS = tuple(range(1, 21))
HOLD_S = 60.0


def crowd(folder, n):
    """A run of ``n`` requests over 20 levels, its times and outcomes by chance."""
    first = [make_record(), failed_record(error_sample="x")]
    run = load_run(build_run(folder, numbered(first), levels=LEVELS, hold_s=HOLD_S))
    rng = np.random.default_rng(7)
    row = run.records.iloc[:1]
    stage = np.sort(rng.integers(0, len(LEVELS), n))
    ttft_s = rng.gamma(2.0, 0.02, n) * (1 + stage)
    end_s = ttft_s + rng.gamma(3.0, 0.3, n)
    columns = {name: np.repeat(row[name].to_numpy(), n) for name in row.columns}
    columns |= {
        "sequence": np.arange(n),
        "stage": stage,
        "started_s": stage * HOLD_S + rng.uniform(0, HOLD_S, n),
        **dict.fromkeys(("ttft_s", "ttfa_s", "user_ttft_s"), ttft_s),
        **dict.fromkeys(("last_token_s", "end_s", "user_latency_s"), end_s),
        "cached_tokens": rng.integers(0, 10, n),
        "outcome": np.where(rng.random(n) < 0.01, "server_error", "ok"),
    }
    return replace(run, records=complete_columns(pd.DataFrame(columns)))


def whole_page(folder, n):
    """The page with all its plots, as text."""
    run = crowd(folder / "r", n)
    report = analyse(run)
    names = [name for name, plot in PLOTS.items() if plot.missing(report, run) is None]
    return page(report, run, {name: draw(name, report, run, folder) for name in names})


def _new(folder, n):
    (folder / str(n)).mkdir()
    return folder / str(n)


def test_O10_ten_times_the_requests_are_no_larger_page(tmp_path):
    """3,000 and 30,000 requests at 20 levels: under 3 MB, and hardly more for the ten times."""
    small, large = (whole_page(_new(tmp_path, n), n) for n in (3_000, 30_000))

    assert 7 == large.count("<svg")
    assert len(large.encode()) < MOST_BYTES
    assert len(large) < 1.5 * len(small)


@pytest.mark.long
def test_O10_a_report_of_50_000_requests_takes_under_300_mb(tmp_path):
    """Its peak resident memory, from the lines of a run and again from Parquet; all is written."""
    folder = make_run(tmp_path, 50_000)

    for source in ("lines", "Parquet"):
        measured = measure_report(folder, 50_000, source)

        assert measured.peak_bytes < 300e6, source
        assert measured.page_bytes < MOST_BYTES
        assert 50_000 == pq.read_metadata(folder / REQUESTS_PARQUET).num_rows


@pytest.mark.long
@pytest.mark.timeout(900)
def test_O10_a_million_requests_make_a_page_under_3_mb(tmp_path):
    """Every plot is drawn, of all requests."""
    text = whole_page(tmp_path, 1_000_000)

    assert 7 == text.count("<svg")
    assert len(text.encode()) < MOST_BYTES
    assert "requests that succeeded, all of them drawn" in text
