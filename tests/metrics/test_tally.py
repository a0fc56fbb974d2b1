"""Tallies: exact counts, successes and failures apart, merging without loss."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.outcome import Outcome, TokenSource
from metrics.stage import Phase
from metrics.tally import StageTally, TallyBook
from tests.support.records import failed_record, make_record


def _tally(records):
    tally = StageTally()
    for record in records:
        tally.add(record, [0.1, 0.2])
    return tally


def test_M06_failures_are_in_no_success_percentile():
    """66 successes at 700 ms and 34 failures at 2 ms: two tables, each with its own n."""
    good = [make_record(user_latency_s=0.7) for _ in range(66)]
    bad = [failed_record() for _ in range(34)]

    tally = _tally(good + bad)

    assert tally.latency["user_latency_s"].n == 66
    assert pytest.approx(0.7, rel=0.01) == tally.latency["user_latency_s"].percentile(0.5)
    assert tally.failed_latency_s.n == 34
    assert pytest.approx(0.002, rel=0.01) == tally.failed_latency_s.percentile(0.5)
    assert (tally.held.offered, tally.held.ok, tally.held.failed) == (100, 66, 34)


def test_M11_plain_answers_have_no_time_to_first_token():
    """8 streamed, 2 plain: TTFT has n 8, the plain latency leaks into nothing."""
    streamed = [make_record(ttft_s=0.05) for _ in range(8)]
    plain = [
        make_record(streamed=False, stream_asked=False, ttft_s=None, ttfa_s=None, end_s=2.5)
        for _ in range(2)
    ]

    tally = _tally(streamed + plain)

    assert tally.latency["ttft_s"].n == 8
    assert pytest.approx(0.05) == tally.latency["ttft_s"].mean
    assert tally.latency["tpot_s"].n == 8


def test_M03_one_output_token_keeps_everything_but_tpot():
    """20 one-token answers: TTFT and tokens counted, TPOT without a sample."""
    tally = _tally([make_record(completion_tokens=1) for _ in range(20)])

    assert tally.latency["ttft_s"].n == 20
    assert tally.latency["tpot_s"].n == 0
    assert tally.held.completion_tokens == 20


def test_P08_token_sources_are_counted_apart():
    """6 with server usage, 4 without: the four add no tokens."""
    known = [make_record(completion_tokens=5) for _ in range(6)]
    unknown = [
        make_record(completion_tokens=None, token_source=TokenSource.UNKNOWN) for _ in range(4)
    ]

    tally = _tally(known + unknown)

    assert dict(tally.held.token_sources) == {"server": 6, "unknown": 4}
    assert tally.held.completion_tokens == 30


def test_requests_outside_the_window_count_but_do_not_measure():
    """A request started while settling is kept in the counts and left out of the figures."""
    tally = _tally([make_record(), make_record(phase=Phase.SETTLE)])

    assert tally.everything.offered == 2
    assert tally.held.offered == 1
    assert tally.latency["ttft_s"].n == 1


def test_O13_every_request_is_ok_failed_or_cancelled():
    """offered = ok + failed + cancelled + not sent over every outcome there is."""
    tally = _tally([failed_record(outcome=outcome) for outcome in Outcome])

    counts = tally.everything
    not_sent = counts.by_outcome[Outcome.NOT_SENT.value]
    assert not_sent == 1
    ended = counts.ok + counts.failed + counts.cancelled + not_sent
    assert len(Outcome) == counts.offered == ended
    assert counts.ok == 1
    assert counts.cancelled == 1


def test_pauses_of_two_workers_add_up_through_the_wire():
    """2 and 3 ms on one, 5 ms on the other: 3 pauses, 10 ms in all, 5 ms the longest."""
    book = TallyBook()
    for pauses_s in ([0.002, 0.003], [0.005]):
        tally = StageTally()
        tally.health["gc_pause_s"].add_many(pauses_s)
        book.stage(0).merge(StageTally.from_wire(json.loads(json.dumps(tally.to_wire()))))

    pauses = book.stage(0).health["gc_pause_s"]

    assert 3 == pauses.n
    assert 0.010 == pytest.approx(pauses.total)
    assert 0.005 == pauses.maximum


outcomes = st.sampled_from(list(Outcome))
records = st.builds(
    lambda outcome, stage, phase, latency_s: failed_record(
        outcome=outcome, stage=stage, phase=phase, user_latency_s=latency_s
    ),
    outcomes,
    st.one_of(st.none(), st.integers(0, 3)),
    st.sampled_from(list(Phase)),
    st.floats(0.001, 100),
)


@given(st.lists(st.tuples(st.integers(0, 2), records), max_size=60))
def test_merged_workers_equal_one_process(assigned):
    """However requests fall on workers, and through the wire, the sum is the same."""
    whole, workers = TallyBook(), [TallyBook() for _ in range(3)]
    for worker, record in assigned:
        whole.add(record, [])
        workers[worker].add(record, [])

    merged = TallyBook()
    for book in workers:
        merged.merge(TallyBook.from_wire(json.loads(json.dumps(book.to_wire()))))

    assert whole.total() == merged.total()
    for stage_id, tally in whole.by_stage.items():
        assert tally.held == merged.by_stage[stage_id].held
        assert tally.failed_latency_s.counts == merged.by_stage[stage_id].failed_latency_s.counts
