"""The URL of an HTTP proxy, in the spellings that the proxy variables have."""

from dataclasses import dataclass
from urllib.parse import urlsplit

PROXY_AUTO = "auto"
PROXY_OFF = "off"

_DEFAULT_PORT = 80
_EXAMPLE = "write for example http://proxy.example.com:3128"


@dataclass(frozen=True, slots=True, repr=False)
class ProxyAddress:
    """Where a proxy listens. ``credentials`` are ``user:password`` as written, or None."""

    host: str
    port: int
    credentials: str | None


def parse_proxy_url(text: str) -> ProxyAddress:
    """Read ``http://host:port`` or ``host:port``, with or without ``user:password@``.

    Raises:
        ValueError: it is no HTTP proxy; the text never repeats what may be a password.
    """
    stripped = text.strip()
    scheme, found, rest = stripped.partition("://")
    if not found:
        scheme, rest = "http", stripped
    scheme = scheme.lower()
    if scheme.startswith("socks"):
        raise ValueError(f"{scheme}:// proxies are not served; {_EXAMPLE}")
    if scheme == "https":
        raise ValueError(f"TLS to the proxy itself is not served; {_EXAMPLE}")
    if scheme != "http":
        raise ValueError(f"this is not the URL of an HTTP proxy; {_EXAMPLE}")
    try:
        parts = urlsplit(f"http://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"this is not the URL of an HTTP proxy; {_EXAMPLE}") from None
    unfit = any(c.isspace() or not c.isprintable() for c in rest)
    if not host or port == 0 or unfit or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"a proxy has a host, a port and nothing behind them; {_EXAMPLE}")
    credentials, at, _ = parts.netloc.rpartition("@")
    return ProxyAddress(host, port or _DEFAULT_PORT, credentials if at and credentials else None)


def parse_proxy_option(text: str) -> str:
    """``auto``, ``off`` or the URL of a proxy without credentials.

    Raises:
        ValueError: none of them, or a URL with credentials, which options must not hold.
    """
    stripped = text.strip()
    if stripped.lower() in (PROXY_AUTO, PROXY_OFF):
        return stripped.lower()
    if not stripped:
        raise ValueError(f"nothing given; write auto, off or a URL: {_EXAMPLE}")
    address = parse_proxy_url(stripped)
    if address.credentials is not None:
        raise ValueError(
            "the URL carries a user name or password, and options are shown; "
            "put it into HTTPS_PROXY or HTTP_PROXY where the load is sent from, with --proxy auto"
        )
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{address.port}"
