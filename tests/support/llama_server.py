"""llama.cpp's own HTTP server, from the xllamacpp wheel, as a process for tests.

``python -m tests.support.llama_server MODEL.gguf --parallel 4`` prints ``llama.cpp ready on URL``
when ``/health`` answers 200, and ends on SIGTERM. It closes the connection after each stream.
"""

import argparse
import contextlib
import os
import signal
import threading
import urllib.request
from pathlib import Path

import xllamacpp

from tests.support.processes import free_port, python_process
from tests.support.tiny_model import tiny_model

READY = "llama.cpp ready on "
CONTEXT_PER_SLOT = 1024
HTTP_THREADS = 96
"""Each open stream holds one; fewer than the streams would be a queue before the slots."""


@contextlib.contextmanager
def llama_server(parallel=4, *arguments):
    """A llama.cpp server with that many slots and the tiny model; gives its base URL.

    ``arguments`` are more of the command line's, such as ``"--no-cache-prompt"``.
    """
    command = [str(tiny_model()), "--parallel", str(parallel), *arguments]
    with python_process("tests.support.llama_server", *command, ready=READY) as (url, _):
        yield url


def parameters(options, port):
    """llama.cpp's parameters for our options; ``ctx`` counts tokens of each slot."""
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = options.parallel
    params.kv_unified = False
    params.n_ctx = options.ctx * options.parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.cont_batching = True
    params.cache_prompt = not options.no_cache_prompt
    if options.no_cache_prompt:
        params.cache_ram_mib = 0
        params.cache_idle_slots = False
    if options.api_key:
        params.api_keys = [options.api_key]
    params.endpoint_metrics = True
    params.n_threads_http = HTTP_THREADS
    params.ui = False
    params.fit_params = False
    params.use_jinja = True
    return params


def serve(options):
    """Serve until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    port = options.port or free_port()
    _server = xllamacpp.Server(parameters(options, port))  # serves for as long as it is held
    url = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{url}/health", timeout=20) as answer:
        assert answer.status == 200
    print(f"{READY}{url}", flush=True)
    stop.wait()
    # The server's own end waits for every open stream, and for ever when its client does not read.
    os._exit(0)


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description="llama.cpp's server with a small model")
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--parallel", type=int, default=4, help="slots")
    # llama.cpp's threads spin at barriers: two starve a load generator on the same two cores.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ctx", type=int, default=CONTEXT_PER_SLOT, help="tokens of each slot")
    parser.add_argument("--no-cache-prompt", action="store_true", help="no prefix cache")
    parser.add_argument("--api-key", help="answer 401 without this key")
    return parser.parse_args()


if __name__ == "__main__":
    serve(parse_arguments())
