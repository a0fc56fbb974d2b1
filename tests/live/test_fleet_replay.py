"""The benchmark's made-up fleet against a real master: what was sent is what is there."""

import json

import pandas
import pytest

from bench.fleet.replay import replay

pytestmark = pytest.mark.live

WORKERS, RECORDS_PER_S, SECONDS = 4, 400, 2


def test_every_record_of_a_made_up_fleet_is_in_the_masters_folder(tmp_path):
    """Each once and by its worker; tallies and Locust's own reports in between lose none."""
    run = replay(WORKERS, RECORDS_PER_S, SECONDS, keep=tmp_path)

    assert run.whole
    assert WORKERS * 100 * SECONDS == run.sent
    (folder,) = (path.parent for path in tmp_path.glob("*/run.json"))
    rows = pandas.read_parquet(folder / "requests.parquet", columns=["worker", "sequence"])
    by_worker = rows.groupby("worker", observed=True)["sequence"].apply(sorted)
    assert [list(range(100 * SECONDS))] * WORKERS == by_worker.to_list()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert run.sent == summary["totals"]["offered"]
    assert run.cpu_cores > 0
