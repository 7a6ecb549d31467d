"""Validation of the fields of a tool, and its cache policy."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from typing_extensions import is_typeddict

from spindle.capabilities.declare import NO_CAPABILITIES, Capabilities
from spindle.errors import InvalidStashError, InvalidToolError
from spindle.stash import EMPTY, FrozenStash
from spindle.tools.function import Function

CacheScope: TypeAlias = Literal["session", "turn", "global"]


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


MISSING: Final[Any] = object()

FieldProblems: TypeAlias = list[tuple[str, str]]
"""The problems of one tool: pairs of field name and message."""

_ARTIFACT_METHODS = ("head", "tail", "grep", "cat", "byte_length", "line_count", "estimate_tokens")


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule for one field; its default is not checked, which keeps the creation of many tools cheap."""

    default: Any
    fits: Callable[[Any], object]
    expected: str


def _is_flag(value: Any) -> bool:
    return value is True or value is False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_positive(value: Any) -> bool:
    return type(value) in {int, float} and value > 0 and math.isfinite(value)


def _is_sync_function(value: Any) -> bool:
    return callable(value) and not inspect.iscoroutinefunction(value)


_FLAG, _FUNCTION = _Rule(False, _is_flag, "True or False"), _Rule(None, callable, "a function")  # noqa: FBT003

_RULES: dict[str, _Rule] = {
    "name": _Rule(None, _is_text, "a non-empty str"),
    "ephemeral": _FLAG,
    "trusted": _FLAG,
    "always_include": _FLAG,
    "requires_approval": _FLAG,
    "return_direct": _FLAG,
    "strict": _FLAG,
    "read_only": _FLAG,
    "idempotent": _FLAG,
    "expose_errors": _FLAG,
    "resources": _FUNCTION,
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


def validate_tool_fields(tool: object, handler: Any, function: Function | None) -> dict[str, Any]:
    """Validate every field, and return those that are stored in a converted form.

    Raises:
        InvalidToolError: Names every invalid or missing value.
    """
    values = vars(tool)
    complaints: FieldProblems = []
    for field, rule in _RULES.items():
        value = values[field]
        if value is not rule.default or field == "name":
            _complain_unless(_fits(rule, value), field, rule.expected, value, complaints)
    _check_body(values, handler, function, complaints)
    kept = {
        "meta": _meta(values["meta"], complaints),
        "cache": _cache(values["cache"], complaints),
        "checks": _checks(values["checks"], complaints),
        "secret_fields": _secret_fields(values["secret_fields"], complaints),
        "artifact_constructor": _artifact_class(values["artifact_constructor"], complaints),
    }
    if complaints:
        raise _invalid(values["name"], complaints)
    return kept


def is_argument_type(value: object) -> bool:
    """Return whether `value` is a class that pydantic can validate an object into."""
    if not isinstance(value, type):
        return False
    return hasattr(value, "__dataclass_fields__") or is_typeddict(value) or hasattr(value, "__pydantic_core_schema__")


def _fits(rule: _Rule, value: Any) -> bool:
    try:
        return bool(rule.fits(value))
    except TypeError:  # an unhashable value cannot be one of the choices
        return False


def _check_body(values: dict[str, Any], handler: Any, function: Function | None, complaints: FieldProblems) -> None:
    description = values["description"]
    if function is not None:
        if description is MISSING:
            description = function.underlying.__doc__ or MISSING
        expected = "the function's docstring or description=…"
    else:
        expected = "a non-empty str"
        fits, schema = "a pydantic model, a dataclass, a TypedDict or a JSON Schema dict", values["input_schema"]
        _complain_unless(callable(handler), "handler", "a function (args, ctx, meta)", handler, complaints)
        fine = isinstance(schema, Mapping) or is_argument_type(schema)
        _complain_unless(fine, "input_schema", fits, values["input_schema"], complaints)
    fine = isinstance(description, str) and description.strip()
    _complain_unless(fine, "description", expected, description, complaints)
    if values["isolation"] == "process":
        is_async = inspect.iscoroutinefunction(function.underlying if function else handler)
        _complain_unless(not is_async, "isolation", "'thread' for an async handler", "process", complaints)


def _complain_unless(fine: object, field: str, expected: str, got: object, complaints: FieldProblems) -> None:
    if not fine:
        shown = "nothing" if got is MISSING else _shown(got)
        complaints.append((field, f"{field} must be {expected}, got {shown}"))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _invalid(name: Any, complaints: FieldProblems) -> InvalidToolError:
    name = name if isinstance(name, str) else None
    who = f"Invalid tool {name!r}" if name else "Invalid tool"
    text = "; ".join(words for _, words in complaints)
    return InvalidToolError(f"{who}: {text}.", tool=name, field=complaints[0][0])


def _meta(value: object, complaints: FieldProblems) -> FrozenStash:
    if value is None:
        return EMPTY
    if isinstance(value, FrozenStash):
        return value
    meta = cast("Mapping[Any, Any]", value) if isinstance(value, Mapping) else None
    fine = meta is not None and all(isinstance(key, str) for key in meta)
    _complain_unless(fine, "meta", "a mapping with str keys", cast("object", value), complaints)
    try:
        return FrozenStash(meta)
    except InvalidStashError as error:
        complaints.append(("meta", f"meta: {error}"))
        return EMPTY


def _cache(value: Any, complaints: FieldProblems) -> CachePolicy | None:
    if value is None or value is False:
        return None
    if value is True:
        return CachePolicy()
    _complain_unless(isinstance(value, CachePolicy), "cache", "True or a CachePolicy", value, complaints)
    return value


def _checks(value: Any, complaints: FieldProblems) -> tuple[Any, ...]:
    if value == ():
        return ()
    checks = _as_tuple(value)
    fine = checks is not None and all(map(callable, checks))
    _complain_unless(fine, "checks", "a list of functions", value, complaints)
    return checks or ()


def _secret_fields(value: Any, complaints: FieldProblems) -> frozenset[str]:
    if value == frozenset():
        return frozenset()
    names = _as_tuple(value)
    fine = names is not None and all(map(_is_text, names))
    _complain_unless(fine, "secret_fields", "a list of argument names", value, complaints)
    return frozenset(names or ()) if fine else frozenset()


def _as_tuple(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return None
    return tuple(cast("Iterable[Any]", value))


def _artifact_class(value: Any, complaints: FieldProblems) -> Any:
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
    return isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _ARTIFACT_METHODS)
