"""The API of the page over a journal in this process, without a server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from spindle import Executor, Journal, Spool, ToolRegistry
from spindle.execution import StateKey
from spindle.inspector import InspectorApp, PageLogins, Workbench
from spindle.inspector.command_login import COMMAND_HEADER, sign_command

KEY = "a state key for tests"


@asynccontextmanager
async def open_api(journal: Journal, *tools: Any, **parts: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client that is an operator of the API over a journal."""
    registry, key = ToolRegistry(tools), StateKey(KEY)
    executor = Executor(registry, journal=journal, state_key=KEY)
    bench = Workbench(registry=registry, executor=executor, journal=journal, spool=Spool.memory(), **parts)
    app = InspectorApp(bench, PageLogins(key=key, states=journal.states))
    transport: Any = httpx.ASGITransport(app=app)  # pyright: ignore[reportArgumentType] - as in other tests
    headers = {COMMAND_HEADER: sign_command(key, "test")}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1", headers=headers) as client:
        yield client


async def read(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    """Return the answer to a request."""
    response = await client.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()
