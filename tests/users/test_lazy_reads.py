"""Lazy reads: the first token and the end are as exact as ever, and nothing else is claimed.

Times are compared with the moments at which the server says it wrote.
"""

import sys
import time

import gevent
import pytest

from metrics.outcome import Outcome, ReadMode, StampSource
from tests.support.asking import asker
from tests.support.case_notation import C, D, F, R, T, U
from tests.support.raw_server import answer, raw_server
from tests.support.stamped import CHUNKED, LAST, STAMP_S, Posted, chunk, spaced
from users.lazy_reads import LAZY_LEAST_S, LAZY_MOST_S, LAZY_SHARE, LAZY_UNREAD_BYTES
from users.stamped_socket import StampedSocket

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps packets"),
]
LETTERS = "abcdefghijklmnopqrst"


def test_first_token_and_end_are_those_of_the_writes(tmp_path):
    """20 tokens 15 ms apart: TTFT and last token bear their own writes' times, all are counted."""
    said = spaced(LETTERS, every_ms=15)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        posted = Posted(user)
        writes = server.events("write")[1:]

    facts, reply = posted.facts, posted.reply
    first_s, last_s = (facts.sent_at_s + at_s for at_s in (reply.first_output_s, facts.end_s))
    assert (Outcome.OK, ReadMode.LAZY) == (posted.outcome, facts.read_mode)
    assert (LETTERS, len(LETTERS)) == (posted.text, reply.chunks)
    assert StampSource.KERNEL is facts.stamp_source
    assert writes[0]["before_s"] - 0.001 <= first_s <= writes[0]["after_s"] + STAMP_S
    assert writes[-1]["before_s"] - 0.001 <= last_s <= writes[-1]["after_s"] + STAMP_S


def test_many_chunks_come_in_one_read(tmp_path):
    """The point of it: far fewer reads than chunks."""
    said = spaced(LETTERS, every_ms=5)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        posted = Posted(user)

    assert len(set(posted.reply.output_at_s)) < len(LETTERS) / 2


@pytest.fixture
def reads(monkeypatch):
    """The data of all reads, as they are made."""
    made, receive = [], StampedSocket.receive

    def noted(connection):
        received = receive(connection)
        if received is not None:
            made.append(received[0])
        return received

    monkeypatch.setattr(StampedSocket, "receive", noted)
    return made


def test_ordinary_chunks_lie_unread_and_the_end_is_noticed(tmp_path, reads):
    """200 tokens 10 ms apart: few reads, none too large, all tokens and the end's own time."""
    said = spaced("abcdefghij" * 20, every_ms=10)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        joined_s = time.perf_counter()
        record = user.ask().record
        write = server.events("write")[-1]

    assert (Outcome.OK, 200, True) == (record.outcome, record.chunks, record.saw_done)
    assert len(reads) < 18
    assert record.end_s < write["after_s"] - joined_s + STAMP_S
    assert record.noticed_late_s < LAZY_MOST_S + 0.05


def test_little_is_left_unread_of_a_thick_stream(tmp_path, reads):
    """50 kB a second: no read takes much more than may wait, so no buffer fills up."""
    tokens = [(10 * n, chunk(C("x" * 400))) for n in range(1, 160)]
    said = answer(CHUNKED + chunk(R), *tokens, (1700, chunk(F(), D) + LAST))
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        record = user.ask().record

    assert (Outcome.OK, 159) == (record.outcome, record.chunks)
    assert LAZY_UNREAD_BYTES / 2 < max(map(len, reads)) < 2.5 * LAZY_UNREAD_BYTES


def test_E05_a_connection_lost_behind_ordinary_chunks_is_noticed(tmp_path, reads):
    """Its last bytes look like any others: silence has them read, and the end behind them."""
    tokens = [(10 * n, chunk(C("a"))) for n in range(1, 120)]
    said = answer(CHUNKED + chunk(R), *tokens, end="close")
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        record = user.ask().record

    assert (Outcome.INTERRUPTED, 119) == (record.outcome, record.chunks)
    assert len(reads) < 16
    assert record.end_s < 1.2 + 2 * LAZY_SHARE * 1.2 + 0.2


def test_a_stopped_user_has_what_lay_unread(tmp_path):
    """Tokens that had arrived when a lazy stream was cut short are counted."""
    tokens = [(10 * n, chunk(C("a"))) for n in range(1, 101)]
    said = answer(CHUNKED + chunk(R), *tokens, end="hold")
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        asking = gevent.spawn(user.ask)
        while len(server.events("write")) < 80:
            gevent.sleep(0.005)
        written = len(server.events("write")) - 1
        asking.kill()
        record = asking.value.record

    assert Outcome.CANCELLED is record.outcome
    assert record.chunks >= written - 1


def test_a_lazy_stream_has_no_gaps(tmp_path):
    """What was not measured is not told: no gap, no longest gap, no merged read."""
    said = spaced("abcd", every_ms=30)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        answered = user.ask()

    record = answered.record
    assert (ReadMode.LAZY, 4, None) == (record.read_mode, record.chunks, record.max_gap_s)
    assert (0, 0) == (len(answered.gaps_s), record.merged_reads)


def test_the_share_of_full_reads_is_kept_exactly(tmp_path):
    """A quarter is every fourth stream, and those have their gaps."""
    said = spaced("abc", every_ms=5)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="25%") as user:
        records = [user.ask().record for _ in range(8)]

    full = [record.read_mode is ReadMode.FULL for record in records]
    assert [False, False, False, True] * 2 == full
    assert full == [record.max_gap_s is not None for record in records]


def test_few_streams_are_all_read_in_full(tmp_path):
    """The default on a small run."""
    with raw_server(tmp_path, spaced("ab", every_ms=5)) as server, asker(server.url) as user:
        assert ReadMode.FULL is user.ask().record.read_mode


def test_how_late_the_user_learns_of_the_end_is_told(tmp_path):
    """No later than the pause that its age allows, and a machine's own lateness."""
    said = spaced(LETTERS, every_ms=10)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        records = [user.ask().record for _ in range(4)]

    for record in records:
        pause_s = min(LAZY_MOST_S, max(LAZY_LEAST_S, LAZY_SHARE * record.end_s))
        assert 0 < record.noticed_late_s < pause_s + 0.05


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        ({"idle_timeout": "300ms"}, Outcome.IDLE_TIMEOUT),
        ({"total_timeout": "400ms"}, Outcome.TOTAL_TIMEOUT),
    ],
)
def test_E12_limits_hold_for_lazy_streams(tmp_path, limit, outcome):
    """Silence after a token ends a lazy stream as it ends any other."""
    said = answer(CHUNKED + chunk(R), (50, chunk(C("a"))), end="hold")
    with (
        raw_server(tmp_path, said) as server,
        asker(server.url, gap_sample="0", **limit) as user,
    ):
        record = user.ask().record

    assert (outcome, 1) == (record.outcome, record.chunks)
    assert record.end_s < 1.5


@pytest.mark.parametrize("end", ["close", "reset"])
def test_E05_a_lazy_stream_cut_off_is_interrupted(tmp_path, end):
    """The connection's end is noticed although nobody watches it."""
    said = answer(CHUNKED + chunk(R), (20, chunk(C("a"))), (40, chunk(C("b"))), end=end)
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        record = user.ask().record

    assert Outcome.INTERRUPTED is record.outcome


def test_lazy_streams_interleave_and_all_end(tmp_path):
    """Twenty at once, more than once: each gets its own text, and nobody is forgotten."""
    said = [spaced(letter * 6, every_ms=10) for letter in LETTERS]
    with raw_server(tmp_path, *said) as server, asker(server.url, gap_sample="0") as user:
        for _ in range(2):
            jobs = [gevent.spawn(Posted, user) for _ in said]
            gevent.joinall(jobs, timeout=10)
            assert all(len(set(job.value.text)) == 1 for job in jobs)
            assert all(len(job.value.text) == 6 for job in jobs)
            time.sleep(0.3)


def test_the_first_visible_text_has_its_own_time_too(tmp_path):
    """After reasoning a stream is read in full until the answer begins."""
    thoughts = [(40 * n, chunk(T("x"))) for n in range(1, 8)]
    said = answer(CHUNKED + chunk(R), *thoughts, (330, chunk(C("a"))), (360, chunk(F(), D) + LAST))
    with raw_server(tmp_path, said) as server, asker(server.url, gap_sample="0") as user:
        posted = Posted(user)
        write = server.events("write")[-2]

    at_s = posted.facts.sent_at_s + posted.reply.first_answer_s
    assert write["before_s"] - 0.001 <= at_s <= write["after_s"] + STAMP_S


def test_E12_silence_is_judged_after_what_lies_unread(tmp_path):
    """A token each 250 ms under an idle limit of 300 ms is no silence, however it is read."""
    said = spaced("abcdefgh", every_ms=250)
    options = {"gap_sample": "0", "idle_timeout": "300ms"}
    with raw_server(tmp_path, said) as server, asker(server.url, **options) as user:
        record = user.ask().record

    assert (Outcome.OK, 8) == (record.outcome, record.chunks)


def test_a_first_token_read_with_others_says_how_late_it_may_be(tmp_path):
    """Three tokens 40 ms apart wait for a blocked event loop: the first bears the last's time."""
    said = answer(
        CHUNKED + chunk(R),
        *[(100 + 40 * n, chunk(C("x"))) for n in range(3)],
        (600, chunk(F(), U(3, 3), D) + LAST),
    )
    with raw_server(tmp_path, said) as server, asker(server.url) as user:
        asking = gevent.spawn(Posted, user)
        gevent.sleep(0.06)
        blocked_until_s = time.perf_counter() + 0.3
        while time.perf_counter() < blocked_until_s:
            pass
        posted = asking.get(timeout=5)
        writes = server.events("write")[1:]

    facts = posted.facts
    late_s = facts.sent_at_s + posted.reply.first_output_s - writes[0]["after_s"]
    assert late_s > 0.03
    assert facts.ttft_late_max_s is not None
    assert late_s - STAMP_S <= facts.ttft_late_max_s < 0.35
    assert 1 == facts.merged_reads


def test_two_tokens_of_one_packet_are_late_by_next_to_nothing(tmp_path):
    """The server sent them together after a long wait: an idle loop had nothing lying unread."""
    said = answer(
        CHUNKED + chunk(R), (800, chunk(C("x")) + chunk(C("y"))), (900, chunk(F(), D) + LAST)
    )
    with raw_server(tmp_path, said) as server, asker(server.url) as user:
        late_s = [Posted(user, f"r{n}").facts.ttft_late_max_s for n in range(3)]

    assert min(late_s) < 0.1


def test_a_first_token_with_a_read_of_its_own_is_exact(tmp_path):
    """No bound is given where none is needed."""
    with raw_server(tmp_path, spaced("abc")) as server, asker(server.url) as user:
        assert user.ask().record.ttft_late_max_s is None
