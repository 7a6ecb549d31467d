"""Guards for optional imports: a missing package raises an error that names what to install."""

from collections.abc import Generator
from contextlib import contextmanager

from spindle.errors import MissingExtraError


@contextmanager
def needs_extra(name: str, *, purpose: str = "this feature") -> Generator[None]:
    """Guard an import that only works with the extra `name` installed.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "spindle":
            raise  # a missing module of Spindle itself is a bug, not a missing extra
        raise missing_extra(name, purpose=purpose, package=missing.name) from missing


@contextmanager
def needs_package(name: str, *, purpose: str = "this bridge") -> Generator[None]:
    """Guard the import of a package that is not part of an extra, such as an agent framework.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = missing.name or name
        raise MissingExtraError(
            f"{purpose} requires the package {package!r}; install it: pip install {name}"
        ) from missing


def missing_extra(name: str, *, purpose: str, package: str | None = None) -> MissingExtraError:
    """Build the error for a feature whose extra is not installed."""
    needed = f" (missing package: {package!r})" if package else ""
    return MissingExtraError(f"{purpose} requires the extra {name!r}{needed}; install it: {install_command(name)}")


def install_command(name: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '.[{name}]' in a clone of Spindle"
