"""Which proxy is chosen from option and variables, and what of it may be shown."""

import base64

import pytest

from settings import SettingsError
from tests.support.asking import make_settings
from users.http_request import RequestWriter
from users.masking import MASK, Masker
from users.proxy import Proxy, ProxyError, by_proxy, choose_proxy, is_loopback, proxy_headers
from users.secrets import load_secrets
from users.wire import ChatRequest
from workloads.endpoint import parse_endpoint
from workloads.proxy_url import parse_proxy_option, parse_proxy_url

PROXY = "http://proxy.test:3128"
PASSWORD = "DDDD4444"


def chosen(host, environ, option="auto"):
    """The URL of the proxy that is chosen; None for none."""
    proxy = choose_proxy(option, parse_endpoint(host), environ)
    return None if proxy is None else proxy.url


@pytest.mark.parametrize(
    ("host", "environ"),
    [
        ("http://example.test", {"HTTP_PROXY": PROXY}),
        ("http://example.test", {"http_proxy": PROXY}),
        ("https://example.test", {"HTTPS_PROXY": PROXY}),
        ("https://example.test", {"https_proxy": PROXY}),
        ("http://example.test", {"ALL_PROXY": PROXY}),
        ("https://example.test", {"all_proxy": PROXY}),
        ("http://example.test", {"http_proxy": PROXY, "HTTP_PROXY": "http://other:1"}),
        ("https://example.test", {"HTTPS_PROXY": PROXY, "all_proxy": "http://other:1"}),
        ("https://example.test", {"HTTPS_PROXY": " ", "ALL_PROXY": PROXY}),
        ("https://example.test", {"HTTPS_PROXY": "proxy.test:3128"}),
        ("https://example.test", {"HTTPS_PROXY": "HTTP://proxy.test:3128/"}),
        ("http://example.test", {"http_proxy": PROXY, "REQUEST_METHOD": "GET"}),
    ],
)
def test_C02_a_needed_proxy_is_found(host, environ):
    """Both spellings; the scheme's own before all_proxy; lower case before upper."""
    assert chosen(host, environ) == PROXY


@pytest.mark.parametrize(
    ("host", "environ"),
    [
        ("http://example.test", {}),
        ("http://example.test", {"HTTPS_PROXY": PROXY}),
        ("https://example.test", {"HTTP_PROXY": PROXY}),
        ("http://example.test", {"http_proxy": "", "HTTP_PROXY": PROXY}),
        ("http://example.test", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}),
    ],
    ids=["none", "other scheme", "other scheme too", "emptied", "under CGI"],
)
def test_C02_a_proxy_for_something_else_is_not_used(host, environ):
    """An empty lower-case variable switches the upper-case one off."""
    assert chosen(host, environ) is None


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8000",
        "LocalHost",
        "localhost.",
        "api.localhost",
        "127.0.0.1:8000",
        "127.9.9.9",
        "[::1]:8000",
        "[::ffff:127.0.0.1]",
        "0.0.0.0:8000",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_C02_loopback_is_never_proxied(scheme, host):
    """Whatever the variables say; a proxy elsewhere would ask itself."""
    environ = dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"], PROXY)

    assert chosen(f"{scheme}://{host}", environ) is None


@pytest.mark.parametrize("host", ["10.0.0.1", "localhost.example.test", "mylocalhost", "128.0.0.1"])
def test_other_hosts_are_no_loopback(host):
    """Names that only look like it go by the proxy."""
    assert not is_loopback(host)
    assert chosen(f"http://{host}", {"HTTP_PROXY": PROXY}) == PROXY


@pytest.mark.parametrize(
    ("no_proxy", "host"),
    [
        ("example.test", "example.test"),
        ("EXAMPLE.test", "api.example.test"),
        (".example.test", "api.example.test"),
        ("other, example.test ", "example.test"),
        ("example.test:8000", "example.test:8000"),
        ("*", "example.test"),
        ("10.1.2.3", "10.1.2.3:8000"),
        ("10.0.0.0/8", "10.1.2.3"),
        ("fd00::/8", "[fd00::1]:8000"),
        ("[fd00::1]", "[fd00::1]:8000"),
    ],
)
@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_C02_no_proxy_is_heeded(variable, no_proxy, host):
    """Hosts, domains, ports, addresses, networks and the star."""
    assert chosen(f"http://{host}", {"HTTP_PROXY": PROXY, variable: no_proxy}) is None


@pytest.mark.parametrize(
    ("no_proxy", "host"),
    [
        ("example.test", "badexample.test"),
        ("example.test:9000", "example.test:8000"),
        ("11.0.0.0/8", "10.1.2.3"),
        (" , ", "example.test"),
    ],
)
def test_C02_no_proxy_excludes_nothing_else(no_proxy, host):
    """A longer name, another port, another network."""
    assert chosen(f"http://{host}", {"HTTP_PROXY": PROXY, "NO_PROXY": no_proxy}) == PROXY


def test_C02_off_uses_no_proxy():
    """The switch goes before the variables."""
    assert chosen("http://example.test", {"HTTP_PROXY": PROXY}, option="off") is None


@pytest.mark.parametrize(
    "host", ["http://example.test", "https://example.test", "http://127.0.0.1"]
)
def test_C02_a_proxy_that_is_named_is_used(host):
    """For every endpoint, the loopback too, whatever the variables say."""
    environ = {"HTTP_PROXY": "http://other:1", "NO_PROXY": "*"}

    assert chosen(host, environ, option=PROXY) == PROXY


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"socks5://u:{PASSWORD}@proxy.test:1080", "socks5:// proxies are not served"),
        (f"https://u:{PASSWORD}@proxy.test", "TLS to the proxy itself is not served"),
        (f"ftp://u:{PASSWORD}@proxy.test", "not the URL of an HTTP proxy"),
        (f"http://u:{PASSWORD}@", "a host, a port"),
        (f"http://u:{PASSWORD}@proxy.test:port", "not the URL of an HTTP proxy"),
        (f"http://u:{PASSWORD}@proxy.test:99999", "not the URL of an HTTP proxy"),
        (f"http://u:{PASSWORD}@proxy.test/path", "nothing behind them"),
        (f"http://u:{PASSWORD}@[::1", "not the URL of an HTTP proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_by_its_variable(value, reason):
    """Not passed over in silence; the text says what to write and repeats no password."""
    with pytest.raises(SettingsError) as caught:
        chosen("https://example.test", {"ALL_PROXY": value})

    text = str(caught.value)
    assert text.startswith("the variable ALL_PROXY: ")
    assert reason in text
    assert "http://proxy.example.com:3128" in text
    assert "--proxy off" in text
    assert PASSWORD not in text


def test_a_proxy_that_is_not_needed_may_be_of_any_kind():
    """A SOCKS proxy for the outside world does not stop a test of this machine."""
    assert chosen("http://127.0.0.1", {"ALL_PROXY": "socks5://proxy.test:1080"}) is None


@pytest.mark.parametrize(
    "value", [f"http://u:{PASSWORD}@proxy.test:1", f"u:{PASSWORD}@proxy.test", "u@proxy.test"]
)
def test_C02_credentials_are_no_option(value):
    """Options are shown: the text says where credentials go and repeats none."""
    with pytest.raises(SettingsError, match=r"--proxy: .*options are shown.*HTTPS_PROXY") as caught:
        make_settings("http://example.test", proxy=value)

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("auto", "auto"),
        (" OFF ", "off"),
        ("proxy.test:3128", PROXY),
        ("http://proxy.test:3128/", PROXY),
        ("http://proxy.test", "http://proxy.test:80"),
        ("http://[::1]:3128", "http://[::1]:3128"),
    ],
)
def test_the_option_is_read(text, option):
    """Switches in any case; URLs in one spelling, which is read again as itself."""
    assert parse_proxy_option(text) == option
    assert parse_proxy_option(option) == option


@pytest.mark.parametrize("text", ["", "on the moon", "socks5://h:1", "http://h:0", "http://h\x00"])
def test_an_option_that_is_no_proxy_is_refused(text):
    """The text gives an example."""
    with pytest.raises(ValueError, match=r"write .*http://proxy\.example\.com:3128"):
        parse_proxy_option(text)


def secured(password=PASSWORD, host="https://example.test", user="ada"):
    """The secrets of a process whose proxy variable holds a password."""
    environ = {"ALL_PROXY": f"http://{user}:{password}@proxy.test:3128"}
    return load_secrets(make_settings(host), environ)


def test_credentials_become_a_basic_field():
    """Percent signs are undone, colons of the password are kept."""
    proxy = secured(password="p%40ss:word").proxy

    assert proxy.authorization == "Basic " + base64.b64encode(b"ada:p@ss:word").decode()


def test_C02_nothing_that_is_shown_of_a_proxy_holds_credentials():
    """URL, text, repr and the secrets' own repr."""
    secrets = secured()

    assert secrets.proxy.url == PROXY
    for text in (secrets.proxy.url, str(secrets.proxy), repr(secrets.proxy), repr(secrets)):
        assert PASSWORD not in text
        assert "Basic" not in text
    assert PASSWORD not in repr(parse_proxy_url(f"http://u:{PASSWORD}@h:1"))


def test_O05_a_proxys_credentials_are_masked_in_whatever_is_said():
    """The password as it is and as it was written, and the field that was sent."""
    secrets = secured(password="DDDD%404444")
    token = base64.b64encode(b"ada:DDDD@4444").decode()

    said = Masker(secrets.texts).mask(f"no DDDD@4444, no DDDD%404444, no {token}")

    assert said == f"no {MASK}, no {MASK}, no {MASK}"


def first_line_and_fields(endpoint):
    """What a transport of ours writes to an endpoint."""
    message = RequestWriter(endpoint, proxy_headers(endpoint)).message(ChatRequest(b"{}", "id"))
    first, *fields = message.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return first, fields


def test_a_plain_request_names_the_whole_url_and_the_credentials():
    """Absolute form, the endpoint's own Host, and the field for the proxy."""
    secrets = secured(host="http://example.test:81/v1?key=1")
    endpoint = by_proxy(parse_endpoint("http://example.test:81/v1?key=1"), secrets.proxy)

    first, fields = first_line_and_fields(endpoint)

    assert first == "POST http://example.test:81/v1/chat/completions?key=1 HTTP/1.1"
    assert "Host: example.test:81" in fields
    assert f"Proxy-Authorization: {secrets.proxy.authorization}" in fields


def test_what_goes_through_a_tunnel_knows_no_proxy():
    """The endpoint must not get to read the proxy's credentials."""
    first, fields = first_line_and_fields(
        by_proxy(parse_endpoint("https://example.test"), secured().proxy)
    )

    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert not [field for field in fields if "proxy" in field.lower()]


@pytest.mark.parametrize(
    ("host", "target"),
    [("https://example.test", "example.test:443"), ("https://[fd00::1]:8443", "[fd00::1]:8443")],
)
def test_a_tunnel_is_asked_for_by_host_and_port(host, target):
    """The port is always written; the credentials are there."""
    proxy = secured().proxy

    lines = proxy.connect_request(parse_endpoint(host)).decode().split("\r\n")

    assert lines[:2] == [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    assert f"Proxy-Authorization: {proxy.authorization}" in lines
    assert lines[-2:] == ["", ""]


@pytest.mark.parametrize("line", ["HTTP/1.1 200 OK", "HTTP/1.0 200", "HTTP/1.1 204 Yes"])
def test_a_tunnel_that_opens_is_no_error(line):
    """Any 2xx."""
    endpoint = parse_endpoint("https://example.test")

    assert Proxy("h", 1).check_answer(f"{line}\r\nVia: h\r\n\r\n".encode(), endpoint) is None


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "answered CONNECT example.test:443 with 403 Forbidden"),
        ("HTTP/1.1 407 Auth\r\n\r\n", "with 407 Auth; put user:password@ into the proxy variable"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "does not answer CONNECT as an HTTP proxy"),
        ("HTTP/1.1 yes\r\n\r\n", "does not answer CONNECT as an HTTP proxy"),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "sent more than its answer to CONNECT"),
    ],
)
def test_a_tunnel_that_does_not_open_is_told(head, said):
    """The proxy by name, and what it said."""
    with pytest.raises(ProxyError) as caught:
        Proxy("h", 1).check_answer(head.encode(), parse_endpoint("https://example.test"))

    assert str(caught.value).startswith("proxy http://h:1 ")
    assert said in str(caught.value)
