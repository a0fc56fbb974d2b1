"""Built runs that meet all that a report's page can show, and names that try to break out of it."""

from dataclasses import replace

from metrics.outcome import Outcome
from tests.support.client_state import watched
from tests.support.records import failed_record, make_record
from tests.support.run_builder import META, build_run, numbered

AWKWARD = (
    "<b onload=\"x('&amp;')\">]]></svg></style>`${7*7}` {{7*7}} 名前 "
    "\u202e \x00\x1b\u0085\ufffe half \ud800"
)
"""Markup, quotes, template syntax, text from right to left, a control and half a character."""
PRICES = {"price_in": 0.27, "price_out": 1.1}
SLO = "ttft_p95<500ms,ok>50%"


def eventful_run(folder):
    """Stages: 1 user usable, 2 limited by 429s, 4 by the client, 8 not reached; with failures."""
    records = []
    for stage, users in enumerate((1, 2, 4, 8)):
        for turn in range(40):
            for user in range(users):
                records.append(_request(stage, turn, user))
    workers = [{**META["workers"][0], "host": AWKWARD}]
    build_run(
        folder,
        numbered(records),
        levels=(1, 2, 4, 8),
        not_reached=(3,),
        model=AWKWARD,
        name=AWKWARD,
        slo=SLO,
        settings={**META["settings"], **PRICES, "header": [AWKWARD], "run_name": AWKWARD},
        workers=workers,
        notices=[AWKWARD],
        versions={"python": "3.11", AWKWARD: AWKWARD},
        complete=False,
        end_reason=AWKWARD,
    )
    return watched(folder, stage=2, loop_lag_s=[0.08] * 20, cpu_ratio=[0.2] * 5)


def _request(stage, turn, user):
    at = {"stage": stage, "user": user, "started_s": stage * 10 + turn * 0.25 + user * 0.01}
    if stage == 1 and user == 1 and turn % 2:
        text = {"error_code": AWKWARD, "error_sample": AWKWARD}
        return failed_record(Outcome.RATE_LIMITED, 429, rate_limited_attempts=1, **text, **at)
    if turn == 7:
        return failed_record(error_code=AWKWARD, error_sample=AWKWARD, **at)
    if turn == 8:
        return failed_record(Outcome.CANCELLED, None, **at)
    ttft_s = 0.02 * (1 + stage) + 0.001 * (turn % 10)
    times = {"ttft_s": ttft_s, "ttfa_s": ttft_s, "user_ttft_s": ttft_s}
    return make_record(cached_tokens=4 if turn else 0, **times, **at)


def states_set(report, **changes):
    """The report with the stages' fields set by their place, such as ``s1={"limited_by": "x"}``."""
    rows = [
        replace(row, **changes.get(f"s{number}", {})) for number, row in enumerate(report.stages)
    ]
    return replace(report, stages=tuple(rows))
