"""All scripted cases by name, and the choice of the answer to one request."""

from tests.support.case_failures import FAILURES, REFUSALS, RETRIES
from tests.support.case_notation import Ask, Case, Script, error, plain
from tests.support.case_streams import CONTENT, FRAMING, METRICS

CASES: dict[str, Case] = {**FRAMING, **CONTENT, **METRICS, **FAILURES, **RETRIES, **REFUSALS}

MODELS = plain({"object": "list", "data": [{"id": "case-model", "object": "model"}]})


def script_for(ask: Ask) -> Script:
    """The answer to one request of a known or unknown case."""
    case = CASES.get(ask.case)
    if case is None:
        return plain(error(f"no case {ask.case!r}", code="unknown_case"), 404)
    if isinstance(case, Script):
        return case
    return case[min(ask.nth, len(case) - 1)] if isinstance(case, tuple) else case(ask)


def one_script(name: str) -> Script:
    """The script of a case that has only one.

    Raises:
        TypeError: the case answers requests in different ways.
    """
    case = CASES[name]
    if not isinstance(case, Script):
        raise TypeError(f"case {name} has several scripts")
    return case
