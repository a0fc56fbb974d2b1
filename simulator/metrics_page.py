"""The `/metrics` page, under the names and bucket bounds that vLLM uses.

Counts come from the engine; the histograms are filled here from its events, so they tell the
model's view of a request: from its arrival, without socket or client.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from simulator.engine import Engine
from simulator.events import AdmitEvent, Event, FinishEvent, TokenEvent

_FIRST_TOKEN_BOUNDS_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_GAP_BOUNDS_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_REQUEST_BOUNDS_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


class Histogram:
    """Counts of observations up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        """Samples in the text format, cumulative as it demands."""
        lines = []
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {total}')
        lines.append(f"{name}_sum{{{labels}}} {self._sum!r}")
        lines.append(f"{name}_count{{{labels}}} {total}")
        return lines


class MetricsPage:
    """Figures of one engine in the Prometheus text format."""

    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, engine: Engine, model: str) -> None:
        self._engine = engine
        escaped = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self._labels = f'engine="0",model_name="{escaped}"'
        self._finished: Counter[str] = Counter(stop=0, length=0, abort=0)
        self._first_token = Histogram(_FIRST_TOKEN_BOUNDS_S)
        self._gap = Histogram(_GAP_BOUNDS_S)
        self._queue = Histogram(_REQUEST_BOUNDS_S)
        self._request = Histogram(_REQUEST_BOUNDS_S)

    def observe(self, events: Iterable[Event]) -> None:
        """Take note of engine events."""
        for event in events:
            if isinstance(event, TokenEvent):
                histogram = self._first_token if event.ordinal == 1 else self._gap
                histogram.observe(event.since_previous_s)
            elif isinstance(event, AdmitEvent):
                self._queue.observe(event.queue_s)
            elif isinstance(event, FinishEvent):
                self._request.observe(event.elapsed_s)

    def count_finished(self, reason: str) -> None:
        """Count a request's end: `stop`, `length` or `abort`."""
        self._finished[reason] += 1

    def render(self) -> str:
        """The page as of now."""
        engine, counters, labels = self._engine, self._engine.counters, self._labels
        lines: list[str] = []
        for name, kind, text, value in (
            ("num_requests_running", "gauge", "Requests with a slot.", engine.running),
            ("num_requests_waiting", "gauge", "Requests without a slot.", engine.waiting),
            ("kv_cache_usage_perc", "gauge", "Share of KV memory, 0-1.", engine.kv_usage_ratio),
            ("prompt_tokens_total", "counter", "Tokens prefilled.", counters.prompt_tokens),
            ("generation_tokens_total", "counter", "Tokens given.", counters.generation_tokens),
            ("num_preemptions_total", "counter", "Preemptions.", counters.preemptions),
            (
                *("prefix_cache_queries_total", "counter", "Prompt tokens looked up."),
                counters.prefix_query_tokens,
            ),
            (
                *("prefix_cache_hits_total", "counter", "Prompt tokens found."),
                counters.prefix_hit_tokens,
            ),
        ):
            lines += _heading(name, kind, text)
            lines.append(f"vllm:{name}{{{labels}}} {float(value)!r}")
        lines += _heading("request_success_total", "counter", "Requests ended, by reason.")
        lines += [
            f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(count)!r}'
            for reason, count in self._finished.items()
        ]
        for name, text, histogram in (
            ("time_to_first_token_seconds", "Arrival to first token.", self._first_token),
            ("inter_token_latency_seconds", "Between tokens.", self._gap),
            ("request_queue_time_seconds", "Arrival to slot.", self._queue),
            ("e2e_request_latency_seconds", "Arrival to last token.", self._request),
        ):
            lines += _heading(name, "histogram", text)
            lines += histogram.lines(f"vllm:{name}", labels)
        return "\n".join(lines) + "\n"


def _heading(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"]
