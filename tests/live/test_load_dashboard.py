"""The dashboard of the load in Prometheus itself: every query gives something to draw."""

import contextlib
import json

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from hooks.export.families import RunCollector
from metrics.outcome import Outcome
from tests.live.test_compose_parts import OBSERVED, ask, chat, prometheus, requires_prometheus
from tests.support.live_runs import DRAIN, HOLD, RAMP, Played, live_state
from tests.support.processes import free_port, simulator, wait_until
from tests.support.records import failed_record, make_record
from workloads.lengths import parse_distribution

pytestmark = [pytest.mark.live, pytest.mark.patient]

LEVELS = (8, 16, 32)
HELD_S = 20.0
"""Of each level, on the clock of the run, which goes faster than Prometheus'."""
WAITED_S = {8: 0.0, 16: 0.0, 32: 1.0}
"""For a slot of sixteen."""


class Conductor:
    """Plays a ladder on a made-up endpoint, a little further with each turn."""

    def __init__(self, folder):
        state = live_state(folder, LEVELS)
        state.settings.think_time_s = parse_distribution("0")
        self.played = Played(state)
        self._turn = 0

    @property
    def over(self):
        """Whether all levels have been held."""
        return self._turn == 2 * len(LEVELS)

    def turn(self):
        """Half a level: a hundred requests, one of them refused and one failed."""
        stage, half = divmod(self._turn, 2)
        at_s = stage * HELD_S
        if stage == len(LEVELS):
            self.played.enter(stage - 1, DRAIN, at_s)
            self.played.look(at_s + 1.0)
            return
        if half == 0:
            self.played.enter(stage, RAMP, at_s)
            self.played.enter(stage, HOLD, at_s + 0.5)
        wait_s = WAITED_S[LEVELS[stage]]
        times = {"ttft_s": 0.1 + wait_s, "last_token_s": 1.0 + wait_s, "end_s": 1.0 + wait_s}
        here = {"worker": "w1", "stage": stage, "started_s": at_s + 1.0, "client_delay_s": 0.001}
        records = [make_record(**here, **times) for _ in range(98)]
        records.append(failed_record(**here))
        refused = {"rate_limited_attempts": 1, **here}
        records.append(failed_record(Outcome.RATE_LIMITED, 429, **refused))
        health = [(stage, "loop_lag_s", 0.002), (stage, "cpu_ratio", 0.3)]
        self.played.report("w1", records, health=health)
        self._turn += 1
        self.played.look(at_s + (1 + half) * HELD_S / 2 - 1.0, users=LEVELS[stage])


@requires_prometheus
def test_every_panel_of_the_load_has_something_to_draw(tmp_path):
    """Over a ladder each query finds the master, and those of servers the simulator."""
    text = (OBSERVED / "grafana/dashboards/load.json").read_text(encoding="utf-8")
    queries = {t["expr"] for panel in json.loads(text)["panels"] for t in panel["targets"]}
    conductor, port = Conductor(tmp_path), free_port()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(lambda: conductor.played.run))
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        with simulator() as host:
            targets = {"simulator": host.removeprefix("http://"), "swarmgauge": f"127.0.0.1:{port}"}
            with prometheus(tmp_path, **targets) as url:
                conductor.turn()
                wait_until(lambda: ask(url, "swarmgauge_running"), 30, "first scrape")
                drawn = set()

                def all_drawn():
                    if not conductor.over:
                        assert 200 == chat(host)[0]
                    conductor.turn()
                    drawn.update(query for query in queries - drawn if ask(url, query))
                    return drawn == queries

                with contextlib.suppress(AssertionError):
                    wait_until(all_drawn, 60, "all queries drawn")
    finally:
        server.shutdown()
        thread.join()

    assert set() == queries - drawn
    assert len(queries) > 20
