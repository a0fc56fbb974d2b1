"""Errors that a client gets to see, in the shape OpenAI gives them."""

from __future__ import annotations

import json


class ApiError(Exception):
    """A request that ends with an HTTP error status and a JSON body."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        kind: str = "invalid_request_error",
        param: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.headers = headers

    def body(self) -> bytes:
        """The JSON document of the answer."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}).encode()


def bad_request(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """A 400 that names the field at fault."""
    return ApiError(400, message, code, param=param)
