"""The Grafana dashboards ask for what is there: the master's metrics and the simulator's."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hooks.export.families import RunCollector
from metrics.outcome import Outcome
from simulator.engine import Engine
from simulator.metrics_page import MetricsPage
from simulator.profile import PROFILES
from tests.support.live_runs import HOLD, Played, live_state
from tests.support.records import make_record
from workloads.lengths import parse_distribution

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability" / "grafana" / "dashboards"
DASHBOARDS = pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
NAME = re.compile(r"\b(?:swarmgauge_|vllm:)\w+")
LABELS_ADDED = {"server", "master"}
"""By deploy/observability/prometheus.yml."""


def panels(path):
    """The panels of a dashboard."""
    return json.loads(path.read_text(encoding="utf-8"))["panels"]


def expressions(path):
    """Every query of a dashboard."""
    return [target["expr"] for panel in panels(path) for target in panel["targets"]]


@pytest.fixture
def exported(tmp_path):
    """The names of all samples and of their labels, of a master and of a simulator."""
    state = live_state(tmp_path)
    state.settings.think_time_s = parse_distribution("0")
    played = Played(state)
    played.enter(0, HOLD, 0.0)
    played.report("w1", [make_record(worker="w1")])
    played.look(2.0)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(lambda: played.run))
    page = MetricsPage(Engine(PROFILES["small"]), "model").render()
    names, labels = set(), set()
    for text in (generate_latest(registry).decode(), page):
        for family in text_string_to_metric_families(text):
            # A gauge without a value has no sample now; its name is its family's.
            names |= {family.name} if family.type == "gauge" else set()
            names |= {sample.name for sample in family.samples}
            labels |= {label for sample in family.samples for label in sample.labels}
    return names, labels


@DASHBOARDS
def test_every_query_names_what_is_exported(path, exported):
    """A query for another name draws an empty panel."""
    names, _ = exported
    wanted = {expression: set(NAME.findall(expression)) for expression in expressions(path)}

    assert wanted
    assert [] == [expression for expression, found in wanted.items() if not found]
    assert {} == {e: found - names for e, found in wanted.items() if found - names}


@DASHBOARDS
def test_every_query_names_labels_that_are_there(path, exported):
    """In groupings, selectors and legends."""
    _, labels = exported
    text = path.read_text(encoding="utf-8")
    named = {label for group in re.findall(r"by \(([^)]*)\)", text) for label in group.split(", ")}
    named |= set(re.findall(r"{{(\w+)}}", text))
    named |= set(re.findall(r"[{,](\w+)[!=]~?\\?\"", text))

    assert set() == named - labels - LABELS_ADDED


@DASHBOARDS
def test_outcomes_that_queries_name_exist(path):
    """One that is renamed would count as a failure."""
    groups = re.findall(r'outcome[!=]~?"([^"]*)"', "\n".join(expressions(path)))

    assert {name for group in groups for name in group.split("|")} <= set(Outcome)


@DASHBOARDS
def test_panels_say_what_they_show_and_do_not_overlap(path):
    """Each has a title, a sentence, a unit and a place of its own."""
    taken = set()
    for panel in panels(path):
        place = panel["gridPos"]
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }

        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_dashboards_are_told_apart():
    """Grafana takes the later of two with one uid or title."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]

    assert len(files) >= 2
    assert len({one["uid"] for one in files}) == len({one["title"] for one in files}) == len(files)
