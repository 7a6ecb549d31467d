"""A server over HTTP that breaks every rule: each call has its outcome, and the other calls do not feel it."""

from collections.abc import Generator
from typing import Any

import pytest

from spindle import Err, Ok
from spindle.mcp.spec import ServerSpec
from tests.mcp.upstreams import call, calls, connected, serving

pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves a body when it has seen enough; trio would have it read to the end.
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|spindle.mcp.client.http):ResourceWarning"),
]


@pytest.fixture(scope="module")
def spec() -> Generator[ServerSpec]:
    with serving("hostile_http.py") as (url, _):
        yield ServerSpec(name="w", url=url)


def error_of(outcome: Any) -> Err:
    assert isinstance(outcome.result, Err), outcome.result
    return outcome.result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("flood", "bytes"),
        ("reset", "is not connected"),
        ("redirect", "redirect"),
        ("denied", "credentials"),
        ("gzip", "compression"),
        ("html", "text/html"),
        ("accepted", "202"),
        ("empty", ""),
        ("half", "lost"),
        ("events", ""),
    ],
    ids=lambda value: value or "whatever",
)
async def test_a_misdeed_fails_its_own_call_and_no_other(spec: ServerSpec, tool: str, words: str) -> None:
    async with connected(spec) as servers:
        failed, fine = await calls(servers, (f"mcp__w__{tool}", {}), ("mcp__w__ok", {}))

        assert servers.status()[0].restarts == 0

    assert error_of(failed).code == "execution_failed"
    assert words in error_of(failed).error
    assert isinstance(fine.result, Ok)


async def test_a_forgotten_session_is_made_anew_and_the_call_sent_again(spec: ServerSpec) -> None:
    async with connected(spec) as servers:
        await call(servers, "mcp__w__forget")
        outcome = await call(servers, "mcp__w__ok")

        assert servers.status()[0].restarts == 1
    assert isinstance(outcome.result, Ok)


async def test_a_server_that_is_gone_is_not_connected() -> None:
    with serving("hostile_http.py") as (url, process):
        async with connected(ServerSpec(name="w", url=url)) as servers:
            process.kill()
            process.wait()
            failed = error_of(await call(servers, "mcp__w__ok"))
            assert servers.status()[0].error is not None

    assert failed.code == "not_available"
    assert "MCP server 'w' is not connected" in failed.error
