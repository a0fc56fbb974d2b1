"""What a report says of a search for the knee beyond its verdict."""

import json
from datetime import UTC, datetime

import pytest

from hooks.run_folder import create_run_folder
from metrics.knee import KneeStatus
from metrics.outcome import Outcome
from metrics.run_files import STAGES_JSON, stage_to_wire
from metrics.stage import Stage
from metrics.tally import TallyBook
from reports.analyse import analyse, levels_of
from reports.load import load_run
from reports.model import ExitCode
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import rendered
from tests.support.run_builder import META, build_run, numbered


def answers(stage, n=80, ttft_s=0.1, **changes):
    """So many answers of a level that is held for 10 s."""
    end_s = ttft_s + 0.4
    times = {"ttft_s": ttft_s, "ttfa_s": ttft_s, "user_ttft_s": ttft_s, "last_token_s": end_s}
    times |= {"end_s": end_s, "user_latency_s": end_s}
    return [
        make_record(stage=stage, started_s=10.0 * stage + 1 + k / 20, **times, **changes)
        for k in range(n)
    ]


def refusals(stage, n, outcome=Outcome.RATE_LIMITED, status=429):
    """So many refused requests of a level."""
    again = {"stage": stage, "rate_limited_attempts": int(status == 429)}
    return [
        failed_record(outcome, status, started_s=10.0 * stage + 1 + k / 20, **again)
        for k in range(n)
    ]


def searched(folder, records, levels, kinds=None, **meta):
    """A saved search; gives its folder."""
    kinds = kinds or ["level"] * len(levels)
    plan = [
        stage_to_wire(Stage(n, kind, users))
        for n, (kind, users) in enumerate(zip(kinds, levels, strict=True))
    ]
    values = {"shape": "knee", "stage_plan": plan, "settings": {"stages": "1,2"}, **meta}
    return build_run(folder, numbered(records), levels=levels, **values)


# --- its own refusals ---


def test_L12_refusals_of_levels_that_it_left_are_no_failures_of_the_run(tmp_path):
    """60 of 220 refused at 8 users, over --max-fail-ratio 0.1: told at the level, and exit 0."""
    records = [*answers(0), *answers(1), *refusals(1, 60)]
    report = analyse(load_run(searched(tmp_path / "r", records, (2, 8))))

    assert (60, 220) == (report.totals.failed, report.totals.offered)
    assert ExitCode.OK == report.exit_code
    assert [("failures_over_limit", "notice", 1)] == [
        (f.rule, f.severity.value, f.stage)
        for f in report.validity
        if f.rule == "failures_over_limit"
    ]


@pytest.mark.parametrize(
    ("records", "shape"),
    [
        ([*answers(0), *answers(1), *refusals(1, 60)], "ladder"),
        ([*answers(0), *answers(1), *refusals(1, 60, Outcome.SERVER_ERROR, 500)], "knee"),
        ([*answers(0), *refusals(0, 60, Outcome.OVERLOADED, 503), *answers(1)], "knee"),
    ],
    ids=["a ladder", "errors", "503s at the lowest level"],
)
def test_other_failures_count(tmp_path, records, shape):
    """A ladder's, those that are no refusals, and 503s before any load: the run failed."""
    folder = searched(tmp_path / "r", records, (2, 8), shape=shape)

    assert ExitCode.ERROR == analyse(load_run(folder)).exit_code


def test_a_server_that_is_full_at_many_users_is_what_the_search_looked_for(tmp_path):
    """503s from 8 users on, none at 2."""
    records = [*answers(0), *answers(1), *refusals(1, 60, Outcome.OVERLOADED, 503)]

    assert ExitCode.OK == analyse(load_run(searched(tmp_path / "r", records, (2, 8)))).exit_code


def test_a_few_refusals_of_a_level_that_it_did_not_leave_count(tmp_path):
    """1 of 81 is an accident there: not over the limit of 1 %, and over one of 0.1 %."""
    records = [*answers(0), *answers(1), *refusals(1, 1)]
    folder = searched(tmp_path / "r", records, (2, 8), max_fail_ratio=0.001)

    assert ExitCode.ERROR == analyse(load_run(folder)).exit_code


# --- a cap over several workers ---


def capped(stage, worker, clock_s, cap=3):
    """One worker's half of a fleet whose server takes ``cap`` of each worker's at once: answers of
    0.4 to 0.7 s back to back, and a refusal whenever all are under way."""
    records = []
    for slot in range(cap):
        at_s = 0.01 * slot
        while at_s < 9:
            end_s = 0.4 + 0.1 * ((len(records) + slot) % 4)
            times = {"last_token_s": end_s, "end_s": end_s, "user_latency_s": end_s}
            records.append(make_record(stage=stage, started_s=clock_s + at_s, **times))
            at_s += end_s + 0.001
    refused = refusals(stage, 40)
    shifted = [(record, clock_s + 0.5 + k * 0.2) for k, record in enumerate(refused)]
    return [
        make_again(record, worker=worker, started_s=at_s)
        for record, at_s in [*((one, one.started_s) for one in records), *shifted]
    ]


def make_again(record, **changes):
    """The record with some values changed."""
    values = dict(zip(type(record).__dataclass_fields__, record.to_row(), strict=True))
    return make_record(**{**values, **changes})


def test_L12_a_cap_is_told_over_workers_whose_clocks_differ(tmp_path):
    """Worker b's clock is 500 s ahead: put together by the hold's beginning, 6 are in flight at
    each refusal, and the verdict is a cap of 6."""
    records = [
        *(
            make_again(r, worker=w, started_s=r.started_s + s)
            for r in answers(0, 40)
            for w, s in (("a", 0.0), ("b", 500.0))
        ),
        *capped(1, "a", 10.0),
        *capped(1, "b", 510.0),
    ]
    folder = searched(tmp_path / "r", records, (2, 12))
    shift_marks(folder, "b", 500.0)
    run = load_run(folder)

    at_refusals = levels_of(run)[1].in_flight_at_refusals
    assert len(at_refusals) > 60
    assert 6.0 == max(at_refusals)
    assert at_refusals.count(6.0) > 0.9 * len(at_refusals), "others fall between two answers"
    assert KneeStatus.INFLIGHT_CAP is analyse(run).knee.status


def shift_marks(folder, worker, by_s):
    """Put a worker's marks on a clock of its own."""
    path = folder / STAGES_JSON
    stages = json.loads(path.read_text(encoding="utf-8"))
    for mark in stages["marks"]:
        if mark["worker"] == worker:
            mark["at_s"] += by_s
    path.write_text(json.dumps(stages), encoding="utf-8")


# --- the way down, levels set aside, advice, counts ---


def test_the_way_down_is_told_on_every_face(tmp_path):
    """8 users wait 0.1 s on the way up and 0.9 s on the way down: hysteresis, marked there."""
    records = [*answers(0), *answers(1), *answers(2, ttft_s=0.7), *answers(3, ttft_s=0.9)]
    folder = searched(tmp_path / "r", records, (1, 8, 16, 8), ("level", "level", "level", "down"))
    _, summary, text = rendered(folder)

    said = "Hysteresis: at 8 users 0% of the cycle was spent waiting on the way up and"
    assert said in text
    assert said in (folder / "report.html").read_text(encoding="utf-8")
    assert ["on the way down" in stage["flags"] for stage in summary["stages"]] == [
        False,
        False,
        False,
        True,
    ]
    assert 1 == text.count("on the way down\n")


def test_a_way_down_that_shows_nothing_says_so(tmp_path):
    """Asked for, and no level was held on both ways; not asked for, no word of it."""
    records = [*answers(0), *answers(1)]
    asked = searched(tmp_path / "a", records, (1, 8), settings={"down_sweep": True})
    other = searched(tmp_path / "b", records, (1, 8))

    assert "Hysteresis: not known" in rendered(asked)[2]
    assert "ysteresis" not in rendered(other)[2]


def test_a_level_that_the_search_set_aside_says_why(tmp_path):
    """The event loop was late while it ran, and not over the whole window: a remark, no finding."""
    folder = searched(tmp_path / "r", [*answers(0), *answers(1)], (1, 8))
    path = folder / STAGES_JSON
    stages = json.loads(path.read_text(encoding="utf-8"))
    why = "the event loop ran 77 ms late at p99 (limit 50 ms)"
    path.write_text(json.dumps({**stages, "void_reasons": {"1": why}}), encoding="utf-8")
    _, summary, _ = rendered(folder)

    told = [[f for f in stage["flags"] if "set aside" in f] for stage in summary["stages"]]
    assert [[], [f"set aside by the search: {why}"]] == told


def test_reasons_to_set_a_level_aside_are_saved(tmp_path):
    """By the stage's number, as the report reads them."""
    folder = create_run_folder(tmp_path, datetime.now(UTC), "knee")
    folder.write_stages([], TallyBook(), (), void_reasons={1: "a worker was lost"})
    folder.write_run({**META, "shape": "knee"})
    folder.close()

    assert {1: "a worker was lost"} == load_run(folder.path).void_reasons


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"shape": "ladder"}, "; add higher --stages"),
        ({"shape": "knee"}, "; allow more users (-u)"),
        (
            {"shape": "knee", "search_ended": "the budget of 60 s was spent"},
            "; a search with a larger budget would tell",
        ),
    ],
)
def test_the_advice_is_one_that_the_shape_can_follow(tmp_path, meta, said):
    """A search has no --stages, and after its budget was spent more users are no help."""
    report = analyse(load_run(searched(tmp_path / "r", [*answers(0), *answers(1)], (1, 8), **meta)))

    assert KneeStatus.NO_KNEE is report.knee.status
    assert report.knee.reason.endswith(said)


def test_what_was_never_sent_is_counted_in_the_first_sentence(tmp_path):
    """3 of 83; without any the sentence does not speak of it."""
    unsent = refusals(0, 3, Outcome.NOT_SENT, None)
    some = analyse(load_run(searched(tmp_path / "a", [*answers(0), *unsent], (1,))))
    none = analyse(load_run(searched(tmp_path / "b", answers(0), (1,))))

    assert "83 requests: 80 ok (96.4 %), 0 failed, 0 cancelled, 3 not sent." in some.headline[0]
    assert "not sent" not in none.headline[0]
