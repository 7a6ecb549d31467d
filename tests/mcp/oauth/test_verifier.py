"""Access tokens of clients: what is accepted, and every way of cheating that is refused."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from spindle.mcp.oauth import ResourceSettings
from spindle.mcp.oauth.http import OAuthHttp
from spindle.mcp.oauth.issuer_keys import IssuerKeys
from spindle.mcp.oauth.verifier import MAX_TOKEN_CHARS, TokenRefusal, TokenVerifier, VerifiedToken
from tests.mcp.authorization import Issuer, make_key, running_issuer

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
AUDIENCE = "http://127.0.0.1/mcp"
NOW = int(time.time())


@pytest.fixture(scope="module")
def issuer() -> Generator[Issuer]:
    with running_issuer() as running:
        yield running


def build_verifier(issuer: Issuer, **more: Any) -> TokenVerifier:
    scopes = {"tools": "reader", "admin": "writer", "tools:more": "reader"}
    settings = ResourceSettings(issuer=issuer.url, scopes=scopes, **more)
    return TokenVerifier(settings, IssuerKeys(settings, OAuthHttp([issuer.url])), audience=AUDIENCE)


async def test_a_token_for_this_server_is_accepted_with_the_profile_of_its_scope(issuer: Issuer) -> None:
    found = await build_verifier(issuer).verify(issuer.make_token(sub="alice", scope="openid tools"))

    assert isinstance(found, VerifiedToken)
    assert (found.user, found.profile) == (f"{issuer.url}#alice", "reader")


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["https://other.example", AUDIENCE]},
        {"nbf": NOW - 60},
        {"scope": None, "scp": ["tools"]},
        {"scope": None, "scp": "tools profile"},
        {"scope": "tools tools:more"},
    ],
    ids=["several audiences", "nbf in the past", "scp as a list", "scp as text", "two scopes, one profile"],
)
async def test_other_spellings_of_a_valid_token_are_accepted(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert isinstance(await build_verifier(issuer).verify(issuer.make_token(**claims)), VerifiedToken)


async def test_clocks_may_differ_by_the_leeway(issuer: Issuer) -> None:
    now = int(time.time())
    token = issuer.make_token(exp=now - 10, iat=now + 10, nbf=now + 10)

    assert isinstance(await build_verifier(issuer, leeway_seconds=300).verify(token), VerifiedToken)
    assert isinstance(await build_verifier(issuer, leeway_seconds=0).verify(token), TokenRefusal)


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "wrong issuer": {"iss": "https://evil.example"},
    "issuer with a slash more": {"iss": "…/"},
    "no issuer": {"iss": None},
    "wrong audience": {"aud": "https://other.example/mcp"},
    "audience that only begins alike": {"aud": f"{AUDIENCE}/more"},
    "audience in one text": {"aud": f"https://other.example {AUDIENCE}"},
    "audience as an object": {"aud": {AUDIENCE: True}},
    "no audience": {"aud": None},
    "token of another resource": {"aud": "client-of-somebody", "resource": AUDIENCE},
    "expired": {"exp": NOW - 3_600},
    "no exp": {"exp": None},
    "exp as text": {"exp": str(NOW + 600)},
    "exp as true": {"exp": True},
    "endless exp": {"exp": 1e400},
    "future nbf": {"nbf": NOW + 3_600},
    "nbf as text": {"nbf": "0"},
    "issued in the future": {"iat": NOW + 3_600},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "subject with a line break": {"sub": "alice\nbob"},
    "subject as a number": {"sub": 7},
    "bound to a key of the client": {"cnf": {"jkt": "x"}},
    "scopes as an object": {"scope": {"tools": True}},
    "scope list with spaces": {"scope": None, "scp": ["tools admin"]},
    "too many scopes": {"scope": " ".join(f"s{n}" for n in range(1_000))},
}


@pytest.mark.parametrize("case", WRONG_CLAIMS)
async def test_wrong_claims_are_refused(issuer: Issuer, case: str) -> None:
    claims = dict(WRONG_CLAIMS[case])
    if claims.get("iss") == "…/":
        claims["iss"] = f"{issuer.url}/"
    found = await build_verifier(issuer).verify(issuer.make_token(**claims))

    assert isinstance(found, TokenRefusal)
    assert found.error == "invalid_token"


WRONG_SCOPES: dict[str, dict[str, Any]] = {
    "no scope": {"scope": None},
    "unknown scope": {"scope": "everything"},
    "other case": {"scope": "TOOLS"},
    "prefix": {"scope": "tool tools:"},
    "separated by a comma": {"scope": "tools,admin"},
    "separated by a tab": {"scope": "openid\ttools"},
    "named by another claim": {"scope": "", "roles": ["tools"], "scp": "tools"},
    "two profiles": {"scope": "tools admin"},
}


@pytest.mark.parametrize("case", WRONG_SCOPES)
async def test_scopes_that_name_no_single_profile_are_refused(issuer: Issuer, case: str) -> None:
    found = await build_verifier(issuer).verify(issuer.make_token(**WRONG_SCOPES[case]))

    assert isinstance(found, TokenRefusal)
    assert found.error == "insufficient_scope"


async def test_required_scopes_are_required(issuer: Issuer) -> None:
    verifier = build_verifier(issuer, required_scopes=("mcp",))

    assert isinstance(await verifier.verify(issuer.make_token(scope="tools")), TokenRefusal)
    assert isinstance(await verifier.verify(issuer.make_token(scope="tools mcp")), VerifiedToken)


def encode(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def rewrite(issuer: Issuer, header: object = None, payload: object = None, signature: str | None = None) -> str:
    """Replace parts of a valid token."""
    parts = issuer.make_token().split(".")
    changed = (None if header is None else encode(header), None if payload is None else encode(payload), signature)
    return ".".join(part if new is None else new for part, new in zip(parts, changed, strict=True))


def sign_with_public_key(issuer: Issuer) -> str:
    """Sign with HMAC and the issuer's public key, which everybody knows."""
    signed = ".".join(rewrite(issuer, {"alg": "HS256", "kid": "k1"}).split(".")[:2])
    digest = hmac.digest(issuer.keys[0].as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


OWN = make_key("k1")
NESTED = base64.urlsafe_b64encode(b"[" * 3_000).decode().rstrip("=")
FORGERIES: dict[str, Callable[[Issuer], str]] = {
    "alg none": lambda issuer: rewrite(issuer, {"alg": "none", "kid": "k1"}, signature=""),
    "alg none in capitals": lambda issuer: rewrite(issuer, {"alg": "NONE"}),
    "no alg": lambda issuer: rewrite(issuer, {"kid": "k1"}),
    "HS256 with the public key": sign_with_public_key,
    "own key, kid of theirs": lambda issuer: issuer.make_token(OWN),
    "embedded jwk": lambda issuer: issuer.make_token(OWN, {"jwk": OWN.as_dict(private=False)}),
    "jku": lambda issuer: issuer.make_token(OWN, {"kid": "k9", "jku": f"{issuer.url}/evil"}),
    "x5u": lambda issuer: issuer.make_token(OWN, {"kid": "k9", "x5u": f"{issuer.url}/evil"}),
    "kid as a path": lambda issuer: issuer.make_token(OWN, {"kid": "../../dev/null"}),
    "kid as a number": lambda issuer: rewrite(issuer, {"alg": "ES256", "kid": 1}),
    "unknown critical header": lambda issuer: rewrite(issuer, {"alg": "ES256", "kid": "k1", "crit": ["x"], "x": 1}),
    "type of another token": lambda issuer: issuer.make_token(header={"typ": "logout+jwt"}),
    "changed payload": lambda issuer: rewrite(issuer, payload={"sub": "root"}),
    "no signature": lambda issuer: rewrite(issuer, signature=""),
    "oversized": lambda issuer: issuer.make_token(padding="x" * MAX_TOKEN_CHARS),
    "encrypted": lambda _issuer: "a.b.c.d.e",
    "not base64": lambda _issuer: "%%%.???.!!!",
    "not ASCII": lambda issuer: f"{issuer.make_token()}é",
    "deeply nested": lambda issuer: f"{NESTED}.{issuer.make_token().partition('.')[2]}",
}


@pytest.mark.parametrize("case", FORGERIES)
async def test_forgeries_are_refused_and_fetch_nothing_that_they_name(issuer: Issuer, case: str) -> None:
    token = FORGERIES[case](issuer)
    found = await build_verifier(issuer).verify(token)

    assert isinstance(found, TokenRefusal)
    assert (found.error, found.is_genuine) == ("invalid_token", False)
    assert not issuer.count("/evil")
    assert token not in repr(found)
