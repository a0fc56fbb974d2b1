"""``--shape knee`` against servers that know when their own queue begins."""

import json
from statistics import median

import pytest

from tests.support.nginx_server import holding_nginx, nginx, requires_nginx
from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log

pytestmark = pytest.mark.live

TRAFFIC = ("--prompt-tokens", "60", "--prefixes", "1", "--prefix-tokens", "40", "--ignore-eos")
TRAFFIC += ("--output-tokens", "32", "--settle", "0s")


def search(tmp_path, profile, most_users, *options, workers=0, server=()):
    """A search up to so many users; the run, and the simulator's trace of its queue."""
    trace, log = tmp_path / "trace.jsonl", tmp_path / "sim.jsonl"
    flags = ("--profile", profile, "--trace", str(trace), "--log", str(log), *server)
    with simulator(*flags) as url:
        shape = ("--shape", "knee", "-u", str(most_users))
        found = run_headless(
            tmp_path / "runs",
            *("--host", url, *shape, *TRAFFIC, *options),
            workers=workers,
            limit_s=400,
        )
    assert len(server_log(log)) == found.summary["totals"]["offered"]
    return found, [json.loads(line) for line in trace.read_text().splitlines()]


def in_service_when_queueing(trace):
    """Sequences in service when a request had to wait: what the server carries without a queue."""
    began = [event for event in trace if event["waiting"] and event["queue"] == "engine"]
    return median(event["running"] for event in began[-40:])


@pytest.mark.parametrize(
    ("profile", "most_users", "workers"),
    [
        ("slots-8", 32, 3),
        pytest.param("slots-16", 64, 0, marks=pytest.mark.long),
        pytest.param("kv-limited", 64, 0, marks=pytest.mark.long),
        pytest.param("slots-48", 128, 3, marks=pytest.mark.long),
    ],
)
def test_L10_the_knee_is_where_the_servers_own_queue_began(tmp_path, profile, most_users, workers):
    """Within one user or 10 % of what the simulator had in service when its queue began."""
    found, trace = search(tmp_path, profile, most_users, workers=workers)

    knee, truth = found.summary["knee"], in_service_when_queueing(trace)
    assert found.sound, found.output[-2000:]
    assert knee["status"] in ("knee", "gradual_knee")
    assert abs(knee["users"] - truth) <= max(1.0, 0.1 * truth)
    assert found.run["complete"]


def test_L09_without_a_queue_no_knee_is_claimed(tmp_path):
    """More slots than users: not reached, at least so many, and a normal report."""
    found, _ = search(tmp_path, "soft", 8, "--search-requests", "400")

    assert found.sound
    assert ("no_knee", 8) == (found.summary["knee"]["status"], found.summary["knee"]["at_least"])
    assert "search_ended" not in found.run


def test_L12_a_rate_limit_is_no_knee(tmp_path):
    """429s end the climb long before a queue does, and are no failure of the run."""
    found, _ = search(tmp_path, "slots-48", 64, server=("--rpm", "300", "--limit-span-s", "2"))

    assert "rate_limited" == found.summary["knee"]["status"]
    assert found.summary["knee"]["users"] is None
    assert "rate limit" in found.summary["knee"]["reason"]
    assert found.summary["totals"]["failed"] > 0.1 * found.summary["totals"]["offered"]
    assert found.sound, found.output[-2000:]


@requires_nginx
@pytest.mark.long
def test_an_nginx_that_buffers_hides_nothing(tmp_path):
    """With ``proxy_buffering on`` nginx still passes on what has come: the queue shows in TTFT."""
    with (
        simulator("--profile", "slots-8") as url,
        nginx(tmp_path / "nginx", url, buffering="on") as front,
    ):
        shape = ("--shape", "knee", "-u", "32")
        found = run_headless(
            tmp_path / "runs", *("--host", front.url, *shape, *TRAFFIC), limit_s=400
        )

    assert "knee" == found.summary["knee"]["status"]
    assert 8 == pytest.approx(found.summary["knee"]["users"], abs=1)


@requires_nginx
@pytest.mark.long
def test_an_nginx_that_compresses_streams_hides_the_queue(tmp_path):
    """A hop that compresses event streams holds each until it is whole: the verdict is the hidden
    queue's, and near the slots. Directly, the same server's knee shows in TTFT."""
    with (
        simulator("--profile", "slots-8") as url,
        holding_nginx(tmp_path / "nginx", url) as front,
    ):
        shape = ("--shape", "knee", "-u", "32")
        found = run_headless(
            tmp_path / "runs", *("--host", front.url, *shape, *TRAFFIC), limit_s=400
        )

    knee = found.summary["knee"]
    assert "hidden_queue" == knee["status"], found.output[-2000:]
    assert 8 == pytest.approx(knee["users"], rel=0.3)
    assert "arrive in one piece" in knee["reason"]


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
def test_L12_a_cap_is_called_one_by_the_search_and_by_the_report(tmp_path, workers):
    """6 at once and no more, on one process and on two workers, whose clocks differ."""
    found, _ = search(tmp_path, "slots-16", 32, workers=workers, server=("--max-in-flight", "6"))

    assert "inflight_cap" == found.summary["knee"]["status"], found.output[-3000:]
    assert "429s come at 6 requests in flight: a cap" in found.summary["knee"]["reason"]
    ended = next(line for line in found.output.splitlines() if "the search is over" in line)
    assert "429s come at 6 requests in flight: a cap" in ended
    # What the search went to see is no failure of its run.
    assert found.summary["totals"]["by_outcome"]["rate_limited"] > 0
    assert found.sound, found.output[-2000:]


@pytest.mark.long
def test_users_who_leave_do_not_end_the_climb(tmp_path):
    """A third of the requests are left before their answer: no failures, and the knee is found."""
    leaving = ("--cancel-ratio", "0.34", "--cancel-after", "0.1")
    found, _ = search(tmp_path, "slots-8", 32, *leaving)

    totals = found.summary["totals"]
    assert totals["cancelled"] > 0.2 * totals["offered"]
    assert 0 == totals["failed"]
    assert "knee" == found.summary["knee"]["status"], found.output[-3000:]


def test_a_search_is_not_bounded_by_its_own_client(tmp_path):
    """4 in flight cannot test 32 users: refused with what to write, before anything is sent."""
    with simulator("--profile", "slots-8") as url:
        shape = ("--shape", "knee", "-u", "32", "--max-in-flight", "4")
        refused = run_headless(tmp_path / "runs", "--host", url, *shape)

    assert (2, None) == (refused.exit_code, refused.folder)
    assert "--max-in-flight 4: a search up to 32 users" in refused.output


def killed(tmp_path, workers):
    """A search whose last worker is killed in the hold of 4 users."""
    with simulator("--profile", "slots-8") as url:
        return run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "knee", "-u", "16", *TRAFFIC, "--output-tokens", "16"),
            workers=workers,
            limit_s=360,
            kill_worker_when="4 users, measuring",
        )


@pytest.mark.alone
@pytest.mark.timeout(400)
@pytest.mark.long
def test_L05_a_killed_worker_voids_its_level_and_the_search_goes_on(tmp_path):
    """The level it was lost in shows nothing and is held again by the worker that is left, which
    finds the knee; the run is invalid all the same and says which worker it was."""
    found = killed(tmp_path, workers=2)

    knee, findings = found.summary["knee"], found.summary["validity"]
    users = {level["stage"]: level["target_users"] for level in found.summary["stages"]}
    lost = {f["severity"]: f["stage"] for f in findings if f["rule"] == "worker_lost"}
    assert {"void", "invalid"} == set(lost)
    used_for = {evidence["stage"]: evidence["used_for"] for evidence in knee["evidence"]}
    assert (4, "nothing") == (users[lost["void"]], used_for[lost["void"]])
    assert 4 == users[lost["void"] + 1], "once more"
    assert "was lost" in found.output
    assert 4 == found.exit_code
    assert found.run["complete"]
    assert 8 == pytest.approx(knee["users"], abs=1)


def test_L05_a_search_without_a_worker_ends_with_the_reason(tmp_path):
    """The only worker is killed: the run ends by itself, and its folder says why."""
    found = killed(tmp_path, workers=1)

    assert "no worker was left" == found.run["search_ended"]
    assert not found.run["complete"]
    assert 4 == found.exit_code
    assert found.summary["knee"]["users"] is None


def test_the_budget_that_ended_a_search_is_saved(tmp_path):
    """No room for a third level of 60; the start says the bounds, and what has no effect."""
    bounds = ("--search-requests", "150", "--output-tokens", "4", "--stages", "1,2")
    found, _ = search(tmp_path, "soft", 8, *bounds)

    # The first takes 60 or what comes in its least time.
    assert [level["target_users"] for level in found.summary["stages"]] in ([1], [1, 2])
    assert found.run["search_ended"].startswith("the budget of 150 requests was spent")
    assert found.run["complete"]
    assert "searches up to 8 users, at most 150 requests" in found.output
    assert "--stages has no effect with --shape knee" in found.output


@pytest.mark.alone
@pytest.mark.timeout(400)
@pytest.mark.long
@pytest.mark.parametrize("stuck", [True, False], ids=["stays overloaded", "recovers"])
def test_the_way_down_shows_hysteresis_after_a_cold_start(tmp_path, stuck):
    """A server that stays slow once 4 requests waited serves 8 users far slower on the way down;
    one that recovers serves them alike. The cold start before the search is no level of it."""
    slow = ("--overload-waiting", "4", "--overload-slowdown", "1", "--overload-recovery-s", "600")
    options = ("--down-sweep", "--idle-before", "3s", "--output-tokens", "16")
    found, _ = search(tmp_path, "slots-8", 16, *options, server=slow if stuck else ())

    stages = found.summary["stages"]
    held = {(s["kind"], s["target_users"]): s for s in stages if s["completed"]}
    up, down = held["level", 8], held["down", 8]
    ratio = down["e2e_latency"]["p50"] / up["e2e_latency"]["p50"]
    assert ratio > 1.6 if stuck else ratio < 1.3
    void = {f["stage"] for f in found.summary["validity"] if f["severity"] == "void"}
    if not {up["stage"], down["stage"]} & void:  # a busy machine voids levels, rightly
        assert stuck is found.summary["knee"]["side"]["hysteresis"]["found"]
    assert "ysteresis: " in found.output
    assert 3 == len(found.summary["cold_start"]["ttft_s"])
    assert {"level", "down"} == {stage["kind"] for stage in stages}
    assert found.run["complete"]


def test_a_front_that_holds_answers_back_hides_the_queue(tmp_path):
    """TTFT is the whole latency there: the verdict says so and is no plain knee."""
    found, _ = search(tmp_path, "slots-8", 32, server=("--buffer", "answer"))

    assert "hidden_queue" == found.summary["knee"]["status"]
    assert 8 == pytest.approx(found.summary["knee"]["users"], rel=0.3)
