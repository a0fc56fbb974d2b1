"""The end of a run with answers under way: they get their time, and then they are cancelled."""

import pandas
import pytest

from tests.support.case_notation import C, D, F, R, U
from tests.support.raw_server import answer, raw_server
from tests.support.runs import run_headless

pytestmark = pytest.mark.live

USERS = 4
QUICK = 4 * USERS
"""Answers that end, so that there is a success in the held window too."""
RUN_S = 5
DRAIN_S = 2
ENDLESS_S = 120
"""How long an answer without end goes on: a run that waited for it would be there still."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "workers",
    [pytest.param(0, marks=pytest.mark.long), 2],
    ids=["one process", "two workers"],
)
def test_L08_streams_without_end_are_cancelled_and_the_run_leaves(tmp_path, workers):
    """5 s, 2 s of drain, a token each 100 ms without end: cut before 9 s, as cancelled ones."""
    quick = answer(HEAD + R + C("a"), (500, C("b") + F() + U(3, 2) + D), end="close")
    tokens = ((at_ms, C("x")) for at_ms in range(100, ENDLESS_S * 1000, 100))
    endless = answer(HEAD + R, *tokens, end="close")
    with raw_server(tmp_path, *[quick] * QUICK, endless) as server:
        run = run_headless(
            tmp_path / "runs",
            *("--host", server.url, "--model", "m", "--no-preflight"),
            *("-u", USERS, "-r", USERS, "-t", f"{RUN_S}s", "--settle", "0s"),
            *("--stop-timeout", DRAIN_S),
            workers=workers,
        )
        asked, written = server.events("request"), server.events("write")

    load_s = max(write["after_s"] for write in written) - min(one["at_s"] for one in asked)
    assert RUN_S + DRAIN_S - 1 < load_s < RUN_S + DRAIN_S + 2
    assert run.seconds < ENDLESS_S
    totals = run.summary["totals"]
    assert {"ok": QUICK, "cancelled": USERS} == totals["by_outcome"], run.output[-2000:]
    assert (0, USERS) == (totals["failed"], totals["cancelled"])
    assert QUICK + USERS == totals["offered"] == len(asked)
    assert [] == run.summary["failures"]
    held = run.summary["held"]
    assert USERS == held["cancelled"]
    assert 0 < held["ok"] <= QUICK
    for name in ("ttft_s", "e2e_latency_s", "user_latency_s"):
        assert held["ok"] == run.summary["latency"][name]["n"]
        assert 0 == run.summary["latency"][name]["failed"]
    assert run.summary["latency"]["e2e_latency_s"]["max"] < 2
    cancelled = pandas.read_parquet(run.folder / "requests.parquet").query("outcome == 'cancelled'")
    # Each had at least its drain before it was cut.
    assert (cancelled.end_s > DRAIN_S).all()
    assert run.exit_code in (0, 4), run.output[-2000:]  # 4: the machine was busy with others
