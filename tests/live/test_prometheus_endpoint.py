"""The master's answer to Prometheus in a real run: the report's own totals, on the loopback."""

import shutil
import socket
import subprocess
import threading
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import free_port, simulator
from tests.support.runs import run_headless

pytestmark = [pytest.mark.live, pytest.mark.patient]

PROMTOOL = shutil.which("promtool")
BETWEEN_S = 0.25
KEY = "sk-scrape-AAAA1111BBBB2222"
COUNTERS = {
    "attempts": "attempts",
    "rate_limited_attempts": "rate_limited_attempts",
    "retried_requests": "retried",
    "prompt_tokens": "prompt_tokens",
    "cached_tokens": "cached_tokens",
    "completion_tokens": "completion_tokens",
    "wasted_tokens": "wasted_tokens",
    "connections_opened": "connections_opened",
}
"""The field of the totals in ``summary.json`` that each counter ends with."""


class Scraper(threading.Thread):
    """Asks again and again until it is told to stop, and keeps every text."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.texts = []
        self.other_address = []
        self._port = port
        self._stop_asking = threading.Event()

    def run(self):
        """Ask the loopback's first address, and once its second."""
        while not self._stop_asking.wait(BETWEEN_S):
            try:
                url = f"http://127.0.0.1:{self._port}/metrics"
                with urllib.request.urlopen(url, timeout=10) as answer:
                    self.texts.append(answer.read().decode())
            except OSError:
                continue
            if not self.other_address:
                with socket.socket() as probe:
                    self.other_address.append(probe.connect_ex(("127.0.0.2", self._port)))

    def stop(self):
        """Ask no more."""
        self._stop_asking.set()
        self.join()


def families(text):
    """A scrape by family."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found, name):
    """The only sample of a gauge or counter; None without one."""
    family = found.get(f"swarmgauge_{name}")
    return family.samples[0].value if family is not None and family.samples else None


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A ladder with refusals and retries on two workers, and every scrape of its master."""
    folder, port = tmp_path_factory.mktemp("scraped"), free_port()
    scraper = Scraper(port)
    with simulator("--max-in-flight", "2") as host:
        scraper.start()
        try:
            run = run_headless(
                folder,
                *("--host", host, "--shape", "ladder", "--stages", "2,4", "--hold", "3s"),
                *("--settle", "0s", "-r", "10", "--metrics-port", port),
                *("--retries", "1", "--backoff", "fixed:100ms", "--max-fail-ratio", "1"),
                workers=2,
                env={"SWARMGAUGE_API_KEY": KEY},
            )
        finally:
            scraper.stop()
    assert run.folder is not None, run.output[-3000:]
    return run, scraper


def test_the_last_scrape_has_the_reports_totals(scraped):
    """Requests by outcome, attempts, 429s and tokens, to the last one."""
    run, scraper = scraped
    last, totals = families(scraper.texts[-1]), run.summary["totals"]
    requests = last["swarmgauge_requests"].samples

    assert 0 == value(last, "running"), "it was asked until the process ended"
    assert totals["rate_limited_attempts"] > 0
    assert totals["by_outcome"] == {
        sample.labels["outcome"]: sample.value for sample in requests if sample.value
    }
    assert {name: totals[field] for name, field in COUNTERS.items()} == {
        name: value(last, name) for name in COUNTERS
    }


def test_histograms_hold_as_many_as_the_report(scraped):
    """All successes of held windows, and the same mean."""
    run, scraper = scraped
    last = families(scraper.texts[-1])
    stages = run.summary["stages"]
    for name, field in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e_latency", "e2e_latency")):
        samples = {s.name: s.value for s in last[f"swarmgauge_{name}_seconds"].samples}
        counted = samples[f"swarmgauge_{name}_seconds_count"]
        n = sum(stage[field]["n"] for stage in stages)
        total_s = sum(stage[field]["n"] * (stage[field]["mean"] or 0.0) for stage in stages)

        assert n == counted > 0
        assert pytest.approx(total_s) == samples[f"swarmgauge_{name}_seconds_sum"]


def test_counters_never_fall_while_the_run_goes_on(scraped):
    """Prometheus takes a fall for a restart."""
    _, scraper = scraped
    found = [families(text) for text in scraper.texts]
    for name in COUNTERS:
        seen = [number for one in found if (number := value(one, name)) is not None]

        assert sorted(seen) == seen


def test_gauges_follow_the_plan(scraped):
    """Both stages are seen with their users, and never more of them than the plan has."""
    _, scraper = scraped
    found = [families(text) for text in scraper.texts]
    seen = {(value(one, "stage"), value(one, "target_users")) for one in found}

    assert {(1.0, 2.0), (2.0, 4.0)} <= seen
    assert {2.0} == {value(one, "planned_stages") for one in found} - {None}
    assert max(value(one, "users") or 0 for one in found) == 4
    assert max(value(one, "workers") or 0 for one in found) == 2


def test_it_tells_neither_key_nor_endpoint(scraped):
    """Whoever may scrape need not know whom the load is for."""
    run, scraper = scraped
    text = "".join(scraper.texts)

    assert KEY not in text
    assert run.run["url"] not in text
    assert "simulated-model" not in text


def test_it_listens_on_the_loopback_only(scraped):
    """It has no login."""
    _, scraper = scraped

    assert [0] != scraper.other_address
    assert 1 == len(scraper.other_address)


@pytest.mark.skipif(PROMTOOL is None, reason="Prometheus is not installed")
def test_prometheus_own_linter_finds_nothing(scraped):
    """``promtool check metrics``."""
    _, scraper = scraped
    for text in (scraper.texts[0], scraper.texts[-1]):
        done = subprocess.run(
            [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )

        assert (0, "") == (done.returncode, done.stdout + done.stderr)


def test_a_port_that_is_taken_is_told_before_the_load(tmp_path):
    """With the option to change, and exit code 2; nothing is asked for."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = run_headless(
            tmp_path, "--host", "http://127.0.0.1:9", "-t", "30s", "--metrics-port", port
        )

    assert (2, None) == (run.exit_code, run.folder)
    assert f"--metrics-host 127.0.0.1 --metrics-port {port}: " in run.output
    assert "choose another" in run.output
    assert "Traceback" not in run.output
