"""The constants of one simulated server, and the named sets of them.

Every number of the model lives here; the engine, the limiter and the HTTP face read a `Profile`
and hold no constants of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class LimitKind(StrEnum):
    """How a rate limit gives its budget back."""

    BUCKET = "bucket"  # continuously, up to a burst
    WINDOW = "window"  # all at once, at the start of the next window


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
    prefill_tokens_per_s) * jitter`, plus a stall or a cold start if one is due.
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
    max_queue: int | None = None
    max_in_flight: int | None = None
    jitter_ratio: float = 0.0
    cold_start_s: float = 0.0
    idle_after_s: float = 60.0
    stall_probability: float = 0.0
    stall_s: float = 1.0
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
        for field in ("prefill_tokens_per_s", "limit_span_s"):
            self._require(field, "over 0", getattr(self, field) > 0)
        for field in ("decode_base_s", "decode_per_seq_s", "cold_start_s", "idle_after_s"):
            self._require(field, "a number of seconds from 0", 0 <= getattr(self, field) < math.inf)
        self._require("stall_s", "a number of seconds from 0", 0 <= self.stall_s < math.inf)
        self._require("jitter_ratio", "within 0 and 1", 0 <= self.jitter_ratio <= 1)
        self._require("stall_probability", "within 0 and 1", 0 <= self.stall_probability <= 1)
        for field in ("rpm", "tpm", "max_in_flight"):
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

PROFILES = {profile.name: profile for profile in (SMALL, DEEPSEEK_V3_8XH200, PROVIDER_RPM, NULL)}
