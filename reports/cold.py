"""A cold start: the first answers after a time without load, against those of the first load."""

from dataclasses import dataclass

from metrics.outcome import Outcome
from metrics.stage import COLD_STAGE
from metrics.statistics import percentile
from reports.load import SavedRun
from reports.wording import number, time_ms


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Times in seconds; a request that failed or was not streamed has no TTFT."""

    ttft_s: tuple[float | None, ...]
    """Of the single requests after the idle time, in order."""
    warm_p50_s: float | None
    """Of the first stage that was held."""

    def sentence(self) -> str:
        """One line for people."""
        first, *others = self.ttft_s
        text = f"Cold start: the first token took {time_ms(first)}"
        if others:
            text += f", then {', '.join(time_ms(value) for value in others)}"
        if self.warm_p50_s is not None:
            text += f"; warm it takes {time_ms(self.warm_p50_s)} (p50 of the first stage)"
            if first is not None and self.warm_p50_s:
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
    warm = held[held["stage"] == held["stage"].min()]["ttft_s"].dropna()
    ttft_s = tuple(None if value != value else float(value) for value in values)
    return ColdStart(ttft_s, percentile(warm.to_numpy(), 0.5))
