"""Traffic against a limiter in simulated time: closed loops that retry or not, and Poisson."""

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np

from bench.limits.limiters import Ask, Limiter
from metrics.limits_attempts import Attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How requests come and what they ask for."""

    run_s: float
    users: int = 0
    """Of a closed loop; 0 for an open loop."""
    rate_rps: float = 0.0
    """Of an open loop, Poisson."""
    retry_pause_s: float = 0.3
    """Mean pause after a 429, exponential; the same request again when ``retries``."""
    retries: bool = True
    think_s: float = 0.0
    prompt_median: float = 300.0
    answer_median: float = 200.0
    spread: float = 0.6
    """Sigma of the lognormal lengths."""
    max_tokens: int | None = None
    """Fixed; else each request asks for up to twice its answer."""
    answer_s: float = 1.5
    """Median time of an answer; it goes with the answer's length, within 0.2 to 5 s."""
    one_way_s: float = 0.01
    jitter_s: float = 0.003
    slots: int | None = None
    """Answers worked on at once; more wait in line. None: no line."""
    fail_from_s: tuple[float, ...] = ()
    """Moments from which requests fail with 500 until a gateway's cooldown begins."""
    cooldown_s: float = 30.0
    cooldown_after: int = 3


class _Run:
    """The event loop of one run."""

    def __init__(self, traffic: Traffic, limiter: Limiter, seed: int) -> None:
        self.traffic, self.limiter = traffic, limiter
        self.rng = np.random.default_rng(seed)
        self.events: list[tuple[float, int, str, object]] = []
        self.count = itertools.count()
        self.rows: list[list[float]] = []
        self.busy, self.line = 0, list[tuple[int, Ask, bool]]()
        self.failures, self.cool_until_s, self.outage = 0, -math.inf, 0

    def push(self, at_s: float, what: str, load: object) -> None:
        heapq.heappush(self.events, (at_s, next(self.count), what, load))

    def hop_s(self) -> float:
        return self.traffic.one_way_s + float(self.rng.exponential(self.traffic.jitter_s))

    def ask(self) -> Ask:
        t, rng = self.traffic, self.rng
        prompt = max(5, int(t.prompt_median * rng.lognormal(0, t.spread)))
        answer = max(1, int(t.answer_median * rng.lognormal(0, t.spread)))
        most = t.max_tokens or int(answer * rng.uniform(1, 2)) + 1
        return Ask(prompt, most, min(answer, most))

    def work_s(self, ask: Ask) -> float:
        t = self.traffic
        part = 0.2 + 0.8 * ask.completion_tokens / t.answer_median
        return min(5.0, max(0.2, t.answer_s * part * float(self.rng.lognormal(0, 0.1))))

    def run(self) -> Attempts:
        t = self.traffic
        if t.users:
            for user in range(t.users):
                self.push(float(self.rng.uniform(0, 1)), "send", (user, self.ask()))
        else:
            self.push(float(self.rng.exponential(1 / t.rate_rps)), "arrive", None)
        while self.events:
            now_s, _, what, load = heapq.heappop(self.events)
            getattr(self, f"on_{what}")(now_s, load)
        return self.attempts()

    def on_arrive(self, now_s: float, _: object) -> None:
        if now_s < self.traffic.run_s:
            self.on_send(now_s, (-1, self.ask()))
            self.push(
                now_s + float(self.rng.exponential(1 / self.traffic.rate_rps)), "arrive", None
            )

    def on_send(self, now_s: float, load: tuple[int, Ask]) -> None:
        if now_s >= self.traffic.run_s:
            return
        user, ask = load
        self.rows.append(
            [now_s, math.nan, 0, 0, ask.prompt_tokens, math.nan, ask.asked_max_tokens, user]
        )
        self.push(now_s + self.hop_s(), "decide", (len(self.rows) - 1, ask))

    def on_decide(self, now_s: float, load: tuple[int, Ask]) -> None:
        row, ask = load
        t = self.traffic
        if now_s < self.cool_until_s:
            self.reply(now_s, row, ask, 429)
            return
        if self.outage < len(t.fail_from_s) and now_s >= t.fail_from_s[self.outage]:
            self.failures += 1
            if self.failures >= t.cooldown_after:
                self.failures, self.outage = 0, self.outage + 1
                self.cool_until_s = now_s + t.cooldown_s
            self.reply(now_s, row, ask, 500)
            return
        if not self.limiter.admit(ask, now_s):
            self.reply(now_s, row, ask, 429)
        elif t.slots is not None and self.busy >= t.slots:
            self.line.append((row, ask, True))
        else:
            self.start(now_s, row, ask)

    def start(self, now_s: float, row: int, ask: Ask) -> None:
        self.busy += 1
        self.push(now_s + self.work_s(ask), "done", (row, ask))

    def on_done(self, now_s: float, load: tuple[int, Ask]) -> None:
        row, ask = load
        self.busy -= 1
        self.limiter.ended(ask, now_s)
        if self.line:
            waiting, waiting_ask, _ = self.line.pop(0)
            self.start(now_s, waiting, waiting_ask)
        self.reply(now_s, row, ask, 200)

    def reply(self, now_s: float, row: int, ask: Ask, status: int) -> None:
        self.push(now_s + self.hop_s(), "reply", (row, ask, status))

    def on_reply(self, now_s: float, load: tuple[int, Ask, int]) -> None:
        row, ask, status = load
        data, t = self.rows[row], self.traffic
        data[1], data[2], data[3] = now_s, status == 200, status == 429
        if status == 200:
            data[5] = ask.completion_tokens
        user = int(data[7])
        if user < 0:
            return
        if status == 200:
            think_s = float(self.rng.exponential(t.think_s)) if t.think_s else 0.0
            self.push(now_s + think_s, "send", (user, self.ask()))
        else:
            pause_s = float(self.rng.exponential(t.retry_pause_s))
            self.push(now_s + pause_s, "send", (user, ask if t.retries else self.ask()))

    def attempts(self) -> Attempts:
        table = np.array(self.rows, dtype=np.float64)
        return Attempts(
            sent_s=table[:, 0],
            ended_s=table[:, 1],
            accepted=table[:, 2].astype(bool),
            limited=table[:, 3].astype(bool),
            prompt_tokens=table[:, 4],
            completion_tokens=table[:, 5],
            asked_max_tokens=table[:, 6],
        )


def generated(traffic: Traffic, limiter: Limiter, seed: int) -> Attempts:
    """The attempts of one run, as a client would note them."""
    return _Run(traffic, limiter, seed).run()
