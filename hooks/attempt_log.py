"""The attempts on the wire of a run under way, as the search for limits takes them."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from metrics.limits_attempts import LET_IN, TOLD, Attempts, known, unread
from metrics.outcome import Outcome
from metrics.record import RequestRecord


class AttemptLog:
    """Fed with the reports of one run.

    Workers' clocks are aligned by the first announcement, which all of them note.
    """

    def __init__(self) -> None:
        self._origin_s: dict[str, float] = {}
        self._rows: list[tuple[int | None, str, list[float]]] = []

    def accept(self, report: Mapping[str, Any]) -> None:
        """One worker's report: its rows and phase marks."""
        for mark in report["marks"]:
            self._origin_s.setdefault(mark["worker"], mark["at_s"])
        for row in report["rows"]:
            self._add(RequestRecord.from_row(row))

    def attempts(self, stage: int | None = None) -> Attempts:
        """Those of a stage, or of the whole run. Each ``reset`` is the shorter of the two told."""
        rows = [
            (self._origin_s.get(worker, 0.0), values)
            for of_stage, worker, values in self._rows
            if stage is None or of_stage == stage
        ]
        origin_s = np.array([origin for origin, _ in rows])
        table = np.array([values for _, values in rows]).reshape(len(rows), 7 + len(TOLD))
        left = table[:, 4] > 0
        kept = ~unread(table[:, 0], table[:, 1], table[:, 3] > 0, left)
        table, origin_s = table[kept], origin_s[kept]
        told = {name: known(table[:, 7 + n]) for n, name in enumerate(TOLD)}
        return Attempts(
            sent_s=table[:, 0] - origin_s,
            ended_s=table[:, 1] - origin_s,
            accepted=table[:, 2] > 0,
            limited=table[:, 3] > 0,
            retry_after_s=known(table[:, 5]),
            reset_requests_s=known(table[:, 6]),
            **told,
        )

    def _add(self, record: RequestRecord) -> None:
        if not record.attempts:
            return
        began_s = record.started_s
        lost = zip_longest(record.lost_sent_s, record.lost_end_s, record.lost_status)
        for sent_s, end_s, status in lost:
            self._keep(record, began_s + sent_s, began_s + end_s, status or None, last=False)
        sent_s = began_s + (record.last_sent_s or 0.0)
        self._keep(record, sent_s, sent_s + record.end_s, record.status, last=True)

    def _keep(
        self, record: RequestRecord, sent_s: float, end_s: float, status: int | None, last: bool
    ) -> None:
        let_in = last and status is None and record.outcome in LET_IN
        accepted = let_in or (status is not None and 200 <= status < 300)
        only_last = record.reset_s if last else None
        values = [record.asked_wait_s if status == 429 else None, only_last]
        for name in TOLD:
            of_request = name in ("prompt_tokens", "asked_max_tokens")
            values.append(getattr(record, name) if last or of_request else None)
        left = last and status is None and record.outcome is Outcome.CANCELLED
        flags = [float(accepted), float(status == 429), float(left)]
        numbers = [float("nan") if value is None else float(value) for value in values]
        self._rows.append(
            (record.stage, record.worker, [sent_s, max(sent_s, end_s), *flags, *numbers])
        )
