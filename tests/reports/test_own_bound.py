"""Levels of more users than ``--max-in-flight`` lets ask at once."""

import pytest

from metrics.knee import KneeStatus
from reports.analyse import analyse, levels_of
from reports.load import load_run
from tests.support.records import make_record
from tests.support.rendered_run import rendered
from tests.support.run_builder import build_run, numbered

USERS = (1, 2, 4, 8, 16)


def ladder(folder, most, users=USERS):
    """A ladder without a queue: 80 answers a level, 0.1 s to the first token, 0.5 s in all."""
    records = [
        make_record(stage=n, user=k % level, started_s=10.0 * n + k / 10 + 1)
        for n, level in enumerate(users)
        for k in range(80)
    ]
    settings = {"stages": "1,2,4,8,16", "max_in_flight": most}
    return build_run(folder, numbered(records), levels=users, settings=settings)


def test_users_beyond_the_bound_are_no_level(tmp_path):
    """4 at once: 8 and 16 users show nothing, and the knee is at least 4: the client's limit."""
    run = load_run(ladder(tmp_path / "r", 4))
    report = analyse(run)

    assert [None] * 3 + ["only 4 at once (--max-in-flight)"] * 2 == [
        level.void for level in levels_of(run)
    ]
    assert (KneeStatus.CLIENT_LIMITED, 4) == (report.knee.status, report.knee.at_least)
    assert "at 8 users only 4 at once (--max-in-flight)" in report.knee.reason


@pytest.mark.parametrize("most", [0, 16, 20])
def test_users_within_the_bound_are_levels(tmp_path, most):
    """No bound, or one that all users fit in: at least 16, and no word of it."""
    folder = ladder(tmp_path / "r", most)
    report = analyse(load_run(folder))

    assert 16 == report.knee.at_least
    assert "--max-in-flight" not in rendered(folder)[2]


def test_the_report_says_what_the_client_bounded(tmp_path):
    """As a notice and at the levels; it takes nothing from the run's validity."""
    _, summary, text = rendered(ladder(tmp_path / "r", 4))

    assert "note: --max-in-flight 4: at 8 and 16 users the client itself was the limit" in text
    assert [False] * 3 + [True] * 2 == [
        "only 4 at once (--max-in-flight)" in stage["flags"] for stage in summary["stages"]
    ]
    assert not [v for v in summary["validity"] if v["severity"] in ("void", "invalid")]
