"""A comparison as Markdown, for a pull request."""

from collections.abc import Iterable

from reports.comparison.model import Comparison, Pair, Weight
from reports.comparison.table import WORD_COLUMNS, cells_of, columns_of, short_rows
from reports.comparison.wording import refusal_text
from reports.wording import markdown_text


def markdown(comparison: Comparison) -> str:
    """All pairs, the answer of each first."""
    return "\n".join(line for pair in comparison.pairs for line in _pair(pair)) + "\n"


def _pair(pair: Pair) -> Iterable[str]:
    yield f"### {pair.b.label} against {pair.a.label}"
    yield ""
    for number, sentence in enumerate(pair.sentences):
        text = markdown_text(sentence)
        yield f"**{text}**" if number == 0 else text
        yield ""
    for side in (pair.a, pair.b):
        yield f"- {side.label}: {markdown_text(side.folder)}, {markdown_text(side.model)}"
    for mismatch in pair.mismatches:
        if mismatch.weight is not Weight.SAID:
            yield f"- {mismatch.weight.value}: {markdown_text(refusal_text(mismatch, pair))}"
        else:
            yield f"- {markdown_text(f'{mismatch.field}: {mismatch.a} → {mismatch.b}')}"
    for reason in pair.left_out:
        yield f"- left out: {markdown_text(reason)}"
    yield ""
    rows = short_rows(pair)
    if not rows:
        return
    yield f"| {' | '.join(columns_of(pair))} |"
    yield "|" + "|".join("---" if n in WORD_COLUMNS else "---:" for n in range(9)) + "|"
    for row in rows:
        yield f"| {' | '.join(map(markdown_text, cells_of(row)))} |"
    yield ""
