"""What is said of rate limits: attempts on one clock, what passed and what did not, by what."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from metrics.outcome import Outcome
from reports.analyse import analyse
from reports.attempts import attempt_rows
from reports.limits_text import found_table, limit_sentences, limit_values, load_table
from reports.load import frame_of
from reports.page import page
from reports.plots.limits import draw_by_stage, draw_over_time
from reports.rate_limits import buckets_of, rate_limits_of
from tests.support.limited_runs import limits_of, refused, saved
from tests.support.records import failed_record, make_record
from tests.support.run_builder import numbered


def ladder(limit_rps, users, hold_s=10.0, ttft_s=0.03):
    """Each user asks once a second; what is over the limit in a second is answered 429."""
    records = []
    for stage, number in enumerate(users):
        for second in range(int(hold_s)):
            for user in range(number):
                at_s = stage * hold_s + second + user / number
                make = make_record if user < limit_rps else refused
                times = {"ttft_s": ttft_s, "user_ttft_s": ttft_s} if user < limit_rps else {}
                records.append(make(stage=stage, started_s=at_s, user=user, **times))
    return records


def test_that_clocks_were_aligned_is_said_of_several_workers_only(tmp_path):
    """One worker has one clock."""
    one = limits_of(tmp_path / "one", [refused()])
    two = limits_of(tmp_path / "two", [refused(), refused(worker="other")])

    assert one.clock_note is None
    assert "aligned" in two.clock_note


@settings(max_examples=15, deadline=None)
@given(
    counts=st.lists(st.integers(0, 3), max_size=20),
    times_s=st.lists(st.floats(0, 500), min_size=20, max_size=20),
)
def test_no_attempt_is_lost_in_the_buckets(counts, times_s):
    """Over all buckets: as many rows as attempts, as many 429s as were booked."""
    records = [
        make_record(
            started_s=at_s,
            attempts=n + 1,
            rate_limited_attempts=n,
            lost_sent_s=tuple(float(k) for k in range(n)),
            lost_end_s=tuple(k + 0.01 for k in range(n)),
            lost_status=(429,) * n,
            user_latency_s=n + 0.5,
        )
        for n, at_s in zip(counts, times_s, strict=False)
    ]
    rows = attempt_rows(frame_of(numbered(records)))
    _, buckets = buckets_of(rows)

    assert sum(counts) + len(records) == len(rows)
    assert sum(counts) == sum(bucket.limited for bucket in buckets)
    assert len(records) == sum(bucket.accepted for bucket in buckets)
    assert 0 == sum(bucket.other for bucket in buckets)


def test_the_ratio_of_200_to_429_is_told_second_by_second():
    """Second 0: two passed, one refused; second 1: one passed; second 2: one broke."""
    records = [
        make_record(started_s=0.1),
        make_record(started_s=0.2),
        refused(started_s=0.3),
        make_record(started_s=1.5),
        failed_record(started_s=2.5),
    ]
    width_s, buckets = buckets_of(attempt_rows(frame_of(numbered(records))))

    assert 1.0 == width_s
    assert [2.0, None, None] == [bucket.ratio for bucket in buckets]
    assert [(2, 1, 0), (1, 0, 0), (0, 0, 1)] == [
        (bucket.accepted, bucket.limited, bucket.other) for bucket in buckets
    ]


def test_a_long_run_has_wider_buckets_instead_of_more():
    """Ten minutes: 10 s are more than 60 buckets, 15 s are 41 with the last moment's."""
    rows = attempt_rows(frame_of(numbered([make_record(), make_record(started_s=601.0)])))
    width_s, buckets = buckets_of(rows)

    assert (15.0, 41) == (width_s, len(buckets))


def test_accepted_and_shed_load_stand_apart_by_stage(tmp_path):
    """10 s of 2 and of 4 requests/s, of which 3 pass: 2, then 3 accepted and 1 shed each second."""
    limits = limits_of(tmp_path, ladder(3, (2, 4)), levels=(2, 4))

    assert [(2.0, 0.0), (3.0, 1.0)] == [
        (pytest.approx(load.accepted_per_s), pytest.approx(load.shed_per_s))
        for load in limits.loads
    ]
    assert [30.0, 45.0] == [pytest.approx(load.accepted_tokens_per_s) for load in limits.loads]
    assert [0.0, 0.25] == [load.limited_share for load in limits.loads]


def test_503_is_shed_and_no_rate_limit(tmp_path):
    """A full server turns away; the share of 429s stays 0."""
    records = [make_record(), failed_record(Outcome.OVERLOADED, 503)]
    (load,) = limits_of(tmp_path, records).loads

    assert (1, 0, 0.0) == (load.shed, load.limited, load.limited_share)


def test_an_attempt_counts_in_the_stage_in_which_it_was_sent(tmp_path):
    """Wanted at 9 s in the first stage, refused there, sent again at 11 s in the second."""
    record = make_record(
        started_s=9.0,
        attempts=2,
        rate_limited_attempts=1,
        lost_sent_s=(0.0,),
        lost_end_s=(0.01,),
        lost_status=(429,),
        user_latency_s=2.5,
    )
    limits = limits_of(tmp_path, [record], levels=(1, 2))

    assert [(0, 1), (1, 0)] == [(load.accepted, load.limited) for load in limits.loads]


def test_l12_a_rate_limit_is_named_where_it_begins_and_never_a_queue(tmp_path):
    """10 requests/s pass, TTFT is 30 ms throughout: limited from 12 users on, 17 % of attempts."""
    limits = limits_of(tmp_path, ladder(10, (1, 8, 12, 40)), levels=(1, 8, 12, 40))
    sentences = limit_sentences(limits)

    assert (
        "Rate-limited from 12 users on: 17% of the attempts were answered 429, while first tokens "
        "came as before (30 ms against 30 ms below, p50)." == sentences[0]
    )
    assert not any("queue" in text.lower() for text in sentences)


def test_l12_waits_for_retries_do_not_make_first_tokens_late(tmp_path):
    """Users wait 5 s for a retry; the attempts' own first tokens are as early as ever."""
    calm = ladder(4, (2,))
    waited = [
        make_record(
            stage=1,
            started_s=11.0 + n / 10,
            attempts=2,
            rate_limited_attempts=1,
            lost_sent_s=(0.0,),
            lost_end_s=(0.01,),
            lost_status=(429,),
            ttft_s=0.03,
            user_ttft_s=5.03,
            user_latency_s=5.5,
        )
        for n in range(20)
    ]
    sentences = limit_sentences(limits_of(tmp_path, calm + waited, levels=(2, 8)))

    assert "Rate-limited from 8 users on: 50%" in sentences[0]
    assert "first tokens came as before (30 ms against 30 ms" in sentences[0]
    assert not any("queue" in text.lower() for text in sentences)


def test_l12_429s_beside_late_first_tokens_are_not_called_a_rate_limit(tmp_path):
    """What passes is served ten times later: the endpoint may be full."""
    late = [
        record
        for record in ladder(4, (2, 8), ttft_s=0.3)
        if record.stage == 1  # as before below it
    ]
    sentence = limit_sentences(limits_of(tmp_path, ladder(4, (2,)) + late, levels=(2, 8)))[0]

    assert sentence.startswith("From 8 users on 50%")
    assert "later (300 ms against 30 ms" in sentence
    assert "Rate-limited" not in sentence


def test_429s_of_five_percent_are_not_yet_a_limit(tmp_path):
    """One of 20 is 5 %; two of 20 are over it."""
    plain = [make_record(started_s=n / 10) for n in range(18)]
    few = limits_of(tmp_path / "few", [*plain, make_record(), refused()])
    many = limits_of(tmp_path / "many", [*plain, refused(), refused()])

    assert not any("imited from" in text for text in limit_sentences(few))
    assert any("Rate-limited from 1 user on: 10%" in text for text in limit_sentences(many))


def test_the_limit_found_is_told_and_bounds_the_stages_that_met_it(tmp_path):
    """3 requests in each second pass: 180 a minute, which bounds 5 and 8 users and not 2."""
    limits = limits_of(tmp_path, ladder(3, (2, 5, 8), 20.0), levels=(2, 5, 8), hold_s=20.0)
    (found,) = limits.found

    assert 180 == pytest.approx(found.figure, rel=0.05)
    assert any(
        text.startswith("Limit found: 180 requests a minute.") for text in limit_sentences(limits)
    )
    assert [None, found, found] == [load.bound and load.bound.estimate for load in limits.loads]
    assert (40, 40) == (limits.loads[1].bound.refused, limits.loads[1].bound.explained)
    assert ("", "fixed window of requests of 1 s") == tuple(r[-1] for r in load_table(limits)[:2])
    assert 1 == len(found_table(limits))


def test_a_stage_is_bound_on_the_clock_of_all_workers(tmp_path):
    """The second worker joined 100 s later: its window is shifted as its attempts are."""
    late = "2026-01-02T03:05:45.000000+00:00"
    first = [make_record(started_s=0.0, started_at="2026-01-02T03:04:05.000000+00:00")]
    values = [_values(record) for record in ladder(3, (2, 5), 20.0)]
    second = [make_record(**{**v, "worker": "late", "started_at": late}) for v in values]
    limits = limits_of(tmp_path, first + second, levels=(2, 5), hold_s=20.0)

    assert (40, 40) == (limits.loads[1].bound.refused, limits.loads[1].bound.explained)


def test_429s_that_no_limit_explains_are_not_given_one(tmp_path):
    """Six 429s are too few to search in: that is told, in the sentences and at the stage."""
    limits = limits_of(tmp_path, [make_record(), *[refused(started_s=2.0)] * 6])

    assert any(
        text.startswith("No limit can be named: Only 6 429s") for text in limit_sentences(limits)
    )
    assert "by no limit that is known" in load_table(limits)[0][-1]


def _values(record):
    return dict(zip(type(record).__dataclass_fields__, record.to_row(), strict=True))


def test_what_the_headers_published_last_is_told(tmp_path):
    """Two answers name 60 requests, the later one 12 left; a run without 429s tells it too."""
    records = [
        make_record(started_s=1.0, limit_requests=60, remaining_requests=13, reset_s=2.0),
        make_record(started_s=2.0, limit_requests=60, remaining_requests=12),
    ]
    limits = limits_of(tmp_path, records)

    assert {"limit_requests": 60, "remaining_requests": 12, "reset_s": 2} == limits.published
    assert any("60 requests, 12 requests left" in text for text in limit_sentences(limits))


def test_a_run_without_a_limit_says_nothing(tmp_path):
    """Nothing shed, nothing published, nothing looked for."""
    assert limits_of(tmp_path, [make_record(), failed_record()]) is None


def test_the_waits_that_refusals_asked_for_are_told(tmp_path):
    """Two of four refused requests were told a time; one of them passed at its second attempt."""
    again = {"lost_sent_s": (0.0,), "lost_end_s": (0.1,), "lost_status": (429,), "attempts": 2}
    records = [
        make_record(rate_limited_attempts=1, asked_wait_s=3.0, user_latency_s=4.0, **again),
        refused(asked_wait_s=60.0),
        refused(),
        refused(),
        make_record(started_s=5.0),
    ]
    limits = limits_of(tmp_path, records)

    told = {"refused": 4, "told": 2, "p50_s": 3.0, "longest_s": 60.0}
    assert told == limit_values(limits)["asked_wait"]
    assert (
        "Asked to wait by the refusals' headers: 3 s (p50), 60 s at most, told to 2 of "
        "4 refused requests." in limit_sentences(limits)
    )


def test_refusals_without_a_wait_are_told_as_such(tmp_path):
    """Missing is not 0; and a run that only published limits refused nobody."""
    mute = limits_of(tmp_path / "mute", [make_record(), refused()])
    free = limits_of(tmp_path / "free", [make_record(limit_requests=60)])

    assert limit_values(mute)["asked_wait"]["p50_s"] is None
    assert "No refusal had a Retry-After header (1 refused request)." in limit_sentences(mute)
    assert not any("refus" in text for text in limit_sentences(free))


def test_values_are_strict_json_and_tables_have_all_stages(tmp_path):
    """A stage that was never held has no rates, which is not 0."""
    limits = limits_of(tmp_path, ladder(3, (2, 4)), levels=(2, 4, 8), not_reached=(2,))
    values = json.loads(json.dumps(limit_values(limits), allow_nan=False))

    assert [False, False, True] == [s["accepted_per_s"] is None for s in values["stages"]]
    assert ["2 users", "4 users", "8 users"] == [row[0] for row in load_table(limits)]


@pytest.mark.parametrize("records", [[], [make_record()], [make_record(), refused()]])
def test_plots_are_drawn_of_any_run(tmp_path, records):
    """Also of none and of one without 429s; every axis has its unit."""
    run = saved(tmp_path, records)
    limits = rate_limits_of(run)
    for draw in (lambda f: draw_over_time(f, limits, run), lambda f: draw_by_stage(f, limits)):
        figure = Figure()
        draw(figure)
        (axes,) = figure.axes

        assert "attempts/s" == axes.get_ylabel()
        assert axes.get_xlabel()
        figure.savefig(tmp_path / "plot.png")


def test_a_stage_that_met_a_limit_is_remarked(tmp_path):
    """3 requests in each second pass: 5 and 8 users meet it, 2 do not."""
    run = saved(tmp_path, ladder(3, (2, 5, 8), 20.0), levels=(2, 5, 8), hold_s=20.0)
    rows = analyse(run).stages

    limit = "rate-limited by 180 requests a minute"
    assert [None, limit, limit] == [row.limited_by for row in rows]
    assert [False, True, True] == [limit in row.remarks for row in rows]


def test_a_stage_that_met_a_limit_looks_different_on_the_page(tmp_path):
    """Its row has a class of its own, as a void one has."""
    run = saved(tmp_path, ladder(3, (2, 5), 20.0), levels=(2, 5), hold_s=20.0)
    text = page(analyse(run), run, {})

    assert 1 == text.count('<tr class="limited">')
    assert '<td class="left">rate-limited by 180 requests a minute</td>' in text
