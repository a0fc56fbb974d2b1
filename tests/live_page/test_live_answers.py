"""What the live page is told: the report's figures, what changed, and little of it."""

import json
import random

import pytest

from hooks.live.answers import live_answer
from metrics.outcome import Outcome
from metrics.stage import Phase
from tests.support.live_runs import DRAIN, HOLD, RAMP, Played, live_state
from tests.support.records import failed_record, make_record

PERIOD_S = 2.0


def named(columns, rows):
    """Rows as dictionaries."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def size_of(answer):
    """Bytes on the wire without headers, and not zipped."""
    return len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.fixture
def played(tmp_path):
    """A run of two stages whose first is held from second 1 on."""
    made = Played(live_state(tmp_path))
    made.enter(0, RAMP, 0.0)
    made.enter(0, HOLD, 1.0)
    return made


def test_counts_are_of_the_held_window_and_what_is_left_out_is_told(played):
    """Two held successes, a failure, a 429, and one request from before the window."""
    records = [
        make_record(worker="w1", started_s=1.1),
        make_record(worker="w1", started_s=1.2),
        make_record(worker="w1", started_s=0.5, phase=Phase.RAMP),
        failed_record(worker="w1", started_s=1.3),
        failed_record(
            Outcome.RATE_LIMITED, 429, worker="w1", started_s=1.4, rate_limited_attempts=1
        ),
    ]
    played.report("w1", records)
    played.look(2.0)
    line = played.line(0)

    assert (4, 2, 2, 1, 1) == (
        line.offered,
        line.completed,
        line.failed,
        line.rate_limited,
        line.left_out,
    )
    assert line.ttft_p50_s == pytest.approx(0.1, rel=0.01)
    assert line.few_p95
    assert "hold" == line.state
    status = live_answer(played.run, "", 0)["status"]
    assert (5, 3, 2, 1) == tuple(
        status[name] for name in ("offered", "ok", "failed", "rate_limited")
    )


def test_a_point_has_what_came_since_the_last_look(played):
    """Also of a stage that has been reported from before, and nothing twice."""
    played.report("w1", [make_record(worker="w1", ttft_s=0.1)], health=[(0, "cpu_ratio", 0.5)])
    played.look(2.0)
    slow = make_record(worker="w1", ttft_s=0.4, completion_tokens=7)
    played.report("w1", [slow, failed_record(worker="w1")])
    played.look(4.0)
    played.look(6.0)
    answer = live_answer(played.run, "", 0)
    first, second, third = named(answer["about"]["point_columns"], answer["points"])

    assert (1, 0, 5) == (first["ok"], first["failed"], first["tokens"])
    assert (1, 1, 7) == (second["ok"], second["failed"], second["tokens"])
    assert first["ttft_p50_s"] == pytest.approx(0.1, rel=0.02)
    assert second["ttft_p50_s"] == pytest.approx(0.4, rel=0.02)
    assert (0.5, None) == (first["cpu_mean_ratio"], second["cpu_mean_ratio"])
    assert (0, None) == (third["ok"], third["ttft_p50_s"])


def test_who_asks_again_is_told_what_changed_alone(played):
    """The new point and the stage that went on; nothing when nothing did."""
    played.look(2.0)
    run_id, revision = played.state.run_id, live_answer(played.run, "", 0)["revision"]
    same = live_answer(played.run, run_id, revision)
    played.report("w1", [make_record(worker="w1", started_s=1.5)])
    played.look(4.0)
    then = live_answer(played.run, run_id, revision)

    assert {"revision", "status"} == same.keys()
    assert {"revision", "status", "points", "stages"} == then.keys()
    assert 1 == len(then["points"])
    assert [0] == [row[0] for row in then["stages"]]


def test_another_run_or_a_revision_from_before_gets_everything(played):
    """As after a second start in the same page, or a master that was started anew."""
    played.look(2.0)
    for asked in (("other", 1), (played.state.run_id, 99), (played.state.run_id, -1), ("", 0)):
        answer = live_answer(played.run, *asked)

        assert {"about", "points", "stages", "marks", "findings"} <= answer.keys()
        assert [0, 1] == [row[0] for row in answer["stages"]]
        assert ["ramp", "hold"] == [row[2] for row in answer["marks"]]


def test_a_phase_is_told_once(played):
    """Also when somebody asks between the phase and the next look."""
    played.look(2.0)
    run_id, revision = played.state.run_id, played.run.revision
    played.enter(1, RAMP, 3.0)
    between = live_answer(played.run, run_id, revision)
    played.look(4.0)
    then = live_answer(played.run, run_id, between["revision"])
    played.look(6.0)
    later = live_answer(played.run, run_id, then["revision"])

    assert "marks" not in between
    assert [["ramp", "4 users"]] == [mark[2:4] for mark in then["marks"]]
    assert "marks" not in later


def test_half_an_hour_of_watching_costs_less_than_100_kb_a_minute(tmp_path):
    """Not zipped, with the headers of 30 requests a minute; 15 stages, one after the other."""
    levels = tuple(range(1, 16))
    workers = {f"w{number}": "host" for number in range(2)}
    played = Played(live_state(tmp_path, levels, workers=workers))
    chance, revision, sizes = random.Random(7), 0, []
    headers_bytes = 700
    for look in range(900):
        if look % 60 == 0:
            played.enter(look // 60, HOLD, PERIOD_S * look + 0.1)
        stage = look // 60
        records = [
            make_record(
                worker=f"w{number}",
                stage=stage,
                started_s=PERIOD_S * look + 0.2,
                ttft_s=chance.uniform(0.01, 3),
            )
            for number in range(2)
        ]
        for record in records:
            health = [
                (stage, "loop_lag_s", chance.uniform(0, 0.1)),
                (stage, "cpu_ratio", chance.uniform(0, 1)),
            ]
            played.report(record.worker, [record], health=health)
        played.look(PERIOD_S * (look + 1), alive=workers)
        answer = live_answer(played.run, played.state.run_id, revision)
        revision = answer["revision"]
        sizes.append(size_of(answer) + headers_bytes)

    minutes = [sum(sizes[at : at + 30]) for at in range(30, len(sizes), 30)]
    assert max(minutes) < 100_000, max(minutes)
    assert size_of(live_answer(played.run, "", 0)) < 100_000, "who comes late gets it in one piece"


def test_strict_json_without_a_secret_of_the_settings(played):
    """No NaN, no infinity; of the settings the shape and the endpoint's public URL alone."""
    played.state.settings.headers = {"X-Team": "header-value-CCCC2222"}
    played.state.settings.endpoint.query = "key=sk-live-AAAA1111"
    played.report("w1", [failed_record(worker="w1")])
    played.look(2.0)
    text = json.dumps(live_answer(played.run, "", 0), allow_nan=False)

    assert "CCCC2222" not in text
    assert "AAAA1111" not in text


def test_the_end_closes_every_stage(played):
    """No stage is under way any more, and what was never begun is said not to be held."""
    played.report("w1", [make_record(worker="w1", started_s=1.5)])
    played.look(2.0)
    played.state.end_reason = "stopped"
    played.run.end(3.0)
    status = live_answer(played.run, "", 0)["status"]

    assert ["held", "not held"] == [played.line(number).state for number in (0, 1)]
    assert (False, "stopped", 0, 0) == tuple(
        status[name] for name in ("running", "end_reason", "users", "in_flight")
    )


def test_while_it_is_open_a_window_shows_what_is_in_flight_now(played):
    """Requests under way are in no record yet."""
    played.report("w1", [make_record(worker="w1", started_s=1.2)])
    played.look(3.0)
    now = played.line(0)
    played.enter(1, DRAIN, 3.0)
    played.look(4.0)

    assert 2 == now.in_flight
    assert now.held_s == pytest.approx(2.0)
    assert played.line(0).in_flight == pytest.approx(0.5 / 2.0)


def test_where_workers_keep_the_rows_rates_are_unknown(played):
    """The tallies count without rows; a rate that nothing is known of is no zero."""
    played.state.book.add(make_record(worker="w1"), [])
    played.look(2.0)
    line = played.line(0)

    assert (1, None, None) == (line.completed, line.output_tokens_per_s, line.in_flight)
    assert line.held_s == pytest.approx(1.0)
