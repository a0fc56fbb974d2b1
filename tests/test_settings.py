"""Options and settings: declared once, validated once, the same on every machine."""

import json

import pytest
from locust.argument_parser import get_empty_argument_parser

from metrics.prices import Prices
from options import OPTION_NAMES, add_arguments, option_flag
from settings import (
    Settings,
    SettingsError,
    TimeLimits,
    parse_duration_s,
    parse_extra_body,
    parse_limit_s,
    parse_stages,
)
from workloads.backoff import Fixed
from workloads.chat_body import MaxTokensField
from workloads.extra_headers import Header
from workloads.traffic import TrafficKind, TrafficShare


def _parser():
    """Locust's own parser with our options, without the configuration files of this folder."""
    parser = get_empty_argument_parser(add_help=False, default_config_files=[])
    add_arguments(parser)
    return parser


def _parsed(*arguments, environ=None):
    return vars(_parser().parse_args(list(arguments), env_vars=environ or {}))


def _actions():
    ours = {"--" + name.replace("_", "-") for name in OPTION_NAMES}
    actions = [a for a in _parser()._actions if ours & set(a.option_strings)]
    return {action.dest: action for action in actions}


def _settings(read_file=None, **options):
    values = {**_parsed(), "host": "http://h:1", **options}
    return Settings.from_options(values, read_file or _no_file)


def _no_file(path):
    raise FileNotFoundError(2, "No such file or directory", path)


def test_defaults_are_those_of_the_options():
    """With nothing but a host, this is the run."""
    settings = _settings()

    assert settings.endpoint.base_url == "http://h:1/v1"
    assert settings.model is None
    assert settings.traffic == (TrafficShare(TrafficKind.STREAM, 1),)
    assert settings.shape == "constant"
    assert (settings.users, settings.spawn_rate, settings.run_time_s) == (1, 1.0, None)
    assert settings.stages == (1, 2, 4, 8, 16, 24, 32)
    assert (settings.hold_s, settings.settle_s) == (12.0, 3.0)
    assert settings.limits == TimeLimits(10.0, 300.0, 60.0, None)
    assert settings.prompt_tokens.describe() == "200"
    assert settings.output_tokens.describe() == "48"
    assert settings.think_time_s.describe() == "0"
    assert (settings.prefixes, settings.prefix_tokens) == (2, 100)
    assert (settings.seed, settings.temperature) == (None, None)
    assert (settings.slo, settings.headers, settings.extra_body) == ((), (), {})
    assert settings.max_tokens_field is MaxTokensField.MAX_TOKENS
    assert settings.include_usage
    assert settings.preflight
    assert not settings.ignore_eos
    assert not settings.insecure
    assert (settings.ca_file, settings.run_name, settings.runs_dir) == (None, None, "runs")
    assert settings.max_fail_ratio == 0.1


def test_every_option_reaches_its_setting():
    """No option is parsed and then forgotten."""
    settings = _settings(
        model="m",
        traffic="block:3",
        shape="ladder",
        num_users=5,
        spawn_rate=2.5,
        run_time=90,
        stages="4,2",
        hold="1m",
        settle="500ms",
        arrivals="gamma:2",
        spike_users=30,
        spike_hold="7s",
        warmup_requests=9,
        idle_before="1m",
        connect_timeout="1s",
        first_token_timeout="2s",
        idle_timeout="3s",
        total_timeout="4s",
        retries=3,
        backoff="fixed:2s",
        retry_cap="9s",
        retry_budget=0.2,
        retry_on="429,503",
        quota_stop=4,
        cancel_ratio=0.25,
        cancel_after="uniform:1-2",
        max_in_flight=6,
        price_in=1.0,
        price_cached=0.5,
        price_out=2.0,
        gpu_hour_price=4.0,
        gpus=3,
        budget=10.0,
        prompt_tokens="uniform:1-9",
        output_tokens="7",
        think_time="exponential:2",
        prefixes=0,
        prefix_tokens=0,
        seed="7",
        temperature="0",
        slo="ok>99%",
        header=["X-Team: blue"],
        extra_body='{"top_p": 0.9}',
        max_tokens_field="both",
        usage="off",
        ignore_eos=True,
        insecure=True,
        no_preflight=True,
        ca_file="ca.pem",
        run_name="night",
        runs_dir="out",
        max_fail_ratio=0.0,
    )

    assert settings.model == "m"
    assert settings.traffic == (TrafficShare(TrafficKind.BLOCK, 3),)
    assert settings.shape == "ladder"
    assert (settings.users, settings.spawn_rate, settings.run_time_s) == (5, 2.5, 90.0)
    assert (settings.stages, settings.hold_s, settings.settle_s) == ((4, 2), 60.0, 0.5)
    assert settings.arrivals.describe() == "gamma:2"
    assert (settings.spike_users, settings.spike_hold_s) == (30, 7.0)
    assert (settings.warmup_requests, settings.idle_before_s) == (9, 60.0)
    assert settings.limits == TimeLimits(1.0, 2.0, 3.0, 4.0)
    retrying = settings.retrying
    assert (retrying.retries, retrying.backoff, retrying.cap_s) == (3, Fixed(2.0), 9.0)
    assert (retrying.statuses, retrying.budget_ratio) == ({429, 503}, 0.2)
    assert (settings.quota_stop, settings.max_in_flight) == (4, 6)
    assert settings.leaving.ratio == 0.25
    assert settings.leaving.after_s.describe() == "uniform:1-2"
    assert settings.prices == Prices(1.0, 0.5, 2.0, 4.0, 3)
    assert settings.budget == 10.0
    assert settings.prompt_tokens.describe() == "uniform:1-9"
    assert settings.output_tokens.describe() == "7"
    assert settings.think_time_s.describe() == "exponential:2"
    assert (settings.prefixes, settings.prefix_tokens) == (0, 0)
    assert (settings.seed, settings.temperature) == (7, 0.0)
    assert [limit.limit for limit in settings.slo] == [0.99]
    assert settings.headers == (Header("X-Team", "blue", from_env=False),)
    assert settings.extra_body == {"top_p": 0.9}
    assert settings.max_tokens_field is MaxTokensField.BOTH
    assert not settings.include_usage
    assert not settings.preflight
    assert settings.ignore_eos
    assert settings.insecure
    assert (settings.ca_file, settings.run_name, settings.runs_dir) == ("ca.pem", "night", "out")
    assert settings.max_fail_ratio == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", ""),
        ("host", "localhost:8000"),
        ("traffic", "chat"),
        ("shape", "wave"),
        ("num_users", 0),
        ("num_users", "many"),
        ("spawn_rate", 0),
        ("spawn_rate", float("nan")),
        ("spawn_rate", float("inf")),
        ("run_time", 0),
        ("run_time", "soon"),
        ("stages", "1,two"),
        ("hold", "12 parsecs"),
        ("settle", ""),
        ("connect_timeout", "-1s"),
        ("first_token_timeout", "later"),
        ("idle_timeout", "1d"),
        ("total_timeout", "never"),
        ("prompt_tokens", "zipf:3"),
        ("prompt_tokens", "file:gone.csv"),
        ("output_tokens", "-1"),
        ("think_time", "2s"),
        ("prefixes", -1),
        ("prefix_tokens", "some"),
        ("seed", "seven"),
        ("temperature", "warm"),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("slo", "ttft<500ms"),
        ("header", ["no colon"]),
        ("extra_body", "{"),
        ("extra_body", "[]"),
        ("extra_body", '{"top_p": NaN}'),
        ("extra_body", '{"stream": false}'),
        ("max_tokens_field", "max_new_tokens"),
        ("usage", "maybe"),
        ("max_fail_ratio", -0.1),
        ("max_fail_ratio", "half"),
    ],
    ids=lambda value: None if isinstance(value, str) and value.isidentifier() else repr(value),
)
def test_a_wrong_value_names_its_option(name, value):
    """The first word of the message is the flag to change."""
    with pytest.raises(SettingsError) as caught:
        _settings(**{name: value})

    assert str(caught.value).startswith(option_flag(name))


def test_a_missing_file_is_named():
    """The message says which file, and why it was not read."""
    with pytest.raises(SettingsError, match=r"gone\.csv: No such file"):
        _settings(prompt_tokens="file:gone.csv")


def test_a_file_is_read_through_what_is_handed_in():
    """No setting opens a file by itself."""
    settings = _settings(read_file=lambda path: "10\n30\n", output_tokens="file:lengths.csv")

    assert settings.output_tokens.mean == 20.0


def test_a_wrong_choice_shows_the_right_ones():
    """Each name of the token limit's field is in the message."""
    with pytest.raises(SettingsError, match="max_tokens, max_completion_tokens, both, none"):
        _settings(max_tokens_field="max_new_tokens")


def test_the_users_flag_is_spelled_as_locust_spells_it():
    """Locust keeps --users under another name."""
    assert option_flag("num_users") == "--users"
    assert option_flag("first_token_timeout") == "--first-token-timeout"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h1m1s", 3661.0),
        ("45", 45.0),
        ("0", 0.0),
        (" 2M ", 120.0),
    ],
    ids=[
        "seconds",
        "milliseconds",
        "fraction",
        "minutes",
        "hours and minutes",
        "all",
        "plain",
        "zero",
        "capital",
    ],
)
def test_times_are_read_in_seconds(text, seconds):
    """Units add up; a plain number is seconds."""
    assert seconds == parse_duration_s(text)


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1d", "30s1m", "1 s", "nan", "inf", "1e3", "ms"],
    ids=[
        "empty",
        "unit alone",
        "negative",
        "days",
        "wrong order",
        "space",
        "not a number",
        "infinite",
        "exponent",
        "milliseconds alone",
    ],
)
def test_a_wrong_time_shows_an_example(text):
    """The message has a time that can be copied."""
    with pytest.raises(ValueError, match="write for example 30s"):
        parse_duration_s(text)


@pytest.mark.parametrize("text", ["off", "OFF", "none", "", "0", "0s"])
def test_a_limit_can_be_off(text):
    """No limit is None, not a wait of 0."""
    assert parse_limit_s(text) is None


def test_a_ladder_keeps_its_order():
    """Stages run as they are written, repeats and steps down included."""
    assert parse_stages("8, 1,8") == (8, 1, 8)


@pytest.mark.parametrize("text", ["", "0", "1,,2", "1,-2", "1.5", "1;2", "01"])
def test_a_wrong_ladder_is_refused(text):
    """Each stage is a whole number from 1."""
    with pytest.raises(ValueError, match="list of user counts"):
        parse_stages(text)


def test_an_empty_extra_body_adds_nothing():
    """The default is no field at all."""
    assert parse_extra_body(" ") == {}


def test_the_environment_has_every_option_under_our_prefix():
    """--first-token-timeout is SWARMGAUGE_FIRST_TOKEN_TIMEOUT, and so on."""
    assert {f"SWARMGAUGE_{dest.upper()}" for dest in _actions()} == {
        action.env_var for action in _actions().values()
    }


def test_an_option_is_taken_from_the_environment():
    """The command line goes before it."""
    environ = {"SWARMGAUGE_MODEL": "from-env", "SWARMGAUGE_HOLD": "5s"}

    parsed = _parsed("--hold", "7s", environ=environ)

    assert (parsed["model"], parsed["hold"]) == ("from-env", "7s")


def test_every_option_of_ours_is_known_by_name():
    """What the parser adds is what is stored with the run."""
    assert set(OPTION_NAMES) - {"host", "num_users", "spawn_rate", "run_time"} == set(_actions())


def test_headers_paths_and_the_port_for_metrics_are_not_in_the_web_form():
    """Locust shows the form's values in its page's source; the port is opened once."""
    hidden = {dest for dest, action in _actions().items() if not action.include_in_web_ui}

    assert hidden == {"header", "ca_file", "proxy", "runs_dir", "metrics_port", "metrics_host"}


@pytest.mark.parametrize("word", ["key", "secret", "password", "auth", "bearer"])
def test_no_option_is_a_secret(word):
    """Locust ships options in clear, so none may invite a key."""
    assert not [name for name in OPTION_NAMES if word in name]


def test_a_repeated_header_adds_to_the_list():
    """Each --header is one more."""
    parsed = _parsed("--header", "A: 1", "--header", "B: 2")

    assert parsed["header"] == ["A: 1", "B: 2"]


def test_defaults_have_the_type_the_form_must_give_back():
    """Locust's form casts each field to the type of its default."""
    assert {type(action.default) for action in _actions().values()} <= {str, int, float, bool, list}
    assert type(_actions()["prefixes"].default) is int
    assert type(_actions()["max_fail_ratio"].default) is float


def test_settings_are_the_same_on_a_worker():
    """The options that are sent give equal settings on the other side of the wire."""
    sent = _settings(
        num_users=7,
        run_time=30,
        seed="3",
        traffic="stream:2,sdk",
        prompt_tokens="lognormal:p50=20,p90=90",
        header=["api-key: env:AZURE_KEY", "X-Team: blue"],
        extra_body='{"top_p": 0.9}',
        slo="ttft_p95<500ms",
    )

    received = Settings.from_options(json.loads(json.dumps(sent.options)), _no_file)

    assert sent == received


def test_only_our_options_are_kept():
    """Locust's other options, its web login among them, are neither stored nor sent."""
    settings = _settings(web_login=True, csv_prefix="x")

    assert set(settings.options) <= set(OPTION_NAMES)
    assert settings.options["host"] == "http://h:1"


def test_an_open_loop_takes_one_rate_or_several():
    """--rate and --rates end up in one place."""
    assert _settings(shape="open-loop", rate="2.5").rates_rps == (2.5,)
    assert _settings(shape="open-loop", rates="2, 4.5,8").rates_rps == (2.0, 4.5, 8.0)
    assert _settings().rates_rps == ()


def test_a_burst_has_four_times_the_users_unless_told():
    """--spike-users 0 means the default."""
    assert _settings(shape="spike", num_users=3).spike_users == 12


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shape": "open-loop"}, "--rate 5 or --rates 2,4,8"),
        ({"shape": "open-loop", "rate": "2", "rates": "4"}, "give one of them"),
        ({"shape": "open-loop", "rate": "-1"}, "--rate: '-1' is no rate"),
        ({"shape": "open-loop", "rate": "2,4"}, "with --rates"),
        ({"shape": "open-loop", "rates": "2,9k tokens/min"}, "all in tokens"),
        ({"shape": "limits", "rates": "2,4"}, "first rate with --rate"),
        ({"shape": "open-loop", "rates": "2,0"}, "--rates: '0' is no rate"),
        ({"shape": "open-loop", "rates": "2,fast"}, "90k tokens/min"),
        ({"shape": "ladder", "rate": "2"}, "need --shape open-loop"),
        ({"shape": "soak"}, "--run-time"),
        ({"shape": "spike", "num_users": 5, "spike_users": 5}, "more than the 5"),
        ({"spike_users": -1}, "--spike-users -1"),
        ({"spike_hold": "0s"}, "--spike-hold"),
        ({"arrivals": "gamma"}, "--arrivals: 'gamma'"),
        ({"warmup_requests": -1}, "--warmup-requests -1"),
        ({"warmup_requests": "some"}, "write a whole number"),
        ({"idle_before": "soon"}, "--idle-before: 'soon'"),
    ],
)
def test_a_shape_says_what_it_lacks(options, says):
    """Each message names the option, the value and what to write."""
    with pytest.raises(SettingsError) as raised:
        _settings(**options)

    assert says in str(raised.value)
