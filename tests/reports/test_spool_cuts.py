"""Spools merged in any order, repeated and cut: nothing is lost, and nothing counts twice."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.recorder import Recorder
from metrics.run_files import mark_from_wire, read_rows
from metrics.spool import Aside, Numbers, read_spool, spool_header
from metrics.spool_merge import Measured, merge_spools
from metrics.stage import Phase, PhaseMark
from metrics.tally import TallyBook
from tests.support.spools import IDENTITY, STAGE, WORKER, record, write_spool

STEPS = st.lists(st.sampled_from(["request", "request", "mark", "health", "report"]), max_size=14)


def play(steps, path, worker):
    """A worker's life: its reports, and what a single process would have noted of it."""
    recorder = Recorder(path, spool_header({**WORKER, "id": worker}, IDENTITY))
    reports, whole, marks, health, sequence, samples = [], TallyBook(), [], [], 0, ()
    for at_s, step in enumerate([*steps, "report"]):
        if step == "request":
            made = record(sequence, worker, client_delay_s=round(0.001 * (1 + sequence), 6))
            gaps_s = [0.25, 0.5 * (1 + sequence)]
            recorder.add(made, gaps_s)
            whole.add(made, gaps_s)
            sequence += 1
        elif step == "mark":
            marks.append(PhaseMark(worker, STAGE, Phase.HOLD, float(at_s), 2))
            recorder.mark(marks[-1])
        elif step == "health":
            sample = {"worker": worker, "at_s": float(at_s), "resident_mib": 1.5}
            samples += (sample,)
            recorder.add_health(STAGE, Phase.HOLD, "loop_lag_s", 0.125)
            whole.stage(0).health["loop_lag_s"].add(0.125)
            health.append(sample)
        else:
            reports.append(recorder.take(samples))
            samples = ()
    recorder.close()
    return reports, whole, marks, health


def master_of(reports):
    """What the master has of the reports that it received, as its files hold it."""
    book, known = TallyBook(), Measured()
    for worker, report in reports:
        book.merge(TallyBook.from_wire(report["tallies"]))
        rows = report["rows"]
        known.records += read_rows([spool_header(WORKER, IDENTITY), *rows])
        known.marks += map(mark_from_wire, report["marks"])
        known.aside.health += report["health"]
        if report["report"]:
            known.reports.setdefault(worker, Numbers()).add(report["report"])
    known.aside = Aside.of(book, known.aside.health)
    return known


def facts(measured, book):
    """Everything that is measured, in a form without order."""
    book = book.to_wire()
    for tally in book.values():
        for histogram in (
            tally["failed_latency_s"],
            *tally["latency"].values(),
            *tally["health"].values(),
        ):
            counts = zip(histogram.pop("keys"), histogram.pop("counts"), strict=True)
            histogram["counts"] = dict(counts)
            histogram["total"] = pytest.approx(histogram["total"])
    health = sorted(json.dumps(sample, sort_keys=True) for sample in measured.aside.health)
    return set(measured.records), set(measured.marks), book, health


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_L03_any_order_repetition_and_cut_of_spools_gives_what_one_process_would_have(data):
    """However many reports the master had, and with torn and doubled copies beside the whole."""
    workers = [f"w{number}" for number in range(data.draw(st.integers(1, 3)))]
    with tempfile.TemporaryDirectory() as name:
        truth, received, spools, truth_book = Measured(), [], [], TallyBook()
        for worker in workers:
            path = Path(name) / f"{worker}.jsonl"
            reports, book, marks, health = play(data.draw(STEPS), path, worker)
            content = path.read_bytes()
            cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=2))
            copies = [content, *(content[:cut] for cut in cuts)]
            spools += [read_spool(copy.splitlines(keepends=True), worker) for copy in copies]
            came = data.draw(st.lists(st.sampled_from(reports), unique_by=id))
            received += [(worker, report) for report in came]
            truth.records += read_rows(content.splitlines(keepends=True))
            truth.marks += marks
            truth_book.merge(book)
            truth.aside.health += health
    known = master_of(received)
    order = data.draw(st.permutations(spools))
    at_once, _ = merge_spools(known, order, "requests.jsonl")
    one_by_one = known
    for spool in order:
        one_by_one, _ = merge_spools(one_by_one, [spool], "requests.jsonl")

    assert facts(truth, truth_book) == facts(at_once, at_once.book())
    assert facts(truth, truth_book) == facts(one_by_one, one_by_one.book())


@given(st.lists(st.integers(1, 12)), st.integers(0, 14))
def test_numbers_of_reports_are_known_in_any_order_and_with_holes(noted, asked):
    """Exactly those that were noted, also when some never came; and the file keeps them."""
    numbers = Numbers()
    for number in noted:
        numbers.add(number)

    assert (asked in noted) == (asked in numbers)
    assert numbers == Numbers.from_wire(json.loads(json.dumps(numbers.to_wire())))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9), st.integers(0, 20_000))
def test_O03_a_torn_spool_gives_every_whole_line_before_the_cut(n, cut):
    """And no more; a spool that is cut in its first line gives nothing."""
    with tempfile.TemporaryDirectory() as name:
        content = write_spool(Path(name) / "w1.jsonl", n).read_bytes()[:cut]
    rows = [line for line in content.splitlines(keepends=True)[1:] if line.startswith(b"[")]
    whole = [line for line in rows if line.endswith(b"\n")]
    spool = read_spool(content.splitlines(keepends=True), "w1")

    merged, added = merge_spools(Measured(), [spool] if spool.run_ids else [], "-")

    assert len(whole) == len(merged.records)
    assert len(whole) == sum(part.new_requests for part in added.values())
