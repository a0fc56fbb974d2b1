"""A wrong option in the page's form: a message that the page shows, and no run."""

import time

import pytest

from tests.live.test_page_runs import FORM, page, post, state
from tests.support.processes import end, simulator, wait_until
from tests.support.runs import server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

WRONG = [
    ({"warmup_requests": "abc"}, ("--warmup-requests", "'abc'", "whole number")),
    ({"warmup_requests": "-1"}, ("--warmup-requests", "-1", "0 or more")),
    ({"max_fail_ratio": "lots"}, ("--max-fail-ratio", "'lots'", "number")),
    ({"prompt_tokens": "many"}, ("--prompt-tokens", "'many'")),
    ({"stages": "4,x"}, ("--stages", "'4,x'", "1,2,4")),
    ({"run_time": "soon"}, ("--run-time", "'soon'", "3m")),
    ({"user_count": "few"}, ("--users", "'few'", "whole number")),
    ({"shape": "open-loop"}, ("--shape open-loop", "--rate")),
    ({"shape": "spike", "spike_users": "1"}, ("--spike-users 1", "more than the 2")),
    ({"shape": "constant", "user_count": "99999999"}, ("open files", "add workers")),
]


def test_a_wrong_form_is_answered_with_what_to_write_and_starts_nothing(tmp_path):
    """Option, value and remedy in the page's own answer; nothing of a refused form is kept."""
    log = tmp_path / "server.jsonl"
    with simulator(log=log) as host:
        process, url = page(tmp_path, host)
        try:
            for wrong, words in WRONG:
                answer = post(url, "/swarm", **{**FORM, "stages": "9", **wrong})
                assert answer["success"] is False, wrong
                for word in words:
                    assert word in answer["message"], answer["message"]
                assert "ready" == state(url)
            assert not list((tmp_path / "runs").glob("*"))
            assert not server_log(log)

            assert post(url, "/swarm", user_count="1", shape="ladder", hold="1s")["success"]
            told = wait_until(
                lambda: "stage 1/7" in (tmp_path / "locust.log").read_text(), 20, "first stage"
            )
        finally:
            end(process, wait_s=40)

    assert told, "the seven stages of the default, not the refused forms' 9"


def test_a_start_in_the_middle_of_a_run_changes_nothing(tmp_path):
    """Locust would say that it started and keep the form's values for the workers."""
    with simulator() as host:
        process, url = page(tmp_path, host)
        log = tmp_path / "locust.log"
        try:
            assert post(url, "/swarm", **FORM, stages="2", hold="60s")["success"]
            wait_until(lambda: "measuring" in log.read_text(), 20, "held stage")
            again = post(url, "/swarm", **FORM, stages="3")
            time.sleep(1.5)  # a tick of the shape
            assert again == {"success": False, "message": again["message"], "host": host}
            assert "under way" in again["message"]
            assert "going from" in log.read_text()
            assert "3 users" not in log.read_text()
            assert post(url, "/stop")["success"]
        finally:
            end(process, wait_s=40)

    assert 1 == len(list((tmp_path / "runs").glob("*/run.json")))
