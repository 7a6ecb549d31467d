"""Logins at upstream servers: the whole flow, refreshing once, and servers that cheat."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.errors import InvalidServerSpecError, LoginRequiredError, OAuthError, SecretError, UsageError
from spindle.execution import StateKey
from spindle.mcp import ServerSpec
from spindle.mcp.oauth import Logins, LoginSettings, TokenStore
from spindle.mcp.oauth.logins import MAX_RENEWALS
from tests.mcp.authorization import (
    Issuer,
    Upstream,
    log_in,
    oauth_spec,
    open_logins,
    running_issuer,
    running_upstream,
    visit,
)

pytestmark = pytest.mark.anyio
one_loop = pytest.mark.one_loop


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture
def upstream(issuer: Issuer) -> Generator[Upstream]:
    with running_upstream(issuer) as running:
        yield running


def find_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.login"))


async def test_a_login_asks_for_this_resource_with_pkce_and_keeps_the_tokens(
    issuer: Issuer, upstream: Upstream, tmp_path: Path
) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    assert not logins.has_login(spec, "ann")
    await log_in(logins, spec, "ann", issuer, "alice")

    [asked] = [request.query for request in issuer.requests if request.path == "/authorize"]
    assert (asked["resource"], asked["scope"], asked["code_challenge_method"]) == (upstream.url, "tools", "S256")
    assert issuer.access[await logins.get_token(spec, "ann")] == ("alice", upstream.url)
    status = logins.describe(spec, "ann")
    assert (status.state, status.issuer, status.scope) == ("ready", issuer.url, "tools")
    assert logins.list_users(spec) == ["ann"]
    with pytest.raises(LoginRequiredError) as caught:
        await logins.get_token(spec, "bob")
    assert caught.value.command == "spindle login up --user bob"


@one_loop
async def test_tokens_at_rest_cannot_be_read_or_moved(issuer: Issuer, upstream: Upstream, tmp_path: Path) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    await log_in(logins, spec, "ann", issuer, "alice")
    token = await logins.get_token(spec, "ann")
    [path] = find_files(tmp_path)
    content = path.read_bytes()

    assert path.stat().st_mode & 0o777 == 0o600
    assert not any(secret.encode() in content for secret in (token, *issuer.refreshable, token[10:30]))
    assert token not in repr(logins) + repr(logins.describe(spec, "ann"))
    await log_in(logins, spec, "eve", issuer, "mallory")
    [other] = [each for each in find_files(tmp_path) if each != path]
    other.write_bytes(content)
    assert not logins.has_login(spec, "eve")  # a copied file does not give another user the tokens
    stranger = Logins(TokenStore(tmp_path, StateKey("another key")))
    with pytest.raises(LoginRequiredError):
        await stranger.get_token(spec, "ann")
    moved = ServerSpec(name="up", url="https://elsewhere.example/mcp", oauth=LoginSettings())
    assert not logins.has_login(moved, "ann")  # tokens for one address are not sent to another


async def test_100_concurrent_refreshes_make_one_request(issuer: Issuer, upstream: Upstream, tmp_path: Path) -> None:
    issuer.expires_in = 1
    now = [0.0]
    logins, spec = open_logins(tmp_path, clock=lambda: now[0]), oauth_spec(upstream)
    await log_in(logins, spec, "ann", issuer, "alice")
    first = await logins.get_token(spec, "ann")
    issuer.expires_in, now[0] = 3_600, 4e9
    before, got = issuer.count("/token"), list[str]()
    # A second object is another process that shares the folder, and `renew_token` a server that rejects the token.
    others = open_logins(tmp_path)

    async def ask(number: int) -> None:
        if number % 3 == 0:
            got.append(await others.renew_token(spec, "ann", first))
        else:
            got.append(await logins.renew_token(spec, "ann", first) if number % 3 == 1 else await refresh())

    async def refresh() -> str:
        return await logins.get_token(spec, "ann") if len(got) == 0 else await logins.renew_token(spec, "ann", first)

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(ask, number)

    assert issuer.count("/token") - before == 1
    assert len(got) == 100
    assert set(got) == {next(token for token in reversed(issuer.access))}


@one_loop
async def test_a_refused_refresh_needs_a_login_and_is_not_repeated(
    issuer: Issuer, upstream: Upstream, tmp_path: Path
) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    await log_in(logins, spec, "ann", issuer, "alice")
    token = await logins.get_token(spec, "ann")
    issuer.refuses_refresh = True
    before = issuer.count("/token")
    for _ in range(3):
        with pytest.raises(LoginRequiredError) as caught:
            await logins.renew_token(spec, "ann", token)
        assert token not in str(caught.value)

    assert issuer.count("/token") - before == 1
    assert logins.describe(spec, "ann").state == "needs login"


@one_loop
async def test_a_server_that_rejects_every_token_cannot_flood_the_issuer(
    issuer: Issuer, upstream: Upstream, tmp_path: Path
) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    await log_in(logins, spec, "ann", issuer, "alice")
    before, token = issuer.count("/token"), await logins.get_token(spec, "ann")
    for _ in range(MAX_RENEWALS):
        token = await logins.renew_token(spec, "ann", token)
    for _ in range(10):
        with pytest.raises(OAuthError):
            await logins.renew_token(spec, "ann", token)

    assert issuer.count("/token") - before == MAX_RENEWALS
    assert logins.has_login(spec, "ann")


@one_loop
async def test_an_issuer_that_is_down_is_asked_once_for_all_who_wait(tmp_path: Path) -> None:
    failures: list[OAuthError] = []
    with running_issuer() as issuer, running_upstream(issuer) as upstream:
        logins, spec = open_logins(tmp_path), oauth_spec(upstream)
        await log_in(logins, spec, "ann", issuer, "alice")
        token = await logins.get_token(spec, "ann")

    async def ask() -> None:
        try:
            await logins.renew_token(spec, "ann", token)
        except OAuthError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert len(failures) == 20
    assert len({id(error) for error in failures}) == 1
    assert logins.has_login(spec, "ann")  # it may come back


CHEATS: dict[str, dict[str, Any]] = {
    "metadata of another issuer": {"issuer": "https://evil.example"},
    "token endpoint without TLS": {"token_endpoint": "http://192.0.2.1/token"},
    "token endpoint on a private address": {"token_endpoint": "https://10.0.0.1/token"},
    "registration on a private address": {"registration_endpoint": "https://169.254.169.254/register"},
    "no PKCE": {"code_challenge_methods_supported": None},
    "plain PKCE only": {"code_challenge_methods_supported": ["plain"]},
    "no registration": {"registration_endpoint": None},
    "page as a script": {"authorization_endpoint": "javascript:alert(1)"},
}


@one_loop
@pytest.mark.parametrize("case", CHEATS)
async def test_metadata_of_a_cheating_issuer_is_refused(
    issuer: Issuer, upstream: Upstream, tmp_path: Path, case: str
) -> None:
    issuer.metadata = CHEATS[case]
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    with pytest.raises(OAuthError):
        await log_in(logins, spec, "ann", issuer, "alice")
    assert not logins.has_login(spec, "ann")
    assert not issuer.access or case == "token endpoint on a private address"


@one_loop
@pytest.mark.parametrize(
    "metadata",
    [
        {"resource": "https://other.example/mcp"},
        {"authorization_servers": ["https://evil.example"]},
        {"authorization_servers": ["http://169.254.169.254/"]},
    ],
    ids=["another resource", "another issuer", "metadata service"],
)
async def test_an_upstream_cannot_send_users_to_another_issuer(
    issuer: Issuer, upstream: Upstream, tmp_path: Path, metadata: dict[str, Any]
) -> None:
    upstream.metadata = metadata
    with pytest.raises(OAuthError):
        await open_logins(tmp_path).begin(oauth_spec(upstream), "ann", redirect_uri="http://127.0.0.1:7777/callback")
    assert not issuer.requests


@one_loop
async def test_an_upstream_cannot_make_the_gateway_reach_private_addresses(
    issuer: Issuer, upstream: Upstream, tmp_path: Path
) -> None:
    spec = ServerSpec(name="up", url=upstream.url, oauth=LoginSettings())  # the issuer is not named
    with pytest.raises(OAuthError):
        await open_logins(tmp_path).begin(spec, "ann", redirect_uri="http://127.0.0.1:7777/callback")
    assert not issuer.requests


@one_loop
@pytest.mark.parametrize(
    "extra",
    [
        {"state": "another"},
        {"state": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"code": None},
        {"code": "guessed"},
        {"error": "access_denied"},
    ],
    ids=["wrong state", "no state", "mixed-up issuer", "no issuer", "no code", "wrong code", "declined"],
)
async def test_a_redirect_that_does_not_belong_to_the_login_is_refused(
    issuer: Issuer, upstream: Upstream, tmp_path: Path, extra: dict[str, Any]
) -> None:
    issuer.extra = extra
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    with pytest.raises(OAuthError):
        await log_in(logins, spec, "ann", issuer, "alice")
    assert not issuer.access
    assert not logins.has_login(spec, "ann")


@one_loop
async def test_configured_clients_and_metadata_documents_are_not_registered(
    issuer: Issuer, upstream: Upstream, tmp_path: Path
) -> None:
    logins = open_logins(tmp_path, resolve="value of {}".format)
    document = "https://client.example/spindle.json"
    issuer.metadata = {"client_id_metadata_document_supported": True}
    await log_in(logins, oauth_spec(upstream, client_metadata_url=document), "ann", issuer, "alice")
    configured = oauth_spec(upstream, client_id="ours", client_secret="OUR_SECRET")
    await log_in(logins, configured, "bob", issuer, "bob")

    assert not issuer.count("/register")
    sent = [request.form for request in issuer.requests if request.path == "/token"]
    assert [form["client_id"] for form in sent] == [document, "ours"]
    assert [form.get("client_secret") for form in sent] == [None, "value of OUR_SECRET"]


@one_loop
async def test_a_registration_is_used_again_for_the_same_redirect(
    issuer: Issuer, upstream: Upstream, tmp_path: Path
) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    await log_in(logins, spec, "ann", issuer, "alice")
    await log_in(logins, spec, "ann", issuer, "alice")
    assert issuer.count("/register") == 1
    other = await logins.begin(spec, "ann", redirect_uri="http://127.0.0.1:7778/callback")
    assert issuer.count("/register") == 2
    assert "state" in await visit(other.authorization_url)
    assert logins.remove(spec, "ann")
    assert not logins.remove(spec, "ann")


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("url", {"url": "http://tools.example/mcp"}),
        ("header_secrets", {"url": "https://tools.example/mcp", "header_secrets": {"Authorization": "T"}}),
        ("required", {"url": "https://tools.example/mcp", "required": True}),
        ("oauth", {"command": "server"}),
    ],
)
def test_specs_that_would_mix_credentials_are_refused(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidServerSpecError) as caught:
        ServerSpec(name="up", oauth=LoginSettings(), **given)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("issuer", "http://login.example"),
        ("client_metadata_url", "https://client.example"),
        ("client_secret", "NAME"),
        ("redirect_port", 70_000),
        ("scopes", ("a b",)),
    ],
)
def test_unsafe_login_settings_are_refused(field: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        LoginSettings(**{field: value})
    assert caught.value.field == field


def test_the_secret_of_a_client_is_bound_to_an_issuer() -> None:
    """Otherwise the upstream server would choose who gets it."""
    with pytest.raises(UsageError, match="issuer") as caught:
        LoginSettings(client_id="ours", client_secret="OUR_SECRET")
    assert caught.value.field == "client_secret"
    assert LoginSettings(client_id="ours", client_secret="OUR_SECRET", issuer="https://login.example").issuer


def test_a_damaged_file_is_an_error_and_not_a_login(tmp_path: Path) -> None:
    from spindle.mcp.oauth.token_store import LoginPlace, StoredLogin

    store = TokenStore(tmp_path, StateKey("k"))
    place = LoginPlace(server="up", url="https://tools.example/mcp", user="ann")
    login = StoredLogin(
        issuer="i", token_endpoint="t", resource="r", redirect_uri="u", client_id="c", auth_method="none"
    )
    store.write(place, login)
    assert store.read(place) == login
    [path] = tmp_path.glob("*.login")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"sealed": content["sealed"][:-8] + "AAAAAAA="}))
    with pytest.raises(SecretError):
        store.read(place)


REFRESH = """
import sys
import anyio
from pathlib import Path
from spindle.execution import StateKey
from spindle.mcp import ServerSpec
from spindle.mcp.oauth import Logins, LoginSettings, TokenStore

url, issuer, folder, token = sys.argv[1:]
spec = ServerSpec(name="up", url=url, oauth=LoginSettings(issuer=issuer))
print(anyio.run(Logins(TokenStore(Path(folder), StateKey("a state key"))).renew_token, spec, "ann", token))
"""


def run_at_once(command: list[str], count: int) -> set[str]:
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return {process.communicate(timeout=60)[0].strip() for process in running}


@pytest.mark.slow
@one_loop
async def test_processes_that_share_the_folder_refresh_once(issuer: Issuer, upstream: Upstream, tmp_path: Path) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstream)
    await log_in(logins, spec, "ann", issuer, "alice")
    token = await logins.get_token(spec, "ann")
    before = issuer.count("/token")
    command = [sys.executable, "-c", REFRESH, upstream.url, issuer.url, str(tmp_path), token]
    printed = run_at_once(command, 6)

    assert issuer.count("/token") - before == 1
    assert len(printed) == 1
    assert printed <= set(issuer.access)
