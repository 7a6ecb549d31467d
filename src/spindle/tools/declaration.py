"""The `Tool` class, which combines one schema with a private handler, and the `@tool` decorator."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from functools import cache, cached_property, partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeAlias, TypeGuard, Unpack, cast, overload

from jiter import from_json
from typing_extensions import TypeVar

from spindle.calls import Label, RawArgs
from spindle.capabilities.declare import NO_CAPABILITIES, Capabilities
from spindle.errors import InvalidToolError
from spindle.json_types import untyped
from spindle.stash import EMPTY, FrozenStash
from spindle.text import shorten
from spindle.tools import schema as schemas
from spindle.tools.arguments import read_arguments
from spindle.tools.function import AnyFunction, Function, read_function
from spindle.tools.identity import fingerprint
from spindle.tools.invocation import Check, Execute, Runnable, build_executor, run_checks, to_tool_context
from spindle.tools.schema.base import Schema, build_schema
from spindle.tools.tool_fields import (
    MISSING,
    NO_ROLES,
    A_co,
    ArtifactConstructor,
    CachePolicy,
    Collision,
    Isolation,
    Missing,
    RunOptions,
    ToolOptions,
    check_field_early,
    validate_tool_fields,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

    from spindle.trust.flow.roles import Produces, Role, ToolFlow

Handler: TypeAlias = Callable[[Any, Any, FrozenStash], Any]
InputSchema: TypeAlias = type[Any] | Mapping[str, Any]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class _ToolSchema:
    """`Tool.schema`: created on first access, because importing pydantic takes long."""

    def __get__(self, instance: object, owner: type["Tool"]) -> "TypeAdapter[Tool]":
        return _build_adapter(owner)


@cache
def _build_adapter(owner: type["Tool"]) -> "TypeAdapter[Tool]":
    from pydantic import TypeAdapter  # noqa: PLC0415  takes long to import

    adapter: TypeAdapter[Any] = TypeAdapter(owner)
    return adapter


class Tool(Generic[A_co]):
    """An immutable tool: name, description, schema, handler, and options that control how it runs.

    `Tool[JsonArtifact]` is a tool with that `artifact_constructor`. As a pydantic field type, `Tool` accepts instances
    and mappings of the constructor's arguments.

    Raises:
        InvalidToolError: A value is invalid or missing; the message names all of them.
    """

    name: str
    """The key in a registry and the name the model uses."""
    artifact_constructor: type[A_co] | None = None
    """The class that wraps results; the constructor also takes a function without arguments that returns it."""
    meta: FrozenStash = EMPTY
    """A mapping passed to the handler."""
    ephemeral: bool = False
    """Removed from the registry when its turn is acked."""
    trusted: bool = False
    """Whether its output is trusted like text of the developer: short for `output="trusted"`."""
    output: Label = "third-party-private"
    """The trust label of its output."""
    destructive: bool = False
    """Its effect cannot be undone, so a flow policy always asks once third-party content has entered the session."""
    produces: "Produces | None" = None
    """The records it returns; the constructor takes a kind such as `"file"`, or `{"file": "items.*.file_id"}`."""
    roles: "Mapping[str, Role]" = NO_ROLES
    """Roles of arguments by dotted path, beside those in annotations; the constructor also takes their texts."""
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
    cache: CachePolicy | None = None
    """How its results are cached; the constructor takes `True` for the default policy."""
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
    _description: str | Missing
    _source: InputSchema | Function
    _given_handler: Handler

    is_artifact_reader = False
    """Whether it was forged to read artifacts; no readers are forged for its own results."""
    schema = _ToolSchema()
    """The pydantic `TypeAdapter` of tools: accepts instances and mappings of the constructor's arguments."""

    @overload
    def __init__(
        self,
        *,
        name: str,
        description: str,
        input_schema: InputSchema,
        handler: AnyFunction,
        artifact_constructor: ArtifactConstructor[A_co] = None,
        **options: Unpack[RunOptions],
    ) -> None: ...

    @overload
    def __init__(self, *, name: str, input_schema: Function, **options: Unpack[ToolOptions]) -> None: ...

    def __init__(
        self,
        *,
        name: str | Missing = MISSING,
        description: str | Missing = MISSING,
        input_schema: InputSchema | Function | Missing = MISSING,
        handler: AnyFunction | Missing = MISSING,
        **options: Any,
    ) -> None:
        """Take `handler`, sync or async, as `(args, ctx, meta)`; all other options are fields.

        `input_schema` is a pydantic model, a dataclass, a TypedDict, or a JSON Schema dict.
        """
        unknown = options.keys() - ToolOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"Tool() got an unexpected keyword argument {min(unknown)!r}")
        body = {"name": name, "description": description, "input_schema": input_schema, "handler": handler}
        stored = validate_tool_fields(body, options)
        # A default is not stored: it is the attribute of the class.
        vars(self).update(stored, name=name, _description=description, _source=input_schema, _given_handler=handler)
        if isinstance(input_schema, Mapping):
            self._schema  # noqa: B018  a JSON Schema is external data: validated now, not at the first call
        if self.roles:
            check_field_early(lambda: self._flow, "roles")

    # Not a dataclass, because pydantic would validate `Tool[JsonArtifact]` as one.

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    @property
    def description(self) -> str:
        """What the model reads about the tool; the function's docstring if not given."""
        if self._description is not MISSING:
            return self._description
        return self._function.docstring.description if self._function else ""

    @property
    def input_schema(self) -> InputSchema:
        """The schema as it was given; of a function, its JSON Schema."""
        return self.describe()["input_schema"] if isinstance(self._source, Function) else self._source

    @property
    def _function(self) -> Function | None:
        return self._source if isinstance(self._source, Function) else None

    # Built on first use: most tools of a large registry are never used.

    @cached_property
    def _schema(self) -> Schema:
        secret = frozenset(self.secret_fields)
        return build_schema(self._source, tool=self.name, strict=self.strict, secret_fields=secret)

    @cached_property
    def _schema_json(self) -> bytes:
        from pydantic_core import to_json  # noqa: PLC0415  takes long to import

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
            timeout_seconds=self.timeout_seconds,
            requires_approval=self.requires_approval,
            capabilities=self.capabilities,
            isolation=self.isolation,
            has_availability=self.is_available is not None,
            layers=self._layers,
        )

    @property
    def _layers(self) -> frozenset[str]:
        has_option = {
            "checks": bool(self.checks),
            "cache": self.cache is not None,
            "capabilities": self.capabilities is not NO_CAPABILITIES,
            "retries": self.idempotent,
        }
        return frozenset(name for name, is_set in has_option.items() if is_set)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of name, description and schema; stable across processes."""
        return fingerprint(self.name, self.description, self._schema.json_schema())

    @property
    def flow(self) -> "ToolFlow":
        """What a flow policy knows about the tool."""
        return self._flow

    @cached_property
    def _flow(self) -> "ToolFlow":
        return schemas.build_flow(self, self._schema)

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
        value = schema.validator()(arguments)
        if self.checks:
            await run_checks(self.checks, value, None, tool=self.name)
        return value

    def executor(self, ctx: object) -> Execute:
        """Return the function that runs one call in `ctx`: checksum, validation, start event, handler, end event.

        That function returns the handler's value unchanged. In a context of an executor, which is that of a turn, a
        dispatch or a call, it keeps what the executor promises, and raises errors such as `ToolTimeoutError`,
        `ApprovalDeniedError` and `ApprovalRequiredError`. A context made by hand is bare: only the timeout is kept.

        Raises:
            InvalidContextError: `ctx` is not a context.
            UsageError: `ctx` is bare, and the tool requires approval, capabilities or a process.
        """
        return build_executor(self, self._runnable, to_tool_context(ctx))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} from {self.origin}>"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema  # noqa: PLC0415  takes long to import

        read = partial(_read_tool, cls, getattr(source, "__args__", ()))
        written = core_schema.plain_serializer_function_ser_schema(cls.describe, when_used="json")
        return core_schema.no_info_plain_validator_function(read, serialization=written)


def _read_tool(cls: type[Tool], artifacts: tuple[object, ...], value: object) -> Tool:
    """Validate a pydantic field: an instance of `cls`, or a mapping of the arguments of `Tool`."""
    from pydantic_core import PydanticCustomError  # noqa: PLC0415  takes long to import

    if cls is Tool and isinstance(value, Mapping):
        given = dict(cast("Mapping[Any, Any]", value))
        unknown = [name for name in given if name not in _ARGUMENTS]
        if unknown:
            raise PydanticCustomError("tool", "Unknown key {key} of a tool", {"key": shorten(repr(unknown[0]), 80)})
        try:
            value = Tool(**given)
        except InvalidToolError as error:
            raise PydanticCustomError("tool", "{reason}", {"reason": str(error)}) from error
    if not isinstance(value, cls):
        raise PydanticCustomError("tool", "Expected a {kind}", {"kind": cls.__name__})
    made = cast("Tool", value)
    wanted: object = artifacts[0] if artifacts and cls is Tool else None
    found = made.artifact_constructor
    if isinstance(wanted, type) and found is not None and not issubclass(found, wanted):
        facts = {"wanted": wanted.__name__, "found": found.__name__}
        raise PydanticCustomError("tool", "Expected a tool with artifacts of {wanted}, got {found}", facts)
    return made


_ARGUMENTS = {"name", "input_schema", "handler", *ToolOptions.__annotations__}


class FunctionTool(Tool[Any], Generic[P, R_co]):
    """A tool made by `@tool`; called, it runs the plain function, without validation, checks or approval."""

    def __init__(self, function: Function, options: ToolOptions) -> None:
        super().__init__(name=function.name, input_schema=function, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function; a context parameter takes the context that the caller passes."""
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function; `inspect.signature` reads it."""
        return cast("Function", self._source).call


def get_runnable(tool: Tool) -> Runnable:
    """Return the parts needed to run a tool, including its private handler; for executors only."""
    return tool._runnable  # pyright: ignore[reportPrivateUsage]


@overload
def tool(function: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(
    *, name: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]: ...


def tool(
    function: AnyFunction | None = None, /, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> FunctionTool[..., Any] | Callable[[AnyFunction], FunctionTool[..., Any]]:
    """Create a tool from a function's name, docstring and signature; `options` are those of `Tool`.

    Raises:
        InvalidToolError: The function cannot be used as a tool.
    """
    if function is not None:
        return _make(function, name, options, depth=2)

    def decorate(function: AnyFunction) -> FunctionTool[..., Any]:
        return _make(function, name, options, depth=2)

    return decorate


def _make(function: AnyFunction, name: str | None, options: ToolOptions, *, depth: int) -> FunctionTool[..., Any]:
    if isinstance(untyped(function), (type, Tool)) or not callable(function):
        raise InvalidToolError(f"@tool: expected a function, got {function!r}.", tool=name, field="handler")
    taken = {"handler", "input_schema"} & options.keys()
    if taken:
        field = min(taken)
        raise InvalidToolError(
            f"@tool takes {field} from the function. To set it, use Tool({field}=…).", tool=name, field=field
        )
    return FunctionTool(read_function(function, name=name, depth=depth), options)
