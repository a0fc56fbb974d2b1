"""Which proxy stands between this process and the endpoint, and what is said to it.

The variables are those that curl and most HTTP clients read. They may hold a password, so a proxy
is chosen where the load is sent from and its credentials never leave that process.
"""

import base64
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from urllib.parse import unquote
from urllib.request import proxy_bypass_environment

from settings import SettingsError
from workloads.endpoint import ChatEndpoint
from workloads.proxy_url import PROXY_AUTO, PROXY_OFF, parse_proxy_url


class ProxyError(OSError):
    """The proxy cannot be reached or refuses; the text names it, never its credentials."""


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """An HTTP proxy. ``authorization`` is the value of its header field, None without credentials.

    ``secrets`` are the texts that must appear nowhere.
    """

    host: str
    port: int
    authorization: str | None = None
    secrets: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The proxy without credentials: fit to be shown."""
        return f"http://{_bracketed(self.host)}:{self.port}"

    def __str__(self) -> str:
        return f"proxy {self.url}"

    def __repr__(self) -> str:
        return f"Proxy({self.url})"

    def connect_request(self, endpoint: ChatEndpoint) -> bytes:
        """What asks the proxy for a tunnel to the endpoint."""
        target = _target(endpoint)
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", "User-Agent: swarmgauge"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def check_answer(self, head: bytes, endpoint: ChatEndpoint) -> None:
        """Read the answer to :meth:`connect_request`.

        Raises:
            ProxyError: it is not a 2xx answer; the text says what to do.
        """
        line, _, _ = head.partition(b"\r\n")
        version, _, said = line.decode("latin-1").partition(" ")
        status = said.strip()[:3]
        if not version.startswith("HTTP/1.") or not status.isdigit():
            raise ProxyError(f"{self} does not answer CONNECT as an HTTP proxy")
        if status.startswith("2"):
            if not head.endswith(b"\r\n\r\n"):
                raise ProxyError(f"{self} sent more than its answer to CONNECT")
            return
        raise ProxyError(self.refusal(said.strip(), endpoint))

    def refusal(self, said: str, endpoint: ChatEndpoint) -> str:
        """What to tell when the proxy answers CONNECT with ``said``, a status and its reason."""
        advice = ""
        if said.startswith("407"):
            advice = "; put user:password@ into the proxy variable"
        return f"{self} answered CONNECT {_target(endpoint)} with {said[:60]}{advice}"


@dataclass(frozen=True, slots=True)
class ProxiedEndpoint(ChatEndpoint):
    """An endpoint that is spoken to by a proxy.

    Plain HTTP names the whole URL in its request line; TLS goes through a tunnel, as if directly.
    """

    proxy: Proxy | None = None

    def target(self, *leaf: str) -> str:
        """Path and query, behind scheme and authority where the proxy has to know them."""
        path = ChatEndpoint.target(self, *leaf)
        return path if self.tls else f"{self.scheme}://{self.authority}{path}"


def proxy_of(endpoint: ChatEndpoint) -> Proxy | None:
    """The proxy of an endpoint; None when it is spoken to directly."""
    return endpoint.proxy if isinstance(endpoint, ProxiedEndpoint) else None


def by_proxy(endpoint: ChatEndpoint, proxy: Proxy | None) -> ChatEndpoint:
    """The endpoint as it is reached."""
    if proxy is None:
        return endpoint
    own = {field.name: getattr(endpoint, field.name) for field in fields(ChatEndpoint)}
    return ProxiedEndpoint(**own, proxy=proxy)


def proxy_headers(endpoint: ChatEndpoint) -> dict[str, str]:
    """What a plain request tells its proxy; through a tunnel the endpoint would get to read it."""
    proxy = proxy_of(endpoint)
    if proxy is None or proxy.authorization is None or endpoint.tls:
        return {}
    return {"Proxy-Authorization": proxy.authorization}


def choose_proxy(option: str, endpoint: ChatEndpoint, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy that ``--proxy`` and this process's variables ask for; None for none.

    ``auto`` follows the variables, and never for the loopback. A URL is used whatever they say.

    Raises:
        SettingsError: the variable holds no proxy that can be used.
    """
    if option == PROXY_OFF:
        return None
    if option != PROXY_AUTO:
        address = parse_proxy_url(option)
        return Proxy(address.host, address.port)
    if is_loopback(endpoint.host) or _is_excluded(endpoint, environ):
        return None
    names = (f"{endpoint.scheme}_proxy", "all_proxy")
    variable, url = next(_set_variables(names, environ), ("", ""))
    if not url:
        return None
    try:
        address = parse_proxy_url(url)
    except ValueError as error:
        raise SettingsError(
            f"the variable {variable}: {error}, or --proxy off to go straight to the endpoint"
        ) from None
    if address.credentials is None:
        return Proxy(address.host, address.port)
    plain = unquote(address.credentials)
    user, _, password = plain.partition(":")
    token = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    raw_password = address.credentials.partition(":")[2]
    secrets = tuple(dict.fromkeys(s for s in (token, password, raw_password) if s))
    return Proxy(address.host, address.port, f"Basic {token}", secrets)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself: such a request means nothing to a proxy."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _ip(name)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    # The unspecified address connects to this machine as well.
    return address is not None and (address.is_loopback or address.is_unspecified)


def _set_variables(names: Iterable[str], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those variables that hold something; lower case goes before upper case, even when empty."""
    for name in names:
        variable = name if name in environ else name.upper()
        if variable == "HTTP_PROXY" and "REQUEST_METHOD" in environ:
            # Under CGI this is the request's own ``Proxy`` header.
            continue
        if value := environ.get(variable, "").strip():
            yield variable, value


def _is_excluded(endpoint: ChatEndpoint, environ: Mapping[str, str]) -> bool:
    """Whether NO_PROXY names the endpoint: host, domain, host:port, ``*``, address or network."""
    _, value = next(_set_variables(("no_proxy",), environ), ("", ""))
    if not value:
        return False
    host = endpoint.host.rstrip(".")
    where = f"{_bracketed(host)}:{endpoint.port}"
    if any(proxy_bypass_environment(h, {"no": value}) for h in (where, host)):
        return True
    address = _ip(host)
    return address is not None and any(
        address in network for network in map(_network, value.split(",")) if network is not None
    )


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip().strip("[]"), strict=False)
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _target(endpoint: ChatEndpoint) -> str:
    return f"{_bracketed(endpoint.host)}:{endpoint.port}"
