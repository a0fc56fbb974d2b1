"""What a report says of each shape is true of that shape."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from metrics.stage import COLD_STAGE, Phase
from reports.analyse import analyse, levels_of
from reports.cold import ColdStart, cold_start_of
from reports.load import load_run
from reports.plots import PLOTS, title_of
from reports.soak import soak_from
from tests.reports.test_rate_steps import answered, open_loop_run
from tests.reports.test_soak import samples
from tests.support.client_state import report_of, watched
from tests.support.records import make_record
from tests.support.run_builder import META, build_run, numbered


@pytest.mark.parametrize(
    ("first_s", "warm_s", "says"),
    [
        (0.1, 0.1, "no difference"),
        (0.104, 0.1, "no difference"),
        (0.3, 0.1, "3.0 times less"),
        (0.05, 0.1, "2.0 times more"),
    ],
)
def test_a_cold_start_is_compared_as_it_was(first_s, warm_s, says):
    """1.0 times is no difference; a first token that came sooner is no slower one."""
    assert ColdStart((first_s,), warm_s).sentence().endswith(f"(p50 at 1 user), {says}.")


@pytest.mark.parametrize(
    ("levels", "said"),
    [((6, 1), "(p50 at 1 user), 3.0 times less."), ((6, 8), "takes 200 ms (p50 at 6 users).")],
)
def test_a_cold_start_is_compared_with_the_lowest_level(tmp_path, levels, said):
    """Cold 0.3 s; the 0.2 s of the first level's 6 users are its load's too, and not compared."""
    warm_s = {6: 0.2, 1: 0.1, 8: 0.25}
    cold = [make_record(stage=COLD_STAGE, phase=Phase.COLD, ttft_s=0.3)]
    held = [
        make_record(stage=n, started_s=10.0 * n + 1, ttft_s=warm_s[users])
        for n, users in enumerate(levels)
    ]
    run = load_run(build_run(tmp_path / "r", numbered([*cold, *held]), levels=levels))

    assert cold_start_of(run).sentence().endswith(said)


def short_soak(minutes):
    """A steady soak of so many minutes."""
    found = samples()
    return soak_from(8, minutes * 60.0, found[found["at_s"] < minutes * 60])


def test_a_short_soak_says_what_it_would_have_missed():
    """15 windows where 30 are needed: the smallest drift per minute, and no word of no leak."""
    soak = short_soak(5)
    (text,) = soak.sentences()
    unseen = max(soak.drifts["ttft_p50"].detectable_ratio, 0.05) / 5

    assert f"too short to tell: a drift under {unseen:.1%} per minute would not have been" in text
    assert "run it for 10 minutes or more" in text
    assert "no leak" not in text


def test_a_soak_of_two_windows_has_no_figure():
    """Nothing can be said of what it would have missed."""
    (text,) = short_soak(1).sentences()

    assert "too short to tell: 30 windows of 20 s with 10 requests each are needed" in text


def test_a_soak_that_is_long_enough_still_says_no_leak():
    """45 windows."""
    assert "no leak shown" in short_soak(15).sentences()[0]


def test_a_soak_that_scatters_too_much_claims_nothing():
    """TTFT that jumps between 0.05 and 1 s: a doubling would not have been seen."""
    found = samples()
    wild = np.random.default_rng(3).choice([0.05, 1.0], len(found) // 80 + 1).repeat(80)
    text = soak_from(8, 900.0, found.assign(ttft_s=wild[: len(found)])).sentences()[0]

    assert "Soak of 15.0 minutes: too noisy to tell. ttft p50: too noisy to tell (95 %" in text
    assert "no leak" not in text
    assert "would not have been seen" not in text.partition("ttft p99")[0]


def drawn(report, run):
    """The axes of the first plot."""
    figure = Figure()
    PLOTS["concurrency"].draw(figure, report, run)
    return figure.axes


def test_an_open_loop_is_drawn_against_its_rate(tmp_path):
    """4/s: the axis, its points and the plot's title speak of the rate, not of users."""
    run = open_loop_run(tmp_path / "r", [answered(n / 4, 0.2) for n in range(40)], [4.0], 10.0)
    report = analyse(run)

    upper, lower = drawn(report, run)

    assert "offered rate (requests/s)" == lower.get_xlabel()
    assert [4.0] == list(upper.get_lines()[0].get_xdata())
    assert "offered rate" in title_of("concurrency", report)


def test_a_ladder_is_drawn_against_its_users(tmp_path):
    """Users on the axis and in the title."""
    run = load_run(build_run(tmp_path / "r", numbered([make_record() for _ in range(5)]), (3,)))
    report = analyse(run)

    upper, lower = drawn(report, run)

    assert "concurrent users" == lower.get_xlabel()
    assert [3] == list(upper.get_lines()[0].get_xdata())
    assert "concurrent users" in title_of("concurrency", report)


@pytest.mark.parametrize("why", ["the budget of 150 requests was spent", None])
def test_a_search_that_a_budget_ended_says_so(tmp_path, why):
    """The reason stands behind the verdict; a run that notes none says nothing."""
    noted = {} if why is None else {"search_ended": why}
    report = report_of(tmp_path / "r", [make_record()], shape="knee", **noted)

    told = [text for text in report.headline if text.startswith("The search ended")]

    expected = (
        f"The search ended before it knew enough ({why}): its verdict is of what was measured."
    )
    assert ([] if why is None else [expected]) == told


def test_a_lost_workers_last_level_is_void_by_rule(tmp_path):
    """Worker b was lost in stage 2: a finding of its own, the knee's note and the row's remark."""
    records = [make_record(worker=w, stage=s, started_s=10.0 * s + 1) for w in "ab" for s in (0, 1)]
    workers = [{**META["workers"][0], "id": w, "lost": w == "b"} for w in "ab"]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2), workers=workers)
    path = folder / "stages.json"
    # b never saw the drain.
    stages = json.loads(path.read_text())
    stages["marks"] = [
        m for m in stages["marks"] if not (m["worker"] == "b" and m["kind"] == "drain")
    ]
    path.write_text(json.dumps(stages))

    report = analyse(load_run(folder))

    assert [("worker_lost", 1)] == [
        (f.rule, f.stage) for f in report.validity if f.severity.value == "void"
    ]
    reason = "worker-lost: worker b lost while it ran"
    assert [None, reason] == [level.void for level in levels_of(load_run(folder))]
    assert (reason,) == report.stages[1].remarks


def test_a_level_that_was_never_held_is_named_so(tmp_path):
    """It is no void one: nothing was wrong with its users."""
    records = [make_record(), make_record(stage=1, phase=Phase.RAMP, started_s=11.0)]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2), not_reached=())
    run = load_run(folder)
    unheld = [mark for mark in run.marks if mark.stage.id != 1]

    assert [None, "never held"] == [v.void for v in levels_of(replace(run, marks=unheld))]


def test_a_host_that_is_busy_gets_no_more_workers(tmp_path):
    """The loop ran late while the worker used a fifth of its core: another host is advised."""
    folder = build_run(tmp_path / "r", numbered([make_record() for _ in range(5)]))
    watched(folder, loop_lag_s=[0.08] * 20, cpu_ratio=[0.2] * 5)

    (finding,) = [f for f in analyse(load_run(folder)).validity if f.rule == "client_limited"]

    assert "80 ms late at p99 (limit 50 ms)" in finding.evidence
    assert "use a quieter host or another one" in finding.advice
