"""A tool: one schema that both describes and guards it, and a private handler."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, TypeAlias, TypeGuard, cast

from spindle.calls import RawArgs
from spindle.capabilities.declare import NO_CAPABILITIES, Capabilities
from spindle.stash import FrozenStash
from spindle.tools.arguments import read_arguments
from spindle.tools.cache import CachePolicy
from spindle.tools.checking import MISSING, checked
from spindle.tools.context import as_tool_context
from spindle.tools.copying import copier
from spindle.tools.identity import fingerprint
from spindle.tools.running import Execute, execute_of, run_checks
from spindle.tools.schema import Schema, schema_of
from spindle.tools.signature import Function

Collision: TypeAlias = Literal["throw", "replace", "keep"]
Isolation: TypeAlias = Literal["thread", "process"]
Handler: TypeAlias = Callable[[Any, Any, FrozenStash], Any]
Check: TypeAlias = Callable[[Any, Any], Any]


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
    meta: FrozenStash = cast("Any", None)
    """Yours, for the handler: a mapping, kept as a frozen dot-path view."""
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
    checks: tuple[Check, ...] = ()
    """`(args, ctx)`, sync or async, run after the schema; raising `ValueError` refuses the call."""
    expose_errors: bool = False
    """Whether the model sees the class and message of what the handler raised."""
    secret_fields: frozenset[str] = frozenset()
    """Arguments that are masked wherever they would be shown."""
    preview: Callable[[Any, Any], Any] | None = None
    """`(args, ctx)`: says what a call would do, for dry runs."""
    reconcile: Callable[[str, Any], Any] | None = None
    """`(key, ctx)`: finds out what became of an interrupted call."""
    _handler: Handler = field(init=False)
    _function: Function | None = field(init=False)
    _schema: Schema = field(init=False)
    _describe: Callable[[], dict[str, Any]] = field(init=False)
    _fingerprint: str = field(init=False)

    def __post_init__(self, handler: Callable[..., Any]) -> None:
        function = self.input_schema if isinstance(self.input_schema, Function) else None
        for name, value in checked(self, handler, function).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_function", function)
        if function is None:
            object.__setattr__(self, "_handler", handler)
            if isinstance(self.input_schema, Mapping):
                self._schema  # noqa: B018  a JSON Schema is foreign data: judged now, not at the first call
        else:
            # Left empty, so that `__getattr__` reads them from the function when someone looks.
            object.__delattr__(self, "input_schema")
            if self.description is MISSING:
                object.__delattr__(self, "description")

    def __getattr__(self, name: str) -> Any:
        """Make on first use what is expensive: most tools of a large registry are never looked at."""
        make = _MADE_ON_FIRST_USE.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self)
        object.__setattr__(self, name, value)
        return value

    @property
    def fingerprint(self) -> str:
        """A hash of name, description and schema; the same in every process."""
        return self._fingerprint

    @property
    def origin(self) -> str:
        """Where the handler was written, as `module:function`."""
        source = self._function.plain if self._function else self._handler
        qualname = getattr(source, "__qualname__", None) or type(source).__qualname__
        return f"{getattr(source, '__module__', None) or '?'}:{qualname}"

    @staticmethod
    def is_tool(value: object) -> TypeGuard["Tool"]:
        """Whether `value` is a real tool, not something that looks like one."""
        return isinstance(value, Tool)

    def describe(self) -> dict[str, Any]:
        """Give what a model may know, as fresh plain data: `name`, `description` and `input_schema`."""
        return self._describe()

    async def validate(self, args: RawArgs) -> Any:
        """Check arguments against the schema and the tool's own checks, and give what the handler would get.

        Raises:
            InvalidToolArgsError: They do not fit.
        """
        schema = self._schema
        value = schema.validate(read_arguments(args, tool=self.name, empty_ok=schema.takes_nothing), args)
        if self.checks:
            await run_checks(self.checks, value, None, tool=self.name)
        return value

    def executor(self, ctx: object) -> Execute:
        """Give the function that runs one call in `ctx`: checksum, validation, start event, handler, end event.

        It gives back the handler's value untouched.

        Raises:
            InvalidContextError: `ctx` is no context.
        """
        return execute_of(self, self._schema, self._handler, as_tool_context(ctx))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} from {self.origin}>"


# The defaults live in `__init__`; left on the class they would answer for what is private, or made on first use.
for _name in ("handler", "description", "input_schema"):
    delattr(Tool, _name)


def _described(tool: Tool) -> Callable[[], dict[str, Any]]:
    schema = tool._schema.json_schema  # noqa: SLF001  this file is the tool
    return copier({"name": tool.name, "description": tool.description, "input_schema": schema})


def _function_of(tool: Tool) -> Function:
    return cast("Function", tool._function)  # noqa: SLF001


_MADE_ON_FIRST_USE: dict[str, Callable[[Tool], Any]] = {
    "description": lambda tool: _function_of(tool).docstring.description,
    "input_schema": lambda tool: tool.describe()["input_schema"],
    "_handler": lambda tool: _function_of(tool).handler(),
    "_schema": lambda tool: schema_of(
        tool._function or tool.input_schema,  # noqa: SLF001
        tool=tool.name,
        strict=tool.strict,
        secret_fields=tool.secret_fields,
    ),
    "_describe": _described,
    "_fingerprint": lambda tool: fingerprint(tool.name, tool.description, tool.describe()["input_schema"]),
}
