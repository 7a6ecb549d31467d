"""The gateway with a real identity provider (npm `oidc-provider`) on loopback, inbound and outbound."""

import subprocess
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from spindle.errors import LoginRequiredError
from spindle.execution import StateKey
from spindle.mcp import ServerSpec
from spindle.mcp.oauth import Logins, LoginSettings, TokenStore
from tests.mcp.gateways import code_of, names_of, text_of
from tests.mcp.serving import COMMAND, NODE, NPM, node_environment, served_over_http

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
PROGRAM = Path(__file__).parent / "servers" / "identity_provider.mjs"
REDIRECT = "http://127.0.0.1:1/callback"
IN_TIME = 120


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def issuer() -> Generator[str]:
    module = NPM / "oidc-provider" / "lib" / "index.js"
    if not module.exists():
        pytest.skip("oidc-provider is not in .npm-tools; `make test-all` installs it")
    command = [str(NODE), str(PROGRAM), str(module)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=node_environment()) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def browse(url: str, account: str) -> str:
    """Log in as a browser would: follow the redirects with cookies until they leave the provider; return the last."""
    origin = urlsplit(url).netloc
    with httpx.Client(cookies={"account": account}, timeout=60) as browser:
        for _ in range(20):
            if urlsplit(url).netloc != origin:
                return url
            answer = browser.get(url)
            assert answer.has_redirect_location, f"{answer.status_code} {answer.text[:500]}"
            url = str(answer.url.join(answer.headers["location"]))
    raise AssertionError("the provider does not end the login")


class Storage:
    """The tokens of one client of the gateway, in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def client_of(address: str, account: str, mode: str, storage: Storage | None = None) -> AsyncGenerator[Client]:
    """Connect with the SDK's own OAuth client, which discovers everything from the gateway's challenge."""
    answers: list[dict[str, str]] = []

    async def redirect(url: str) -> None:
        landed = await anyio.to_thread.run_sync(browse, url, account)
        answers.append(dict(parse_qsl(urlsplit(landed).query)))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(answers.pop())

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(REDIRECT)], client_name="a client of the gateway")
    metadata.token_endpoint_auth_method = "none"
    auth = OAuthClientProvider(address, metadata, storage or Storage(), redirect, callback)
    with anyio.fail_after(IN_TIME):
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60) as http,
            Client(streamable_http_client(address, http_client=http), mode=mode) as connected,
        ):
            yield connected


def protect(issuer: str, more: str = "") -> str:
    """The configuration of a gateway that accepts tokens of the provider."""
    return (
        f'[tools]\nkit = true\n[profiles.reader]\n[server]\nfence = false\n[server.oauth]\nissuer = "{issuer}"\n'
        f'scopes = {{ tools = "reader" }}\n{more}'
    )


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_standard_client_logs_in_to_the_gateway(issuer: str, tmp_path: Path, mode: str) -> None:
    storage = Storage()
    with served_over_http(tmp_path, config=protect(issuer)) as address:
        async with client_of(address, "ann", mode, storage) as client:
            assert "calculate" in await names_of(client)
            assert "42" in text_of(await client.call_tool("calculate", {"expression": "6*7"}))
        assert storage.tokens is not None
        token = storage.tokens.access_token
        header = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient() as http:
            health = await http.get(address.replace("/mcp", "/health"), headers=header)
            elsewhere = await http.get(address.replace("/mcp", "/health"), headers={"Authorization": "Bearer x.y.z"})
        assert "tools" in health.json()
        assert elsewhere.json() == {"status": "ok"}
    assert token not in read_all(tmp_path)


async def test_a_token_for_another_resource_of_the_same_issuer_is_refused(issuer: str, tmp_path: Path) -> None:
    storage = Storage()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        served_over_http(tmp_path / "a", config=protect(issuer)) as address,
        served_over_http(tmp_path / "b", config=protect(issuer)) as other,
    ):
        async with client_of(address, "ann", "2026-07-28", storage) as client:
            await names_of(client)
        assert storage.tokens is not None
        async with httpx.AsyncClient() as http:
            header = {"Authorization": f"Bearer {storage.tokens.access_token}"}
            refused = await http.post(other, json={}, headers=header)
    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


def log_in(folder: Path, server: str, user: str, account: str) -> None:
    """Run `spindle login` and be its browser."""
    options = ["--config", str(folder / "spindle.toml"), "--state", str(folder / "state")]
    command = [*COMMAND, "login", server, "--user", user, "--no-browser", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("http"):
                landed = browse(line.strip(), account)
                assert httpx.get(landed, timeout=60).status_code == 200
                break
        said += process.stderr.read()
        assert process.wait(60) == 0, said


@contextmanager
def chained(issuer: str, folder: Path) -> Generator[str]:
    """A gateway in front of a server that both accept tokens of the provider; give the gateway's address."""
    (folder / "back").mkdir()
    (folder / "front").mkdir()
    with served_over_http(folder / "back", config=protect(issuer)) as back:
        behind = f'[mcp.servers.up]\nurl = "{back}"\n[mcp.servers.up.oauth]\nissuer = "{issuer}"\nscopes = ["tools"]\n'
        with served_over_http(folder / "front", config=protect(issuer, behind)) as front:
            yield front


async def test_users_of_the_gateway_use_their_own_logins_behind_it(issuer: str, tmp_path: Path) -> None:
    with chained(issuer, tmp_path) as address:
        storages = {"ann": Storage(), "bob": Storage()}
        await anyio.to_thread.run_sync(log_in, tmp_path / "front", "up", f"{issuer}#ann", "ann")
        async with (
            client_of(address, "ann", "2026-07-28", storages["ann"]) as ann,
            client_of(address, "bob", "legacy", storages["bob"]) as bob,
        ):
            assert "mcp__up__calculate" in await names_of(ann)
            assert "42" in text_of(await ann.call_tool("mcp__up__calculate", {"expression": "6*7"}))
            assert not [name for name in await names_of(bob) if name.startswith("mcp__up__")]
            refused = await bob.call_tool("mcp__up__calculate", {"expression": "6*7"})
            assert code_of(refused) == "not_available"
            assert f"spindle login up --user '{issuer}#bob'" in text_of(refused)
            await anyio.to_thread.run_sync(log_in, tmp_path / "front", "up", f"{issuer}#bob", "bob")
            assert "mcp__up__calculate" in await names_of(bob)
            assert "42" in text_of(await bob.call_tool("mcp__up__calculate", {"expression": "6*7"}))
    for storage in storages.values():
        assert storage.tokens is not None
        assert storage.tokens.access_token not in read_all(tmp_path)
        assert storage.tokens.access_token not in read_all(tmp_path / "back")


async def test_concurrent_refreshes_survive_rotation_and_a_logout_withdraws_the_login(
    issuer: str, tmp_path: Path
) -> None:
    with served_over_http(tmp_path, config=protect(issuer)) as address:
        spec = ServerSpec(name="up", url=address, oauth=LoginSettings(issuer=issuer))
        logins = Logins(TokenStore(tmp_path / "logins", StateKey("k")))
        pending = await logins.begin(spec, "ann", redirect_uri=REDIRECT)
        landed = await anyio.to_thread.run_sync(browse, pending.authorization_url, "ann")
        await logins.finish(spec, "ann", pending, dict(parse_qsl(urlsplit(landed).query)))
        seen = [await logins.get_token(spec, "ann")]
        for _ in range(3):  # a refresh token that is used twice would end the login
            got: list[str] = []

            async def renew(rejected: str, found: list[str] = got) -> None:
                found.append(await logins.renew_token(spec, "ann", rejected))

            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(renew, seen[-1])
            assert len(got) == 100
            assert len(set(got)) == 1
            seen.append(got[0])
        assert len(set(seen)) == 4
        assert await logins.withdraw(spec, "ann")
        with pytest.raises(LoginRequiredError):
            await logins.renew_token(spec, "ann", seen[-1])


def read_all(folder: Path) -> str:
    """Everything that a server wrote: journal, state, spool and log."""
    return "".join(path.read_text("latin-1") for path in folder.rglob("*") if path.is_file())
