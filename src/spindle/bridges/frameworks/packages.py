"""Turning an absent framework into an error that says what to install."""

from collections.abc import Generator
from contextlib import contextmanager

from spindle.errors import MissingExtraError


@contextmanager
def needs_package(name: str) -> Generator[None]:
    """Guard the import of a framework, which no extra of ours brings.

    Raises:
        MissingExtraError: The package is not there.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = missing.name or "a package"
        raise MissingExtraError(f"this bridge needs {package}, which is not installed: pip install {name}") from missing
