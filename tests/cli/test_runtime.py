"""From a configuration to calls that run."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Call, Err, Journal, Ok, ToolContext
from spindle.cli.config import Config, load_config
from spindle.cli.runtime import Runtime, open_runtime
from spindle.cli.runtime_registry import build_filter
from spindle.cli.runtime_stores import build_spool
from spindle.errors import InvalidConfigError
from spindle.execution import ApprovalRequest

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

UPSTREAM = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("up")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run()
"""


def configured(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "spindle.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})


async def answer(runtime: Runtime, name: str, **args: Any) -> Ok | Err:
    context = ToolContext(session_id="s", turn_id="t")
    [outcome] = await runtime.executor.execute_parallel([Call("c", name, args)], context)
    return outcome.result


async def test_the_defaults_run_the_kit_on_the_scratch_workspace(tmp_path: Path) -> None:
    config = load_config(cwd=tmp_path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})

    async with open_runtime(config) as runtime:
        wrote = await answer(runtime, "write_file", path="a.txt", content="hello\n")
        journalled = await runtime.journal.list()

    assert wrote.ok
    assert (config.root / "a.txt").read_text() == "hello\n"
    assert [entry.tool for entry in journalled] == ["write_file"]
    assert runtime.servers is None
    assert {"terminal", "web_fetch", "ask_user"}.isdisjoint(tool.name for tool in runtime.registry)


async def test_limits_and_the_spool_are_those_of_the_file(tmp_path: Path) -> None:
    config = configured(tmp_path, '[tools]\nkit = ["files"]\n[limits]\nbudget_chars = 100\n')

    async with open_runtime(config) as runtime:
        (config.root / "big.txt").write_text("line\n" * 1000)
        read = await answer(runtime, "read_file", path="big.txt")
        kept = await build_spool(config).entries()

    assert isinstance(read, Ok)
    assert read.artifact is not None
    assert len(read.value) < 600
    assert [entry.byte_length for entry in kept] == [5000]


@pytest.mark.parametrize(("limits", "shown"), [("", 8_000), ("[limits]\npreview_chars = 300\n", 300)])
async def test_a_result_over_the_budget_is_shown_by_a_short_preview(tmp_path: Path, limits: str, shown: int) -> None:
    config = configured(tmp_path, f'[tools]\nkit = ["files"]\n{limits}')

    async with open_runtime(config) as runtime:
        (config.root / "big.txt").write_text(f"{'word ' * 199}\n" * 100)
        read = await answer(runtime, "read_file", path="big.txt")

    assert isinstance(read, Ok)
    assert read.artifact is not None
    assert 0.9 * shown < len(read.value.partition("\n[truncated — ")[0]) <= shown


async def test_someone_is_asked_where_a_tool_wants_it(tmp_path: Path, module: Callable[[str, str], None]) -> None:
    module(
        "money",
        "from spindle import tool\n@tool(requires_approval=True)\ndef pay() -> str:\n    'Pay.'\n    return 'paid'\n",
    )
    config = configured(tmp_path, f'[tools]\nmodules = ["money:pay"]\npython_path = ["{Path.cwd()}"]\n')
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.tool.name)
        return True

    async with open_runtime(config) as runtime:
        alone = await answer(runtime, "pay")
    async with open_runtime(config, approve=approve) as runtime:
        agreed = await answer(runtime, "pay")

    assert isinstance(alone, Err)
    assert alone.code == "needs_approval"
    assert agreed.ok
    assert asked == ["pay"]


async def test_a_batch_may_be_given_less_time_than_a_tool_takes_for_itself(
    tmp_path: Path, module: Callable[[str, str], None]
) -> None:
    module(
        "waits",
        "import anyio\nfrom spindle import tool\n"
        "@tool\nasync def rest() -> str:\n    'Rest.'\n    await anyio.sleep(60)\n",
    )
    config = configured(tmp_path, f'[tools]\nmodules = ["waits:rest"]\npython_path = ["{Path.cwd()}"]\n')

    with anyio.fail_after(30):
        async with open_runtime(config, batch_timeout_seconds=0.05) as runtime:
            result = await answer(runtime, "rest")

    assert isinstance(result, Err)
    assert result.code == "timed_out"


def test_a_profile_is_a_filter_and_an_unknown_one_an_error(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        '[spindle]\nprofile = "reader"\n[profiles.reader]\nallowed_tools = ["read_file"]\nexclude_tools = ["x"]\n'
        '[profiles.none]\nallowed_tools = []\nallowed_mcp_tools = {git = ["log"]}\n'
        'allowed_resources = ["spindle://git/*"]\nallowed_prompts = []\n',
    )

    mine, none = build_filter(config), build_filter(config, "none")

    assert mine is not None
    assert mine.allowed_tools == {"read_file"}
    assert mine.allowed_mcp_servers is None
    assert mine.exclude_tools == {"x"}
    assert none is not None
    assert none.allowed_tools == frozenset()
    assert dict(none.allowed_mcp_tools or {}) == {"git": {"log"}}
    assert (none.allowed_resources, none.allowed_prompts) == ({"spindle://git/*"}, frozenset())
    assert (mine.allowed_resources, mine.allowed_prompts) == (None, None)
    with pytest.raises(InvalidConfigError):
        build_filter(config, "raeder")


def test_a_configuration_without_profiles_has_no_filter(tmp_path: Path) -> None:
    assert build_filter(configured(tmp_path, "")) is None


async def test_journal_is_shared_with_another_process(tmp_path: Path) -> None:
    config = configured(tmp_path, '[tools]\nkit = ["clock"]\n')
    program = (
        "import sys, anyio\nfrom spindle.journal.journal import Journal\n"
        "async def main():\n"
        f"    async with Journal.sqlite({str(config.journal)!r}):\n"
        "        print(end='o', flush=True)\n"
        "        sys.stdin.read()\n"
        "anyio.run(main)\n"
    )
    async with await anyio.open_process([sys.executable, "-c", program], stderr=None) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        with anyio.fail_after(30):
            assert await other.stdout.receive() == b"o"
            async with open_runtime(config) as runtime:
                assert (await answer(runtime, "time_now")).ok
            await other.stdin.aclose()
            await other.wait()

    assert isinstance(config.journal, Path)
    async with Journal.sqlite(config.journal) as journal:
        assert [entry.tool for entry in await journal.list()] == ["time_now"]
    assert [near.name for near in (tmp_path / "state").glob("journal*.sqlite")] == ["journal.sqlite"]


@pytest.mark.slow
async def test_tools_of_an_mcp_server_stand_beside_our_own(tmp_path: Path) -> None:
    (tmp_path / "up.py").write_text(UPSTREAM, encoding="utf-8")
    config = configured(
        tmp_path,
        f'[tools]\nkit = ["clock"]\n[mcp.servers.up]\ncommand = "{sys.executable}"\nargs = ["up.py"]\ncwd = "."\n'
        '[mcp.servers.off]\ncommand = "nothing"\nenabled = false\n',
    )

    with anyio.fail_after(50):
        async with open_runtime(config) as runtime:
            entry = runtime.registry.entry("mcp__up__add")
            added = await answer(runtime, "mcp__up__add", a=1, b=2)
            status = [] if runtime.servers is None else runtime.servers.status()

    assert entry is not None
    assert (entry.mcp_server, entry.mcp_tool) == ("up", "add")
    assert isinstance(added, Ok)
    assert "3" in added.value
    assert [each.name for each in status] == ["up"]
