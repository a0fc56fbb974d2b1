"""The client's own state on every face of the report: its pauses, and how wrong times can be."""

import re

import pytest

from metrics.outcome import ReadMode, StampSource
from reports.analyse import analyse
from reports.client import client_rows
from reports.load import load_run
from reports.stages import stage_rows
from tests.support.client_state import users, watched
from tests.support.records import make_record
from tests.support.rendered_run import good, rendered
from tests.support.run_builder import build_run, numbered

KERNEL = {"stamp_source": StampSource.KERNEL}


def test_pauses_are_counted_and_shared_out_over_the_held_time(tmp_path):
    """1 ms x 99 and 21 ms: 100 pauses, 120 ms of the two workers' 20 s are 0.6 %."""
    records = [make_record(worker=worker) for worker in ("a", "b")]
    folder = build_run(tmp_path / "r", numbered(records))
    watched(folder, loop_lag_s=[0.001], gc_pause_s=[0.001] * 99 + [0.021])

    row = analyse(load_run(folder)).client[0]

    assert 100 == row.gc_pauses
    assert 0.001 == pytest.approx(row.gc_pause_p99_s, rel=0.01)
    assert 0.021 == row.gc_pause_max_s
    assert 0.006 == pytest.approx(row.gc_share)


def test_a_stage_without_a_pause_has_none_in_a_run_that_counts_them(tmp_path):
    """The second stage had no collection: 0, not missing."""
    records = [make_record(stage=n, started_s=n * 10 + 1.0) for n in range(2)]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2))
    watched(folder, 0, loop_lag_s=[0.001], gc_pause_s=[0.002])
    watched(folder, 1, loop_lag_s=[0.001])

    rows = analyse(load_run(folder)).client

    assert [1, 0] == [row.gc_pauses for row in rows]
    assert 0.0 == rows[1].gc_share
    assert rows[1].gc_pause_max_s is None


def test_a_run_that_never_counted_pauses_says_nothing_of_them(tmp_path):
    """Health without pauses, as older versions left it: None, and n/a on the page."""
    folder = watched(build_run(tmp_path / "r", numbered(good(3))), loop_lag_s=[0.001])

    row = analyse(load_run(folder)).client[0]

    assert (None, None, None, None) == (
        row.gc_pauses,
        row.gc_pause_p99_s,
        row.gc_pause_max_s,
        row.gc_share,
    )


def test_the_measuring_error_is_that_of_the_worst_stage(tmp_path):
    """Lags of 1 ms and 12 ms, delays of 2 ms and none, pauses of 15 ms: the greatest of each."""
    records = [
        make_record(stage=n, started_s=n * 10 + 1.0, client_delay_s=0.02 if n == 0 else None)
        for n in range(2)
    ]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2))
    watched(folder, 0, loop_lag_s=[0.011], gc_pause_s=[0.015])
    watched(folder, 1, loop_lag_s=[0.012])

    _, summary, text = rendered(folder)

    sentence = (
        "measuring error, worst stage: event loop late by up to 12 ms (p99), "
        "first tokens read up to 20 ms late (p99), garbage collections of up to 15 ms"
    )
    assert sentence == summary["client_sentences"][0]
    assert f"client: {sentence}" in " ".join(text.split())
    assert sentence in (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_shows_each_stages_row(tmp_path):
    """Pauses, connections, stamps and merged reads stand in the two tables."""
    merged = {"connection_reused": True, "ttft_late_max_s": 0.02, "read_mode": ReadMode.LAZY}
    records = [*users(2, 3, **KERNEL), make_record(user=1, merged_reads=3, **merged)]
    folder = build_run(tmp_path / "r", numbered(records))
    watched(folder, loop_lag_s=[0.001], cpu_ratio=[0.25], gc_pause_s=[0.002, 0.004])

    rendered(folder)

    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index("<h2>The client itself</h2>") :]
    rows = re.findall(r"<tbody>\n<tr>(.*?)</tr>", section, re.DOTALL)[:2]
    last = ["1", "20 ms", "6 of 7"]
    health, traffic = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows)
    assert ["25.0%", "25.0%", "2", "4.00 ms", "4.00 ms", "0.060%", "no"] == health[5:]
    assert ["1", "2", "5", "0", "7", "7", "85.7 %", "3", "1", *last] == traffic


def test_a_killed_run_still_tells_its_connections(tmp_path):
    """Without tallies there is no health, but the records speak."""
    run = load_run(build_run(tmp_path / "r", numbered(users(2, 2)), stages=False))

    (row,) = client_rows(run, stage_rows(run))

    assert (0, None, 2, 2) == (
        row.n,
        row.loop_lag_p99_s,
        row.connections_opened,
        row.connections_reused,
    )
    assert row.limited is None
    assert row.connections_churned is None


@pytest.mark.parametrize(
    ("lag_s", "told"), [(0.024, False), (0.048, True), (0.06, False)], ids=["far", "near", "over"]
)
def test_a_client_near_its_limit_is_told_of(tmp_path, lag_s, told):
    """48 ms of the allowed 50: the stage stands, with a notice; over it the finding says more."""
    folder = watched(build_run(tmp_path / "r", numbered(good(3))), loop_lag_s=[lag_s])

    notices = analyse(load_run(folder)).notices

    assert told is any("48 ms late at p99, near the limit of 50 ms" in each for each in notices)


def test_first_tokens_read_with_later_ones_are_a_notice_from_one_percent(tmp_path):
    """One of three: its TTFT may be 168 ms too long; one of a hundred and one says nothing."""
    merged = make_record(**KERNEL, read_mode=ReadMode.FULL, ttft_late_max_s=0.168)
    whole = [make_record(**KERNEL, read_mode=ReadMode.FULL) for _ in range(100)]
    few = build_run(tmp_path / "few", numbered([merged, *whole[:2]]))
    many = build_run(tmp_path / "many", numbered([merged, *whole]))

    told, untold = (analyse(load_run(folder)).notices for folder in (few, many))

    (notice,) = [each for each in told if "in one piece" in each]
    assert "stage 1: 1 of 3 first tokens" in notice
    assert "at most 168 ms too long" in notice
    assert not any("in one piece" in each for each in untold)
