"""What the server truly did with each request, one JSON line each: the oracle's testimony.

Durations are seconds from `received_monotonic_s`, on the clock all processes of a machine share
(`time.monotonic`).  The log holds header names and hashes of text, never a header's value (but the
request id) and never a prompt.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from simulator.events import QueueEvent


class Outcome(StrEnum):
    OK = "ok"
    REJECTED = "rejected"  # answered with an error status
    CANCELLED = "cancelled"  # the client hung up
    ERROR = "error"  # the server broke it off


@dataclass(slots=True)
class LogEntry:
    """One request; None where a thing did not happen or was not sent."""

    id: str
    received_at: str
    received_monotonic_s: float
    status: int | None = None
    error_code: str | None = None
    stream: bool | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    finish_reason: str | None = None
    outcome: Outcome | None = None
    queued_s: float | None = None
    front_s: float | None = None
    queue_s: float | None = None
    held_s: float | None = None
    admitted_s: float | None = None
    first_sent_s: float | None = None
    last_sent_s: float | None = None
    end_s: float | None = None
    chunk_sent_s: list[float] = field(default_factory=list)
    queued_behind: int | None = None
    running_at_arrival: int | None = None
    connection: str | None = None
    system_sha256: str | None = None
    user_sha256: str | None = None
    max_tokens: int | None = None
    headers: list[str] = field(default_factory=list)
    request_id: str | None = None


def short_sha256(text: str | None) -> str | None:
    """First 16 hex digits of the hash of a text; None for none."""
    if text is None:
        return None
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def utc_now() -> str:
    """Wall clock as ISO 8601, a label only."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class _Lines:
    """Appends JSON lines to a file, each flushed when written; without a path it drops them."""

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = None
        if path is not None:
            self._file = path.open("a", buffering=1, encoding="utf-8")

    def _append(self, line: LogEntry | QueueEvent) -> None:
        if self._file is not None:
            self._file.write(json.dumps(asdict(line)) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class RequestLog(_Lines):
    """One line per request."""

    def write(self, entry: LogEntry) -> None:
        """Append one entry."""
        self._append(entry)


class QueueTrace(_Lines):
    """One line per beginning or end of a queue; `at_s` is on the clock of the log."""

    def write(self, event: QueueEvent) -> None:
        """Append one event."""
        self._append(event)
