"""The keys of an issuer: discovered, cached, fetched again for new ones, and never more often than allowed."""

import secrets
from typing import Any

import anyio
import pytest

from spindle.errors import OAuthError
from spindle.mcp.oauth import ResourceSettings
from spindle.mcp.oauth.http import OAuthHttp
from spindle.mcp.oauth.issuer_keys import FRESH_SECONDS, MAX_AGE_SECONDS, REFETCH_SECONDS, IssuerKeys
from tests.mcp.authorization import Issuer, make_key, running_issuer

pytestmark = pytest.mark.anyio


class Moment:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def open_keys(issuer: Issuer, clock: Moment, **more: Any) -> IssuerKeys:
    settings = ResourceSettings(issuer=issuer.url, scopes={"tools": "reader"}, **more)
    return IssuerKeys(settings, OAuthHttp([issuer.url]), clock=clock)


async def test_many_requests_at_once_fetch_the_keys_once() -> None:
    with running_issuer() as issuer:
        keys = open_keys(issuer, Moment())
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(keys.find, "k1", "ES256")

        assert await keys.find("k1", "ES256") is not None
        assert (issuer.count("/jwks"), issuer.count("/.well-known/oauth-authorization-server")) == (1, 1)


async def test_a_new_key_is_fetched_but_unknown_ones_do_not_flood_the_issuer() -> None:
    with running_issuer() as issuer:
        clock = Moment()
        keys = open_keys(issuer, clock)
        assert await keys.find("k1", "ES256") is not None
        issuer.keys.append(make_key("k2"))
        for _ in range(20):
            assert await keys.find(secrets.token_hex(4), "ES256") is None
        assert issuer.count("/jwks") == 1
        clock.now += REFETCH_SECONDS

        assert await keys.find("k2", "ES256") is not None
        assert issuer.count("/jwks") == 2


async def test_a_withdrawn_key_is_not_accepted_for_long_even_if_the_issuer_is_down() -> None:
    clock = Moment()
    with running_issuer() as issuer:
        keys = open_keys(issuer, clock)
        assert await keys.find("k1", "ES256") is not None
        issuer.keys[:] = [make_key("k2")]
        clock.now += FRESH_SECONDS
        assert await keys.find("k1", "ES256") is None
    clock.now += FRESH_SECONDS
    assert await keys.find("k2", "ES256") is not None  # the issuer is down for a moment
    clock.now += MAX_AGE_SECONDS
    with pytest.raises(OAuthError):
        await keys.find("k2", "ES256")


@pytest.mark.parametrize(
    "metadata",
    [{"issuer": "https://evil.example"}, {"jwks_uri": "http://192.0.2.1/jwks"}, {"jwks_uri": "https://10.0.0.1/jwks"}],
    ids=["another issuer", "no TLS", "private address"],
)
async def test_metadata_cannot_lead_elsewhere(metadata: dict[str, Any]) -> None:
    with running_issuer() as issuer:
        issuer.metadata = metadata
        with pytest.raises(OAuthError):
            await open_keys(issuer, Moment()).find("k1", "ES256")


async def test_an_issuer_on_a_private_address_must_be_named() -> None:
    with running_issuer() as issuer:
        settings = ResourceSettings(issuer=issuer.url, scopes={"tools": "reader"})
        with pytest.raises(OAuthError):
            await IssuerKeys(settings, OAuthHttp()).find("k1", "ES256")
        assert not issuer.requests


async def test_a_token_without_kid_needs_an_issuer_with_one_key() -> None:
    with running_issuer() as issuer:
        assert await open_keys(issuer, Moment()).find(None, "ES256") is not None
        issuer.keys.append(make_key("k2"))
        assert await open_keys(issuer, Moment()).find(None, "ES256") is None
        assert await open_keys(issuer, Moment(), jwks_url=f"{issuer.url}/jwks").find("k2", "RS256") is None
