"""The figures of the report: what counts, where, and what it means for the exit code."""

import html
import html.parser

import pytest

from metrics.stage import Phase
from reports.model import ExitCode
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import good, rendered
from tests.support.run_builder import build_run, numbered


def test_M06_failures_have_a_table_of_their_own(tmp_path):
    """66 ok at 700 ms, 34 failed at 2 ms: success p50 700 ms n 66, failure p50 2 ms n 34."""
    ok = good(66, user_latency_s=0.7)
    folder = build_run(tmp_path / "r", numbered(ok + [failed_record() for _ in range(34)]))

    _, summary, _ = rendered(folder)

    latency, failures = summary["latency"]["user_latency_s"], summary["failures"]
    assert (66, 0.7) == (latency["n"], latency["p50"])
    assert 0.7 == pytest.approx(latency["mean"])
    assert (1, 34) == (len(failures), failures[0]["count"])
    assert (34, 0.002) == (failures[0]["latency"]["n"], failures[0]["latency"]["p50"])


def test_M11_streamed_and_plain_answers_have_their_own_rows(tmp_path):
    """8 streamed with TTFT 50 ms and 2 plain of 2.5 s: TTFT n 8, and none in the plain row."""
    plain = [
        make_record(
            user_class="BlockingChatUser",
            streamed=False,
            stream_asked=False,
            ttft_s=None,
            ttfa_s=None,
            last_token_s=None,
            user_ttft_s=None,
            end_s=2.5,
            user_latency_s=2.5,
        )
        for _ in range(2)
    ]
    folder = build_run(tmp_path / "r", numbered(good(8, ttft_s=0.05) + plain))

    _, summary, _ = rendered(folder)

    assert (8, 0.05) == (summary["latency"]["ttft_s"]["n"], summary["latency"]["ttft_s"]["mean"])
    modes = {row["mode"]: row["latency"] for row in summary["modes"]}
    assert {"streamed", "plain"} == set(modes)
    assert 0 == modes["plain"]["ttft_s"]["n"]
    assert 2.5 == modes["plain"]["e2e_latency_s"]["p50"]


def test_M03_one_token_answers_have_no_tpot(tmp_path):
    """20 answers of one token: TTFT n 20, TPOT n 0 and n/a, report written."""
    folder = build_run(tmp_path / "r", numbered(good(20, completion_tokens=1, chunks=1)))

    code, summary, text = rendered(folder)

    assert 0 == code
    assert 20 == summary["latency"]["ttft_s"]["n"]
    assert 0 == summary["latency"]["tpot_s"]["n"]
    assert summary["latency"]["tpot_s"]["p50"] is None
    assert "n/a" in text


def test_records_that_the_tallies_do_not_know_make_the_run_invalid(tmp_path):
    """A row too many in the file: exit 4 and the two counts."""
    folder = build_run(tmp_path / "r", numbered(good(5)))
    rows = build_run(tmp_path / "other", numbered(good(6)), stages=False) / "requests.jsonl"
    (folder / "requests.jsonl").write_bytes(rows.read_bytes())

    code, summary, _ = rendered(folder)

    assert ExitCode.INVALID == code
    assert any("6 requests are kept, 5 were counted" in v["text"] for v in summary["verdicts"])


def test_L01_a_level_that_was_not_reached_has_no_figures(tmp_path):
    """Its row says so, the run is invalid, and no percentile stands for it."""
    folder = build_run(tmp_path / "r", numbered(good(5)), levels=(1, 40), not_reached=(1,))

    code, summary, text = rendered(folder)

    missed = summary["stages"][1]
    assert ExitCode.INVALID == code
    assert not missed["reached"]
    assert (0, None, None) == (missed["offered"], missed["ttft"]["p50"], missed["window_s"])
    assert "40 users were wanted and never all ran" in text


@pytest.mark.parametrize(("waits", "status"), [(True, "knee"), (False, "no_knee")])
def test_L09_L10_the_knee_is_in_every_face(tmp_path, waits, status):
    """Two slots and levels 1, 2, 4, 8: knee near 2; without a queue: at least 8."""
    records = []
    for stage, users in enumerate((1, 2, 4, 8)):
        wait_s = max(0.0, users / 2 - 1) if waits else 0.0
        records += [
            make_record(
                stage=stage,
                started_s=stage * 10 + 0.1 * n,
                ttft_s=0.05 + wait_s,
                last_token_s=1.0 + wait_s,
                end_s=1.0 + wait_s,
            )
            for n in range(40)
        ]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2, 4, 8))

    code, summary, text = rendered(folder)

    assert 0 == code
    assert status == summary["knee"]["status"]
    if waits:
        assert 2 == pytest.approx(summary["knee"]["users"], abs=0.3)
    else:
        assert "at least 8" in text
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert summary["knee"]["sentence"][5:] in page


def test_M12_requests_outside_the_windows_are_counted_as_left_out(tmp_path):
    """10 begun while settling and slow, 30 held and quick: n 30, p99 200 ms, 10 left out."""
    slow = [make_record(phase=Phase.SETTLE, end_s=5.0, last_token_s=5.0) for _ in range(10)]
    quick = good(30, last_token_s=0.2, end_s=0.2)
    folder = build_run(tmp_path / "r", numbered(slow + quick))

    _, summary, _ = rendered(folder)

    latency = summary["latency"]["e2e_latency_s"]
    assert (30, 0.2) == (latency["n"], latency["p99"])
    assert {"settle": 10} == summary["left_out_by_phase"]
    assert 10 == summary["stages"][0]["left_out"]


def test_an_objective_decides_the_exit_code(tmp_path):
    """Missed: 3; met: 0; one given on the command line replaces the stored one."""
    folder = build_run(tmp_path / "r", numbered(good(10)), slo="ttft_p95<50ms")

    stored, summary, _ = rendered(folder)
    given, _, _ = rendered(folder, slo="ttft_p95<500ms,ok>99%,good>90%")

    assert ExitCode.SLO_MISSED == stored
    assert [False] == [verdict["met"] for verdict in summary["slo"]]
    assert ExitCode.OK == given
