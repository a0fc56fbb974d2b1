"""What is said of the steps of an open loop."""

import json

import pytest

from metrics.outcome import Outcome
from metrics.run_files import mark_to_wire
from metrics.stage import Phase, PhaseMark, Stage
from reports.load import frame_of, load_run
from reports.open_loop import late_reason, rate_steps
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered


def late(*delays_s, ttft_s=0.1):
    """Requests with these schedule delays."""
    return frame_of([make_record(schedule_delay_s=s, ttft_s=ttft_s) for s in delays_s])


@pytest.mark.parametrize(
    ("delay_s", "ttft_s", "limited"),
    [
        (0.0, 0.1, False),
        (0.0099, 0.1, False),
        (0.0101, 1.0, True),
        (0.0049, 0.05, False),
        (0.0051, 0.05, True),
    ],
    ids=["closed loop", "just below", "over 10 ms", "below a tenth", "over a tenth of TTFT"],
)
def test_late_arrivals_make_a_step_client_limited(delay_s, ttft_s, limited):
    """Over 10 ms at p99, or over a tenth of the median TTFT."""
    reason = late_reason(late(*[delay_s] * 100, ttft_s=ttft_s))

    assert limited == (reason is not None)
    limit = {1.0: "(limit 10 ms)", 0.05: "(limit 5.00 ms)"}
    assert not limited or reason.endswith(f"late at p99 {limit[ttft_s]}")


@pytest.mark.parametrize(("delay_s", "limited"), [(0.049, False), (0.051, True)])
def test_a_search_for_limits_bears_arrivals_50_ms_late(delay_s, limited):
    """What limiters count in is seconds, however short first tokens are."""
    reason = late_reason(late(*[delay_s] * 100, ttft_s=0.01), "limits")

    assert limited == (reason is not None)
    assert not limited or reason.endswith("(limit 50 ms)")


def test_a_few_late_arrivals_are_forgiven():
    """One of 200 is beyond the p99."""
    assert late_reason(late(*[0.001] * 199, 0.5)) is None


def open_loop_run(folder, records, rates, over_s):
    """A saved run of rate steps that were held one after the other until ``over_s``."""
    stages = [Stage(n, "rate", 1, rate) for n, rate in enumerate(rates)]
    plan = [
        {"stage": s.id, "kind": s.kind, "target_users": 1, "rate_rps": s.rate_rps} for s in stages
    ]
    build_run(folder, numbered(records), stage_plan=plan)
    marks = [PhaseMark("local", stages[0], Phase.HOLD, 0.0, 1)]
    marks.append(PhaseMark("local", Stage(len(rates), "drain", 0), Phase.DRAIN, over_s, 0))
    contents = json.loads((folder / "stages.json").read_text())
    contents["marks"] = [mark_to_wire(mark) for mark in marks]
    (folder / "stages.json").write_text(json.dumps(contents))
    return load_run(folder)


def answered(due_s, latency_s):
    """A success that was due then and took so long; sent 1 ms late."""
    return make_record(
        worker="local",
        started_s=due_s,
        schedule_delay_s=0.001,
        ttft_s=latency_s / 2,
        last_token_s=latency_s,
        end_s=latency_s,
        user_ttft_s=latency_s / 2 + 0.001,
        user_latency_s=latency_s + 0.001,
    )


def test_every_arrival_is_accounted_for(tmp_path):
    """planned = ok + failed + cancelled + not sent."""
    records = [
        *[answered(n / 4, 0.2) for n in range(40)],
        *[failed_record(worker="local", started_s=10 + n) for n in range(3)],
        *[
            failed_record(Outcome.CANCELLED, None, worker="local", started_s=14 + n)
            for n in range(2)
        ],
        failed_record(Outcome.NOT_SENT, None, worker="local", started_s=17, attempts=0),
    ]

    (step,) = rate_steps(open_loop_run(tmp_path / "run", records, [4.0], 20.0))

    assert (46, 40, 3, 2, 1) == (
        step.planned,
        step.ok,
        step.failed,
        step.cancelled,
        step.not_sent,
    )
    assert "1 arrival never sent" in step.sentence()


def test_a_step_whose_answers_keep_up_is_stable(tmp_path):
    """4/s that take 0.5 s each: 2 in flight throughout."""
    records = [answered(n / 4, 0.5) for n in range(160)]

    (step,) = rate_steps(open_loop_run(tmp_path / "run", records, [4.0], 40.0))

    assert step.verdict == "stable"
    assert 4.0 == pytest.approx(step.offered_rps)
    assert 2.0 == pytest.approx(step.in_flight_mean, rel=0.1)


def test_a_step_whose_answers_fall_behind_is_unstable(tmp_path):
    """4/s of which 2/s are answered: the backlog grows by 2 a second; the next rate stays out."""
    records = [answered(n / 4, 0.5 + n / 4) for n in range(160)]

    first, second = rate_steps(open_loop_run(tmp_path / "run", records, [4.0, 8.0], 40.0))

    assert first.verdict == "unstable"
    assert 2.0 == pytest.approx(first.trend.slope_rps, rel=0.1)
    assert first.completed_rps < 0.6 * first.offered_rps
    assert (second.verdict, second.planned) == ("not tried", 0)
    assert second.sentence() == "8 requests/s: not tried."


def test_a_short_step_is_not_judged(tmp_path):
    """4 s say nothing of a trend."""
    records = [answered(n / 4, 0.5) for n in range(16)]

    (step,) = rate_steps(open_loop_run(tmp_path / "run", records, [4.0], 4.0))

    assert step.verdict == "too short to say"


def test_a_run_of_levels_has_no_rate_steps(tmp_path):
    """Nothing is said of what was not asked."""
    assert () == rate_steps(load_run(build_run(tmp_path / "run", [make_record()])))
