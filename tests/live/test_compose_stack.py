"""The Compose stack as a teammate starts it, on a real Docker engine."""

import json
import urllib.request

import pytest

from tests.live.test_page_runs import answers, post, state
from tests.support.compose_stack import engine, run, stack
from tests.support.processes import wait_until

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    # The first build installs everything.
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def compose():
    """How Compose is called here; the engine behind it is there until the last test."""
    with engine() as command:
        yield command


@pytest.fixture
def down_stack(compose, tmp_path):
    """A project that is built and not up."""
    with stack(compose, tmp_path / "stack") as made:
        yield made


@pytest.fixture
def up_stack(down_stack):
    """A project after `up`: simulator, master and two workers."""
    down_stack.compose("up", "-d")
    down_stack.wait_healthy("simulator", "master")
    wait_until(lambda: answers(down_stack.url), 30, "page")
    return down_stack


def workers(made):
    """How many workers the page counts as ready."""
    with urllib.request.urlopen(f"{made.url}/stats/requests", timeout=10) as answer:
        page = json.loads(answer.read())
    return len([one for one in page["workers"] if one["state"] != "missing"])


def reports(made):
    """The reports on the host, and the summary of each."""
    folders = [path.parent for path in made.runs.glob("*/report.html")]
    return [json.loads((one / "summary.json").read_text(encoding="utf-8")) for one in folders]


def everything_told(made):
    """All that the engine, Compose and the results say, but of the simulator, which has the key."""
    others = [
        one
        for one in made.containers()
        if one["Config"]["Labels"]["com.docker.compose.service"] != "simulator"
    ]
    assert others
    told = {"inspect": json.dumps(others), "config": made.as_written()}
    for one in others:
        told[f"logs of {one['Name']}"] = run("docker", "logs", one["Id"], errors_too=True)
        if one["State"]["Running"]:
            told[f"processes of {one['Name']}"] = run("docker", "top", one["Id"], "-eo", "pid,args")
    told["history"] = run("docker", "history", "--no-trunc", "swarmgauge:local")
    told["image"] = run("docker", "image", "inspect", "swarmgauge:local")
    for path in made.runs.rglob("*"):
        if path.is_file():
            told[str(path)] = path.read_bytes().decode("latin-1")
    return told


def test_up_is_a_healthy_stack_that_scales_and_leaves_nothing(up_stack):
    """Two workers, then four; a run from the page reports to the host; `down` removes it all."""
    wait_until(lambda: workers(up_stack) == 2, 30, "two workers")
    up_stack.compose("up", "-d", "--scale", "worker=4")
    wait_until(lambda: workers(up_stack) == 4, 60, "four workers")

    assert post(up_stack.url, "/swarm", user_count="4", shape="constant", run_time="4s")["success"]
    (summary,) = wait_until(lambda: reports(up_stack), 90, "report on the host")
    totals = summary["totals"]
    assert 4 <= totals["ok"] == totals["sent"], "the key of the secret file was taken"
    (run_file,) = up_stack.runs.glob("*/run.json")
    assert 4 == len(json.loads(run_file.read_text(encoding="utf-8"))["workers"])
    assert {up_stack.owner} == {path.stat().st_uid for path in up_stack.runs.rglob("*")}

    up_stack.down()
    assert [] == up_stack.containers()
    label = f"label=com.docker.compose.project={up_stack.name}"
    assert "" == run("docker", "network", "ls", "--quiet", "--filter", label)


def test_the_key_is_in_nothing_that_is_told(up_stack):
    """Not in variables, commands, logs, results, nor in the image and its history."""
    assert post(up_stack.url, "/swarm", user_count="2", shape="constant", run_time="2s")["success"]
    (summary,) = wait_until(lambda: reports(up_stack), 90, "report on the host")

    told = everything_told(up_stack)
    assert summary["totals"]["ok"] > 0, "the key was used"
    assert [] == [where for where, text in told.items() if up_stack.key in text]
    assert "/run/secrets/api_key" in told["inspect"], "the right containers were looked at"
    logs = "".join(text for where, text in told.items() if where.startswith("logs of"))
    assert "reported as ready" in logs, "what goes to the error output was looked at"
    for worker in up_stack.containers("worker"):
        held = run("docker", "exec", worker["Id"], "cat", "/run/secrets/api_key")
        assert up_stack.key == held.strip()
    (master,) = up_stack.containers("master")
    assert "" == run("docker", "exec", master["Id"], "sh", "-c", "ls /run/secrets 2>/dev/null || :")


def test_nobody_is_root_and_nothing_can_be_written(up_stack):
    """As the engine has it: the user, the files, the page's address."""
    for service in ("simulator", "master", "worker"):
        for one in up_stack.containers(service):
            assert f"{up_stack.owner}:{up_stack.owner}" == one["Config"]["User"], service
            assert one["HostConfig"]["ReadonlyRootfs"], service
            limit = run("docker", "exec", one["Id"], "sh", "-c", "ulimit -n")
            assert 16384 == int(limit), service
    (master,) = up_stack.containers("master")
    ports = {p: at for p, at in master["NetworkSettings"]["Ports"].items() if at}
    assert {"8089/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(up_stack.port)}]} == ports


def test_down_in_the_middle_of_a_run_still_makes_its_report(up_stack):
    """The master is stopped first, while its workers can still give their last reports."""
    form = {"user_count": "2", "shape": "constant", "run_time": "10m"}
    assert post(up_stack.url, "/swarm", **form)["success"]
    wait_until(lambda: state(up_stack.url) == "running", 30, "run")
    wait_until(lambda: any(p.stat().st_size for p in up_stack.runs.rglob("*.jsonl")), 30, "row")
    up_stack.down()

    (summary,) = reports(up_stack)
    assert not summary["complete"]
    assert summary["totals"]["ok"] > 0


def test_the_headless_profile_leaves_a_report_on_the_host(down_stack):
    """A ladder with workers of its own; its table on the terminal, its exit code the run's."""
    arguments = ("--profile", "headless", "run", "--rm", "--use-aliases", "ladder")
    output = down_stack.compose(*arguments)
    (summary,) = reports(down_stack)
    down_stack.down()

    assert summary["complete"]
    assert [1, 2] == [stage["target_users"] for stage in summary["stages"]]
    assert summary["totals"]["ok"] == summary["totals"]["sent"] > 0
    assert "users" in output
    assert [] == down_stack.containers()
