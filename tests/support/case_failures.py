"""Scripts of the sections E (failures), R (429 and retries), C (requests that are refused)."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from tests.support.case_notation import (
    Ask,
    C,
    Case,
    D,
    Ending,
    F,
    R,
    Script,
    U,
    at,
    completion,
    cycle,
    error,
    event,
    plain,
    stream,
)
from tests.support.case_streams import GOOD

GOOD_400 = stream(R, at(200, C("sea")), at(400, C(" salt"), F(), U(9, 2), D))

_E01 = stream(
    R,
    at(50, C("a")),
    at(60, C("b")),
    at(70, event(error("engine stopped", type="InternalServerError", code=500)), D),
)
_PAGE = b"<!DOCTYPE html><html><head><title>524: A timeout occurred</title></head>\n<body>"
_PAGE += b"<p>Ray 5c0ffee</p>\n" * 480 + b"</body></html>\n"
_E05 = (
    stream(R, at(50, C("a")), ending=Ending.RESET),
    stream(R, at(50, C("a")), ending=Ending.CUT_CHUNK),
)
_E06 = {
    "1": stream(C("a"), C("b"), F(), D),
    "2": stream(C("a"), C("b"), F()),
    "3": stream(C("a"), C("b"), D),
    "4": stream(C("a"), C("b")),
}
_E08 = {
    "1": plain(error("quota")),
    "2": plain({"choices": None}),
    "3": plain({"choices": []}),
    "4": plain([]),
    "5": plain("ok"),
    "6": plain(b"not json"),
}
_CREDENTIALS = ("authorization", "api-key", "x-goog-api-key", "x-corp-auth")
_NO_MODEL = plain(error("model 'osprey-x' does not exist", code="model_not_found"), 404)


def _e09_key(ask: Ask) -> Script:
    if ask.headers.get("authorization") != "Bearer right-key":
        return plain(error("Incorrect API key provided", code="invalid_api_key"), 401)
    return plain(error("Not Found"), 404) if ask.method == "GET" else GOOD


def _e09_model(ask: Ask) -> Script:
    return GOOD if ask.members.get("model") == "right-model" else _NO_MODEL


def _o05_echo(ask: Ask) -> Script:
    credentials = [ask.path, *(text for name, text in ask.headers.items() if name in _CREDENTIALS)]
    return plain(error(f"no such key: {credentials}", code=ask.headers.get("api-key")), 401)


def _e10(ask: Ask) -> Script:
    if ask.nth % 3 != 2:
        return GOOD
    message = f"limit 2048, got 2311 (req 9f{ask.nth:02x})"
    return plain(error(message, code="context_length_exceeded"), 400)


FAILURES: dict[str, Case] = {
    "E01": cycle(_E01, GOOD_400),
    "E01_error": _E01,
    "E02": stream(event(error("queue full", code=503)), D),
    "E05": (*_E05, GOOD),
    "E05_rst": _E05[0],
    "E05_fin": _E05[1],
    **{f"E06_{name}": script for name, script in _E06.items()},
    "E07": plain(_PAGE, 524, at_ms=1200, content_type="text/html"),
    "E08": cycle(*_E08.values()),
    **{f"E08_{name}": script for name, script in _E08.items()},
    "E09": _NO_MODEL,
    "E09_key": _e09_key,
    "E09_model": _e09_model,
    "E10": _e10,
    "E11": stream(R, at(20, C("sea"), F(), U(9, 1), D), idle_close_s=1.0),
    "E12_a": stream(at(100, C("a")), hold_open_s=60),
    "E12_b": stream(*(at(800 * n, C("w ")) for n in range(1, 16)), F(), U(3, 15), D),
    "E12_c": stream(*(at(500 * n, b": ping\n\n") for n in range(1, 121))),
    "O05_echo": _o05_echo,
}


def limited(
    *headers: tuple[str, str], status: int = 429, code: str = "rate_limit_exceeded"
) -> Script:
    """A refusal that a retry may get past."""
    return plain(error("Rate limit reached", type="requests", code=code), status, headers=headers)


def _retry_after(value: str) -> tuple[Script, Script]:
    return (limited(("Retry-After", value)), GOOD)


def _dated(ask: Ask) -> Script:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    return _retry_after(when)[min(ask.nth, 1)]


_QUOTA = plain(error("plan used up", code="insufficient_quota"), 429)
_LATER = limited(("Retry-After", "0.05"))

RETRIES: dict[str, Case] = {
    "R01_1": _retry_after("1"),
    "R01_1_5": _retry_after("1.5"),
    "R01_0": _retry_after("0"),
    "R01_ms": (limited(("Retry-After", "1"), ("retry-after-ms", "250")), GOOD),
    "R01_junk_ms": (limited(("RETRY-AFTER", "1"), ("Retry-After-Ms", "junk")), GOOD),
    "R02_date": _dated,
    "R02_past": _retry_after("Wed, 21 Oct 2015 07:28:00 GMT"),
    "R02_soon": _retry_after("soon"),
    "R02_empty": _retry_after(""),
    "R02_negative": _retry_after("-5"),
    "R02_nan": _retry_after("nan"),
    "R05": (limited(("x-ratelimit-reset-requests", "500ms")), GOOD),
    "R06": (limited(("Retry-After", "1")), GOOD),
    "R07": (*[_LATER] * 2, GOOD, *[_LATER] * 4, GOOD),
    "R08_529": (limited(("Retry-After", "1"), status=529, code="overloaded"), GOOD),
    "R08_503": (limited(("Retry-After", "1"), status=503, code="overloaded"), GOOD),
    "R08_400": plain(error("bad request"), 400),
    "R08_401": plain(error("no key"), 401),
    "R08_404": plain(error("not found"), 404),
    "R10_after": stream(C("a"), at(30, event(error("engine busy", code=503)), D)),
    "R10_before": (stream(event(error("engine busy", code=503)), D), GOOD),
    "R12": _QUOTA,
    "always_429": limited(("Retry-After", "1")),
    "always_500": limited(status=500, code="internal"),
}


def _c05(ask: Ask) -> Script:
    if "max_tokens" not in ask.members:
        return GOOD
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    return plain(error(message, code="unsupported_parameter", param="max_tokens"), 400)


def _c08(ask: Ask) -> Script:
    if "stream_options" in ask.members:
        return plain(error("Extra inputs are not permitted: stream_options"), 422)
    if not ask.members.get("stream"):
        return plain(completion("sea salt", 9, 2))
    return stream(R, at(50, C("sea")), at(80, C(" salt"), F(), D))


REFUSALS: dict[str, Case] = {"C05": _c05, "C08": _c08, "C10_echo": GOOD}
