"""Decides whether a failed attempt is made again, and after which wait.

Pure: how the attempt ended and the source of chance are handed in. Who asks keeps the ledger and
the retry budget.
"""

import random
import re
from dataclasses import dataclass

from metrics.outcome import Outcome
from settings import Settings
from workloads.backoff import Backoff
from workloads.retry_statuses import RETRY_STATUSES

_BEFORE_FIRST_BYTE = frozenset(
    {Outcome.CONNECT_ERROR, Outcome.CONNECT_TIMEOUT, Outcome.INTERRUPTED}
)
_BY_STATUS = frozenset(
    {Outcome.RATE_LIMITED, Outcome.OVERLOADED, Outcome.SERVER_ERROR, Outcome.CLIENT_ERROR}
)
_JITTER_RATIO = 0.1
_LEAST_JITTER_S = 0.05
_AT_ONCE_JITTER_S = 0.2
"""For an asked wait of 0: everyone was told the same, and nobody waits 200 ms in vain."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt ended, as far as retrying it goes; times are seconds."""

    outcome: Outcome
    status: int | None
    """Of the HTTP response; None when no head of one has arrived."""
    output_seen: bool
    """Whether any generated token has arrived."""
    asked_wait_s: float | None = None
    """The wait that the server asks for."""
    hinted_wait_s: float | None = None
    """When the budget that is used up resets; counts when the server asks for no wait."""
    error_status: int | None = None
    """The status named by an error event inside a stream: see ``status_in_code``."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after ``wait_s`` seconds. ``asked_wait_s`` is the wait that the server asked for or
    hinted at, and None when the wait is the backoff's own."""

    wait_s: float
    asked_wait_s: float | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again. ``reason`` is None for an end that is never retried, or when retries are
    off: there is nothing to say."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Which ends are retried, how often and how patiently.

    Retried are the statuses of the list, an error event with such a status that comes first in a
    stream, and connections lost before the first byte of an answer. Nothing is retried once a
    generated token has arrived: it would be paid twice, and the reader has begun to read.

    Never retried are an exhausted quota, a rejected key and a prompt that is too long, because the
    same request gets the same answer; TLS errors and a client out of descriptors or ports, because
    they are faults of the set-up. Nor is a limit of ours that ran out after the connection stood
    (first token, idle, total): the server may be working on that request still, so that another
    would add load to an endpoint that is only slow, and being slow is what the test is to find.
    """

    retries: int
    """At most so many after the first attempt; 0 is off."""
    backoff: Backoff
    cap_s: float
    """The longest wait of a server that is obeyed; jitter comes on top of it."""
    statuses: frozenset[int] = RETRY_STATUSES

    def decide(
        self, end: AttemptEnd, retry: int, previous_s: float, chance: random.Random
    ) -> Retry | GiveUp:
        """What to do after ``end``.

        Args:
            retry: the number that the next retry would have, from 1.
            previous_s: the wait before the last retry in seconds; 0 before the first.
            chance: of the jitter.
        """
        if self.retries == 0 or not self._retried(end):
            return GiveUp(None)
        if retry > self.retries:
            used = f"all {self.retries} retries were" if self.retries > 1 else "the only retry was"
            return GiveUp(f"{used} used")
        if end.asked_wait_s is not None:
            says = "the server asks for a wait of"
            return self._obey(end.asked_wait_s, says, chance)
        if end.hinted_wait_s is not None:
            return self._obey(end.hinted_wait_s, "the server's rate limit resets in", chance)
        wait_s = self.backoff.wait_s(retry, previous_s, chance)
        if wait_s is None:
            return GiveUp("the server asked for no wait, and the backoff 'server' has none itself")
        return Retry(wait_s, None)

    def _retried(self, end: AttemptEnd) -> bool:
        if end.output_seen:
            return False
        if end.outcome in _BEFORE_FIRST_BYTE:
            return end.status is None
        if end.outcome is Outcome.STREAM_ERROR:
            return end.error_status in self.statuses
        return end.outcome in _BY_STATUS and end.status in self.statuses

    def _obey(self, asked_s: float, says: str, chance: random.Random) -> Retry | GiveUp:
        """The asked wait replaces the backoff, with jitter only upwards: whoever comes earlier is
        refused again."""
        if asked_s > self.cap_s:
            return GiveUp(f"{says} {asked_s:g} s, over --retry-cap {self.cap_s:g} s")
        most_s = max(_LEAST_JITTER_S, _JITTER_RATIO * asked_s) if asked_s else _AT_ONCE_JITTER_S
        return Retry(asked_s + chance.random() * most_s, asked_s)


def retry_policy(settings: Settings) -> RetryPolicy:
    """The policy that the options describe."""
    retrying = settings.retrying
    return RetryPolicy(retrying.retries, retrying.backoff, retrying.cap_s, retrying.statuses)


def status_in_code(code: str | None) -> int | None:
    """The HTTP status that an error's code is, such as ``"503"``; None for a name."""
    return int(code) if code is not None and re.fullmatch(r"[45][0-9]{2}", code) else None
