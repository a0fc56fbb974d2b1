"""The schemas are strict, describe every field with its unit, and fit what is written."""

import copy
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from metrics.stage import COLD_STAGE, Phase
from reports.analyse import analyse
from reports.comparison.pairs import compare
from reports.comparison.sides import read_side
from reports.comparison.values import comparison_values
from reports.faces.compat import compat_values, whole_run
from reports.faces.summary import summary_json
from reports.load import load_run
from reports.merge import merge
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import good, strict
from tests.support.report_runs import eventful_run
from tests.support.run_builder import build_run, numbered
from tests.support.schemas import NAMES, misfits, schema
from tests.support.spools import write_spool

RUNS = Path(__file__).resolve().parents[1] / "fixtures" / "saved_runs"
UNIT = re.compile(r"\([^()]+\)\.$")


def nodes(values, path="$"):
    """Every schema inside a schema, with its path."""
    if isinstance(values, dict):
        yield path, values
        for name, part in values.items():
            if name not in ("required", "enum", "propertyNames", "const"):
                yield from nodes(part, f"{path}.{name}")
    elif isinstance(values, list):
        for number, part in enumerate(values):
            yield from nodes(part, f"{path}[{number}]")


def types(node):
    found = node.get("type", [])
    return {found} if isinstance(found, str) else set(found)


def figures(folder):
    """``summary.json`` of a run as a reader has it."""
    return json.loads(summary_json(analyse(load_run(folder))).encode("utf-8", "replace"))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_closed(name):
    """By the rules of its dialect; every object names its fields, or what all its values are."""
    values = schema(name)
    Draft202012Validator.check_schema(values)

    open_objects = [
        path
        for path, node in nodes(values)
        if "properties" in node and "type" in node and node.get("additionalProperties") is not False
    ]

    assert [] == open_objects
    named = [n for _, n in nodes(values) if "object" in types(n)]
    assert all({"additionalProperties", "maxProperties"} & n.keys() for n in named)
    assert re.fullmatch(rf"swarmgauge\.{name}/\d+", values["properties"]["schema"]["const"])


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described_and_every_number_has_its_unit(name):
    """A description for each field, and a unit in brackets at its end where it is a number."""
    values, undescribed, without_unit = schema(name), [], []
    for path, node in nodes(values):
        for field, part in node.get("properties", {}).items():
            if not isinstance(part, dict):
                continue
            target = part
            if "$ref" in part:
                target = values["$defs"][part["$ref"].rpartition("/")[2]]
            if not (part.get("description") or target.get("description")):
                undescribed.append(f"{path}.{field}")
            number = {"number", "integer"} & types(part) and "string" not in types(part)
            if number and not UNIT.search(part.get("description", "")):
                without_unit.append(f"{path}.{field}")

    assert [] == undescribed
    assert [] == without_unit


@pytest.mark.parametrize(
    "records",
    [
        [],
        [make_record()],
        [make_record(), make_record(started_s=2.0)],
        good(5, started_s=1.0),
        [failed_record() for _ in range(5)],
        [make_record(stage=None, phase=None)],
    ],
    ids=["no request", "one", "two", "all equal", "only failures", "before any stage"],
)
def test_M05_O01_O02_figures_of_next_to_nothing_fit_their_schema(tmp_path, records):
    """0, 1 and 2 requests, all equal, only failures: strict JSON that the schema takes."""
    assert [] == misfits("summary", figures(build_run(tmp_path / "r", numbered(records))))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_M05_what_is_no_number_in_json_is_an_error_here(tmp_path, value):
    """A NaN or an infinity never reaches a reader's parser."""
    report = analyse(load_run(build_run(tmp_path / "r", numbered(good(2)))))

    with pytest.raises(ValueError, match="not JSON compliant"):
        summary_json(replace(report, good_ratio=value))


def test_O06_O08_awkward_names_and_every_kind_of_stage_fit(tmp_path):
    """Usable, limited by 429s and by the client, not reached; names that try to break out."""
    folder = eventful_run(tmp_path / "r")

    assert [] == misfits("summary", figures(folder))
    assert [] == misfits("run", strict(folder / "run.json"))
    assert [] == misfits("stages", strict(folder / "stages.json"))


SHAPES = {
    "open-loop": ("rate",),
    "limits": ("rate",),
    "soak": ("soak",),
    "spike": ("base", "burst", "after"),
}
SECTION = {"open-loop": "open_loop", "limits": "open_loop", "soak": "soak", "spike": "spike"}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_sections_of_each_shape_fit(tmp_path, shape):
    """Open loop, search for limits with 429s, soak and spike: their section is there and fits."""
    kinds = SHAPES[shape]
    plan = [
        {"stage": n, "kind": k, "target_users": 1, "rate_rps": 4.0 if k == "rate" else None}
        for n, k in enumerate(kinds)
    ]
    refused = {"attempts": 1, "rate_limited_attempts": 1}
    records = [
        make_record(stage=n, started_s=30.0 * n + turn * 0.25, schedule_delay_s=0.001)
        for n in range(len(kinds))
        for turn in range(110)
    ]
    if shape == "limits":
        records += [
            failed_record(status=429, started_s=turn * 0.25 + 0.1, **refused) for turn in range(50)
        ]
    folder = build_run(
        tmp_path / "r",
        numbered(records),
        levels=(1,) * len(kinds),
        hold_s=30.0,
        stage_plan=plan,
        shape=shape,
        settings={"rate": "4"},
    )
    stages = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
    for mark in stages["marks"]:
        if mark["kind"] == "level":
            mark["kind"] = kinds[mark["stage"]]
    (folder / "stages.json").write_text(json.dumps(stages), encoding="utf-8")

    summary = figures(folder)

    assert summary[SECTION[shape]]
    assert [] == misfits("summary", summary)


def test_cold_start_warm_up_prices_and_objectives_fit(tmp_path):
    """A cold request, warm-up, both kinds of price, a budget and two objectives."""
    records = [
        make_record(stage=COLD_STAGE, phase=Phase.COLD, started_s=0.1),
        make_record(phase=Phase.WARMUP, started_s=0.2),
        *good(20),
        failed_record(started_s=4.0),
    ]
    prices = {"price_in": 0.27, "price_out": 1.1, "gpu_hour_price": 2.0, "gpus": 1, "budget": 5}
    folder = build_run(
        tmp_path / "r", numbered(records), slo="ttft_p95<500ms,ok>99%", settings=prices
    )

    summary = figures(folder)

    assert summary["cold_start"]
    assert 1 == summary["warmup_requests"]
    assert 2 == len(summary["slo"]) == len(summary["cost"]["run"])
    assert [] == misfits("summary", summary)


@pytest.mark.parametrize("name", ["first-layout", "before-attempts", "present"])
def test_runs_of_every_layout_fit(name):
    """``run.json`` and ``stages.json`` as real runs left them, and their figures."""
    folder = RUNS / name

    assert [] == misfits("run", strict(folder / "run.json"))
    assert [] == misfits("stages", strict(folder / "stages.json"))
    assert [] == misfits("summary", figures(folder))


def test_a_run_made_anew_from_spools_fits(tmp_path):
    """What a merge writes when the master left nothing."""
    spool = write_spool(tmp_path / "w1.jsonl", 5)

    merge(tmp_path / "r", [spool])

    assert [] == misfits("run", strict(tmp_path / "r" / "run.json"))
    assert [] == misfits("stages", strict(tmp_path / "r" / "stages.json"))


def test_comparisons_and_views_by_other_tools_fit(tmp_path):
    """Two runs compared, and one of them by the definitions of other tools."""
    for name in ("a", "b"):
        build_run(tmp_path / name, numbered(good(30)))
    sides = [read_side(label.upper(), tmp_path / label) for label in ("a", "b")]

    assert [] == misfits("compare", comparison_values(compare(sides, 0.05)))
    assert [] == misfits("compat", compat_values("run", whole_run(load_run(tmp_path / "a"))))


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(extra=1),
        lambda v: v["stages"][0].update(ttft_ms=100),
        lambda v: v["stages"][0].update(completed=-1),
        lambda v: v["stages"][0].pop("window_s"),
        lambda v: v["latency"]["ttft_s"].update(p50="0.1"),
        lambda v: v.update(schema="swarmgauge.summary/2"),
    ],
    ids=["field", "field inside", "minus one", "missing", "text", "newer"],
)
def test_what_does_not_belong_is_refused(tmp_path, change):
    """The check itself can fail: a field more or less, -1, a text for a number, a newer version."""
    values = copy.deepcopy(figures(build_run(tmp_path / "r", numbered(good(3)))))

    change(values)

    assert 1 == len(misfits("summary", values))
