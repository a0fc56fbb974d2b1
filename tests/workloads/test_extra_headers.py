"""Extra request headers: what may be written, and what never shows."""

import pytest

from workloads.extra_headers import Header, parse_header


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("X-Team: blue", Header("X-Team", "blue", from_env=False)),
        ("X-Team:blue", Header("X-Team", "blue", from_env=False)),
        ("X-Time: 12:30", Header("X-Time", "12:30", from_env=False)),
        ("X-Empty:", Header("X-Empty", "", from_env=False)),
        ("X-Name: naïve", Header("X-Name", "naïve", from_env=False)),
        ("api-key: env:AZURE_KEY", Header("api-key", "AZURE_KEY", from_env=True)),
    ],
    ids=["plain", "no space", "colon in value", "empty", "accent", "variable"],
)
def test_headers_are_read(text, header):
    """The first colon parts name and value; env: names a variable."""
    assert header == parse_header(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no colon", "write 'Name: value'"),
        (": blue", "write 'Name: value'"),
        ("X Team: blue", "write 'Name: value'"),
        ("X-Téam: blue", "write 'Name: value'"),
        ("X-Team: blue\r\nX-Other: red", "no header may have"),
        ("X-Team: 東京", "no header may have"),
        ("Host: other", "the transport sets"),
        ("content-length: 5", "the transport sets"),
        ("Transfer-Encoding: chunked", "the transport sets"),
        ("Connection: close", "the transport sets"),
    ],
    ids=[
        "no colon",
        "no name",
        "space in name",
        "accent in name",
        "line end",
        "not latin",
        "host",
        "length",
        "encoding",
        "connection",
    ],
)
def test_a_wrong_header_is_explained(text, says):
    """What would break the request on the wire is refused before the run."""
    with pytest.raises(ValueError, match=says):
        parse_header(text)


def test_no_message_repeats_a_header_value():
    """A value that is refused may be a key."""
    with pytest.raises(ValueError, match="no header may have") as caught:
        parse_header("X-Key: sesame\x00")

    assert "sesame" not in str(caught.value)
