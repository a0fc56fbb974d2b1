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
    """The answer to `submit`: counts before this request, and a refusal or None.

    `waiting_before` counts both queues, the engine's and the front's.
    """

    waiting_before: int
    running_before: int
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class AdmitEvent:
    """A waiting request got a slot for the first time.

    `queue_s` is its time in the engine's queue.  `held_s` is the part of it after the end of the
    step that was under way when it came: 0 for a request that waited for nothing but that step.
    `front_s` is the time before, in the queue of the front; 0 without one.
    """

    request_id: str
    at_s: float
    queue_s: float
    cached_tokens: int
    held_s: float = 0.0
    front_s: float = 0.0


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


class QueueName(StrEnum):
    ENGINE = "engine"  # requests that a step's start left without a slot
    FRONT = "front"  # requests that the front keeps from the engine


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """A queue became non-empty, or empty again (`waiting` is 0).

    `running` is the number of slots in use, `in_flight` all requests that have not ended.
    """

    queue: QueueName
    at_s: float
    waiting: int
    running: int
    in_flight: int


Event = AdmitEvent | PreemptEvent | TokenEvent | FinishEvent | QueueEvent


@dataclass(slots=True)
class EngineCounters:
    """Totals since the start; tokens of a prompt count once its prefill is done."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    steps: int = 0
