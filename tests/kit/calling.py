"""Ready-made tools, called as a model's calls are: by name, through an executor, with real backends."""

from pathlib import Path
from typing import Any

from spindle import Backends, Call, Err, Executor, Ok, ToolContext, ToolRegistry
from spindle.kit.default_tools import kit_tools
from spindle.kit.reducers import default_reducers


class Workshop:
    """The whole kit on one folder, with what a test grants it."""

    def __init__(self, root: Path, *, reduced: bool = False, **grants: Any) -> None:
        self.root = root
        self.executor = Executor(
            ToolRegistry(kit_tools()),
            backends=Backends.local(root, **grants),
            reducers=default_reducers() if reduced else None,
        )
        self._calls = 0

    async def call(self, name: str, /, *, ctx: ToolContext | None = None, **args: Any) -> Ok | Err:
        """Call one tool, and give what became of it."""
        self._calls += 1
        call = Call(f"c{self._calls}", name, args)
        (outcome,) = await self.executor.execute_parallel([call], ctx or ToolContext(session_id="s1"))
        return outcome.result

    async def ok(self, name: str, /, **args: Any) -> Ok:
        """Call one tool that is to succeed."""
        result = await self.call(name, **args)
        assert isinstance(result, Ok), result
        return result

    async def err(self, name: str, /, **args: Any) -> Err:
        """Call one tool that is to fail."""
        result = await self.call(name, **args)
        assert isinstance(result, Err), result
        return result
