"""What speaks against taking a run's figures as they stand, each with its evidence."""

from collections.abc import Iterator, Sequence

from metrics.slo import SloVerdict
from metrics.tally import Counts
from reports.load import SavedRun
from reports.model import ClientRow, ExitCode, StageRow, Verdict
from reports.stages import CLIENT_LIMITED
from reports.wording import count, seen, share


def verdicts_of(
    run: SavedRun,
    rows: Sequence[StageRow],
    client: Sequence[ClientRow],
    totals: Counts,
    slo: Sequence[SloVerdict],
) -> tuple[Verdict, ...]:
    """All of them, the gravest kinds first."""
    return (
        *_errors(run, totals),
        *_invalid(run, rows, totals),
        *(
            Verdict(ExitCode.INVALID, f"stage {row.stage + 1} is client-limited: {row.limited}")
            for row in client
            if row.limited
        ),
        *(
            Verdict(
                ExitCode.INVALID,
                f"stage {row.stage + 1} is {flag}: add workers, or raise ulimit -n",
            )
            for row in rows
            for flag in row.flags
            if flag.startswith(CLIENT_LIMITED)
        ),
        *(_missed(verdict) for verdict in slo if not verdict.met),
    )


def _errors(run: SavedRun, totals: Counts) -> Iterator[Verdict]:
    if not totals.offered:
        yield Verdict(ExitCode.ERROR, "no request was made")
        return
    if not totals.ok:
        yield Verdict(
            ExitCode.ERROR,
            f"none of {count(totals.offered, 'request')} succeeded: see the failures",
        )
        return
    limit = float(run.meta.get("max_fail_ratio", 0.1))
    if totals.failed > limit * totals.offered:
        yield Verdict(
            ExitCode.ERROR,
            f"{totals.failed:,} of {count(totals.offered, 'request')} failed "
            f"({share(totals.failed, totals.offered)}), over --max-fail-ratio {limit:g}",
        )


def _invalid(run: SavedRun, rows: Sequence[StageRow], totals: Counts) -> Iterator[Verdict]:
    if not run.meta.get("complete"):
        reason = run.meta.get("end_reason") or "it was killed, or is still running"
        yield Verdict(ExitCode.INVALID, f"partial: the plan did not run to its end ({reason})")
    for worker in run.meta.get("workers") or ():
        if worker.get("lost"):
            text = f"worker {worker['id']} was lost: what it measured last is only in its spool"
            yield Verdict(ExitCode.INVALID, text)
    for row in rows:
        if row.stage in run.not_reached:
            text = f"stage {row.stage + 1}: {row.target_users} users were wanted and never all ran"
            yield Verdict(ExitCode.INVALID, text)
    if totals.ok and not any(row.completed for row in rows):
        text = "no success was started in a held window: hold the stages longer (--hold)"
        yield Verdict(ExitCode.INVALID, text)
    yield from _accounts(run, rows, totals)


def _accounts(run: SavedRun, rows: Sequence[StageRow], totals: Counts) -> Iterator[Verdict]:
    """The books must agree: nothing is counted twice, nothing is missing."""
    if any(row.not_sent for row in rows):
        yield Verdict(ExitCode.INVALID, "planned is not ok + failed + cancelled in every stage")
    if run.book is None and run.meta.get("complete"):
        text = "stages.json is missing: the held windows are guessed from the requests"
        yield Verdict(ExitCode.INVALID, text)
    if run.book is not None and run.book.total() != totals:
        kept, told = totals.offered, run.book.total().offered
        text = f"records and tallies disagree: {kept:,} requests are kept, {told:,} were counted"
        yield Verdict(ExitCode.INVALID, text)


def _missed(verdict: SloVerdict) -> Verdict:
    return Verdict(ExitCode.SLO_MISSED, f"objective missed: {verdict.limit.text}, {seen(verdict)}")
