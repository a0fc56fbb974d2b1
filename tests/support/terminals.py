"""A stream that takes itself for a terminal."""

import io


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True
