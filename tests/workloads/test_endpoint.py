"""The URL: every common spelling of a base leads to the right address."""

import pytest

from workloads.endpoint import ChatEndpoint, parse_endpoint


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://h:1", "/v1/chat/completions"),
        ("http://h:1/", "/v1/chat/completions"),
        ("http://h:1//", "/v1/chat/completions"),
        ("  http://h:1\n", "/v1/chat/completions"),
        ("http://h:1/v1", "/v1/chat/completions"),
        ("http://h:1/v1/", "/v1/chat/completions"),
        ("http://h:1//v1//", "/v1/chat/completions"),
        ("http://h:1/v1/chat/completions", "/v1/chat/completions"),
        ("http://h:1/v1/chat/completions/", "/v1/chat/completions"),
        ("http://h:1/chat/completions", "/chat/completions"),
        ("http://h:1/api/paas/v4", "/api/paas/v4/chat/completions"),
        ("http://h:1/v1beta/openai/", "/v1beta/openai/chat/completions"),
        ("http://h:1/v1?api-version=2", "/v1/chat/completions?api-version=2"),
        ("http://h:1?key=a%20b&c=", "/v1/chat/completions?key=a%20b&c="),
        ("http://h:1/d/chat/completions?v=1", "/d/chat/completions?v=1"),
    ],
    ids=[
        "bare",
        "slash",
        "two slashes",
        "spaces around",
        "base",
        "base slash",
        "double slashes",
        "full",
        "full slash",
        "full without version",
        "own version",
        "own path",
        "query",
        "query on bare host",
        "query on full",
    ],
)
def test_C01_every_spelling_leads_to_the_chat_path(text, target):
    """A bare host gets /v1, a base keeps its path, a full endpoint stays, a query is kept."""
    assert target == parse_endpoint(text).target()


@pytest.mark.parametrize(
    ("text", "authority", "base_url"),
    [
        ("http://h", "h", "http://h/v1"),
        ("http://h:80", "h", "http://h/v1"),
        ("http://h:443", "h:443", "http://h:443/v1"),
        ("https://h", "h", "https://h/v1"),
        ("https://h:8443/v2/", "h:8443", "https://h:8443/v2"),
        ("HTTPS://Api.Example.COM", "api.example.com", "https://api.example.com/v1"),
        ("http://[::1]:8000", "[::1]:8000", "http://[::1]:8000/v1"),
        ("https://[2001:db8::2]/x", "[2001:db8::2]", "https://[2001:db8::2]/x"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
    ],
    ids=[
        "http",
        "http own port",
        "http other port",
        "https",
        "https other port",
        "capitals",
        "six with port",
        "six",
        "four",
    ],
)
def test_host_and_port_are_read(text, authority, base_url):
    """The scheme's own port is left out, IPv6 is bracketed."""
    endpoint = parse_endpoint(text)

    assert authority == endpoint.authority
    assert base_url == endpoint.base_url


def test_the_parts_are_what_a_socket_needs():
    """IPv6 without brackets, the port always a number."""
    endpoint = parse_endpoint("https://[::1]/v1")

    assert ChatEndpoint("https", "::1", 443, "/v1") == endpoint
    assert endpoint.tls
    assert not parse_endpoint("http://h").tls


def test_another_leaf_has_the_same_base():
    """The list of models is asked for beside the chat path."""
    assert parse_endpoint("http://h/api/v4?v=1").target("/models") == "/api/v4/models?v=1"


def test_a_base_url_parses_to_itself():
    """What SDKs are given is a spelling of the same endpoint."""
    endpoint = parse_endpoint("https://h:8443/api/v4/")

    assert endpoint == parse_endpoint(endpoint.base_url)


def test_the_shown_url_hides_the_query():
    """A query may hold a key."""
    endpoint = parse_endpoint("http://h/v1?key=sesame")

    assert endpoint.url == "http://h/v1/chat/completions?..."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no URL given"),
        ("  ", "no URL given"),
        ("localhost:8000", "no http:// or https:// in front"),
        ("h/v1", "no http:// or https:// in front"),
        ("ftp://h/v1", "ftp:// is not served"),
        ("http://", "names no host"),
        ("http://:8000", "names no host"),
        ("http:///v1", "names no host"),
        ("http://h:0", "port 0"),
        ("http://h:65536", "is not a URL"),
        ("http://h:http", "is not a URL"),
        ("http://[::1", "is not a URL"),
        ("http://h/v 1", "a space"),
        ("http://user:sesame@h", "user name or password"),
        ("http://user@h", "user name or password"),
    ],
    ids=[
        "empty",
        "blank",
        "no scheme",
        "no scheme with path",
        "ftp",
        "nothing",
        "port alone",
        "path alone",
        "port zero",
        "port too high",
        "port word",
        "open bracket",
        "space inside",
        "password",
        "user",
    ],
)
def test_a_wrong_url_is_explained(text, says):
    """The message names what is missing."""
    with pytest.raises(ValueError, match=says):
        parse_endpoint(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://user:sesame@h",
        "ftp://user:sesame@h",
        "user:sesame@h",
        "http://user:sesame@h:port",
        "ftp://h?key=sesame",
    ],
    ids=["good", "scheme", "no scheme", "port", "query"],
)
def test_no_message_shows_a_password(text):
    """Whatever else is wrong with the URL."""
    with pytest.raises(ValueError, match=r"http|URL") as caught:
        parse_endpoint(text)

    assert "sesame" not in str(caught.value)
