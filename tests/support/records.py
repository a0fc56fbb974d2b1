"""Request records for tests: a plain success, changed where a test needs it."""

from metrics.outcome import Outcome, TokenSource
from metrics.record import RequestRecord
from metrics.stage import Phase


def make_record(**changes):
    """A streamed success in the held window of stage 0: TTFT 0.1 s, 5 tokens 0.1 s apart."""
    values = {
        "run_id": "run",
        "worker": "local",
        "user": 0,
        "sequence": 0,
        "stage": 0,
        "phase": Phase.HOLD,
        "user_class": "StreamingChatUser",
        "traffic_class": "interactive",
        "prompt_id": "p0",
        "prefix_id": None,
        "started_at": "2026-01-02T03:04:05.000000+00:00",
        "started_s": 1.0,
        "headers_s": 0.02,
        "ttft_s": 0.1,
        "ttfa_s": 0.1,
        "last_token_s": 0.5,
        "end_s": 0.5,
        "user_ttft_s": 0.1,
        "user_latency_s": 0.5,
        "streamed": True,
        "stream_asked": True,
        "chunks": 5,
        "max_gap_s": 0.1,
        "saw_done": True,
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "token_source": TokenSource.SERVER,
        "outcome": Outcome.OK,
        "status": 200,
    }
    return RequestRecord(**{**values, **changes})


def failed_record(outcome=Outcome.SERVER_ERROR, status=500, **changes):
    """A failure without any output, 2 ms after it was sent."""
    nothing = dict.fromkeys(
        (
            "ttft_s",
            "ttfa_s",
            "last_token_s",
            "user_ttft_s",
            "max_gap_s",
            "finish_reason",
            "prompt_tokens",
            "completion_tokens",
        )
    )
    values = {
        **nothing,
        "streamed": False,
        "chunks": 0,
        "saw_done": False,
        "token_source": TokenSource.UNKNOWN,
        "outcome": outcome,
        "status": status,
        "end_s": 0.002,
        "user_latency_s": 0.002,
    }
    return make_record(**{**values, **changes})
