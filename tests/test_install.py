"""What the suite changes in Locust itself."""

import locust.argument_parser
from locust.event import Events

from hooks.install import install


def test_a_change_of_users_does_not_make_locusts_options_anew_for_each(monkeypatch):
    """A worker asks which options are Locust's own once for each that it is sent: they are the
    same as before, and made once."""
    made = []

    def make(own=locust.argument_parser.setup_parser_arguments):
        def counted(parser):
            made.append(parser)
            own(parser)

        return counted

    asked = locust.argument_parser.default_args_dict
    monkeypatch.setattr(locust.argument_parser, "default_args_dict", asked)
    wanted = asked()
    monkeypatch.setattr(locust.argument_parser, "setup_parser_arguments", make())
    install(Events(), {})

    assert [wanted] * 3 == [locust.argument_parser.default_args_dict() for _ in range(3)]
    assert 1 == len(made)
