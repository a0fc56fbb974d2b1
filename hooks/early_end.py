"""Ends a run before its plan does: for its budget, or because a worker says it makes no sense."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from locust.runners import Runner

from hooks import messages
from metrics.budget import BudgetStop, BudgetWatch, Progress, worst_case
from metrics.outcome import Outcome
from metrics.prices import Prices, Tokens
from metrics.record import FIELD_NAMES
from settings import Settings
from shapes.bounded import BoundedPlan, EarlyEnd, EndKind
from shapes.plan import Plan

_AT = {name: position for position, name in enumerate(FIELD_NAMES)}
_ROUNDED_UP = 2.0
"""A tokenizer makes more tokens of a prompt than it has words."""

log = logging.getLogger("swarmgauge")


class EarlyEnds:
    """Watches what the run under way has cost, and hears the workers."""

    def __init__(self, runner: Runner) -> None:
        runner.register_message(messages.ASK_END, self._on_ask_end)
        self._run_id = ""
        self._plan: BoundedPlan | None = None
        self._spend: _Spend | None = None

    def bound(
        self, run_id: str, plan: Plan, settings: Settings, drain_limit_s: float
    ) -> BoundedPlan:
        """The plan of a run that begins now, so that it can be ended."""
        self._run_id = run_id
        self._plan = BoundedPlan(plan, drain_limit_s)
        self._spend = _Spend(settings) if settings.budget else None
        return self._plan

    def accept(self, report: Mapping[str, Any]) -> None:
        """Add what one worker's report tells of cost."""
        if self._spend is not None:
            self._spend.accept(report["rows"])

    def check(
        self, pending: int, phase: Mapping[str, Any] | None, unwritable: str | None = None
    ) -> None:
        """End the run when it would cost more than its budget; asked about once a second.

        ``phase`` is what was announced last, ``unwritable`` why records can be kept no longer.
        """
        if unwritable is not None:
            self._end(EarlyEnd(EndKind.DISK, f"records can be kept no longer: {unwritable}"))
        if self._spend is None or self._plan is None:
            return
        stop = self._spend.check(pending, phase)
        if stop is not None:
            self._end(EarlyEnd(EndKind.BUDGET, stop.sentence()))

    def _on_ask_end(self, environment: Any, msg: Any, **_: Any) -> None:
        if msg.data["run_id"] == self._run_id:
            reason = f"{msg.data['reason']} (worker {msg.data['worker']})"
            self._end(EarlyEnd(EndKind.QUOTA, reason))

    def _end(self, order: EarlyEnd) -> None:
        if self._plan is not None and self._plan.ended_early is None:
            log.warning("the run ends early: %s", order.reason)
            self._plan.end(order)


class _Spend:
    """What a run has cost by the records of its ended requests.

    Who leaves in the middle of an answer, or loses it, is told no usage and billed all the same, so
    that is reckoned from what is known of the others.
    """

    def __init__(self, settings: Settings) -> None:
        self._prices: Prices = settings.prices
        prompt = settings.prompt_tokens.mean + (settings.prefix_tokens if settings.prefixes else 0)
        self._most_prompt = round(_ROUNDED_UP * prompt)
        answer = round(_ROUNDED_UP * settings.output_tokens.mean)
        most = worst_case(self._prices, self._most_prompt, answer)
        self._watch = BudgetWatch(settings.budget, self._prices, most)
        self._began_s = time.monotonic()
        self._spent = self._squares = self._longest_s = 0.0
        self._ended = 0
        self._told = self._told_prompt = 0
        self._streamed_tokens = self._streamed_chunks = 0

    def accept(self, rows: list[list[Any]]) -> None:
        for row in rows:
            self._learn(row)
        for row in rows:
            cost = self._prices.of_tokens(self._tokens_of(row)) or 0.0
            self._spent += cost
            self._squares += cost * cost
            # Refused requests cost nothing: they must not make the others look cheap.
            self._ended += cost > 0
            self._longest_s = max(self._longest_s, row[_AT["user_latency_s"]])

    def _learn(self, row: list[Any]) -> None:
        """How long prompts are, and how many tokens one chunk holds."""
        if row[_AT["prompt_tokens"]] is not None:
            self._told += 1
            self._told_prompt += row[_AT["prompt_tokens"]]
        if row[_AT["completion_tokens"]] and row[_AT["chunks"]]:
            self._streamed_tokens += row[_AT["completion_tokens"]]
            self._streamed_chunks += row[_AT["chunks"]]

    def _tokens_of(self, row: list[Any]) -> Tokens:
        """Of the last attempt, and of earlier ones that the server let in."""
        names = ("prompt_tokens", "cached_tokens", "completion_tokens")
        prompt, cached, completion = (row[_AT[name]] or 0 for name in names)
        told = row[_AT["prompt_tokens"]] is not None
        if not told and _may_be_billed(row):
            last = Tokens(self._usual_prompt, 0, self._answer_so_far(row))
        else:
            last = Tokens(prompt, cached, completion)
        let_in = sum(_let_in(status) for status in row[_AT["lost_status"]])
        ok = row[_AT["outcome"]] == Outcome.OK.value
        # A failure's wasted tokens are those of its last attempt too.
        in_vain = row[_AT["wasted_tokens"]] - (0 if ok else completion)
        earlier = Tokens((prompt if told else self._usual_prompt) * let_in, 0, max(0, in_vain))
        return last + earlier

    @property
    def _usual_prompt(self) -> float:
        return self._told_prompt / self._told if self._told else self._most_prompt

    def _answer_so_far(self, row: list[Any]) -> float:
        """Completion tokens made until the user left: one chunk more than it saw, or all."""
        most: int = row[_AT["asked_max_tokens"]] or 0
        if not row[_AT["stream_asked"]] or not self._streamed_chunks:
            return most
        chunks: int = row[_AT["chunks"]] + 1
        return min(most, chunks * self._streamed_tokens / self._streamed_chunks)

    def check(self, pending: int, phase: Mapping[str, Any] | None) -> BudgetStop | None:
        wanted = phase or {"target_users": 0, "rate_rps": None}
        rate_rps = wanted["rate_rps"] or 0.0
        return self._watch.observe(
            Progress(
                elapsed_s=time.monotonic() - self._began_s,
                spent=self._spent,
                spent_squares=self._squares,
                ended=self._ended,
                in_flight=pending,
                users=0 if rate_rps else wanted["target_users"],
                rate_rps=rate_rps,
                drain_s=self._longest_s,
            )
        )


def _may_be_billed(row: list[Any]) -> bool:
    """Whether the server may have worked on the last attempt although it told no usage."""
    sent = row[_AT["attempts"]] > 0 and Outcome(row[_AT["outcome"]]).reached_wire
    status = row[_AT["status"]]
    return sent and (status is None or _let_in(status))


def _let_in(status: int) -> bool:
    return 200 <= status < 300
