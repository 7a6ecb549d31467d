"""The `Tool` class, which combines one schema with a private handler, and the `@tool` decorator."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, Literal, TypeAlias, TypeGuard, overload

from jiter import from_json
from pydantic_core import to_json

from spindle.calls import RawArgs
from spindle.capabilities.declare import NO_CAPABILITIES, Capabilities
from spindle.errors import InvalidToolError
from spindle.stash import FrozenStash
from spindle.tools.arguments import read_arguments
from spindle.tools.context import to_tool_context
from spindle.tools.function import Function, read_function
from spindle.tools.identity import fingerprint
from spindle.tools.invocation import Check, Execute, Runnable, build_executor, run_checks
from spindle.tools.schema.base import Schema, build_schema
from spindle.tools.tool_fields import MISSING, validate_tool_fields

Collision: TypeAlias = Literal["throw", "replace", "keep"]
Isolation: TypeAlias = Literal["thread", "process"]
Handler: TypeAlias = Callable[[Any, Any, FrozenStash], Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool:
    """An immutable tool: name, description, schema, handler, and options that control how it runs.

    Raises:
        InvalidToolError: A value is invalid or missing; the message names all of them.
    """

    name: str = MISSING
    """The key in a registry and the name the model uses."""
    description: str = MISSING
    input_schema: Any = MISSING
    """A pydantic model, a dataclass, a TypedDict, or a JSON Schema dict."""
    handler: InitVar[Callable[..., Any]] = MISSING
    """`(args, ctx, meta)`, sync or async; not accessible as an attribute."""
    artifact_constructor: Any = None
    """The class that wraps large results, or a function without arguments that returns it."""
    meta: Any = None
    """A mapping passed to the handler; stored as a `FrozenStash`."""
    ephemeral: bool = False
    """Removed from the registry when its turn is acked."""
    trusted: bool = False
    """Whether its output is trusted like text of the developer."""
    on_collision: Collision = "throw"
    """What a merge does if another tool already has this name."""
    toolset: str | None = None
    max_result_chars: int | None = None
    capabilities: Capabilities = NO_CAPABILITIES
    is_available: Callable[[], object] | None = None
    """Called for each listing and each call."""
    always_include: bool = False
    """Shown and runnable even if a filter's `allowed_tools` does not name it."""
    requires_approval: bool = False
    return_direct: bool = False
    """Whether its result is the turn's answer."""
    cache: Any = None
    """`True` or a `CachePolicy`; stored as a `CachePolicy` or `None`."""
    timeout_seconds: float | None = None
    strict: bool = False
    """Disables coercion: `"5"` is not accepted as 5."""
    read_only: bool = False
    """It has no side effects, so equal calls may share one run."""
    idempotent: bool = False
    """Running it twice has the effect of running it once, so it may be retried."""
    resources: Callable[[Any], Iterable[str]] | None = None
    """Returns the names of the resources a call uses; calls that share a name run sequentially."""
    isolation: Isolation = "thread"
    """Where a sync handler runs."""
    checks: Sequence[Check] = ()
    """`(args, ctx)`, sync or async, run after schema validation; raising `ValueError` rejects the call."""
    expose_errors: bool = False
    """Whether the model sees the class and message of the handler's exceptions."""
    secret_fields: Collection[str] = frozenset()
    """Arguments that are masked wherever they would be shown."""
    preview: Callable[[Any, Any], Any] | None = None
    """`(args, ctx)`: describes what a call would do, for dry runs."""
    reconcile: Callable[[str, Any], Any] | None = None
    """`(key, ctx)`: determines the outcome of an interrupted call."""
    _function: Function | None = field(init=False)
    _given_handler: Handler = field(init=False)

    def __post_init__(self, handler: Callable[..., Any]) -> None:
        function = self.input_schema if isinstance(self.input_schema, Function) else None
        kept = validate_tool_fields(self, handler, function) | {"_function": function, "_given_handler": handler}
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        if function is None:
            if isinstance(self.input_schema, Mapping):
                self._schema  # noqa: B018  a JSON Schema is external data: validated now, not at the first call
        else:
            # Left unset, so that `__getattr__` reads them from the function on first access.
            object.__delattr__(self, "input_schema")
            if self.description is MISSING:
                object.__delattr__(self, "description")

    def __getattr__(self, name: str) -> Any:
        if name == "description" and self._function:
            value: Any = self._function.docstring.description
        elif name == "input_schema":
            value = self.describe()["input_schema"]
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        object.__setattr__(self, name, value)
        return value

    # Built on first use: most tools of a large registry are never used.

    @cached_property
    def _schema(self) -> Schema:
        source, secret = self._function or self.input_schema, frozenset(self.secret_fields)
        return build_schema(source, tool=self.name, strict=self.strict, secret_fields=secret)

    @cached_property
    def _schema_json(self) -> bytes:
        return to_json(self._schema.json_schema())

    @cached_property
    def _runnable(self) -> Runnable:
        function = self._function
        return Runnable(
            name=self.name,
            schema=self._schema,
            checks=self.checks,
            handler=function.build_handler() if function else self._given_handler,
            is_async=iscoroutinefunction(function.underlying if function else self._given_handler),
            meta=self.meta,
            secret_fields=frozenset(self.secret_fields),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of name, description and schema; stable across processes."""
        return fingerprint(self.name, self.description, self._schema.json_schema())

    @property
    def origin(self) -> str:
        """Where the handler is defined, as `module:function`."""
        source = self._function.underlying if self._function else self._given_handler
        qualname = getattr(source, "__qualname__", None) or type(source).__qualname__
        return f"{getattr(source, '__module__', None) or '?'}:{qualname}"

    @staticmethod
    def is_tool(value: object) -> TypeGuard["Tool"]:
        """Return whether `value` is a `Tool` instance; lookalikes are not."""
        return isinstance(value, Tool)

    def describe(self) -> dict[str, Any]:
        """Return `name`, `description` and `input_schema` as a fresh dict of plain data: all that a model may know."""
        # Parsing is the fastest way to make a fresh copy, which the caller may change.
        return {"name": self.name, "description": self.description, "input_schema": from_json(self._schema_json)}

    async def validate(self, args: RawArgs) -> Any:
        """Validate arguments with the schema and the tool's checks, and return the value the handler would receive.

        Raises:
            InvalidToolArgsError: The arguments are invalid.
        """
        schema = self._schema
        arguments = read_arguments(args, tool=self.name, empty_ok=schema.can_be_empty())
        value = schema.validator()(arguments, args)
        if self.checks:
            await run_checks(self.checks, value, None, tool=self.name)
        return value

    def executor(self, ctx: object) -> Execute:
        """Return the function that runs one call in `ctx`: checksum, validation, start event, handler, end event.

        That function returns the handler's value unchanged.

        Raises:
            InvalidContextError: `ctx` is not a context.
        """
        return build_executor(self._runnable, to_tool_context(ctx))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} from {self.origin}>"


def get_runnable(tool: Tool) -> Runnable:
    """Return the parts needed to run a tool, including its private handler; for executors only."""
    return tool._runnable  # pyright: ignore[reportPrivateUsage]


# `__init__` has the defaults; as class attributes they would hide `__getattr__` and expose the private handler.
for _name in ("handler", "description", "input_schema"):
    delattr(Tool, _name)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(*, name: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Create a tool from a function's name, docstring and signature; `options` are those of `Tool`.

    Raises:
        InvalidToolError: The function cannot be used as a tool.
    """
    if function is not None:
        return _make(function, name, options, depth=2)

    def decorate(function: Callable[..., Any]) -> Tool:
        return _make(function, name, options, depth=2)

    return decorate


def _make(function: Callable[..., Any], name: str | None, options: dict[str, Any], *, depth: int) -> Tool:
    if isinstance(function, type) or not callable(function):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise InvalidToolError(f"@tool: expected a function, got {function!r}.", tool=name, field="handler")
    taken = {"handler", "input_schema"} & options.keys()
    if taken:
        field = min(taken)
        raise InvalidToolError(
            f"@tool takes {field} from the function. To set it, use Tool({field}=…).", tool=name, field=field
        )
    read = read_function(function, name=name, depth=depth)
    return Tool(name=read.name, input_schema=read, **options)
