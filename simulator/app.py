"""The HTTP face as a bare ASGI application: which path is answered by what."""

from __future__ import annotations

import json
import time

from simulator.asgi import Receive, Scope, Send, respond
from simulator.completion import CompletionEndpoint, ConnectionCut
from simulator.errors import ApiError
from simulator.metrics_page import MetricsPage

_METHODS = {
    "/v1/chat/completions": "POST",
    "/v1/models": "GET",
    "/health": "GET",
    "/metrics": "GET",
}


class App:
    """Routes requests; everything but completions is answered at once and not logged."""

    def __init__(
        self, completions: CompletionEndpoint, page: MetricsPage, model: str, context_tokens: int
    ) -> None:
        self._completions = completions
        self._page = page
        model_card = {
            "id": model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "simulator",
            "max_model_len": context_tokens,
        }
        self._models = json.dumps({"object": "list", "data": [model_card]}).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; other protocols are turned away by raising."""
        if scope["type"] != "http":
            raise ValueError(f"no such protocol here: {scope['type']}")
        try:
            await self._route(scope, receive, send)
        except ApiError as error:
            await respond(send, error.status, error.body(), "application/json", error.headers)
        except ConnectionCut:
            # Returning with the response unfinished lets the server close the connection, which
            # is what the client of a stopped server sees.
            return

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        allowed = _METHODS.get(path)
        if allowed is None:
            raise ApiError(404, f"No such path: {path}", "not_found", kind="not_found_error")
        if method != allowed:
            headers = (("allow", allowed),)
            message = f"{path} is for {allowed}"
            raise ApiError(405, message, "method_not_allowed", headers=headers)
        if path == "/v1/chat/completions":
            await self._completions(scope, receive, send)
        elif path == "/v1/models":
            self._completions.check_key(scope)
            await respond(send, 200, self._models, "application/json")
        elif path == "/metrics":
            page = self._page.render().encode()
            await respond(send, 200, page, self._page.CONTENT_TYPE)
        else:
            await respond(send, 200, b"", "text/plain")
