"""A worker that leaves."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hooks.run_worker import RunWorker
from users.run_context import CURRENT_RUN


@pytest.mark.parametrize("end", ["a signal", "a lost master", "the run's end"])
def test_users_that_come_while_a_worker_drains_find_no_run(monkeypatch, end):
    """The master may send some as long as it does not know: they would ask, and their records would
    come after the last report."""
    context, seen = SimpleNamespace(run_id="r"), []
    monkeypatch.setattr(CURRENT_RUN, "context", context)
    worker = object.__new__(RunWorker)
    worker._distributed, worker._context, worker._spool = True, context, None
    worker._environment = SimpleNamespace(stop_timeout=1, process_exit_code=None)
    worker._send_final = lambda: None
    worker._runner = SimpleNamespace(
        stop=lambda: seen.append(CURRENT_RUN.context),
        greenlet=SimpleNamespace(kill=lambda block: None),
    )
    if end == "a signal":
        worker._on_quitting(worker._environment)
    elif end == "a lost master":
        worker._on_master_lost(5.0)
    else:
        worker._on_finish(worker._environment, SimpleNamespace(data={"run_id": "r"}))

    assert [None] == seen


def test_a_worker_that_ended_its_run_before_its_master_went_still_names_its_spool(caplog):
    """The master may have gone before it took the last report: what to merge is said."""
    worker = object.__new__(RunWorker)
    worker._context, worker._spool = None, Path("runs/20260102T030405Z-ladder/spool/1-a.jsonl")
    worker._environment = SimpleNamespace(stop_timeout=1, process_exit_code=None)
    worker._runner = SimpleNamespace(greenlet=SimpleNamespace(kill=lambda block: None))

    worker._on_master_lost(5.0)

    assert "runs/20260102T030405Z-ladder/spool/1-a.jsonl" in caplog.text
    assert "python -m reports merge runs/20260102T030405Z-ladder" in caplog.text
