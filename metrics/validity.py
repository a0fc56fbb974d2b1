"""The rules a run is held against, each with its threshold, evidence and advice.

A finding stands apart from the numbers: none is changed or hidden for it. Rules of single levels
are in ``metrics.validity_levels``, those of the whole run in ``metrics.validity_runs``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

F = TypeVar("F")


class Severity(StrEnum):
    """What a finding does to the run; the gravest first."""

    ERROR = "error"
    """The run failed: exit code 1."""
    VOID = "void"
    """The level must not be used, neither as knee nor as best; the run is invalid too."""
    INVALID = "invalid"
    """The run's figures must not be taken as they stand: exit code 4."""
    NOTICE = "notice"
    """Told only."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired. ``stage`` is the level's id, None for the whole run."""

    rule: str
    severity: Severity
    stage: int | None
    title: str
    evidence: str
    advice: str
    threshold: str

    @property
    def sentence(self) -> str:
        """The finding as one line for a reader; stages are counted from 1."""
        where = "" if self.stage is None else f"stage {self.stage + 1}{self.title}: "
        advice = f": {self.advice}" if self.advice else ""
        return f"{where}{self.evidence}{advice}"


@dataclass(frozen=True, slots=True)
class Rule(Generic[F]):
    """One rule. ``evidence`` gives the text of what speaks against the facts, None when nothing.

    ``title`` follows the level's name in a sentence. ``advice`` may depend on the facts, because
    what helps one shape of load makes no sense for another. ``only_told`` says of facts that fired
    whether they are too weak for ``severity``, so that the finding is a notice.
    """

    name: str
    severity: Severity
    threshold: str
    advice: str | Callable[[F], str]
    evidence: Callable[[F], str | None]
    title: str = ""
    only_told: Callable[[F], bool] | None = None

    def finding(self, facts: F, stage: int | None = None) -> Finding | None:
        """What the rule finds in these facts; None when they are within it."""
        evidence = self.evidence(facts)
        if evidence is None:
            return None
        weak = self.only_told is not None and self.only_told(facts)
        severity = Severity.NOTICE if weak else self.severity
        advice = self.advice if isinstance(self.advice, str) else self.advice(facts)
        return Finding(self.name, severity, stage, self.title, evidence, advice, self.threshold)


def void_reason(findings: Sequence[Finding], stage: int | None) -> str | None:
    """Why a level must not be used; None when it may be."""
    for finding in findings:
        if finding.severity is Severity.VOID and finding.stage == stage and stage is not None:
            return f"{finding.rule.replace('_', '-')}: {finding.evidence}"
    return None


def void_by(rule: str, findings: Sequence[Finding], stage: int) -> bool:
    """Whether the rule of that name voids the level."""
    return any(
        f.rule == rule and f.severity is Severity.VOID and f.stage == stage for f in findings
    )


def void_stages(findings: Sequence[Finding]) -> frozenset[int]:
    """The ids of all levels that must not be used."""
    return frozenset(
        f.stage for f in findings if f.severity is Severity.VOID and f.stage is not None
    )


def gravest_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """In the order of severity; the run's before its levels', else as they were found."""
    order = list(Severity)
    return tuple(
        sorted(findings, key=lambda f: (order.index(f.severity), -1 if f.stage is None else 0))
    )
