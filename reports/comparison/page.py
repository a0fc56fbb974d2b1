"""``compare.html``: one file, nothing fetched from anywhere, every text escaped."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from metrics.compare import Scale
from reports.comparison.model import WHOLE_RUN, Comparison, Weight
from reports.comparison.plots import Drawing
from reports.comparison.table import WORD_COLUMNS, by_load, cells_of, columns_of
from reports.comparison.wording import refusal_text, size_text
from reports.plot_style import css_variables
from reports.wording import moment

_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
DEFINITIONS = {
    "change": "B / A − 1 of the figure, or B − A in points for shares that may be 0",
    "interval": "all intervals of a pair hold at once in 95 of 100 comparisons: blocks of time of "
    "each window are drawn anew, and the largest quotient of difference and error decides",
    "no difference shown (±x)": "a change smaller than x could not have been seen with these runs",
    "all loads": "the mean over the matched loads, each weighted by how surely it is known",
    "n": "requests behind a figure; for a knee the levels that it is read from",
    "not judged": "too little was measured for an interval; the reason stands beside it",
}
WEIGHTS = {
    Weight.REFUSED: "not comparable",
    Weight.UNKNOWN: "not known whether it is the same",
    Weight.SAID: "comparable; it may be the cause of a difference",
}


def page(comparison: Comparison, drawings: Sequence[Drawing]) -> str:
    """The page, complete."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["moment"] = moment
    template = environment.get_template("compare.html.j2")
    return template.render(
        comparison=comparison,
        margin=size_text(comparison.margin, Scale.RATIO),
        plots=[(each.title, each.sentence, Markup(each.svg)) for each in drawings],
        plot_colours=css_variables(),
        definitions=DEFINITIONS,
        by_load=by_load,
        cells_of=cells_of,
        columns_of=columns_of,
        word_columns=WORD_COLUMNS,
        refusal_text=refusal_text,
        sides=(comparison.pairs[0].a, *(pair.b for pair in comparison.pairs)),
        name_of=lambda side: Path(side.folder).name or side.folder,
        weights=WEIGHTS,
        whole_run=WHOLE_RUN,
        refused=Weight.REFUSED,
    )
