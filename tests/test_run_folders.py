"""The folders of runs: a new one for each, however quickly they follow."""

import io
from datetime import UTC, datetime

from hooks.run_folder import create_run_folder
from reports.render import render_run
from tests.support.rendered_run import good, strict
from tests.support.run_builder import META, build_run, numbered

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_two_runs_in_one_second_have_a_folder_each(tmp_path, monkeypatch):
    """The second has a number behind its name; both are reported, neither touches the other."""
    monkeypatch.setattr("reports.render.PLOTS", {})
    paths = []
    for number in range(2):
        folder = create_run_folder(tmp_path, AT, "ladder")
        folder.close()
        (folder.path / "requests.jsonl").unlink()
        build_run(folder.path, numbered(good(3 + number)), run_id=f"{META['run_id']}{number}")
        paths.append(folder.path)

    for path in paths:
        render_run(path, io.StringIO())

    assert ["20260102T030405Z-ladder", "20260102T030405Z-ladder-2"] == [p.name for p in paths]
    summaries = [strict(path / "summary.json") for path in paths]
    assert [3, 4] == [summary["totals"]["ok"] for summary in summaries]
    assert 2 == len({summary["run_id"] for summary in summaries})
