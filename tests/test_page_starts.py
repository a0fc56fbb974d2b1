"""What the page answers to a start before Locust sees the form."""

import contextlib
import sys

from locust.env import Environment

from hooks.page_starts import refuse_wrong_starts

HOST = "http://127.0.0.1:1"


@contextlib.contextmanager
def page(monkeypatch, refusal, login=False):
    """A client of Locust's page, which has no socket here."""
    monkeypatch.setattr(sys, "argv", ["locust"])  # which the page reads for its form
    environment = Environment(host=HOST)
    runner = environment.create_local_runner()
    ui = environment.create_web_ui("127.0.0.1", 0, delayed_start=True, web_login=login)
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
