"""Whether a stage's figures may be used, in one word, the same in tables and in plots."""

from collections.abc import Mapping
from enum import StrEnum

from metrics.validity import void_by, void_stages
from reports.model import RunReport, StageRow


class StageState(StrEnum):
    """The gravest thing that is to be known of a stage."""

    USABLE = "usable"
    NOT_REACHED = "not reached"
    CLIENT_LIMITED = "client-limited"
    """Void because the client, not the endpoint, set its figures."""
    VOID = "void"
    RATE_LIMITED = "rate-limited"
    """429s came: its latencies are of what was let in."""


MEANING: Mapping[StageState, str] = {
    StageState.USABLE: "nothing is known against the stage's figures",
    StageState.NOT_REACHED: "its users never all ran, or it was never held",
    StageState.CLIENT_LIMITED: "this client set the figures and not the endpoint: void",
    StageState.VOID: "a rule of validity forbids its figures: neither knee nor best",
    StageState.RATE_LIMITED: "429s came: latencies are of what was let in",
}


def states_of(report: RunReport) -> dict[int, StageState]:
    """Each stage's state by its id."""
    void = void_stages(report.validity)
    return {row.stage: _state(row, report, row.stage in void) for row in report.stages}


def _state(row: StageRow, report: RunReport, void: bool) -> StageState:
    if not row.reached:
        return StageState.NOT_REACHED
    if void_by("client_limited", report.validity, row.stage):
        return StageState.CLIENT_LIMITED
    if void or any(flag.startswith("set aside") for flag in row.flags):
        return StageState.VOID
    return StageState.RATE_LIMITED if row.limited_by else StageState.USABLE
