"""The constants of one simulated server, and the named sets of them.

Every number of the model lives here; the engine, the limiter and the HTTP face read a `Profile`
and hold no constants of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class LimitKind(StrEnum):
    """How a rate limit gives its budget back."""

    BUCKET = "bucket"  # continuously, up to a burst
    WINDOW = "window"  # all at once, at the start of the next window


class Buffering(StrEnum):
    """What a front does with a stream on its way to the client."""

    OFF = "off"  # passes every chunk on
    ANSWER = "answer"  # holds headers and answer back until it is whole
    ROLE_FIRST = "role-first"  # sends headers and role chunk at once, holds back the rest


class ProfileError(ValueError):
    """A constant outside the range in which the model means something."""

    def __init__(self, field: str, value: object, requirement: str) -> None:
        super().__init__(f"{field} is {value}: it must be {requirement}")
        self.field = field
        self.value = value
        self.requirement = requirement


@dataclass(frozen=True, slots=True)
class Profile:
    """Constants of one server; seconds, tokens, and tokens per second as the names say.

    One engine step lasts `(decode_base_s + decode_per_seq_s * batch + prefill_tokens /
    prefill_tokens_per_s) * leak * drift * overload * jitter`, plus a stall or a cold start if one
    is due; `docs/simulator.md` has the factors.
    None in a limit means that the limit does not exist.
    """

    name: str
    max_num_seqs: int
    prefill_tokens_per_s: float
    decode_base_s: float
    decode_per_seq_s: float
    kv_tokens: int
    max_model_len_tokens: int
    mean_output_tokens: float = 48.0
    prefill_chunk_tokens: int = 2048
    prefix_cache: bool = True
    prefix_block_tokens: int = 16
    rpm: int | None = None
    tpm: int | None = None
    limit_kind: LimitKind = LimitKind.BUCKET
    limit_span_s: float = 60.0  # bucket depth in seconds of refill, or length of the window
    limit_hints: bool = True  # whether refusals tell when to come back, and answers what is left
    max_queue: int | None = None
    max_in_flight: int | None = None
    jitter_ratio: float = 0.0
    cold_start_s: float = 0.0
    idle_after_s: float = 60.0
    stall_probability: float = 0.0
    stall_s: float = 1.0
    drift_depth_ratio: float = 0.0
    drift_period_s: float = 120.0
    leak_percent_per_minute: float = 0.0
    overload_waiting: int | None = None
    overload_slowdown_ratio: float = 0.5
    overload_recovery_s: float = 5.0
    front_slots: int | None = None
    buffering: Buffering = Buffering.OFF
    stream_interval_tokens: int = 1

    def __post_init__(self) -> None:
        for field in (
            "max_num_seqs",
            "kv_tokens",
            "max_model_len_tokens",
            "prefill_chunk_tokens",
            "prefix_block_tokens",
            "stream_interval_tokens",
            "mean_output_tokens",
        ):
            self._require(field, "at least 1", getattr(self, field) >= 1)
        for field in ("prefill_tokens_per_s", "limit_span_s", "drift_period_s"):
            self._require(field, "over 0", getattr(self, field) > 0)
        for field in (
            "decode_base_s",
            "decode_per_seq_s",
            "cold_start_s",
            "idle_after_s",
            "stall_s",
            "overload_recovery_s",
        ):
            self._require(field, "a number of seconds from 0", 0 <= getattr(self, field) < math.inf)
        for field in ("drift_depth_ratio", "leak_percent_per_minute", "overload_slowdown_ratio"):
            self._require(field, "a number from 0", 0 <= getattr(self, field) < math.inf)
        self._require("jitter_ratio", "within 0 and 1", 0 <= self.jitter_ratio <= 1)
        self._require("stall_probability", "within 0 and 1", 0 <= self.stall_probability <= 1)
        for field in ("rpm", "tpm", "max_in_flight", "front_slots", "overload_waiting"):
            limit = getattr(self, field)
            self._require(field, "at least 1, or left out", limit is None or limit >= 1)
        self._require("max_queue", "at least 0", self.max_queue is None or self.max_queue >= 0)

    def _require(self, field: str, requirement: str, holds: bool) -> None:
        if not holds:
            raise ProfileError(field, getattr(self, field), requirement)

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus reply: a sequence must fit the KV memory when it is alone there."""
        return min(self.max_model_len_tokens, self.kv_tokens)


SMALL = Profile(
    # Chosen so that a ramp of a minute shows a knee at 16 streams: one request of 200 prompt and
    # 48 output tokens takes 1.4 s alone (first token after 49 ms) and 2.2 s beside 15 others.
    name="small",
    max_num_seqs=16,
    prefill_tokens_per_s=10_000.0,
    decode_base_s=0.028,
    decode_per_seq_s=0.0006,
    kv_tokens=65_536,
    max_model_len_tokens=8_192,
    jitter_ratio=0.02,
)

DEEPSEEK_V3_8XH200 = Profile(
    # Illustrative: the order of magnitude of one published deployment, not a measurement.
    # Decode: mean TPOT of DeepSeek-R1 (the same network) in FP8 on one 8xH200 node with SGLang
    # was 12.8, 17.2, 25.6 and 34.6 ms at 8, 16, 32 and 64 streams of 1k in, 1k out (InferenceX
    # on GitHub, 870); a least-squares line through the four is 11 ms + 0.38 ms per sequence.
    # Run against the model, these constants give 14.0, 17.3, 24.0 and 37.9 ms for that load.
    # Prefill: 20.5k tokens/s in total on long prompts (GPUStack performance lab, DeepSeek-V3.2 on
    # 8xH200), nearly all of them prompt tokens.
    # KV: the latent is 576 numbers over 61 layers in 2 bytes (config.json of the model), 70 kB a
    # token, held by every GPU; 0.9 of 141 GB less 671 GB / 8 of weights and about 8 GB of
    # activations leaves 35 GB, so half a million tokens.
    # Context length: max_position_embeddings of config.json. Slots: vLLM's long-time default.
    # Block: the 64 tokens that FlashMLA pages hold.
    name="deepseek-v3-8xh200",
    max_num_seqs=256,
    prefill_tokens_per_s=20_000.0,
    decode_base_s=0.011,
    decode_per_seq_s=0.00038,
    kv_tokens=500_000,
    max_model_len_tokens=163_840,
    mean_output_tokens=400.0,
    prefill_chunk_tokens=8_192,
    prefix_block_tokens=64,
    jitter_ratio=0.05,
)

PROVIDER_RPM = Profile(
    # A hosted API as a client sees it: room for everybody, and a limit that more than 10 requests
    # at once or 10 a second run into. Real limits span minutes; a test cannot wait.
    name="provider-rpm",
    max_num_seqs=1_024,
    prefill_tokens_per_s=50_000.0,
    decode_base_s=0.012,
    decode_per_seq_s=0.0,
    kv_tokens=16_000_000,
    max_model_len_tokens=65_536,
    rpm=600,
    limit_span_s=1.0,
    jitter_ratio=0.05,
)

NULL = Profile(
    # No capacity limit and no pacing: what is left is the client and the socket.
    name="null",
    max_num_seqs=100_000,
    prefill_tokens_per_s=math.inf,
    decode_base_s=0.0,
    decode_per_seq_s=0.0,
    kv_tokens=1_000_000_000,
    max_model_len_tokens=1_000_000,
    prefix_cache=False,
    prefill_chunk_tokens=1_000_000_000,
)

# Knees that a test can reach: a request of 200 prompt and 32 output tokens takes 0.3 to 0.5 s
# alone and 0.4 to 0.8 s in a full house, so a level of three requests a user lasts seconds.  The
# steps are as long as that allows, because each token costs client and server their own time.
SLOTS_8 = Profile(
    name="slots-8",
    max_num_seqs=8,
    prefill_tokens_per_s=40_000.0,
    decode_base_s=0.010,
    decode_per_seq_s=0.0005,
    kv_tokens=65_536,
    max_model_len_tokens=8_192,
    mean_output_tokens=32.0,
    jitter_ratio=0.02,
)

SLOTS_16 = replace(SLOTS_8, name="slots-16", max_num_seqs=16, decode_per_seq_s=0.0003)

SLOTS_48 = replace(SLOTS_8, name="slots-48", max_num_seqs=48, decode_per_seq_s=0.0001)

# Memory for 13 to 18 such requests, fewer than there are slots: they are admitted by their prompt
# and grow, so the latest are preempted under load.  Without a prefix cache, which would hide it.
KV_LIMITED = replace(
    SLOTS_16, name="kv-limited", max_num_seqs=64, kv_tokens=3_600, prefix_cache=False
)

# Throughput bends: at 15 streams of 200 in, 32 out one more percent of them gives half a percent
# of throughput.  But none of up to a thousand ever waits.
SOFT = replace(SLOTS_8, name="soft", max_num_seqs=1_024, kv_tokens=1_000_000)

# Nearly straight up to hundreds of streams.
STILL_SCALING = replace(
    SOFT, name="still-scaling", decode_per_seq_s=0.00001, prefill_tokens_per_s=1_000_000.0
)

# 48 slots beside a neighbour that takes up to 15 % for minutes, and stalls for 0.3 s about every
# 6 s.
NOISY = replace(
    SLOTS_48,
    name="noisy",
    jitter_ratio=0.08,
    drift_depth_ratio=0.15,
    stall_probability=0.003,
    stall_s=0.3,
)

PROFILES = {
    profile.name: profile
    for profile in (
        *(SMALL, DEEPSEEK_V3_8XH200, PROVIDER_RPM, NULL),
        *(SLOTS_8, SLOTS_16, SLOTS_48, KV_LIMITED, SOFT, STILL_SCALING, NOISY),
    )
}
