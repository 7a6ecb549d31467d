"""Checks the settings of executors and turn runners when they are constructed, before any call runs."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeGuard, cast

from spindle.errors import UsageError
from spindle.tools.registry import ToolRegistry

Problems: TypeAlias = dict[str, str]
"""Invalid settings by name, each with what was expected."""

_PORTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "backends": (("network", "files"), "Backends(…), such as Backends.local(root)"),
    "reducers": (("get",), "a ReducerRegistry"),
    "budget": (("total",), "Budget(chars=…)"),
    "spool": (("write", "read", "delete"), "a Spool, such as Spool.files(path)"),
    "journal": (("begin", "finish"), "a Journal, such as Journal.sqlite(path)"),
    "transport": (("execute",), "a transport, which has execute(request, cancel)"),
    "approve": (("__call__",), "an async function of an ApprovalRequest"),
    "sinks": (("judge",), "a SinkPolicy"),
    "retries": (("wait_seconds",), "Retries(…)"),
    "records": (("store", "load"), "Records, such as Records.sqlite(path)"),
    "executor": (("with_registry",), "an Executor"),
}
"""The methods that each part must have, and what to pass instead."""


def check_executor_settings(
    registry: object, concurrency: object, timeout_seconds: object, batch_timeout_seconds: object, repair: object
) -> None:
    """Check the plain settings of an executor.

    Raises:
        UsageError: Names the first invalid setting.
    """
    if not ToolRegistry.is_tool_registry(registry):
        raise UsageError(f"registry must be a ToolRegistry, got {type(registry).__name__}", field="registry")
    if not _is_count(concurrency):
        raise UsageError(f"concurrency must be a whole number of at least 1, got {concurrency!r}", field="concurrency")
    for field, value in (("timeout_seconds", timeout_seconds), ("batch_timeout_seconds", batch_timeout_seconds)):
        if value is not None and not (_is_finite(value) and value > 0):
            raise UsageError(f"{field} must be a number above 0, or None for no limit; got {value!r}", field=field)
    if repair not in {None, "explain"}:
        raise UsageError(f"repair must be None or 'explain', got {repair!r}", field="repair")


def check_executor_parts(**parts: object) -> None:
    """Check that each part has the methods of its port; `None` means that there is no such part.

    Raises:
        UsageError: Names the first invalid part.
    """
    for field, expected in find_invalid_parts(**parts).items():
        raise UsageError(f"{field} must be {expected}, or None; got {type(parts[field]).__name__}", field=field)


def find_invalid_parts(**parts: object) -> Problems:
    """Return the parts that lack a method of their port; `None` means that there is no such part."""
    return {
        name: _PORTS[name][1]
        for name, part in parts.items()
        if part is not None and not all(hasattr(part, method) for method in _PORTS[name][0])
    }


def find_invalid_callables(executor_callback: object, pipelines: Mapping[str, object]) -> Problems:
    """Return the callback if it is not callable, and pipelines that are not lists of middleware."""
    problems: Problems = {}
    if not callable(executor_callback):
        problems["executor_callback"] = "async (ctx) or async (ctx, helpers)"
    for name, layers in pipelines.items():
        if not isinstance(layers, (list, tuple)) or not all(map(callable, cast("Iterable[object]", layers))):
            problems[name] = "a list of async (ctx, next)"
    return problems


def find_invalid_limits(**limits: object) -> Problems:
    """Return limits that would never end a turn, or would end it before it begins."""
    return {name: _LIMITS[name][1] for name, value in limits.items() if not _LIMITS[name][0](value)}


def raise_if_invalid(problems: Problems, *, what: str, error: type[UsageError]) -> None:
    """Raise `error` naming every invalid setting, if there is one."""
    if problems:
        listed = "; ".join(f"{name} must be {expected}" for name, expected in problems.items())
        raise error(f"Invalid {what} settings: {listed}.", field=next(iter(problems)))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_LIMITS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "max_iterations": (lambda v: v is None or _is_count(v), "a whole number of at least 1, or None for no limit"),
    "max_repeats": (lambda v: v is None or _is_count(v), "a whole number of at least 1, or None for no limit"),
    "timeout_seconds": (lambda v: v is None or (_is_finite(v) and v > 0), "a number above 0, or None for no limit"),
    "abort_grace_seconds": (lambda v: _is_finite(v) and v >= 0, "a number of at least 0"),
}
