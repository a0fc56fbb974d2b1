"""The ledger's figures, worked out by hand, and that its books agree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.outcome import Outcome
from reports.ledger import OUTSIDE, Ledger, ledger_of
from reports.ledger_text import (
    LEDGER_COLUMNS,
    ledger_sentences,
    ledger_table,
    ledger_values,
)
from reports.load import frame_of, load_run
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

SUMS = (
    "planned",
    "ok",
    "failed",
    "cancelled",
    "not_sent",
    "sent",
    "attempts",
    "rate_limited_attempts",
    "refused_attempts",
    "retried",
    "ok_after_retry",
    "useful_tokens",
    "useful_prompt_tokens",
    "wasted_tokens",
    "wasted_prompt_tokens",
)


def retried(record=make_record, statuses=(429,), wait_s=1.0, **changes):
    """A request whose attempts of these statuses were lost, 2 ms each, each followed by a wait."""
    begins = [n * (wait_s + 0.002) for n in range(len(statuses) + 1)]
    plain = record()
    last_429 = record is not make_record and plain.status == 429
    waited_s = begins[-1]
    values = {
        "attempts": len(statuses) + 1,
        "rate_limited_attempts": statuses.count(429) + last_429,
        "retry_wait_s": wait_s * len(statuses),
        "asked_wait_s": wait_s,
        "lost_sent_s": tuple(begins[:-1]),
        "lost_end_s": tuple(begin + 0.002 for begin in begins[:-1]),
        "lost_status": statuses,
        "user_latency_s": waited_s + plain.user_latency_s,
    }
    if plain.user_ttft_s is not None:
        values["user_ttft_s"] = waited_s + plain.user_ttft_s
    return record(**{**values, **changes})


def refused(**changes):
    """A request that was answered 429."""
    return failed_record(
        Outcome.RATE_LIMITED,
        429,
        **{"rate_limited_attempts": 1, "error_code": "rate_limit_exceeded", **changes},
    )


def unsent(**changes):
    """An arrival that was due and never sent."""
    return failed_record(Outcome.NOT_SENT, None, attempts=0, end_s=0.0, **changes)


def books(folder, records, **options) -> Ledger:
    """The ledger of a saved run of these records."""
    return ledger_of(load_run(build_run(folder / "run", numbered(records), **options)))


def cell(row, name):
    """The text under a column that occurs once."""
    return row[LEDGER_COLUMNS.index(name)]


def three_requests():
    """A: 429, 429, 200. B: 429 four times, three retries allowed. C: 200."""
    gave_up = "gave up: all 3 retries were used; HTTP 429 slow down"
    lost = retried(refused, (429, 429, 429), error_sample=gave_up)
    return [retried(statuses=(429, 429)), lost, make_record()]


def test_r07_attempts_and_429s_are_counted_apart_from_requests(tmp_path):
    """Logical 3, ok 2, failed 1, attempts 8, 429s 6, ok after retry 1."""
    total = books(tmp_path, three_requests()).total

    assert (3, 2, 1) == (total.planned, total.ok, total.failed)
    assert (8, 6, 1) == (total.attempts, total.rate_limited_attempts, total.ok_after_retry)
    assert (2, 8 / 3) == (total.retried, total.amplification)


def test_r07_why_no_further_attempt_was_made_is_counted(tmp_path):
    """The wait asked for differs, the reason is one; the server's own words are not part of it."""
    over = "gave up: the server asks for a wait of {} s, over --retry-cap 30 s; HTTP 429 a; b"
    records = [refused(error_sample=over.format(wait)) for wait in ("59.3", "60")]
    records += [*three_requests(), refused(error_sample="HTTP 429 slow down")]

    assert books(tmp_path, records).total.gave_up == {
        "the server asks for a wait of more than --retry-cap 30 s": 2,
        "all 3 retries were used": 1,
    }


def test_r06_attempts_ttft_and_users_ttft_stand_apart(tmp_path):
    """429 and a wait of 1 s, then a stream with TTFT 50 ms: 50 ms and 1,052 ms."""
    one = retried(ttft_s=0.05, ttfa_s=0.05, user_ttft_s=1.052)
    total = books(tmp_path, [one]).total

    assert (0.05, 1.052) == (total.attempt_ttft.p50, total.user_ttft.p50)
    assert (1, 1.0) == (total.rate_limited_attempts, total.asked_wait_max_s)


def test_waits_are_of_retried_requests_and_their_share_of_all_waiting(tmp_path):
    """Waits of 2 s, 3 s and 1 s; users waited 2.504 + 3.008 + 1.502 + 0.5 s in all."""
    records = [*three_requests(), retried()]
    total = books(tmp_path, records).total

    assert (2.0, 3.0) == (total.retry_wait_mean_s, total.retry_wait_p95_s)
    assert total.retry_wait_share == pytest.approx(6 / 7.514)


def test_who_left_in_a_pause_waited_at_least_for_the_pause(tmp_path):
    """Sent once, refused after 2 ms, left 5 s later: no more than all of the waiting is pauses."""
    left = refused(retry_wait_s=5.0)
    left = type(left).from_mapping({**_values(left), "outcome": "cancelled"})

    assert 1.0 == books(tmp_path, [left]).total.retry_wait_share


def test_wasted_tokens_are_held_against_useful_ones(tmp_path):
    """Two successes of 10 prompt and 5 completion tokens; 20 and 4 wasted."""
    records = [retried(wasted_prompt_tokens=20, wasted_tokens=4), make_record()]
    total = books(tmp_path, records).total

    assert (20, 4) == (total.wasted_prompt_tokens, total.wasted_tokens)
    assert (1.0, 0.4) == (total.wasted_prompt_ratio, total.wasted_tokens_ratio)


def test_prompts_that_no_answer_told_are_taken_for_mean_ones(tmp_path):
    """Two refused requests, one of them thrice: four prompts of 10 tokens like the success's."""
    records = [make_record(), refused(), retried(refused, statuses=(429, 429))]
    total = ledger_of(load_run(build_run(tmp_path / "r", numbered(records)))).total

    assert (0, 4, 40) == (
        total.wasted_prompt_tokens,
        total.untold_attempts,
        total.wasted_prompt_estimate,
    )
    assert 4.0 == total.wasted_prompt_ratio


def test_without_a_success_nothing_is_known_of_prompts(tmp_path):
    """Unknown, and not 0."""
    total = ledger_of(load_run(build_run(tmp_path / "r", numbered([refused()])))).total

    assert total.wasted_prompt_estimate is None


def test_m07_a_percentile_stands_beside_the_share_that_failed(tmp_path):
    """94 TTFTs of 100 to 193 ms and 6 failures: p95 with them is beyond any, p50 is later."""
    records = [make_record(ttft_s=ms / 1e3, user_ttft_s=ms / 1e3) for ms in range(100, 194)]
    records += [refused(stream_asked=True)] * 6
    ledger = books(tmp_path, records)
    total, row = ledger.total, ledger_table(ledger)[-1]

    assert (0.193, 0.189) == (total.user_ttft.p99, total.user_ttft.adjusted["p90"])
    assert total.user_ttft.adjusted["p95"] is None
    assert "6.0 %" == cell(row, "no TTFT")
    assert "189 ms (> max)" == row[LEDGER_COLUMNS.index("users' TTFT p50") + 1]


def test_o13_every_kind_of_end_is_in_the_identity(tmp_path):
    """9 planned = 4 ok + 3 failed + 1 cancelled + 1 not sent, over two stages and a drain."""
    records = [
        *three_requests(),
        retried(stage=1, started_s=11.0),
        make_record(stage=1, started_s=11.0),
        failed_record(stage=1, started_s=12.0),
        failed_record(Outcome.CANCELLED, None, stage=1, started_s=12.0),
        unsent(stage=1, started_s=13.0),
        refused(stage=None, phase=None),
    ]
    ledger = books(tmp_path, records, levels=(1, 2))
    total = ledger.total

    assert (9, 4, 3, 1, 1) == tuple(getattr(total, name) for name in SUMS[:5])
    assert [("1 user", 3), ("2 users", 5), (OUTSIDE, 1)] == [
        (row.load, row.planned) for row in ledger.rows
    ]
    assert () == ledger.faults
    assert ledger_values(ledger)["balanced"] is True


def test_o13_a_request_of_no_known_end_is_told(tmp_path):
    """A record of another version's outcome is in no column, so the identity does not hold."""
    run = load_run(build_run(tmp_path / "run", numbered([make_record(), make_record()])))
    run.records.loc[0, "outcome"] = "vanished"
    ledger = ledger_of(run)

    assert "1 user: 2 planned are not 1 ok + 0 failed + 0 cancelled + 0 not sent" in ledger.faults
    assert any("books do not agree" in sentence for sentence in ledger_sentences(ledger))
    assert ledger_values(ledger)["balanced"] is False


def test_attempts_that_are_not_listed_are_told(tmp_path):
    """Three attempts and two 429s booked, one lost 429 listed."""
    ledger = books(tmp_path, [retried(attempts=3, rate_limited_attempts=2)])

    assert "total: 3 attempts are booked, 2 are listed" in ledger.faults
    assert "total: 2 attempts answered 429 are booked, 1 are listed" in ledger.faults


def test_records_of_earlier_versions_have_no_faults(tmp_path):
    """They list no lost attempts, which is not the same as none."""
    run = load_run(build_run(tmp_path / "run", numbered([make_record(attempts=2)])))
    run.records["lost_status"] = float("nan")

    assert () == ledger_of(run).faults


def test_a_retry_storm_is_named_from_one_and_a_half_attempts_on(tmp_path):
    """Each of three requests is made 3.2 times: 16 attempts for 5, of which 11 were refused."""
    calm = [retried(), make_record()]
    storm = [retried(statuses=(429,) * n) for n in (2, 2, 2, 2, 3)]

    assert not any("storm" in text for text in ledger_sentences(books(tmp_path / "calm", calm)))
    assert (
        "Retry storm: each request became 3.2 attempts; 68.8 % of what was sent was refused."
        == ledger_sentences(books(tmp_path / "storm", storm))[-1]
    )


def test_what_was_never_sent_does_not_thin_a_storm(tmp_path):
    """Four attempts for the two requests that were sent; two more arrivals never were."""
    records = [retried(), retried(), unsent(), unsent()]
    total = books(tmp_path, records).total

    assert (2, 4, 2.0) == (total.sent, total.attempts, total.amplification)


def test_a_storm_at_one_level_is_not_hidden_by_the_others(tmp_path):
    """Three attempts for one request at 2 users, nine plain ones at 1."""
    records = [make_record()] * 9 + [retried(statuses=(503, 503), stage=1, started_s=11.0)]
    sentence = ledger_sentences(books(tmp_path, records, levels=(1, 2)))[-1]

    assert sentence.startswith("Retry storm: at 2 users each request became 3.0 attempts; 66.7 %")


def test_a_storm_of_broken_attempts_is_not_called_refused(tmp_path):
    """500 twice and then ok: two of three attempts brought no answer, none was refused."""
    sentence = ledger_sentences(books(tmp_path, [retried(statuses=(500, 500))]))[-1]

    assert "66.7 % of what was sent brought no answer." in sentence


def test_without_retries_nothing_is_said_of_them(tmp_path):
    """A plain run needs no sentence."""
    assert () == ledger_sentences(books(tmp_path, [make_record(), failed_record()]))


def test_a_run_without_requests_has_an_empty_ledger(tmp_path):
    """Nothing was sent: no amplification, no waits, and a table all the same."""
    ledger = books(tmp_path, [])

    assert (0, None, None) == (
        ledger.total.planned,
        ledger.total.amplification,
        ledger.total.retry_wait_share,
    )
    assert "n/a" == cell(ledger_table(ledger)[-1], "attempts per request")


def _values(record):
    return dict(zip(type(record).__dataclass_fields__, record.to_row(), strict=True))


KINDS = st.sampled_from(["ok", "retried", "refused", "exhausted", "broken", "left", "unsent"])
MAKERS = {
    "ok": make_record,
    "retried": lambda **c: retried(statuses=(429, 503), wasted_prompt_tokens=20, **c),
    "refused": refused,
    "exhausted": lambda **c: retried(refused, (429, 429), **c),
    "broken": lambda **c: failed_record(wasted_tokens=3, **c),
    "left": lambda **c: failed_record(Outcome.CANCELLED, None, **c),
    "unsent": unsent,
}


@settings(max_examples=15, deadline=None)
@given(ends=st.lists(st.tuples(KINDS, st.sampled_from([0, 1, 2, None])), max_size=30))
def test_o13_stages_add_up_to_the_total_whatever_happens(ends, tmp_path_factory):
    """Each row's identity holds, and each count of the rows sums to the total's."""
    records = [
        MAKERS[kind](stage=stage, phase=None if stage is None else "hold", started_s=1.0)
        for kind, stage in ends
    ]
    run = load_run(build_run(tmp_path_factory.mktemp("run") / "run", [], levels=(1, 2)))
    object.__setattr__(run, "records", frame_of(numbered(records)))
    ledger = ledger_of(run)

    for row in (*ledger.rows, ledger.total):
        assert row.planned == row.ok + row.failed + row.cancelled + row.not_sent
    for name in SUMS:
        assert getattr(ledger.total, name) == sum(getattr(row, name) for row in ledger.rows)
    assert () == ledger.faults
