"""``summary.json``: strict, in seconds, nothing in place of what is missing.

``docs/schemas/summary.schema.json`` describes every field.
"""

import json
from dataclasses import asdict
from typing import Any

from metrics.run_files import SUMMARY_SCHEMA
from metrics.statistics import Summary
from metrics.validity import Finding
from reports.cost import cost_values
from reports.model import RunReport, StageRow

_QUANTILES = ("p50", "p90", "p95", "p99", "p999", "max", "mean")


def summary_values(report: RunReport) -> dict[str, Any]:
    """The report as plain values under the schema ``swarmgauge.summary/1``."""
    return {
        "schema": SUMMARY_SCHEMA,
        "run_id": report.meta.get("run_id"),
        "name": report.meta.get("name"),
        "model": report.meta.get("model"),
        "url": report.meta.get("url"),
        "proxy": report.meta.get("proxy"),
        "started_at": report.started_at,
        "ended_at": report.ended_at,
        "complete": report.complete,
        "valid": report.valid,
        "exit_code": int(report.exit_code),
        "verdicts": [{"kind": v.code.name.lower(), "text": v.text} for v in report.verdicts],
        "validity": [_finding(finding) for finding in report.validity],
        "notices": list(report.notices),
        "headline": list(report.headline),
        "totals": {
            "planned": report.totals.offered,
            "not_sent": report.not_sent,
            **report.totals.to_wire(),
        },
        "held": report.held.to_wire(),
        "left_out_by_phase": dict(report.left_out_by_phase),
        "latency": {name: _summary(summary) for name, summary in report.latency.items()},
        "lengths": asdict(report.lengths),
        "cache": asdict(report.cache),
        "modes": [
            {
                "mode": row.mode,
                "user_class": row.user_class,
                "latency": {name: _summary(s) for name, s in row.metrics.items()},
            }
            for row in report.modes
        ],
        "stages": [_stage(row) for row in report.stages],
        "failures": [{**asdict(row), "latency": _summary(row.latency)} for row in report.failures],
        "client": [asdict(row) for row in report.client],
        "client_sentences": list(report.client_sentences),
        "knee": {**asdict(report.knee), "sentence": report.knee.sentence()},
        "slo": [{"limit": v.limit.text, "value": v.value, "met": v.met} for v in report.slo],
        "good_ratio": report.good_ratio,
        "throughput": asdict(report.throughput),
        "cost": cost_values(report.cost),
        **report.extra,
    }


def summary_json(report: RunReport) -> str:
    """Strict JSON: a NaN or an infinity is an error here, never in a reader's parser."""
    values = summary_values(report)
    return json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "stage": finding.stage,
        "evidence": finding.evidence,
        "advice": finding.advice,
        "threshold": finding.threshold,
    }


def _summary(summary: Summary) -> dict[str, Any]:
    values: dict[str, Any] = {"n": summary.n}
    values.update({name: getattr(summary, name) for name in _QUANTILES})
    values["flags"] = list(summary.flags)
    values["intervals"] = {name: list(bounds) for name, bounds in summary.intervals.items()}
    values["failed"] = summary.failed
    values["failure_adjusted"] = dict(summary.adjusted)
    return values


def _stage(row: StageRow) -> dict[str, Any]:
    values = asdict(row)
    for name in ("ttft", "tpot", "e2e_latency"):
        values[name] = _summary(getattr(row, name))
    values["flags"] = list(row.flags)
    return values
