"""An endpoint behind a limiter in simulated time, as a plan of an open loop sees it each second."""

from dataclasses import dataclass, field

import numpy as np

from metrics.knee_level import Level
from metrics.limits_attempts import Attempts
from metrics.stage import Phase
from shapes.plan import Observation, Progress

ANSWER_S = 0.4
REFUSAL_S = 0.004


class Bucket:
    """``per_s`` requests refill it, up to ``depth`` at once."""

    def __init__(self, per_s, depth):
        self.per_s, self.depth, self.level, self.at_s = per_s, depth, depth, 0.0

    def wait_s(self, now_s):
        """0 when a request passes, which is then charged."""
        self.level = min(self.depth, self.level + (now_s - self.at_s) * self.per_s)
        self.at_s = now_s
        if self.level < 1 - 1e-9:
            return (1 - self.level) / self.per_s
        self.level -= 1
        return 0.0


class Window:
    """``per_s`` requests in the mean: all of a window's at once, none after that."""

    def __init__(self, per_s, window_s):
        self.budget, self.window_s, self.number, self.used = per_s * window_s, window_s, 0, 0

    def wait_s(self, now_s):
        """0 when a request passes, which is then charged."""
        number = int(now_s // self.window_s)
        if number != self.number:
            self.number, self.used = number, 0
        if self.used + 1 > self.budget:
            return (number + 1) * self.window_s - now_s
        self.used += 1
        return 0.0


class Cap:
    """So many at once."""

    def __init__(self, most):
        self.most, self.ends = most, []

    def wait_s(self, now_s):
        """0 when a request passes."""
        self.ends = [end_s for end_s in self.ends if end_s > now_s]
        if len(self.ends) >= self.most:
            return 1.0
        self.ends.append(now_s + ANSWER_S)
        return 0.0


class Open:
    """Nothing is refused."""

    def wait_s(self, now_s):
        """It always passes."""
        return 0.0


@dataclass
class Fleet:
    """Sends a plan's steps evenly and reports each second what has ended."""

    limiter: object
    workers: int = 2
    most_users: int = 1_000
    """No more users ever run."""
    failing_from: float | None = None
    """Requests/s from which every request fails with 500."""
    serves_rps: float = float("inf")
    """Beyond it, answers take longer and longer."""
    client_limit_rps: float = float("inf")
    tells_waits: bool = True
    rows: list = field(default_factory=list)
    now_s: float = 0.0
    queue_until_s: float = 0.0
    seen: list = field(default_factory=list)
    """(time, stage, phase) at each change."""

    def follow(self, plan, limit_s=4000):
        """Drive the plan to its end; the seconds that it took."""
        users, stage, phase, begun_s, number = 0, None, None, 0.0, 0
        while self.now_s < limit_s:
            flying = sum(row["sent"] <= self.now_s < row["end"] for row in self.rows)
            told = Observation(self.now_s, users, self, flying, len(self.rows))
            directive = plan.next(told)
            if directive is None:
                return self.now_s
            if (directive.stage, directive.phase) != (stage, phase):
                stage, phase, begun_s, number = directive.stage, directive.phase, self.now_s, 0
                self.seen.append((self.now_s, stage.id, phase))
            users = min(directive.target_users, self.most_users)
            while phase is Phase.HOLD and begun_s + number / stage.rate_rps < self.now_s + 1.0:
                self.ask(stage, begun_s + number / stage.rate_rps)
                number += 1
            self.now_s += 1.0
        raise AssertionError(f"no end within {limit_s} s")

    def ask(self, stage, at_s):
        """One request."""
        row = {"stage": stage.id, "sent": at_s, "status": 200, "wait": float("nan")}
        if self.failing_from is not None and stage.rate_rps >= self.failing_from:
            row.update(status=500, end=at_s + REFUSAL_S)
        elif wait_s := self.limiter.wait_s(at_s):
            row.update(status=429, end=at_s + REFUSAL_S)
            if self.tells_waits:
                row.update(wait=wait_s)
        else:
            self.queue_until_s = max(at_s, self.queue_until_s) + 1 / self.serves_rps
            row.update(end=self.queue_until_s + ANSWER_S)
        self.rows.append(row)

    def _known(self, stage):
        return [
            row
            for row in self.rows
            if row["end"] <= self.now_s - 1.0 and (stage is None or row["stage"] == stage)
        ]

    def attempts(self, stage=None):
        """As the plan is told of them."""
        rows = self._known(stage)
        status = np.array([row["status"] for row in rows])
        return Attempts(
            sent_s=np.array([row["sent"] for row in rows]),
            ended_s=np.array([row["end"] for row in rows]),
            accepted=status == 200,
            limited=status == 429,
            retry_after_s=np.array([row["wait"] for row in rows]),
        )

    def progress(self, stage):
        """As the plan is told of it."""
        statuses = [row["status"] for row in self._known(stage)]
        ok = statuses.count(200)
        failed = len(statuses) - ok
        return Progress(0, ok, failed, len(statuses), rate_limited=statuses.count(429))

    def level(self, stage, held_s):
        """Only whether the client is at its end matters."""
        limited = stage.rate_rps > self.client_limit_rps
        return Level(
            users=stage.target_users,
            stage=stage.id,
            ttft_s=(),
            tpot_s=(),
            latency_s=(),
            requests=0,
            client_limited=limited,
        )
