"""A cold start: the first answers after a time without load, against those of the first load."""

from dataclasses import dataclass

from metrics.outcome import Outcome
from metrics.stage import COLD_STAGE
from metrics.statistics import percentile
from reports.load import SavedRun
from reports.loads import plan_of
from reports.wording import number, time_ms


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Times in seconds; a request that failed or was not streamed has no TTFT."""

    ttft_s: tuple[float | None, ...]
    """Of the single requests after the idle time, in order."""
    warm_p50_s: float | None
    """Of the lowest level that was held."""
    warm_load: str = "1 user"
    """What that level asked for, in words."""
    crowded: bool = False
    """Whether several users asked there: the load itself then takes time, and that is no gain of
    the cold start."""

    def sentence(self) -> str:
        """One line for people."""
        first, *others = self.ttft_s
        text = f"Cold start: the first token took {time_ms(first)}"
        if others:
            text += f", then {', '.join(time_ms(value) for value in others)}"
        if self.warm_p50_s is not None:
            text += f"; warm it takes {time_ms(self.warm_p50_s)} (p50 at {self.warm_load})"
            if first is not None and self.warm_p50_s and not self.crowded:
                text += f", {_compared(first / self.warm_p50_s)}"
        return text + "."


def _compared(ratio: float) -> str:
    """A ratio that is 1.0 as it is printed is no difference."""
    if number(ratio) == number(1.0) or number(1 / ratio) == number(1.0):
        return "no difference"
    return f"{number(ratio)} times less" if ratio > 1 else f"{number(1 / ratio)} times more"


def cold_start_of(run: SavedRun) -> ColdStart | None:
    """The cold start of a run; None when there was none."""
    records = run.records
    cold = records[records["stage"] == COLD_STAGE]
    if not len(cold):
        return None
    ok = cold["outcome"] == Outcome.OK.value
    values = cold["ttft_s"].where(ok)
    held = records[records["counted"] & (records["outcome"] == Outcome.OK.value)]
    plan = plan_of(run)
    held_stages = [plan[s] for s in map(int, held["stage"].dropna().unique()) if s in plan]
    lowest = min(held_stages, key=lambda s: (s.rate_rps or s.target_users, s.id), default=None)
    ttft_s = tuple(None if value != value else float(value) for value in values)
    if lowest is None:
        return ColdStart(ttft_s, None)
    warm = held[held["stage"] == lowest.id]["ttft_s"].dropna().to_numpy()
    crowded = lowest.rate_rps is None and lowest.target_users > 1
    return ColdStart(ttft_s, percentile(warm, 0.5), lowest.load, crowded)
