"""nginx as a front that limits requests or connections, and what any front's refusal looks like."""

import contextlib
import http.client
import json
from urllib.parse import urlsplit

from tests.support.nginx_server import HEAD, NginxServer, running
from tests.support.processes import ROOT, free_port

_CONFIGURATION = (
    HEAD
    + """
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
)

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
        folder=folder,
        port=port,
        upstream=upstream,
        zone=zone,
        limit=limit,
        more=more,
    )
    with running(folder, text, port):
        yield NginxServer(f"http://127.0.0.1:{port}", folder / "access.jsonl")


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
