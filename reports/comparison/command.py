"""The commands ``python -m reports compare`` and ``python -m reports gate``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from metrics.run_files import RunFileError
from reports.comparison.gate import gate, gate_lines
from reports.comparison.markdown import markdown
from reports.comparison.model import Comparison
from reports.comparison.page import page
from reports.comparison.pairs import compare
from reports.comparison.plots import Drawing, draw_all
from reports.comparison.sides import LABELS, Side, read_side, side_of
from reports.comparison.terminal import print_comparison
from reports.comparison.values import comparison_json
from reports.junit_xml import junit_xml
from reports.load import load_run
from reports.model import ExitCode
from reports.whole_files import write_whole

COMPARE_HTML, COMPARE_JSON, COMPARE_MD = "compare.html", "compare.json", "compare.md"
OUT_FOLDER = "compare"
GATE_JUNIT = "junit-gate.xml"
GATE_MARGIN = "5%"
MOST_RUNS = 6
"""As many as have colours of their own."""


def margin_ratio(text: str) -> float:
    """A margin as a share: ``5%`` or ``0.05``.

    Raises:
        argparse.ArgumentTypeError: it is no share below 1.
    """
    plain = text.strip().replace(" ", "")
    try:
        value = float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no margin: write for example 5% or 0.05")
    return value


def compare_command(words: Sequence[str]) -> int:
    """``compare``; 0 when all were compared, 4 when a pair was refused.

    Raises:
        RunFileError: a folder is not a run that can be read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m reports compare",
        description="Compare runs with the first of them: each figure at each load that both held, "
        "with intervals, in words.",
        epilog="example: python -m reports compare runs/before runs/after --margin 5%; exit "
        "codes: 0 compared, 2 wrong usage, 4 not comparable",
    )
    parser.add_argument("run", type=Path, nargs="+", help="the base, then one run or more")
    parser.add_argument(
        "--margin",
        type=margin_ratio,
        default=0.0,
        help="change that matters to nobody, such as 5%%: within it figures are called the same",
    )
    _add_force(parser)
    parser.add_argument(
        "--out", type=Path, help=f"folder of the files; default: {OUT_FOLDER}/ in B"
    )
    parser.add_argument("--all", action="store_true", help="print every row")
    options = parser.parse_args(words)
    if not 2 <= len(options.run) <= MOST_RUNS:
        parser.error(f"{len(options.run)} run given: give a base and 1 to {MOST_RUNS - 1} others")
    sides = [read_side(LABELS[n], folder) for n, folder in enumerate(options.run)]
    found = compare(sides, options.margin, options.force)
    out = options.out or options.run[1] / OUT_FOLDER
    written = _written(found, sides, out)
    print_comparison(found, sys.stdout, out if written else None, options.all)
    if not written:
        return int(ExitCode.ERROR)
    return int(ExitCode.INVALID if found.refused else ExitCode.OK)


def gate_command(words: Sequence[str]) -> int:
    """``gate``; the exit code is its answer.

    Raises:
        RunFileError: a folder is not a run that can be read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m reports gate",
        description="Judge a run for CI: its validity, its objectives, and whether it is worse "
        "than a baseline.",
        epilog="exit codes: 0 passed, 1 too many requests failed, 2 wrong usage, 3 an objective "
        "missed or worse than the baseline, 4 invalid or not comparable",
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--slo", help="objectives in place of the run's own")
    parser.add_argument("--baseline", type=Path, help="an older run that this one is compared with")
    parser.add_argument(
        "--margin",
        type=margin_ratio,
        default=margin_ratio(GATE_MARGIN),
        help=f"change for the worse that is accepted ({GATE_MARGIN.replace('%', '%%')})",
    )
    parser.add_argument(
        "--strict", action="store_true", help="fail also what may be worse than the margin allows"
    )
    _add_force(parser)
    parser.add_argument("--junit", type=Path, help=f"default: {GATE_JUNIT} in the run's folder")
    options = parser.parse_args(words)
    if options.strict and not options.margin:
        parser.error("--strict needs a --margin over 0: no run can show that nothing is worse")
    try:
        run = side_of("B" if options.baseline else "A", load_run(options.run), options.slo)
    except RunFileError:
        raise
    except ValueError as error:
        parser.error(f"--slo: {error}")
    baseline = read_side("A", options.baseline) if options.baseline else None
    found = gate(run, baseline, options.margin, options.strict, options.force)
    path = options.junit or options.run / GATE_JUNIT
    text = junit_xml(f"swarmgauge gate {options.run.name}", found.cases)
    print("\n".join(gate_lines(found)).encode("utf-8", "replace").decode("utf-8"))
    if not _write(path, text):
        return int(ExitCode.ERROR)
    print(f"JUnit: {path}")
    return int(found.code)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="compare what is not comparable, and say so"
    )


def _written(found: Comparison, sides: Sequence[Side], folder: Path) -> bool:
    """Every file; figures before the page, so that a fault in drawing loses no figure."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"swarmgauge: {folder}: {error.strerror}; choose another --out", file=sys.stderr)
        return False
    done = [
        _write(folder / COMPARE_JSON, comparison_json(found)),
        _write(folder / COMPARE_MD, markdown(found)),
    ]
    drawings: tuple[Drawing, ...] = ()
    if any(pair.rows for pair in found.pairs):
        drawings = draw_all(sides, found.pairs, found.margin, folder)
    done.append(_write(folder / COMPARE_HTML, page(found, drawings)))
    return all(done)


def _write(path: Path, text: str) -> bool:
    try:
        write_whole(path, text)
    except OSError as error:
        why = f"cannot be written ({error.strerror}); choose another place"
        print(f"swarmgauge: {path}: {why}", file=sys.stderr)
        return False
    return True
