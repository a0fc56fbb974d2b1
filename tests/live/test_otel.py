"""Locust's own OpenTelemetry export beside our records: both tell of the same run."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pandas import read_parquet

from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log

pytest.importorskip("opentelemetry.proto", reason="OpenTelemetry's packages are not installed")
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

pytestmark = [pytest.mark.live, pytest.mark.patient]

KEY = "sk-otel-AAAA1111BBBB2222"


class Collector(ThreadingHTTPServer):
    """Takes what is exported over OTLP/HTTP, and keeps it by path."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Taker)
        self.bodies = []

    @property
    def url(self):
        """Its base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def of(self, path, kind):
        """The requests of one path."""
        return [kind.FromString(body) for asked, body in self.bodies if asked == path]


class _Taker(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """A run with ``--otel``: what the collector got, the run, and the server's log."""
    folder, collector = tmp_path_factory.mktemp("otel"), Collector()
    thread = threading.Thread(target=collector.serve_forever, daemon=True)
    thread.start()
    try:
        with simulator(log=folder / "server.jsonl") as host:
            run = run_headless(
                folder / "runs",
                *("--otel", "--host", host, "-u", "3", "-r", "10", "-t", "3s", "--settle", "0s"),
                env={
                    "SWARMGAUGE_API_KEY": KEY,
                    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                    "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                    "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                },
            )
    finally:
        collector.shutdown()
        collector.server_close()
        thread.join()
    assert run.folder is not None, run.output[-3000:]
    return collector, run, server_log(folder / "server.jsonl")


def metrics(collector):
    """The last state of each metric that was exported."""
    found = {}
    for request in collector.of("/v1/metrics", ExportMetricsServiceRequest):
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                found.update({metric.name: metric for metric in scope.metrics})
    return found


def test_both_count_the_same_requests(observed):
    """Locust's histogram has each logical request of the report, and the report all of them."""
    collector, run, asked = observed
    points = metrics(collector)["locust.client.duration"].histogram.data_points
    totals = run.summary["totals"]

    assert run.sound, run.output[-3000:]
    assert totals["offered"] == sum(point.count for point in points) == len(asked) > 0
    assert totals["offered"] == totals["ok"]


def test_times_of_both_agree(observed):
    """The sum of Locust's durations is that of the records' latencies, in seconds."""
    collector, run, _ = observed
    points = metrics(collector)["locust.client.duration"].histogram.data_points
    latencies_s = read_parquet(run.folder / "requests.parquet")["user_latency_s"]

    assert latencies_s.sum() == pytest.approx(sum(point.sum for point in points))


def test_our_lines_are_exported_and_hold_no_key(observed):
    """Log lines go the same way as to the terminal."""
    collector, run, _ = observed
    lines = [
        record.body.string_value
        for request in collector.of("/v1/logs", ExportLogsServiceRequest)
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]

    assert any("results go to" in line for line in lines)
    assert not [body for _, body in collector.bodies if KEY.encode() in body]
    assert "Traceback" not in run.output
