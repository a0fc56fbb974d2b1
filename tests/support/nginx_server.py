"""nginx in front of another server, as a process for tests; Debian's package, nothing of ours."""

import contextlib
import json
import os
import shutil
import socket
import subprocess

import pytest

from tests.support.processes import end, free_port, wait_until

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

requires_nginx = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed (apt-get install --no-install-recommends nginx)"
)

# Its workers would otherwise change to a user who may not look into the folder.
_USER = "user root;" if os.geteuid() == 0 else ""
HEAD = (
    _USER
    + """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  log_format asked escape=json
    '{{"connection":$connection,"nth":$connection_requests,"status":$status,'
    '"method":"$request_method","request_id":"$http_x_request_id",'
    '"traceparent":"$http_traceparent","https":"$https"}}';
  access_log {folder}/access.jsonl asked;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  proxy_http_version 1.1;
"""
)
"""What all our configurations begin with; their ``http`` block is still open after it."""
_CONFIGURATION = (
    HEAD
    + """
  proxy_buffering {buffering};
  {ignore}
  proxy_buffer_size 64k;
  proxy_buffers 8 64k;
  proxy_busy_buffers_size 128k;
  proxy_read_timeout 120s;
  {more}
  server {{
    listen 127.0.0.1:{port}{tls};
    location / {{ proxy_pass {upstream}; }}
  }}
}}
"""
)


class NginxServer:
    """A running nginx, and the requests that it has seen."""

    def __init__(self, url, log):
        self.url = url
        self._log = log

    def asked(self):
        """The POSTs answered so far: ``connection``, ``nth`` on it, ``status``, and who asked."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["method"] == "POST"]


_COMPRESSING = """
  gunzip on;
  proxy_set_header Accept-Encoding gzip;
  server {{
    listen 127.0.0.1:{port};
    gzip on;
    gzip_types text/event-stream;
    gzip_min_length 0;
    location / {{ proxy_pass {upstream}; }}
  }}
"""


@contextlib.contextmanager
def holding_nginx(folder, upstream):
    """Two hops of one nginx that hold each answer back until it is whole.

    ``proxy_buffering`` alone passes on what has come. But the inner hop compresses event streams,
    and without a flush deflate gives nothing before its own buffer is full; the outer asks for
    gzip to save the line between them, and inflates for its clients.
    """
    port = free_port()
    inner = _COMPRESSING.format(port=port, upstream=upstream)
    with nginx(folder, f"http://127.0.0.1:{port}", buffering="on", more=inner) as front:
        yield front


@contextlib.contextmanager
def nginx(folder, upstream, tls=None, buffering="off", more=""):
    """nginx before ``upstream`` until the block ends; over TLS with these :class:`TlsFiles`.
    With ``buffering`` on it may keep an answer in buffers, whatever the upstream asks. ``more``
    are further directives of the ``http`` block.

    Every request opens a connection of its own to the upstream, which is nginx's default; the
    client's connections are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    lines = ""
    if tls is not None:
        lines = f" ssl;\n    ssl_certificate {tls.certificate};\n    ssl_certificate_key {tls.key}"
    text = _CONFIGURATION.format(
        folder=folder,
        port=port,
        tls=lines,
        upstream=upstream,
        buffering=buffering,
        more=more,
        # Servers ask nginx not to buffer, and many an nginx is told not to listen.
        ignore="proxy_ignore_headers X-Accel-Buffering;" if buffering == "on" else "",
    )
    with running(folder, text, port):
        scheme = "http" if tls is None else "https"
        yield NginxServer(f"{scheme}://127.0.0.1:{port}", folder / "access.jsonl")


@contextlib.contextmanager
def running(folder, configuration, port):
    """nginx with this configuration, listening on the port, until the block ends."""
    file = folder / "nginx.conf"
    file.write_text(configuration, encoding="utf-8")
    process = subprocess.Popen([NGINX, "-c", file, "-p", folder])
    try:
        wait_until(lambda: _listens(port), 10, f"nginx (see {folder / 'error.log'})")
        yield
    finally:
        end(process)


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
