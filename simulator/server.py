"""Puts the application on a socket with uvicorn, says when it is ready, and stops cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator

import uvicorn

from simulator.app import App
from simulator.cli import Command
from simulator.completion import CompletionEndpoint
from simulator.driver import Driver
from simulator.engine import Engine
from simulator.metrics_page import MetricsPage
from simulator.request_log import QueueTrace, RequestLog

# Open streams are cut at once; this is for what the loop needs to tell their clients.
_SHUTDOWN_S = 1


class _Server(uvicorn.Server):
    """uvicorn with our signals: it leaves signal handling to `serve`."""

    def __init__(self, config: uvicorn.Config, ready: str) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._ready, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A bound TCP socket.  Raises OSError if the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


async def serve(
    command: Command,
    bound: socket.socket,
    log: RequestLog,
    trace: QueueTrace,
    key: str | None,
) -> None:
    """Serve until SIGINT or SIGTERM; open streams are then cut and logged."""
    profile = command.profile
    engine = Engine(profile, command.seed)
    page = MetricsPage(engine, command.model)
    driver = Driver(engine, page, trace)
    completions = CompletionEndpoint(driver, page, log, command.model, command.seed, key)
    app = App(completions, page, command.model, profile.context_tokens)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        log_level="critical",
        server_header=False,
        timeout_keep_alive=command.keep_alive_s,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ssl_certfile=command.ssl_certfile,
        ssl_keyfile=command.ssl_keyfile,
    )
    host = f"[{command.host}]" if ":" in command.host else command.host
    address = f"{command.scheme}://{host}:{bound.getsockname()[1]}"
    server = _Server(config, f"simulator ready on {address} (profile {profile.name})")

    def stop() -> None:
        server.should_exit = True
        driver.cut_all()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await server.serve(sockets=[bound])
