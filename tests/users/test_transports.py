"""The transports against a server that sends the exact bytes of public bug reports.

Times are compared with the script's: never earlier, and late by less than ``LATE_S``, which leaves
room for a busy machine but not for a mistaken chunk.
"""

import time

import gevent
import pytest

from metrics.outcome import Outcome, TokenSource
from tests.support.asking import asker
from tests.support.processes import free_port

pytestmark = [pytest.mark.live, pytest.mark.alone]

EARLY_S = 0.005
LATE_S = 0.09
STREAMING = pytest.mark.parametrize("traffic", ["stream", "sdk"])


def about(expected_s):
    """A time that is the script's, on a busy machine."""
    return pytest.approx(expected_s + (LATE_S - EARLY_S) / 2, abs=(LATE_S + EARLY_S) / 2)


@pytest.fixture
def ask_case(case_server):
    """Ask a case once, with options; its record."""

    def once(case, **options):
        with asker(case_server.host(case), **options) as user:
            return user.ask().record

    return once


@STREAMING
@pytest.mark.parametrize(
    ("case", "ttft_s", "tokens"),
    [
        ("F05", 0.9, 1),
        ("P03", 0.32, 1),
        ("P09_empty", 0.25, 2),
        ("P09_null", 0.25, 2),
        ("P09_missing", 0.25, 2),
        ("M17", 0.5, None),
    ],
)
def test_F05_P03_P09_M17_first_token_is_the_first_output(ask_case, case, ttft_s, tokens, traffic):
    """Comments, filter preludes, role chunks and headers come earlier and are not the token."""
    record = ask_case(case, traffic=traffic)

    assert Outcome.OK is record.outcome
    assert about(ttft_s) == record.ttft_s
    if tokens is not None:
        assert tokens == record.completion_tokens


def test_M17_headers_token_and_end_are_three_times(ask_case):
    """Headers at 5 ms, first token at 500, last at 900: all three are kept apart."""
    record = ask_case("M17")

    assert about(0.005) == record.headers_s
    assert about(0.5) == record.ttft_s
    assert about(0.9) == record.e2e_latency_s
    assert about(0.9) == record.user_latency_s


def test_F05_keepalives_are_counted(ask_case):
    """Three comments are three keep-alives, and no chunk."""
    assert ask_case("F05").keepalives == 3


@STREAMING
@pytest.mark.parametrize(
    ("case", "prompt_tokens", "completion_tokens"),
    [("F01", 9, 2), ("P01", 11, 2), ("P01_missing", 11, 2), ("P12", 2, 1), ("M03", 512, 1)],
)
def test_F01_P01_P12_M03_tokens_are_the_servers(
    ask_case, case, prompt_tokens, completion_tokens, traffic
):
    """Whatever the framing and wherever the usage, the server's numbers are taken."""
    record = ask_case(case, traffic=traffic)

    assert Outcome.OK is record.outcome
    assert (prompt_tokens, completion_tokens) == (record.prompt_tokens, record.completion_tokens)
    assert TokenSource.SERVER is record.token_source
    assert record.ttft_s is not None


def test_P08_without_usage_tokens_are_unknown(ask_case):
    """Five chunks are not five tokens."""
    record = ask_case("P08_none")

    assert Outcome.OK is record.outcome
    assert record.completion_tokens is None
    assert TokenSource.UNKNOWN is record.token_source
    assert record.tpot_s is None


def test_F12_a_socket_left_open_after_done_ends_the_request(case_server):
    """[DONE] at 150 ms and 20 s of silence: done, ok, and the next request goes out."""
    with asker(case_server.host("F12")) as user:
        began_s = time.monotonic()
        first, second = user.ask().record, user.ask().record
        took_s = time.monotonic() - began_s

    assert Outcome.OK is first.outcome
    assert about(0.15) == first.end_s
    assert first.user_latency_s < 0.4
    assert Outcome.OK is second.outcome
    assert len(case_server.asked("F12")) == 2
    assert took_s < 2, "the user waited for the server to close"


def test_F14_a_plain_answer_to_a_streamed_request(ask_case):
    """One JSON body: ok, latency 400 ms, 2 tokens, no TTFT, and marked."""
    record = ask_case("F14")

    assert Outcome.OK is record.outcome
    assert (record.stream_asked, record.streamed) == (True, False)
    assert about(0.4) == record.e2e_latency_s
    assert record.completion_tokens == 2
    assert record.ttft_s is None
    assert record.tpot_s is None


def test_F15_two_hundred_with_nothing_in_it_is_a_failure(case_server):
    """Four answers and six empty ones: 4 ok at 300 ms, 6 empty_response without TTFT."""
    with asker(case_server.host("F15")) as user:
        records = [user.ask().record for _ in range(10)]

    empty = [record for record in records if record.outcome is Outcome.EMPTY_RESPONSE]
    good = [record for record in records if record.outcome is Outcome.OK]
    assert (len(good), len(empty)) == (4, 6)
    assert all(record.ttft_s is None for record in empty)
    assert all(record.user_latency_s == about(0.3) for record in good)


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ("E01_error", Outcome.STREAM_ERROR),
        ("E02", Outcome.STREAM_ERROR),
        ("E05_rst", Outcome.INTERRUPTED),
        ("E05_fin", Outcome.INTERRUPTED),
        ("E06_1", Outcome.OK),
        ("E06_2", Outcome.OK),
        ("E06_3", Outcome.OK),
        ("E06_4", Outcome.TRUNCATED),
        ("E07", Outcome.SERVER_ERROR),
        ("E09", Outcome.NOT_FOUND),
        ("F08_b", Outcome.MALFORMED_STREAM),
        ("R12", Outcome.QUOTA_EXHAUSTED),
        ("always_429", Outcome.RATE_LIMITED),
    ],
)
@STREAMING
def test_each_end_has_its_outcome(ask_case, case, outcome, traffic):
    """Both streaming transports tell the same ends apart."""
    record = ask_case(case, traffic=traffic)

    assert outcome is record.outcome
    if outcome is not Outcome.OK:
        assert record.error_sample
        assert len(record.error_sample) <= 160
        assert "\n" not in record.error_sample


@pytest.mark.parametrize(
    ("case", "outcome", "end_s"),
    [
        ("E12_a", Outcome.IDLE_TIMEOUT, 1.1),
        ("E12_c", Outcome.FIRST_TOKEN_TIMEOUT, 2.0),
    ],
)
def test_E12_the_limit_that_fired_is_named(ask_case, case, outcome, end_s):
    """Silence after a token is the idle limit; pings without a token are the first-token limit."""
    record = ask_case(case, first_token_timeout="2s", idle_timeout="1s")

    assert outcome is record.outcome
    assert about(end_s) == record.end_s


def test_connections_are_kept_and_counted(case_server):
    """Five requests of one user use one connection, over both transports."""
    for traffic in ("stream", "sdk", "block"):
        before = len(case_server.asked("good"))
        with asker(case_server.host("good"), traffic=traffic) as user:
            records = [user.ask().record for _ in range(5)]

        asked = case_server.asked("good")[before:]
        assert len({request["connection"] for request in asked}) == 1, traffic
        assert all(record.outcome in (Outcome.OK, Outcome.BAD_RESPONSE) for record in records)
        if traffic == "stream":
            assert [record.connections_opened for record in records] == [1, 0, 0, 0, 0]
            assert [r.connection_reused for r in records] == [False, True, True, True, True]


def test_a_refused_connection_is_no_server_error():
    """Nothing listens: connect_error, no status, and nothing was sent."""
    for traffic in ("stream", "sdk"):
        with asker(f"http://127.0.0.1:{free_port()}", traffic=traffic) as user:
            record = user.ask().record

        assert Outcome.CONNECT_ERROR is record.outcome, traffic
        assert record.status is None
        assert not record.outcome.reached_wire


def test_C10_text_outside_latin_1_arrives_as_it_was_written(case_server):
    """The body is UTF-8 with a byte length, also for 2 MB."""
    with asker(case_server.host("C10_echo")) as user:
        user.ask("naïve 東京 🦑")
        user.ask("é" * 1_000_000)
        user.ask("half \ud83d pair")

    bodies = [request["body"] for request in case_server.asked("C10_echo")]
    assert "naïve 東京 🦑" in bodies[0]
    assert "é" * 1_000_000 in bodies[1]
    assert "half \ufffd pair" in bodies[2]


def test_C08_usage_is_asked_of_streams_only(case_server):
    """``stream_options`` goes with streams, never with plain requests."""
    with asker(case_server.host("good"), traffic="stream") as user:
        user.ask()
    with asker(case_server.host("good"), traffic="block") as user:
        user.ask()

    streamed, plain = (request["body"] for request in case_server.asked("good"))
    assert '"stream_options":{"include_usage":true}' in streamed
    assert "stream_options" not in plain


@pytest.mark.parametrize("traffic", ["stream", "sdk", "block"])
def test_the_key_and_headers_go_on_every_request(case_server, traffic):
    """The key from the environment and a custom header, each once; the key in no record."""
    environ = {"SWARMGAUGE_API_KEY": "sk-test-AAAA1111", "RUN": "5"}
    options = {"traffic": traffic, "header": ["X-Run: env:RUN"]}
    with asker(case_server.host("E09_key"), environ, **options) as user:
        record = user.ask().record

    headers = case_server.asked("E09_key")[0]["headers"]
    assert headers["authorization"] == "Bearer sk-test-AAAA1111"
    assert headers["x-run"] == "5"
    assert Outcome.AUTH is record.outcome
    assert "AAAA1111" not in repr(record)


def test_without_a_key_the_sdk_sends_none(case_server):
    """The SDK insists on a key of its own; the wire carries no Authorization."""
    with asker(case_server.host("good"), traffic="sdk") as user:
        user.ask()

    assert "authorization" not in case_server.asked("good")[0]["headers"]


def test_E11_a_kept_connection_that_the_server_closed_is_opened_again(case_server):
    """No failure, and the reopening is counted: at once when seen, else as a reconnect."""
    with asker(case_server.host("E11")) as user:
        records = []
        for _ in range(3):
            records.append(user.ask().record)
            gevent.sleep(1.05)

    assert [record.outcome for record in records] == [Outcome.OK] * 3
    assert sum(record.connections_opened for record in records) == 3
