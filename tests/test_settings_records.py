"""``--records workers`` goes with what a master can do without the rows."""

import pytest
from locust.argument_parser import get_empty_argument_parser

from options import add_arguments
from settings import Settings, SettingsError


def settings(*words):
    """The settings of a command line."""
    parser = get_empty_argument_parser(add_help=False, default_config_files=[])
    add_arguments(parser)
    options = {**vars(parser.parse_args(list(words), env_vars={})), "host": "http://h:1"}
    return Settings.from_options(options, str)


def test_rows_go_to_the_master_unless_asked_otherwise():
    """By default its folder has them."""
    assert not settings().records_on_workers
    assert settings("--records", "workers").records_on_workers


@pytest.mark.parametrize(
    ("words", "reader"),
    [
        (("--shape", "knee"), "--shape knee"),
        (("--shape", "limits"), "--shape limits"),
        (("--budget", "1", "--price-in", "1", "--price-out", "1"), "--budget"),
    ],
)
def test_what_reads_rows_while_it_runs_needs_them_on_the_master(words, reader):
    """A search or a budget without its rows would go on for ever."""
    with pytest.raises(SettingsError, match=f"--records workers: {reader} reads the rows"):
        settings(*words, "--records", "workers")
