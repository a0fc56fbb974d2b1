"""The request body: its fields, and its bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.chat_body import MaxTokensField, encode_chat, scrub, validate_extra_body
from workloads.prompts import Message, Prompt


def _prompt(*texts):
    messages = tuple(Message("user", text) for text in texts)
    return Prompt("0.0.0", None, messages, 1)


def _encode(prompt=None, **options):
    defaults = {
        "model": "m",
        "max_tokens": 48,
        "max_tokens_field": MaxTokensField.MAX_TOKENS,
        "stream": True,
        "include_usage": True,
        "ignore_eos": False,
        "temperature": None,
        "extra_body": {},
    }
    return encode_chat(prompt or _prompt("hi"), **{**defaults, **options})


def test_the_body_has_these_fields_and_no_others():
    """What is not asked for is not sent, so that every server takes the body."""
    assert json.loads(_encode()) == {
        "model": "m",
        "stream": True,
        "max_tokens": 48,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("stream", "wanted", "sent"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
    ids=["stream wanted", "stream unwanted", "plain wanted", "plain unwanted"],
)
def test_C08_stream_options_go_with_streams_only(stream, wanted, sent):
    """Usage is asked for when streaming and wanted, else the field is absent."""
    body = json.loads(_encode(stream=stream, include_usage=wanted))

    assert sent == ("stream_options" in body)
    assert stream == body["stream"]


def test_C08_extra_stream_options_stay_out_of_plain_requests():
    """One --extra-body serves the streams of a mixed run without failing its plain requests."""
    extra = {"stream_options": {"include_usage": True}, "top_p": 0.9}

    assert "stream_options" in json.loads(_encode(stream=True, extra_body=extra))
    assert "stream_options" not in json.loads(_encode(stream=False, extra_body=extra))
    assert "stream_options" in extra


@pytest.mark.parametrize(
    ("field", "names"),
    [
        (MaxTokensField.MAX_TOKENS, {"max_tokens"}),
        (MaxTokensField.MAX_COMPLETION_TOKENS, {"max_completion_tokens"}),
        (MaxTokensField.BOTH, {"max_tokens", "max_completion_tokens"}),
        (MaxTokensField.NONE, set()),
    ],
    ids=["old", "new", "both", "none"],
)
def test_C05_the_longest_answer_goes_under_the_name_chosen(field, names):
    """Each name carries the limit, and no other name is sent."""
    body = json.loads(_encode(max_tokens_field=field, max_tokens=17))

    assert names == body.keys() & {"max_tokens", "max_completion_tokens"}
    assert all(body[name] == 17 for name in names)


def test_ignore_eos_and_temperature_are_sent_when_set():
    """A temperature of 0 is a temperature."""
    body = json.loads(_encode(ignore_eos=True, temperature=0.0))

    assert body["ignore_eos"] is True
    assert body["temperature"] == 0.0


def test_C10_text_goes_out_as_utf_8():
    """Each character is its own UTF-8 bytes, not an escape."""
    text = "naïve 東京 🦑"

    body = _encode(_prompt(text))

    assert text.encode() in body
    assert json.loads(body)["messages"][0]["content"] == text


def test_C10_the_length_counts_bytes():
    """A million two-byte characters make the body two million bytes longer."""
    text = "é" * 1_000_000

    body = _encode(_prompt(text))

    assert len(body) - len(_encode(_prompt(""))) == 2_000_000
    assert json.loads(body)["messages"][0]["content"] == text


def test_C10_a_lone_surrogate_is_replaced():
    """Half an escape pair becomes U+FFFD, wherever in the body it stands."""
    text = json.loads('"a\\ud83db"')

    body = json.loads(_encode(_prompt(text), model=text, extra_body={"user": text}))

    assert body["messages"][0]["content"] == "a\ufffdb"
    assert (body["model"], body["user"]) == ("a\ufffdb", "a\ufffdb")


@pytest.mark.parametrize(
    ("text", "clean", "count"),
    [
        ("naïve 東京 🦑", "naïve 東京 🦑", 0),
        ("\ud83d", "\ufffd", 1),
        ("a\udfffb\ud800", "a\ufffdb\ufffd", 2),
        ("", "", 0),
    ],
    ids=["none", "alone", "two", "empty"],
)
def test_C10_replaced_surrogates_are_counted(text, clean, count):
    """The count is the number of characters that were changed."""
    assert (clean, count) == scrub(text)


def test_extra_fields_win_over_ours():
    """The user's word is the last, but for what decides the measurement."""
    extra = {"max_tokens": 5, "stream_options": {"include_usage": False}, "top_p": 0.9}

    body = json.loads(_encode(extra_body=extra))

    assert extra == {name: body[name] for name in extra}


@pytest.mark.parametrize("field", ["messages", "model", "stream"])
def test_extra_fields_cannot_change_what_is_measured(field):
    """The message names the field."""
    with pytest.raises(ValueError, match=field):
        validate_extra_body({"top_p": 0.9, field: None})


def test_a_system_message_is_encoded_as_any_other():
    """The prefix that is encoded once is the same bytes in every body."""
    prompt = Prompt("0", "p", (Message("system", 'say "é"'), Message("user", "hi")), 3)

    assert _encode(prompt) == _encode(prompt)
    assert json.loads(_encode(prompt))["messages"] == [
        {"role": "system", "content": 'say "é"'},
        {"role": "user", "content": "hi"},
    ]


@given(st.lists(st.text(), min_size=1, max_size=4), st.text())
def test_any_text_comes_back_as_it_was(texts, model):
    """Quotes, line ends and control characters survive the trip through JSON."""
    body = json.loads(_encode(_prompt(*texts), model=model))

    assert texts == [message["content"] for message in body["messages"]]
    assert model == body["model"]


# Surrogates are so few among all characters that hypothesis would hardly ever draw one by itself.
@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_no_text_stops_the_body(text):
    """Whatever half pairs a text holds, the body is valid UTF-8 of the same length."""
    content = json.loads(_encode(_prompt(text)).decode())["messages"][0]["content"]

    assert len(text) == len(content)
