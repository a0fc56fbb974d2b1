"""Refuses what must not reach Locust's page: requests of foreign pages, and wrong starts.

The page has no login and says `Access-Control-Allow-Origin` to everybody: any page that the
operator has open beside it could start a load and read the run. And Locust answers that every start
of a shape succeeded before the shape has seen an option, and a number that is none with an error
that its page cannot show.
"""

import ipaddress
import logging
from collections.abc import Callable, Mapping

from flask import Flask, Request, Response, jsonify, request
from flask_login import current_user
from locust.web import WebUI

_START = "locust.swarm"
_CORS = "Access-Control-"
_READS = ("GET", "HEAD", "OPTIONS")

log = logging.getLogger("swarmgauge")


def refuse_wrong_starts(web_ui: WebUI, refusal: Callable[[Mapping[str, str]], str | None]) -> None:
    """Have ``refusal`` look at each form that is sent; its text ends the start.

    Requests that another page had the browser send are refused before, with status 403.
    """
    address = _address(web_ui.host)
    local = address.is_loopback if address else _is_localhost(web_ui.host)
    _share_with_nobody(web_ui.app)

    def look() -> Response | None:
        foreign = foreign_request(request, local)
        if foreign is not None:
            log.warning("the page refused a request: %s", foreign)
            answer = jsonify({"success": False, "message": foreign})
            answer.status_code = 403
            return answer
        if request.endpoint != _START or request.method != "POST":
            return None
        if web_ui.web_login and not current_user.is_authenticated:
            return None  # Locust sends them to its login
        text = refusal(request.form)
        if text is None:
            return None
        log.error("the run did not start: %s", text)
        # Not an error status: the page shows the message of an ordinary answer only.
        return jsonify({"success": False, "message": text, "host": web_ui.environment.host})

    web_ui.app.before_request(look)


def foreign_request(asked: Request, local: bool) -> str | None:
    """Why a request comes from a foreign page; None if it does not.

    ``local`` says that the page listens on the loopback only. No browser goes there under a name
    but localhost, unless a foreign name was made to lead there.
    """
    if local and not (_is_localhost(asked.host) or _address(asked.host)):
        return (
            f"Host {_shown(asked.host)} is not where this page listens; open it as 127.0.0.1, or "
            "have your proxy send 'Host: localhost'"
        )
    if asked.method in _READS:
        return None  # a browser keeps the answer from the page that asked
    origin = asked.headers.get("Origin")
    site = asked.headers.get("Sec-Fetch-Site")
    if site is not None:
        # The browser's own word, which a proxy in between leaves alone.
        own = site in ("same-origin", "none")
    else:
        own = origin is None or origin.partition("//")[2] == asked.host
    if own:
        return None
    return f"it was sent by the page of {_shown(origin or 'another site')}; use Locust's own page"


def _share_with_nobody(app: Flask) -> None:
    """Take from the answers Locust's leave to read them, and to show them in a frame."""

    def strip(answer: Response) -> Response:
        for name in [name for name, _ in answer.headers if name.startswith(_CORS)]:
            del answer.headers[name]
        answer.headers["X-Frame-Options"] = "SAMEORIGIN"  # or its Start could be put under a click
        return answer

    # Flask calls these last to first, and Locust's adds the headers.
    app.after_request_funcs.setdefault(None, []).insert(0, strip)


def _is_localhost(host: str) -> bool:
    """Whether ``NAME`` or ``NAME:PORT`` has the name that is reserved for the loopback."""
    name = host.partition(":")[0].lower()
    return name == "localhost" or name.endswith(".localhost")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in ``ADDRESS``, ``ADDRESS:PORT`` or ``[ADDRESS]:PORT``; None for a name."""
    bare = host.partition("]")[0][1:] if host.startswith("[") else host
    for text in (bare, bare.rpartition(":")[0]):
        try:
            return ipaddress.ip_address(text)
        except ValueError:
            continue
    return None


def _shown(text: str) -> str:
    return repr(text[:80])
