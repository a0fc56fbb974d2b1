"""What a process holds does not grow with the requests it has made."""

import json

import pytest

from bench.memory import Growth, Opened, Rows, print_growth, print_opened
from metrics.run_files import header_line, row_line
from tests.support.processes import ROOT, end, free_port, simulator, wait_until
from tests.support.records import failed_record, make_record
from tests.support.runs import start_locust

MB = 1e6
USERS = 8
BYTES_PER_REQUEST = 300
COUNTED = f"""
import gc, json, os, sys, tracemalloc
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
import gevent
from gevent.event import Event
from locust import events
from locustfile import StreamingChatUser

RUNS, RESULT = Path(RUNS), Path(RESULT)
WARM, FIRST, LAST = 500, 1000, 3000
going_on = Event()
going_on.set()
seen = blocked = 0
held = {{}}

def rows():
    text = b"".join(path.read_bytes() for path in RUNS.glob("*/requests.jsonl"))
    return max(0, text.count(b"\\n") - 1)

def look(number):
    # Every user waits in the listener and every record has been handed on: nothing is on its way.
    while blocked < {USERS} or rows() < seen:
        gevent.sleep(0.05)
    gc.collect()
    if number == WARM:
        tracemalloc.start()
    else:
        held[number] = (seen, tracemalloc.get_traced_memory()[0])
    if number == LAST:
        tracemalloc.stop()
        RESULT.with_suffix(".part").write_text(json.dumps([held[FIRST], held[LAST]]))
        os.replace(RESULT.with_suffix(".part"), RESULT)
    going_on.set()

def count(**_):
    global seen, blocked
    seen += 1
    if seen in (WARM, FIRST, LAST):
        going_on.clear()
        gevent.spawn(look, seen)
    blocked += 1
    going_on.wait()
    blocked -= 1

# After ours, so that each counted request has been recorded.
@events.init.add_listener
def _begin_to_count(environment, **_):
    environment.events.request.add_listener(count)
"""


@pytest.mark.live
@pytest.mark.alone
@pytest.mark.parametrize("workers", [0, 1], ids=["one process", "a worker"])
def test_O11_requests_leave_nothing_behind_in_memory(tmp_path, workers):
    """2,000 requests after the first 1,000: a process holds less than 0.3 kB for each of them."""
    result, runs, file = tmp_path / "held.json", tmp_path / "runs", tmp_path / "counted.py"
    head = f"RUNS, RESULT = {str(runs)!r}, {str(result)!r}\n"
    file.write_text(head + COUNTED, encoding="utf-8")
    runs.mkdir()
    common = ("-f", file, "--headless", "--runs-dir", runs)
    load = ("-u", USERS, "-r", USERS, "-t", "120s", "--settle", "0s", "--output-tokens", "5")
    port, processes, log = free_port(), [], tmp_path / "locust.log"
    with simulator("--profile", "null") as url:
        role = ("--master", "--expect-workers", "1", "--master-bind-port", port) if workers else ()
        try:
            processes.append(start_locust(*common, *role, *load, "--host", url, log=log))
            if workers:
                more = ("-f", file, "--worker", "--master-port", port)
                processes.append(start_locust(*more, log=tmp_path / "worker.log"))
            wait_until(
                lambda: result.exists() or any(p.poll() is not None for p in processes),
                *(90, "3,000 requests"),
            )
            assert result.exists(), log.read_text()[-2000:]
        finally:
            for process in processes:
                process.kill()
                end(process)

    (first, held_first), (last, held_last) = json.loads(result.read_text())
    assert 1000 <= first < 1000 + USERS
    assert 3000 <= last < 3000 + USERS
    assert held_last - held_first < BYTES_PER_REQUEST * (last - first)


def test_growth_begins_after_the_warm_requests():
    """100 MB before, 110 MB at 20,000, at most 113 MB after it: 3 MB, however much came before."""
    requests = [0, 10_000, 20_000, 30_000, 40_000]
    growth = Growth("worker", requests, [100 * MB, 105 * MB, 110 * MB, 113 * MB, 112 * MB])

    begin, grown, slope = growth.after(20_000)

    assert (110 * MB, 3 * MB) == (begin, grown)
    assert pytest.approx(1 * MB) == slope


def test_growth_without_samples_after_the_warm_requests_is_an_error():
    """One sample tells no growth: the message names process and requests."""
    with pytest.raises(ValueError, match="worker: fewer than two samples after 20,000 requests"):
        Growth("worker", [0, 20_000], [1.0, 2.0]).after(20_000)


@pytest.mark.parametrize(("grown", "met"), [(49 * MB, True), (50 * MB, False)])
def test_O11_any_process_that_grows_by_50_MB_misses_the_bar(grown, met, capsys):
    """The master at 50 MB fails the command, whatever the worker does; the table says so."""
    calm = Growth("worker", [0, 100, 200], [100 * MB, 100 * MB, 100 * MB])
    grows = Growth("master", [0, 100, 200], [100 * MB, 100 * MB, 100 * MB + grown])

    assert met == print_growth([grows, calm], 1000)
    assert f"| master | 100 | {grown / MB:.1f} |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sockets", "peak", "met"),
    [(2000, 200 * MB, True), (1999, 100 * MB, False), (2000, 201 * MB, False)],
    ids=["at the bar", "a stream was missing", "over the bar"],
)
def test_the_bar_of_streams_needs_every_stream_open(sockets, peak, met, capsys):
    """A small process that had not opened its streams is no proof."""
    opened = [Opened(1000, 1000, 90 * MB), Opened(2000, sockets, peak)]

    assert met == print_opened(opened)
    assert f"| {(peak - 90 * MB) / 1e6:.1f} |" in capsys.readouterr().out


def test_rows_are_counted_as_they_are_written(tmp_path):
    """The header is no row, a failure is counted apart, half a line counts when it is whole."""
    path = tmp_path / "a-run" / "requests.jsonl"
    path.parent.mkdir()
    rows = Rows(tmp_path)
    ok, failed = row_line(make_record().to_row()), row_line(failed_record().to_row())

    path.write_bytes(header_line() + ok + failed)
    rows.read()
    assert (1, 1) == (rows.ok, rows.failed)
    with path.open("ab") as lines:
        lines.write(ok + ok[:20])
    rows.read()
    assert (2, 1) == (rows.ok, rows.failed)
    with path.open("ab") as lines:
        lines.write(ok[20:])
    rows.read()
    assert (3, 1) == (rows.ok, rows.failed)
