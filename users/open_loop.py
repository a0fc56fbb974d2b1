"""The open loop's user: it sends a worker's share of the arrivals when they are due.

There is one on each worker. Each arrival is a greenlet of its own, so that a slow answer holds up
nobody; times are absolute, so that a late arrival moves no other.
"""

import itertools
import logging
import random
import time
from collections.abc import Iterator

import gevent
from gevent.event import Event
from gevent.pool import Group
from locust import User, task
from locust.exception import StopUser
from locust.user.task import LOCUST_STATE_STOPPING

from metrics.stage import Phase, Stage
from users.asking import Wish, ask, not_sent
from users.chat_user import (
    BlockingChatUser,
    ChatUser,
    SdkChatUser,
    StreamingChatUser,
    chat_body,
    fire_request,
    patience_s,
)
from users.run_context import CURRENT_RUN, RunContext
from workloads.arrivals import Arrival, ArrivalKind, ArrivalProcess, share_of
from workloads.traffic import TrafficKind

LATEST_S = 1.0
"""An arrival that is later than this when its stage is over is not sent any more."""

_ASKING_AS: dict[TrafficKind, type[ChatUser]] = {
    user_class.kind: user_class for user_class in (StreamingChatUser, BlockingChatUser, SdkChatUser)
}

_HEARS_S = 0.1
"""Messages that have come are read within it."""

_EVENLY = ArrivalProcess(ArrivalKind.CONSTANT, 0.0)

log = logging.getLogger("swarmgauge.users")


class OpenLoopUser(User):
    """Sends what is due, whether or not earlier requests were answered."""

    context: RunContext
    _left_at_s: float | None = None

    def on_start(self) -> None:
        """Join the current run."""
        if CURRENT_RUN.context is None:
            raise gevent.GreenletExit  # as in users.chat_user
        self.context = CURRENT_RUN.context
        self._asking = Group()
        self._unbegun: dict[int, tuple[TrafficKind, Wish]] = {}
        self._spawned = 0
        self._leaving = Event()
        self._hears = True
        self._wake = Event()
        self.context.on_phase.append(self._wake.set)
        shares = self.context.settings.traffic
        self._kinds = [share.kind for share in shares]
        self._weights = [share.weight for share in shares]

    def stop(self, force: bool = False) -> bool:
        """Locust's hook: no further arrivals; those under way are finished unless it is forced."""
        if self._left_at_s is None:
            self._left_at_s = time.perf_counter()
        self._leaving.set()
        self._wake.set()
        if self._state == LOCUST_STATE_STOPPING and not force:
            return False  # as in users.chat_user
        left: bool = super().stop(force)
        return left

    @task
    def dispatch(self) -> None:
        """All arrivals of all stages; ends when the run wants no users and all are answered."""
        try:
            while self._left_at_s is None:
                self._follow_the_run()
            self._hand_over()
            self._asking.join()
        finally:
            # Only when this greenlet was told to end at once is anything left here.
            self._asking.kill()
            for kind, wish in self._unbegun.values():
                answer = not_sent(self.context, wish, "the run was ended")
                fire_request(self.environment, kind, answer)
            self._unbegun.clear()
            self._hand_over()
            self.context.on_phase.remove(self._wake.set)
        raise StopUser

    def _follow_the_run(self) -> None:
        stage, phase = self.context.stage, self.context.phase
        if not self._sends():
            self._wait(None)
        elif stage is not None and phase is Phase.COLD and self._takes_cold_request():
            number = self._spawned
            self._spawn(stage, Arrival(number, 0.0), time.perf_counter())
            self._asking.join()
        elif stage is not None and phase in (Phase.SETTLE, Phase.HOLD) and stage.rate_rps:
            self._send_share(stage)
        else:
            self._wait(None)

    def _sends(self) -> bool:
        """Whether this is the user that sends the worker's share.

        When a worker goes, Locust gives its user to another that has one already.
        """
        if self.context.sender is None:
            self.context.sender = self
        return self.context.sender is self

    def _hand_over(self) -> None:
        if self.context.sender is self:
            self.context.sender = None
            self.context.wake()

    def _takes_cold_request(self) -> bool:
        return self.context.takes_cold_request() and self.context.takes_request()

    def _send_share(self, stage: Stage) -> None:
        """This worker's arrivals of one stage, until it is over or shared otherwise."""
        context = self.context
        began_s, _ = context.bounds_s(stage)
        if began_s is None:
            self._wait(None)
            return
        sharings = context.sharings
        for arrival in share_of(self._schedule_s(stage), stage.id, sharings):
            if arrival.number < context.next_arrival.get(stage.id, 0):
                continue
            due_at_s = began_s + arrival.due_s
            if not self._is_due(stage, due_at_s, len(sharings)):
                return
            if not context.takes_request():
                break
            context.next_arrival[stage.id] = arrival.number + 1
            self._spawn(stage, arrival, due_at_s)
        self._wait(None)

    def _schedule_s(self, stage: Stage) -> Iterator[float]:
        """When all arrivals of the fleet are due, in seconds from the stage's beginning."""
        settings, chance = self.context.settings, self.context.schedule_chance(stage)
        # Chance clumps would be refused at a rate that a limiter carries.
        arrivals = _EVENLY if settings.shape == "limits" else settings.arrivals
        if stage.rate_tokens_per_s is None:
            return arrivals.schedule_s(stage.rate_rps or 0.0, chance)
        tokens = (self._nominal_tokens(stage, number) for number in itertools.count())
        return arrivals.token_schedule_s(stage.rate_tokens_per_s, tokens, chance)

    def _nominal_tokens(self, stage: Stage, number: int) -> int:
        """Of an arrival: its prompt's and the asked maximum, whichever worker sends it."""
        max_tokens = self._draw(self.context.schedule_chance(stage, number))[1]
        prompt_tokens = self.context.plan.nominal_prompt_tokens(_name(stage, number))
        return prompt_tokens + max_tokens

    def _draw(self, chance: random.Random) -> tuple[TrafficKind, int]:
        """The kind and the asked maximum of an arrival; the first that its chance decides."""
        kind = chance.choices(self._kinds, self._weights)[0]
        return kind, self.context.settings.output_tokens.sample_tokens(chance)

    def _is_due(self, stage: Stage, due_at_s: float, sharings: int) -> bool:
        """Wait until then; False when the stage is over, or shared anew, before."""
        while len(self.context.sharings) == sharings:
            ends = [self.context.bounds_s(stage)[1], self._left_at_s]
            over_s = min((end_s for end_s in ends if end_s is not None), default=None)
            if over_s is not None:
                return due_at_s < over_s
            wait_s = due_at_s - time.perf_counter()
            if wait_s > 0:
                self._hears = True
                self._wait(wait_s)
            elif wait_s > -LATEST_S or not self._hears:
                return True
            else:
                # A process that was stopped may have been given up meanwhile: it hears that first.
                self._hears = False
                gevent.sleep(_HEARS_S)
        return False

    def _wait(self, limit_s: float | None) -> None:
        """Until something is announced, this user shall leave, or the time is over."""
        self._wake.clear()
        if self._left_at_s is None:
            self._wake.wait(limit_s)

    def _spawn(self, stage: Stage, arrival: Arrival, due_at_s: float) -> None:
        kind, wish = self._wish(stage, arrival, due_at_s)
        if self._left_at_s is not None or _id_of(self.context.stage) != stage.id:
            late_s = time.perf_counter() - due_at_s
            if late_s > LATEST_S:
                reason = f"{late_s:.1f} s late when its stage was over"
                fire_request(self.environment, kind, not_sent(self.context, wish, reason))
                return
        number = self._spawned
        self._spawned += 1
        self._unbegun[number] = kind, wish
        self._asking.spawn(self._ask, number)

    def _wish(self, stage: Stage, arrival: Arrival, due_at_s: float) -> tuple[TrafficKind, Wish]:
        """What an arrival asks: it follows from its number, whichever worker sends it."""
        context = self.context
        chance = context.schedule_chance(stage, arrival.number)
        kind, max_tokens = self._draw(chance)
        asking_as = _ASKING_AS[kind]
        prompt = context.plan.prompt(_name(stage, arrival.number))
        wish = Wish(
            user=arrival.number,
            user_class=asking_as.__name__,
            prompt=prompt,
            body=chat_body(context, prompt, max_tokens, asking_as.streams),
            stream=asking_as.streams,
            asked_max_tokens=max_tokens,
            think_s=0.0,
            due_at_s=due_at_s,
            leave_after_s=patience_s(context.settings.leaving, chance),
            leaving=self._leaving,
        )
        return kind, wish

    def _ask(self, number: int) -> None:
        kind, wish = self._unbegun.pop(number)
        answer = ask(self.context, self.context.transports[kind], wish)
        fire_request(self.environment, kind, answer)
        if answer.interrupt is not None:
            raise answer.interrupt


def _id_of(stage: Stage | None) -> int | None:
    return None if stage is None else stage.id


def _name(stage: Stage, arrival: int) -> str:
    """Of an arrival's request: it decides the prompt, whichever worker sends it."""
    return f"{stage.id}.{arrival}"
