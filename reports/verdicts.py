"""What decides the exit code: the findings that invalidate a run, and the objectives missed."""

from collections.abc import Sequence
from dataclasses import dataclass

from metrics.slo import SloVerdict
from metrics.validity import Finding, Severity
from reports.model import ExitCode, Verdict
from reports.wording import seen

_CODES = {
    Severity.ERROR: ExitCode.ERROR,
    Severity.VOID: ExitCode.INVALID,
    Severity.INVALID: ExitCode.INVALID,
}
VERDICT_WORDS = {
    ExitCode.OK: "VALID",
    ExitCode.ERROR: "FAILED",
    ExitCode.INVALID: "INVALID",
    ExitCode.SLO_MISSED: "OBJECTIVE MISSED",
}
"""What a page says first."""


def verdicts_of(findings: Sequence[Finding], slo: Sequence[SloVerdict]) -> tuple[Verdict, ...]:
    """All of them, the gravest kinds first; a notice decides nothing."""
    return (
        *(
            Verdict(_CODES[finding.severity], finding.sentence)
            for finding in findings
            if finding.severity in _CODES
        ),
        *(_missed(verdict) for verdict in slo if not verdict.met),
    )


@dataclass(frozen=True, slots=True)
class ValidityRow:
    """A line of the validity table: one rule, and all stages in which it fired alike."""

    rule: str
    severity: Severity
    stages: str
    """Counted from 1; ``run`` for the whole run."""
    evidence: str
    advice: str
    threshold: str


def validity_rows(findings: Sequence[Finding]) -> tuple[ValidityRow, ...]:
    """The findings as they are shown; notices of one rule share a line, the others have their own.

    A first ramp of many short levels would else have a line of few samples for each.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        alone = None if finding.severity is Severity.NOTICE else finding.stage
        key = (finding.rule, finding.severity, finding.stage is None, finding.advice, alone)
        groups.setdefault(key, []).append(finding)
    return tuple(map(_row, groups.values()))


def _row(group: Sequence[Finding]) -> ValidityRow:
    first = group[0]
    stages = [str(finding.stage + 1) for finding in group if finding.stage is not None]
    evidence = first.evidence
    if len(group) > 1:
        evidence = "; ".join(
            f"{where}: {f.evidence}" for where, f in zip(stages, group, strict=True)
        )
    return ValidityRow(
        rule=first.rule,
        severity=first.severity,
        stages=", ".join(stages) or "run",
        evidence=evidence,
        advice=first.advice,
        threshold=first.threshold,
    )


def _missed(verdict: SloVerdict) -> Verdict:
    return Verdict(ExitCode.SLO_MISSED, f"objective missed: {verdict.limit.text}, {seen(verdict)}")
