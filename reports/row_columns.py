"""The columns of request rows: what type each has, and which of them the figures are read from."""

from collections.abc import Mapping
from enum import StrEnum

import pyarrow as pa

from metrics.outcome import Outcome, ReadMode, StampSource, TokenSource
from metrics.record import FIELD_NAMES, SEVERAL
from metrics.stage import Phase

NUMBERS = (
    "started_s",
    "schedule_delay_s",
    "client_wait_s",
    "connect_s",
    "headers_s",
    "ttft_s",
    "ttfa_s",
    "last_token_s",
    "end_s",
    "user_ttft_s",
    "user_latency_s",
    "think_s",
    "max_gap_s",
    "retry_wait_s",
    "asked_wait_s",
    "client_delay_s",
    "reset_s",
    "ttft_late_max_s",
    "noticed_late_s",
)
WHOLE = (
    "user",
    "sequence",
    "stage",
    "turn",
    "chunks",
    "keepalives",
    "tool_calls",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "asked_max_tokens",
    "status",
    "attempts",
    "rate_limited_attempts",
    "wasted_tokens",
    "wasted_prompt_tokens",
    "connections_opened",
    "reconnects",
    "sent_bytes",
    "received_bytes",
    "merged_reads",
    "in_flight_at_send",
    "limit_requests",
    "remaining_requests",
    "limit_tokens",
    "remaining_tokens",
)
FLAGS = ("streamed", "stream_asked", "buffered", "saw_done", "connection_reused")
ONE_OF: Mapping[str, type[StrEnum]] = {
    "phase": Phase,
    "outcome": Outcome,
    "token_source": TokenSource,
    "stamp_source": StampSource,
    "read_mode": ReadMode,
}
"""Texts that are one of a few."""
_EACH_ITS_OWN = ("prompt_id", "started_at", "error_sample", "request_id")
ROW_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(FIELD_NAMES, pa.dictionary(pa.int32(), pa.string())),
    **dict.fromkeys(_EACH_ITS_OWN, pa.string()),
    **dict.fromkeys(NUMBERS, pa.float64()),
    **dict.fromkeys(WHOLE, pa.int64()),
    **dict.fromkeys(FLAGS, pa.bool_()),
    **{name: pa.list_(pa.int64() if name == "lost_status" else pa.float64()) for name in SEVERAL},
}
"""In memory: a text that many rows share is kept once."""
UNREAD = frozenset(
    {
        "run_id",
        "traffic_class",
        "prompt_id",
        "prefix_id",
        "turn",
        "headers_s",
        "keepalives",
        "saw_done",
        "tool_calls",
        "reasoning_tokens",
        "sent_bytes",
        "received_bytes",
        "served_by",
        "request_id",
        "in_flight_at_send",
    }
)
"""Fields that no figure is read from: kept on disk, and of a million rows a third of the memory."""
READ_NAMES = tuple(name for name in FIELD_NAMES if name not in UNREAD)
