"""Both revisions on either side of a gateway: a server's questions reach the client behind the call, with its name."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client

from tests.mcp.asking_clients import ROOTS, SAID
from tests.mcp.gateways import LEGACY, MODERN, Inside, inside, text_of
from tests.mcp.test_conformance import reference_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # on trio, the HTTP client of the SDK leaves generators to the garbage collector


both_sides = pytest.mark.parametrize(
    ("kind", "mode"), [("newer", LEGACY), ("newer", MODERN), ("older", LEGACY), ("older", MODERN)]
)


def config(url: str, **keys: bool) -> str:
    more = "".join(f"{key} = {str(value).lower()}\n" for key, value in keys.items())
    return f'[mcp.servers.shop]\nurl = "{url}"\nprefix = false\n{more}'


async def call(gateway: Inside, mode: str, name: str, seen: list[Any], args: Any = None) -> types.CallToolResult:
    """Call a tool as a client that answers everything, and record what it is asked."""

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        seen.append(params)
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(_context: Any, params: Any) -> types.CreateMessageResult:
        seen.append(params)
        return SAID

    async def list_roots(_context: Any) -> types.ListRootsResult:
        seen.append("roots")
        return ROOTS

    callbacks: Any = {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": list_roots,
    }
    async with gateway.client(mode, **callbacks) as client:
        assert isinstance(client, Client)
        result = await client.call_tool(name, args or {})
    assert isinstance(result, types.CallToolResult)
    return result


@both_sides
async def test_a_form_reaches_the_user_with_the_name_of_the_server(kind: str, mode: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    with reference_server(kind) as url:
        async with inside(tmp_path, config(url)) as gateway:
            result = await call(gateway, mode, "test_input_required_result_elicitation", seen)

    assert text_of(result) == "Hello, Ann!"
    [asked] = seen
    assert asked.message.startswith("The MCP server 'shop' asks: What is your name?")


@both_sides
async def test_the_clients_model_and_roots_are_asked_only_where_that_is_allowed(
    kind: str, mode: str, tmp_path: Path
) -> None:
    allowed: list[Any] = []
    refused: list[Any] = []
    with reference_server(kind) as url:
        async with inside(tmp_path, config(url, sampling=True, roots=True)) as gateway:
            said = await call(gateway, mode, "test_input_required_result_sampling", allowed)
            found = await call(gateway, mode, "test_input_required_result_list_roots", allowed)
        async with inside(tmp_path, config(url)) as gateway:
            for name in ("test_input_required_result_sampling", "test_input_required_result_list_roots"):
                await call(gateway, mode, name, refused)

    assert text_of(said) == "Paris."
    assert "file:///home/ann" in text_of(found)
    assert allowed[0].system_prompt.startswith("The MCP server 'shop'")
    assert allowed[1] == "roots"
    assert refused == []
