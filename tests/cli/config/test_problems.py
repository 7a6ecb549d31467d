"""Lines of keys, found in the text itself."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from spindle.cli.config.problems import line_in_json, line_in_toml

TOML = """
[mcp.servers.git]   # a comment
command = "x"
env = { A = "1" }

[mcp.servers."odd name"]
url = "http://x"
[limits]
a.b.c = 1
"""


def test_a_key_is_found_in_its_table() -> None:
    assert line_in_toml(TOML, ("mcp", "servers", "git", "command")) == 3
    assert line_in_toml(TOML, ("mcp", "servers", "odd name", "url")) == 7
    assert line_in_toml(TOML, ("limits", "a", "b", "c")) == 9


def test_a_missing_key_is_reported_at_its_nearest_parent() -> None:
    assert line_in_toml(TOML, ("mcp", "servers", "git", "timeout")) == 2
    assert line_in_toml(TOML, ("mcp", "servers", "git", "env", "A")) == 4
    assert line_in_toml(TOML, ("server", "port")) is None


def test_keys_of_json_are_looked_for_one_behind_the_other() -> None:
    text = '{\n "url": 1,\n "mcpServers": {\n  "a": {"url": 2},\n  "b": {\n   "url": 3}}}'

    assert line_in_json(text, ("mcpServers", "b", "url")) == 6
    assert line_in_json(text, ("mcpServers", "b", "args")) == 5
    assert line_in_json(text, ("nothing",)) is None


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True),
        st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.integers(0, 9), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_the_line_that_is_found_holds_the_key(tables: dict[str, dict[str, int]]) -> None:
    lines: list[str] = []
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = {value}" for key, value in keys.items())]
    text = "\n".join(lines)
    assert tomllib.loads(text) == tables

    for table, keys in tables.items():
        for key, value in keys.items():
            found = line_in_toml(text, (table, key))
            assert found is not None
            assert lines[found - 1] == f"{key} = {value}"
            assert f"[{table}]" in lines[: found - 1]
