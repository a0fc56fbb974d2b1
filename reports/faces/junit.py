"""``junit.xml``: every rule of validity and every objective as a test case."""

from collections.abc import Iterator

from metrics.validity import Finding, Severity
from metrics.validity_runs import rule_names
from reports.junit_xml import Case, CaseStatus, junit_xml
from reports.model import RunReport
from reports.wording import seen

_STATUS = {
    Severity.ERROR: CaseStatus.ERROR,
    Severity.VOID: CaseStatus.ERROR,
    Severity.INVALID: CaseStatus.ERROR,
    Severity.NOTICE: CaseStatus.WARNING,
}


def junit(report: RunReport) -> str:
    """The document.

    A missed objective is a failure; whatever forbids the figures is an error, because they could
    not be judged. A notice passes, with its text in ``system-out``. A rule that did not fire is
    one passed case; one that fired is a case for each stage.
    """
    cases = [*_validity(report), *objective_cases(report)]
    return junit_xml(f"swarmgauge {report.folder_name}", cases)


def _validity(report: RunReport) -> Iterator[Case]:
    fired = {finding.rule for finding in report.validity}
    for finding in report.validity:
        yield Case("validity", _name(finding), _STATUS[finding.severity], finding.sentence)
    for rule in rule_names():
        if rule not in fired:
            yield Case("validity", rule, CaseStatus.PASSED)


def _name(finding: Finding) -> str:
    return finding.rule if finding.stage is None else f"{finding.rule}: stage {finding.stage + 1}"


def objective_cases(report: RunReport) -> Iterator[Case]:
    """A case for each objective: passed, or failed with what was measured and over what."""
    stages = sum(1 for row in report.stages if row.completed)
    over = f" over {stages} held stages together" if stages > 1 else ""
    for verdict in report.slo:
        status = CaseStatus.PASSED if verdict.met else CaseStatus.FAILURE
        text = "" if verdict.met else f"missed, {seen(verdict)}{over}"
        yield Case("objective", verdict.limit.text, status, text)
