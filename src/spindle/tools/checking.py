"""Whether the values a tool is made of are what they should be."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from typing_extensions import is_typeddict

from spindle.capabilities.declare import Capabilities
from spindle.errors import InvalidStashError, InvalidToolError
from spindle.stash import FrozenStash
from spindle.tools.cache import CachePolicy
from spindle.tools.signature import Function

MISSING: Final[Any] = object()

_FLAGS = (
    "ephemeral",
    "trusted",
    "always_include",
    "requires_approval",
    "return_direct",
    "strict",
    "read_only",
    "idempotent",
    "expose_errors",
)
_FUNCTIONS = ("is_available", "resources", "preview", "reconcile")
_CHOICES = {"on_collision": ("throw", "replace", "keep"), "isolation": ("thread", "process")}
_ARTIFACT_METHODS = ("head", "tail", "grep", "cat", "byte_length", "line_count", "estimate_tokens")


class _Problems(list[tuple[str, str]]):
    """Everything wrong with one tool, field by field."""

    def unless(self, fine: object, field: str, expected: str, got: object) -> None:
        if not fine:
            self.append((field, f"{field} must be {expected}, got {'nothing' if got is MISSING else _shown(got)}"))


def checked(tool: Any, handler: Any, function: Function | None) -> dict[str, Any]:
    """Check every value, and give the ones that are kept in another form than they were given.

    Raises:
        InvalidToolError: Names every bad or missing value.
    """
    problems = _Problems()
    _check_core(tool, handler, function, problems)
    _check_flags(tool, problems)
    kept = {
        "meta": _meta(tool.meta, problems),
        "cache": _cache(tool.cache, problems),
        "checks": _checks(tool.checks, problems),
        "secret_fields": _secret_fields(tool.secret_fields, problems),
        "artifact_constructor": _artifact_class(tool.artifact_constructor, problems),
    }
    if problems:
        name = tool.name if isinstance(tool.name, str) else None
        who = f"tool {name!r}" if name else "a tool"
        text = "; ".join(words for _, words in problems)
        raise InvalidToolError(f"{who}: {text}", tool=name, field=problems[0][0])
    return kept


def _check_core(tool: Any, handler: Any, function: Function | None, problems: _Problems) -> None:
    problems.unless(isinstance(tool.name, str) and tool.name, "name", "text that is not empty", tool.name)
    if function is None:
        text = tool.description
        problems.unless(isinstance(text, str) and text.strip(), "description", "text that is not empty", text)
        problems.unless(callable(handler), "handler", "a function (args, ctx, meta)", handler)
        expected = "a pydantic model, a dataclass, a TypedDict or a JSON Schema dict"
        schema = cast("object", tool.input_schema)
        fine = isinstance(schema, Mapping) or is_argument_type(schema)
        problems.unless(fine, "input_schema", expected, cast("object", schema))
    else:
        text = function.plain.__doc__ if tool.description is MISSING else tool.description
        expected = "a docstring on the function, or given as description=…"
        problems.unless(isinstance(text, str) and text.strip(), "description", expected, MISSING)
    is_async = inspect.iscoroutinefunction(function.plain if function else handler)
    problems.unless(
        not (tool.isolation == "process" and is_async), "isolation", "'thread' for an async handler", tool.isolation
    )


def is_argument_type(value: object) -> bool:
    """Whether `value` is a class pydantic can validate an object into."""
    if not isinstance(value, type):
        return False
    return hasattr(value, "__dataclass_fields__") or is_typeddict(value) or hasattr(value, "__pydantic_core_schema__")


def _check_flags(tool: Any, problems: _Problems) -> None:
    for flag in _FLAGS:
        value = getattr(tool, flag)
        problems.unless(value is True or value is False, flag, "True or False", value)
    for field, options in _CHOICES.items():
        value = getattr(tool, field)
        problems.unless(value in options, field, " or ".join(map(repr, options)), value)
    for field in _FUNCTIONS:
        value = getattr(tool, field)
        problems.unless(value is None or callable(value), field, "a function", value)
    if inspect.iscoroutinefunction(tool.is_available):
        problems.append(("is_available", "is_available must be a sync function: it is asked for every listing"))
    toolset, cap, seconds = tool.toolset, tool.max_result_chars, tool.timeout_seconds
    problems.unless(toolset is None or (isinstance(toolset, str) and toolset), "toolset", "a name", toolset)
    problems.unless(cap is None or (type(cap) is int and cap >= 1), "max_result_chars", "1 or more", cap)
    problems.unless(seconds is None or _is_positive(seconds), "timeout_seconds", "more than 0", seconds)
    problems.unless(isinstance(tool.capabilities, Capabilities), "capabilities", "Capabilities(…)", tool.capabilities)


def _is_positive(value: Any) -> bool:
    return type(value) in {int, float} and value > 0 and math.isfinite(value)


def _meta(value: object, problems: _Problems) -> FrozenStash | None:
    if isinstance(value, FrozenStash) or value is None:
        return FrozenStash(value)
    if not isinstance(value, Mapping):
        problems.unless(False, "meta", "a mapping with text keys", value)  # noqa: FBT003
        return None
    meta = cast("Mapping[Any, Any]", value)
    problems.unless(all(isinstance(key, str) for key in meta), "meta", "a mapping with text keys", meta)
    try:
        return FrozenStash(meta)
    except InvalidStashError as error:
        problems.append(("meta", f"meta: {error}"))
        return None


def _cache(value: Any, problems: _Problems) -> CachePolicy | None:
    if value is True:
        return CachePolicy()
    problems.unless(
        value is None or value is False or isinstance(value, CachePolicy), "cache", "True or CachePolicy", value
    )
    return value or None


def _checks(value: Any, problems: _Problems) -> tuple[Any, ...]:
    checks = _as_tuple(value)
    problems.unless(checks is not None and all(map(callable, checks)), "checks", "a list of functions", value)
    return checks or ()


def _secret_fields(value: Any, problems: _Problems) -> frozenset[Any]:
    names = _as_tuple(value)
    fine = names is not None and all(isinstance(name, str) and name for name in names)
    problems.unless(fine, "secret_fields", "a list of argument names", value)
    return frozenset(names) if fine and names else frozenset()


def _as_tuple(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return None
    return tuple(cast("Iterable[Any]", value))


def _artifact_class(value: Any, problems: _Problems) -> Any:
    if value is None or _is_artifact_class(value):
        return value
    expected = "an artifact class, or a function without arguments that gives one"
    if isinstance(value, type) or not callable(value):
        problems.unless(False, "artifact_constructor", expected, value)  # noqa: FBT003
        return None
    try:
        found = cast("Callable[[], object]", value)()
    except Exception as error:  # noqa: BLE001  whatever it raises, the tool is wired up wrongly
        problems.append(("artifact_constructor", f"artifact_constructor raised {type(error).__name__}: {error}"))
        return None
    problems.unless(_is_artifact_class(found), "artifact_constructor", expected, found)
    return found


def _is_artifact_class(value: object) -> bool:
    return isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _ARTIFACT_METHODS)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
