"""Refuses a wrong start in Locust's page with a message there.

Locust itself answers that every start of a shape succeeded before the shape has seen an option,
and a number that is none with an error that its page cannot show.
"""

import logging
from collections.abc import Callable, Mapping

from flask import Response, jsonify, request
from flask_login import current_user
from locust.web import WebUI

_START = "locust.swarm"

log = logging.getLogger("swarmgauge")


def refuse_wrong_starts(web_ui: WebUI, refusal: Callable[[Mapping[str, str]], str | None]) -> None:
    """Have ``refusal`` look at each form that is sent; its text ends the start."""

    def look() -> Response | None:
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
