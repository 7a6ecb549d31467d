"""The logins of users at upstream servers: access tokens, each refreshed once for all calls that need it."""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import anyio

from spindle.errors import LoginRequiredError, OAuthError, SecretError, UsageError
from spindle.mcp.login_settings import LoginSettings
from spindle.mcp.oauth.discovery import discover
from spindle.mcp.oauth.http import OAuthHttp
from spindle.mcp.oauth.login_flow import PendingLogin, begin_login, finish_login, refresh_login, withdraw_login
from spindle.mcp.oauth.token_store import LoginPlace, StoredLogin, TokenStore
from spindle.mcp.spec import ServerSpec

DEFAULT_USER: Final = "default"
"""The user of programs that serve only one."""
MAX_USER_CHARS: Final = 2_300
MAX_RENEWALS: Final = 5
"""How often a token may be refreshed in a minute because its server rejects it."""
_RENEWAL_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0
"""After a failed refresh, the next one waits this long, so that waiting calls do not repeat it one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginStatus:
    """The state of one login, without secrets."""

    server: str
    user: str
    state: Literal["ready", "expired", "needs login"]
    """`expired` is refreshed on use."""
    issuer: str | None = None
    scope: str | None = None
    expires_at: float | None = None


class Logins:
    """The logins of all users at the servers of one configuration.

    `resolve` returns the secret of a configured client by its name.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        resolve: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._resolve, self._clock = store, resolve, clock
        self._locks: dict[LoginPlace, anyio.Lock] = {}
        self._renewals: dict[LoginPlace, list[float]] = {}
        self._failed: dict[LoginPlace, tuple[str, float, OAuthError]] = {}

    def has_login(self, spec: ServerSpec, user: str) -> bool:
        """Return whether a user has logged in and need not do so again."""
        return self.describe(spec, user).state != "needs login"

    def describe(self, spec: ServerSpec, user: str) -> LoginStatus:
        """Return the state of a user's login at a server."""
        try:
            login = self._store.read(_find_place(spec, user))
        except SecretError:
            login = None
        if login is None or not login.access_token:
            return LoginStatus(server=spec.name, user=user, state="needs login")
        is_over = login.expires_at is not None and login.expires_at <= self._clock()
        state: Literal["ready", "expired", "needs login"] = "ready"
        if is_over:
            state = "needs login" if login.refresh_token is None else "expired"
        return LoginStatus(
            server=spec.name,
            user=user,
            state=state,
            issuer=login.issuer,
            scope=login.scope,
            expires_at=login.expires_at,
        )

    def list_users(self, spec: ServerSpec) -> list[str]:
        """Return the users who have logged in at a server."""
        return [place.user for place in self._store.list() if (place.server, place.url) == (spec.name, spec.url)]

    async def get_token(self, spec: ServerSpec, user: str) -> str:
        """Return a valid access token of a user, refreshed if it is about to expire.

        Raises:
            LoginRequiredError: The user has to log in.
            OAuthError: The token cannot be refreshed now.
        """
        login = self._read(spec, user)
        return await self._refresh(spec, user, login.access_token) if self._is_stale(login) else login.access_token

    async def renew_token(self, spec: ServerSpec, user: str, rejected: str) -> str:
        """Return another token than the one that the server has rejected; raises like `get_token`."""
        login = self._read(spec, user)
        return login.access_token if login.access_token != rejected else await self._refresh(spec, user, rejected)

    async def begin(self, spec: ServerSpec, user: str, *, redirect_uri: str) -> PendingLogin:
        """Find the authorization server and build the URL at which the user logs in.

        Raises:
            OAuthError: There is no authorization server, or it must not be used.
        """
        place, settings = _find_place(spec, user), _get_settings(spec)
        try:
            known = self._store.read(place)
        except SecretError:
            known = None
        http = _open_http(spec)
        server = await discover(place.url, settings, http)
        has_secret = settings.client_secret is not None
        return await begin_login(server, settings, http, redirect_uri=redirect_uri, known=known, has_secret=has_secret)

    async def finish(self, spec: ServerSpec, user: str, pending: PendingLogin, answer: Mapping[str, str]) -> None:
        """Exchange the code of the redirect for tokens, and keep them.

        Raises:
            OAuthError: The redirect does not belong to the login, or the user declined.
        """
        secret = self._find_secret(spec)
        login = await finish_login(pending, answer, _open_http(spec), client_secret=secret)
        self._store.write(_find_place(spec, user), login)

    async def withdraw(self, spec: ServerSpec, user: str) -> bool:
        """Withdraw a user's tokens at the authorization server; return whether it confirmed."""
        try:
            login = self._store.read(_find_place(spec, user))
            secret = self._find_secret(spec)
            return login is not None and await withdraw_login(login, _open_http(spec), client_secret=secret)
        except (OAuthError, SecretError):
            return False

    def remove(self, spec: ServerSpec, user: str) -> bool:
        """Forget a user's login; return whether there was one."""
        return self._store.remove(_find_place(spec, user))

    def build_error(self, spec: ServerSpec, user: str, why: str = "it needs a login") -> LoginRequiredError:
        """Build the error of a user who has to log in."""
        command = shlex.join(["spindle", "login", spec.name, *([] if user == DEFAULT_USER else ["--user", user])])
        message = f"MCP server {spec.name!r} needs login: {why}; run: {command}"
        return LoginRequiredError(message, server=spec.name, user=user, command=command)

    def _read(self, spec: ServerSpec, user: str) -> StoredLogin:
        try:
            login = self._store.read(_find_place(spec, user))
        except SecretError as error:
            raise self.build_error(spec, user, "the stored login cannot be read") from error
        if login is None or not login.access_token:
            raise self.build_error(spec, user)
        return login

    def _is_stale(self, login: StoredLogin) -> bool:
        return login.refresh_at is not None and login.refresh_at <= self._clock()

    async def _refresh(self, spec: ServerSpec, user: str, stale: str) -> str:
        """Refresh a token; all who ask for the same one wait for one request, also those in other processes."""
        place = _find_place(spec, user)
        async with self._locks.setdefault(place, anyio.Lock()), self._store.lock(place):
            login = self._read(spec, user)
            if login.access_token != stale:
                return login.access_token
            problem = self._find_recent_failure(place, stale) or self._count_renewal(place, login)
            if problem is None:
                answer = await self._request(spec, place, login)
                if isinstance(answer, str):
                    return answer
                problem = answer
                self._failed[place] = stale, self._clock() + RETRY_SECONDS, problem
            if problem.is_refused:
                self._store.write(place, replace(login, access_token="", refresh_token=None))
                raise self.build_error(spec, user, "the login is no longer valid") from problem
            if self._is_stale(login) and (login.expires_at is None or self._clock() < login.expires_at):
                return stale  # it was only to be refreshed early
            raise problem

    async def _request(self, spec: ServerSpec, place: LoginPlace, login: StoredLogin) -> str | OAuthError:
        answer: str | OAuthError = OAuthError("the refresh was cancelled")
        # The issuer may have withdrawn the old refresh token by then: the new one must be written.
        with anyio.CancelScope(shield=True):
            try:
                fresh = await refresh_login(login, _open_http(spec), client_secret=self._find_secret(spec))
                self._store.write(place, fresh)
                answer = fresh.access_token
            except OAuthError as error:
                answer = error
        return answer

    def _count_renewal(self, place: LoginPlace, login: StoredLogin) -> OAuthError | None:
        """Count a refresh before its time; return why there may be no more of them for now."""
        if self._is_stale(login):
            return None
        now = self._clock()
        recent = [moment for moment in self._renewals.get(place, ()) if now - moment < _RENEWAL_SECONDS]
        if len(recent) >= MAX_RENEWALS:
            # It may reject every token, to have us flood the authorization server.
            return OAuthError(f"MCP server {place.server!r} rejects every token; try again in a minute")
        self._renewals[place] = [*recent, now]
        return None

    def _find_recent_failure(self, place: LoginPlace, stale: str) -> OAuthError | None:
        token, until, problem = self._failed.get(place, ("", 0.0, None))
        return problem if token == stale and self._clock() < until else None

    def _find_secret(self, spec: ServerSpec) -> str | None:
        name = _get_settings(spec).client_secret
        if name is None:
            return None
        if self._resolve is None:
            raise SecretError(f"MCP server {spec.name!r} needs the secret {name!r}", secret=name)
        return self._resolve(name)


def check_user(user: str) -> str:
    """Return the name of a user.

    Raises:
        UsageError: It is empty, too long, or not printable.
    """
    if not user.strip() or len(user) > MAX_USER_CHARS or not user.isprintable():
        raise UsageError("the name of a user must be printable and not empty", field="user")
    return user


def _get_settings(spec: ServerSpec) -> LoginSettings:
    if spec.oauth is None or spec.url is None:
        raise UsageError(f"MCP server {spec.name!r} does not use OAuth: set oauth = true", field="oauth")
    return spec.oauth


def _find_place(spec: ServerSpec, user: str) -> LoginPlace:
    _get_settings(spec)
    return LoginPlace(server=spec.name, url=spec.url or "", user=check_user(user))


def _open_http(spec: ServerSpec) -> OAuthHttp:
    """Return the client for one server; private addresses are only those that its configuration names."""
    return OAuthHttp(filter(None, [spec.url, _get_settings(spec).issuer]))
