"""Fresh copies of plain JSON data, as fast as Python can make them."""

from collections.abc import Callable
from typing import Any, cast


def copier(value: Any) -> Callable[[], Any]:
    """Give a function that makes a fresh copy of `value` each time; the shape is walked only now."""
    if not isinstance(value, (dict, list)):
        return lambda: value
    container = cast("dict[Any, Any] | list[Any]", value)
    pairs = container.items() if isinstance(container, dict) else enumerate(container)
    nested = [(key, copier(part)) for key, part in pairs if isinstance(part, (dict, list))]
    if not nested:
        return container.copy

    def copy() -> Any:
        fresh: Any = container.copy()
        for key, make in nested:
            fresh[key] = make()
        return fresh

    return copy
