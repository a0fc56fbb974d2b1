"""The options of a run: as started, as the page's form changes them, and which have no effect."""

from argparse import Namespace
from types import SimpleNamespace

import pytest

from hooks.ignored_options import ignored_options
from hooks.planning import choose_plan, length_of
from hooks.run_options import RunOptions, checked_settings
from options import DEFAULTS
from settings import SettingsError

LOCUSTS = {"host": "http://127.0.0.1:1", "num_users": None, "spawn_rate": None, "run_time": None}


def options(**changes):
    """A process's options: the defaults and what was given."""
    return {**LOCUSTS, **DEFAULTS, **changes}


def started_with(**changes):
    """RunOptions of a process that was started so."""
    parsed = Namespace(**options(**changes))
    return RunOptions(SimpleNamespace(parsed_options=parsed, host=parsed.host)), parsed


def test_the_form_is_read_as_locust_will():
    """Numbers as the option's type, switches as true or false, times as seconds."""
    run, parsed = started_with()

    seen = run.with_form(
        {"user_count": "3", "spawn_rate": "1.5", "run_time": "1m30s", "warmup_requests": "7"}
        | {"down_sweep": "true", "insecure": "false", "stages": "1,2", "unknown": "x"}
    )

    assert (3, 1.5, 90, 7) == tuple(
        seen[name] for name in ("num_users", "spawn_rate", "run_time", "warmup_requests")
    )
    assert (True, False, "1,2") == (seen["down_sweep"], seen["insecure"], seen["stages"])
    assert "unknown" not in seen
    assert vars(parsed) == options(), "looking at a form changes nothing"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("warmup_requests", "abc", "--warmup-requests 'abc': write a whole number"),
        ("max_fail_ratio", "x", "--max-fail-ratio 'x': write a number"),
        ("user_count", "2.5", "--users '2.5': write a whole number"),
        ("run_time", "soon", "--run-time 'soon': write for example 20s"),
    ],
)
def test_a_value_that_is_no_number_is_named(field, value, words):
    """Option, value, what to write."""
    run, _ = started_with()

    with pytest.raises(SettingsError) as caught:
        run.with_form({field: value})

    assert str(caught.value).startswith(words)


def test_what_the_form_does_not_show_cannot_be_set_by_it():
    """Whoever reaches the page sends no load through a proxy of their own."""
    run, _ = started_with(proxy="off", runs_dir="kept")

    seen = run.with_form({"proxy": "http://elsewhere:1", "runs_dir": "/tmp", "header": "A: b"})

    assert ("off", "kept", []) == (seen["proxy"], seen["runs_dir"], seen["header"])


def test_a_file_that_is_not_there_is_a_usage_error():
    """It is named, with the option."""
    with pytest.raises(SettingsError, match=r"--prompt-tokens: .*nowhere\.csv"):
        checked_settings(options(prompt_tokens="file:/nowhere.csv"), 1)


# --- what has no effect ---


@pytest.mark.parametrize(
    ("given", "shape", "named"),
    [
        ({"stages": "1,2"}, "knee", ["--stages"]),
        ({"stages": "1,2"}, "ladder", []),
        ({"stages": DEFAULTS["stages"]}, "knee", []),
        ({"spike_users": 9, "spike_hold": "4s"}, "constant", ["--spike-users", "--spike-hold"]),
        ({"spike_users": 9}, "spike", []),
        (
            {"search_requests": 100, "down_sweep": True},
            "soak",
            ["--search-requests", "--down-sweep"],
        ),
        ({"arrivals": "constant"}, "ladder", ["--arrivals"]),
        ({"think_time": "2"}, "open-loop", ["--think-time"]),
        ({"num_users": 8}, "ladder", ["--users"]),
        ({"run_time": 60}, "ladder", ["--run-time"]),
        ({"run_time": 60}, "knee", []),
        ({"hold": "4s"}, "knee", ["--hold"]),
        ({}, "open-loop", []),
    ],
)
def test_an_option_that_the_shape_ignores_is_named_with_it(given, shape, named):
    """Only what was given, and differs from its default."""
    chosen = options(shape=shape, **given)

    said = ignored_options(chosen, chosen)

    assert named == [sentence.partition(" ")[0] for sentence in said]
    assert all(f"has no effect with --shape {shape}" in sentence for sentence in said)


def test_what_locust_fills_in_was_not_given():
    """A headless run has one user a second by default, the page always sends both."""
    at_start = options(shape="ladder")
    filled = {**at_start, "num_users": 1, "spawn_rate": 1.0}

    assert [] == ignored_options(filled, at_start)


# --- how long it will be ---


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shape": "knee"}, "searches up to 256 users, until it is found"),
        (
            {"shape": "knee", "num_users": 32, "search_requests": 3000},
            "searches up to 32 users, at most 3,000 requests",
        ),
        (
            {"shape": "knee", "run_time": 600, "search_requests": 50, "idle_before": "5s"},
            "searches up to 256 users, at most 50 requests, at most 600 s",
        ),
        (
            {"shape": "knee", "search_requests": 3000, "max_requests": 200},
            "searches up to 256 users, at most 200 requests",
        ),
        ({"shape": "constant", "num_users": 2}, "until stopped"),
        ({"shape": "constant", "max_requests": 2000}, "until 2,000 requests are sent"),
        (
            {"shape": "constant", "run_time": 60, "settle": "0s", "max_requests": 200},
            "about 61 s, at most 200 requests",
        ),
        ({"shape": "ladder", "stages": "1", "hold": "10s", "settle": "3s"}, "about 14 s"),
    ],
)
def test_the_start_says_how_long_the_run_will_be(given, said):
    """A search has no length: its bounds are told instead."""
    settings = checked_settings(options(**given), 1)

    assert said == length_of(settings, choose_plan(settings, False, 5.0))
