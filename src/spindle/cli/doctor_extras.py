"""Which optional parts are installed, as the package itself says what they need."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from spindle.cli.doctor_checks import Check
from spindle.extras import install_command

_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^\]]*\])?.*;.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]"
)


def extra_checks() -> Iterator[Check]:
    """One check for each extra: what it brings, or the line that installs it."""
    for extra, packages in sorted(extras().items()):
        missing = [name for name in packages if _version(name) is None]
        if missing:
            fix = install_command(extra)
            yield Check("extras", extra, "warning", f"needs {', '.join(missing)}", fix)
        else:
            yield Check("extras", extra, "ok", ", ".join(f"{name} {_version(name)}" for name in packages))


def extras() -> dict[str, list[str]]:
    """The packages that each extra needs, those of extras it includes too; `all` is left out."""
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
    return {extra: _closure(extra, direct, included) for extra in every}


def _closure(extra: str, direct: dict[str, list[str]], included: dict[str, list[str]]) -> list[str]:
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
