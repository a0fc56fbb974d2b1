"""What a load costs, by the tokens that were billed and by the hours of the GPUs behind it.

Sums are in the prices' currency. What is not known is None, and what is missing from a sum because
no server told it is counted beside it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from metrics.outcome import TokenSource
from metrics.prices import MILLION, CostKind, Prices, Tokens
from metrics.tally import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUse:
    """What a stage's held window used; the counts are of the requests started in it."""

    stage: int
    users: int
    rate_rps: float | None = None
    rate_tokens_per_s: float | None = None
    window_s: float | None
    output_tokens_per_s: float | None
    completed_rps: float | None
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one stage costs, by one way of paying; ``docs/cost.md`` has the formulas."""

    stage: int
    users: int
    rate_rps: float | None
    rate_tokens_per_s: float | None
    kind: CostKind
    window_s: float | None
    tokens: Tokens | None
    """By tokens: of the successes started in the window. By GPU: those of the window's time."""
    cost: float | None
    per_m_in: float | None
    """Cost of the prompts per million prompt tokens; a GPU's hour cannot be split so."""
    per_m_out: float | None
    """All that was paid, prompts too, per million completion tokens."""
    per_m_total: float | None
    """All that was paid per million prompt and completion tokens."""
    per_1000_ok: float | None
    """Per 1,000 successes."""
    unknown_requests: int
    """Successes without usage: not in a sum by tokens, and a GPU's tokens are dearer by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """What the whole test used, ramps, warm-up and failures included."""

    tokens: Tokens
    """All that servers told of each request's last attempt, ``wasted`` among them."""
    wasted: Tokens
    """Of these, what requests took that did not end well."""
    in_vain: Tokens
    """Sent and made in all attempts without an answer, refused ones and earlier ones too: what a
    provider bills of these is its own affair, most bill no refusal."""
    unknown_requests: int
    """Requests that may have been billed and told no usage."""
    cache_untold: int
    """Requests with usage whose server said nothing of its cache."""
    seconds: float | None
    """Wall time of the run."""
    ended: bool = True
    """False when ``seconds`` is only what is left of a killed run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What the whole test cost, by one way of paying."""

    kind: CostKind
    cost: float | None
    wasted: float | None
    """Of that, so much brought no answer; None by GPU, which is paid while idle too."""
    in_vain: float | None
    """What all attempts without an answer would cost where every one of them is billed."""
    at_least: bool
    """Whether something that was paid is missing from ``cost``."""
    use: RunUse


@dataclass(frozen=True, slots=True)
class CostReport:
    """What is said of a run's cost."""

    prices: Prices
    rows: tuple[CostRow, ...]
    runs: tuple[RunCost, ...]
    budget: float | None = None
    """What the test was allowed to spend, if that was said."""


def cost_rows(prices: Prices, uses: Iterable[StageUse]) -> tuple[CostRow, ...]:
    """A row for each stage and each way of paying that has a price."""
    by_kind = {CostKind.TOKENS: _by_tokens, CostKind.GPU: _by_gpu}
    return tuple(by_kind[kind](prices, use) for use in uses for kind in prices.kinds)


def _by_tokens(prices: Prices, use: StageUse) -> CostRow:
    counts = use.counts
    known = counts.ok - _unknown(counts)
    tokens = _of_counts(counts) if known > 0 else None
    cost = None if tokens is None else prices.of_tokens(tokens)
    prompt = None if tokens is None else prices.of_prompt(tokens)
    return _row(use, CostKind.TOKENS, tokens, cost, prompt, known)


def _by_gpu(prices: Prices, use: StageUse) -> CostRow:
    window_s = use.window_s or 0.0
    tokens = None
    if window_s and use.output_tokens_per_s and use.counts.completion_tokens:
        # Prompts have no time of their own: they follow the answers that they belong to.
        completion = use.output_tokens_per_s * window_s
        share = completion / use.counts.completion_tokens
        own = _of_counts(use.counts)
        tokens = Tokens(own.prompt * share, own.cached * share, completion)
    cost = prices.of_gpu_time(window_s) if window_s else None
    return _row(use, CostKind.GPU, tokens, cost, None, (use.completed_rps or 0.0) * window_s)


def _row(
    use: StageUse,
    kind: CostKind,
    tokens: Tokens | None,
    cost: float | None,
    prompt_cost: float | None,
    ok: float,
) -> CostRow:
    prompts = tokens.prompt if tokens is not None else 0.0
    return CostRow(
        stage=use.stage,
        users=use.users,
        rate_rps=use.rate_rps,
        rate_tokens_per_s=use.rate_tokens_per_s,
        kind=kind,
        window_s=use.window_s,
        tokens=tokens,
        cost=cost,
        per_m_in=_per(prompt_cost, prompts, MILLION),
        per_m_out=_per(cost, tokens.completion if tokens is not None else 0.0, MILLION),
        per_m_total=_per(cost, tokens.total if tokens is not None and prompts else 0.0, MILLION),
        per_1000_ok=_per(cost, ok, 1000),
        unknown_requests=_unknown(use.counts),
    )


def run_costs(prices: Prices, use: RunUse) -> tuple[RunCost, ...]:
    """The cost of the whole test, by each way of paying that has a price."""
    found = []
    for kind in prices.kinds:
        if kind is CostKind.TOKENS:
            # Zero tokens beside unknown ones is nothing known, and not a cost of 0.
            known = use.tokens.total > 0 or not use.unknown_requests
            cost = prices.of_tokens(use.tokens) if known else None
            wasted = prices.of_tokens(use.wasted) if known else None
            in_vain = prices.of_tokens(use.in_vain)
            at_least = use.unknown_requests > 0
        else:
            cost = None if use.seconds is None else prices.of_gpu_time(use.seconds)
            wasted, in_vain, at_least = None, None, not use.ended
        found.append(
            RunCost(
                kind=kind, cost=cost, wasted=wasted, in_vain=in_vain, at_least=at_least, use=use
            )
        )
    return tuple(found)


def _of_counts(counts: Counts) -> Tokens:
    return Tokens(counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens)


def _unknown(counts: Counts) -> int:
    return counts.token_sources.get(TokenSource.UNKNOWN.value, 0)


def _per(cost: float | None, count: float, each: float) -> float | None:
    return cost / count * each if cost is not None and count > 0 else None
