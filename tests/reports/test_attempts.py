"""A run's attempts on the wire, out of the records of its requests."""

from datetime import UTC, datetime, timedelta

import pytest

from metrics.outcome import Outcome
from reports.attempts import (
    accepted,
    attempt_rows,
    clock_note,
    clock_offsets_s,
    for_search,
    limited,
    wall_offsets_s_of,
)
from reports.load import frame_of
from tests.support.records import failed_record, make_record
from tests.support.run_builder import numbered


def meta_of(**wall_offsets_s):
    """What ``run.json`` has of these workers' clocks."""
    workers = [
        {"id": worker, "wall_offset_s": offset_s, "wall_offset_error_s": 0.004}
        for worker, offset_s in wall_offsets_s.items()
    ]
    return {"workers": workers}


def test_each_attempt_is_a_row_at_its_own_time():
    """Wanted at 10 s; sent at 10.1, 11.2 and 12.3 s; the last is over after 0.5 s."""
    record = make_record(
        started_s=10.0,
        attempts=3,
        rate_limited_attempts=1,
        lost_sent_s=(0.1, 1.2),
        lost_end_s=(0.15, 1.25),
        lost_status=(429, 0),
        user_latency_s=2.8,
    )
    rows = attempt_rows(frame_of([record]))

    assert [10.1, 11.2, 12.3] == pytest.approx(rows["at_s"].tolist())
    assert [10.15, 11.25, 12.8] == pytest.approx(rows["over_s"].tolist())
    assert [True, False, False] == limited(rows).tolist()
    assert [False, False, True] == accepted(rows).tolist()
    assert rows["status"].isna().tolist() == [False, True, False]


def test_what_was_never_sent_is_no_attempt():
    """An arrival that this client never came to send has no row."""
    record = failed_record(Outcome.NOT_SENT, None, attempts=0, end_s=0.0)

    assert 0 == len(attempt_rows(frame_of([record])))


def test_workers_are_aligned_by_the_wall_clock_of_their_first_requests():
    """B joined 4 s after A: its second 1 is A's second 5."""
    a = make_record(worker="a", started_s=1.0, started_at="2026-01-02T03:04:05.000000+00:00")
    b = make_record(worker="b", started_s=1.0, started_at="2026-01-02T03:04:09+00:00")
    records = frame_of([a, b])

    assert {"a": 0.0, "b": pytest.approx(4.0)} == clock_offsets_s(records)
    assert [1.0, 5.0] == pytest.approx(attempt_rows(records)["at_s"].tolist())


@pytest.mark.parametrize("ahead_s", [-7200.0, -0.25, 0.0, 3.5])
def test_a_measured_offset_takes_a_skewed_clock_out(ahead_s):
    """B joined 4 s after A, and its wall clock is ahead or behind: still second 1 is second 5."""
    wall = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    joined = {"a": wall, "b": wall + timedelta(seconds=4 + ahead_s)}
    records = frame_of(
        [
            make_record(worker=worker, started_s=1.0, started_at=at.isoformat())
            for worker, at in joined.items()
        ]
    )
    offsets_s = wall_offsets_s_of(meta_of(a=0.0, b=ahead_s))

    assert {"a": 0.0, "b": pytest.approx(4.0)} == clock_offsets_s(records, offsets_s)
    assert [1.0, 5.0] == pytest.approx(attempt_rows(records, offsets_s)["at_s"].tolist())


def test_without_a_measured_offset_a_clock_is_taken_to_be_right():
    """Of a worker that came late or of an older run none is known; those known count all the
    same."""
    at = "2026-01-02T03:04:05.000000+00:00"
    records = frame_of([make_record(worker=worker, started_at=at) for worker in "abc"])
    offsets_s = wall_offsets_s_of(meta_of(a=None, b=-2.0))

    assert {"b": -2.0} == offsets_s
    assert {"a": 0.0, "b": 2.0, "c": 0.0} == clock_offsets_s(records, offsets_s)


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({}, "first request: machines whose clocks differ shift their attempts"),
        ({"a": 0.0, "b": 3.5}, "less the measured offset of its wall clock (to within 4 ms)."),
        ({"b": 3.5}, "(to within 4 ms); of 1 of the 2 workers no offset is known"),
    ],
    ids=["none known", "all known", "one known"],
)
def test_the_note_says_how_clocks_were_aligned(meta, said):
    """By the labels alone, or less what was measured, and of whom nothing was."""
    assert said in clock_note(["a", "b"], meta_of(**meta))
    assert clock_note(["a"], meta_of(**meta)) is None


def test_a_label_that_cannot_be_read_shifts_nobody():
    """The wall clock is a label: without it a worker's clock stays as it is."""
    a = make_record(worker="a", started_at="2026-01-02T03:04:05.000000+00:00")
    b = make_record(worker="b", started_at="soon")

    assert {"a": 0.0, "b": 0.0} == clock_offsets_s(frame_of([a, b]))


def test_a_timeout_without_a_status_was_let_in():
    """A limiter refuses at once; a refused connection, though, met no limiter."""
    rows = attempt_rows(
        frame_of(
            [
                failed_record(Outcome.FIRST_TOKEN_TIMEOUT, None),
                failed_record(Outcome.CONNECT_ERROR, None, started_s=2.0),
                failed_record(Outcome.SERVER_ERROR, 500, started_s=3.0),
            ]
        )
    )

    assert [True, False, False] == accepted(rows).tolist()
    assert [False] * 3 == limited(rows).tolist()


def test_the_search_gets_tokens_headers_and_the_wait_asked_for():
    """Values of the answer alone are unknown for the attempts before it."""
    record = make_record(
        attempts=2,
        rate_limited_attempts=1,
        lost_sent_s=(0.0,),
        lost_end_s=(0.01,),
        lost_status=(429,),
        user_latency_s=2.5,
        asked_wait_s=2.0,
        asked_max_tokens=48,
        limit_requests=60,
    )
    found = for_search(attempt_rows(frame_of([record])))

    assert [10.0, 10.0] == found.prompt_tokens.tolist()
    assert [48.0, 48.0] == found.asked_max_tokens.tolist()
    assert [2.0, 2.0] == found.retry_after_s.tolist()
    assert [True, False] == [value != value for value in found.completion_tokens.tolist()]
    assert [True, False] == [value != value for value in found.limit_requests.tolist()]
    assert found.limit_tokens is None


def test_a_refusal_that_was_not_read_is_neither_let_in_nor_refused():
    """Who left as early as a 429 takes may have been refused; who left later was not."""
    left = {"outcome": Outcome.CANCELLED, "status": None, "streamed": False, "ttft_s": None}
    times = {"last_token_s": None, "user_latency_s": 0.02}
    refused = failed_record(Outcome.RATE_LIMITED, 429, rate_limited_attempts=1)
    records = [
        refused,
        make_record(**left, **times, end_s=refused.end_s / 2),
        make_record(**left, **times, end_s=refused.end_s * 2),
    ]

    found = for_search(attempt_rows(frame_of(numbered(records))))

    assert [False, True] == found.accepted.tolist()
    assert [True, False] == found.limited.tolist()
