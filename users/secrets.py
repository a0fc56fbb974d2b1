"""Keys: read from the environment of the process that sends, kept out of everything else.

Locust ships every option in clear to whatever connects to its master and prints them into its
page, so a key is never an option. It is read where it is used, and its text is masked in whatever
a server says.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from settings import Settings, SettingsError
from users.proxy import Proxy, choose_proxy
from workloads.extra_headers import header_can_hold

KEY_VARIABLES = ("SWARMGAUGE_API_KEY", "OPENAI_API_KEY")
KEY_FILE_VARIABLE = "SWARMGAUGE_API_KEY_FILE"


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """The key, the header values and the proxy of this process; never printed, never sent.

    ``query`` is that of the endpoint's URL: some endpoints want their key there.
    """

    api_key: str | None
    headers: tuple[tuple[str, str], ...]
    proxy: Proxy | None = None
    query: str = ""

    def __repr__(self) -> str:
        return "Secrets(...)"

    @property
    def texts(self) -> tuple[str, ...]:
        """Every value that must not appear anywhere, longest first."""
        values = {value for _, value in self.headers}
        values |= {value.removeprefix("Bearer ") for value in values}
        values |= {self.api_key} if self.api_key else set()
        values |= set(self.proxy.secrets) if self.proxy else set()
        values |= {value for _, value in parse_qsl(self.query)}
        values |= {part.partition("=")[2] for part in self.query.split("&")}
        return tuple(sorted((v for v in values if len(v) >= 4), key=len, reverse=True))

    def request_headers(self) -> dict[str, str]:
        """The user's headers, and ``Authorization`` from the key unless the user set one."""
        headers = dict(self.headers)
        names = {name.lower() for name in headers}
        if self.api_key and not names & {"authorization", "api-key"}:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers


def load_secrets(settings: Settings, environ: Mapping[str, str] = os.environ) -> Secrets:
    """Read the key, the headers' values and the proxy for this process.

    Raises:
        SettingsError: a variable that a header names is not set, the key file can't be read, or
            the proxy variable holds no proxy that can be used.
    """
    headers = []
    for header in settings.headers:
        value = environ.get(header.value) if header.from_env else header.value
        if value is None:
            raise SettingsError(
                f"--header {header.name}: the variable {header.value} is not set on this machine"
            )
        # A value from a file often ends with a line end, which would begin another header.
        headers.append((header.name, _sendable(value.strip(), f"--header {header.name}")))
    api_key = _api_key(environ)
    if api_key is not None:
        _sendable(api_key, "the API key")
    proxy = choose_proxy(settings.proxy, settings.endpoint, environ)
    return Secrets(api_key, tuple(headers), proxy, settings.endpoint.query)


def _sendable(value: str, where: str) -> str:
    if not header_can_hold(value):
        raise SettingsError(f"{where}: the value holds a character no header may have")
    return value


def _api_key(environ: Mapping[str, str]) -> str | None:
    for variable in KEY_VARIABLES:
        if environ.get(variable, "").strip():
            return environ[variable].strip()
    path = environ.get(KEY_FILE_VARIABLE, "").strip()
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SettingsError(f"{KEY_FILE_VARIABLE} {path}: {reason}") from None
