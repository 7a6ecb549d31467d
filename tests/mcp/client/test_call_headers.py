"""Headers that one call brings along."""

import json
from collections.abc import Generator
from typing import Any

import anyio
import pytest

from spindle import Call, Err, Executor, Ok, ToolContext
from spindle.capabilities import Secret
from spindle.mcp.client.lifecycle import HeaderMapping
from spindle.mcp.spec import ServerSpec
from tests.mcp.upstreams import call, connected, hostile, serving_everything

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.one_loop,
    # The SDK leaves a body when it has seen enough; trio would have it read to the end.
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|spindle.mcp.client.http):ResourceWarning"),
]


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with serving_everything() as address:
        yield address


@pytest.fixture(scope="module")
def older() -> Generator[str]:
    with serving_everything(is_older=True) as address:
        yield address


def web(url: str, **more: Any) -> ServerSpec:
    return ServerSpec(name="e", url=url, **more)


def of_the_user(server: str, ctx: ToolContext) -> HeaderMapping:
    return {"X-Team": f"{server}-{ctx.session_id}"}


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["url", "older"])
async def test_each_call_brings_its_own_headers_also_beside_others(
    revision: str, request: pytest.FixtureRequest
) -> None:
    spec = web(request.getfixturevalue(revision), headers={"X-Team": "nobody"})
    seen: dict[str, Any] = {}
    async with connected(spec, headers=of_the_user) as servers:
        executor = Executor(servers.registry)

        async def ask(who: str) -> None:
            calls = [Call(f"{who}{n}", "mcp__e__headers") for n in range(5)]
            outcomes = await executor.execute_parallel(calls, ToolContext(who))
            seen[who] = {json.dumps(each.result.structured) for each in outcomes if isinstance(each.result, Ok)}

        async with anyio.create_task_group() as tasks:
            for who in ("ann", "bob", "eve"):
                tasks.start_soon(ask, who)

    assert {who: len(found) for who, found in seen.items()} == {"ann": 1, "bob": 1, "eve": 1}
    assert all(f"e-{who}" in next(iter(found)) for who, found in seen.items())


async def test_a_secret_header_is_redacted_in_the_result(url: str) -> None:
    async def signed(server: str, ctx: ToolContext) -> HeaderMapping:
        return {"Authorization": Secret("Bearer t0p-s3cret-of-ann")}

    async with connected(web(url), headers=signed) as servers:
        outcome = await call(servers, "mcp__e__headers")

    assert isinstance(outcome.result, Ok)
    assert "authorization" in outcome.result.value
    assert "t0p-s3cret" not in outcome.result.value + json.dumps(outcome.result.structured)


UNFIT: dict[str, Any] = {
    "session": {"Mcp-Session-Id": "x"},
    "host": {"Host": "x"},
    "name": {"a b": "x"},
    "line": {"X-A": "x\r\nX-B: y"},
    "letters": {"X-A": "ä"},
    "number": {"X-A": 3},
    "text": "text",
    "nothing": None,
}


async def test_a_call_with_invalid_headers_is_not_sent(url: str) -> None:
    def unfit(server: str, ctx: ToolContext) -> Any:
        return UNFIT[ctx.session_id or ""]

    async with connected(web(url), headers=unfit) as servers:
        codes = {
            name: getattr((await call(servers, "mcp__e__headers", ctx=ToolContext(name))).result, "code", "ok")
            for name in UNFIT
        }

        assert servers.status()[0].restarts == 0
    assert codes == dict.fromkeys(UNFIT, "execution_failed")


async def test_a_failing_headers_callback_fails_the_call_without_its_message(url: str) -> None:
    def broken(server: str, ctx: ToolContext) -> HeaderMapping:
        raise RuntimeError("t0p-s3cret")

    async with connected(web(url), headers=broken) as servers:
        outcome = await call(servers, "mcp__e__headers")

    assert isinstance(outcome.result, Err)
    assert "t0p-s3cret" not in outcome.result.error


async def test_the_headers_callback_is_not_called_for_stdio() -> None:
    def never(server: str, ctx: ToolContext) -> HeaderMapping:
        raise AssertionError("nobody needs them")

    async with connected(hostile(), headers=never) as servers:
        outcome = await call(servers, "mcp__h__ok")

    assert isinstance(outcome.result, Ok)
