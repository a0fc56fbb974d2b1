"""nginx as a front that limits requests or connections, and what any front's refusal looks like."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
from urllib.parse import urlsplit

from tests.support.nginx_server import NGINX, NginxServer
from tests.support.processes import ROOT, end, free_port, wait_until

_CONFIGURATION = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 1024; }}
http {{
  log_format asked escape=json
    '{{"status":$status,"method":"$request_method","request_id":"$http_x_request_id"}}';
  access_log {folder}/access.jsonl asked;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  proxy_http_version 1.1;
  proxy_buffering off;
  {zone}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      {limit}
      proxy_pass {upstream};
    }}
    {more}
  }}
}}
"""

_REFUSAL = '{"error":{"message":"too many requests","type":"rate_limit","code":429}}'


@contextlib.contextmanager
def nginx_limit_req(folder, upstream, per_s=5, burst=5):
    """nginx that lets ``per_s`` requests a second pass and ``burst`` more at once, then refuses.

    One bucket for all clients. A refusal is JSON with ``Retry-After: 2``, as many configure it.
    """
    yield from _nginx(
        folder,
        upstream,
        zone=f"limit_req_zone $server_port zone=all:1m rate={per_s}r/s; limit_req_status 429;",
        limit=f"limit_req zone=all burst={burst} nodelay; error_page 429 @refused;",
        more="location @refused { internal; default_type application/json; "
        f"add_header Retry-After 2 always; return 429 '{_REFUSAL}'; }}",
    )


@contextlib.contextmanager
def nginx_limit_conn(folder, upstream, at_once=4):
    """nginx that lets ``at_once`` requests run together; a refusal is nginx's own HTML page."""
    yield from _nginx(
        folder,
        upstream,
        zone="limit_conn_zone $server_port zone=all:1m; limit_conn_status 429;",
        limit=f"limit_conn all {at_once};",
    )


def _nginx(folder, upstream, *, zone, limit, more=""):
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    text = _CONFIGURATION.format(
        # Its workers would otherwise change to a user who may not look into the folder.
        user="user root;" if os.geteuid() == 0 else "",
        folder=folder,
        port=port,
        upstream=upstream,
        zone=zone,
        limit=limit,
        more=more,
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(text, encoding="utf-8")
    process = subprocess.Popen([NGINX, "-c", configuration, "-p", folder])
    try:
        wait_until(lambda: _listens(port), 10, f"nginx (see {folder / 'error.log'})")
        yield NginxServer(f"http://127.0.0.1:{port}", folder / "access.jsonl")
    finally:
        end(process)


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answer_to(host, model="case-model", max_tokens=4, key=None, stream=True):
    """What a plain client gets for one chat request: ``status``, ``headers``, ``body``.

    ``host`` is a base URL, or a whole one that ends in ``/chat/completions``. Headers are pairs, in
    the order and spelling in which they came; the body is text.
    """
    parts = urlsplit(host)
    path = parts.path if parts.path.endswith("/chat/completions") else "/v1/chat/completions"
    message = {"role": "user", "content": "hello"}
    body = {"model": model, "messages": [message], "max_tokens": max_tokens, "stream": stream}
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
        return {"status": response.status, "headers": response.getheaders(), "body": text}


def recorded(name):
    """A refusal as it was once recorded: what :func:`answer_to` gives, ``origin``, ``version``."""
    path = ROOT / "tests" / "fixtures" / "limits" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))
