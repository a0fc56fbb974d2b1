"""What the master knows of the run under way, and how it is saved."""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hooks.run_folder import RunFolder
from hooks.run_identity import run_identity
from metrics.run_files import SPOOL_FOLDER, stage_to_wire
from metrics.spool import Numbers
from metrics.stage import COLD_STAGE, Phase, Stage
from metrics.tally import TallyBook
from settings import Settings
from shapes.bounded import BoundedPlan

NO_WORKER_LEFT = "no worker was left"

log = logging.getLogger("swarmgauge")


class RunState:
    """One run: its identity, the merged tallies, the marks, and the workers that took part."""

    def __init__(
        self,
        *,
        run_id: str,
        name: str,
        started_at: datetime,
        folder: RunFolder,
        settings: Settings,
        salt: str,
        prefix_hashes: Sequence[str],
        preflight: dict[str, Any],
        plan: BoundedPlan,
    ) -> None:
        self.run_id = run_id
        self.name = name
        self.started_at = started_at
        self.folder = folder
        self.settings = settings
        self.salt = salt
        self.prefix_hashes = tuple(prefix_hashes)
        self.preflight = preflight
        self.plan = plan
        self.model = str(preflight["model"])
        self.notices = [str(notice) for notice in preflight.get("notices") or ()]
        self.book = TallyBook()
        self.marks: list[dict[str, Any]] = []
        self.workers: dict[str, str] = {}
        self.lost: set[str] = set()
        self.wall_clocks: dict[str, tuple[float, float]] = {}
        """Each worker's wall clock minus the master's, and how far off that may be, seconds."""
        self.away: dict[str, list[dict[str, Any]]] = {}
        """The stages in which a worker was away for a while."""
        self.heard_in: dict[str, int | None] = {}
        """The stage that was under way at each worker's last report; None before the first."""
        self._in_flight: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._series: list[dict[str, Any]] = []
        self._reports: dict[str, Numbers] = {}
        self._told: Counter[str] = Counter()
        self._without_spool: set[str] = set()
        self.last_phase: dict[str, Any] | None = None
        self.end_reason: str | None = None
        self._search_ended: str | None = None
        self.ended_at: datetime | None = None

    @property
    def in_flight(self) -> int | None:
        """Requests of the fleet under way at the last reports; None before the first."""
        return sum(self._in_flight.values()) if self._in_flight else None

    @property
    def pending(self) -> int:
        """Logical requests of the fleet begun and not over, those that wait to retry among them."""
        return sum(self._pending.values())

    def accept(self, report: dict[str, Any]) -> None:
        """Add one worker's report."""
        self.workers.setdefault(report["worker"], report["host"])
        self.heard_in[report["worker"]] = self.last_phase["stage"] if self.last_phase else None
        self._in_flight[report["worker"]] = report.get("in_flight", 0)
        self._pending[report["worker"]] = report.get("pending", 0)
        self._series.extend(report.get("health") or ())
        self.folder.append(report["rows"])
        self.marks.extend(report["marks"])
        tallies = TallyBook.from_wire(report["tallies"])
        if self.settings.records_on_workers:
            self._told[report["worker"]] += tallies.total().offered
        self.book.merge(tallies)
        if (why := report.get("spool_trouble")) and report["worker"] not in self._without_spool:
            self._without_spool.add(report["worker"])
            text = f"worker {report['worker']} cannot write its spool any more: {why}"
            log.warning("%s; what it measures from now on is kept here alone", text)
            self.notices.append(text)
        if number := report.get("report"):
            self._reports.setdefault(report["worker"], Numbers()).add(number)

    def no_worker_left(self) -> None:
        """The run ends because nobody is left to send its requests."""
        if self.end_reason is None and self.plan.stage_count is None:
            self._search_ended = NO_WORKER_LEFT
        elif self.end_reason is None:
            self.end_reason = NO_WORKER_LEFT

    def end(self, finals: set[str], stopped_by_hand: bool) -> None:
        """The run is over: note who is missing and how it ended, and save."""
        self.ended_at = datetime.now(UTC)
        self.lost = set(self.workers) - finals
        if self.end_reason is None:
            # A search has no length either, but it has an end.
            unlimited = self.plan.expected_s is None and self.plan.stage_count is not None
            ended = "stopped" if stopped_by_hand or unlimited else "interrupted"
            self.end_reason = "finished" if unlimited else ended
        if left_out := self.folder.rows_left_out:
            self.notices.append(f"{left_out:,} rows are missing here: {self.folder.unwritable}")
        try:
            self.save()
        except OSError as error:
            log.error("the end of the run could not be written, what was before is kept: %s", error)
        finally:
            self.folder.close()

    def save(self) -> None:
        """Write ``run.json`` and ``stages.json`` as things are now."""
        plan = self.plan
        reports = {worker: numbers.to_wire() for worker, numbers in self._reports.items()}
        self.folder.write_stages(
            self.marks, self.book, plan.not_reached, self._series, plan.void_reasons, reports
        )
        self.folder.write_run(self._values())

    def describe(self, stage: Stage, phase: Phase, users: int) -> str:
        """One line of progress."""
        if phase is Phase.DRAIN:
            return "drain: waiting for the answers under way"
        if stage.id == COLD_STAGE:
            return "cold start: waiting idle" if phase is Phase.IDLE else "cold start: asking"
        if phase is Phase.IDLE:
            why = "so that what went wrong may settle"
            if self.settings.shape == "limits":
                why = "because next to nothing was let through"
            return f"stage {stage.id + 1}: waiting idle, {why}"
        stages = self.plan.stage_count
        of_stages = "" if stages is None else f"/{stages}"
        load = _users(users) if stage.rate_rps is None else stage.load
        what = {
            Phase.RAMP: f"going from {users} to {_users(stage.target_users)}",
            Phase.SETTLE: f"{load}, settling",
            Phase.HOLD: f"{load}, measuring",
        }[phase]
        counts = self.book.total()
        return (
            f"stage {stage.id + 1}{of_stages}: {what} "
            f"({counts.ok} ok, {counts.failed} failed, {counts.rate_limited_attempts} x 429 so far)"
        )

    def _clock(self, worker: str) -> dict[str, float | None]:
        offset_s, error_s = self.wall_clocks.get(worker, (None, None))
        return {"wall_offset_s": offset_s, "wall_offset_error_s": error_s}

    def _kept_there(self, worker: str) -> dict[str, Any]:
        """Where the rows are that this worker told of but did not hand on."""
        if not self.settings.records_on_workers:
            return {}
        spool = f"{self.folder.path.name}/{SPOOL_FOLDER}/{worker}.jsonl"
        return {"requests": self._told[worker], "spool": spool}

    def _early_end(self) -> dict[str, Any]:
        order = self.plan.ended_early
        return {} if order is None else {"ended_early": order.reason, "ended_by": order.kind.value}

    def _values(self) -> dict[str, Any]:
        settings = self.settings
        search_ended = self._search_ended or self.plan.ended_by
        return {
            **run_identity(settings, self.run_id, self.model, self.salt, self.prefix_hashes),
            "name": self.name,
            "started_at": self.started_at.isoformat(timespec="milliseconds"),
            "ended_at": self.ended_at.isoformat(timespec="milliseconds") if self.ended_at else None,
            "complete": self.end_reason == "finished",
            "end_reason": self.end_reason,
            **({"search_ended": search_ended} if search_ended else {}),
            **self._early_end(),
            "stage_plan": [stage_to_wire(stage) for stage in self.plan.stages],
            "workers": [
                {
                    "id": worker,
                    "index": index,
                    "host": host,
                    "lost": worker in self.lost,
                    **self._clock(worker),
                    **self._kept_there(worker),
                    "away": self.away.get(worker) or [],
                }
                for index, (worker, host) in enumerate(sorted(self.workers.items()))
            ],
            "notices": list(self.notices),
            "preflight": {
                "requests": self.preflight.get("requests", 0),
                "include_usage": self.preflight.get("include_usage"),
            },
            "proxy": self.preflight.get("proxy"),
        }


def _users(number: int) -> str:
    return f"{number} user" + ("" if number == 1 else "s")
