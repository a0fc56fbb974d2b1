"""Ways that are quick with a million requests give what the plain ones give."""

import numpy as np
import pytest

from metrics.knee_limits import in_flight_at, in_flight_shares
from metrics.limits_attempts import Attempts
from metrics.limits_models import bucket_fill
from metrics.limits_trail import trail_of
from metrics.steady import mser5


def spans(rng, n):
    """Requests with times that often coincide."""
    begins = rng.integers(0, 20, n) / 2
    return [(b, b + d) for b, d in zip(begins, rng.integers(0, 6, n) / 2, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_requests_in_flight_are_those_that_one_counts(seed):
    """Shares of the time and numbers at refusals, by walking through every change."""
    rng = np.random.default_rng(seed)
    accepted_s = spans(rng, int(rng.integers(1, 40)))
    refused_s = sorted(rng.uniform(0, 12, 10).tolist())

    changes = sorted([(b, 1) for b, _ in accepted_s] + [(e, -1) for _, e in accepted_s])
    spent_s, now, before_s = {}, 0, changes[0][0]
    for at_s, change in changes:
        spent_s[now] = spent_s.get(now, 0.0) + at_s - before_s
        now, before_s = now + change, at_s
    whole_s = sum(spent_s.values())
    shares = [spent_s.get(n, 0.0) / whole_s for n in range(max(spent_s) + 1)] if whole_s else []
    known_s = max(e for _, e in accepted_s) - max(e - b for b, e in accepted_s)
    counted = [sum(b <= at < e for b, e in accepted_s) for at in refused_s if at <= known_s]

    found = in_flight_shares(accepted_s)
    assert shares[: len(found)] == pytest.approx(found)
    assert not any(shares[len(found) :])
    assert counted == in_flight_at(np.array(accepted_s), refused_s)


@pytest.mark.parametrize("seed", range(20))
def test_a_bucket_drains_as_one_that_is_followed_step_by_step(seed):
    """Units owed before each judged attempt, charged one after the other and drained between."""
    rng = np.random.default_rng(seed)
    sent_s = np.sort(rng.uniform(0, 60, 300))
    limited = rng.random(300) < 0.3
    attempts = Attempts(sent_s=sent_s, ended_s=sent_s + 0.5, accepted=~limited, limited=limited)
    trail = trail_of(attempts, every=True, slack_s=0.0)
    ledger, per_s = trail.ledgers[0], float(rng.uniform(1, 6))

    least, most = bucket_fill(trail, ledger, per_s)

    owed, charged, last_s, at = [], 0, 0.0, 0.0
    for judged_s, before in zip(trail.judged_s, ledger.before, strict=True):
        while charged < before:
            step_s = ledger.at_s[charged]
            at = max(at - per_s * (step_s - last_s), 0.0) if charged else 0.0
            at += ledger.total[charged + 1] - ledger.total[charged]
            last_s, charged = step_s, charged + 1
        owed.append(max(at - per_s * (judged_s - last_s), 0.0) if before else 0.0)
    own = ledger.own
    assert np.all(least <= np.array(owed) + own + 1e-9)
    assert np.all(most >= np.array(owed) + own - 1e-9)
    exact = (ledger.early == ledger.late) & (ledger.early == ledger.total[ledger.before])
    assert exact.sum() > 100
    assert (np.array(owed) + own)[exact] == pytest.approx(most[exact])


@pytest.mark.parametrize("kind", ["even", "settling", "constant", "one step", "whole numbers"])
@pytest.mark.parametrize("seed", range(10))
def test_mser_cuts_where_the_error_of_all_cuts_is_least(kind, seed):
    """Every cut tried, with the exact variance of what is left."""
    rng = np.random.default_rng(seed)
    values = rng.gamma(2.0, 1.0, int(rng.integers(100, 1_500)))
    if kind == "settling":
        values += 30 * np.exp(-np.arange(values.size) / 40)
    if kind == "constant":
        values[:] = 0.1
    if kind == "one step":
        values[values.size // 3 :] = 3.3
    if kind == "whole numbers":
        values = np.round(values)

    means = values[: values.size // 5 * 5].reshape(-1, 5).mean(axis=1)
    errors = [means[cut:].var() / (means.size - cut) for cut in range(means.size // 2 + 1)]

    assert 5 * int(np.argmin(errors)) == mser5(values).samples
