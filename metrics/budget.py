"""When a test must stop so that what it spends stays within its budget.

A stop takes hold late: reports come in intervals, tell of the interval before, and requests in
flight are finished. So what counts is not what was spent but what will have been, were the stop
ordered at the next report only:

    spent + cost of the requests in flight + cost of those that may begin within two intervals

Requests in flight are, more often than not, the long and dear ones: the mean cost of one of them is
the mean weighted by cost, E[c²] / E[c], not the mean over all requests. Three standard deviations
of their sum are added, and the worst case of a request bounds it.
"""

import math
from collections import deque
from dataclasses import dataclass

from metrics.prices import Prices, Tokens, money

REPORTS_KEPT = 6
"""The spend rate is over so many reports: enough to be a rate, few enough to follow a ramp."""
ENDED_ENOUGH = 10
"""Below so many ended requests, the worst case stands for the cost of one."""
LATE_INTERVALS = 2
"""A report tells of up to one interval before it, and the next one comes an interval later."""
SPREADS = 3.0


def worst_case(prices: Prices, prompt_tokens: int, max_tokens: int) -> float | None:
    """The most that a request of these lengths costs: nothing cached, all tokens used.

    None without token prices.
    """
    return prices.of_tokens(Tokens(prompt_tokens, 0, max_tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the workers' reports told so far, over the fleet; the sums never fall."""

    elapsed_s: float
    """Since the GPUs are paid for: the start of the run."""
    spent: float = 0.0
    """By token prices, of all ended requests and their failed attempts."""
    spent_squares: float = 0.0
    """Sum of the squares of each ended request's cost."""
    ended: int = 0
    in_flight: int = 0
    users: int = 0
    """Closed-loop users wanted until the next report; 0 in an open loop."""
    rate_rps: float = 0.0
    """Of an open loop, the rate wanted until the next report; 0 in a closed loop."""
    drain_s: float = 0.0
    """How long a drain may take: the longest request so far, or the limit of one."""


@dataclass(frozen=True, slots=True)
class BudgetStop:
    """The order to stop, and why; sums in the prices' currency."""

    budget: float
    spent: float
    in_flight: float
    """What the requests in flight may cost, or the GPUs until they are finished."""
    following: float
    """What may be begun before a stop takes hold, or the GPUs until then."""
    currency: str = "$"

    def sentence(self) -> str:
        """One line for people."""
        spent, in_flight, following, budget = (
            money(value, self.currency)
            for value in (self.spent, self.in_flight, self.following, self.budget)
        )
        return (
            f"stopped for the budget of {budget}: {spent} spent, up to {in_flight} for what is "
            f"in flight and {following} for what begins before a stop takes hold"
        )


class BudgetWatch:
    """Says at each report whether to stop now; once it said so, it keeps to it.

    ``most_per_request`` is what :func:`worst_case` says; without it nothing is held back for the
    requests in flight until some have ended. With prices of tokens and of GPU hours, which are two
    ways of paying, the dearer one counts.

    Raises:
        ValueError: the budget is not over 0, or there is no price to reckon it by.
    """

    def __init__(
        self,
        budget: float,
        prices: Prices,
        most_per_request: float | None = None,
        report_interval_s: float = 2.0,
    ) -> None:
        if not 0 < budget < math.inf:
            raise ValueError(f"--budget {budget:g}: give a sum over 0, or leave it out")
        if not prices.given:
            raise ValueError(
                f"--budget {budget:g} without a price: "
                "give --price-in and --price-out, or --gpu-hour-price"
            )
        if not 0 < report_interval_s < math.inf:
            raise ValueError(f"report interval {report_interval_s:g} s: must be over 0 s")
        self._budget = budget
        self._prices = prices
        self._most = most_per_request
        self._late_s = LATE_INTERVALS * report_interval_s
        self._reports = deque([Progress(elapsed_s=0.0)], maxlen=REPORTS_KEPT)
        self._stop: BudgetStop | None = None

    def observe(self, progress: Progress) -> BudgetStop | None:
        """Take in a report; the order to stop, or None to go on.

        Asked before the first user starts (``elapsed_s`` 0, the users or the rate wanted), it
        tells a budget that not even the first requests keep within.
        """
        self._reports.append(progress)
        for parts in (self._by_tokens(progress), self._by_gpu(progress)):
            if self._stop is None and parts is not None and sum(parts) >= self._budget:
                self._stop = BudgetStop(self._budget, *parts, self._prices.currency)
        return self._stop

    def _by_gpu(self, now: Progress) -> tuple[float, float, float] | None:
        spent = self._prices.of_gpu_time(now.elapsed_s)
        drain = self._prices.of_gpu_time(now.drain_s)
        late = self._prices.of_gpu_time(self._late_s)
        return None if spent is None or drain is None or late is None else (spent, drain, late)

    def _by_tokens(self, now: Progress) -> tuple[float, float, float] | None:
        if self._prices.per_m_in is None:
            return None
        since = self._since(now)
        if since is None:
            mean = dear = self._most or 0.0
            spread = 0.0
        else:
            mean = (now.spent - since.spent) / (now.ended - since.ended)
            square = (now.spent_squares - since.spent_squares) / (now.ended - since.ended)
            # Refused requests cost nothing and say nothing of those that are in flight.
            dear = max(mean, square / mean) if mean > 0 else self._most or 0.0
            spread = math.sqrt(max(0.0, square - mean**2))
        likely = now.in_flight * dear + SPREADS * spread * math.sqrt(now.in_flight)
        bound = math.inf if self._most is None else now.in_flight * max(self._most, dear)
        return now.spent, min(likely, bound), self._following(now, mean, dear)

    def _since(self, now: Progress) -> Progress | None:
        """The report from which on costs are averaged; None when too few requests ended."""
        for report in (self._reports[0], Progress(elapsed_s=0.0)):
            if now.ended - report.ended >= ENDED_ENOUGH:
                return report
        return None

    def _following(self, now: Progress, mean: float, dear: float) -> float:
        """Of requests that may begin before a stop takes hold.

        A closed loop begins them at the rate of late, more when users are added, and all users may
        be between two requests at once: the rate alone misses users who move in step.
        """
        if now.rate_rps:
            arrivals = now.rate_rps * self._late_s
            return mean * (arrivals + SPREADS * math.sqrt(arrivals) + 1)
        first = self._reports[0]
        passed_s = now.elapsed_s - first.elapsed_s
        begun = now.ended + now.in_flight - first.ended - first.in_flight
        # A count over a stretch may be short by one of the rate times its length.
        rate_rps = (begun + 1) / passed_s if passed_s > 0 else 0.0
        known = [report.users for report in self._reports if report.elapsed_s > first.elapsed_s]
        usual = sum(known) / len(known) if known else 0
        growth = max(1.0, now.users / usual) if usual else 1.0
        at_once = now.users or now.in_flight
        return mean * rate_rps * growth * self._late_s + dear * at_once
