"""Kinds of server: with a knee, without one, and with something that must not be taken for one.

Knees lie off the powers of two that the search climbs, which would flatter it.
"""

from dataclasses import dataclass, field, replace

from metrics.knee import KneeStatus
from simulator.profile import Buffering, Profile
from simulator.workload import Workload

KNEES = frozenset({KneeStatus.KNEE, KneeStatus.GRADUAL_KNEE, KneeStatus.NEAR_TOP})
NONE = frozenset({KneeStatus.NO_KNEE})


@dataclass(frozen=True, slots=True)
class Kind:
    """One server and its users; ``deep_users`` is far above its knee, None if it has none."""

    name: str
    profile: Profile
    deep_users: int | None
    verdicts: frozenset[KneeStatus] = KNEES
    workload: Workload = field(default_factory=Workload)
    precise: bool = True
    """Whether the verdict's number is held against the 10 % bar."""


SERVER = Profile(
    name="bench",
    max_num_seqs=57,
    prefill_tokens_per_s=40_000.0,
    decode_base_s=0.012,
    decode_per_seq_s=0.00005,
    kv_tokens=1_000_000,
    max_model_len_tokens=8_192,
    jitter_ratio=0.03,
    prefix_cache=False,
)
CHAT = Workload(prompt_tokens=256, prompt_cv=0.5, output_tokens=96, output_cv=0.5, rtt_s=0.004)
LONG = replace(CHAT, prompt_tokens=400, prompt_cv=0.8, output_tokens=200, output_cv=0.8)
WIDE = replace(CHAT, output_cv=1.5)
WIDER = replace(CHAT, output_tokens=398, output_cv=1.72)
"""Half of the answers have up to 200 tokens, one in ten over 900."""
CACHED = replace(CHAT, prompt_tokens=2_400, prompt_cv=0.1, prefixes=4, prefix_tokens=2_000)
SHARED = replace(LONG, prefixes=2, prefix_tokens=256, prompt_tokens=500, prompt_cv=0.4)
NOISE = {
    "jitter_ratio": 0.08,
    "drift_depth_ratio": 0.12,
    "drift_period_s": 60.0,
    "stall_probability": 0.0004,
    "stall_s": 0.4,
}

SHAKY = {
    "jitter_ratio": 0.3,
    "decode_base_s": 0.004,
    "stall_probability": 0.002,
    "stall_s": 0.2,
}


def _server(**changes: object) -> Profile:
    return replace(SERVER, **changes)  # type: ignore[arg-type]


def all_kinds() -> tuple[Kind, ...]:
    """Every kind, those with a knee first."""
    wide = {"max_num_seqs": 1_024, "kv_tokens": 10_000_000}
    scaling = _server(**wide, decode_per_seq_s=0.00001, prefill_tokens_per_s=400_000.0)
    limited = frozenset({KneeStatus.RATE_LIMITED})
    capped = frozenset({KneeStatus.INFLIGHT_CAP})
    hidden = frozenset({KneeStatus.HIDDEN_QUEUE})
    ragged = replace(CHAT, prompt_cv=1.0, output_cv=1.0)
    kinds = (
        Kind("5 slots", _server(max_num_seqs=5), 24),
        Kind("19 slots", _server(max_num_seqs=19), 80),
        Kind("57 slots", SERVER, 230),
        Kind("91 slots, soft", _server(max_num_seqs=91, decode_per_seq_s=0.0004), 360),
        Kind("45 slots, noisy neighbour", _server(max_num_seqs=45, **NOISE), 180),
        Kind(
            "KV memory, preemption", _server(max_num_seqs=256, kv_tokens=20_000), 150, KNEES, LONG
        ),
        Kind(
            "KV memory, prefix cache",
            _server(max_num_seqs=256, kv_tokens=24_000, prefix_cache=True),
            200,
            KNEES,
            SHARED,
        ),
        Kind(
            "prefill-bound",
            _server(max_num_seqs=24, prefill_tokens_per_s=25_000.0),
            100,
            KNEES,
            replace(CHAT, prompt_tokens=4_000, prompt_cv=0.3, output_tokens=64),
        ),
        Kind(
            "30 slots, think time 3 s",
            _server(max_num_seqs=30),
            400,
            KNEES,
            replace(CHAT, think_s=3.0),
        ),
        Kind("30 slots, wide lengths", _server(max_num_seqs=30), 120, KNEES, WIDE),
        Kind("57 slots, wider lengths", SERVER, 230, KNEES, WIDER),
        Kind(
            "5 slots, think time 30 s",
            _server(max_num_seqs=5),
            250,
            KNEES,
            replace(CHAT, think_s=30.0),
        ),
        Kind(
            "4 slots, cached prefixes, cold start",
            _server(
                max_num_seqs=4, prefix_cache=True, prefill_tokens_per_s=4_000.0, cold_start_s=8.0
            ),
            20,
            KNEES,
            CACHED,
        ),
        Kind("4 slots, jitter and stalls", _server(max_num_seqs=4, **SHAKY), 20),
        Kind("gateway with 40 slots", _server(**wide, front_slots=40), 160),
        Kind("cap above the knee", _server(max_num_seqs=43, max_in_flight=80), 75),
        Kind(
            "20 slots, cap of 24",
            _server(max_num_seqs=20, max_in_flight=24),
            23,
            KNEES | capped,
            precise=False,
        ),
        Kind("knee near the top", _server(max_num_seqs=205), 600),
        Kind(
            "buffering proxy, 30 slots",
            _server(max_num_seqs=30, buffering=Buffering.ANSWER),
            120,
            hidden,
            precise=False,
        ),
        Kind(
            "8 slots, answers of 3 tokens",
            _server(max_num_seqs=8),
            40,
            KNEES,
            replace(CHAT, prompt_tokens=4_000, output_tokens=3, output_cv=0.0),
            precise=False,
        ),
        Kind("soft, no queue", _server(**wide, decode_per_seq_s=0.0003), None, NONE),
        Kind("still scaling", scaling, None, NONE),
        Kind("still scaling, noisy", replace(scaling, **NOISE), None, NONE, ragged),
        Kind("RPM limit", _server(**wide, rpm=900, limit_span_s=10.0), None, limited),
        Kind("TPM limit", _server(**wide, tpm=240_000, limit_span_s=10.0), None, limited),
        Kind("in-flight cap", _server(**wide, max_in_flight=24), None, capped),
        Kind("in-flight cap of 4", _server(**wide, max_in_flight=4), None, capped),
    )
    return tuple(
        replace(kind, workload=CHAT) if kind.workload == Workload() else kind for kind in kinds
    )
