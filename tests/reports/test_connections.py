"""Connections, reads and stamps of each stage, from the records."""

from dataclasses import replace

import pytest

from metrics.outcome import ReadMode, StampSource
from metrics.stage import Phase
from reports.analyse import analyse
from reports.load import complete_columns, load_run
from tests.support.client_state import notice_with, report_of, users
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import good
from tests.support.run_builder import build_run, numbered

KERNEL = {"stamp_source": StampSource.KERNEL}


def churned_in(report):
    """The findings of churned connections."""
    return [finding for finding in report.validity if finding.rule == "connections_churned"]


def test_connections_are_counted_for_each_stage(tmp_path):
    """3 users x 4 requests: 4 opened, one of them again, 8 reused; the other stage has its own."""
    records = users(3, 4)
    records[5] = make_record(user=1, started_s=0.5, connections_opened=1, reconnects=1)
    second = make_record(stage=1, user=0, started_s=11.0, connection_reused=True)

    first, other = report_of(tmp_path / "r", [*records, second], levels=(3, 1)).client

    assert (12, 4, 8, 1) == (
        first.connection_requests,
        first.connections_opened,
        first.connections_reused,
        first.reconnects,
    )
    assert (1, 0, 1, 0) == (
        other.connection_requests,
        other.connections_opened,
        other.connections_reused,
        other.reconnects,
    )


def test_requests_outside_the_window_are_not_in_the_clients_row(tmp_path):
    """One held, one while settling: connections, streams and merged reads of the held one."""
    records = [
        make_record(connections_opened=1, merged_reads=1, phase=phase)
        for phase in (Phase.HOLD, Phase.SETTLE)
    ]

    row = report_of(tmp_path / "r", records).client[0]

    assert (1, 1, 1) == (row.connections_opened, row.streams, row.merged_reads)


def test_a_connection_for_each_request_is_churn(tmp_path):
    """2 users, 20 requests, 20 connections: noted with both numbers, and no reason for exit 4."""
    records = [make_record(user=n % 2, started_s=n * 0.1, connections_opened=1) for n in range(20)]

    report = report_of(tmp_path / "r", records)

    (finding,) = churned_in(report)
    assert (0, "20 for 20 requests (100 %)") == (finding.stage, finding.evidence)
    assert "Connection: close" in finding.advice
    assert notice_with(report, "churned") is None, "said once, in the table of validity"
    assert () == report.verdicts


@pytest.mark.parametrize(("closed", "noted"), [(10, False), (11, True)], ids=["10 %", "over 10 %"])
def test_churn_begins_over_a_tenth(tmp_path, closed, noted):
    """100 requests of one user: its first connection is its own, then 10 more are not yet churn."""
    records = [
        make_record(
            started_s=n * 0.05, connections_opened=int(n <= closed), connection_reused=n > closed
        )
        for n in range(100)
    ]

    assert noted == bool(churned_in(report_of(tmp_path / "r", records)))


def test_each_new_users_first_connection_is_no_churn(tmp_path):
    """30 users of two requests each: half of the requests opened one, as they must."""
    report = report_of(tmp_path / "r", users(30, 2))

    assert 30 == report.client[0].connections_opened
    assert [] == churned_in(report)


def test_users_of_an_earlier_stage_have_had_their_first_connection(tmp_path):
    """The same 10 users again in stage 2, each with a new connection: churn there alone."""
    later = [
        make_record(user=user, stage=1, started_s=11.0, connections_opened=1) for user in range(10)
    ]

    report = report_of(tmp_path / "r", [*users(10, 2), *later], levels=(10, 10))

    assert [1] == [finding.stage for finding in churned_in(report)]


def test_a_handful_of_connections_is_chance(tmp_path):
    """4 of 8 requests opened one beyond the first: half, and too few to say anything."""
    records = [
        make_record(started_s=n * 0.1, connections_opened=int(n < 5), connection_reused=n >= 5)
        for n in range(8)
    ]

    assert [] == churned_in(report_of(tmp_path / "r", records))


def test_transports_that_do_not_tell_their_connections_count_for_nothing(tmp_path):
    """90 requests without a word of connections do not thin out the churn of the other 20."""
    silent = [make_record(user=5, started_s=n * 0.1) for n in range(90)]
    churned = [make_record(started_s=n * 0.1, connections_opened=1) for n in range(11)]
    kept = [make_record(started_s=2 + n * 0.1, connection_reused=True) for n in range(9)]

    report = report_of(tmp_path / "r", [*silent, *churned, *kept])

    assert 20 == report.client[0].connection_requests
    assert "11 for 20 requests" in churned_in(report)[0].evidence


def test_merged_reads_are_summed_and_their_requests_counted(tmp_path):
    """5 merged reads in one request, 2 in another, none in two: 7 in 2 requests."""
    records = [make_record(merged_reads=n) for n in (5, 0, 2, 0)]

    row = report_of(tmp_path / "r", records).client[0]

    assert (7, 2) == (row.merged_reads, row.requests_with_merged_reads)


def test_the_streams_own_times_are_told_by_their_clock(tmp_path):
    """6 with kernel stamps, 4 without; what brought no output and what was plain do not count."""
    records = [
        *(make_record(**KERNEL) for _ in range(6)),
        *(make_record() for _ in range(4)),
        failed_record(),
        make_record(streamed=False, stream_asked=False, ttft_s=None, ttfa_s=None),
    ]

    report = report_of(tmp_path / "r", records)

    assert (10, 6) == (report.client[0].streams, report.client[0].kernel_stamped)
    assert "4 of 10 streams" in notice_with(report, "client's own delay")


def test_kernel_stamps_alone_need_no_sentence(tmp_path):
    """All streams have the kernel's times: nothing is said."""
    report = report_of(tmp_path / "r", [make_record(**KERNEL) for _ in range(3)])

    assert notice_with(report, "client's own delay") is None


def test_gaps_are_told_to_come_from_the_fully_read_streams(tmp_path):
    """2 of 3 streams were read in full; the plain answer is none."""
    modes = (ReadMode.FULL, ReadMode.LAZY, ReadMode.FULL)
    plain = make_record(streamed=False, stream_asked=False, ttft_s=None, ttfa_s=None)
    records = [*(make_record(read_mode=mode, **KERNEL) for mode in modes), plain]

    report = report_of(tmp_path / "r", records)

    assert 2 == report.client[0].fully_read
    assert "gaps from 2 of 3 streams (fully read)" in report.client_sentences


def test_first_tokens_in_merged_reads_are_counted_with_the_worst_of_them(tmp_path):
    """2 of 4 first tokens came with later ones, by at most 3 ms and 15 ms."""
    records = [make_record(ttft_late_max_s=late_s) for late_s in (0.003, None, 0.015, None)]

    report = report_of(tmp_path / "r", records)

    assert (2, 0.015) == (report.client[0].first_merged, report.client[0].ttft_late_max_s)
    assert "first tokens in merged reads up to 15 ms late" in report.client_sentences[0]


def test_records_that_do_not_say_how_they_were_read_give_no_number(tmp_path):
    """Rows of an older version, without the fields: None, and no sentence."""
    run = load_run(build_run(tmp_path / "r", numbered(good(3))))
    older = run.records.drop(columns=["read_mode", "ttft_late_max_s"])

    report = analyse(replace(run, records=complete_columns(older)))

    row = report.client[0]
    assert (None, None, None) == (row.fully_read, row.first_merged, row.ttft_late_max_s)
    assert not [text for text in report.client_sentences if "gaps from" in text]
