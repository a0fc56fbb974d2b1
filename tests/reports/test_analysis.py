"""Figures of built runs that can be worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.outcome import Outcome
from metrics.slo import parse_slo, request_is_good
from metrics.stage import Phase, PhaseMark, Stage
from reports.analyse import analyse
from reports.counting import good_requests
from reports.load import frame_of, load_run
from reports.windows import Window, held_windows, window_rates
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered


def report_of(folder, records, slo=None, **options):
    """The analysed report of records, saved and read back."""
    return analyse(load_run(build_run(folder, numbered(records), **options)), slo)


def answer(started_s, seconds, tokens=50, **changes):
    """A success whose tokens arrive evenly from its start."""
    times = {"last_token_s": seconds, "end_s": seconds, "user_latency_s": seconds}
    first = {"ttft_s": 0.0, "ttfa_s": 0.0, "user_ttft_s": 0.0, "started_s": started_s}
    return make_record(**{**times, **first, "completion_tokens": tokens, **changes})


def test_M13_a_straggler_is_in_the_run_and_not_in_the_window(tmp_path):
    """Nine of 1 s, one of 9 s, 50 tokens each: 55.6 over 9 s; 155.6 in the window of 3 s."""
    quick = [answer(started_s, 1.0) for started_s in (0.0, 1.0, 2.0) for _ in range(3)]

    report = report_of(tmp_path / "r", [*quick, answer(0.0, 9.0)], hold_s=3.0, levels=(4,))

    assert 9.0 == pytest.approx(report.throughput.seconds)
    assert 500 / 9 == pytest.approx(report.throughput.output_tokens_per_s)
    assert (450 + 50 / 3) / 3 == pytest.approx(report.stages[0].output_tokens_per_s)
    assert 4.0 == pytest.approx(report.stages[0].in_flight)
    assert 3.0 == report.stages[0].window_s


def test_the_run_rate_does_not_mix_clocks(tmp_path):
    """Two workers of 10 s and 100 tokens each, clocks 1,000 s apart: 20 tokens/s over 10 s."""
    records = [
        answer(begin + at_s, 5.0, worker=worker)
        for worker, begin in (("a", 0.0), ("b", 1000.0))
        for at_s in (0.0, 5.0)
    ]

    throughput = report_of(tmp_path / "r", records).throughput

    assert 10.0 == pytest.approx(throughput.seconds)
    assert 20.0 == pytest.approx(throughput.output_tokens_per_s)


def test_a_level_held_twice_is_one_window(tmp_path):
    """5 s and 5 s on one worker, ten requests: 1 per second over 10 s, not 2."""
    level, marks = Stage(0, "level", 1), []
    for at_s in (0.0, 10.0):
        marks += [
            PhaseMark("local", level, Phase.HOLD, at_s, 1),
            PhaseMark("local", level, Phase.SETTLE, at_s + 5, 1),
        ]
    records = frame_of([answer(at_s, 1.0) for at_s in (*range(5), *range(10, 15))])

    rates = window_rates(held_windows(marks, records)[0], records)

    assert 10.0 == rates.window_s
    assert 1.0 == pytest.approx(rates.sent_rps)
    assert 50.0 == pytest.approx(rates.output_tokens_per_s)


def test_time_before_the_send_is_not_in_flight():
    """Wanted at 0, sent at 4, over at 6: 2 s in flight, and ended in the second window."""
    record = answer(0.0, 2.0, user_latency_s=6.0)

    rates = window_rates([Window("local", 5.0, 10.0)], frame_of([record]))

    assert 1 / 5 == pytest.approx(rates.in_flight)
    assert 1 / 5 == pytest.approx(rates.completed_rps)
    assert 25 / 5 == pytest.approx(rates.output_tokens_per_s)


def test_littles_law_holds_in_a_steady_window(tmp_path):
    """Four streams of 1 s back to back for 10 s: 4 in flight, 4/s, no gap."""
    records = [answer(float(at_s), 1.0) for at_s in range(10) for _ in range(4)]

    row = report_of(tmp_path / "r", records, levels=(4,)).stages[0]

    assert 4.0 == pytest.approx(row.in_flight)
    assert 4.0 == pytest.approx(row.sent_rps)
    assert 0.0 == pytest.approx(row.littles_law_gap)


def test_M06_a_failure_takes_as_long_as_it_took(tmp_path):
    """Tokens until 0.5 s, then silence until the limit at 60 s: 60 s, not 0.5 s."""
    stalled = make_record(outcome=Outcome.IDLE_TIMEOUT, end_s=60.0)

    report = report_of(tmp_path / "r", [make_record(), stalled])

    assert 60.0 == pytest.approx(report.failures[0].latency.p50)
    assert 1 == report.latency["e2e_latency_s"].n


def test_chunk_gaps_come_from_all_tallies(tmp_path):
    """10 answers of 5 chunks in two levels: 40 gaps of 100 ms, within 1 %."""
    records = [make_record(stage=n % 2) for n in range(10)]

    gaps = report_of(tmp_path / "r", records, levels=(1, 2)).latency["chunk_gap_s"]

    assert 40 == gaps.n
    assert 0.1 == pytest.approx(gaps.p99, rel=0.01)
    assert 0.1 == pytest.approx(gaps.mean)
    assert gaps.p99 <= gaps.max


@pytest.mark.parametrize(("levels", "told"), [(1, True), (2, False)], ids=["one", "two"])
def test_only_a_single_level_has_an_interval(tmp_path, levels, told):
    """Sections of several levels would compare the levels; each level keeps its own."""
    rng = np.random.default_rng(5)
    records = [
        make_record(stage=n * levels // 400, started_s=n * 0.01, ttft_s=float(ttft_s))
        for n, ttft_s in enumerate(rng.gamma(4, 0.02, 400))
    ]

    report = report_of(tmp_path / "r", records, levels=tuple(range(1, levels + 1)))

    assert told == bool(report.latency["ttft_s"].intervals)
    assert all("p50" in row.ttft.intervals for row in report.stages)


kinds = st.builds(
    lambda outcome, ttft_s, tokens, streamed: make_record(
        outcome=outcome, ttft_s=ttft_s, completion_tokens=tokens, streamed=streamed
    ),
    st.sampled_from([Outcome.OK, Outcome.OK, Outcome.SERVER_ERROR, Outcome.CANCELLED]),
    st.one_of(st.none(), st.sampled_from([0.05, 0.1, 0.3])),
    st.one_of(st.none(), st.integers(0, 9)),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(kinds, min_size=1, max_size=20))
def test_goodput_is_the_share_of_good_requests(records):
    """The same as judging one request after the other; failures are never good."""
    limits = parse_slo("ttft_p95<100ms,tpot_p50<60ms,chunk_gap_p99<1ms,e2e_latency_p99>0.1s")
    good = [r for r in records if r.outcome is Outcome.OK and request_is_good(r, limits)]

    assert len(good) / len(records) == pytest.approx(
        good_requests(frame_of(records), limits).mean()
    )


def test_goodput_without_latency_limits_is_the_share_of_successes(tmp_path):
    """good>90% alone: 9 of 10 are good, so it is met; not asked for, there is none."""
    records = [*(make_record() for _ in range(9)), failed_record()]

    assert 0.9 == report_of(tmp_path / "r", records, slo="good>=90%").good_ratio
    assert report_of(tmp_path / "s", records, slo="ok>50%").good_ratio is None


def test_an_objective_is_told_in_its_own_unit(tmp_path):
    """Times as times, shares in percent, rates per second."""
    slo = "ttft_p95<50ms,ok>99%,completed_rps>7"
    records = [make_record(), make_record(), failed_record()]

    texts = [v.text for v in report_of(tmp_path / "r", records, slo=slo).verdicts]

    assert any(text.endswith("ttft_p95<50ms, it was 100 ms") for text in texts)
    assert any(text.endswith("ok>99%, it was 66.6667 %") for text in texts)
    assert any(text.endswith("completed_rps>7, it was 0.2 /s") for text in texts)


def test_every_request_is_in_a_stage_or_left_out(tmp_path):
    """Total = held in all stages + left out in all phases, whatever became of the request."""
    records = [
        make_record(stage=stage, phase=phase)
        for stage, phase in [
            (None, None),
            (0, Phase.RAMP),
            (0, Phase.HOLD),
            (1, Phase.HOLD),
            (2, Phase.DRAIN),
        ]
    ]

    report = report_of(tmp_path / "r", records, levels=(1, 2))

    held = sum(row.offered for row in report.stages)
    assert (2, 3) == (held, sum(report.left_out_by_phase.values()))
    assert report.totals.offered == held + 3
    assert {"before the first stage": 1, "ramp": 1, "drain": 1} == report.left_out_by_phase


def test_the_feeling_is_that_of_a_level_known_to_be_below_the_knee(tmp_path):
    """429s from the third level on: the sentence speaks of 2 users, not of 4."""
    records = [make_record(stage=n % 3) for n in range(90)]
    records += [
        failed_record(Outcome.RATE_LIMITED, 429, stage=2, rate_limited_attempts=1) for _ in range(5)
    ]

    report = report_of(tmp_path / "r", records, levels=(1, 2, 4))

    assert "rate_limited" == report.knee.status
    assert any(text.startswith("At 2 users the first token") for text in report.headline)
