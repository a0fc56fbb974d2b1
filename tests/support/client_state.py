"""Built runs with a client of their own state: its health, its connections, and what is noted."""

import json

from metrics.run_files import STAGES_JSON
from metrics.tally import TallyBook
from reports.analyse import analyse
from reports.load import load_run
from tests.support.records import make_record
from tests.support.run_builder import build_run, numbered


def watched(folder, stage=0, **samples):
    """Add samples of the client's health to a stage of a built run."""
    path = folder / STAGES_JSON
    stages = json.loads(path.read_text(encoding="utf-8"))
    book = TallyBook.from_wire(stages["tallies"])
    for name, values in samples.items():
        book.stage(stage).health[name].add_many(values)
    path.write_text(json.dumps({**stages, "tallies": book.to_wire()}), encoding="utf-8")
    return folder


def report_of(folder, records, **options):
    """The analysed report of records."""
    return analyse(load_run(build_run(folder, numbered(records), **options)))


def notice_with(report, words):
    """The only notice with these words; None when there is none."""
    found = [notice for notice in report.notices if words in notice]
    assert len(found) <= 1
    return found[0] if found else None


def users(n, requests, **changes):
    """``requests`` successes of each of ``n`` users, on a connection of their own each."""
    return [
        make_record(
            user=user,
            started_s=turn * 0.5,
            connections_opened=int(turn == 0),
            connection_reused=turn > 0,
            **changes,
        )
        for user in range(n)
        for turn in range(requests)
    ]
