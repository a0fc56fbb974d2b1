"""``python -m reports RUN``: render a saved run anew; no load is needed.

``python -m reports knee RUN`` (or a CSV of levels) explains the verdict on the knee step by step.
``python -m reports merge RUN SPOOL...`` adds what only the workers' spools still hold, and renders.
``python -m reports compare A B [C ...]`` sets runs against the first of them.
``python -m reports gate RUN [--baseline OLD]`` judges a run for CI.
``python -m reports compat RUN`` tells a run by the definitions of other tools.
``python -m reports slowest RUN`` lists the slowest requests under the names that gateways log.

Exit codes: 0 valid and within the objectives, 1 errors, 2 wrong usage, 3 an objective missed,
4 the run is invalid; the reason is printed.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metrics.knee_explain import explain
from metrics.more_levels import more_levels
from metrics.run_files import RunFileError
from reports.analyse import levels_of
from reports.comparison.command import compare_command, gate_command
from reports.elsewhere import elsewhere_lines, kept_elsewhere
from reports.faces.compat_command import compat_command
from reports.faces.slowest import slowest_command
from reports.level_table import COLUMNS, read_level_table
from reports.load import load_run
from reports.memory import use_system_memory
from reports.merge import merge
from reports.model import ExitCode
from reports.render import render_run
from reports.stages import no_levels


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    words = sys.argv[1:] if arguments is None else arguments
    use_system_memory()
    commands = {
        "knee": _explain_knee,
        "merge": _merge,
        "compare": compare_command,
        "gate": gate_command,
        "compat": compat_command,
        "slowest": slowest_command,
    }
    first = words[0] if words else ""
    try:
        if first in commands:
            return commands[first](words[1:])
        if first.isalpha() and not Path(first).exists():
            raise RunFileError(f"{first}: neither a folder nor one of {', '.join(commands)}")
        return _render(words)
    except RunFileError as error:
        print(f"swarmgauge: {error}", file=sys.stderr)
    return int(ExitCode.USAGE)


def _render(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Render a saved run: table, page, plots, and figures for other programs.",
        epilog="examples: python -m reports runs/20260102T030405Z-ladder --slo 'ttft_p95<500ms'; "
        "python -m reports knee runs/20260102T030405Z-ladder; "
        "python -m reports merge runs/20260102T030405Z-ladder spool/2-abc.jsonl; "
        "python -m reports compare runs/before runs/after; "
        "python -m reports gate runs/after --baseline runs/before; "
        "python -m reports compat runs/after; "
        "python -m reports slowest runs/after",
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--slo", help="objectives in place of the run's own")
    parser.add_argument("--quiet", action="store_true", help="write the files, print nothing")
    options = parser.parse_args(words)
    try:
        return render_run(options.run, sys.stdout, options.slo, options.quiet)
    except RunFileError:
        raise
    except ValueError as error:
        print(f"swarmgauge: --slo: {error}", file=sys.stderr)
    return int(ExitCode.USAGE)


def _merge(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports merge",
        description="Add to a saved run what only its workers' spools still hold, and render it. "
        "No request is counted twice; the files of before are kept.",
    )
    parser.add_argument("run", type=Path, help="the run's folder; made when it does not exist")
    parser.add_argument(
        "spool", type=Path, nargs="*", help="a spool, or a folder of them; those in RUN are taken"
    )
    options = parser.parse_args(words)
    try:
        result = merge(options.run, options.spool)
    except OSError as error:
        print(f"swarmgauge: {error}", file=sys.stderr)
        return int(ExitCode.ERROR)
    print("\n".join(result.lines()))
    return render_run(options.run, sys.stdout)


def _explain_knee(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports knee",
        description="Explain the verdict on the queueing knee of a saved run, or of a table.",
        epilog=f"a table is a CSV with a head line: {COLUMNS}",
    )
    parser.add_argument("source", type=Path, help="the run's folder, or a CSV of levels")
    options = parser.parse_args(words)
    meta: Mapping[str, Any] = {}
    try:
        if options.source.is_file():
            levels = read_level_table(options.source.read_text(encoding="utf-8"))
        else:
            run = load_run(options.source)
            if kept := kept_elsewhere(run):
                print("\n".join(elsewhere_lines(run, kept)), file=sys.stderr)
                return int(ExitCode.INVALID)
            why = no_levels(run)
            if why is not None:
                print(f"swarmgauge: {options.source}: {why}", file=sys.stderr)
                return int(ExitCode.USAGE)
            levels = levels_of(run)
            meta = run.meta
    except RunFileError:
        raise
    except (OSError, ValueError) as error:
        print(f"swarmgauge: {options.source}: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    advice = more_levels(meta.get("shape"), bool(meta.get("search_ended")))
    print("\n".join(explain(levels, *advice)))
    return int(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
