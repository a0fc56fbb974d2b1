"""``make ramp`` and ``make ui``: an embedded endpoint, and Locust against it.

The simulator gets a free port, so that nothing on the machine is in the way; both processes end
together.
"""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

SUITE = Path(__file__).resolve().parent.parent
READY = "simulator ready on "


def main() -> int:
    """Run one ramp, or serve the page until it is stopped; Locust's exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_ramp", description=__doc__)
    parser.add_argument("--profile", default="small", help="the simulator's profile")
    parser.add_argument("--ui", action="store_true", help="open Locust's web page instead")
    parser.add_argument("--web-port", type=int, default=8089)
    options, more = parser.parse_known_args()
    print(f"== starting the embedded endpoint (profile {options.profile})", flush=True)
    simulator = subprocess.Popen(
        [sys.executable, "-m", "simulator", "--port", "0", "--profile", options.profile],
        cwd=SUITE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        host = _wait_until_ready(simulator)
        print(f"== it answers on {host}", flush=True)
        return _locust(host, options, more)
    except KeyboardInterrupt:
        return 130
    finally:
        simulator.send_signal(signal.SIGTERM)
        simulator.wait(timeout=10)


def _wait_until_ready(simulator: "subprocess.Popen[str]") -> str:
    assert simulator.stdout is not None
    line = simulator.stdout.readline()
    if not line.startswith(READY):
        raise SystemExit(f"the embedded endpoint did not start: {line.strip() or 'no output'}")
    return line.removeprefix(READY).split()[0]


def _locust(host: str, options: argparse.Namespace, more: list[str]) -> int:
    command = [sys.executable, "-m", "locust", "--host", host, *more]
    if options.ui:
        command += ["--web-port", str(options.web_port), "--shape", "ladder"]
        print(f"== open http://127.0.0.1:{options.web_port} and press Start; Ctrl-C ends both")
    else:
        command += ["--headless", "--shape", "ladder"]
        print("== ramping chat users with Locust: about two minutes, then the report", flush=True)
    locust = subprocess.Popen(command, cwd=SUITE)

    def pass_on(number: int, frame: object) -> None:
        locust.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    while True:
        try:
            return locust.wait()
        except KeyboardInterrupt:
            # The terminal sent the signal to Locust too; it writes what it has and ends.
            continue


if __name__ == "__main__":
    sys.exit(main())
