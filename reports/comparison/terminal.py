"""A comparison on a terminal, or as plain text in a log."""

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reports.comparison.model import Comparison, Pair, Weight
from reports.comparison.table import WORD_COLUMNS, cells_of, columns_of, short_rows
from reports.comparison.wording import refusal_text
from reports.console import console_of


def print_comparison(
    comparison: Comparison, out: TextIO, folder: Path | None, every_row: bool = False
) -> None:
    """Each pair: who they are, the answer, the table, and where the files are."""
    console = console_of(out)
    for pair in comparison.pairs:
        _print_pair(console, pair, every_row)
    if folder is not None:
        console.print(Text(f"Files: {folder / 'compare.html'}, compare.json, compare.md"))


def _print_pair(console: Console, pair: Pair, every_row: bool) -> None:
    for side in (pair.a, pair.b):
        console.print(Text(f"{side.label}: {side.folder}  {side.model} at {side.url}"))
    for sentence in pair.sentences:
        console.print(Text(sentence), style="bold")
    for line in _differences(pair):
        console.print(Text(line))
    rows = pair.rows if every_row else short_rows(pair)
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(columns_of(pair)):
        table.add_column(name, justify="left" if position in WORD_COLUMNS else "right")
    for row in rows:
        table.add_row(*map(Text, cells_of(row)))
    console.print(table)
    if len(rows) < len(pair.rows):
        console.print(Text(f"{len(pair.rows) - len(rows)} further rows: --all, or the page"))


def _differences(pair: Pair) -> Iterator[str]:
    """In what the two differ beside their figures, and what is left out for it."""
    for mismatch in pair.mismatches:
        told = mismatch.weight is Weight.REFUSED and not pair.rows  # it is the answer already
        if mismatch.weight is not Weight.SAID and not told:
            label = "differs" if mismatch.weight is Weight.REFUSED else "unknown"
            yield f"{label}: {refusal_text(mismatch, pair)}"
    said = [
        f"{m.field} {m.a} → {m.b}{f' ({m.advice})' if m.advice else ''}"
        for m in pair.mismatches
        if m.weight is Weight.SAID
    ]
    if said:
        yield f"Also different: {'; '.join(said)}"
    for reason in pair.left_out:
        yield f"Left out: {reason}"
