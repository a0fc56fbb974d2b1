"""A comparison as plain values, and ``compare.json``."""

import json
from dataclasses import asdict
from typing import Any

from metrics.compare import CONFIDENCE
from reports.comparison.model import COMPARE_SCHEMA, Comparison, Pair, Row, SideSummary


def comparison_values(comparison: Comparison) -> dict[str, Any]:
    """All of it; changes are shares (0.12 is 12 %) or, on the scale of points, differences of
    shares. Times are in seconds.
    """
    return {
        "schema": COMPARE_SCHEMA,
        "confidence": CONFIDENCE,
        "margin": comparison.margin,
        "forced": comparison.forced,
        "refused": comparison.refused,
        "pairs": [_pair(pair) for pair in comparison.pairs],
    }


def comparison_json(comparison: Comparison) -> str:
    """Strict JSON."""
    values = comparison_values(comparison)
    return json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "a": _side(pair.a),
        "b": _side(pair.b),
        "sentences": list(pair.sentences),
        "mismatches": [{**asdict(m), "weight": m.weight.value} for m in pair.mismatches],
        "left_out": list(pair.left_out),
        "rows": [_row(row) for row in pair.rows],
    }


def _side(side: SideSummary) -> dict[str, Any]:
    values = {name: getattr(side, name) for name in side.__slots__ if name != "knee"}
    knee = side.knee
    return {
        **values,
        "knee": {
            "status": knee.status.value,
            "users": knee.users,
            "low": knee.low,
            "high": knee.high,
            "at_least": knee.at_least,
            "sentence": knee.sentence(),
        },
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.interval
    return {
        "metric": row.metric.name,
        "unit": row.metric.unit,
        "scale": row.metric.scale.value,
        "better": row.metric.better.value,
        "load": row.load,
        "a": asdict(row.a),
        "b": asdict(row.b),
        "change": None if found is None else found.change,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "resolution": None if found is None else found.resolution,
        "verdict": row.verdict.value,
        "why": row.why,
        "at_risk": row.at_risk,
    }
