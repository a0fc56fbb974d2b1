"""Whether two runs asked the same of their endpoints, so that their figures may be compared."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from options import DEFAULTS, option_flag
from reports.comparison.model import Mismatch, Weight
from reports.comparison.sides import Side
from reports.counting import succeeded

MAY_DIFFER = frozenset(
    (
        "host",
        "model",
        "header",
        "insecure",
        "no_preflight",
        "traceparent",
        "usage",
        "max_tokens_field",
        "seed",
        "connect_timeout",
        "first_token_timeout",
        "idle_timeout",
        "total_timeout",
        "gap_sample",
        "shape",
        "hold",
        "settle",
        "price_in",
        "price_cached",
        "price_out",
        "gpu_hour_price",
        "gpus",
        "max_in_flight",
    )
)
"""Options that are told when they differ: they may be what is compared, or what it is run by."""
OF_THE_RUN = frozenset(
    (
        "num_users",
        "spawn_rate",
        "run_time",
        "stages",
        "rate",
        "rates",
        "spike_users",
        "spike_hold",
        "search_requests",
        "down_sweep",
        "max_requests",
        "warmup_requests",
        "idle_before",
        "slo",
        "max_fail_ratio",
        "records",
        "runs_dir",
        "run_name",
        "metrics_port",
        "metrics_host",
        "budget",
        "quota_stop",
        "ca_file",
        "proxy",
    )
)
"""Options of how long and how far (loads are matched one by one), and paths of this machine."""
_SAME_PROMPTS = "ask both for the same, or compare with --force"
_LENGTH_RATIO = 0.05
_DEVIATIONS = 4.0
_MIX = 0.05
_ABSENT = "unknown"


def mismatches_of(a: Side, b: Side) -> tuple[Mismatch, ...]:
    """Everything in which the two runs differ, what forbids a comparison first."""
    found = [
        *_identity(a, b),
        *_faults(a, b),
        *_settings(a.run.meta, b.run.meta),
        *_told(a, b),
        *_sources(a, b),
        *_mix(a, b),
        *_lengths(a, b),
    ]
    order = list(Weight)
    return tuple(sorted(found, key=lambda m: order.index(m.weight)))


def _identity(a: Side, b: Side) -> Iterable[Mismatch]:
    left, right = a.run.meta, b.run.meta
    if left.get("run_id") == right.get("run_id") and left.get("run_id") is not None:
        run = str(left["run_id"])
        yield Mismatch(
            "run_id", run, run, Weight.REFUSED, "it is one and the same run: give two runs"
        )
    if left.get("schema") != right.get("schema"):
        yield Mismatch(
            "schema",
            str(left.get("schema")),
            str(right.get("schema")),
            Weight.REFUSED,
            "its fields may mean something else: repeat the older run with this version",
        )


def _faults(a: Side, b: Side) -> Iterable[Mismatch]:
    if not a.faults and not b.faults:
        return
    texts = ["; ".join(side.faults) or "valid" for side in (a, b)]
    yield Mismatch(
        "validity", *texts, Weight.REFUSED, "repeat the run that is invalid; see its report"
    )


def _settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterable[Mismatch]:
    """What was asked for. An option that is newer than a run had its default in it."""
    left, right = (dict(meta.get("settings") or {}) for meta in (a, b))
    if not left or not right:
        texts = ["known" if values else _ABSENT for values in (left, right)]
        yield Mismatch(
            "settings", *texts, Weight.UNKNOWN, "whether the traffic was the same is not known"
        )
        return
    for name in sorted({*left, *right} - OF_THE_RUN):
        values = [_value(values, name) for values in (left, right)]
        if values[0] == values[1]:
            if name == "extra_body" and values[0]:
                yield Mismatch(
                    "--extra-body", *values, Weight.UNKNOWN, "only the fields' names are kept"
                )
            elif values[0].startswith("file:"):
                advice = "whether the file was the same is not known"
                yield Mismatch(option_flag(name), *values, Weight.UNKNOWN, advice)
            continue
        weight = Weight.SAID if name in MAY_DIFFER else Weight.REFUSED
        advice = "" if weight is Weight.SAID else _SAME_PROMPTS
        shown = [text or "none" for text in values]
        yield Mismatch(option_flag(name), *shown, weight, advice)


def _value(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, DEFAULTS.get(name, ""))
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if value is None or value is False or value == "":
        return ""
    text = str(value).strip()
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def _told(a: Side, b: Side) -> Iterable[Mismatch]:
    """Of ``run.json`` beside the options."""
    left, right = a.run.meta, b.run.meta
    for field in ("url", "model", "shape", "proxy"):
        texts = [str(meta.get(field) or _ABSENT) for meta in (left, right)]
        if texts[0] != texts[1] and not (field == "url" and "host" in _both(left, right)):
            yield Mismatch(field, *texts, Weight.SAID)
    seeds = [meta.get("seed") for meta in (left, right)]
    if seeds[0] is None and seeds[1] is None and left.get("salt") != right.get("salt"):
        yield Mismatch(
            "salt",
            *(str(meta.get("salt") or _ABSENT) for meta in (left, right)),
            Weight.SAID,
            "other prompts of the same lengths; --seed repeats them",
        )
    for field in ("dataset_hash", "trace_hash", "lengths_hash", "files"):
        texts = [str(meta.get(field) or "none") for meta in (left, right)]
        if texts[0] != texts[1]:
            yield Mismatch(field, *texts, Weight.REFUSED, _SAME_PROMPTS)
    versions = [dict(meta.get("versions") or {}) for meta in (left, right)]
    for name in sorted({*versions[0], *versions[1]}):
        texts = [str(found.get(name, _ABSENT)) for found in versions]
        if texts[0] != texts[1]:
            yield Mismatch(f"version of {name}", *texts, Weight.SAID)
    workers = [len(meta.get("workers") or ()) for meta in (left, right)]
    if workers[0] != workers[1]:
        yield Mismatch("workers", *map(str, workers), Weight.SAID)


def _both(left: Mapping[str, Any], right: Mapping[str, Any]) -> set[str]:
    return set(left.get("settings") or {}) & set(right.get("settings") or {})


def _sources(a: Side, b: Side) -> Iterable[Mismatch]:
    """Tokens of one source are not those of another."""
    shares = [_shares(succeeded(side.run.records)["token_source"]) for side in (a, b)]
    if all(shares) and _apart(*shares) > _MIX:
        yield Mismatch(
            "token source",
            *(_share_text(share) for share in shares),
            Weight.REFUSED,
            "have the server count both (--usage on), or compare with --force",
        )


def _mix(a: Side, b: Side) -> Iterable[Mismatch]:
    """Who asked, and whether the answers came as streams: a first token of both is one thing."""
    for field, column in (("users", "user_class"), ("streamed", "streamed")):
        shares = []
        for side in (a, b):
            ok = succeeded(side.run.records)
            shares.append(_shares(ok[column].astype(str)))
        if all(shares) and _apart(*shares) > _MIX:
            advice = "ask in one way (--traffic), or compare with --force"
            texts = (_share_text(share) for share in shares)
            yield Mismatch(field, *texts, Weight.REFUSED, advice)


def _shares(values: pd.Series) -> dict[str, float]:
    counts = values.value_counts(normalize=True)
    return {str(name): float(share) for name, share in counts.items() if share > 0}


def _apart(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Half the sum of all differences: the share that would have to change."""
    return sum(abs(left.get(n, 0.0) - right.get(n, 0.0)) for n in {*left, *right}) / 2


def _share_text(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items()))


def _lengths(a: Side, b: Side) -> Iterable[Mismatch]:
    """Lengths as the servers counted them, at the loads that both runs have.

    A mean may be off by chance, so it must be 4 of its standard errors apart as well.
    """
    advice = {
        "prompt tokens": "the models count other tokens, or the prompts were others: tokens/s, "
        "TPOT and cost are then not of one unit; compare with --force if you know why",
        "completion tokens": "fix the lengths (--ignore-eos), or compare with --force: latency, "
        "requests/s and cost follow the lengths",
    }
    for field, column in (
        ("prompt tokens", "prompt_tokens"),
        ("completion tokens", "completion_tokens"),
    ):
        worst = None
        for key in a.loads.keys() & b.loads.keys():
            left, right = (_tokens(side, side.loads[key].stages, column) for side in (a, b))
            gap = _gap(left, right)
            if gap is not None and (worst is None or gap > worst[0]):
                worst = (gap, _mean(left), _mean(right), key.text)
        if worst is not None:
            texts = (f"{value:.0f} on average at {worst[3]}" for value in worst[1:3])
            yield Mismatch(field, *texts, Weight.REFUSED, advice[field])


def _tokens(side: Side, stages: Sequence[int], column: str) -> pd.Series:
    records = side.run.records
    held = records[records["counted"] & records["stage"].isin(stages)]
    return succeeded(held)[column].dropna().astype("float64")


def _mean(values: pd.Series) -> float:
    return float(values.mean())


def _gap(left: pd.Series, right: pd.Series) -> float | None:
    """How far apart the means are, as a share; None when it is little or may be chance."""
    if len(left) < 2 or len(right) < 2:
        return None
    apart = abs(_mean(left) - _mean(right))
    error = math.sqrt(float(left.var()) / len(left) + float(right.var()) / len(right))
    ratio = apart / max(_mean(left), _mean(right), 1e-9)
    return ratio if ratio > _LENGTH_RATIO and apart > _DEVIATIONS * error else None
