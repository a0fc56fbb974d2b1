"""In which stages a worker was missed."""

from hooks.absences import Absences

BOTH, ONE = {"a", "b"}, {"a"}


def test_a_worker_that_was_away_is_noted_where_it_went_and_where_it_came_back():
    """Missed in stage 1, back in stage 3: stage 2 was planned without it."""
    away = Absences()
    assert [] == away.check({"a": 0, "b": 0}, BOTH, 0, 0.0)
    assert ["b"] == away.check({"a": 1, "b": 1}, ONE, 1, 10.0)
    assert [] == away.check({"a": 1, "b": 1}, ONE, 1, 11.0)
    assert [] == away.check({"a": 2, "b": 1}, ONE, 2, 12.0)
    assert [] == away.check({"a": 3, "b": 3}, BOTH, 3, 16.0)
    assert [] == away.check({"a": 4, "b": 4}, BOTH, 4, 20.0)
    assert [{"stage": 1, "missed_s": 6.0}, {"stage": 3, "missed_s": 6.0}] == away.of("b")
    assert [] == away.of("a")


def test_a_worker_went_missing_in_the_stage_in_which_it_was_heard_last():
    """Silent at the end of stage 0, missed in stage 1, never back: neither was run as planned."""
    away = Absences()
    assert [] == away.check({"a": 0, "b": 0}, BOTH, 0, 0.0)
    assert ["b"] == away.check({"a": 1, "b": 0}, ONE, 1, 4.0)
    assert [] == away.check({"a": 2, "b": 0}, ONE, 2, 9.0)
    assert [0, 1] == [one["stage"] for one in away.of("b")]


def test_a_worker_that_was_never_heard_in_a_stage_is_missed_where_it_is_missed():
    """It reported before the first stage was announced."""
    away = Absences()
    assert ["b"] == away.check({"a": 2, "b": None}, ONE, 2, 4.0)
    assert [2] == [one["stage"] for one in away.of("b")]
