"""A fleet gives the numbers that one process gives: with one seed, the same requests, each once."""

import pandas
import pytest

from metrics.histogram import RELATIVE_ERROR
from metrics.outcome import Outcome
from metrics.statistics import percentile
from metrics.tally import LATENCY_METRICS
from reports.load import load_run
from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log, whole_records

pytestmark = pytest.mark.live

REQUESTS, WARM_UP = 150, 12
SERVER = ("--jitter", "0", "--decode-base-s", "0.004", "--decode-per-seq-s", "0.0005")
LOADS = {
    "closed loop": ("-u", "6", "-r", "6", "-t", "60s"),
    "open loop": ("--shape", "open-loop", "--rate", "30", "--hold", "60s"),
}
ZONES = {0: "Asia/Kathmandu", 3: "America/Denver"}
"""Of the one process, and of the three workers, whose master is in this machine's."""
ASKED = ("system_sha256", "user_sha256", "max_tokens", "prompt_tokens", "completion_tokens")
"""What tells a request of the server's log from another: texts by their hashes, and tokens."""
TOLD = ("prompt_id", "prefix_id", "asked_max_tokens", "prompt_tokens", "completion_tokens")
"""The same of a record."""


class Side:
    """One of the two runs, and what its server was asked."""

    def __init__(self, run, asked):
        assert run.folder is not None, run.output[-3000:]
        self.run, self.asked = run, asked
        self.saved = load_run(run.folder)
        self.records = whole_records(run.folder)


@pytest.fixture(
    scope="module",
    params=["closed loop", pytest.param("open loop", marks=pytest.mark.long)],
)
def both(request, tmp_path_factory):
    """The same seed and load on one process and on three workers."""
    folder, sides = tmp_path_factory.mktemp("equal"), []
    for workers in (0, 3):
        log = folder / f"server-{workers}.jsonl"
        with simulator(*SERVER, log=log) as url:
            run = run_headless(
                folder / f"runs-{workers}",
                *("--host", url, *LOADS[request.param], "--settle", "0s", "--seed", "11"),
                *("--max-requests", REQUESTS, "--warmup-requests", WARM_UP),
                *("--prefixes", "3", "--prefix-tokens", "40", "--prompt-tokens", "uniform:5-60"),
                *("--output-tokens", "uniform:4-40"),
                workers=workers,
                env={"TZ": ZONES[workers]},
            )
        sides.append(Side(run, server_log(log)))
    assert [1, 3] == [side.records.worker.nunique() for side in sides]
    return sides


def rows_of(entries, names):
    """Sorted, so that the order in which they came does not count and one that came twice does."""
    return sorted(tuple(entry[name] for name in names) for entry in entries)


def test_X01_X03_three_workers_ask_what_one_process_asks(both):
    """150 requests by the server's own log: the same prefixes, texts and limits, and the same
    tokens of each; no text is there twice."""
    one, three = (rows_of(side.asked, ASKED) for side in both)

    assert REQUESTS == len(one) == len({text for _, text, *_ in one})
    assert 3 == len({prefix for prefix, *_ in one})
    assert one == three


def test_X01_records_tell_the_same_prompts_and_tokens(both):
    """By prompt id in the records; and the totals of both reports agree with both servers."""
    one, three = (rows_of(side.records.to_dict("records"), TOLD) for side in both)

    assert REQUESTS == len(one) == len({prompt_id for prompt_id, *_ in one})
    assert one == three
    for side in both:
        for name in ("prompt_tokens", "completion_tokens"):
            served = sum(entry[name] for entry in side.asked)
            assert served == side.run.summary["totals"][name], name


def test_M12_the_same_requests_are_warm_up(both):
    """The first 12 of the run, as 4 of each of three workers or 12 of one process: in no figure,
    and their number is told."""
    one, three = (
        set(side.records.prompt_id[side.records.phase == "warmup"].astype(str)) for side in both
    )

    assert WARM_UP == len(one)
    assert one == three
    for side in both:
        assert WARM_UP == side.run.summary["warmup_requests"]
        assert not side.records[side.records.phase == "warmup"].counted.any()


def test_L03_merged_histograms_agree_with_the_records(both):
    """Of each side's held successes: as many values, and each percentile within the histogram's
    stated error of the exact one."""
    for side in both:
        compared = 0
        for stage, tally in side.saved.book.by_stage.items():
            held = side.records[(side.records.stage == stage) & side.records.counted]
            held = held[held.outcome == Outcome.OK.value]
            for name in set(LATENCY_METRICS) - {"chunk_gap_s"}:
                values = held[name].dropna().astype(float).tolist()
                merged = tally.latency[name]
                assert len(values) == merged.n, name
                for q in (0.5, 0.9, 0.95, 0.99, 1.0) if values else ():
                    exact = percentile(values, q)
                    assert merged.percentile(q) == pytest.approx(exact, rel=RELATIVE_ERROR * 1.001)
                compared += len(values)
        assert compared > REQUESTS


def test_O14_times_are_the_servers_whatever_the_zone(both):
    """By their offset all are UTC: the run's beginning, and each request's, within 2 s of what the
    server's log has of it."""
    for side in both:
        records, meta = side.records, side.saved.meta
        received = {one["request_id"]: one["received_at"] for one in side.asked}
        served = pandas.to_datetime(records.request_id.astype(str).map(received), utc=True)
        told = records.started_at.astype(str)

        assert told.str.endswith("+00:00").all()
        assert (pandas.to_datetime(told, utc=True) - served).dt.total_seconds().abs().max() < 2
        assert meta["started_at"].endswith("+00:00")
        first_s = (served.min() - pandas.Timestamp(meta["started_at"])).total_seconds()
        assert 0 < first_s < 30, "the roll call and the first users come between"
