"""Who runs the same suite, whose clock stands where, who has sent its share, who was away."""

import shutil

import pytest

from hooks.request_shares import RequestShares
from hooks.roll_call import WallClock
from hooks.suite_identity import (
    MODULES,
    PACKAGES,
    SUITE,
    FileReader,
    objection,
    suite_files,
    suite_hash,
)


@pytest.fixture
def copy(tmp_path):
    """Another checkout of the suite: one package, one module, caches."""
    root = tmp_path / "suite"
    shutil.copytree(SUITE / "hooks", root / "hooks")
    shutil.copy(SUITE / "settings.py", root)
    return root


def test_the_suite_is_all_that_a_run_imports():
    """Every package and module of the checkout counts, but tests, servers and benches."""
    folders = {path.parent.name for path in SUITE.glob("*/__init__.py")}
    assert {*PACKAGES, "simulator", "bench", "tests"} == folders
    assert {f"{module}.py" for module in MODULES} == {path.name for path in SUITE.glob("*.py")}


def test_the_hash_does_not_follow_the_order_of_the_files(copy):
    """A folder lists its files in any order."""
    files = list(suite_files(copy))
    assert len(files) > 20
    assert suite_hash(copy, files) == suite_hash(copy, files[::-1]) == suite_hash(copy)


@pytest.mark.parametrize("place", ["hooks/__pycache__/x.py", "hooks/x.pyc", "hooks/.x.py", "x.txt"])
def test_caches_and_other_files_do_not_count(copy, place):
    """What is not the suite's code changes nothing."""
    before = suite_hash(copy)
    path = copy / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("x = 1\n")
    assert before == suite_hash(copy)


def test_line_ends_do_not_count(copy):
    """Another system's checkout has other ones."""
    before = suite_hash(copy)
    path = copy / "settings.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert before == suite_hash(copy)


@pytest.mark.parametrize("change", ["content", "name", "removal"])
def test_each_change_of_the_code_shows(copy, change):
    """A byte more, another name, one file less."""
    before, path = suite_hash(copy), copy / "hooks" / "fleet.py"
    if change == "content":
        path.write_bytes(path.read_bytes() + b"#")
    elif change == "name":
        path.rename(path.with_name("fleets.py"))
    else:
        path.unlink()
    assert before != suite_hash(copy)


MASTERS = {"code": "a" * 64, "files": {"lengths.csv": "b" * 64}}


def test_the_same_suite_and_files_take_part():
    """Also when no file was read yet."""
    assert objection(MASTERS, "a" * 64) is None
    assert objection(MASTERS, "a" * 64, {"lengths.csv": "b" * 64}) is None


def test_other_code_is_refused_by_both_hashes():
    """The message says which files count and what to do."""
    text = objection(MASTERS, "c" * 64)
    for part in ("c" * 12, "a" * 12, "workloads", "same checkout or image"):
        assert part in text


def test_another_file_of_an_option_is_refused_by_both_hashes():
    """A table of lengths that differs makes other prompts."""
    read = FileReader(lambda path: f"of {path}")
    assert "of lengths.csv" == read("lengths.csv")
    text = objection(MASTERS, "a" * 64, read.hashes)
    for part in ("lengths.csv", read.hashes["lengths.csv"][:12], "b" * 12, "copy the master's"):
        assert part in text


@pytest.mark.parametrize(("there_s", "back_s"), [(0.01, 0.01), (0.2, 0.0), (0.0, 0.3)])
def test_a_round_trip_tells_the_offset_to_within_its_half(there_s, back_s):
    """A worker 12 s ahead that takes 5 s to answer: however the way splits, the error holds it."""
    asked_s, ahead_s, thinking_s = 1000.0, 12.0, 5.0
    heard_s = asked_s + there_s + ahead_s
    came_s = asked_s + there_s + thinking_s + back_s
    clock = WallClock.of_round_trip(asked_s, heard_s, heard_s + thinking_s, came_s)
    assert clock.error_s == pytest.approx((there_s + back_s) / 2)
    assert abs(clock.offset_s - ahead_s) <= clock.error_s + 1e-9
    assert clock.describe().startswith(f"{clock.offset_s:.1f} s (to within")
    assert "ahead of" in clock.describe()


def test_a_small_offset_is_not_told():
    """Half a second, or what the way there may explain, is nothing to speak of."""
    assert WallClock(0.4, 0.001).describe() is None
    assert WallClock(-3.0, 4.0).describe() is None
    assert "behind" in WallClock(-3.0, 1.0).describe()


class Runner:
    """Hands messages to who listens."""

    def register_message(self, name, listener):
        """As Locust has it."""
        self.listener = listener

    def used(self, client_id, run_id="r"):
        """A worker says that its share is sent."""
        self.data = {"run_id": run_id, "client_id": client_id}
        self.listener(environment=None, msg=self)


@pytest.fixture
def runner():
    """Of a master."""
    return Runner()


def test_a_run_ends_when_all_shares_are_sent(runner):
    """Not before the last worker says so, and not for another run's word."""
    shares = RequestShares(runner)
    shares.begin("r", 200, ["a", "b"])
    runner.used("a")
    runner.used("b", run_id="before")
    assert shares.used_up({"a", "b"}) is None
    runner.used("b")
    assert "all 200 requests of --max-requests were sent" == shares.used_up({"a", "b"})


def test_a_lost_workers_share_is_lost_and_said(runner):
    """200 over three: the lost one had 67 of them; a late one has none and is not waited for."""
    shares = RequestShares(runner)
    shares.begin("r", 200, ["a", "b", "c"])
    runner.used("b")
    runner.used("c")
    assert shares.used_up({"a", "b", "c"}) is None
    text = shares.used_up({"b", "c", "late"})
    assert text.startswith("133 of the 200 requests")
    assert "some of the 67 that were the share of a worker that was lost" in text


def test_without_a_bound_nothing_is_used_up(runner):
    """--max-requests 0."""
    shares = RequestShares(runner)
    shares.begin("r", 0, ["a"])
    assert shares.used_up(set()) is None
