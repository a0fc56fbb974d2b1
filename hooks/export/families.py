"""The metrics of a run, by Prometheus' rules for names and units; ``docs/observability.md``.

There are few series whatever the run: the only labels are ``outcome`` and ``le``. What servers say,
URLs and the run's id are none. A figure that is not known has no sample, and is never 0.
"""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from hooks.export.buckets import LATENCY_BOUNDS_S, TOKEN_BOUNDS_S, cumulative
from hooks.export.knee_so_far import knee_so_far
from hooks.live.recent import recent
from hooks.live.run import LiveRun
from metrics.histogram import Histogram
from metrics.outcome import Outcome
from metrics.tally import Counts

PREFIX = "swarmgauge"
RECENT_S = 10.0
"""The figures of the client's health are of about so long until now."""

_COUNTS = (
    ("attempts", "attempts", "Attempts sent, retries among them."),
    ("rate_limited_attempts", "rate_limited_attempts", "Attempts answered 429."),
    ("retried_requests", "retried", "Logical requests with more than one attempt."),
    ("prompt_tokens", "prompt_tokens", "Prompt tokens of successes, as the server counted."),
    ("cached_tokens", "cached_tokens", "Of these, the ones from the server's prefix cache."),
    ("completion_tokens", "completion_tokens", "Completion tokens of successes, likewise."),
    ("wasted_tokens", "wasted_tokens", "Completion tokens of attempts that did not end well."),
    ("connections_opened", "connections_opened", "Connections opened to the endpoint."),
)
_LATENCIES: tuple[tuple[str, str, Sequence[float], str], ...] = (
    ("ttft", "ttft_s", LATENCY_BOUNDS_S, "From sent to the first output."),
    ("e2e_latency", "e2e_latency_s", LATENCY_BOUNDS_S, "From sent to the last output."),
    ("tpot", "tpot_s", TOKEN_BOUNDS_S, "Time per output token after the first."),
    ("chunk_gap", "chunk_gap_s", TOKEN_BOUNDS_S, "Between two chunks with output."),
)


class RunCollector:
    """What a registry asks for its families; ``current`` gives the run to tell of."""

    def __init__(self, current: Callable[[], LiveRun | None]) -> None:
        self._current = current

    def collect(self) -> Iterator[Metric]:
        """The run under way, or the last one; before the first one only that none runs."""
        run = self._current()
        running = run is not None and run.running
        yield _gauge("running", "1 while a run is under way, else 0.", float(running))
        if run is None:
            return
        yield from _requests(run)
        yield from _latencies(run)
        yield from _load(run)
        yield from _client(run)
        yield from _knee(run)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text)
    if value is not None:
        family.add_metric([], float(value))
    return family


def _requests(run: LiveRun) -> Iterator[Metric]:
    counts: Counts = run.state.book.total()
    requests = CounterMetricFamily(
        f"{PREFIX}_requests", "Logical requests that are over, by outcome.", labels=["outcome"]
    )
    for outcome in Outcome:
        requests.add_metric([outcome.value], counts.by_outcome[outcome.value])
    yield requests
    for name, attribute, text in _COUNTS:
        yield CounterMetricFamily(f"{PREFIX}_{name}", text, value=getattr(counts, attribute))


def _latencies(run: LiveRun) -> Iterator[Metric]:
    for name, attribute, bounds_s, text in _LATENCIES:
        total = Histogram()
        for tally in run.state.book.by_stage.values():
            total.merge(tally.latency[attribute])
        yield HistogramMetricFamily(
            f"{PREFIX}_{name}_seconds",
            f"{text} Successes started in held windows.",
            buckets=cumulative(total, bounds_s),
            sum_value=total.total,
        )


def _load(run: LiveRun) -> Iterator[Metric]:
    state, directive = run.state, run.directive
    held = run.open_stage is not None and directive is not None
    yield _gauge("users", "Users that run, over all workers.", run.users)
    yield _gauge(
        "target_users",
        "Users that the plan wants now.",
        directive.target_users if held and directive is not None else 0,
    )
    in_flight = state.in_flight if run.running else 0
    yield _gauge("in_flight", "Requests sent and not over, at the last reports.", in_flight)
    stage = directive.stage.id + 1 if held and directive is not None else None
    yield _gauge("stage", "Number of the stage under way, from 1; none in a drain.", stage)
    yield _gauge("planned_stages", "Stages of the plan; none for a search.", state.plan.stage_count)
    yield _gauge("elapsed_seconds", "Since the run began.", run.now_s)
    yield _gauge("workers", "Workers that reported in this run.", len(state.workers))


def _client(run: LiveRun) -> Iterator[Metric]:
    point = recent(run.series, RECENT_S) if run.running else None
    lag_s = point.percentile("loop_lag_s", 0.99) if point is not None else None
    delay_s = point.percentile("client_delay_s", 0.99) if point is not None else None
    cpu = point.mean("cpu_ratio") if point is not None else None
    yield _gauge("client_loop_lag_p99_seconds", "Event-loop lag of the workers.", lag_s)
    yield _gauge("client_delay_p99_seconds", "How late workers read a first output.", delay_s)
    yield _gauge("client_cpu_ratio", "Mean CPU of a worker process, 1: a whole core.", cpu)


def _knee(run: LiveRun) -> Iterator[Metric]:
    knee = knee_so_far(run)
    users = knee.users if knee is not None else None
    at_least = knee.at_least if knee is not None else None
    yield _gauge("knee_users", "Concurrent streams at the knee, from means so far.", users)
    yield _gauge("knee_at_least_users", "Users carried without a queue so far.", at_least)
