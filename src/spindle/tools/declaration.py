"""A tool: one schema that both describes and guards it, and a private handler."""

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
from spindle.tools.context import as_tool_context
from spindle.tools.function import Function, read_function
from spindle.tools.identity import fingerprint
from spindle.tools.invocation import Check, Execute, Runnable, executor_of, run_checks
from spindle.tools.schema.base import Schema, schema_of
from spindle.tools.tool_fields import MISSING, validate_tool_fields

Collision: TypeAlias = Literal["throw", "replace", "keep"]
Isolation: TypeAlias = Literal["thread", "process"]
Handler: TypeAlias = Callable[[Any, Any, FrozenStash], Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool:
    """A name, a description, a schema and a handler, with the flags that say how it may run; immutable.

    Raises:
        InvalidToolError: A value is bad or missing; every one of them is named.
    """

    name: str = MISSING
    """The key in a registry, and what the model calls it."""
    description: str = MISSING
    input_schema: Any = MISSING
    """A pydantic model, a dataclass, a TypedDict, or a JSON Schema dict."""
    handler: InitVar[Callable[..., Any]] = MISSING
    """`(args, ctx, meta)`, sync or async; private from here on."""
    artifact_constructor: Any = None
    """The class large results are wrapped in, or a function without arguments that gives it."""
    meta: Any = None
    """Yours, for the handler: a mapping, kept as a `FrozenStash`."""
    ephemeral: bool = False
    """Gone when its turn is acknowledged."""
    trusted: bool = False
    """Its output may be taken as the developer's own word."""
    on_collision: Collision = "throw"
    """What happens in a merge when another tool has this name already."""
    toolset: str | None = None
    max_result_chars: int | None = None
    capabilities: Capabilities = NO_CAPABILITIES
    is_available: Callable[[], object] | None = None
    """Asked anew for each listing and each call."""
    always_include: bool = False
    """Shown and runnable although a filter's `allowed_tools` does not name it."""
    requires_approval: bool = False
    return_direct: bool = False
    """Its result is the turn's answer."""
    cache: Any = None
    """`True` or a `CachePolicy`; kept as a `CachePolicy` or `None`."""
    timeout_seconds: float | None = None
    strict: bool = False
    """No coercion: `"5"` is not 5."""
    read_only: bool = False
    """It changes nothing, so equal calls may share one run."""
    idempotent: bool = False
    """Running it twice does no harm, so it may be tried again."""
    resources: Callable[[Any], Iterable[str]] | None = None
    """Names what a call touches; calls that share a name run one after another."""
    isolation: Isolation = "thread"
    """Where a sync handler runs."""
    checks: Sequence[Check] = ()
    """`(args, ctx)`, sync or async, run after the schema; raising `ValueError` refuses the call."""
    expose_errors: bool = False
    """Whether the model sees the class and message of what the handler raised."""
    secret_fields: Collection[str] = frozenset()
    """Arguments that are masked wherever they would be shown."""
    preview: Callable[[Any, Any], Any] | None = None
    """`(args, ctx)`: says what a call would do, for dry runs."""
    reconcile: Callable[[str, Any], Any] | None = None
    """`(key, ctx)`: finds out what became of an interrupted call."""
    _function: Function | None = field(init=False)
    _given_handler: Handler = field(init=False)

    def __post_init__(self, handler: Callable[..., Any]) -> None:
        function = self.input_schema if isinstance(self.input_schema, Function) else None
        kept = validate_tool_fields(self, handler, function) | {"_function": function, "_given_handler": handler}
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        if function is None:
            if isinstance(self.input_schema, Mapping):
                self._schema  # noqa: B018  a JSON Schema is foreign data: judged now, not at the first call
        else:
            # Left empty, so that `__getattr__` reads them from the function when someone looks.
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

    # Made on first use: most tools of a large registry are never looked at.

    @cached_property
    def _schema(self) -> Schema:
        source, secret = self._function or self.input_schema, frozenset(self.secret_fields)
        return schema_of(source, tool=self.name, strict=self.strict, secret_fields=secret)

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
            handler=function.handler() if function else self._given_handler,
            is_async=iscoroutinefunction(function.plain if function else self._given_handler),
            meta=self.meta,
            secret_fields=frozenset(self.secret_fields),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of name, description and schema; the same in every process."""
        return fingerprint(self.name, self.description, self._schema.json_schema())

    @property
    def origin(self) -> str:
        """Where the handler was written, as `module:function`."""
        source = self._function.plain if self._function else self._given_handler
        qualname = getattr(source, "__qualname__", None) or type(source).__qualname__
        return f"{getattr(source, '__module__', None) or '?'}:{qualname}"

    @staticmethod
    def is_tool(value: object) -> TypeGuard["Tool"]:
        """Whether `value` is a real tool, not something that looks like one."""
        return isinstance(value, Tool)

    def describe(self) -> dict[str, Any]:
        """Give what a model may know, as fresh plain data: `name`, `description` and `input_schema`."""
        # Parsing is the fastest way to a fresh copy, and nobody can change ours.
        return {"name": self.name, "description": self.description, "input_schema": from_json(self._schema_json)}

    async def validate(self, args: RawArgs) -> Any:
        """Check arguments against the schema and the tool's own checks, and give what the handler would get.

        Raises:
            InvalidToolArgsError: They do not fit.
        """
        schema = self._schema
        arguments = read_arguments(args, tool=self.name, empty_ok=schema.takes_nothing())
        value = schema.validator()(arguments, args)
        if self.checks:
            await run_checks(self.checks, value, None, tool=self.name)
        return value

    def executor(self, ctx: object) -> Execute:
        """Give the function that runs one call in `ctx`: checksum, validation, start event, handler, end event.

        It gives back the handler's value untouched.

        Raises:
            InvalidContextError: `ctx` is no context.
        """
        return executor_of(self._runnable, as_tool_context(ctx))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} from {self.origin}>"


def runnable_of(tool: Tool) -> Runnable:
    """Give what is needed to run a tool, its private handler too: for who runs tools, not for who uses them."""
    return tool._runnable  # pyright: ignore[reportPrivateUsage]


# The defaults live in `__init__`; left on the class they would answer for what is private, or made on first use.
for _name in ("handler", "description", "input_schema"):
    delattr(Tool, _name)


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
