"""Variables in values."""

from pathlib import Path

import pytest

from spindle.cli.config.sources import expand, expand_path
from spindle.errors import InvalidConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $HOME %PATH% {x}", "plain $HOME %PATH% {x}"),
        ("${A}", "1"),
        ("<${A}-${A}>", "<1-1>"),
        ("${env:A}", "1"),
        ("${B:-two words}", "two words"),
        ("${B:-}", ""),
        ("${A:-other}", "1"),
    ],
)
def test_only_the_written_form_is_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


@pytest.mark.parametrize("text", ["${NOT_SET}", "${}", "${A", "${input:token}", "${A!}", "${A}${workspaceFolder:x}"])
def test_what_cannot_be_filled_in_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        expand(text, {"A": "1"})


def test_what_a_variable_holds_is_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B}", "B": "2"}) == "${B}"


def test_a_path_begins_at_its_files_folder() -> None:
    base = Path("/base/conf")

    assert expand_path("a/../b", base, {}) == Path("/base/conf/b")
    assert expand_path("/abs", base, {}) == Path("/abs")
    assert expand_path("${A}/x", base, {"A": "/elsewhere"}) == Path("/elsewhere/x")
    assert expand_path("~/x", base, {}) == Path.home() / "x"
