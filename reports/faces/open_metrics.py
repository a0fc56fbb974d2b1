"""``metrics.prom``: a finished run's figures as OpenMetrics text, for whoever keeps them as series.

The labels are bounded by the plan: ``stage`` counts from 1, ``load`` names its users or rate,
``outcome`` and ``state`` are ours. What servers say (error codes, messages) is no label.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest

from metrics.outcome import Outcome
from reports.loads import load_words
from reports.model import RunReport, StageRow
from reports.stage_state import StageState, states_of

PREFIX = "swarmgauge_run"
_QUANTILES = (("p50", "0.5"), ("p90", "0.9"), ("p95", "0.95"), ("p99", "0.99"))
_STAGE_LABELS = ("stage", "load")


def open_metrics(report: RunReport) -> str:
    """The text, ended by ``# EOF``; a figure that is missing has no sample."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Report(report))
    return generate_latest(registry).decode("utf-8", "replace")


class _Report:
    """What the registry asks for its families."""

    def __init__(self, report: RunReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        yield _info(self._report)
        yield from _of_run(self._report)
        yield from _of_stages(self._report)


def _info(report: RunReport) -> Metric:
    names = ("run_id", "name", "model", "shape", "started_at", "ended_at")
    return InfoMetricFamily(
        PREFIX,
        "What was run; one sample.",
        value={name: _plain(report.meta.get(name)) for name in names},
    )


def _plain(value: object) -> str:
    """A label that UTF-8 can say: a model's name may hold half a surrogate pair."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode("utf-8")


def _gauge(name: str, text: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text)
    if value is not None:
        family.add_metric([], float(value))
    return family


def _of_run(report: RunReport) -> Iterator[Metric]:
    knee = report.knee
    yield _gauge("valid", "1 when nothing speaks against the figures, 0 otherwise.", report.valid)
    yield _gauge("exit_code", "Exit code of the report.", int(report.exit_code))
    yield _gauge("knee_users", "Concurrent streams at the knee.", knee.users)
    yield _gauge("knee_low_users", "Lower end of its interval.", knee.low)
    yield _gauge("knee_high_users", "Upper end of its interval.", knee.high)
    yield _gauge("knee_at_least_users", "Users carried without a queue.", knee.at_least)
    yield _gauge("good_ratio", "Held requests within every objective, 0-1.", report.good_ratio)
    requests = GaugeMetricFamily(
        f"{PREFIX}_requests", "Logical requests of the whole run by outcome.", labels=["outcome"]
    )
    for outcome in Outcome:
        requests.add_metric([outcome.value], report.totals.by_outcome[outcome.value])
    yield requests


def _of_stages(report: RunReport) -> Iterator[Metric]:
    states = states_of(report)
    yield _states(report, states)
    yield _stage_gauge(report, "users", "Users wanted.", "target_users")
    yield _stage_gauge(report, "window_seconds", "How long the stage was held.", "window_s")
    yield _requests(report)
    yield _stage_gauge(
        report, "rate_limited_attempts", "Attempts answered 429.", "rate_limited_attempts"
    )
    yield _stage_gauge(report, "completed_per_second", "Requests/s that ended.", "completed_rps")
    yield _stage_gauge(
        report, "output_tokens_per_second", "Completion tokens/s.", "output_tokens_per_s"
    )
    yield _stage_gauge(report, "in_flight", "Requests under way, a mean over time.", "in_flight")
    yield _stage_gauge(report, "queue_ratio", "Share of the cycle spent queueing.", "queue_share")
    yield _latency(report, "ttft", "Time to first token of successes.")
    yield _latency(report, "tpot", "Time per output token of successes.")
    yield _latency(report, "e2e_latency", "End-to-end latency of successes.")


def _labels(row: StageRow) -> list[str]:
    return [
        str(row.stage + 1),
        load_words(row),
    ]


def _stage_gauge(report: RunReport, name: str, text: str, attribute: str) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_stage_{name}", text, labels=_STAGE_LABELS)
    for row in report.stages:
        value = getattr(row, attribute)
        if value is not None:
            family.add_metric(_labels(row), float(value))
    return family


def _states(report: RunReport, states: dict[int, StageState]) -> Metric:
    family = GaugeMetricFamily(
        f"{PREFIX}_stage_state",
        "1 for the state that a stage is in.",
        labels=[*_STAGE_LABELS, "state"],
    )
    for row in report.stages:
        for state in StageState:
            family.add_metric([*_labels(row), state.value], float(states[row.stage] is state))
    return family


def _requests(report: RunReport) -> Metric:
    family = GaugeMetricFamily(
        f"{PREFIX}_stage_requests",
        "Logical requests of the held window by how they ended.",
        labels=[*_STAGE_LABELS, "end"],
    )
    for row in report.stages:
        ends = {
            "ok": row.completed,
            "failed": row.failed,
            "cancelled": row.cancelled,
            "not_sent": row.not_sent,
        }
        for end, count in ends.items():
            family.add_metric([*_labels(row), end], count)
    return family


def _latency(report: RunReport, attribute: str, text: str) -> Metric:
    family = GaugeMetricFamily(
        f"{PREFIX}_stage_{attribute}_seconds", text, labels=[*_STAGE_LABELS, "quantile"]
    )
    for row in report.stages:
        summary = getattr(row, attribute)
        for name, quantile in _QUANTILES:
            value = getattr(summary, name)
            if value is not None:
                family.add_metric([*_labels(row), quantile], value)
    return family
