"""Drawing takes most of a report's time: it is done where a test looks at the plots."""

import pytest


@pytest.fixture
def drawn():
    """The plots are drawn in this test."""


@pytest.fixture(autouse=True)
def _drawn_only_when_looked_at(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("reports.render.PLOTS", {})
