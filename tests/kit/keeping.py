"""One storage for several tools of one toolset, as a session has it."""

from typing import Any

from spindle import Err, Tool, ToolContext
from spindle.capabilities import CallScope, StorageBackend


class Kept:
    """Runs tools on a real storage backend; each session has a place of its own."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._backend = StorageBackend.memory()

    async def call(self, tool: Tool, *, session: str = "s1", **args: Any) -> Any:
        """Call a tool, and give what its handler gave."""
        handle = self._backend.open("session", CallScope(tool=self._owner, session_id=session))
        return await tool.executor(ToolContext(session, handles={"storage": handle}))(args)

    async def err(self, tool: Tool, **args: Any) -> Err:
        """Call a tool that is to fail."""
        result = await self.call(tool, **args)
        assert isinstance(result, Err), result
        return result
