"""``summary.csv``: one row for each stage and one for the total; an empty cell is a missing value.

``docs/schemas/README.md`` says what each column holds and in which unit.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from metrics.statistics import Summary
from reports.model import RunReport, StageRow

LATENCIES = ("ttft", "tpot", "e2e_latency")
_QUANTILES = ("p50", "p95", "p99")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def summary_csv(report: RunReport) -> str:
    """The table, with every awkward text quoted and none that a spreadsheet would calculate."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns())
    identity = {"run_id": report.meta.get("run_id"), "model": report.meta.get("model")}
    for values in (*map(_flat, report.stages), _total(report)):
        row = {**identity, **values}
        writer.writerow([cell(row.get(name)) for name in columns()])
    return out.getvalue()


def columns() -> tuple[str, ...]:
    """The names of the columns, the same for every run."""
    names = ["run_id", "model"]
    for field in fields(StageRow):
        if field.name in LATENCIES:
            names += [f"{field.name}_n", *(f"{field.name}_{q}_s" for q in _QUANTILES)]
        else:
            names.append(field.name)
    return tuple(names)


def _flat(row: StageRow) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Summary):
            flat[f"{field.name}_n"] = value.n
            flat.update({f"{field.name}_{q}_s": getattr(value, q) for q in _QUANTILES})
        else:
            flat[field.name] = "; ".join(value) if field.name == "flags" else value
    return flat


def _total(report: RunReport) -> Mapping[str, Any]:
    return {
        "stage": "total",
        "offered": report.totals.offered,
        "sent": report.totals.sent,
        "completed": report.totals.ok,
        "failed": report.totals.failed,
        "cancelled": report.totals.cancelled,
        "not_sent": report.not_sent,
        "rate_limited_attempts": report.totals.rate_limited_attempts,
        "output_tokens_per_s": report.throughput.output_tokens_per_s,
    }


def cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is made inert."""
    if value is None:
        return ""
    if isinstance(value, str) and value.lstrip(" ")[:1] in _FORMULA:
        return "'" + value
    return value
