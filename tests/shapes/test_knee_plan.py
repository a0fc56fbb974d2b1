"""The knee plan holds the levels that the search asks for, for as long as they need."""

from dataclasses import dataclass, field

import pytest

from metrics.knee_level import Level
from metrics.knee_result import KneeStatus
from metrics.knee_search import KneeSearch, SearchSettings
from metrics.stage import Phase, Stage
from shapes.bounded import BoundedPlan
from shapes.cold_start import ColdStartPlan
from shapes.knee import HOPELESS_FAILURES, LEAST_HOLD_S, PAUSE_S, WARM_LIMIT_S, KneePlan
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
    spoilt: frozenset = frozenset()
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
        lost = stage in self.spoilt and self.hold_began_s is not None
        return Progress(self.users if warm else 0, ok, ended - ok, ended, spoilt=lost)

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

    def __init__(
        self,
        server,
        plan=None,
        most_users=64,
        brings_users=True,
        limit_s=3000,
        users_at=lambda now_s, wish: wish.target_users,
    ):
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
                users = users_at(server.now_s, wish)
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

    assert drive.plan.ended_by.startswith("the budget of 150 requests was spent")
    assert drive.reasons[-1].startswith(f"the search is over ({drive.plan.ended_by}): ")


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ({"most_levels": 3}, "the budget of 3 levels was spent"),
        ({"most_s": 25.0}, "the budget of 25 s was spent"),
        ({}, None),
    ],
)
def test_what_ended_a_search_is_one_sentence(bound, said):
    """Levels, seconds, or nothing: then it ended by itself."""
    search = KneeSearch(SearchSettings(most_users=64, **bound))
    drive = Drive(Server(), KneePlan(search, 0.0, 600.0, None, 30.0))

    assert said == drive.plan.ended_by
    assert said == ColdStartPlan(drive.plan, 5.0).ended_by


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


def test_why_a_level_was_set_aside_is_kept_for_the_report():
    """The reason stands by its stage, behind a cold start and an early end too; else there is
    none."""
    plan = Drive(Server(voids={2: "a worker was lost"})).plan

    wrapped = BoundedPlan(ColdStartPlan(plan, 5.0), 5.0)
    assert {2: "a worker was lost"} == plan.void_reasons == wrapped.void_reasons
    assert {} == Drive(Server()).plan.void_reasons


def test_a_search_without_a_budget_left_does_not_ask_for_more_users():
    """25 s and 150 requests were too little for 64 users: a larger budget is what helps."""
    for bound in ({"most_s": 25.0}, {"most_requests": 150}):
        search = KneeSearch(SearchSettings(most_users=64, **bound))
        drive = Drive(Server(), KneePlan(search, 0.0, 600.0, None, 30.0))

        assert drive.plan.result.reason.endswith("a search with a larger budget would tell")
        assert drive.reasons[-1].endswith(drive.plan.result.reason)
    assert Drive(Server(slots=1000), most_users=8).plan.result.reason.endswith("more users")


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


# --- after a void level ---


def test_nobody_asks_for_a_while_before_a_void_level_is_held_again():
    """What voided it may settle; a level that was fine is followed at once."""
    drive = Drive(Server(voids={2: "a gateway was cooling down"}))

    again = drive.phases(3)
    assert [Phase.IDLE, Phase.RAMP, Phase.SETTLE, Phase.HOLD] == list(again)
    assert PAUSE_S <= again[Phase.IDLE] <= PAUSE_S + 1
    idle = [stage.id for _, stage, phase in drive.seen if phase is Phase.IDLE]
    assert [3] == idle


def test_the_pause_begins_when_the_users_have_left():
    """Answers under way are load: 7 s of them come on top."""
    leaving = {}

    def users_at(now_s, wish):
        if wish.phase is not Phase.IDLE:
            return wish.target_users
        return 4 if now_s < leaving.setdefault("since_s", now_s) + 7 else 0

    drive = Drive(Server(voids={2: "late"}), users_at=users_at)

    assert pytest.approx(7 + PAUSE_S, abs=1) == drive.phases(3)[Phase.IDLE]


def test_the_pause_has_an_end_where_users_never_leave():
    """The drain's limit and the pause, then the level is tried all the same."""
    plan = KneePlan(KneeSearch(SearchSettings(most_users=64)), 0.0, 600.0, None, 30.0)
    drive = Drive(
        Server(voids={2: "late"}),
        plan,
        users_at=lambda _, wish: wish.target_users or 4,
        limit_s=400,
    )

    assert 30 + PAUSE_S == drive.phases(3)[Phase.IDLE]


def test_a_spoilt_level_is_cut():
    """A lost worker leaves nothing to wait for: the level ends at the next look."""
    drive = Drive(Server(voids={2: "worker b was lost"}, spoilt=frozenset({2})))

    assert drive.phases(2)[Phase.HOLD] <= 2
    assert pytest.approx(SLOTS, abs=1) == drive.plan.result.users


def test_a_level_whose_users_went_missing_is_void():
    """A fleet that is started anew in the middle of a hold: two looks without all users."""
    gone = []

    def users_at(now_s, wish):
        if wish.stage.id == 3 and wish.phase is Phase.HOLD and len(gone) < 2:
            gone.append(now_s)
            return 1
        return wish.target_users

    drive = Drive(Server(), users_at=users_at)

    assert [1, 2, 4, 8, 8] == [stage.target_users for stage in drive.plan.stages[:5]]
    voids = [level.stage for level in drive.search.levels if level.void]
    assert [3] == voids
    assert "its users did not all run throughout" == drive.search.levels[3].void


def test_one_look_between_two_reports_voids_nothing():
    """The workers' counts come one after the other."""
    gone = []

    def users_at(now_s, wish):
        if wish.stage.id == 3 and wish.phase is Phase.HOLD and not gone:
            gone.append(now_s)
            return 7
        return wish.target_users

    drive = Drive(Server(), users_at=users_at)

    assert gone
    assert not [level.stage for level in drive.search.levels if level.void]


def test_users_who_leave_may_finish_their_answers():
    """Down to half the users: they have the drain's limit beside the ramp's own."""

    def users_at(now_s, wish):
        lingers = wish.stage.kind == "down" and now_s < since.setdefault(wish.stage.id, now_s) + 25
        return wish.target_users + 1 if lingers else wish.target_users

    since = {}
    search = KneeSearch(SearchSettings(most_users=64, down_sweep=True))
    drive = Drive(Server(), KneePlan(search, 0.0, 600.0, None, 30.0), users_at=users_at)

    down = [stage.id for stage in drive.plan.stages if stage.kind == "down"]
    assert down
    assert 25 <= drive.phases(down[0])[Phase.RAMP] > RAMP_GRACE_S + 2
    assert not drive.plan.not_reached


def test_as_many_users_as_there_are_come_at_once():
    """Locust starts a fleet anew from no users: at a lower rate a held level would run thin."""
    plan = KneePlan(KneeSearch(SearchSettings(most_users=64)), 0.0, 600.0, None, 30.0)
    server, users, rates = Server(), 0, []
    while (wish := plan.next(Observation(server.now_s, users, server))) is not None:
        if wish.phase is Phase.HOLD:
            rates.append((wish.spawn_rate, wish.stage.target_users))
        server.hold_began_s = server.hold_began_s if wish.phase is Phase.HOLD else server.now_s
        users = server.users = wish.target_users
        server.now_s += 1.0

    assert rates
    assert all(rate >= users for rate, users in rates)
