"""What a page says of how to make the run again."""

import shlex

from options import DEFAULTS
from reports.repeat import command_line, command_notes
from tests.support.run_builder import META

ALL = {"host": "http://h:1/v1", "num_users": 1, "spawn_rate": 1, "run_time": None, **DEFAULTS}


def meta(**settings):
    """The meta of a run with these settings and all others at their defaults."""
    return {**META, "model": "org/m:free", "settings": {**ALL, **settings}}


def test_the_command_has_what_was_set_and_nothing_else():
    """Defaults are left out; the model that was found is named; flags have no value."""
    command = command_line(meta(shape="ladder", stages="1,2", ignore_eos=True, num_users=8))

    load = ["--shape", "ladder", "--stages", "1,2", "--users", "8"]
    others = ["--host", "http://h:1/v1", "--model", "org/m:free", "--ignore-eos"]
    words = shlex.split(command)
    assert [".venv/bin/locust", "--headless"] == words[:2]
    assert sorted([*load, *others]) == sorted(words[2:])
    assert words.index("--stages") + 1 == words.index("1,2")


def test_the_command_is_safe_to_paste():
    """A name with quotes and semicolons is one word of the shell."""
    name = "a'; rm -rf \"$HOME\"; echo '"

    words = shlex.split(command_line(meta(run_name=name)))

    assert name == words[words.index("--run-name") + 1]


def test_what_may_be_a_key_is_asked_for_and_not_shown():
    """A header's value and an extra body are not kept."""
    settings = {"header": ["X-Team"], "extra_body": ["user"]}

    assert "X-Team" not in command_line(meta(**settings))
    notes = " ".join(command_notes(meta(**settings)))
    assert "give it again for X-Team" in notes
    assert "give it again with user" in notes


def test_several_workers_and_fresh_prompts_are_told():
    """Two workers belong to a master; without a seed the prompts are new ones."""
    notes = list(command_notes({**meta(), "workers": [{"id": "a"}, {"id": "b"}]}))

    assert any("--expect-workers 2" in note for note in notes)
    assert any("--seed repeats them" in note for note in notes)
    assert [] == list(command_notes({**meta(), "seed": 3}))
