"""What a worker's next request is called, which decides what it asks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from users.run_context import RunContext
from workloads.arrivals import count_share
from workloads.lengths import parse_distribution
from workloads.prompts import PromptPlan


def context_of(position, workers, index=0, requests_left=None):
    """Of a worker; only its names matter."""
    plan = PromptPlan.build(
        prefixes=2,
        prefix_tokens=5,
        prompt_tokens=parse_distribution("uniform:2-9"),
        salt="salt",
        seed=None,
    )
    unused = dict.fromkeys(
        ("settings", "transports", "masker", "retry_policy", "retry_budget"), None
    )
    return RunContext(
        run_id="run",
        worker=f"w{index}",
        worker_index=index,
        model="m",
        include_usage=True,
        plan=plan,
        position=position,
        workers=workers,
        requests_left=requests_left,
        **unused,
    )


def names_of(contexts, chance):
    """All that these workers take, in an order by chance, until none may take another."""
    names, taking = [], list(contexts)
    while taking:
        context = chance.choice(taking)
        if context.takes_request():
            names.append(context.next_name())
            context.next_sequence()
        else:
            taking.remove(context)
    return names


@given(total=st.integers(0, 60), workers=st.integers(1, 9), seed=st.integers(0, 999))
def test_X01_so_many_requests_are_the_same_on_however_many_workers(total, workers, seed):
    """Shares of --max-requests, taken in whatever order: each request of one process once, and no
    other."""
    fleet = [
        context_of(place, workers, place, count_share(total, place, workers))
        for place in range(workers)
    ]
    one = context_of(0, 1, requests_left=total)
    alone = names_of([one], random.Random(seed))

    assert sorted(alone) == sorted(names_of(fleet, random.Random(seed)))
    assert total == len(set(alone))


def test_X01_the_request_decides_what_is_asked_and_the_worker_does_not():
    """Request 5 is the third of the second of two workers, and the sixth of one process: the same
    prompt, and the same draws of its length and its user's patience."""
    one, two = context_of(0, 1), context_of(1, 2, index=7)
    for context, before in ((one, 5), (two, 2)):
        for _ in range(before):
            context.next_sequence()

    assert "5" == one.next_name() == two.next_name()
    assert one.plan.prompt("5") == two.plan.prompt("5")
    for dimension in ("output_tokens", "leaving"):
        draws = [each.request_chance(dimension, "5").random() for each in (one, two)]
        assert draws[0] == draws[1]


def test_X01_late_workers_share_no_name_with_anybody():
    """Two that joined after the start beside a fleet of three: all names are apart."""
    contexts = [context_of(place, 3, place) for place in range(3)]
    contexts += [context_of(None, 3, index) for index in (3, 4)]
    names = []
    for context in contexts:
        for _ in range(40):
            names.append(context.next_name())
            context.next_sequence()

    assert 200 == len(set(names))


@pytest.mark.parametrize("dimension", ["output_tokens", "leaving"])
def test_no_dimension_shifts_another(dimension):
    """Draws of one dimension are not those of the other, nor of the prompt's text."""
    context = context_of(0, 1)
    others = {"output_tokens", "leaving", "prompts"} - {dimension}
    draw = context.request_chance(dimension, "5").random()

    assert draw not in {context.request_chance(other, "5").random() for other in others}
