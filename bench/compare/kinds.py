"""Servers and loads on which comparisons are tried, and in what the second run may differ."""

from dataclasses import dataclass, replace

from bench.knee.kinds import NOISE, SERVER
from simulator.profile import SMALL, Profile
from simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class Kind:
    """One server under one ladder of levels, each held for so long.

    ``fair`` is False where the intervals are known not to hold, which the page says.
    """

    name: str
    profile: Profile
    workload: Workload
    users: tuple[int, ...] = (4, 12, 24)
    hold_s: float = 60.0
    fair: bool = True


CHAT = Workload()
LONGER = Workload(prompt_tokens=256, prompt_cv=0.5, output_tokens=96, output_cv=0.5)


def all_kinds() -> tuple[Kind, ...]:
    """Every kind; below, at and above the number of slots."""
    memory = replace(SERVER, max_num_seqs=256, kv_tokens=20_000)
    kv_chat = replace(LONGER, prompt_tokens=400, output_tokens=200, prompt_cv=0.8, output_cv=0.8)
    slots = replace(SERVER, max_num_seqs=19)
    return (
        Kind("16 slots", SMALL, CHAT),
        Kind("16 slots, held for 20 s", SMALL, CHAT, hold_s=20.0),
        Kind("19 slots, wide lengths", slots, replace(LONGER, output_cv=1.5), (8, 16, 40)),
        Kind("19 slots, think time 3 s", slots, replace(LONGER, think_s=3.0), (16, 48)),
        Kind("KV memory, preemption", memory, kv_chat, (16, 64), 90.0),
        Kind("429s above 10 requests/s", replace(SMALL, rpm=420, limit_span_s=5.0), CHAT, (8, 24)),
        Kind(
            "noisy neighbour, turns of 60 s",
            replace(slots, **NOISE),  # type: ignore[arg-type]
            LONGER,
            (8, 16, 40),
            fair=False,
        ),
    )


def slower(profile: Profile, times: float) -> Profile:
    """The same server with decode steps that take so many times as long."""
    return replace(
        profile,
        decode_base_s=profile.decode_base_s * times,
        decode_per_seq_s=profile.decode_per_seq_s * times,
    )
