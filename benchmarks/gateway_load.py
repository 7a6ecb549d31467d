"""Many clients of one MCP server over HTTP: bare sockets, so that the time goes to the server and not to the client."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
_ABOUT = {"name": "bench", "version": "1"}
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _ABOUT,
}


class BareClient:
    """One client on one connection, in either revision of the protocol."""

    def __init__(self, address: str, revision: str) -> None:
        parts = urlsplit(address)
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path
        self._revision, self._session = revision, ""
        self._calls = 0

    async def open(self) -> None:
        """Connect, and on the older revision begin a session."""
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        if self._revision != MODERN:
            params = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": _ABOUT}
            headers, _ = await self._post({"id": 0, "method": "initialize", "params": params})
            self._session = headers["mcp-session-id"]
            await self._post({"method": "notifications/initialized"})

    async def call(self, tool: str, text: str) -> None:
        """Call a tool that answers with the text."""
        self._calls += 1
        params: dict[str, Any] = {"name": tool, "arguments": {"text": text}}
        if self._revision == MODERN:
            params["_meta"] = _META
        _, body = await self._post({"id": self._calls, "method": "tools/call", "params": params})
        assert text.encode() in body, body

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _post(self, message: dict[str, Any]) -> tuple[dict[str, str], bytes]:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        head = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(body)}",
        ]
        if self._revision == MODERN:
            name = message["params"]["name"]
            head += [f"Mcp-Protocol-Version: {MODERN}", f"Mcp-Method: {message['method']}", f"Mcp-Name: {name}"]
        elif self._session:
            head += [f"Mcp-Protocol-Version: {self._revision}", f"Mcp-Session-Id: {self._session}"]
        request = "\r\n".join([*head, "", ""]).encode() + body
        self._writer.write(request)
        try:
            return await self._read_answer()
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            if getattr(error, "partial", b""):
                raise
        # The server has closed the idle connection, perhaps while the request was on its way.
        self._writer.close()
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._writer.write(request)
        return await self._read_answer()

    async def _read_answer(self) -> tuple[dict[str, str], bytes]:
        status, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        assert " 20" in status, status
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if headers.get("transfer-encoding") != "chunked":
            return headers, await self._reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
        return headers, body


@asynccontextmanager
async def open_clients(address: str, revision: str, count: int) -> AsyncGenerator[list[BareClient]]:
    """Connect clients one after the other."""
    clients = [BareClient(address, revision) for _ in range(count)]
    for client in clients:
        await client.open()
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


async def call_side_by_side(clients: list[BareClient], tool: str, text: str, calls_each: int) -> None:
    """Have every client call one after the other, all clients at once."""

    async def call_in_turn(client: BareClient) -> None:
        for _ in range(calls_each):
            await client.call(tool, text)

    await asyncio.gather(*map(call_in_turn, clients))
