"""llama.cpp's own HTTP server, from the xllamacpp wheel, as a process for tests.

``python -m tests.support.llama_server MODEL.gguf --parallel 4`` prints ``llama.cpp ready on URL``.
"""

import argparse
import contextlib
import signal
import sys
import threading
import urllib.request
from pathlib import Path

import xllamacpp

from tests.support.processes import free_port, python_process
from tests.support.tiny_model import tiny_model

READY = "llama.cpp ready on "
CONTEXT_PER_SLOT = 1024


@contextlib.contextmanager
def llama_server(parallel):
    """A llama.cpp server with that many slots and the tiny model; gives its base URL."""
    arguments = [str(tiny_model()), "--parallel", str(parallel)]
    with python_process("tests.support.llama_server", *arguments, ready=READY) as (url, _):
        yield url


def serve(model, port, parallel):
    """Serve until SIGTERM; one thread, for spinning barriers starve a load generator beside it."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = parallel
    params.kv_unified = False
    params.n_ctx = CONTEXT_PER_SLOT * parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cont_batching = True
    params.endpoint_metrics = True
    params.n_threads_http = 96
    params.ui = False
    params.fit_params = False
    params.use_jinja = True
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(params)
    url = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{url}/health", timeout=20) as answer:
        assert answer.status == 200
    print(f"{READY}{url}", flush=True)
    stop.wait()
    del server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=4)
    options = parser.parse_args()
    serve(options.model, options.port or free_port(), options.parallel)
    sys.exit(0)
