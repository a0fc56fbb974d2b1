"""Other tools' definitions, computed from the same records and named as theirs.

Sources: the source code of the tools, and one scripted stream that each of them was shown
(``docs/compatibility.md``). What the records cannot give is said to be missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from metrics.outcome import Outcome
from metrics.stage import ASIDE
from metrics.statistics import FloatArray
from reports.faces.compat_figures import (
    MS,
    Figure,
    Stretch,
    distribution,
    gap_figure,
    linear,
    rate,
    single,
    weighted,
)
from reports.gaps import all_gaps, gaps_by_stage
from reports.load import SavedRun
from reports.loads import load_name, plan_of, rates_of
from reports.stages import planned_stages

COMPAT_SCHEMA = "swarmgauge.compat/1"
_GAPS = "gaps within 1 %, of streams that were read chunk by chunk"
_SERVER_TOKENS = "tokens are the server's and not a local tokenizer's"
_EARLY_FIRST = "there an empty content without a role is a first token too"
_LATE_LAST = "there an empty content in the last chunk is output too"
_PERIOD = "over first send to last end, there over its measured period"
_BODY_END = "ends with the body, there with [DONE]"


@dataclass(frozen=True, slots=True)
class View:
    """One tool's figures of one stretch; ``notes`` are differences that touch several figures."""

    tool: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]


def whole_run(run: SavedRun) -> Stretch:
    """All requests but warm-up and cold start, as the other tools' own warm-ups are left out."""
    aside = run.records["phase"].isin([phase.value for phase in ASIDE])
    scope = f"{_GAPS}, in held windows"
    return Stretch("whole run", run.records[~aside], all_gaps(run.book), scope)


def held_stage(run: SavedRun, stage: int) -> Stretch:
    """The requests that were started in a stage's held window.

    Raises:
        ValueError: the plan has no such stage.
    """
    users = {s: target for s, _, target in planned_stages(run)}
    if stage not in users:
        raise ValueError(f"there is no stage {stage + 1}: the run has {len(users)}, from 1")
    load = load_name(users[stage], *rates_of(plan_of(run), stage))
    held = run.records[(run.records["stage"] == stage) & run.records["counted"]]
    gaps = gaps_by_stage(run.book).get(stage)
    return Stretch(f"stage {stage + 1}, {load}", held, gaps, _GAPS)


def views_of(stretch: Stretch) -> tuple[View, ...]:
    """What each tool would say of these records."""
    return tuple(view(stretch) for view in VIEWS)


def compat_values(run_id: str | None, stretch: Stretch) -> dict[str, object]:
    """The same as plain values; units as each figure says."""
    return {
        "schema": COMPAT_SCHEMA,
        "run_id": run_id,
        "stretch": stretch.title,
        "tools": [asdict(view) for view in views_of(stretch)],
    }


def _vllm(stretch: Stretch) -> View:
    """``vllm bench serve``."""
    ttft_s = stretch.connect_s + stretch.column("ttft_s")
    e2e_s = stretch.connect_s + stretch.column("last_token_s")
    seconds = stretch.seconds(stretch.records["started_s"], stretch.records)
    made, sent = stretch.tokens("completion_tokens"), stretch.tokens("prompt_tokens")
    n = len(stretch.ok)
    counted = int(np.isfinite(stretch.output_tokens).sum())
    return View(
        "vLLM bench serve",
        (
            single("Successful requests", "requests", n, n),
            single("Failed requests", "requests", stretch.failed, stretch.failed),
            single("Benchmark duration", "s", seconds, len(stretch.records)),
            single("Total input tokens", "tokens", sent, n, _SERVER_TOKENS),
            single("Total generated tokens", "tokens", made, counted),
            single("Request throughput", "req/s", rate(n, seconds), n),
            single("Output token throughput", "tok/s", rate(made, seconds), counted),
            Figure(
                "Peak output token throughput",
                "tok/s",
                missing="when each token came is not recorded",
            ),
            single("Total token throughput", "tok/s", rate(made + sent, seconds), counted),
            distribution("TTFT", "ms", MS * ttft_s, differs=_EARLY_FIRST),
            distribution("TPOT", "ms", MS * _token_times_s(stretch), linear),
            gap_figure("ITL", stretch, ""),
            distribution("E2EL", "ms", MS * e2e_s, differs=_LATE_LAST),
        ),
        _notes(stretch, _TOKENIZER, _VLLM_OK) + _no_connect(stretch),
    )


def _guidellm(stretch: Stretch) -> View:
    """GuideLLM: no connection in its times, means of token times weighted by tokens."""
    first_s, last_s = stretch.column("ttft_s"), stretch.column("last_token_s")
    end_s = stretch.column("end_s")
    chunks = stretch.column("chunks")
    tokens = np.where(np.isfinite(stretch.output_tokens), stretch.output_tokens, chunks)
    ok = stretch.ok
    seconds = stretch.seconds(ok["sent_s"], ok)
    made, sent = float(np.nansum(tokens)), stretch.tokens("prompt_tokens")
    return View(
        "GuideLLM",
        (
            single("Completed requests", "requests", len(ok), len(ok)),
            single("Errored requests", "requests", stretch.failed, stretch.failed),
            distribution("Request latency", "s", end_s, _plain, _BODY_END),
            distribution("TTFT", "ms", MS * first_s, _plain),
            distribution("TTFOT", "ms", MS * stretch.column("ttfa_s"), _plain),
            distribution(
                "ITL", "ms", MS * _per_token(first_s, last_s, tokens), _weighted_by(tokens - 1)
            ),
            distribution(
                "TPOT", "ms", MS * _over(last_s, tokens), _weighted_by(tokens), "TTFT is in it"
            ),
            single("Requests per second, mean", "req/s", rate(len(ok), seconds), len(ok), _PERIOD),
            single(
                "Concurrency, mean", "requests", rate(float(end_s.sum()), seconds), len(ok), _PERIOD
            ),
            single(
                "Output tokens per second, mean", "tok/s", rate(made, seconds), len(ok), _PERIOD
            ),
            single(
                "Total tokens per second, mean",
                "tok/s",
                rate(made + sent, seconds),
                len(ok),
                _PERIOD,
            ),
            Figure(
                "Output tokens per second, percentiles",
                "tok/s",
                missing="they are of its own token times, which are not recorded",
            ),
        ),
        _notes(
            stretch,
            "usage missing: output chunks are counted, as there",
            (Outcome.TRUNCATED,),
        ),
    )


def _aiperf(stretch: Stretch) -> View:
    """AIPerf: times begin before the connection, and throughput at the first send."""
    ttft_s = stretch.connect_s + stretch.column("ttft_s")
    e2e_s = stretch.connect_s + stretch.column("last_token_s")
    itl_s = _token_times_s(stretch)
    ok = stretch.ok
    begun_s = ok["sent_s"] - np.nan_to_num(stretch.connect_s)
    seconds = stretch.seconds(begun_s, ok)
    made = stretch.tokens("completion_tokens")
    positive_s = np.where(itl_s > 0, itl_s, np.nan)
    return View(
        "AIPerf",
        (
            single("Request Count", "requests", len(ok), len(ok)),
            single("Error Request Count", "requests", stretch.failed, stretch.failed),
            distribution("Time to First Token", "ms", MS * ttft_s),
            Figure(
                "Time to Second Token",
                "ms",
                missing="the time of the second output chunk is not recorded",
            ),
            distribution(
                "Time to First Output Token",
                "ms",
                MS * (stretch.connect_s + stretch.column("ttfa_s")),
            ),
            distribution("Request Latency", "ms", MS * e2e_s),
            distribution("Inter Token Latency", "ms", MS * itl_s),
            gap_figure("Inter Chunk Latency", stretch, ""),
            distribution("Output Token Throughput Per User", "tokens/sec/user", 1 / positive_s),
            distribution(
                "Output Sequence Length", "tokens", stretch.output_tokens, differs=_SERVER_TOKENS
            ),
            distribution(
                "Input Sequence Length",
                "tokens",
                stretch.column("prompt_tokens"),
                differs=_SERVER_TOKENS,
            ),
            single("Output Token Throughput", "tokens/sec", rate(made, seconds), len(ok)),
            single("Request Throughput", "requests/sec", rate(len(ok), seconds), len(ok)),
        ),
        _notes(stretch, _TOKENIZER, _VLLM_OK) + _no_connect(stretch),
    )


_TOKENIZER = "usage missing: a local tokenizer counts there"
_VLLM_OK = (Outcome.TRUNCATED, Outcome.STREAM_ERROR)
VIEWS: tuple[Callable[[Stretch], View], ...] = (_vllm, _guidellm, _aiperf)


def _token_times_s(stretch: Stretch) -> FloatArray:
    """(latency − TTFT) / (n − 1); what the connection took is in both and falls out."""
    first_s, last_s = stretch.column("ttft_s"), stretch.column("last_token_s")
    return _per_token(first_s, last_s, stretch.output_tokens)


def _per_token(first_s: FloatArray, last_s: FloatArray, tokens: FloatArray) -> FloatArray:
    """(last − first) / (tokens − 1), NaN below two tokens."""
    return np.divide(
        last_s - first_s, tokens - 1, out=np.full(len(tokens), np.nan), where=tokens > 1
    )


def _over(last_s: FloatArray, tokens: FloatArray) -> FloatArray:
    return np.divide(last_s, tokens, out=np.full(len(tokens), np.nan), where=tokens > 0)


def _plain(values: FloatArray) -> tuple[int, dict[str, float | None]]:
    return weighted(values, np.ones(len(values)))


def _weighted_by(
    weights: FloatArray,
) -> Callable[[FloatArray], tuple[int, dict[str, float | None]]]:
    return lambda values: weighted(values, weights)


def _notes(
    stretch: Stretch, no_usage: str, successes_there: tuple[Outcome, ...]
) -> tuple[str, ...]:
    """Where these records and the other tool's would not be of the same requests."""
    cases: Mapping[str, int] = {
        "successes without a stream are left out": _not_streamed(stretch),
        no_usage: int(np.isnan(stretch.output_tokens).sum()),
        "broke off after output: failures here, successes there": stretch.broken_after_output(
            *successes_there
        ),
        "were tried more than once: the last attempt alone is timed": int(
            (stretch.records["attempts"] > 1).sum()
        ),
        "cancelled by the user on purpose: in no figure": int(
            (stretch.records["outcome"] == Outcome.CANCELLED.value).sum()
        ),
    }
    return tuple(f"{n:,}: {text}" for text, n in cases.items() if n)


def _no_connect(stretch: Stretch) -> tuple[str, ...]:
    unknown = int(np.isnan(stretch.connect_s).sum())
    text = f"{unknown:,}: the opening of the connection is not recorded, so they have no TTFT"
    return (text,) if unknown else ()


def _not_streamed(stretch: Stretch) -> int:
    rows = stretch.records
    return int(((rows["outcome"] == Outcome.OK.value) & ~rows["streamed"]).sum())
