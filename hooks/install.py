"""Puts the suite's listeners on Locust's events; called once, by the locustfile."""

import logging
import signal
import sys
from functools import cache
from types import FrameType
from typing import Any

import gevent
import greenlet
import locust.argument_parser
import locust.runners
from locust import User
from locust.env import Environment
from locust.event import Events
from locust.runners import MasterRunner, Runner, WorkerRunner

from hooks.export.server import MetricsPortError, serve_metrics
from hooks.live.routes import add_live_page
from hooks.live.view import LiveView
from hooks.page_starts import refuse_wrong_starts
from hooks.planning import raise_open_file_limit
from hooks.progress_line import show_progress
from hooks.run_master import EXIT_USAGE, RunMaster
from hooks.run_worker import RunWorker
from options import add_arguments
from shapes.planned import PlannedShape
from workloads.traffic import TrafficKind

REPORT_PERIOD_S = 1.0
"""How often workers report; Locust's own 3 s would make live figures and user counts stale."""


log = logging.getLogger("swarmgauge")


def install(events: Events, user_classes: dict[TrafficKind, type[User]]) -> None:
    """Add our options, both sides of a run, and the shape."""
    locust.runners.WORKER_REPORT_INTERVAL = REPORT_PERIOD_S
    # A worker asks for these once for each option, at every change of its users, and Locust makes
    # them anew each time: its event loop would stop for a fifth of a second and more.
    locust.argument_parser.default_args_dict = cache(locust.argument_parser.default_args_dict)

    def on_parser(parser: Any, **_: Any) -> None:
        add_arguments(parser)

    def on_init(environment: Environment, runner: Runner, **_: Any) -> None:
        raise_open_file_limit()
        _defer_interrupt(greenlet.getcurrent())
        logging.getLogger("locust.runners").addFilter(_tells_no_step)
        # One line for each request of the openai SDK.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        if isinstance(runner, WorkerRunner):
            RunWorker(environment, runner)
            return
        local = None if isinstance(runner, MasterRunner) else RunWorker(environment, runner)
        master = RunMaster(environment, runner, user_classes, local)
        if environment.web_ui is not None:
            refuse_wrong_starts(environment.web_ui, master.start_refusal)
            base_path = getattr(environment.parsed_options, "web_base_path", None)
            add_live_page(environment.web_ui, master.live, base_path)
        _tell_others(environment, master.live)
        shape = PlannedShape(master)
        shape.runner = runner
        environment.shape_class = shape
        if getattr(environment.parsed_options, "headless", False):
            # Locust listens to SIGTERM only once a headless run is over; until then it would kill.
            waiting = greenlet.getcurrent()
            gevent.signal_handler(signal.SIGTERM, gevent.kill, waiting, KeyboardInterrupt)

    events.init_command_line_parser.add_listener(on_parser)
    events.init.add_listener(on_init)


def _tell_others(environment: Environment, live: LiveView) -> None:
    """Show the progress of headless runs, and answer Prometheus where that is wanted."""
    options = environment.parsed_options
    if getattr(options, "headless", False):
        show_progress(lambda: live.run)
    port = getattr(options, "metrics_port", 0)
    if not port:
        return
    try:
        serve_metrics(options.metrics_host, port, lambda: live.run)
    except MetricsPortError as error:
        log.error("%s", error)
        sys.exit(EXIT_USAGE)


def _defer_interrupt(waiting: greenlet.greenlet) -> None:
    """Have the first SIGINT end Locust's wait from the event loop; the second acts at once.

    Python would raise KeyboardInterrupt wherever the code happens to be: within a listener it takes
    the record of a finished request with it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # ignored, as in a shell's background, or Locust's own for several processes
    loop = gevent.get_hub().loop

    def on_first(number: int, frame: FrameType | None) -> None:
        # Not a watcher of the loop: a loop that is blocked must not hold up the second one.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        loop.run_callback_threadsafe(waiting.throw, KeyboardInterrupt)

    signal.signal(signal.SIGINT, on_first)


def _tells_no_step(line: logging.LogRecord) -> bool:
    """Drops Locust's lines about each step of users: our own tell the stages."""
    return not line.getMessage().startswith(_STEPS)


_STEPS = (
    "All users spawned",
    "Ramping to",
    "Sending spawn jobs",
    "Shape test updating",
    "Spawning is complete",
)
