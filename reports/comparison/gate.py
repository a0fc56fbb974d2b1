"""Whether a run may pass in CI: its validity, its objectives, and its baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from metrics.compare import Verdict
from reports.comparison.model import ALL_LOADS, WHOLE_RUN, Comparison, Pair, Row, Weight
from reports.comparison.pairs import compare
from reports.comparison.sides import Side
from reports.comparison.wording import interval_text, refusal_text, row_text, size_text, where
from reports.faces.junit import objective_cases
from reports.junit_xml import Case, CaseStatus
from reports.model import ExitCode, RunReport, gravest

MOST_REASONS = 12
MOST_SKIPPED = 3


@dataclass(frozen=True, slots=True)
class Gate:
    """The answer: the exit code, every case, and the comparison with the baseline if there is one.

    Errors go before invalidity, and that before a missed objective or a regression.
    """

    code: ExitCode
    cases: tuple[Case, ...]
    comparison: Comparison | None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass; the gravest first."""
        order = (CaseStatus.ERROR, CaseStatus.FAILURE)
        return tuple(
            f"{case.name}: {case.text}"
            for status in order
            for case in self.cases
            if case.status is status
        )

    @property
    def skipped(self) -> tuple[str, ...]:
        """What could not be checked, and why."""
        return tuple(
            f"{case.name}: {case.text}" for case in self.cases if case.status is CaseStatus.SKIPPED
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What passed and still is to be read."""
        return tuple(
            f"{case.name}: {case.text}" for case in self.cases if case.status is CaseStatus.WARNING
        )


def gate(
    run: Side, baseline: Side | None, margin: float, strict: bool = False, force: bool = False
) -> Gate:
    """Judge a run; ``margin`` is the change for the worse that is still accepted, 0-1.

    A change for the worse must be shown to be beyond the margin to fail. ``strict`` fails also
    what may be beyond it.
    """
    code, cases = _own(run.report)
    if run.missing_records is not None:
        cases.append(Case("validity", "records", CaseStatus.ERROR, run.missing_records))
        code = gravest((code, ExitCode.INVALID))
    comparison = None
    if baseline is not None:
        comparison = compare((baseline, run), margin, force)
        worst, more = _against(comparison.pairs[0], force, strict)
        cases += more
        code = gravest((code, worst))
    return Gate(code, tuple(cases), comparison)


def _own(report: RunReport) -> tuple[ExitCode, list[Case]]:
    cases = []
    faults = [v for v in report.verdicts if v.code is not ExitCode.SLO_MISSED]
    cases += [Case("validity", "validity", CaseStatus.ERROR, v.text) for v in faults]
    if not faults:
        cases.append(Case("validity", "validity", CaseStatus.PASSED))
    cases += objective_cases(report)
    if not report.slo:
        text = "no objective was given (--slo) or is stored with the run"
        cases.append(Case("objective", "objectives", CaseStatus.SKIPPED, text))
    return report.exit_code, cases


def _against(pair: Pair, force: bool, strict: bool) -> tuple[ExitCode, list[Case]]:
    """The cases of the comparison, and the code that they ask for."""
    refusals = [refusal_text(m, pair) for m in pair.refusals]
    if refusals and not force:
        return ExitCode.INVALID, [
            Case("baseline", "comparable", CaseStatus.ERROR, text) for text in refusals
        ]
    cases = [Case("baseline", "comparable", CaseStatus.WARNING, f"forced: {t}") for t in refusals]
    cases += [
        Case("baseline", "comparable", CaseStatus.WARNING, refusal_text(m, pair))
        for m in pair.mismatches
        if m.weight is Weight.UNKNOWN
    ]
    if not any(row.interval is not None for row in pair.rows):
        return ExitCode.INVALID, [
            *cases,
            Case("baseline", "comparable", CaseStatus.ERROR, pair.sentences[-1]),
        ]
    if not cases:
        cases.append(Case("baseline", "comparable", CaseStatus.PASSED))
    # What may be worse is asked of the mean over all loads where there is one, not of each load.
    settled = {row.metric.name for row in pair.rows if row.load == ALL_LOADS}
    cases += [
        _case(row, strict, row.load != ALL_LOADS and row.metric.name in settled)
        for row in sorted(pair.rows, key=lambda row: row.load not in (ALL_LOADS, WHOLE_RUN))
    ]
    failed = any(case.status is CaseStatus.FAILURE for case in cases)
    return (ExitCode.SLO_MISSED if failed else ExitCode.OK), cases


def _case(row: Row, strict: bool, settled: bool) -> Case:
    name = row.metric.label + where(row)
    if row.interval is None:
        return Case("baseline", name, CaseStatus.SKIPPED, row_text(row))
    told = interval_text(row.interval, row.metric.scale)
    if row.verdict is Verdict.WORSE:
        return Case("baseline", name, CaseStatus.FAILURE, f"worse than the baseline: {told}")
    if row.at_risk and not settled:
        size = size_text(row.interval.resolution, row.metric.scale)
        text = f"worse beyond the margin is not ruled out: {told}; this could show ±{size}"
        status = CaseStatus.FAILURE if strict else CaseStatus.WARNING
        return Case("baseline", name, status, text)
    return Case("baseline", name, CaseStatus.PASSED)


def gate_lines(found: Gate) -> list[str]:
    """One screen: the answer, and as many reasons as fit."""
    word = {
        ExitCode.OK: "PASSED",
        ExitCode.SLO_MISSED: "FAILED",
        ExitCode.INVALID: "INVALID",
        ExitCode.ERROR: "ERROR",
    }[found.code]
    passed = sum(c.status in (CaseStatus.PASSED, CaseStatus.WARNING) for c in found.cases)
    skipped = found.skipped
    head = f"GATE {word}: {passed} of {len(found.cases) - len(skipped)} checks passed"
    if skipped:
        head += f", {len(skipped)} could not be made"
    return [
        f"{head} (exit code {int(found.code)})",
        *_some("", found.reasons),
        *_some("warning: ", found.warnings),
        *_some("not checked: ", skipped, MOST_SKIPPED),
    ]


def _some(prefix: str, texts: Sequence[str], most: int = MOST_REASONS) -> list[str]:
    lines = [f"  {prefix}{text}" for text in texts[:most]]
    if len(texts) > most:
        lines.append(f"  {prefix}and {len(texts) - most} more, in the JUnit file")
    return lines
