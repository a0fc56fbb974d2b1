"""python -m simulator: run the simulated endpoint until it is told to stop."""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
import sys

from simulator.cli import parse_command, required_key
from simulator.request_log import QueueTrace, RequestLog
from simulator.server import listen, serve


def main(arguments: list[str]) -> int:
    """Exit status: 0 after a clean stop, 1 if it cannot listen or log, 2 for wrong usage."""
    command = parse_command(arguments)
    try:
        log = RequestLog(command.log)
    except OSError as error:
        print(f"simulator: error: --log {command.log}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        trace = QueueTrace(command.trace)
    except OSError as error:
        print(f"simulator: error: --trace {command.trace}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        bound = listen(command.host, command.port)
    except OSError as error:
        address = f"--host {command.host} --port {command.port}"
        print(f"simulator: error: {address}: {error.strerror}", file=sys.stderr)
        return 1
    factory = None
    if importlib.util.find_spec("uvloop"):
        factory = importlib.import_module("uvloop").new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(command, bound, log, trace, required_key()))
    except ssl.SSLError as error:
        print(f"simulator: error: --ssl-certfile, --ssl-keyfile: {error}", file=sys.stderr)
        return 1
    finally:
        log.close()
        trace.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
