"""The master's side of ``--max-requests``: when every worker has sent its share, the run ends."""

from collections.abc import Collection, Sequence
from typing import Any

from locust.runners import Runner

from hooks import messages
from workloads.arrivals import count_share


class RequestShares:
    """Who has sent its share in the run under way."""

    def __init__(self, runner: Runner) -> None:
        self._run_id = ""
        self._total = 0
        self._shares: dict[str, int] = {}
        self._used: set[str] = set()
        runner.register_message(messages.SHARE_USED, self._on_used)

    def begin(self, run_id: str, total: int, fleet: Sequence[str]) -> None:
        """A run of ``total`` requests begins; 0: without a bound."""
        self._run_id, self._total, self._used = run_id, total, set()
        self._shares = {
            client_id: count_share(total, place, len(fleet))
            for place, client_id in enumerate(fleet)
        }

    def used_up(self, alive: Collection[str]) -> str | None:
        """Why the run is to end, when all that are alive have sent their shares; else None."""
        if not self._total or set(alive) & set(self._shares) - self._used:
            return None
        lost = sum(share for worker, share in self._shares.items() if worker not in self._used)
        if not lost:
            return f"all {self._total:,} requests of --max-requests were sent"
        return (
            f"{self._total - lost:,} of the {self._total:,} requests of --max-requests were sent, "
            f"and some of the {lost:,} that were the share of a worker that was lost"
        )

    def _on_used(self, environment: Any, msg: Any, **_: Any) -> None:
        if msg.data["run_id"] == self._run_id:
            self._used.add(msg.data["client_id"])
