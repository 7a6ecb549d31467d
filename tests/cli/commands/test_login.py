"""`spindle login`: a whole login with a browser of the test's own, the list of logins, and logging out."""

import json
import threading
import time
import webbrowser
from collections.abc import Generator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import Command, Place
from tests.mcp.authorization import Upstream, running_issuer, running_upstream


@pytest.fixture
def upstream() -> Generator[Upstream]:
    with running_issuer() as issuer, running_upstream(issuer) as running:
        yield running


def browse(url: str) -> bool:
    """Follow the redirects as a browser would, in a thread."""

    def run() -> None:
        location: str | None = url
        while location is not None:
            parts = urlsplit(location)
            connection = HTTPConnection(parts.netloc, timeout=30)
            connection.request("GET", f"{parts.path}?{parts.query}")
            location = connection.getresponse().getheader("location")
            connection.close()

    threading.Thread(target=run, daemon=True).start()
    return True


def configure(place: Place, upstream: Upstream, more: str = "") -> None:
    place.configure(
        f'[mcp.servers.up]\nurl = "{upstream.url}"\n[mcp.servers.up.oauth]\nissuer = "{upstream.issuer.url}"\n{more}'
        '[mcp.servers.plain]\nurl = "https://tools.example/mcp"\nenabled = false\n'
    )


def test_a_login_is_kept_used_listed_and_withdrawn(
    spindle: Command, place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", browse)
    configure(place, upstream)
    issuer = upstream.issuer
    issuer.metadata = {"revocation_endpoint": f"{issuer.url}/revoke"}
    before = spindle("login", "--list", "--json")
    logged_in = spindle("login", "up")
    called = spindle("call", "mcp__up__whoami")
    issuer.user = "bob"
    other = spindle("login", "up", "--user", "profile:bob", "--json")
    listed = spindle("login", "--list")
    out = spindle("login", "up", "--logout")
    again = spindle("login", "up", "--logout")

    assert json.loads(before.out)["logins"][0]["state"] == "needs login"
    assert (logged_in.code, called.code, other.code) == (0, 0, 0)
    assert "alice" in called.out
    assert json.loads(other.out)["user"] == "profile:bob"
    assert all(word in listed.out for word in ("default", "profile:bob", "ready"))
    assert (out.code, again.code) == (0, 3)
    assert issuer.count("/revoke") == 1
    printed = "".join(each.out + each.err for each in (before, logged_in, called, other, listed, out))
    assert not [token for token in (*issuer.access, *issuer.refreshable) if token in printed]
    assert not [token for token in issuer.access if token in read_all(place.state) + read_all(place.work)]


def test_a_server_is_locked_as_a_user_who_has_logged_in(
    spindle: Command, place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", browse)
    configure(place, upstream)
    upstream.has_features = True
    without = spindle("lock", "up", "--once", "--json")
    assert spindle("login", "up").code == 0
    locked = spindle("lock", "up", "--once", "--json")

    assert without.code == 1
    assert "spindle login up" in without.out
    assert locked.code == 0
    written = (place.work / "spindle.lock").read_text()
    assert all(name in written for name in ("whoami", "for_alice", "file:///alice/{name}", "ui://app/page"))


@pytest.mark.slow
def test_a_locked_server_is_verified_compared_and_linted_as_a_user(
    spindle: Command, place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", browse)
    configure(place, upstream)
    upstream.has_features = True
    not_linted = spindle("lint", "--json")
    before = spindle("doctor")
    assert spindle("login", "up").code == 0
    assert spindle("lock", "up").code == 0
    verified = spindle("verify", "--json")
    other = spindle("verify", "--once", "--user", "bob")
    linted = spindle("lint", "--json")
    upstream.descriptions["alice", "greet"] = "Changed."
    shown, checked = spindle("diff", "--once"), spindle("doctor")

    assert json.loads(not_linted.out)["missing"] == ["up"]
    assert "spindle login up" in not_linted.err
    assert "spindle login up" in before.out
    assert (verified.code, linted.code, other.code) == (0, 0, 1)
    assert json.loads(verified.out)["servers"][0]["status"] == "same"
    assert "spindle login up --user bob" in " ".join(other.out.split())
    assert json.loads(linted.out)["missing"] == []
    assert "greet" in shown.out
    assert "1 in quarantine" in checked.out
    assert "greet" in checked.out


def read_all(folder: Path) -> str:
    return "".join(path.read_text("latin-1") for path in folder.rglob("*") if path.is_file())


def test_a_declined_login_and_wrong_names_are_errors(
    spindle: Command, place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", browse)
    configure(place, upstream)
    upstream.issuer.extra = {"error": "access_denied", "code": None}
    assert "access_denied" in spindle("login", "up").err
    assert spindle("login", "up", "--no-browser", "--timeout", "0.01").code == 1
    assert (spindle("login", "plain").code, spindle("login", "upp").code, spindle("login").code) == (3, 3, 2)
    assert "spindle login up" in spindle("call", "mcp__up__whoami").err


@pytest.mark.parametrize(
    "setting",
    ['issuer = "http://login.example"', 'scopes = ["a b"]', "redirect_port = 0", 'secret = "x"', 'client_secret = "X"'],
)
def test_wrong_settings_are_refused(spindle: Command, place: Place, setting: str) -> None:
    place.configure(f'[mcp.servers.up]\nurl = "https://tools.example/mcp"\n[mcp.servers.up.oauth]\n{setting}\n')
    assert spindle("login", "up").code == 2


@pytest.mark.slow
def test_doctor_reports_the_logins(
    spindle: Command, place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", browse)
    configure(place, upstream)
    assert "spindle login up" in spindle("doctor").out
    upstream.issuer.expires_in = int(time.time())
    spindle("login", "up")
    assert "1 user logged in" in spindle("doctor").out


def test_a_found_configuration_may_log_in_only_after_trust(
    spindle: Command, place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(place, upstream)
    monkeypatch.delenv("SPINDLE_CONFIG")
    assert spindle("login", "up").code == 6
    assert "logs in" in spindle("trust", "--yes").err + spindle("trust", "--yes", "--json").out
