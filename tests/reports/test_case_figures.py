"""Figures of the public cases, as a built run's report gives them."""

import html
import html.parser

import pytest

from metrics.outcome import Outcome, TokenSource
from reports.model import ExitCode
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import csv_rows, good, rendered
from tests.support.run_builder import build_run, numbered


class _Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts = []

    def handle_data(self, data):
        self.parts.append(data)


def page_text(folder):
    """The words of the page."""
    parser = _Text()
    parser.feed((folder / "report.html").read_text(encoding="utf-8"))
    return " ".join(" ".join(parser.parts).split())


def finish(reason, tokens, n):
    """``n`` successes that were asked for 64 tokens and gave that many."""
    return good(n, finish_reason=reason, completion_tokens=tokens, asked_max_tokens=64)


def test_M07_the_share_of_failures_stands_beside_the_percentiles(tmp_path):
    """94 ok at 100 to 193 ms, 6 failed: p99 193 ms, with failures above every value; 6.0 %."""
    ok = [make_record(end_s=ms / 1000, last_token_s=ms / 1000) for ms in range(100, 194)]
    folder = build_run(tmp_path / "r", numbered(ok + [failed_record() for _ in range(6)]))

    _, summary, text = rendered(folder)

    latency = summary["latency"]["e2e_latency_s"]
    assert (94, 6, 0.193) == (latency["n"], latency["failed"], latency["p99"])
    adjusted = latency["failure_adjusted"]
    assert (0.189, None, None) == (adjusted["p90"], adjusted["p95"], adjusted["p99"])
    assert "6 (6.0 %)" in text
    assert "193 ms* with failures > max" in page_text(folder)
    assert "6.0 %" in page_text(folder)


def test_M07_a_failure_counts_only_where_it_was_asked_for(tmp_path):
    """A plain answer that failed is no missing TTFT, and stands in its own class's row."""
    plain = {"streamed": False, "stream_asked": False, "user_class": "BlockingChatUser"}
    times = {"ttft_s": None, "ttfa_s": None, "last_token_s": None, "user_ttft_s": None}
    records = [
        *good(8),
        *(make_record(**plain, **times) for _ in range(3)),
        *(failed_record(**plain) for _ in range(2)),
        failed_record(),
    ]
    folder = build_run(tmp_path / "r", numbered(records))

    _, summary, _ = rendered(folder)

    assert 1 == summary["latency"]["ttft_s"]["failed"]
    assert 3 == summary["latency"]["e2e_latency_s"]["failed"]
    modes = {row["mode"]: row["latency"]["e2e_latency_s"] for row in summary["modes"]}
    assert (8, 1) == (modes["streamed"]["n"], modes["streamed"]["failed"])
    assert (3, 2) == (modes["plain"]["n"], modes["plain"]["failed"])


def test_M09_percentiles_are_never_above_what_was_seen(tmp_path):
    """596.4 ms once and 100 ms 49 times: max and p99 596.4; 1,234.4 ms alone is its own median."""
    many = [make_record(ttft_s=0.5964, last_token_s=0.7), *good(49, ttft_s=0.1)]
    _, summary, _ = rendered(build_run(tmp_path / "many", numbered(many)))
    one = [make_record(ttft_s=1.2344, last_token_s=2.0, end_s=2.0, user_latency_s=2.0)]
    _, single, _ = rendered(build_run(tmp_path / "one", numbered(one)))

    ttft = summary["latency"]["ttft_s"]
    assert (0.5964, 0.5964, 0.1) == (ttft["max"], ttft["p99"], ttft["p50"])
    assert 1.2344 == single["latency"]["ttft_s"]["p50"]


def test_M13_both_rates_come_with_their_bounds(tmp_path):
    """Nine of 1 s end by 3 s, one takes 9 s: 55.6 tokens/s over 9 s; over 150 from 0 s to 3 s."""

    def answered(started_s, seconds):
        times = {"ttft_s": 0.0, "last_token_s": seconds, "end_s": seconds}
        return make_record(
            **times, started_s=started_s, user_latency_s=seconds, completion_tokens=50
        )

    records = [answered(at_s, 1.0) for at_s in (0.0, 1.0, 2.0) for _ in range(3)]
    records.append(answered(0.0, 9.0))
    folder = build_run(tmp_path / "r", numbered(records), levels=(4,), hold_s=3.0)

    _, summary, _ = rendered(folder)

    whole, stage = summary["throughput"], summary["stages"][0]
    assert 9.0 == pytest.approx(whole["seconds"])
    assert 55.6 == pytest.approx(whole["output_tokens_per_s"], abs=0.05)
    assert stage["output_tokens_per_s"] >= 150
    bounds = (stage["window_begin_s"], stage["window_end_s"], stage["window_s"])
    assert (0.0, 3.0, 3.0) == bounds
    assert 4.0 == pytest.approx(stage["in_flight"])
    row = csv_rows(folder)[0]
    assert ("0.0", "3.0") == (row["window_begin_s"], row["window_end_s"])


def test_M14_waiting_in_the_client_is_a_figure_of_its_own(tmp_path):
    """8 that waited 0 to 3.5 s for 0.5 s of service: 2.25 s felt, 0.5 s served, 1.75 s waited."""
    records = [
        make_record(
            client_wait_s=n * 0.5, last_token_s=0.5, end_s=0.5, user_latency_s=(n + 1) * 0.5
        )
        for n in range(8)
    ]

    _, summary, _ = rendered(build_run(tmp_path / "r", numbered(records)))

    latency = summary["latency"]
    assert 2.25 == pytest.approx(latency["user_latency_s"]["mean"])
    assert 0.5 == pytest.approx(latency["e2e_latency_s"]["mean"])
    assert 1.75 == pytest.approx(latency["client_wait_s"]["mean"])


def test_P08_the_share_without_token_counts_is_told(tmp_path):
    """6 with the server's usage and 4 without: 6 and 4, and only the 6 have tokens."""
    none = {"prompt_tokens": None, "completion_tokens": None}
    counted = good(6, prompt_tokens=9, completion_tokens=5)
    records = [*counted, *good(4, token_source=TokenSource.UNKNOWN, **none)]

    _, summary, text = rendered(build_run(tmp_path / "r", numbered(records)))

    assert {"server": 6, "unknown": 4} == summary["totals"]["token_sources"]
    assert 30 == summary["totals"]["completion_tokens"]
    assert "4 of 10 answers carried no token counts" in text


def test_P15_the_hit_rate_is_over_the_answers_that_tell(tmp_path):
    """96, 96, unknown, unknown, 96 and 0 of 128: 288 of 512 over 4 known, 2 unknown."""
    cached = (96, 96, None, None, 96, 0)
    records = [make_record(prompt_tokens=128, cached_tokens=tokens) for tokens in cached]

    _, summary, _ = rendered(build_run(tmp_path / "r", numbered(records)))
    _, silent, _ = rendered(build_run(tmp_path / "silent", numbered(records[2:4])))

    use = {"known": 4, "unknown": 2, "cached_tokens": 288, "prompt_tokens": 512, "ratio": 0.5625}
    assert use == summary["cache"]
    assert (0, 2, None) == tuple(silent["cache"][name] for name in ("known", "unknown", "ratio"))


@pytest.mark.parametrize("ignore_eos", [True, False])
def test_P14_finish_reasons_are_counted_and_short_answers_flagged(tmp_path, ignore_eos):
    """7 of 64 tokens, 2 of 5, 1 filtered at 3: 7/2/1, 3 short, told when a length was fixed."""
    records = [*finish("length", 64, 7), *finish("stop", 5, 2), *finish("content_filter", 3, 1)]
    settings = {"settings": {"ignore_eos": ignore_eos}}
    folder = build_run(tmp_path / "r", numbered(records), **settings)

    code, summary, text = rendered(folder)

    reasons = {"length": 7, "stop": 2, "content_filter": 1}
    assert reasons == summary["totals"]["by_finish_reason"]
    lengths = {"n": 10, "asked_tokens": 640, "completion_tokens": 461, "short": 3}
    assert lengths == summary["lengths"]
    assert ("3 of 10 answers are shorter than asked for" in " ".join(text.split())) == ignore_eos
    assert 10 == summary["totals"]["ok"]
    assert ExitCode.OK == code


def test_E07_a_gateway_page_is_one_row_with_its_real_time(tmp_path):
    """One 524 after 1.2 s among successes of 0.5 s: a row of its own, and in no percentile."""
    slow = failed_record(status=524, error_code="http_524", end_s=1.2, user_latency_s=1.2)

    _, summary, _ = rendered(build_run(tmp_path / "r", numbered([*good(9), slow])))

    (row,) = summary["failures"]
    assert (524, 1) == (row["status"], row["count"])
    assert 1.2 == pytest.approx(row["latency"]["p50"])
    assert (9, 0.5) == (
        summary["latency"]["user_latency_s"]["n"],
        summary["latency"]["user_latency_s"]["max"],
    )


def test_E10_refused_prompts_are_one_row_whatever_their_text(tmp_path):
    """Each third of 30 over the limit, each with an id of its own in its text: one row of 10."""
    refused = [
        failed_record(
            Outcome.CONTEXT_LENGTH,
            400,
            error_code="context_length_exceeded",
            error_sample=f"limit 2048, got 2311 (req 9f{n:02})",
        )
        for n in range(10)
    ]

    _, summary, _ = rendered(build_run(tmp_path / "r", numbered([*good(20), *refused])))

    assert [("context_length", 10)] == [(r["outcome"], r["count"]) for r in summary["failures"]]
    assert 30 == summary["totals"]["attempts"]


def test_E13_a_stage_without_descriptors_is_client_limited(tmp_path):
    """Ten requests that found no descriptor: their stage is void and the run is not valid."""
    records = [
        *good(40),
        *(failed_record(Outcome.CLIENT_RESOURCE, None, stage=1) for _ in range(10)),
        *good(40, stage=1, started_s=12.0),
    ]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2), max_fail_ratio=0.5)

    code, summary, _ = rendered(folder)

    assert ExitCode.INVALID == code
    texts = [verdict["text"] for verdict in summary["verdicts"]]
    assert [
        "stage 2 is client-limited: 10 found no descriptor or port: add workers, or raise ulimit -n"
    ] == texts
    notes = {level["users"]: level["note"] for level in summary["knee"]["evidence"]}
    assert "client-limited" in notes[2]
    assert notes[1] is None
    assert {"client_resource": 10, "ok": 80} == summary["totals"]["by_outcome"]
