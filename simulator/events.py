"""What goes into the engine and what comes out of it.  All times are seconds of its clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simulator.limiter import Denial
from simulator.prefix_cache import BlockKey


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request as the capacity model sees it: sizes, and keys of the prompt's full blocks.

    `charged_tokens` is what the token limit counts, normally prompt plus asked maximum.
    """

    request_id: str
    prompt_tokens: int
    output_tokens: int
    block_keys: tuple[BlockKey, ...] = ()
    charged_tokens: int = 0


class RefusalReason(StrEnum):
    RATE_LIMITED = "rate_limited"
    TOO_MANY_IN_FLIGHT = "too_many_in_flight"
    QUEUE_FULL = "queue_full"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was not taken; `denial` only if a rate limit was the reason."""

    reason: RefusalReason
    denial: Denial | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The answer to `submit`: counts before this request, and a refusal or None."""

    waiting_before: int
    running_before: int
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class AdmitEvent:
    """A waiting request got a slot for the first time."""

    request_id: str
    at_s: float
    queue_s: float
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class PreemptEvent:
    """A running request lost its slot and its KV memory; what it has said stands."""

    request_id: str
    at_s: float


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One output token; `ordinal` counts from 1.

    `since_previous_s` is the time since the previous token, or since arrival for the first.
    """

    request_id: str
    at_s: float
    ordinal: int
    since_previous_s: float


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The last token was given at `at_s`; `elapsed_s` counts from arrival."""

    request_id: str
    at_s: float
    elapsed_s: float
    output_tokens: int


Event = AdmitEvent | PreemptEvent | TokenEvent | FinishEvent


@dataclass(slots=True)
class EngineCounters:
    """Totals since the start; tokens of a prompt count once its prefill is done."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    steps: int = 0
