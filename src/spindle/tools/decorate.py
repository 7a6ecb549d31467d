"""The `@tool` decorator: a function becomes a tool."""

from collections.abc import Callable
from typing import Any, overload

from spindle.errors import InvalidToolError
from spindle.tools.declaration import Tool
from spindle.tools.signature import read_function


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(*, name: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: its name, its docstring and its signature; `options` are those of `Tool`.

    Raises:
        InvalidToolError: The function cannot be a tool.
    """
    if function is not None:
        return _make(function, name, options, depth=2)

    def decorate(function: Callable[..., Any]) -> Tool:
        return _make(function, name, options, depth=2)

    return decorate


def _make(function: Callable[..., Any], name: str | None, options: dict[str, Any], *, depth: int) -> Tool:
    if isinstance(function, type) or not callable(function):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise InvalidToolError(f"@tool makes a tool of a function, got {function!r}", tool=name, field="handler")
    taken = {"handler", "input_schema"} & options.keys()
    if taken:
        field = min(taken)
        raise InvalidToolError(f"@tool takes {field} from the function; use Tool({field}=…)", tool=name, field=field)
    read = read_function(function, name=name, depth=depth)
    return Tool(name=read.name, input_schema=read, **options)
