"""Goodput and gaps of each stage."""

import pytest

from tests.support.client_state import report_of
from tests.support.records import failed_record, make_record


def test_goodput_is_the_share_of_completions_within_the_objectives(tmp_path):
    """30 of 40 successes are in time, 10 fail: 60 % good, three quarters of what completes."""
    slow = {"ttft_s": 0.4, "user_ttft_s": 0.4}
    records = [make_record(**(slow if n % 4 == 0 else {})) for n in range(40)]
    records += [failed_record() for _ in range(10)]
    (row,) = report_of(tmp_path / "r", records, slo="ttft_p95<200ms").stages

    assert 30 / 50 == row.good_ratio
    assert pytest.approx(0.75 * row.completed_rps) == row.goodput_rps


def test_without_objectives_there_is_no_goodput(tmp_path):
    """Missing is None."""
    (row,) = report_of(tmp_path / "r", [make_record()]).stages

    assert (None, None) == (row.good_ratio, row.goodput_rps)


def test_a_stage_without_a_success_has_no_goodput_at_all(tmp_path):
    """0 per second, which is known."""
    (row,) = report_of(tmp_path / "r", [failed_record()], slo="ttft_p95<200ms").stages

    assert (0.0, 0.0) == (row.good_ratio, row.goodput_rps)


def test_gaps_are_told_by_stage_and_flagged_when_few(tmp_path):
    """4 gaps of each record: 8 in one stage, 4 in the other, none where nothing was held."""
    records = [make_record(), make_record(), make_record(stage=1, started_s=11.0)]
    report = report_of(tmp_path / "r", records, levels=(1, 2, 3))

    assert {0: 8, 1: 4} == {stage: gaps.n for stage, gaps in report.gaps.items()}
    assert "p95:few" in report.gaps[0].flags
    assert 12 == report.latency["chunk_gap_s"].n
