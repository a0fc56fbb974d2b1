"""What the page answers before Locust sees a request: to foreign pages, and to wrong starts."""

import contextlib
import sys

import pytest
from locust.env import Environment

from hooks.page_starts import refuse_wrong_starts

HOST = "http://127.0.0.1:1"


@contextlib.contextmanager
def page(monkeypatch, refusal, login=False, web_host="127.0.0.1"):
    """A client of Locust's page, which has no socket here."""
    monkeypatch.setattr(sys, "argv", ["locust"])  # which the page reads for its form
    environment = Environment(host=HOST)
    runner = environment.create_local_runner()
    ui = environment.create_web_ui(web_host, 0, delayed_start=True, web_login=login)
    ui.app.config["SECRET_KEY"] = "of this test"
    if login:
        ui.login_manager.user_loader(lambda _: None)
    refuse_wrong_starts(ui, refusal)
    yield ui.app.test_client()
    runner.greenlet.kill()


def test_the_reason_is_an_ordinary_answer(monkeypatch):
    """The page shows the message of a 200; of an error status it shows none."""
    seen = []
    with page(
        monkeypatch, lambda form: seen.append(dict(form)) or "--hold 'x': write 12s"
    ) as client:
        answer = client.post("/swarm", data={"hold": "x"})

    assert 200 == answer.status_code
    assert {"success": False, "message": "--hold 'x': write 12s", "host": HOST} == answer.json
    assert [{"hold": "x"}] == seen


def test_only_starts_are_looked_at(monkeypatch):
    """Statistics and Stop answer as ever."""
    with page(monkeypatch, lambda form: "no") as client:
        assert client.get("/stats/requests").json["state"] == "ready"
        assert client.post("/stop").json["success"]


def test_whoever_has_not_logged_in_learns_nothing(monkeypatch):
    """With --web-login the form is not even read."""
    seen = []
    with page(monkeypatch, lambda form: seen.append(form) or "no", login=True) as client:
        answer = client.post("/swarm", data={"hold": "x"})

    assert 302 == answer.status_code
    assert "/login" in answer.headers["Location"]
    assert [] == seen


EVIL = {"Origin": "http://evil.example"}
OWN = {"Origin": "http://127.0.0.1:8089", "Host": "127.0.0.1:8089"}


@pytest.mark.parametrize("path", ["/swarm", "/stop", "/stats/reset", "/user"])
@pytest.mark.parametrize(
    "headers",
    [
        EVIL,
        {"Origin": "null"},
        {**OWN, "Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {**EVIL, "Sec-Fetch-Site": "same-site"},
    ],
    ids=["another site", "no site", "another port", "without its name", "same site"],
)
def test_a_foreign_page_can_press_no_button(monkeypatch, path, headers):
    """Neither Start nor any other; the form is not even looked at."""
    seen = []
    with page(monkeypatch, lambda form: seen.append(form) or "no") as client:
        answer = client.post(path, data={"hold": "x"}, headers=headers)

    assert 403 == answer.status_code
    assert answer.json["success"] is False
    assert [] == seen


@pytest.mark.parametrize(
    "headers",
    [
        {},
        OWN,
        {**OWN, "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://load.example", "Sec-Fetch-Site": "same-origin"},
        {"Host": "[::1]:8089", "Origin": "http://[::1]:8089"},
        {"Host": "LOCALHOST", "Sec-Fetch-Site": "none"},
        {"Host": "192.0.2.7:8089", "Origin": "http://192.0.2.7:8089"},
    ],
    ids=["no browser", "old browser", "browser", "proxy", "IPv6", "localhost", "forwarded"],
)
def test_the_own_page_and_scripts_may_start(monkeypatch, headers):
    """What is sent reaches the form's own check."""
    with page(monkeypatch, lambda form: "seen") as client:
        answer = client.post("/swarm", data={"hold": "x"}, headers=headers)

    assert 200 == answer.status_code
    assert "seen" == answer.json["message"]


@pytest.mark.parametrize("path", ["/", "/stats/requests", "/nowhere"])
def test_a_foreign_page_can_read_nothing(monkeypatch, path):
    """Locust lets every origin read; a browser keeps what has no such header to itself."""
    with page(monkeypatch, lambda form: None) as client:
        answers = [client.get(path, headers=EVIL), client.options(path, headers=EVIL)]

    for answer in answers:
        assert [] == [name for name, _ in answer.headers if name.startswith("Access-Control")]
        assert "SAMEORIGIN" == answer.headers["X-Frame-Options"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8089", "127.0.0.1.evil.example"])
def test_a_foreign_name_that_leads_to_the_loopback_shows_nothing(monkeypatch, host):
    """A page of that name has the page's own origin, as the browser sees it."""
    with page(monkeypatch, lambda form: "no") as client:
        read = client.get("/", headers={"Host": host})
        start = client.post("/swarm", headers={"Host": host, "Origin": f"http://{host}"})

    assert (403, 403) == (read.status_code, start.status_code)
    assert repr(host) in read.json["message"]
    assert "127.0.0.1" in read.json["message"]


def test_a_page_on_the_network_goes_by_its_name(monkeypatch):
    """Whoever has it listen there has names for it that we do not know."""
    with page(monkeypatch, lambda form: "seen", web_host="0.0.0.0") as client:
        headers = {"Host": "load.example:8089", "Origin": "http://load.example:8089"}
        answer = client.post("/swarm", headers=headers)
        foreign = client.post("/swarm", headers={**headers, **EVIL})

    assert (200, 403) == (answer.status_code, foreign.status_code)
