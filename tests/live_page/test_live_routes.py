"""The live page's addresses: behind the login, under the base path, and only what they name."""

import contextlib
import gzip
import json
import sys

import pytest
from locust.env import Environment

from hooks.live.routes import ASSETS, RUN_FILES, add_live_page
from hooks.live.view import LiveView
from hooks.page_starts import refuse_wrong_starts
from options import NOT_IN_FORM, OPTION_NAMES
from tests.support.live_runs import live_state

ADDRESSES = (
    "/swarmgauge/live",
    "/swarmgauge/live.json",
    *(f"/swarmgauge/assets/{name}" for name in ASSETS),
    "/swarmgauge/runs/one/report.html",
)


@contextlib.contextmanager
def page(monkeypatch, view, login=False, base_path=None):
    """A client of Locust's page with ours in it; it has no socket here."""
    monkeypatch.setattr(sys, "argv", ["locust"])  # which the page reads for its form
    environment = Environment(host="http://127.0.0.1:1")
    runner = environment.create_local_runner()
    ui = environment.create_web_ui(
        "127.0.0.1", 0, delayed_start=True, web_login=login, web_base_path=base_path
    )
    ui.app.config["SECRET_KEY"] = "of this test"
    if login:
        ui.login_manager.user_loader(lambda _: None)
    refuse_wrong_starts(ui, lambda form: None)
    add_live_page(ui, view, base_path)
    yield ui.app.test_client()
    runner.greenlet.kill()


@pytest.fixture
def view(tmp_path):
    """A view with a run under way, and an ended one with a report."""
    ended, goes_on = tmp_path / "one", tmp_path / "two"
    for folder in (ended, goes_on):
        folder.mkdir()
    (ended / "report.html").write_text("<!doctype html><title>one</title>", encoding="utf-8")
    (ended / "requests.parquet").write_bytes(b"PAR1")
    (ended / "requests.jsonl").write_text("{}", encoding="utf-8")
    (ended / "spool").mkdir()
    (ended / "spool" / "w.jsonl").write_text("{}", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("sk-outside-AAAA1111", encoding="utf-8")
    made = LiveView()
    for folder in (ended, goes_on):
        made.begin(live_state(folder, run_id=folder.name))
    return made


def test_every_address_answers_without_a_login(monkeypatch, view):
    """The page, its parts, its figures, and the report of a run of this process."""
    with page(monkeypatch, view) as client:
        found = {path: client.get(path).status_code for path in ADDRESSES}

    assert dict.fromkeys(ADDRESSES, 200) == found


def test_whoever_has_not_logged_in_sees_nothing(monkeypatch, view):
    """With --web-login each address leads to the login, as Locust's own do."""
    with page(monkeypatch, view, login=True) as client:
        answers = [client.get(path) for path in ADDRESSES]

    assert [302] * len(ADDRESSES) == [answer.status_code for answer in answers]
    assert all("/login" in answer.headers["Location"] for answer in answers)


def test_all_of_it_lies_under_the_base_path(monkeypatch, view):
    """And what the pages ask for is relative, so that a proxy may move them."""
    with page(monkeypatch, view, base_path="/load") as client:
        moved = [client.get(f"/load{path}").status_code for path in ADDRESSES]
        unmoved = [client.get(path).status_code for path in ADDRESSES]
        parts = [client.get(f"/load/swarmgauge/assets/{name}").get_data(True) for name in ASSETS]
        index = client.get("/load/").get_data(as_text=True)

    assert [200] * len(ADDRESSES) == moved
    assert [404] * len(ADDRESSES) == unmoved
    for quote in "\"'`":
        assert not [part for part in parts if f"src={quote}/" in part or f"href={quote}/" in part]
        assert not [part for part in parts if f"fetch({quote}/" in part]
    assert 'src="./swarmgauge/assets/page.js"' in index


@pytest.mark.parametrize(
    "path",
    [
        "/swarmgauge/runs/one/../../secret.txt",
        "/swarmgauge/runs/one/..%2f..%2fsecret.txt",
        "/swarmgauge/runs/..%2f/secret.txt",
        "/swarmgauge/runs/../secret.txt",
        "/swarmgauge/runs/%2e%2e/secret.txt",
        "/swarmgauge/runs/three/report.html",
        "/swarmgauge/runs/one/spool/w.jsonl",
        "/swarmgauge/runs/one/requests.jsonl",
        "/swarmgauge/runs/two/report.html",
        "/swarmgauge/assets/..%2froutes.py",
        "/swarmgauge/assets/../routes.py",
        "/swarmgauge/assets/%2fetc%2fpasswd",
    ],
)
def test_nothing_but_the_named_files_of_known_runs_is_served(monkeypatch, view, path):
    """Names are looked up and never made into paths; what is not there yet is not found."""
    with page(monkeypatch, view) as client:
        answer = client.get(path, follow_redirects=True)

    assert 404 == answer.status_code
    assert "AAAA1111" not in answer.get_data(as_text=True)


def test_a_foreign_page_gets_no_leave_and_another_name_gets_nothing(monkeypatch, view):
    """As with Locust's own addresses."""
    with page(monkeypatch, view) as client:
        read = client.get("/swarmgauge/live.json", headers={"Origin": "http://evil.example"})
        named = client.get("/swarmgauge/live.json", headers={"Host": "evil.example"})
        sent = client.post("/swarmgauge/live.json", headers={"Origin": "http://evil.example"})

    assert "Access-Control-Allow-Origin" not in read.headers
    assert "SAMEORIGIN" == read.headers["X-Frame-Options"]
    assert [403, 403] == [named.status_code, sent.status_code]


def test_pages_may_load_and_send_nothing_elsewhere(monkeypatch, view):
    """Also a report, should a server's words ever get into it as more than text."""
    with page(monkeypatch, view) as client:
        policies = [
            client.get(path).headers["Content-Security-Policy"]
            for path in ("/swarmgauge/live", "/swarmgauge/runs/one/report.html")
        ]

    assert all(policy.startswith("default-src 'none'") for policy in policies)
    assert all("http" not in policy and "*" not in policy for policy in policies)


def test_rows_are_for_keeping(monkeypatch, view):
    """The browser saves them, and does not show them."""
    with page(monkeypatch, view) as client:
        answer = client.get("/swarmgauge/runs/one/requests.parquet")

    assert b"PAR1" == answer.data
    assert "attachment" in answer.headers["Content-Disposition"]


def test_a_wrong_revision_is_told_how_to_write_one(monkeypatch, view):
    """Status 400 and a sentence."""
    with page(monkeypatch, view) as client:
        answer = client.get("/swarmgauge/live.json?since=soon")

    assert 400 == answer.status_code
    assert "since: write the revision" in answer.get_data(as_text=True)


def test_long_answers_are_zipped_for_those_who_take_it(monkeypatch, view):
    """The same text comes out."""
    view.run.look(2.0, ("w1",), 2)
    with page(monkeypatch, view) as client:
        plain = client.get("/swarmgauge/live.json")
        zipped = client.get("/swarmgauge/live.json", headers={"Accept-Encoding": "gzip"})

    assert "gzip" == zipped.headers["Content-Encoding"]
    assert plain.data == gzip.decompress(zipped.data)
    assert len(zipped.data) < len(plain.data) / 2
    assert "no-store" == plain.headers["Cache-Control"]


def test_before_the_first_run_and_after_a_refused_start(monkeypatch):
    """Nothing to show is no fault, and why a start began no run is said."""
    view = LiveView()
    with page(monkeypatch, view) as client:
        first = client.get("/swarmgauge/live.json").json
        view.refuse("the endpoint answered 401")
        then = client.get("/swarmgauge/live.json").json

    assert {"refused": None, "reports": []} == first
    assert "the endpoint answered 401" == then["refused"]


def test_ended_runs_are_listed_newest_first_and_not_without_end(monkeypatch, view, tmp_path):
    """The newest twenty, each with whether its report is there."""
    for number in range(30):
        view.begin(live_state(tmp_path / f"run-{number}"))
    view.run.running = False
    with page(monkeypatch, view) as client:
        listed = client.get("/swarmgauge/live.json").json["reports"]

    assert [[f"run-{number}", False] for number in range(29, 9, -1)] == listed


def test_the_form_has_each_option_in_one_group(monkeypatch, view):
    """What is hidden from the form is in none."""
    with page(monkeypatch, view) as client:
        text = client.get("/").get_data(as_text=True)
    values = json.loads(text.partition("window.templateArgs = ")[2].partition("\n")[0])
    named = [name for group in values["swarmgauge_form"] for name in group["options"]]

    locusts = {"host", "num_users", "spawn_rate", "run_time"}
    assert sorted(set(OPTION_NAMES) - locusts - NOT_IN_FORM) == sorted(named)
    assert [{"title": "Live", "key": "live"}] == values["extended_tabs"]
    assert all(group["title"][0].isupper() for group in values["swarmgauge_form"])


def test_the_files_of_a_run_are_those_that_readers_know():
    """The report first; no spools, and no rows of a run that is being written."""
    assert "report.html" == RUN_FILES[0]
    assert "requests.jsonl" not in RUN_FILES
