"""A class name means one thing."""

import re
from collections import defaultdict
from pathlib import Path

ALLOWED = {
    "Executor": "spindle.blocking offers the same API without an event loop, under the same names",
    "TurnRunner": "as Executor",
    "Retries": "spindle.execution retries handlers, spindle.bridges requests to a provider; both names are documented",
    "Stream": "each model API reads its own stream, in a package of the same shape",
}
"""Names of several classes, with the reason. This list only shrinks."""


def modules_by_class(root: Path) -> dict[str, list[str]]:
    """Return the modules that define each class at their top level, where nothing stands before `class`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "src").rglob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[name].append(path.relative_to(root / "src").as_posix())
    return found


def test_no_two_classes_share_a_name(root: Path) -> None:
    doubles = {name: paths for name, paths in modules_by_class(root).items() if len(paths) > 1}

    assert not {name: paths for name, paths in doubles.items() if name not in ALLOWED}, "rename all but one"


def test_every_exception_is_still_needed(root: Path) -> None:
    found = modules_by_class(root)

    assert not [name for name in ALLOWED if len(found[name]) < 2], "remove these from ALLOWED"
