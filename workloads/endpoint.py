"""The URL a chat request is sent to, from whatever spelling of a base URL people have at hand."""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

_CHAT = "/chat/completions"
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """Where chat completions are asked for.

    ``base_path`` is what SDKs call the base URL's path (``/v1``); ``query`` comes without ``?``.
    """

    scheme: str
    host: str
    port: int
    base_path: str
    query: str = ""

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: the scheme's own port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def target(self, leaf: str = _CHAT) -> str:
        """Path and query of a request, for example ``/v1/chat/completions``."""
        return self.base_path + leaf + (f"?{self.query}" if self.query else "")

    @property
    def base_url(self) -> str:
        """The base URL as SDKs want it, without the query."""
        return f"{self.scheme}://{self.authority}{self.base_path}"

    @property
    def url(self) -> str:
        """The whole URL but for the query, which may hold a key: fit to be shown."""
        return self.base_url + _CHAT + ("?..." if self.query else "")


def parse_endpoint(text: str) -> ChatEndpoint:
    """Read a base URL in any common spelling.

    A bare host gets ``/v1/chat/completions``, a base with a path gets ``/chat/completions``, a
    full endpoint is used as it is; a query string is kept.

    Raises:
        ValueError: says what is missing and gives an example.
    """
    example = "write for example http://127.0.0.1:8000 or https://api.example.com/v1"
    stripped = text.strip()
    if not stripped:
        raise ValueError(f"no URL given; {example}")
    shown = _shown(stripped)
    if "://" not in stripped:
        raise ValueError(f"{shown!r} has no http:// or https:// in front; {example}")
    try:
        parts = urlsplit(stripped)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{shown!r} is not a URL ({error}); {example}") from None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise ValueError(f"{shown!r}: {scheme}:// is not served; {example}")
    if port == 0 or any(c.isspace() for c in stripped):
        what = "port 0 cannot be asked" if port == 0 else "it holds a space"
        raise ValueError(f"{shown!r} is not a URL ({what}); {example}")
    if not parts.hostname:
        raise ValueError(f"{shown!r} names no host; {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the URL carries a user name or password; give the key in SWARMGAUGE_API_KEY "
            "or a --header 'Authorization: env:NAME' instead"
        )
    return ChatEndpoint(
        scheme=scheme,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[scheme],
        base_path=_base_path(parts),
        query=parts.query,
    )


def _shown(text: str) -> str:
    """The text without what may be a key: for messages."""
    bare = re.sub(r"(^|//).*@", r"\1...@", text.partition("?")[0])
    return bare + "?..." if "?" in text else bare


def _base_path(parts: SplitResult) -> str:
    path = "/" + "/".join(piece for piece in parts.path.split("/") if piece)
    path = path.removesuffix(_CHAT)
    if parts.path.rstrip("/").endswith(_CHAT):
        return path.rstrip("/")
    return "/v1" if path == "/" else path
