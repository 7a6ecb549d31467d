"""Messages through standard streams: whole, bounded, and never in the way of stopping."""

import json
import os
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from spindle.mcp.client.link import MAX_MESSAGE_BYTES
from spindle.mcp.server.serve import StandardStreams

pytestmark = pytest.mark.anyio

LARGE = "x" * 1_000_000


class Ends:
    """Both ends of the two pipes: ours as the server has them, and those of its client."""

    def __init__(self) -> None:
        self.source, self.to_server = os.pipe()
        self.from_server, self.sink = os.pipe()
        self.streams = StandardStreams(self.source, self.sink)

    def write(self, text: str) -> None:
        os.write(self.to_server, text.encode())

    def hang_up(self) -> None:
        os.close(self.to_server)

    def close(self) -> None:
        for number in (self.source, self.to_server, self.from_server, self.sink):
            with suppress(OSError):
                os.close(number)


@pytest.fixture
def ends() -> Generator[Ends]:
    made = Ends()
    yield made
    made.close()


def request(id: int, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}) + "\n"


def answer(id: int, text: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=id, result={"text": text}))


async def test_messages_arrive_in_order_and_invalid_ones_are_reported_as_errors(ends: Ends) -> None:
    ends.write(request(1) + "not JSON\n\n" + '{"jsonrpc": "2.0", "method": "notifications/x"}\n' + request(2)[:9])
    with anyio.fail_after(30):
        async with ends.streams.open() as (incoming, _):
            first, junk, reported = [await incoming.receive() for _ in range(3)]
            ends.write(request(2)[9:])
            last = await incoming.receive()
            ends.hang_up()
            with pytest.raises(anyio.EndOfStream):
                await incoming.receive()

    assert isinstance(first, SessionMessage)
    assert isinstance(first.message, JSONRPCRequest)
    assert isinstance(junk, ValueError)
    assert isinstance(reported, SessionMessage)
    assert isinstance(reported.message, JSONRPCNotification)
    assert isinstance(last, SessionMessage)
    assert last.message.model_dump()["id"] == 2


async def test_a_large_message_goes_through_a_pipe_that_is_read_slowly(ends: Ends) -> None:
    read = b""
    with anyio.fail_after(30):
        async with ends.streams.open() as (_, outgoing), anyio.create_task_group() as tasks:
            tasks.start_soon(outgoing.send, answer(1, LARGE))
            while not read.endswith(b"\n"):
                await anyio.wait_readable(ends.from_server)
                read += os.read(ends.from_server, 1_000)

    assert json.loads(read)["result"]["text"] == LARGE


async def test_a_client_that_does_not_read_does_not_delay_the_stop(ends: Ends) -> None:
    with anyio.fail_after(30):
        async with ends.streams.open() as (_, outgoing):
            await outgoing.send(answer(1, LARGE))
            await anyio.wait_all_tasks_blocked()

    assert os.read(ends.from_server, 10).startswith(b'{"jsonrpc"')


async def test_a_client_that_is_gone_is_written_to_no_more(ends: Ends) -> None:
    os.close(ends.from_server)
    with anyio.fail_after(30):
        async with ends.streams.open() as (_, outgoing):
            await outgoing.send(answer(1))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BrokenResourceError):
                await outgoing.send(answer(2))


async def test_every_request_is_waited_for_but_those_that_were_taken_back(ends: Ends) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    is_over = anyio.Event()

    async def wait() -> None:
        await ends.streams.wait_until_answered()
        is_over.set()

    with anyio.fail_after(30):
        async with ends.streams.open() as (incoming, outgoing), anyio.create_task_group() as tasks:
            ends.write(request(1) + request(2) + json.dumps(cancel) + "\n")
            for _ in range(3):
                await incoming.receive()
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not is_over.is_set()
            await outgoing.send(answer(1))
            await is_over.wait()


async def test_a_file_can_stand_in_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(request(1))
    source, sink = os.open(tmp_path / "in", os.O_RDONLY), os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    with anyio.fail_after(30):
        async with StandardStreams(source, sink).open() as (incoming, outgoing):
            assert isinstance(await incoming.receive(), SessionMessage)
            with pytest.raises(anyio.EndOfStream):
                await incoming.receive()
            await outgoing.send(answer(1))
            await anyio.wait_all_tasks_blocked()
    os.close(source)
    os.close(sink)

    assert json.loads((tmp_path / "out").read_text())["id"] == 1


async def test_printed_text_does_not_reach_the_client(ends: Ends) -> None:
    with anyio.fail_after(30):
        async with ends.streams.open():
            os.write(ends.sink, b"")  # its number leads elsewhere now
            assert os.fstat(ends.sink).st_ino == os.fstat(2).st_ino
            assert os.read(ends.source, 1) == b""
        os.write(ends.sink, b"back")

    assert os.read(ends.from_server, 10) == b"back"


async def test_a_line_without_end_is_dropped_and_the_next_one_read(ends: Ends) -> None:
    def pour() -> None:
        with os.fdopen(os.dup(ends.to_server), "wb") as client:
            for _ in range(MAX_MESSAGE_BYTES // len(LARGE) + 1):
                client.write(LARGE.encode())
            client.write(b"\n" + request(7).encode())

    came: list[SessionMessage | Exception] = []
    with anyio.fail_after(30):
        async with ends.streams.open() as (incoming, _), anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, pour)
            came += [await incoming.receive(), await incoming.receive()]

    assert isinstance(came[0], ValueError)
    assert isinstance(came[1], SessionMessage)
