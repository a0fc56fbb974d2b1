"""From a saved run to findings, and the findings on every face of the report."""

import random

import pytest

from metrics.outcome import TokenSource
from metrics.stage import Phase
from reports.model import ExitCode
from reports.verdicts import validity_rows
from tests.support.client_state import report_of, watched
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import rendered
from tests.support.run_builder import build_run, numbered

TWO_LEVELS = {"levels": (4, 4), "hold_s": 40.0}


def asking(users, begin_s, end_s, stage=0, ttft_of=lambda at_s: 0.1, **changes):
    """So many users that ask again when an answer ends; it ends 0.4 s after its first token."""
    records = []
    for user in range(users):
        at_s = begin_s + user * 0.05
        while at_s < end_s:
            ttft_s = ttft_of(at_s)
            end = ttft_s + 0.4
            times = {"ttft_s": ttft_s, "ttfa_s": ttft_s, "user_ttft_s": ttft_s}
            times |= {"last_token_s": end, "end_s": end, "user_latency_s": end}
            records.append(make_record(user=user, stage=stage, started_s=at_s, **times, **changes))
            at_s += end
    return records


def rules(report):
    """(rule, severity, stage) of each finding."""
    return [(f.rule, f.severity.value, f.stage) for f in report.validity]


def test_a_steady_run_has_no_finding(tmp_path):
    """Two levels of 4 users for 40 s each: valid, the table says so, and the summary is empty."""
    records = [*asking(4, 0, 40), *asking(4, 40, 80, stage=1)]

    code, summary, text = rendered(build_run(tmp_path / "r", numbered(records), **TWO_LEVELS))

    assert (ExitCode.OK, True, []) == (code, summary["valid"], summary["validity"])
    assert "VALID: nothing speaks against" in text
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "No rule speaks against this run." in page


def test_a_level_whose_halves_differ_is_void(tmp_path):
    """TTFT of 0.1 s, from the middle of the second level on 0.6 s: void, exit 4, numbers kept."""
    late = asking(4, 40, 80, stage=1, ttft_of=lambda at_s: 0.1 if at_s < 60 else 0.6)

    report = report_of(tmp_path / "r", [*asking(4, 0, 40), *late], **TWO_LEVELS)

    assert ("not_steady", "void", 1) in rules(report)
    assert {1} == {f.stage for f in report.validity if f.severity.value == "void"}
    assert ExitCode.INVALID == report.exit_code
    assert report.stages[1].ttft.n == sum(record.started_s < 80 for record in late)
    assert "not-steady" in next(e.note for e in report.knee.evidence if e.stage == 1)


def test_the_same_in_12_seconds_is_told_and_no_more(tmp_path):
    """A window under 30 s is not void for its halves: exit 0."""
    records = asking(4, 0, 12, ttft_of=lambda at_s: 0.1 if at_s < 4 else 0.6)

    report = report_of(tmp_path / "r", records, levels=(4,), hold_s=12.0)

    assert ("not_steady", "notice", 0) in rules(report)
    assert ExitCode.OK == report.exit_code


def test_a_void_level_is_not_the_best(tmp_path):
    """Its tokens/s are the highest and its level is void: the sentence names the other one."""
    fast = asking(8, 40, 80, stage=1, completion_tokens=50)
    folder = build_run(tmp_path / "r", numbered([*asking(4, 0, 40), *fast]), (4, 8), 40.0)
    watched(folder, 1, cpu_ratio=[0.97] * 20)

    code, summary, text = rendered(folder, slo="output_tokens_per_s>100")

    assert ExitCode.INVALID == code
    assert any("output tokens/s at 4 users" in sentence for sentence in summary["headline"])
    assert summary["stages"][1]["output_tokens_per_s"] > 400
    assert summary["slo"][0]["value"] < 100
    said = " ".join(text.split())
    assert "stage 2 is client-limited: a worker used 97% of its core (limit 90%): add" in said


def test_littles_law_finds_users_that_stood_idle(tmp_path):
    """8 wanted and 4 ask: void; 8 wanted and 8 ask, in step, is none."""
    idle = report_of(tmp_path / "idle", asking(4, 0, 40), levels=(8,), hold_s=40.0)
    right = report_of(tmp_path / "right", asking(8, 0, 40), levels=(8,), hold_s=40.0)

    assert [("littles_law", "void", 0)] == rules(idle)
    assert "asking or thinking were 4.0 on average (-50" in idle.validity[0].evidence
    assert [] == rules(right)


def test_littles_law_counts_the_pause_before_a_request(tmp_path):
    """One user who thinks for 0.5 s before each answer of 0.5 s is there all the time."""
    thinking = [make_record(started_s=n + 0.5, think_s=0.5) for n in range(90)]

    report = report_of(tmp_path / "r", thinking, hold_s=90.0)

    assert [] == rules(report)


def test_M12_a_window_held_before_it_had_settled(tmp_path):
    """TTFT of 2 s for the first 18 of 60 s: MSER-5 cuts over a quarter, and the level is void."""
    records = asking(16, 0, 60, ttft_of=lambda at_s: 2.0 if at_s < 36 else 0.1)

    report = report_of(tmp_path / "r", records, levels=(16,), hold_s=60.0)

    assert ("warm_up_too_long", "void", 0) in rules(report)


def test_M12_each_users_first_request_at_the_level_is_no_part_of_the_check(tmp_path):
    """10 users, 6 of 23 answers slow (26 %): without each one's first it is 5 of 22 (23 %)."""
    records = [
        make_record(
            user=user,
            started_s=turn * 1.7 + user / 100,
            end_s=1.6,
            last_token_s=1.6,
            user_latency_s=1.6,
            ttft_s=1.0 if turn < 6 else 0.1,
        )
        for turn in range(23)
        for user in range(10)
    ]
    earlier = [
        make_record(user=n, phase=Phase.SETTLE, started_s=-0.5, end_s=0.4) for n in range(10)
    ]

    fresh = report_of(tmp_path / "fresh", records, levels=(10,), hold_s=40.0)
    settled = report_of(tmp_path / "settled", [*earlier, *records], levels=(10,), hold_s=40.0)

    assert "warm_up_too_long" not in [rule for rule, _, _ in rules(fresh)]
    assert "warm_up_too_long" in [rule for rule, _, _ in rules(settled)]


def test_M12_what_began_while_settling_is_no_warm_up_of_the_window(tmp_path):
    """10 requests of 5 s before the hold, 30 of 0.2 s in it: n 30, p99 0.2 s, 10 left out."""
    short = {"last_token_s": 0.2, "end_s": 0.2, "user_latency_s": 0.2}
    long = {"last_token_s": 5.0, "end_s": 5.0, "user_latency_s": 5.0}
    records = [make_record(phase=Phase.SETTLE, started_s=0.0, **long) for _ in range(10)]
    records += [make_record(started_s=2 + n / 10, **short) for n in range(30)]

    report = report_of(tmp_path / "r", records)

    assert (30, 0.2) == (report.latency["e2e_latency_s"].n, report.latency["e2e_latency_s"].p99)
    assert 10 == report.stages[0].left_out
    assert not [rule for rule, _, _ in rules(report) if rule in ("warm_up_too_long", "not_steady")]


def test_a_leak_in_a_long_level_is_found_by_its_slope(tmp_path):
    """TTFT that grows by 1 % a minute for 11 minutes: told, with slope and interval, not void."""
    chance = random.Random(4)
    records = asking(
        4, 0, 660, ttft_of=lambda at_s: 0.1 * (1 + at_s / 6000) * chance.uniform(0.9, 1.1)
    )

    report = report_of(tmp_path / "r", records, levels=(4,), hold_s=660.0)

    (finding,) = [f for f in report.validity if f.rule == "drift"]
    assert "notice" == finding.severity.value
    assert "TTFT p99 +1" in finding.evidence
    assert "a minute; 95 % interval" in finding.evidence


@pytest.mark.parametrize(
    ("cached", "settings", "fires"),
    [
        (96, {"prefixes": 1, "prefix_tokens": 20, "prompt_tokens": "80"}, True),
        (20, {"prefixes": 1, "prefix_tokens": 20, "prompt_tokens": "80"}, False),
        (90, {"prefixes": 1, "prefix_tokens": 90, "prompt_tokens": "uniform:5-15"}, False),
        (96, {"prefixes": 0, "prefix_tokens": 90, "prompt_tokens": "80"}, True),
        (96, {"prefixes": 1, "prefix_tokens": 90, "prompt_tokens": "file:gone.csv"}, False),
        (None, {}, False),
    ],
    ids=["warm", "as planned", "nearly all planned", "no prefix", "unknown lengths", "not told"],
)
def test_X02_a_warm_cache_is_told(tmp_path, cached, settings, fires):
    """96 of 100 prompt tokens cached where the shared prefix is 20 of 100: a notice, exit 0."""
    records = [
        make_record(started_s=n / 10, prompt_tokens=100, cached_tokens=cached) for n in range(80)
    ]

    report = report_of(tmp_path / "r", records, settings=settings)

    assert fires == ("cached_share_above_plan" in [rule for rule, _, _ in rules(report)])
    assert ExitCode.OK == report.exit_code


def test_facts_of_each_level_come_from_its_own_requests(tmp_path):
    """Lumps and unknown token counts in stage 2, failures in stage 1: each told where it was."""
    second = asking(4, 40, 80, stage=1, buffered=True)
    second += asking(4, 40, 80, stage=1, token_source=TokenSource.UNKNOWN)
    bad = [failed_record(started_s=1.0 + n) for n in range(20)]

    report = report_of(
        tmp_path / "r", [*asking(4, 0, 40), *bad, *second], levels=(4, 8), hold_s=40.0
    )

    assert {
        ("failures_over_limit", "notice", 0),
        ("buffered_stream", "notice", 1),
        ("token_source_mixed", "notice", 1),
    } == set(rules(report))


def test_a_wall_clock_that_was_set_is_told(tmp_path):
    """The labels go back by 5 s in the middle, the durations stay: a notice that says how far."""
    records = [
        make_record(
            started_s=n * 0.5,
            started_at=f"2026-01-02T03:04:{30 + n * 0.5 - 5 * (n > 20):09.6f}+00:00",
        )
        for n in range(40)
    ]

    report = report_of(tmp_path / "r", records, hold_s=20.0)

    (finding,) = [f for f in report.validity if f.rule == "clock_stepped"]
    assert "by -5.0 s on local" in finding.evidence


def test_findings_are_on_every_face(tmp_path):
    """Rule, severity, stage, evidence, threshold and advice, in the summary and on the page."""
    records = [make_record(started_s=n / 10) for n in range(10)]
    folder = build_run(tmp_path / "r", numbered(records), complete=False, end_reason="<stopped>")

    code, summary, text = rendered(folder)

    assert ExitCode.INVALID == code
    keys = {"rule", "severity", "stage", "evidence", "advice", "threshold"}
    assert all(keys == set(finding) for finding in summary["validity"])
    first = summary["validity"][0]
    assert ("partial", "invalid", None) == (first["rule"], first["severity"], first["stage"])
    assert "partial" in text
    assert "too_few_samples" in text
    page = (folder / "report.html").read_text(encoding="utf-8")
    cells = [("th", ' scope="row" class="left"', "partial")]
    cells += [("td", ' class="left short"', text) for text in ("invalid", "run")]
    assert "".join(f"<{tag}{attributes}>{text}</{tag}>" for tag, attributes, text in cells) in page
    assert "(&lt;stopped&gt;)" in page
    assert "(<stopped>)" not in page


def test_notices_of_one_rule_share_a_line(tmp_path):
    """Seven short levels have one line of few samples, with each level's number."""
    records = [make_record(stage=n, started_s=n * 10 + 1.0) for n in range(7)]

    report = report_of(tmp_path / "r", records, levels=(1,) * 7)

    few = [row for row in validity_rows(report.validity) if row.rule == "too_few_samples"]
    assert ["1, 2, 3, 4, 5, 6, 7"] == [row.stages for row in few]
    assert "7: 1 successes" in few[0].evidence


def test_O02_one_request_has_every_test_left_out_and_none_failed(tmp_path):
    """One step, one request: few samples and idle users are told, nothing else, exit 0."""
    report = report_of(tmp_path / "r", [make_record()])

    assert {"too_few_samples", "littles_law"} == {rule for rule, _, _ in rules(report)}
    assert ExitCode.OK == report.exit_code
