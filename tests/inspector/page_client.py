"""A client of the API in this process, logged in as an operator or as a viewer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from starlette.responses import Response

from spindle.execution import StateKey
from spindle.inspector import InspectorApp, PageLogins, Workbench
from spindle.inspector.endpoints import PageUser, Role
from spindle.inspector.logins import PAGE_HEADER

KEY = "k" * 32


@asynccontextmanager
async def open_client(
    bench: Workbench, *, role: Role = "operator", profile: str | None = None
) -> "AsyncGenerator[TrialClient]":
    """Open a client whose cookie is that of a login."""
    roles: dict[str, Role] = {} if profile is None else {profile: role}
    logins = PageLogins(key=StateKey(KEY), states=bench.journal.states, roles=roles)
    app, response = InspectorApp(bench, logins), Response()
    token = logins.log_in(response, PageUser(session="", role=role, by="ann", profile=profile))
    headers = {"cookie": response.headers["set-cookie"].partition(";")[0], PAGE_HEADER: token}
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://page.test", headers=headers) as http:
        yield TrialClient(http)
    app.close()


class TrialClient:
    """Requests to the API, answered with parsed JSON."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def get(self, path: str, **query: Any) -> Any:
        """Read something; a refusal fails the test."""
        response = await self._http.get(f"/api/v1{path}", params=query)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, **body: Any) -> Any:
        """Change something; a refusal fails the test."""
        response = await self._http.post(f"/api/v1{path}", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    async def find_refusal(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, str]:
        """Send a request that is refused; return the status and the code."""
        response = await self._http.request(method, f"/api/v1{path}", params=query, json=body)
        return response.status_code, response.json()["error"]["code"]
