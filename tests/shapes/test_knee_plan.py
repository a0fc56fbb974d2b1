"""The knee plan holds the levels that the search asks for, for as long as they need."""

from dataclasses import dataclass, field

import pytest

from metrics.knee_level import Level
from metrics.knee_result import KneeStatus
from metrics.knee_search import KneeSearch, SearchSettings
from metrics.stage import Phase, Stage
from shapes.knee import HOPELESS_FAILURES, LEAST_HOLD_S, WARM_LIMIT_S, KneePlan
from shapes.plan import RAMP_GRACE_S, Observation, Progress

SLOTS = 12
ALONE_S = 0.5


@dataclass
class Server:
    """Slots with a queue in front: what a run on it would report, second by second."""

    slots: int = SLOTS
    refuses_from: int | None = None
    warm_after_s: float = 2.0
    voids: dict = field(default_factory=dict)
    now_s: float = 0.0
    hold_began_s: float | None = None
    ramp_over_s: float = 0.0
    users: int = 0

    def waiting_s(self, users):
        """Mean wait for a slot."""
        return ALONE_S * max(0.0, users / self.slots - 1)

    def rps(self, users):
        """Answers a second."""
        return users / (ALONE_S + self.waiting_s(users))

    def refused(self):
        return self.refuses_from is not None and self.users >= self.refuses_from

    def progress(self, stage):
        warm = self.now_s - self.ramp_over_s >= self.warm_after_s
        held_s = 0.0 if self.hold_began_s is None else self.now_s - self.hold_began_s
        ended = int(self.rps(self.users) * held_s)
        ok = 0 if self.refused() else ended
        return Progress(self.users if warm else 0, ok, ended - ok, ended)

    def level(self, stage, held_s):
        progress = self.progress(stage.id)
        users, wait_s = stage.target_users, self.waiting_s(stage.target_users)
        # Every fourth a little slower, so that intervals are not empty.
        jitter = [0.01 * (n % 4) for n in range(progress.ok)]
        return Level(
            users=users,
            stage=stage.id,
            ttft_s=[0.05 + wait_s + j for j in jitter],
            tpot_s=[0.01] * progress.ok,
            latency_s=[ALONE_S + wait_s + j for j in jitter],
            requests=progress.ok + progress.failed,
            rate_limited=0,
            failed=progress.failed,
            void=self.voids.get(stage.id),
            held_s=held_s,
        )


class Drive:
    """Runs a plan against a server at one step a second."""

    def __init__(self, server, plan=None, most_users=64, brings_users=True, limit_s=3000):
        bounds = SearchSettings(most_users=most_users)
        self.search = KneeSearch(bounds)
        self.plan = plan or KneePlan(self.search, 3.0, 600.0, None, 30.0)
        self.server = server
        self.seen, self.reasons = [], []
        users = 0
        while server.now_s < limit_s:
            wish = self.plan.next(Observation(server.now_s, users, server))
            if wish is None:
                break
            if wish.reason not in self.reasons[-1:]:
                self.reasons.append(wish.reason)
            if not self.seen or self.seen[-1][1:] != (wish.stage, wish.phase):
                self.seen.append((server.now_s, wish.stage, wish.phase))
                server.hold_began_s = server.now_s if wish.phase is Phase.HOLD else None
                if wish.phase is Phase.SETTLE:
                    server.ramp_over_s = server.now_s
            if brings_users or wish.target_users < 4:
                users = wish.target_users
            server.users = users
            server.now_s += 1.0

    def phases(self, stage_id):
        """The phases of one stage, with how long each lasted."""
        ends = [entry[0] for entry in self.seen[1:]] + [self.server.now_s]
        return {
            phase: end - began
            for (began, stage, phase), end in zip(self.seen, ends, strict=True)
            if stage.id == stage_id
        }


def test_the_knee_of_a_server_with_slots_is_found():
    """Twelve slots, nothing told but what came in: within a user."""
    drive = Drive(Server())

    result = drive.plan.result
    assert result is not None
    assert result.status is KneeStatus.KNEE
    assert pytest.approx(SLOTS, abs=1) == result.users


def test_each_level_says_why_and_the_end_says_what_was_found():
    """For whoever watches the log."""
    drive = Drive(Server())

    assert "1 users: the first level" == drive.reasons[0]
    assert len(drive.reasons) == len(drive.plan.stages)
    assert drive.reasons[-1].startswith("the search is over: knee at about 12 ")


def test_a_search_that_ran_out_of_requests_says_so():
    """The bound that ended it is named."""
    search = KneeSearch(SearchSettings(most_users=64, most_requests=150))
    drive = Drive(Server(), KneePlan(search, 0.0, 600.0, None, 30.0))

    assert drive.reasons[-1].startswith("the search is over (ended by the bound on requests): ")


def test_each_level_is_ramped_settled_and_held_in_that_order():
    """One level after the other, and a drain at last."""
    drive = Drive(Server())

    stages = drive.plan.stages
    assert [1, 2, 4, 8] == [stage.target_users for stage in stages[:4]]
    assert list(range(len(stages))) == [stage.id for stage in stages]
    for stage in stages[:-1]:
        assert [Phase.RAMP, Phase.SETTLE, Phase.HOLD] == list(drive.phases(stage.id))
    assert (Stage(len(stages) - 1, "drain", 0), Phase.DRAIN) == drive.seen[-1][1:]


def test_a_level_is_held_until_it_has_what_was_asked_for():
    """Not by a table of times: the slow first level takes longest."""
    drive = Drive(Server())

    for stage, order in zip(drive.plan.stages[:-1], drive.plan.orders, strict=True):
        held_s = drive.phases(stage.id)[Phase.HOLD]
        needs_s = order.successes / drive.server.rps(stage.target_users)
        assert held_s >= min(LEAST_HOLD_S, needs_s)
        assert held_s <= max(needs_s, LEAST_HOLD_S) + 2


def test_users_settle_until_each_has_had_an_answer():
    """The burst of their start is no part of the level."""
    drive = Drive(Server(warm_after_s=9.0))

    assert {9.0} <= {drive.phases(stage.id)[Phase.SETTLE] for stage in drive.plan.stages[:-1]}


def test_settling_has_an_end_where_answers_do_not_come():
    """A server that never answers a user does not hold the search for ever."""
    drive = Drive(Server(warm_after_s=1e9), limit_s=200)

    assert drive.phases(0)[Phase.SETTLE] == WARM_LIMIT_S


def test_a_hopeless_level_is_cut():
    """It fails at once and all over: no thousand requests more."""
    drive = Drive(Server(refuses_from=8))

    stage = next(stage for stage in drive.plan.stages if stage.target_users == 8)
    rps = drive.server.rps(8)
    assert drive.phases(stage.id)[Phase.HOLD] <= HOPELESS_FAILURES / rps + 2
    assert drive.plan.result.status is KneeStatus.ERRORS


def test_a_level_whose_users_never_come_is_void():
    """It is named as not reached, tried once more, and is no level of the result."""
    drive = Drive(Server(), brings_users=False)

    missed = [s.target_users for s in drive.plan.stages if s.id in drive.plan.not_reached]
    assert missed
    assert set(missed) == {4}
    assert drive.phases(min(drive.plan.not_reached))[Phase.RAMP] > RAMP_GRACE_S
    assert max(level.users for level in drive.search.levels if level.void is None) == 2


def test_a_void_level_is_held_once_more():
    """A worker was lost, say: the search goes on from a level that holds."""
    drive = Drive(Server(voids={2: "a worker was lost"}))

    assert [1, 2, 4, 4, 8] == [stage.target_users for stage in drive.plan.stages[:5]]
    assert pytest.approx(SLOTS, abs=1) == drive.plan.result.users


def test_no_level_is_held_for_longer_than_its_limit():
    """A slow server gives what it gives."""
    search = KneeSearch(SearchSettings(most_users=4))
    plan = KneePlan(search, 0.0, 20.0, None, 30.0)
    drive = Drive(Server(), plan)

    assert drive.phases(0)[Phase.HOLD] == 20.0


def test_without_a_knee_the_search_ends_at_the_top():
    """Nothing queues up to the most users that it may use."""
    drive = Drive(Server(slots=1000), most_users=32)

    assert drive.plan.result.status is KneeStatus.NO_KNEE
    assert 32 == drive.plan.result.at_least == max(s.target_users for s in drive.plan.stages)
