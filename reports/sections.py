"""What a report says beyond its levels: open loop, spike, soak, cold start, warm-up."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from metrics.stage import Phase
from reports.cold import cold_start_of
from reports.load import SavedRun
from reports.open_loop import RateStep, rate_steps
from reports.soak import soak_of
from reports.spike import recovery_of
from reports.wording import count


@dataclass(frozen=True, slots=True)
class Sections:
    """Sentences for people, and the same as plain values for ``summary.json`` by section."""

    sentences: tuple[str, ...]
    values: Mapping[str, Any]


def sections_of(run: SavedRun) -> Sections:
    """The sections that this run's shape and options call for; none is there otherwise."""
    sentences: list[str] = []
    values: dict[str, Any] = {}
    if steps := rate_steps(run):
        if run.meta.get("shape") != "limits":
            sentences += [step.sentence() for step in steps]
        values["open_loop"] = [_rate_step(step) for step in steps]
    if (recovery := recovery_of(run)) is not None:
        sentences.append(recovery.sentence())
        values["spike"] = _finite(asdict(recovery))
    if (soak := soak_of(run)) is not None:
        sentences += soak.sentences()
        values["soak"] = _finite(
            {
                **{k: v for k, v in asdict(soak).items() if k != "drifts"},
                "drifts": {
                    name: {**asdict(drift), "shown": drift.shown}
                    for name, drift in soak.drifts.items()
                },
            }
        )
    if (cold := cold_start_of(run)) is not None:
        sentences.append(cold.sentence())
        values["cold_start"] = asdict(cold)
    if warm_up := int((run.records["phase"] == Phase.WARMUP.value).sum()):
        sentences.append(f"{count(warm_up, 'warm-up request')} left out of all figures.")
        values["warmup_requests"] = warm_up
    return Sections(tuple(sentences), values)


def _rate_step(step: RateStep) -> dict[str, Any]:
    values = asdict(step)
    if step.trend is not None:
        values["trend"] = {
            **values["trend"],
            "completed_rps": step.trend.completed_rps,
            "unstable": step.trend.unstable,
        }
    return values


def _finite(value: Any) -> Any:
    """JSON has no infinity: what has no bound is missing there."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
