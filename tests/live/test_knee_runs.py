"""``--shape knee`` against servers that know when their own queue begins."""

import json
from statistics import median

import pytest

from tests.support.nginx_server import nginx, requires_nginx
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
    [("slots-8", 32, 3), ("slots-16", 64, 0), ("kv-limited", 64, 0), ("slots-48", 128, 3)],
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


def test_L12_a_rate_limit_is_no_knee(tmp_path):
    """429s end the climb long before a queue does."""
    found, _ = search(tmp_path, "slots-48", 64, server=("--rpm", "300", "--limit-span-s", "2"))

    assert "rate_limited" == found.summary["knee"]["status"]
    assert found.summary["knee"]["users"] is None
    assert "rate limit" in found.summary["knee"]["reason"]


@requires_nginx
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


def test_L05_a_killed_worker_voids_its_level_and_gives_no_knee(tmp_path):
    """The level it was lost in shows nothing; the run is invalid and says which worker it was."""
    with simulator("--profile", "slots-8") as url:
        found = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "knee", "-u", "32", *TRAFFIC),
            workers=2,
            limit_s=400,
            kill_worker_when="4 users, measuring",
        )

    knee = found.summary["knee"]
    assert 4 == found.exit_code
    assert "worker_lost" in {finding["rule"] for finding in found.summary["validity"]}
    assert "was lost" in found.output
    assert knee["users"] is None
    assert 2 == knee["at_least"]


def test_a_front_that_holds_answers_back_hides_the_queue(tmp_path):
    """TTFT is the whole latency there: the verdict says so and is no plain knee."""
    found, _ = search(tmp_path, "slots-8", 32, server=("--buffer", "answer"))

    assert "hidden_queue" == found.summary["knee"]["status"]
    assert 8 == pytest.approx(found.summary["knee"]["users"], rel=0.3)
