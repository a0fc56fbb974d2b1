"""Runs whose records are still on the workers (``--records workers``), told from their tallies."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from metrics.run_files import STAGES_JSON, RunFileError
from metrics.stage import Stage
from metrics.tally import StageTally, TallyBook
from reports.load import SavedRun
from reports.loads import load_words, plan_of
from reports.wording import count, time_ms


@dataclass(frozen=True, slots=True)
class KeptElsewhere:
    """One worker that told of more requests than the folder has records of."""

    worker: str
    host: str | None
    spool: str
    """Where its records are, below the folder that ``--runs-dir`` names on its host."""
    told: int
    here: int


def kept_elsewhere(run: SavedRun) -> tuple[KeptElsewhere, ...]:
    """The workers whose records are not all in the folder; none when the report can be made.

    Only runs with ``--records workers`` say how many requests each worker told of.
    """
    here = run.records["worker"].astype("object").value_counts()
    return tuple(
        KeptElsewhere(
            worker=str(worker["id"]),
            host=worker.get("host"),
            spool=str(worker["spool"]),
            told=int(worker["requests"]),
            here=int(here.get(str(worker["id"]), 0)),
        )
        for worker in run.meta.get("workers") or ()
        if worker.get("requests", 0) > here.get(str(worker["id"]), 0)
    )


def elsewhere_lines(run: SavedRun, kept: Sequence[KeptElsewhere]) -> list[str]:
    """That the run is not complete, what is known without the records, and what to do."""
    told, here = sum(one.told for one in kept), sum(one.here for one in kept)
    lines = [
        f"Swarmgauge: {run.meta.get('name')}, {run.meta.get('model')} at {run.meta.get('url')}",
        f"INCOMPLETE: {count(told - here, 'record')} of {count(len(kept), 'worker')} "
        "are not in this folder (--records workers), so there is no knee, no objective, no test of "
        "validity and no plot yet.",
        *_tally_lines(run),
        "The records are here:",
        *(
            f"  worker {one.worker}: {count(one.told, 'request')}, {one.here:,} of them in this "
            f"folder; {one.spool} below the --runs-dir of host {one.host}"
            for one in kept
        ),
        "Copy these spools to this machine, then: python -m reports merge "
        f"{run.folder} SPOOL... (or a folder of them)",
    ]
    return lines


def _tally_lines(run: SavedRun) -> list[str]:
    book = _book(run)
    if book is None:
        return ["What the workers told while it ran was not written: the run was killed early."]
    total = book.total()
    lines = [
        f"What the workers told while it ran: {count(total.offered, 'request')}, {total.ok:,} ok, "
        f"{total.failed:,} failed, {total.cancelled:,} cancelled, {total.completion_tokens:,} "
        "tokens of successes. In the held windows (percentiles within 1 %):"
    ]
    plan = plan_of(run)
    for stage in sorted(plan):
        if stage in book.by_stage:
            lines.append(f"  {_stage_line(plan[stage], book.by_stage[stage])}")
    return lines


def _book(run: SavedRun) -> TallyBook | None:
    """As the workers told it: a merge of some spools counts anew, from the records there are."""
    first = run.folder / STAGES_JSON.replace(".json", ".before-merge.json")
    if not first.exists():
        return run.book
    try:
        return TallyBook.from_wire(json.loads(first.read_text(encoding="utf-8"))["tallies"])
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunFileError(f"{first}: cannot be read ({error})") from None


def _stage_line(stage: Stage, tally: StageTally) -> str:
    held = tally.held
    load = load_words(stage)
    text = (
        f"stage {stage.id + 1}, {load}: {count(held.offered, 'request')}, {held.ok:,} ok, "
        f"{held.failed:,} failed"
    )
    for name, metric in (
        ("TTFT", "ttft_s"),
        ("TPOT", "tpot_s"),
        ("whole answer", "e2e_latency_s"),
    ):
        histogram = tally.latency.get(metric)
        if histogram is not None and histogram.n:
            p50, p95, p99 = (time_ms(histogram.percentile(q)) for q in (0.5, 0.95, 0.99))
            text += f"; {name} p50 {p50}, p95 {p95}, p99 {p99}"
    return text
