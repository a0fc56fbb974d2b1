"""A disk that is full at the master, without one."""

from datetime import UTC, datetime
from types import SimpleNamespace

from hooks.early_end import EarlyEnds
from hooks.run_folder import create_run_folder
from metrics.run_files import read_rows, row_line
from shapes.bounded import EndKind
from tests.support.records import make_record

START = datetime(2026, 1, 2, tzinfo=UTC)


class Filling:
    """A file on a disk with room for so many bytes; afterwards there is room again."""

    def __init__(self, file, room):
        self._file, self._room, self._full = file, room, False

    def write(self, data):
        if self._full:
            return self._file.write(data)
        if not self._room:
            self._full = True
            raise OSError(28, "No space left on device")
        written = self._file.write(data[: self._room])
        self._room -= written
        return written

    def close(self):
        self._file.close()


def test_what_was_written_stays_readable_and_what_was_not_is_counted(tmp_path):
    """The disk fills up within the third row: the two before are read, the torn one is the last of
    the file although there is room again, and the three from it on are counted."""
    folder = create_run_folder(tmp_path, START, "r")
    lines = [row_line(make_record(sequence=n).to_row()) for n in range(5)]
    folder._requests = Filling(folder._requests, len(lines[0]) + len(lines[1]) + 10)
    for line in lines[:4]:
        folder.append([line])
    assert "requests.jsonl: No space left on device" in folder.unwritable
    folder.append([lines[4]])
    folder.close()

    with (folder.path / "requests.jsonl").open("rb") as kept:
        assert [0, 1] == [record.sequence for record in read_rows(kept)]
    assert 3 == folder.rows_left_out


def test_rows_that_can_be_kept_no_longer_end_the_run():
    """Once, with the reason; before that nothing ends it."""
    ordered = []
    ends = EarlyEnds(SimpleNamespace(register_message=lambda *_, **__: None))
    ends._plan = SimpleNamespace(ended_early=None, end=ordered.append)
    ends.check(0, None, None)
    assert [] == ordered
    ends.check(0, None, "requests.jsonl: No space left on device")

    (order,) = ordered
    assert EndKind.DISK is order.kind
    assert "requests.jsonl: No space left on device" in order.reason
