"""The tables `[flow]` and `[profiles.NAME.flow]`: what is accepted, and what is refused with its key."""

from pathlib import Path

import pytest

from spindle.cli.config import Config, load_config
from spindle.errors import InvalidConfigError


def load(tmp_path: Path, text: str) -> Config:
    (tmp_path / "spindle.toml").write_text(text)
    return load_config(tmp_path / "spindle.toml", state=tmp_path / "state", environ={"HOME": str(tmp_path)})


def test_without_the_table_nothing_is_judged(tmp_path: Path) -> None:
    assert load(tmp_path, "").flow is None


def test_the_table_enables_it(tmp_path: Path) -> None:
    flow = load(tmp_path, "[flow]\n").flow

    assert flow is not None
    assert flow.enabled
    assert flow.sinks is None


def test_declarations_are_read(tmp_path: Path) -> None:
    flow = load(
        tmp_path,
        '[flow]\nsinks = ["send"]\n[flow.directory]\ntarget = ["ann@example.org"]\n[flow.readers]\nmails = ["*"]\n'
        '[flow.tools."mcp__mail__*"]\noutput = "first-party"\nproduces = { mail = "items.*.id" }\n'
        'roles = { to = "target", "files.*.id" = "ref:file" }\n',
    ).flow

    assert flow is not None
    assert flow.tools["mcp__mail__*"].roles == {"to": "target", "files.*.id": "ref:file"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[flow]\nsinks = ["mcp__mail__*"]\n', "flow.sinks"),
        ('[flow.readers]\n"x*" = ["a"]\n', "flow.readers.x*"),
        ('[flow.tools.send]\noutput = "mostly-harmless"\n', "flow.tools.send.output"),
        ('[flow.tools.send]\nroles = { to = "recipient" }\n', "flow.tools.send.roles.to"),
        ('[flow.tools.send]\nroles = { to = "ref" }\n', "flow.tools.send.roles.to"),
        ('[flow.tools.send]\nproduces = ""\n', "flow.tools.send.produces"),
        ('[flow.tools.send]\nproduce = "file"\n', "flow.tools.send.produce"),
        ("[flow.tools.send]\nread_only = true\ndestructive = true\n", "flow.tools.send"),
        ('[profiles.x.flow.tools.send]\noutput = "trusted"\n', "profiles.x.flow.tools.send.output"),
        ("[profiles.x.flow.tools.send]\ndestructive = false\n", "profiles.x.flow.tools.send.destructive"),
        ("[profiles.x.flow.tools.send]\nread_only = true\n", "profiles.x.flow.tools.send.read_only"),
        ("[profiles.x.flow]\nenabled = false\n", "profiles.x.flow.enabled"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        load(tmp_path, text)

    assert caught.value.field == field
