"""The root of the error tree, and how errors are pickled."""

from collections.abc import Callable
from typing import ClassVar


class SpindleError(Exception):
    """The base class of all errors that Spindle raises on purpose."""

    code: ClassVar[str] = "E_SPINDLE"
    status: ClassVar[int] = 500
    fatal: ClassVar[bool] = False

    def __init__(self, message: str, *, tool: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool
        self.field = field

    @property
    def message(self) -> str:
        """The text: what is wrong and what to do about it."""
        return str(self)

    def __reduce__(self) -> tuple[Callable[..., "SpindleError"], tuple[object, ...]]:
        return rebuild, (type(self), self.args, self.__dict__)


def rebuild(kind: type[SpindleError], args: tuple[object, ...], facts: dict[str, object]) -> SpindleError:
    """Rebuild an error from its pickled state."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error
