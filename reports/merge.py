"""``python -m reports merge RUN SPOOL ...``: adds what only the spools still hold.

The spools are copied into the run's folder first, so that a later merge has them all again. What
the folder held before is kept under names with ``before-merge``.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metrics.run_files import (
    REQUESTS_PARQUET,
    RUN_JSON,
    RUN_SCHEMA,
    SPOOL_FOLDER,
    STAGES_JSON,
    STAGES_SCHEMA,
    mark_to_wire,
)
from metrics.spool import Spool
from metrics.spool_merge import Added, Measured, merge_spools
from reports.merge_input import (
    known_of,
    one_run,
    open_spool,
    read_json,
    refuse_while_it_runs,
    spool_paths,
)
from reports.parquet import replace_parquet
from reports.row_lines import table_of_records
from reports.whole_files import write_whole

BEFORE = "before-merge"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did. ``run_is_new`` when the folder had no ``run.json``."""

    added: Mapping[str, Added]
    empty: tuple[str, ...]
    """Spools that end before they tell of a run."""
    run_is_new: bool

    def lines(self) -> list[str]:
        """It in words: a line for each worker, and for what is out of the ordinary."""
        said = [f"worker {worker}: {_of_worker(added)}" for worker, added in self.added.items()]
        said += [f"{name}: tells of no run, so nothing was added from it" for name in self.empty]
        if self.run_is_new:
            said.append(
                f"{RUN_JSON} was missing: it was made anew from the spools, as far as they know"
            )
        return said


def _of_worker(added: Added) -> str:
    n = added.requests
    text = f"{n:,} request{'' if n == 1 else 's'}, "
    return text + (f"{added.new_requests:,} of them new" if added.new_requests else "none new")


def merge(folder: Path, given: Sequence[Path]) -> MergeResult:
    """Add what the spools hold to the run in ``folder``; the same request is never counted twice.

    Spools that lie in the folder already are taken too. Nothing is written when it is refused.

    Raises:
        RunFileError: no spool, one that cannot be read, one of another run, a run that still goes
            on, or two files that tell different things of the same request.
        OSError: a file cannot be written.
    """
    run_path, stages_path = folder / RUN_JSON, folder / STAGES_JSON
    refuse_while_it_runs(folder)
    meta, stages = read_json(run_path, RUN_SCHEMA), read_json(stages_path, STAGES_SCHEMA) or {}
    paths = spool_paths(folder, given)
    spools = [open_spool(path) for path in paths]
    whole = [spool for spool in spools if spool.run_ids]
    run_id = one_run(meta, whole, folder)
    known, known_name = known_of(folder, stages)
    merged, added = merge_spools(known, whole, known_name)

    folder.mkdir(parents=True, exist_ok=True)
    _keep_spools(folder / SPOOL_FOLDER, zip(paths, spools, strict=True))
    told = _with_workers(meta or _meta_from(whole, run_id), whole, added)
    anything = any(part.anything for part in added.values())
    if anything or told != meta or not stages:
        for name in (REQUESTS_PARQUET, RUN_JSON, STAGES_JSON):
            _keep_original(folder / name)
        replace_parquet(folder, table_of_records(merged.records))
        _write_json(stages_path, {**stages, **_stages(merged, stages)})
        _write_json(run_path, told)
    empty = tuple(spool.name for spool in spools if not spool.run_ids)
    return MergeResult(added, empty, meta is None)


def _keep_spools(into: Path, spools: Iterable[tuple[Path, Spool]]) -> None:
    """Copy those that do not lie there yet; another one of the same worker gets a further name."""
    into.mkdir(exist_ok=True)
    for path, spool in spools:
        if path.resolve().parent == into.resolve() or spool.worker_id is None:
            continue
        content = path.read_bytes()
        # The name comes out of a file that was sent here: it must not lead out of the folder.
        stem = re.sub(r"[^\w.-]+", "-", spool.worker_id)
        names = (f"{stem}{end}.jsonl" for end in ("", *map("-{}".format, range(2, 1000))))
        for target in map(into.joinpath, names):
            if not target.exists():
                write_whole(target, content)
                break
            if target.read_bytes() == content:
                break


def _keep_original(path: Path) -> None:
    """A copy under another name; a later merge leaves it as it is."""
    target = path.with_name(f"{path.stem}.{BEFORE}{path.suffix}")
    if path.exists() and not target.exists():
        partial = target.with_name(target.name + ".partial")
        shutil.copyfile(path, partial)  # it may be large
        os.replace(partial, target)


def _stages(merged: Measured, before: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema": STAGES_SCHEMA,
        "marks": [mark_to_wire(mark) for mark in merged.marks],
        "tallies": merged.book().to_wire(),
        "not_reached": before.get("not_reached", []),
        "health": merged.aside.health,
        "reports": {worker: numbers.to_wire() for worker, numbers in merged.reports.items()},
    }


_WORKERS_KNOW = ("name", "url", "model", "seed", "salt", "shape", "insecure")


def _meta_from(spools: Sequence[Spool], run_id: str) -> dict[str, Any]:
    """``run.json`` as far as the workers knew it; the run's id begins with its start in UTC."""
    told = next((spool.run for spool in spools if spool.run is not None), {})
    try:
        start = datetime.strptime(run_id.partition("Z")[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        start = None
    return {
        **dict.fromkeys(_WORKERS_KNOW),
        "settings": {},
        "versions": {},
        "prefix_hashes": [],
        "slo": "",
        "max_fail_ratio": 0.1,
        "schema": RUN_SCHEMA,
        "run_id": run_id,
        **told,
        "started_at": start.isoformat(timespec="milliseconds") if start else None,
        "ended_at": None,
        "complete": False,
        "end_reason": None,
        "stage_plan": [],
        "workers": [],
        "preflight": None,
        "proxy": None,
        "notices": [f"{RUN_JSON} was lost: it was made anew from the workers' spools"],
    }


def _with_workers(
    meta: Mapping[str, Any], spools: Sequence[Spool], added: Mapping[str, Added]
) -> dict[str, Any]:
    """``run.json`` with what became of the workers whose spools are merged."""
    workers = {str(worker["id"]): dict(worker) for worker in meta.get("workers") or ()}
    headers = {s.worker_id: s.worker for s in spools if s.worker is not None}
    ended = {spool.worker_id for spool in spools if spool.ended}
    for name in added:
        unknown = {"id": name, "index": len(workers), "host": None, "wall_offset_s": None}
        worker = workers.setdefault(name, {**unknown, **(headers.get(name) or {}), "lost": False})
        if not meta.get("ended_at") and name in headers:
            # The master did not live to see who was lost: a worker that did not close its spool.
            worker["lost"] = name not in ended
        if worker["lost"]:
            worker["merged"] = True
    notices = list(meta.get("notices") or ())
    new = sum(part.new_requests for part in added.values())
    if new:
        notices.append(
            f"{new:,} request{' was' if new == 1 else 's were'} added from the workers' spools"
        )
    return {**meta, "workers": [workers[name] for name in sorted(workers)], "notices": notices}


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1))
