"""JUnit XML, as CI systems show it: one test case for each thing that was held against a limit."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class CaseStatus(StrEnum):
    """How a case ended; the names are those of JUnit's elements."""

    PASSED = "passed"
    WARNING = "warning"
    """Passed, with something to read in ``system-out``."""
    FAILURE = "failure"
    ERROR = "error"
    """It could not be judged, because the measurement is not sound."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One test case; ``text`` is why it did not simply pass."""

    group: str
    name: str
    status: CaseStatus
    text: str = ""


def junit_xml(suite: str, cases: Sequence[Case]) -> str:
    """The whole document; characters that XML cannot hold are shown as U+FFFD."""
    root = ET.Element("testsuites")
    counts = {
        "tests": len(cases),
        "failures": _count(cases, CaseStatus.FAILURE),
        "errors": _count(cases, CaseStatus.ERROR),
        "skipped": _count(cases, CaseStatus.SKIPPED),
    }
    attributes = {name: str(count) for name, count in counts.items()}
    element = ET.SubElement(root, "testsuite", {"name": _clean(suite), **attributes})
    for case in cases:
        item = ET.SubElement(
            element, "testcase", {"classname": _clean(case.group), "name": _clean(case.name)}
        )
        if case.status is CaseStatus.WARNING:
            ET.SubElement(item, "system-out").text = _clean(f"warning: {case.text}")
        elif case.status is not CaseStatus.PASSED:
            told = ET.SubElement(item, case.status.value, {"message": _clean(case.text)})
            told.text = _clean(case.text)
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode", short_empty_elements=True)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _count(cases: Sequence[Case], status: CaseStatus) -> int:
    return sum(case.status is status for case in cases)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
