"""One run made ready to be compared: its figures, and the stages that offered one load."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from metrics.stage import NOT_LEVELS
from metrics.validity import Severity, void_reason
from reports.analyse import analyse
from reports.comparison.model import SideSummary
from reports.elsewhere import kept_elsewhere
from reports.load import SavedRun, load_run
from reports.loads import load_name
from reports.model import RunReport, StageRow
from reports.wording import count

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, order=True)
class LoadKey:
    """What a stage offered; stages of two runs with equal keys are compared."""

    kind: str
    users: int
    rate_rps: float
    rate_tokens_per_s: float

    @property
    def text(self) -> str:
        """The load in words."""
        rate = self.rate_rps or None
        name = load_name(self.users, rate, self.rate_tokens_per_s or None)
        plain = self.kind == "level" or rate is not None
        return name if plain else f"{name} ({self.kind})"


@dataclass(slots=True)
class Load:
    """The stages of one load in one run; void ones are kept apart with their reasons."""

    key: LoadKey
    stages: list[int] = field(default_factory=list)
    void: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the runs that are compared."""

    label: str
    run: SavedRun
    report: RunReport
    loads: Mapping[LoadKey, Load]

    @property
    def summary(self) -> SideSummary:
        """How the faces name it."""
        meta = self.run.meta
        return SideSummary(
            label=self.label,
            folder=str(self.run.folder),
            run_id=str(meta.get("run_id")),
            url=str(meta.get("url")),
            model=str(meta.get("model")),
            started_at=self.report.started_at,
            seed="fresh" if meta.get("seed") is None else str(meta.get("seed")),
            valid=self.report.valid,
            knee=self.report.knee,
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """What speaks against the whole run, not only against one of its levels."""
        grave = (Severity.ERROR, Severity.INVALID)
        missing = self.missing_records
        return (
            *(() if missing is None else (missing,)),
            *(
                finding.sentence
                for finding in self.report.validity
                if finding.severity in grave and finding.stage is None
            ),
        )

    @property
    def missing_records(self) -> str | None:
        """That records are still on the workers; None when all are here."""
        kept = kept_elsewhere(self.run)
        if not kept:
            return None
        missing = sum(one.told - one.here for one in kept)
        return (
            f"{count(missing, 'record')} of {count(len(kept), 'worker')} are not in the folder: "
            "bring them there with python -m reports merge"
        )


def read_side(label: str, folder: Path) -> Side:
    """Read and analyse a run.

    Raises:
        RunFileError: it cannot be read.
    """
    return side_of(label, load_run(folder))


def side_of(label: str, run: SavedRun, slo: str | None = None) -> Side:
    """A run that is read already; ``slo`` replaces its own objectives.

    Raises:
        ValueError: ``slo`` cannot be read.
    """
    return with_report(label, run, analyse(run, slo))


def with_report(label: str, run: SavedRun, report: RunReport) -> Side:
    """A run that is analysed already."""
    loads: dict[LoadKey, Load] = {}
    for row in report.stages:
        key = key_of(row)
        load = loads.setdefault(key, Load(key))
        reason = _unusable(row, report)
        if reason is None:
            load.stages.append(row.stage)
        else:
            load.void.append(reason)
    return Side(label, run, report, loads)


def key_of(row: StageRow) -> LoadKey:
    """The load of a stage; an open loop's users are its workers, which are no load."""
    open_loop = row.rate_rps is not None
    kind = "level" if row.kind == "constant" else row.kind
    return LoadKey(
        kind=kind,
        users=0 if open_loop else row.target_users,
        # A rate in tokens has requests/s that follow from it.
        rate_rps=round(row.rate_rps, 9) if row.rate_rps is not None else 0.0,
        rate_tokens_per_s=round(row.rate_tokens_per_s or 0.0, 9),
    )


def _unusable(row: StageRow, report: RunReport) -> str | None:
    where = f"stage {row.stage + 1}"
    if not row.reached:
        return f"{where} was not held"
    if (reason := void_reason(report.validity, row.stage)) is not None:
        return f"{where} is void ({reason})"
    return None


def steady(key: LoadKey) -> bool:
    """Whether a load is a level in a steady state."""
    return key.kind not in NOT_LEVELS or key.kind == "rate"
