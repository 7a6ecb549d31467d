"""The options of a tool and the validation of its fields."""

import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypedDict, Union, get_args, get_origin

from typing_extensions import TypeVar, is_typeddict

from spindle.calls import LABELS, ArtifactShape, Label
from spindle.capabilities.declare import NO_CAPABILITIES, Capabilities
from spindle.errors import InvalidStashError, InvalidToolError, InvalidTrustError
from spindle.json_types import is_callback, is_iterable, is_mapping
from spindle.stash import EMPTY, FrozenStash
from spindle.text import shorten
from spindle.tools import schema as schemas
from spindle.tools.function import Function
from spindle.tools.invocation import Check

if TYPE_CHECKING:
    from spindle.trust.flow.roles import Produces, Role

CacheScope: TypeAlias = Literal["session", "turn", "global"]
Collision: TypeAlias = Literal["throw", "replace", "keep"]
Isolation: TypeAlias = Literal["thread", "process"]
A_co = TypeVar("A_co", bound=ArtifactShape, covariant=True, default=ArtifactShape)
ArtifactConstructor: TypeAlias = type[A_co] | Callable[[], type[A_co]] | None


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How long and in which scope a tool's successful results are cached; `Tool(cache=True)` uses the defaults.

    Raises:
        InvalidToolError: A value is invalid.
    """

    ttl_seconds: float = 300
    scope: CacheScope = "session"
    key: Callable[[Any], str] | None = None
    """Computes the cache key from the validated arguments; the default is their checksum."""

    def __post_init__(self) -> None:
        if not _is_time(self.ttl_seconds):
            raise _wrong("ttl_seconds must be a positive number of seconds", self.ttl_seconds)
        if self.scope not in get_args(CacheScope):
            raise _wrong(f"scope must be one of {', '.join(get_args(CacheScope))}", self.scope)
        if self.key is not None and not callable(self.key):
            raise _wrong("key must be a function of the arguments", self.key)


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0  # False for NaN


def _wrong(rule: str, value: object) -> InvalidToolError:
    return InvalidToolError(f"CachePolicy: {rule}, got {value!r}", field="cache")


class RunOptions(TypedDict, total=False):
    """The options that control how a tool runs; the fields of `Tool` explain them."""

    meta: Mapping[str, Any] | FrozenStash | None
    ephemeral: bool
    trusted: bool
    output: Label | None
    destructive: bool
    produces: "str | Mapping[str, str] | Produces | None"
    roles: "Mapping[str, Role | str] | None"
    on_collision: Collision
    toolset: str | None
    max_result_chars: int | None
    capabilities: Capabilities
    is_available: Callable[[], object] | None
    always_include: bool
    requires_approval: bool
    return_direct: bool
    cache: CachePolicy | bool | None
    timeout_seconds: float | None
    strict: bool
    read_only: bool
    idempotent: bool
    resources: Callable[[Any], Iterable[str]] | None
    isolation: Isolation
    checks: Sequence[Check]
    expose_errors: bool
    secret_fields: Collection[str]
    preview: Callable[[Any, Any], Any] | None
    reconcile: Callable[[str, Any], Any] | None


class ToolOptions(RunOptions, total=False):
    """The options of `@tool`; the fields of `Tool` explain them."""

    description: str
    artifact_constructor: ArtifactConstructor[ArtifactShape]


NO_ROLES: Final[Mapping[str, Any]] = MappingProxyType({})


class Missing(Enum):
    """The type of `MISSING`, which stands for an argument that was not given."""

    MISSING = "nothing"


MISSING: Final = Missing.MISSING

_NO_OBJECTS = (str, bytes, int, float, complex, list, tuple, set, frozenset, type(None), Enum)
"""Types that JSON writes as something other than an object."""

FieldProblems: TypeAlias = list[tuple[str, str]]
"""The problems of one tool: pairs of field name and message."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule for one field; its default is not checked, which keeps the creation of many tools cheap."""

    default: object
    fits: Callable[[object], object]
    expected: str


def _is_flag(value: object) -> bool:
    return value is True or value is False


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_positive(value: object) -> bool:
    return (type(value) is int or type(value) is float) and value > 0 and math.isfinite(value)


def _is_sync_function(value: object) -> bool:
    return callable(value) and not inspect.iscoroutinefunction(value)


_FLAG, _FUNCTION = _Rule(False, _is_flag, "True or False"), _Rule(None, is_callback, "a function")  # noqa: FBT003

_RULES: dict[str, _Rule] = {
    "ephemeral": _FLAG,
    "trusted": _FLAG,
    "always_include": _FLAG,
    "requires_approval": _FLAG,
    "return_direct": _FLAG,
    "strict": _FLAG,
    "read_only": _FLAG,
    "idempotent": _FLAG,
    "destructive": _FLAG,
    "output": _Rule(None, LABELS.__contains__, "one of " + ", ".join(map(repr, LABELS))),
    "expose_errors": _FLAG,
    "resources": _Rule(None, _is_sync_function, "a sync function"),
    "preview": _FUNCTION,
    "reconcile": _FUNCTION,
    "is_available": _Rule(None, _is_sync_function, "a sync function"),
    "on_collision": _Rule("throw", {"throw", "replace", "keep"}.__contains__, "'throw', 'replace' or 'keep'"),
    "isolation": _Rule("thread", {"thread", "process"}.__contains__, "'thread' or 'process'"),
    "toolset": _Rule(None, _is_text, "a non-empty str"),
    "max_result_chars": _Rule(None, lambda value: type(value) is int and value >= 1, "a positive integer"),
    "timeout_seconds": _Rule(None, _is_positive, "a positive number"),
    "capabilities": _Rule(NO_CAPABILITIES, lambda value: isinstance(value, Capabilities), "Capabilities(…)"),
}


def validate_tool_fields(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the arguments of a tool, and return its options as they are stored; those left out stay left out.

    Raises:
        InvalidToolError: Names every invalid or missing value.
    """
    complaints: FieldProblems = []
    _complain_unless(_is_text(body["name"]), "name", "a non-empty str", body["name"], complaints)
    stored = dict(options)
    for field, value in options.items():
        rule = _RULES.get(field)
        if rule is not None and value is not rule.default:
            _complain_unless(_fits(rule, value), field, rule.expected, value, complaints)
        elif convert := _CONVERSIONS.get(field):
            stored[field] = convert(value, complaints)
    _resolve_output(stored, complaints)
    if options.get("destructive") and options.get("read_only"):
        complaints.append(("destructive", "destructive=True contradicts read_only=True: give one of them"))
    _check_body(body, options, complaints)
    if complaints:
        raise _invalid(body["name"], complaints)
    return stored


def check_field_early(build: Callable[[], object], field: str) -> None:
    """Build a part of a tool when it is made, for the errors of one field.

    Others may be annotations whose names are defined later; the first use reports them.

    Raises:
        InvalidToolError: That field is invalid.
    """
    try:
        build()
    except InvalidToolError as error:
        if error.field == field:
            raise


def _resolve_output(stored: dict[str, Any], complaints: FieldProblems) -> None:
    """Make `trusted` and `output` say the same: the label of the output is `trusted` exactly if the tool is."""
    output, is_trusted = stored.pop("output", None), stored.get("trusted") is True
    if is_trusted and output not in (None, "trusted"):
        complaints.append(("output", f"output={_format(output)} contradicts trusted=True: give one of them"))
    if is_trusted or output == "trusted":
        stored |= {"trusted": True, "output": "trusted"}
    elif output is not None:
        stored["output"] = output


def is_argument_type(value: object) -> bool:
    """Return whether `value` is a class that pydantic can validate an object into."""
    if not isinstance(value, type) or _is_never_object(value):
        return False
    return hasattr(value, "__dataclass_fields__") or is_typeddict(value) or hasattr(value, "__pydantic_core_schema__")


def _is_never_object(hint: Any) -> bool:
    """Return whether a type surely has no JSON object as its form, such as a `RootModel[list]`."""
    if getattr(hint, "__pydantic_root_model__", False):
        root: Any = getattr(hint, "__pydantic_fields__", {}).get("root")
        return root is not None and _is_never_object(root.annotation)
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_never_object(get_args(hint)[0])
    if origin in {Union, types.UnionType}:
        return all(map(_is_never_object, get_args(hint)))
    kind = hint if origin is None else origin
    return kind is None or kind is Literal or (isinstance(kind, type) and issubclass(kind, _NO_OBJECTS))


def _fits(rule: _Rule, value: object) -> bool:
    try:
        return bool(rule.fits(value))
    except TypeError:  # an unhashable value cannot be one of the choices
        return False


def _check_body(body: Mapping[str, Any], options: Mapping[str, Any], complaints: FieldProblems) -> None:
    description, handler = body["description"], body["handler"]
    schema: object = body["input_schema"]
    if isinstance(schema, Function):
        if description is MISSING:
            description = schema.underlying.__doc__ or MISSING
        expected, handler = "the function's docstring or description=…", schema.underlying
    else:
        expected = "a non-empty str"
        fine = callable(handler) and not hasattr(handler, "artifact_constructor")  # a FunctionTool is not a handler
        _complain_unless(fine, "handler", "a function (args, ctx, meta)", handler, complaints)
        fits = "a pydantic model, a dataclass, a TypedDict or a JSON Schema dict"
        fine = isinstance(schema, Mapping) or is_argument_type(schema)
        _complain_unless(fine, "input_schema", fits, body["input_schema"], complaints)
    fine = isinstance(description, str) and description.strip()
    _complain_unless(fine, "description", expected, description, complaints)
    if options.get("isolation") == "process":
        is_async = inspect.iscoroutinefunction(handler)
        _complain_unless(not is_async, "isolation", "'thread' for an async handler", "process", complaints)


def _complain_unless(fine: object, field: str, expected: str, got: object, complaints: FieldProblems) -> None:
    if not fine:
        shown = "nothing" if got is MISSING else _format(got)
        complaints.append((field, f"{field} must be {expected}, got {shown}"))


def _format(value: object) -> str:
    return shorten(repr(value), 80)


def _invalid(name: object, complaints: FieldProblems) -> InvalidToolError:
    name = name if isinstance(name, str) else None
    who = f"Invalid tool {name!r}" if name else "Invalid tool"
    text = "; ".join(words for _, words in complaints)
    return InvalidToolError(f"{who}: {text}.", tool=name, field=complaints[0][0])


def _meta(value: object, complaints: FieldProblems) -> FrozenStash:
    if value is None:
        return EMPTY
    if isinstance(value, FrozenStash):
        return value
    meta = value if is_mapping(value) else None
    fine = meta is not None and all(isinstance(key, str) for key in meta)
    _complain_unless(fine, "meta", "a mapping with str keys", value, complaints)
    try:
        return FrozenStash(meta)
    except InvalidStashError as error:
        complaints.append(("meta", f"meta: {error}"))
        return EMPTY


def _cache(value: object, complaints: FieldProblems) -> CachePolicy | None:
    if value is None or value is False:
        return None
    if value is True:
        return CachePolicy()
    if isinstance(value, CachePolicy):
        return value
    _complain_unless(False, "cache", "True or a CachePolicy", value, complaints)  # noqa: FBT003
    return None


def _checks(value: object, complaints: FieldProblems) -> tuple[object, ...]:
    if value == ():
        return ()
    checks = _as_tuple(value)
    fine = checks is not None and all(map(is_callback, checks))
    _complain_unless(fine, "checks", "a list of functions", value, complaints)
    return checks or ()


def _secret_fields(value: object, complaints: FieldProblems) -> frozenset[str]:
    if value == frozenset():
        return frozenset()
    names = _as_tuple(value)
    fine = names is not None and all(map(_is_text, names))
    _complain_unless(fine, "secret_fields", "a list of argument names", value, complaints)
    return frozenset(name for name in names or () if isinstance(name, str)) if fine else frozenset()


def _produces(value: object, complaints: FieldProblems) -> object:
    return None if value is None else _read_flow("produces", value, complaints)


def _roles(value: object, complaints: FieldProblems) -> object:
    return NO_ROLES if value is None else _read_flow("roles", value, complaints)


def _read_flow(field: Literal["produces", "roles"], value: object, complaints: FieldProblems) -> object:
    try:
        return schemas.read_produces(value) if field == "produces" else schemas.read_roles(value)
    except InvalidTrustError as error:
        complaints.append((field, f"{field}: {error}"))
        return None


def _as_tuple(value: object) -> tuple[object, ...] | None:
    if isinstance(value, (str, bytes, Mapping)) or not is_iterable(value):
        return None
    return tuple(value)


def _artifact_class(value: object, complaints: FieldProblems) -> object:
    if value is None or _is_artifact_class(value):
        return value
    found: object = value
    if not isinstance(value, type) and callable(value):
        try:
            found = value()
        except Exception as error:  # noqa: BLE001  any exception means that the tool is declared incorrectly
            complaints.append(("artifact_constructor", f"artifact_constructor raised {type(error).__name__}: {error}"))
            return None
    expected = "an artifact class, or a function without arguments that returns one"
    _complain_unless(_is_artifact_class(found), "artifact_constructor", expected, found, complaints)
    return found


def _is_artifact_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, ArtifactShape)


_CONVERSIONS: dict[str, Callable[[Any, FieldProblems], Any]] = {
    "meta": _meta,
    "cache": _cache,
    "checks": _checks,
    "secret_fields": _secret_fields,
    "produces": _produces,
    "roles": _roles,
    "artifact_constructor": _artifact_class,
}
"""The options that are stored in another form than they are given in."""
