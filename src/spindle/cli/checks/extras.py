"""Checks of the extras: only those that the configuration needs."""

import re
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from spindle.addresses import get_scheme
from spindle.cli.checks.check import Check
from spindle.cli.config.loader import Config
from spindle.cli.config.sources import RemoteStore
from spindle.extras import install_command

_AREA = "extras"


def _has_scheme(place: object, *schemes: str) -> bool:
    url = place.url if isinstance(place, RemoteStore) else place
    return isinstance(url, str) and get_scheme(url) in schemes


NEEDS: dict[str, Callable[[Config], bool]] = {
    "mcp": lambda config: any(entry.enabled for entry in config.servers.values()),
    # Without a file the kit is offered as far as its packages are there.
    "kit": lambda config: config.file is not None and bool(config.tools.kit),
    "network": lambda config: bool(config.reach.hosts or config.reach.private_addresses),
    "server": lambda config: bool(config.profiles),
    "postgres": lambda config: isinstance(config.journal, RemoteStore),
    "redis": lambda config: isinstance(config.storage, RemoteStore),
    "objects": lambda config: _has_scheme(
        config.spool, "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https"
    ),
    "openapi": lambda config: bool(config.apis),
    "temporal": lambda config: _has_scheme(config.engine.url, "temporal"),
    "dbos": lambda config: _has_scheme(config.engine.url, "dbos+postgresql"),
}
"""When a configuration needs an extra; one that is not listed is never missed."""


def check_extras(config: Config) -> Iterator[Check]:
    """Check that the extras which the configuration needs are installed; name those that are."""
    found = extras()
    installed = [extra for extra, packages in sorted(found.items()) if all(map(_version, packages))]
    for extra, is_needed in NEEDS.items():
        if extra not in installed and is_needed(config):
            lacking = [name for name in found.get(extra, ()) if _version(name) is None]
            yield Check(_AREA, extra, "failed", f"not installed: {', '.join(lacking)}", install_command(extra))
    yield Check(_AREA, "installed", "ok", ", ".join(installed) or "none")


_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^\]]*\])?.*;.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]"
)


def extras() -> dict[str, list[str]]:
    """Return the packages of each extra, including those of extras it depends on; `all` is skipped."""
    direct: dict[str, list[str]] = {}
    included: dict[str, list[str]] = {}
    for line in requires("spindle") or ():
        found = _REQUIREMENT.match(line)
        if found is None:
            continue
        if found["name"].lower() == "spindle":
            names = (found["extras"] or "[]")[1:-1].split(",")
            included.setdefault(found["extra"], []).extend(name.strip() for name in names if name.strip())
        else:
            direct.setdefault(found["extra"], []).append(found["name"])
    every = sorted({*direct, *included} - {"all"})
    return {extra: _collect_packages(extra, direct, included) for extra in every}


def _collect_packages(extra: str, direct: dict[str, list[str]], included: dict[str, list[str]]) -> list[str]:
    found, waiting, seen = list[str](), [extra], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name not in seen:
            seen.add(name)
            found += direct.get(name, ())
            waiting += included.get(name, ())
    return list(dict.fromkeys(found))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
