"""Answers in HTTP chunks, and one request straight over the streaming transport."""

from stream.reply import ReplyReader
from tests.support.case_notation import C, D, F, R, U
from tests.support.raw_server import answer
from users.classify import classify
from users.wire import ChatRequest
from workloads.traffic import TrafficKind

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
STAMP_S = 0.005
"""How far a stamp may be from the write that it belongs to."""


def chunk(*events):
    """Events as one chunk."""
    data = b"".join(events)
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(text="fig", end="keep"):
    """A whole answer in one write."""
    return answer(CHUNKED + chunk(R, C(text), F(), U(3, 1), D) + LAST, end=end)


def spaced(text="abc", every_ms=60, **fields):
    """One token of one character each so many milliseconds."""
    tokens = [((i + 1) * every_ms, chunk(C(letter))) for i, letter in enumerate(text)]
    end = ((len(text) + 1) * every_ms, chunk(F(), U(3, len(text)), D) + LAST)
    return answer(CHUNKED + chunk(R), *tokens, end, **fields)


SILENT = answer(end="hold")
HALF = answer(CHUNKED + chunk(R, C("half")), end="hold")


class Posted:
    """One request straight over a transport: its facts, reply and verdict."""

    def __init__(self, user, name="one"):
        reader = ReplyReader(keep_text=True)
        transport = user.transports[TrafficKind.STREAM]
        self.facts = transport.post(ChatRequest(b"{}", name), reader)
        self.reply = reader.close(self.facts.end_s)
        self.verdict = classify(self.reply, self.facts.failure)

    @property
    def outcome(self):
        """How it ended."""
        return self.verdict.outcome

    @property
    def text(self):
        """What the model said."""
        return self.reply.texts.get(0, "")

    def output_at_s(self):
        """When the outputs arrived, on the clock that the processes share."""
        return [self.facts.sent_at_s + at_s for at_s in self.reply.output_at_s]


def assert_stamped_as_written(posted, server, nth=0, first_write=1):
    """Each output's time is that of the write which carried it."""
    writes = [event for event in server.events("write") if event["nth"] == nth][first_write:]
    arrived = posted.output_at_s()
    assert arrived
    for at_s, write in zip(arrived, writes, strict=False):
        assert write["before_s"] - 0.001 <= at_s <= write["after_s"] + STAMP_S
