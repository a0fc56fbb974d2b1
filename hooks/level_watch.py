"""What the workers have reported of each stage, as an adaptive plan needs it while it runs.

The search reads a level by what *ended* in its hold: a short window that went by starts would miss
the slow answers that are still under way. The report, made later, goes by starts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooks.attempt_log import AttemptLog
from metrics.knee_level import Level
from metrics.knee_limits import in_flight_at, in_flight_shares
from metrics.limits_attempts import Attempts
from metrics.outcome import Outcome
from metrics.record import FIELD_NAMES
from metrics.stage import COLD_STAGE, Phase, Stage
from shapes.plan import Progress

_FAILED = frozenset(outcome.value for outcome in Outcome if outcome.failed)
_NO_ANSWER = frozenset({Outcome.CANCELLED.value, Outcome.NOT_SENT.value})
"""What this client did not wait for, or never sent: the endpoint has no part in it."""
_PLACES = {name: place for place, name in enumerate(FIELD_NAMES)}
_SETTLED = frozenset({Phase.SETTLE.value, Phase.HOLD.value})


@dataclass(frozen=True, slots=True)
class _Ended:
    """One request that has ended, on its worker's clock."""

    worker: str
    started_s: float
    ended_s: float
    outcome: str
    status: int | None
    ttft_s: float | None
    tpot_s: float | None
    latency_s: float
    think_s: float
    buffered: bool


@dataclass(slots=True)
class _StageSeen:
    ended: list[_Ended] = field(default_factory=list)
    warm: set[tuple[str, str, int]] = field(default_factory=set)
    hold_from_s: dict[str, float] = field(default_factory=dict)
    """When the hold began on each worker, by its own clock."""


_KEPT_STAGES = 2
"""The present stage and the one before it, whose last answers are still coming in."""


class LevelWatch:
    """Fed with the reports of one run; ``void`` says why a stage must not be used.

    It keeps the last stages' requests, and none at all unless the plan is ``adaptive``. Only where
    it ``keeps_attempts`` it keeps what a search for limits needs of all requests of the run.
    """

    def __init__(self, adaptive: bool = False, keeps_attempts: bool = False) -> None:
        self._adaptive = adaptive
        self._log = AttemptLog() if keeps_attempts else None
        self._stages: defaultdict[int, _StageSeen] = defaultdict(_StageSeen)
        self._voids: dict[int, str] = {}
        self._client_limited: set[int] = set()
        self._spoilt: set[int] = set()

    def accept(self, report: Mapping[str, Any]) -> None:
        """One worker's report: its rows and phase marks."""
        if self._log is not None:
            self._log.accept(report)
        if not self._adaptive:
            return
        for mark in report["marks"]:
            if mark["phase"] == Phase.HOLD.value and mark["stage"] != COLD_STAGE:
                seen = self._stages[mark["stage"]]
                seen.hold_from_s.setdefault(mark["worker"], mark["at_s"])
        for row in report["rows"]:
            stage = row[_PLACES["stage"]]
            if stage is not None and stage != COLD_STAGE:
                self._add(self._stages[stage], row)
        newest = max(self._stages, default=0)
        for old in [stage for stage in self._stages if stage <= newest - _KEPT_STAGES]:
            del self._stages[old]

    def void(self, stage: int, reason: str, client_limited: bool = False) -> None:
        """The stage must not be used; the first reason stays.

        One that the client limits is held on: the report may find its whole window in order.
        """
        self._voids.setdefault(stage, reason)
        (self._client_limited if client_limited else self._spoilt).add(stage)

    def median_ttft_s(self, stage: int) -> float | None:
        """Of the streamed successes that ended in the hold until now; None without one."""
        values = sorted(one.ttft_s for one in _held(self._stages[stage]) if one.ttft_s is not None)
        return values[len(values) // 2] if values else None

    def progress(self, stage: int) -> Progress:
        """How far the stage is."""
        seen = self._stages[stage]
        held = _held(seen)
        failed = [one for one in held if one.outcome in _FAILED]
        latencies_s = [one.latency_s for one in held if one.outcome == Outcome.OK.value]
        ok = len(latencies_s)
        return Progress(
            warm_users=len(seen.warm),
            ok=ok,
            failed=len(failed),
            ended=len(seen.ended),
            mean_latency_s=sum(latencies_s) / ok if ok else 0.0,
            spoilt=stage in self._spoilt,
            rate_limited=sum(one.status == 429 for one in failed),
        )

    def attempts(self, stage: int | None = None) -> Attempts:
        """The attempts of a stage, or of the whole run, where the watch keeps them; else none."""
        return (self._log or AttemptLog()).attempts(stage)

    def level(self, stage: Stage, held_s: float) -> Level:
        """What ended in the stage's hold until now."""
        seen = self._stages[stage.id]
        # By their end, as they were picked: by their beginning the long answers would come first.
        held = sorted(_held(seen), key=lambda one: one.ended_s - seen.hold_from_s[one.worker])
        good = [one for one in held if one.outcome == Outcome.OK.value]
        streams = [one for one in good if one.ttft_s is not None]
        outcomes: dict[str, int] = {}
        for one in held:
            outcomes[one.outcome] = outcomes.get(one.outcome, 0) + 1
        failed = [one for one in held if one.outcome in _FAILED]
        limited = [one for one in failed if one.status == 429]
        accepted_s = self._aligned_s(stage.id, good)
        refused_s = [began_s for began_s, _ in self._aligned_s(stage.id, limited)]
        return Level(
            users=stage.target_users,
            stage=stage.id,
            ttft_s=[one.ttft_s for one in streams if one.ttft_s is not None],
            tpot_s=[one.tpot_s for one in streams if one.tpot_s is not None],
            latency_s=[one.latency_s for one in good],
            think_s=sum(one.think_s for one in held) / len(held) if held else 0.0,
            requests=sum(one.outcome not in _NO_ANSWER for one in held),
            rate_limited=len(limited),
            failed=len(failed) - len(limited),
            outcomes=outcomes,
            void=self._voids.get(stage.id),
            client_limited=stage.id in self._client_limited,
            held_s=held_s,
            in_flight_at_refusals=in_flight_at(accepted_s, refused_s),
            in_flight_shares=in_flight_shares(accepted_s),
            buffered=2 * sum(one.buffered for one in streams) > len(streams),
            down=stage.kind == "down",
        )

    def _aligned_s(self, stage: int, ended: Sequence[_Ended]) -> list[tuple[float, float]]:
        """When each was begun and ended; the hold's beginning is one moment on all clocks."""
        origin_s = self._stages[stage].hold_from_s
        return [
            (one.started_s - origin_s[one.worker], one.ended_s - origin_s[one.worker])
            for one in ended
        ]

    @staticmethod
    def _add(seen: _StageSeen, row: Sequence[Any]) -> None:
        def value(name: str) -> Any:
            return row[_PLACES[name]]

        sent_s = value("started_s") + value("client_wait_s") + (value("connect_s") or 0.0)
        if value("phase") in _SETTLED or value("phase") == Phase.RAMP.value:
            seen.warm.add((value("worker"), value("user_class"), value("user")))
        ttft_s, last_s, tokens = value("ttft_s"), value("last_token_s"), value("completion_tokens")
        tpot_s = None
        if ttft_s is not None and last_s is not None and tokens and tokens > 1:
            tpot_s = None if value("buffered") else (last_s - ttft_s) / (tokens - 1)
        latency_s = last_s if value("streamed") and last_s is not None else value("end_s")
        seen.ended.append(
            _Ended(
                worker=value("worker"),
                started_s=sent_s,
                ended_s=sent_s + value("end_s"),
                outcome=str(value("outcome")),
                status=value("status"),
                ttft_s=ttft_s,
                tpot_s=tpot_s,
                latency_s=latency_s,
                think_s=value("think_s"),
                buffered=bool(value("buffered")),
            )
        )


def _held(seen: _StageSeen) -> list[_Ended]:
    from_s = seen.hold_from_s
    return [one for one in seen.ended if one.ended_s >= from_s.get(one.worker, float("inf"))]
