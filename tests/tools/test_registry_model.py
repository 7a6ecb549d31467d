"""The registry against the simplest model of it: a list."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import BaseModel

from spindle.errors import ToolAlreadyRegisteredError, UnknownToolError
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from tests.fuzzing import examples


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str, *, ephemeral: bool = False) -> Tool:
    return Tool(name=name, description="A tool.", input_schema=Query, handler=answer, ephemeral=ephemeral)


NAMES = st.sampled_from(["a", "b", "c", "mcp__s__t"])


class Row:
    """A tool in the model: a list in which everything is looked for from the start."""

    def __init__(self, tool: Tool, plugin_id: str | None) -> None:
        self.tool, self.plugin_id, self.hidden = tool, plugin_id, False


class RegistryAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = ToolRegistry()
        self.rows: list[Row] = []
        self.snapshots: list[tuple[ToolRegistry, list[Tool]]] = []

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.tool.name == name), None)

    @rule(name=NAMES, ephemeral=st.booleans(), overwrite=st.booleans(), plugin_id=st.none() | st.just("p"))
    def register(self, name: str, ephemeral: bool, overwrite: bool, plugin_id: str | None) -> None:
        tool, row = make(name, ephemeral=ephemeral), self.row(name)
        if row is not None and not overwrite:
            with pytest.raises(ToolAlreadyRegisteredError):
                self.registry.register(tool, plugin_id=plugin_id)
            return
        self.registry.register(tool, overwrite=overwrite, plugin_id=plugin_id)
        if row is None:
            self.rows.append(Row(tool, plugin_id))
        else:
            row.tool, row.plugin_id = tool, plugin_id

    @rule(batch=st.lists(NAMES, max_size=3))
    def register_all(self, batch: list[str]) -> None:
        tools = [make(name) for name in batch]
        if len(set(batch)) < len(batch) or any(self.row(name) for name in batch):
            with pytest.raises(ToolAlreadyRegisteredError):
                self.registry.register_all(tools)
        else:
            self.registry.register_all(tools)
            self.rows += [Row(tool, None) for tool in tools]

    @rule(name=NAMES)
    def unregister(self, name: str) -> None:
        self.registry.unregister(name)
        self.rows = [row for row in self.rows if row.tool.name != name]

    @rule(name=NAMES, hidden=st.booleans())
    def hide_or_show(self, name: str, hidden: bool) -> None:
        change, row = (self.registry.hide if hidden else self.registry.show), self.row(name)
        if row is None:
            with pytest.raises(UnknownToolError):
                change(name)
        else:
            change(name)
            row.hidden = hidden

    @rule()
    def prune(self) -> None:
        assert self.registry.prune_ephemeral() == [row.tool.name for row in self.rows if row.tool.ephemeral]
        self.rows = [row for row in self.rows if not row.tool.ephemeral]

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule(by_merge=st.booleans())
    def go_on_with_a_copy(self, by_merge: bool) -> None:
        self.snapshots.append((self.registry, self.registry.all()))
        self.registry = ToolRegistry.merge([self.registry]) if by_merge else self.registry.copy()

    @invariant()
    def they_agree(self) -> None:
        tools = [row.tool for row in self.rows]
        assert list(self.registry) == self.registry.all() == tools
        assert len(self.registry) == len(tools)
        for row in self.rows:
            name = row.tool.name
            assert self.registry.get(name) is row.tool
            assert (self.registry.plugin_id(name), self.registry.is_hidden(name)) == (row.plugin_id, row.hidden)
        shown = [row.tool.name for row in self.rows if not row.hidden]
        assert [reported["name"] for reported in self.registry.to_definitions()] == shown
        only_a = ToolFilter(allowed_tools=["a"])  # it does not restrict the tools of plugins and servers
        filtered = [
            row.tool.name
            for row in self.rows
            if not row.hidden and (row.plugin_id or row.tool.name in {"a", "mcp__s__t"})
        ]
        assert [reported["name"] for reported in self.registry.to_definitions(only_a)] == filtered

    @invariant()
    def what_was_copied_from_has_not_changed(self) -> None:
        assert all(registry.all() == tools for registry, tools in self.snapshots)


TestRegistryAgainstAList = RegistryAgainstAList.TestCase
TestRegistryAgainstAList.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
