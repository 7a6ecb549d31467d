"""Logins of the page: one-time links, the cookie of a login, the token that the API needs besides it, and roles.

A link has a random code in its fragment, which browsers do not send; its hash is a record beside the journal, so that
a code works once, at any replica. The cookie is signed with the state key and needs no store. Servers on other ports of
the same host get it, too, so that alone it opens nothing but the empty page.
"""

import json
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from spindle.errors import PageLoginError, RequestForbiddenError
from spindle.execution.state_key import StateKey
from spindle.inspector.command_login import (
    COMMAND,
    COMMAND_HEADER,
    COMMAND_SECONDS,
    MAX_NAME_CHARS,
    pack,
    unpack,
)
from spindle.inspector.endpoints import OWNER, PageUser, Role
from spindle.journal.states import StateQuery, StateRecord, StateStore
from spindle.json_types import JsonObject
from spindle.mcp.server.http_callers import describe_client, find_user, get_token
from spindle.mcp.server.http_checks import FailedLogins

LINK_SECONDS: Final = 3_600.0
"""How long a one-time link can be used."""
LOGIN_SECONDS: Final = 12 * 3_600.0
PAGE_HEADER: Final = "x-spindle-token"
GRANT_SECONDS: Final = 60.0
"""How long the address of a download can be opened."""
_GRANT: Final = "&grant="
_MAX_SKEW_SECONDS: Final = 60.0
_COOKIE, _PAGE_TOKEN, _DOWNLOAD = "page cookie", "page token", "page download"
_LINK_KIND, _LOGOUT_KIND = "page-link", "page-logout"
_RECHECK_SECONDS: Final = 5.0
_MAX_CHECKED: Final = 1_000
_MICROSECONDS: Final = 1_000_000
_MAX_CODE_CHARS: Final = 200


async def issue_code(states: StateStore, *, role: Role, by: str, profile: str | None = None) -> str:
    """Return a new code for a one-time link, and keep its hash until it is used or expires."""
    code, now = secrets.token_urlsafe(18), time.time()
    for old in await states.select(StateQuery(_LINK_KIND, expired_at=_to_microseconds(now))):
        await states.delete(old.kind, old.id)
    facts = {"role": role, "by": by, "profile": profile}
    await states.insert(
        StateRecord(
            kind=_LINK_KIND,
            id=_hash(code),
            status="open",
            data=json.dumps(facts),
            created_at=_to_microseconds(now),
            expires_at=_to_microseconds(now + LINK_SECONDS),
        )
    )
    return code


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLogins:
    """Checks who sends a request of the page or of the API."""

    key: StateKey
    states: StateStore | None
    """Where codes and logouts are kept; `None` if the journal cannot keep them; then only tokens log in."""
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    """Profile → its role; a token of any other profile cannot log in."""
    clients: Collection[object] | None = None
    """The tokens that are configured now, as `PageUser.client` names them; `None` if that is not checked."""
    cookie: str = "spindle_page"
    """The name; servers on other ports of this machine get it, too, so that it contains the port."""
    is_secure: bool = False
    """Whether the server speaks HTTPS."""
    clock: Callable[[], float] = time.time
    _failures: FailedLogins = field(default_factory=FailedLogins, repr=False)
    _checked: dict[str, tuple[float, bool]] = field(default_factory=dict[str, tuple[float, bool]], repr=False)

    async def redeem(self, code: str, address: str) -> PageUser:
        """Return the user of a one-time code, which cannot be used again.

        Raises:
            RequestForbiddenError: The code is unknown, was used or has expired.
        """
        hashed, is_code = _hash(code), len(code) <= _MAX_CODE_CHARS
        record = None if self.states is None or not is_code else await self.states.get(_LINK_KIND, hashed)
        is_valid = record is not None and (record.expires_at or 0) > _to_microseconds(self.clock())
        # Of two browsers with one code, one deletes the record.
        if record is None or self.states is None or not await self.states.delete(_LINK_KIND, hashed) or not is_valid:
            await self._failures.slow_down(address)
            raise RequestForbiddenError("this link was used already, or has expired; `spindle page` prints a new one")
        user = self._to_user({**json.loads(record.data), "session": secrets.token_urlsafe(12)})
        if user is None:
            raise RequestForbiddenError("the profile of this link may not see the page any more")
        return user

    def find_by_token(self, request: Request) -> PageUser | None:
        """Return the user of the bearer token that the server has accepted, if its profile may see the page."""
        token = get_token(request)
        profile = None if token is None else token.subject
        role = None if profile is None else self.roles.get(profile)
        if token is None or profile is None or role is None:
            return None
        named = find_user(token) or ""
        is_person = named != f"profile:{profile}"  # of an authorization server; several may have one profile
        return PageUser(
            session=describe_client(token),
            role=role,
            by=f"profile {profile}, {named}" if is_person else f"profile {profile}",
            profile=profile,
            user=named,
            client=None if is_person else token.client_id,
            expires_at=token.expires_at,
        )

    async def identify(self, request: Request) -> PageUser:
        """Return who sends a request of the API.

        Raises:
            PageLoginError: No login is valid; the cookie of one without its token is not enough.
            RequestForbiddenError: A browser sends it for the page of another server.
        """
        command = request.headers.get(COMMAND_HEADER)
        user = self.find_by_token(request) if command is None else self._read_command(command)
        if user is None and command is None and (user := await self.find_by_cookie(request)) is not None:
            if not self._has_page_token(request, user):
                raise PageLoginError(f"the header {PAGE_HEADER} is missing or wrong; log in again")
            self.check_origin(request)
        if user is None:
            raise PageLoginError("log in first: `spindle page` prints a link")
        return user

    async def find_by_cookie(self, request: Request) -> PageUser | None:
        """Return the user of the cookie, who may see the empty page."""
        facts = self._read_signed(request.cookies.get(self.cookie), _COOKIE, LOGIN_SECONDS)
        user = None if facts is None else self._to_user(facts)
        return None if user is None or await self._is_logged_out(user.session) else user

    def grant(self, user: PageUser, address: str) -> str:
        """Return an address with a query that this login may open for a minute without the header, as a download.

        The browser still sends the cookie, so that the address is of no use to others.
        """
        until = str(int(self.clock() + GRANT_SECONDS))
        return f"{address}{_GRANT}{self.key.sign(until, bound=f'{_DOWNLOAD} {user.session} {address}')}"

    def _has_page_token(self, request: Request, user: PageUser) -> bool:
        given = request.headers.get(PAGE_HEADER)
        if given is None:
            return request.method in {"GET", "HEAD"} and self._is_granted(request, user)
        return "." not in given and self.key.verify(f"{user.session}.{given}", bound=_PAGE_TOKEN)

    def _is_granted(self, request: Request, user: PageUser) -> bool:
        query, _, signed = request.scope["query_string"].decode("latin-1").rpartition(_GRANT)
        bound = f"{_DOWNLOAD} {user.session} {request.scope['path']}?{query}"
        if not query or not self.key.verify(signed, bound=bound):
            return False
        until, now = int(signed.partition(".")[0]), self.clock()
        return now <= until <= now + GRANT_SECONDS + _MAX_SKEW_SECONDS

    def check_origin(self, request: Request) -> None:
        """Check that a browser sends a request for our own page, as far as it says so.

        Raises:
            RequestForbiddenError: The request comes from another origin.
        """
        origin, host = request.headers.get("origin"), request.headers.get("host")
        scheme = "https" if self.is_secure else "http"
        # The server accepts the origins of other ports of this machine; the page does not.
        if origin is not None and origin != f"{scheme}://{host}":
            raise RequestForbiddenError("this request comes from the page of another server")
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise RequestForbiddenError("this request comes from the page of another server")

    def log_in(self, response: Response, user: PageUser) -> str:
        """Set the cookie of a login, and return the token that its requests need.

        Every login has a session of its own, so that a logout ends no other. Only the answer to the login has the
        token, and the page keeps it for its own origin: servers on other ports of this machine get the cookie when the
        browser opens one of their pages, and could otherwise use it to read results and to approve calls.
        """
        by, session = user.by[:MAX_NAME_CHARS], secrets.token_urlsafe(12)
        facts = {"session": session, "role": user.role, "by": by, "profile": user.profile}
        if user.profile is not None:
            facts |= {"user": user.user, "client": user.client}
        until = min(self.clock() + LOGIN_SECONDS, user.expires_at or math.inf)
        signed = self.key.sign(pack(facts | {"until": until}), bound=_COOKIE)
        response.set_cookie(
            self.cookie,
            signed,
            max_age=int(LOGIN_SECONDS),
            path="/",
            secure=self.is_secure,
            httponly=True,
            samesite="strict",
        )
        return self.key.sign(session, bound=_PAGE_TOKEN).rpartition(".")[2]

    async def log_out(self, response: Response, user: PageUser) -> None:
        """Delete the cookie, and refuse copies of it."""
        response.delete_cookie(self.cookie, path="/", secure=self.is_secure, httponly=True, samesite="strict")
        self._checked[user.session] = float("inf"), True
        if self.states is not None:
            now = self.clock()
            expires = _to_microseconds(now + LOGIN_SECONDS)
            record = StateRecord(_LOGOUT_KIND, user.session, "out", "{}", _to_microseconds(now), expires_at=expires)
            await self.states.insert(record)
            for old in await self.states.select(StateQuery(_LOGOUT_KIND, expired_at=record.created_at, limit=100)):
                await self.states.delete(old.kind, old.id)

    def _read_command(self, signed: str) -> PageUser | None:
        facts = self._read_signed(signed, COMMAND, COMMAND_SECONDS)
        if facts is None:
            return None
        return PageUser(session="command", role="operator", by=str(facts.get("by")), is_command=True)

    def _read_signed(self, signed: str | None, bound: str, max_seconds: float) -> JsonObject | None:
        """Return the facts of a signed value that is valid now; `None` for any other, whatever it is.

        One that is valid for longer than it can be made for comes from a machine whose clock is wrong.
        """
        if signed is None or not self.key.verify(signed, bound=bound):
            return None
        facts = unpack(signed)
        until = None if facts is None else facts.get("until")
        now = self.clock()
        if not isinstance(until, (int, float)) or not now <= until <= now + max_seconds + _MAX_SKEW_SECONDS:
            return None
        return facts

    def _to_user(self, facts: Mapping[str, object]) -> PageUser | None:
        """Return the user of a login; a profile has the role that it has now, or none."""
        profile = facts.get("profile")
        given = facts.get("role") if profile is None else self.roles.get(str(profile))
        client = facts.get("client")
        if given is None or (client is not None and self.clients is not None and client not in self.clients):
            return None
        is_operator = given == "operator" and facts.get("role") == "operator"
        return PageUser(
            session=str(facts.get("session")),
            role="operator" if is_operator else "viewer",
            by=str(facts.get("by")),
            profile=None if profile is None else str(profile),
            user=OWNER if profile is None else str(facts.get("user") or f"profile:{profile}"),
        )

    async def _is_logged_out(self, session: str) -> bool:
        now = self.clock()
        checked_at, is_out = self._checked.get(session, (float("-inf"), False))
        if self.states is None or checked_at + _RECHECK_SECONDS > now:
            return is_out
        is_out = await self.states.get(_LOGOUT_KIND, session) is not None
        if len(self._checked) >= _MAX_CHECKED:
            self._checked.clear()
        self._checked[session] = now, is_out
        return is_out


def _hash(code: str) -> str:
    return sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


def _to_microseconds(seconds: float) -> int:
    return int(seconds * _MICROSECONDS)
