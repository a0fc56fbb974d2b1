"""What Locust's failure table groups by."""

import pytest

from metrics.outcome import Outcome
from tests.support.records import failed_record
from users.asking import FailureTexts


@pytest.mark.parametrize(
    ("outcome", "status", "code", "text"),
    [
        (Outcome.SERVER_ERROR, 500, "E17", "server_error (HTTP 500)"),
        (Outcome.STREAM_ERROR, 200, "engine_dead", "stream_error (engine_dead)"),
        (Outcome.TRUNCATED, 200, None, "truncated"),
        (Outcome.CONNECT_ERROR, None, "connect_error", "connect_error"),
    ],
)
def test_a_text_names_the_kind_and_what_tells_more(outcome, status, code, text):
    """The status, or without one of a failure the code."""
    assert text == FailureTexts().of(failed_record(outcome, status, error_code=code))


def test_codes_of_their_own_become_one_text_until_the_next_run():
    """The first 20 codes of a run stay apart, and stay so; the others are one."""
    texts = FailureTexts()

    def of(number, run_id="one"):
        code = {"error_code": f"E{number}", "run_id": run_id}
        return texts.of(failed_record(Outcome.STREAM_ERROR, 200, **code))

    assert 21 == len({of(number) for number in range(1000)})
    assert "stream_error (E3)" == of(3)
    assert "stream_error (another code)" == of(20)
    assert "stream_error (E20)" == of(20, run_id="two")
