"""``--records workers``: the master gets counts and histograms, a merge brings the rows in."""

import json

import pytest

from reports.__main__ import main
from tests.live.test_merge_runs import distributed, folder_of, kept, spool_of
from tests.support.processes import simulator
from tests.support.runs import server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

SHAPE = ("--shape", "ladder", "--stages", "2,4", "--hold", "3s", "--settle", "0s")


def test_records_kept_on_workers_come_in_with_a_merge(tmp_path, capsys):
    """Two machines: nothing is claimed without the records, and with them it is what was sent."""
    log = tmp_path / "server.jsonl"
    with (
        simulator("--max-num-seqs", "8", log=log) as url,
        distributed(
            tmp_path, url, *SHAPE, "--records", "workers", "--output-tokens", "8"
        ) as started,
    ):
        code = started["master"].wait(90)
        for name in ("w0", "w1"):
            started[name].wait(30)
    folder, sent = folder_of(tmp_path), {entry["request_id"] for entry in server_log(log)}
    told = (tmp_path / "master" / "log").read_text(encoding="utf-8")
    spools = [spool_of(tmp_path, name) for name in ("w0", "w1")]

    assert len(sent) > 20
    assert 4 == code
    assert 1 == len((folder / "requests.jsonl").read_text(encoding="utf-8").splitlines())
    assert f"INCOMPLETE: {len(sent):,} records of 2 workers are not in this folder" in told
    assert f"What the workers told while it ran: {len(sent):,} requests, {len(sent):,} ok" in told
    for spool in spools:
        assert f"{folder.name}/spool/{spool.name}" in told
    assert not (folder / "summary.json").exists()

    assert 4 == main(["merge", str(folder), str(spools[0])]), "half of them is not a run"
    assert "of 1 worker are not in this folder" in capsys.readouterr().out
    main(["merge", str(folder), str(spools[1])])

    found = kept(folder)
    assert sent == set(found)
    assert {1} == set(found.values())
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert len(sent) == summary["totals"]["planned"]
    assert summary["latency"]["chunk_gap_s"]["n"] > len(sent)
    grave = [v["text"] for v in summary["verdicts"] if "client-limited" not in v["text"]]
    assert [] == grave, "complete: nothing was lost and the books agree"
