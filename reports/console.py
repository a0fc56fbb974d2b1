"""Where reports are printed: a terminal, or a log."""

from io import TextIOWrapper
from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 150


def console_of(out: TextIO) -> Console:
    """A console on ``out``; plain and of one width where it is no terminal."""
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="replace")  # an endpoint's words may be beyond the terminal's
    console = Console(file=out, highlight=False)
    if console.is_terminal:
        return console
    return Console(file=out, highlight=False, width=PLAIN_WIDTH, color_system=None)
