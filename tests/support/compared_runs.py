"""Built runs to be compared: users who ask one after the other, with times drawn from a seed."""

from dataclasses import replace

import numpy as np

from reports.comparison.sides import read_side
from tests.support.records import failed_record, make_record
from tests.support.run_builder import META, build_run

HOLD_S = 60.0


def asked(
    seed,
    levels=(4,),
    hold_s=HOLD_S,
    ttft_s=0.1,
    tpot_s=0.02,
    tokens=20,
    fails=0,
    spread=1.0,
    **changes,
):
    """Records of every level: each user asks, waits for about half a second, and asks again."""
    rng = np.random.default_rng(seed)
    records = []
    for stage, users in enumerate(levels):
        for user in range(users):
            at_s = stage * hold_s + 0.1 * user
            while at_s < (stage + 1) * hold_s - 0.5:
                first_s = ttft_s * float(rng.lognormal(0, 0.1 * spread))
                each_s = tpot_s * float(rng.lognormal(0, 0.05 * spread))
                last_s = first_s + each_s * (tokens - 1)
                values = {
                    "user": user,
                    "stage": stage,
                    "started_s": round(at_s, 6),
                    "ttft_s": first_s,
                    "ttfa_s": first_s,
                    "last_token_s": last_s,
                    "end_s": last_s,
                    "user_ttft_s": first_s,
                    "user_latency_s": last_s,
                    "chunks": tokens,
                    "completion_tokens": tokens,
                    "max_gap_s": each_s * float(rng.uniform(1.0, 1.5)),
                }
                records.append({**values, **changes})
                at_s += last_s
    records.sort(key=lambda values: values["started_s"])
    made = [make_record(**{**values, "sequence": n}) for n, values in enumerate(records)]
    for place in np.linspace(0, len(made) - 1, fails).astype(int):
        old = made[place]
        made[place] = failed_record(
            sequence=old.sequence, stage=old.stage, user=old.user, started_s=old.started_s
        )
    return made


def saved(folder, seed=1, levels=(4,), hold_s=HOLD_S, records=None, settings=None, **options):
    """A saved run of its own id; ``options`` go to the records, or into ``run.json`` if known."""
    meta = {key: options.pop(key) for key in list(options) if key in META or key == "proxy"}
    meta.setdefault("run_id", folder.name)
    meta.setdefault("salt", str(seed))
    if settings is not None:
        meta["settings"] = {**META["settings"], **settings}
    if records is None:
        records = asked(seed, levels, hold_s, **options)
    return build_run(folder, records, levels=levels, hold_s=hold_s, **meta)


def two_sides(tmp_path, first=None, second=None):
    """Two runs read as A and B; each takes what ``saved`` takes."""
    folders = [
        saved(tmp_path / name, **{"seed": seed, **(options or {})})
        for name, seed, options in (("a", 1, first), ("b", 2, second))
    ]
    return tuple(read_side(label, folder) for label, folder in zip("AB", folders, strict=True))


def retold(side, label="B", settings=None, **meta):
    """The same run as another one that tells something else in ``run.json``."""
    told = {**side.run.meta, "run_id": f"{label}-retold", **meta}
    if settings is not None:
        told["settings"] = {**told["settings"], **settings}
    return replace(side, label=label, run=replace(side.run, meta=told))
