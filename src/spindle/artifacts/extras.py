"""Turning an absent package into an error that says what to install."""

from collections.abc import Generator
from contextlib import contextmanager

from spindle.errors import MissingExtraError


@contextmanager
def needs_extra(name: str) -> Generator[None]:
    """Guard an import that only works with the extra `name` installed.

    Raises:
        MissingExtraError: The package is not there.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = missing.name or "a package"
        raise MissingExtraError(
            f"this needs {package}, which is not installed: pip install 'spindle[{name}]'"
        ) from missing
