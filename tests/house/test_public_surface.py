"""The public names of `spindle` are fixed, have a docstring of one sentence, and are documented."""

import inspect
import re
from pathlib import Path

import pytest

import spindle

FIXED = [
    "tool",
    "Tool",
    "ToolRegistry",
    "ToolFilter",
    "ToolContext",
    "Call",
    "Ok",
    "Err",
    "CallOutcome",
    "Media",
    "Artifact",
    "JsonArtifact",
    "MarkdownArtifact",
    "TableArtifact",
    "Executor",
    "Budget",
    "Reducer",
    "ReducerRegistry",
    "Capabilities",
    "Backends",
    "DispatchContext",
    "DispatchRunner",
    "TurnContext",
    "TurnRunner",
    "TurnReport",
    "Reply",
    "ToolCallRecord",
    "Gate",
    "Stash",
    "Journal",
    "Spool",
    "Events",
    "errors",
]
"""The public names. Names may be added, but not renamed or removed."""

NOT_YET: list[str] = []
"""Public names that are still to be built. This list only shrinks."""


def built() -> list[str]:
    """Return the names that the door offers."""
    return list(getattr(spindle, "__all__", ()))


def test_the_door_offers_every_fixed_name_that_is_built() -> None:
    assert sorted(set(FIXED) - set(NOT_YET)) == sorted(set(FIXED) & set(built()))


def test_names_announced_for_later_are_absent() -> None:
    present = [name for name in NOT_YET if name in built() or hasattr(spindle, name)]

    assert not present, "these are built; take them off NOT_YET"
    assert set(NOT_YET) <= set(FIXED)


def test_a_star_import_gives_the_public_names_and_nothing_else() -> None:
    space: dict[str, object] = {}
    exec("from spindle import *", space)

    assert sorted(space.keys() - {"__builtins__"}) == sorted(built())
    assert len(built()) == len(set(built()))


@pytest.mark.parametrize("name", built())
def test_a_public_name_says_in_one_sentence_what_it_is(name: str) -> None:
    said = inspect.getdoc(getattr(spindle, name)) or ""
    first, _, rest = said.partition("\n")

    assert re.fullmatch(r"[^\s].*\.", first), f"{name}: the first line is not a sentence: {first!r}"
    assert not rest or rest.startswith("\n"), f"{name}: the first sentence does not fit its line"
    assert not first.startswith(f"{name}("), f"{name}: that docstring was generated"


@pytest.mark.parametrize("name", built())
def test_a_public_name_is_in_the_documentation(name: str, root: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in sorted((root / "docs").rglob("*.md"))]

    assert any(re.search(rf"\b{name}\b", page) for page in pages), f"no page of docs/ mentions {name}"
