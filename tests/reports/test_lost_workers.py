"""Which stages a lost worker voids."""

import pytest

from reports.analyse import analyse
from reports.load import load_run
from tests.support.records import make_record
from tests.support.run_builder import build_run, numbered


def void_for_a_lost_worker(folder, **worker):
    """The stages of three levels that a run voids for its one worker."""
    records = [make_record(started_s=s + 0.5, stage=s // 10) for s in range(30)]
    entry = {"id": "local", "index": 0, "host": "h", "wall_offset_s": None, **worker}
    run = build_run(folder, numbered(records), levels=(1, 2, 3), workers=[entry])
    findings = analyse(load_run(run)).validity
    return [one.stage for one in findings if one.rule == "worker_lost" and one.stage is not None]


@pytest.mark.parametrize("lost", [True, False], ids=["lost in the end", "back again"])
def test_a_worker_voids_every_stage_in_which_it_was_missed(tmp_path, lost):
    """Whether or not it came back."""
    away = [{"stage": 0, "missed_s": 6.0}, {"stage": 1, "missed_s": 6.0}]
    assert [0, 1] == void_for_a_lost_worker(tmp_path / "r", lost=lost, away=away)


def test_a_worker_that_was_never_missed_voids_nothing(tmp_path):
    """Nor does one that was there all the time."""
    assert [] == void_for_a_lost_worker(tmp_path / "r", lost=False, away=[])
