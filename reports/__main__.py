"""``python -m reports RUN``: render a saved run anew; no load is needed.

Exit codes: 0 valid and within the objectives, 1 errors, 2 wrong usage, 3 an objective missed,
4 the run is invalid; the reason is printed.
"""

import argparse
import sys
from pathlib import Path

from metrics.run_files import RunFileError
from reports.model import ExitCode
from reports.render import render_run


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Render a saved run: table, page, plots, JSON and CSV.",
        epilog="example: python -m reports runs/20260102T030405Z-ladder --slo 'ttft_p95<500ms'",
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--slo", help="objectives in place of the run's own")
    parser.add_argument("--quiet", action="store_true", help="write the files, print nothing")
    options = parser.parse_args(arguments)
    try:
        return render_run(options.run, sys.stdout, options.slo, options.quiet)
    except RunFileError as error:
        print(f"swarmgauge: {error}", file=sys.stderr)
    except ValueError as error:
        print(f"swarmgauge: --slo: {error}", file=sys.stderr)
    return int(ExitCode.USAGE)


if __name__ == "__main__":
    sys.exit(main())
