"""Puts the live page beside Locust's own, behind the same login and under the same base path.

Locust's page takes tabs but only tables of its own in them. So its tab is declared to it, and a
small script of ours, which its page is sent with, shows our page in that tab.
"""

import gzip
import json
import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, make_response, request, send_file
from locust.web import WebUI

from hooks.live.answers import live_answer
from hooks.live.view import LiveView
from metrics.run_files import (
    REPORT_HTML,
    REQUESTS_PARQUET,
    RUN_JSON,
    STAGES_JSON,
    SUMMARY_CSV,
    SUMMARY_JSON,
)
from options import form_groups

NAME = "swarmgauge"
TAB = {"title": "Live", "key": "live"}
STATIC = Path(__file__).resolve().parent / "static"
ASSETS = ("live.html", "live.js", "chart.js", "live.css", "page.js", "page.css")
RUN_FILES = (REPORT_HTML, SUMMARY_JSON, SUMMARY_CSV, RUN_JSON, STAGES_JSON, REQUESTS_PARQUET)
"""What is served of an ended run, the report first."""
ZIPPED_BYTES = range(600, 200_000)
"""Sizes that are zipped: more of it would hold up a process that sends load as well."""
_INDEX = "locust.index"
_OWN_ONLY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
_REPORT_ONLY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:"
)
_POLICIES = {"live.html": f"{_OWN_ONLY}; img-src 'self' data:", REPORT_HTML: _REPORT_ONLY}
"""Nothing of these pages comes from elsewhere, and nothing of them goes there."""


def add_live_page(web_ui: WebUI, view: LiveView, base_path: str | None) -> None:
    """Add the tab, the page, its figures, and the files of ended runs to Locust's page."""
    web_ui.template_args["extended_tabs"] = [TAB]
    web_ui.template_args["swarmgauge_form"] = form_groups()
    pages = Blueprint(NAME, __name__, url_prefix=f"{base_path or ''}/{NAME}")

    def route(rule: str, answer: Callable[..., Response]) -> None:
        guarded = web_ui.auth_required_if_enabled(answer)
        pages.add_url_rule(rule, answer.__name__, guarded)

    def live() -> Response:
        return _file(STATIC / "live.html")

    def asset(name: str) -> Response:
        # Names are looked up and never made into paths.
        return _file(STATIC / name) if name in ASSETS else _missing()

    def figures() -> Response:
        return _figures(view)

    def run_file(run: str, name: str) -> Response:
        folder = view.folders.get(run)
        if folder is None or name not in RUN_FILES:
            return _missing()
        path = folder / name
        if name == REQUESTS_PARQUET and path.is_file():
            return send_file(path, as_attachment=True)  # piece by piece: it may be large
        return _file(path)

    route("/live", live)
    route("/live.json", figures)
    route("/assets/<name>", asset)
    route("/runs/<run>/<name>", run_file)
    web_ui.app.register_blueprint(pages)
    web_ui.app.after_request(_with_script)


def _figures(view: LiveView) -> Response:
    """What changed since the revision ``since`` of the run ``run``."""
    try:
        since = int(request.args.get("since", "0"))
    except ValueError:
        return make_response("since: write the revision of the last answer, or leave it out", 400)
    run = view.run
    answer: dict[str, Any] = {} if run is None else live_answer(run, _asked_run(), since)
    answer["refused"] = view.refused
    if run is None or not run.running:
        answer["reports"] = view.reports()
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    response = _zipped(text.encode("utf-8", "replace"), "application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _asked_run() -> str:
    return request.args.get("run", "")


def _file(path: Path) -> Response:
    """A file that is there; its name decides what it is."""
    try:
        content = path.read_bytes()
    except OSError:
        return _missing()
    response = _zipped(content, mimetypes.guess_type(path.name)[0] or "text/plain")
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    if path.name in _POLICIES:
        response.headers["Content-Security-Policy"] = _POLICIES[path.name]
    return response


def _missing() -> Response:
    # Not raised: what is raised under Locust's guard becomes an answer of its own.
    return make_response("there is no such page or file", 404)


def _zipped(content: bytes, kind: str) -> Response:
    response = make_response(content)
    response.headers["Content-Type"] = f"{kind}; charset=utf-8"
    response.headers["Vary"] = "Accept-Encoding"
    if len(content) in ZIPPED_BYTES and "gzip" in request.accept_encodings:
        response.set_data(gzip.compress(content, compresslevel=5, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response


def _with_script(response: Response) -> Response:
    """Locust's page, with our script before its own runs."""
    if request.endpoint == _INDEX and response.status_code == 200 and not response.is_streamed:
        head, mark, tail = response.get_data(as_text=True).rpartition("</body>")
        if mark:
            style = f'<link rel="stylesheet" href="./{NAME}/assets/page.css">'
            script = f'<script src="./{NAME}/assets/page.js"></script>'
            response.set_data(f"{head}{style}{script}{mark}{tail}")
    return response
