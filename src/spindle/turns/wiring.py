"""Whether a runner and a dispatch are wired up well: said when they are made, not in the middle of a turn."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from spindle.errors import InvalidToolError, InvalidTurnRunnerConfigError, UsageError
from spindle.execution.executor import Executor
from spindle.tools.registry import ToolRegistry

Wrong: TypeAlias = dict[str, str]
"""The settings that cannot be used, each with what it should be."""

_PORTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "spool": (("write", "read", "delete"), "a Spool, such as Spool.files(path)"),
    "journal": (("begin", "finish"), "a Journal, such as Journal.sqlite(path)"),
    "records": (("store", "load"), "Records, such as Records.sqlite(path)"),
    "executor": (("with_registry",), "an Executor"),
}


def wrong_callables(executor_callback: object, pipelines: Mapping[str, object]) -> Wrong:
    """Find what is no callback, and no list of middleware."""
    wrong: Wrong = {}
    if not callable(executor_callback):
        wrong["executor_callback"] = "async (ctx) or async (ctx, helpers)"
    for name, layers in pipelines.items():
        if not isinstance(layers, (list, tuple)) or not all(map(callable, cast("Iterable[object]", layers))):
            wrong[name] = "a list of async (ctx, next)"
    return wrong


def wrong_limits(*, max_iterations: Any, max_repeats: Any, abort_grace_seconds: Any, timeout_seconds: Any) -> Wrong:
    """Find limits that would never end a turn, or end it before it begins."""
    wrong: Wrong = {}
    for name, most in (("max_iterations", max_iterations), ("max_repeats", max_repeats)):
        if most is not None and (type(most) is not int or most < 1):
            wrong[name] = "a whole number of at least 1, or None for no limit"
    if timeout_seconds is not None and not (_is_finite(timeout_seconds) and timeout_seconds > 0):
        wrong["timeout_seconds"] = "a number above 0, or None for no limit"
    if not _is_finite(abort_grace_seconds) or abort_grace_seconds < 0:
        wrong["abort_grace_seconds"] = "a number of at least 0"
    return wrong


def wrong_parts(**parts: object) -> Wrong:
    """Find parts that cannot do their work, whoever made them; `None` is no part."""
    return {
        name: _PORTS[name][1]
        for name, part in parts.items()
        if part is not None and not all(hasattr(part, ability) for ability in _PORTS[name][0])
    }


def refuse(wrong: Wrong, *, what: str, error: type[UsageError]) -> None:
    """Raise `error` and name every setting that cannot be used; nothing where all can."""
    if wrong:
        told = "; ".join(f"{name} must be {wanted}" for name, wanted in wrong.items())
        raise error(f"{what} cannot work like this: {told}", field=next(iter(wrong)))


def baseline_of(tools: Any) -> ToolRegistry:
    """Give the registry that every turn starts from.

    Raises:
        InvalidTurnRunnerConfigError: Something among them is no tool.
        ToolAlreadyRegisteredError: Two have one name.
    """
    try:
        return ToolRegistry(tools)
    except InvalidToolError as error:
        raise InvalidTurnRunnerConfigError(f"a TurnRunner cannot work like this: {error}", field="tools") from error


def executor_of(baseline: ToolRegistry, settings: Mapping[str, Any]) -> Executor:
    """Make the executor of a runner that was given none.

    Raises:
        InvalidTurnRunnerConfigError: A setting is not what it should be.
    """
    try:
        return Executor(baseline, spool=None, **settings)
    except UsageError as error:
        raise InvalidTurnRunnerConfigError(f"a TurnRunner cannot work like this: {error}", field=error.field) from error


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
