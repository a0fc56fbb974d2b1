"""The Locust users: closed-loop chat clients that differ in how they ask."""

import random
from typing import ClassVar

import gevent
from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.user.task import LOCUST_STATE_STOPPING

from metrics.outcome import Outcome
from metrics.stage import Phase
from settings import Leaving
from users.asking import Answer, FailureTexts, Wish, ask
from users.run_context import CURRENT_RUN, RunContext
from workloads.chat_body import encode_chat
from workloads.prompts import Prompt
from workloads.traffic import TrafficKind


class ChatFailure(Exception):
    """What Locust sees of a request that did not succeed; its text is one of few."""


class ChatUser(User):
    """Asks, reads the answer, thinks, asks again; one request at a time."""

    abstract = True
    kind: ClassVar[TrafficKind]
    streams: ClassVar[bool] = True

    context: RunContext
    number: int

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._leaving = Event()

    def on_start(self) -> None:
        """Join the current run."""
        if CURRENT_RUN.context is None:
            # A joining worker can be given users before it is told of the run; it starts them anew.
            raise gevent.GreenletExit  # StopUser would be logged as an error here
        self.context = CURRENT_RUN.context
        self.number = self.context.next_user()
        self._pauses = self.context.chance("think_time", self.number)
        self._think_s = 0.0
        self._noticed_late_s = 0.0

    def wait_time(self) -> float:
        """Locust's hook: the pause before the next request, in seconds."""
        self._think_s = max(0.0, self.context.settings.think_time_s.sample(self._pauses))
        # The person began to think when the answer ended, not when we came round to reading it.
        return max(0.0, self._think_s - self._noticed_late_s)

    def stop(self, force: bool = False) -> bool:
        """Locust's hook: end this user, after the request under way unless it is forced."""
        # Locust kills a user that waits. Its pause may end in the same turn of the event loop, and
        # the kill would then cut a request that had just begun. One that waits for a retry wakes.
        self._leaving.set()
        if self._state == LOCUST_STATE_STOPPING and not force:
            # A second end, such as the master's of a worker that leaves without it, raises there.
            return False
        left: bool = super().stop(force)
        return left

    @task
    def chat(self) -> None:
        """One logical request: exactly one ``request`` event, whatever happens."""
        if self._leaving.is_set():
            raise StopUser
        if self.context.halted:
            self._leaving.wait()
            raise StopUser
        if self.context.phase is Phase.COLD and not self.context.takes_cold_request():
            self._wait_for_the_load()
            return
        if not self.context.takes_request():
            self._leaving.wait()
            raise StopUser
        transport = self.context.transports[self.kind]
        answer = ask(self.context, transport, self._next_wish())
        self._noticed_late_s = answer.record.noticed_late_s
        self._fire(answer)
        if answer.interrupt is not None:
            raise answer.interrupt
        if answer.record.outcome.failed and not self._think_s:
            # A server that refuses at once must not be turned into a busy loop of ours.
            gevent.sleep(_FAILURE_PAUSE_S * (0.5 + random.random()))

    def _fire(self, answer: Answer) -> None:
        fire_request(self.environment, self.kind, answer)

    def _wait_for_the_load(self) -> None:
        """The cold start has what it wanted; the master hears of it within two seconds."""
        while self.context.phase is Phase.COLD and not self._leaving.is_set():
            gevent.sleep(_COLD_PAUSE_S)

    def _next_wish(self) -> Wish:
        context, settings = self.context, self.context.settings
        name = context.next_name()
        prompt = context.plan.prompt(name)
        lengths = context.request_chance("output_tokens", name)
        max_tokens = settings.output_tokens.sample_tokens(lengths)
        return Wish(
            user=self.number,
            user_class=type(self).__name__,
            prompt=prompt,
            body=chat_body(context, prompt, max_tokens, self.streams),
            stream=self.streams,
            asked_max_tokens=max_tokens,
            think_s=self._think_s,
            leave_after_s=patience_s(settings.leaving, context.request_chance("leaving", name)),
            leaving=self._leaving,
        )


def patience_s(leaving: Leaving, chance: random.Random) -> float | None:
    """How long this request's user stays; None: until the answer is complete."""
    if not leaving.ratio or chance.random() >= leaving.ratio:
        return None
    return max(0.0, leaving.after_s.sample(chance))


def chat_body(context: RunContext, prompt: Prompt, max_tokens: int, streams: bool) -> bytes:
    """The body of one request under the run's settings."""
    settings = context.settings
    return encode_chat(
        prompt,
        model=context.model,
        max_tokens=max_tokens,
        max_tokens_field=settings.max_tokens_field,
        stream=streams,
        include_usage=context.include_usage,
        ignore_eos=settings.ignore_eos,
        temperature=settings.temperature,
        extra_body=settings.extra_body,
    )


def fire_request(environment: Environment, kind: TrafficKind, answer: Answer) -> None:
    """Locust's ``request`` event, which also hands the record to whoever keeps it."""
    record = answer.record
    failed = record.outcome is not Outcome.OK
    environment.events.request.fire(
        request_type=kind.value,
        name="chat",
        response_time=record.user_latency_s * 1000,
        response_length=record.received_bytes,
        exception=ChatFailure(_FAILURE_TEXTS.of(record)) if failed else None,
        context={},
        record=record,
        gaps_s=answer.gaps_s,
    )


_FAILURE_TEXTS = FailureTexts()
_FAILURE_PAUSE_S = 0.1
_COLD_PAUSE_S = 0.05


class StreamingChatUser(ChatUser):
    """Streams its answers: the person who watches the text appear."""

    kind = TrafficKind.STREAM


class BlockingChatUser(ChatUser):
    """Waits for whole answers, as batch jobs and simple scripts do."""

    kind = TrafficKind.BLOCK
    streams = False


class SdkChatUser(ChatUser):
    """Streams through the openai SDK: what its users feel, the SDK's own cost included."""

    kind = TrafficKind.SDK
