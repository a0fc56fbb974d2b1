"""Keys: where they are read, where they go, and where they must not show."""

import pytest

from settings import SettingsError
from tests.support.asking import make_settings
from users.masking import MASK, SAMPLE_CHARS, Masker
from users.secrets import Secrets, load_secrets

KEY = "open-sesame-42"


def _load(environ=None, headers=()):
    return load_secrets(make_settings("http://h", header=list(headers)), environ or {})


@pytest.mark.parametrize(
    "environ",
    [
        {"SWARMGAUGE_API_KEY": KEY},
        {"OPENAI_API_KEY": KEY},
        {"SWARMGAUGE_API_KEY": KEY, "OPENAI_API_KEY": "another"},
        {"SWARMGAUGE_API_KEY": "  ", "OPENAI_API_KEY": KEY},
        {"SWARMGAUGE_API_KEY": f" {KEY}\n"},
        {"SWARMGAUGE_API_KEY": KEY, "SWARMGAUGE_API_KEY_FILE": "gone"},
    ],
    ids=["ours", "openai", "ours first", "ours blank", "line end", "before the file"],
)
def test_the_key_is_read_from_the_environment(environ):
    """Our variable goes before OpenAI's, both before the file; space around it is dropped."""
    assert _load(environ).api_key == KEY


def test_the_key_is_read_from_a_file(tmp_path):
    """The line end that editors add is no part of it."""
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")

    assert _load({"SWARMGAUGE_API_KEY_FILE": str(path)}).api_key == KEY


@pytest.mark.parametrize("content", ["", "\n"], ids=["empty", "blank"])
def test_an_empty_file_is_no_key(tmp_path, content):
    """No key is sent rather than an empty one."""
    path = tmp_path / "key"
    path.write_text(content)

    assert _load({"SWARMGAUGE_API_KEY_FILE": str(path)}).api_key is None


def test_a_key_file_that_is_not_there_is_named(tmp_path):
    """The message has the variable, the path and the reason."""
    environ = {"SWARMGAUGE_API_KEY_FILE": str(tmp_path / "gone")}

    with pytest.raises(SettingsError, match=r"SWARMGAUGE_API_KEY_FILE .*gone: No such file"):
        _load(environ)


def test_a_key_file_that_is_not_text_is_refused(tmp_path):
    """Its bytes are not in the message."""
    path = tmp_path / "key"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(SettingsError, match="not UTF-8 text"):
        _load({"SWARMGAUGE_API_KEY_FILE": str(path)})


def test_without_a_key_nothing_is_sent():
    """Local servers need none."""
    assert _load().api_key is None
    assert _load().request_headers() == {}


def test_the_key_goes_into_the_authorization_header():
    """As a bearer token."""
    assert _load({"OPENAI_API_KEY": KEY}).request_headers() == {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("name", ["Authorization", "authorization", "api-key", "API-Key"])
def test_a_header_of_the_user_goes_before_the_key(name):
    """One credential is sent, the one that was written out."""
    secrets = _load({"OPENAI_API_KEY": KEY}, [f"{name}: mine"])

    assert secrets.request_headers() == {name: "mine"}


def test_other_headers_do_not_stop_the_key():
    """Both are sent."""
    secrets = _load({"OPENAI_API_KEY": KEY}, ["X-Team: blue"])

    assert secrets.request_headers() == {"X-Team": "blue", "Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("value", [KEY, f"{KEY}\n"], ids=["plain", "line end"])
def test_a_header_is_read_from_the_environment(value):
    """The variable's value is sent, without the line end of the file it came from."""
    secrets = _load({"AZURE_KEY": value}, ["api-key: env:AZURE_KEY"])

    assert secrets.request_headers() == {"api-key": KEY}


def test_a_missing_variable_is_named():
    """The message has the header and the variable."""
    with pytest.raises(SettingsError, match="--header api-key: the variable AZURE_KEY is not set"):
        _load({}, ["api-key: env:AZURE_KEY"])


@pytest.mark.parametrize(
    "value",
    [f"{KEY}\r\nX-Other: red", f"{KEY}\x00", f"{KEY}東"],
    ids=["line end", "zero", "not latin"],
)
@pytest.mark.parametrize("variable", ["SWARMGAUGE_API_KEY", "AZURE_KEY"], ids=["key", "header"])
def test_a_value_that_no_header_may_have_is_refused(variable, value):
    """It is refused before the run, and the message does not repeat it."""
    headers = ["api-key: env:AZURE_KEY"]

    with pytest.raises(SettingsError, match="no header may have") as caught:
        _load({"AZURE_KEY": "fine", variable: value}, headers)

    assert KEY not in str(caught.value)


def test_repr_and_str_show_nothing():
    """A log line or a traceback that prints the object leaks no key."""
    secrets = _load({"OPENAI_API_KEY": KEY, "TOKEN": "token-7"}, ["X-Token: env:TOKEN"])

    for text in (repr(secrets), str(secrets), f"{[secrets]}"):
        assert KEY not in text
        assert "token-7" not in text


def test_every_secret_is_listed_longest_first():
    """A secret that holds another is masked whole; a bearer token is known with and without."""
    secrets = Secrets("abcdef", (("Authorization", "Bearer abcdefgh"), ("X-Short", "abc")))

    assert secrets.texts == ("Bearer abcdefgh", "abcdefgh", "abcdef")


def test_O05_a_key_in_the_urls_query_is_a_secret():
    """As it was written, and as the server reads it; what is too short to be one is not."""
    secrets = load_secrets(make_settings("http://h/v1?key=CCCC3333%2B4&v=1"), {})

    assert secrets.texts == ("CCCC3333%2B4", "CCCC3333+4")


def test_known_secrets_are_masked():
    """Wherever in a text they stand, as often as they do."""
    masker = Masker(_load({"OPENAI_API_KEY": KEY}).texts)

    assert masker.mask(f"key {KEY} ({KEY})") == f"key {MASK} ({MASK})"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdef123456",
        "sk-proj-ab_cd.ef-12",
        "Bearer abcdef123456",
        "bearer   abcdef123456",
        "BEARER eyJhbGciOi.eyJzdWIi.c2lnbg",
        "Bearer aGV+sbG8/d29ybGQ==",
    ],
    ids=["sk", "project", "bearer", "spaces", "jwt", "base64"],
)
def test_what_looks_like_a_key_is_masked(secret):
    """A server may quote the key of somebody else."""
    assert Masker().mask(f"bad key: {secret}, sorry") == f"bad key: {MASK}, sorry"


@pytest.mark.parametrize(
    "text",
    ["a risk-averse plan", "sk-1", "the bearer of news", "use sk- or Bearer keys"],
    ids=["word", "short", "sentence", "prefix"],
)
def test_plain_words_are_not_masked(text):
    """A message stays readable."""
    assert text == Masker().mask(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo\r\n\tthree", "one two three"),
        ("  much   space  ", "much space"),
        ("<html><h1>502</h1><p>Bad <b>gateway</b></p></html>", "502 Bad gateway"),
        ("<script>alert('x')</script>hello", "hello"),
        ("<style>p {color: red}</style>hello", "hello"),
        ("bell\x07 and \x1b[31mcolour", "bell and [31mcolour"),
        ("hidden\u202eright to left", "hidden right to left"),
        ("naïve 東京", "naïve 東京"),
        ("", ""),
    ],
    ids=["lines", "spaces", "markup", "script", "style", "control", "bidi", "letters", "empty"],
)
def test_a_sample_is_one_plain_line(text, line):
    """What a server says cannot break a terminal, a table or a page."""
    assert line == Masker().sample(text)


@pytest.mark.parametrize("extra", [0, 1, 1_000_000], ids=["fits", "one over", "far over"])
def test_a_sample_is_short(extra):
    """A longer text ends with dots, within the same length."""
    sample = Masker().sample("x" * (SAMPLE_CHARS + extra))

    assert len(sample) == SAMPLE_CHARS
    assert sample.endswith("...") == bool(extra)


def test_a_sample_is_masked_before_it_is_cut():
    """A key across the cut leaves no half of itself."""
    sample = Masker([KEY]).sample("x" * (SAMPLE_CHARS - 8) + f" {KEY} and more")

    assert KEY[:4] not in sample
