"""What a server's process may know."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp.client.environment import INHERITED, build_environment, find_program
from spindle.mcp.spec import ServerSpec

OWN = {
    "PATH": "/bin",
    "HOME": "/her/home",
    "LANG": "C",
    "AWS_REGION": "x",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "GITHUB_TOKEN": "hush",
    "EDITOR": "vi",
}


def made(**given: object) -> dict[str, str]:
    spec = ServerSpec(name="s", command="x", **given)  # pyright: ignore[reportArgumentType]
    return build_environment(spec, OWN, {"HOME": "/scratch"}, {})


def test_only_plain_variables_and_a_home_of_its_own_get_through() -> None:
    assert made() == {"PATH": "/bin", "LANG": "C", "HOME": "/scratch"}


def test_declared_variables_are_passed_on() -> None:
    env = made(env={"API_KEY": "given", "LANG": "de"}, env_passthrough=("GITHUB_TOKEN", "HOME", "UNSET"))

    assert env == {"PATH": "/bin", "LANG": "de", "HOME": "/her/home", "API_KEY": "given", "GITHUB_TOKEN": "hush"}


@pytest.mark.parametrize("given", [{"env_passthrough": ("HOME",)}, {"env": {"HOME": "/her/home"}}], ids=str)
def test_a_server_with_home_passed_through_uses_the_real_home(given: dict[str, object]) -> None:
    spec = ServerSpec(name="s", command="x", **given)  # pyright: ignore[reportArgumentType]
    scratch = {"HOME": "/scratch", "XDG_CACHE_HOME": "/scratch/.cache", "TMPDIR": "/scratch/tmp"}

    assert build_environment(spec, OWN | {"LANG": "C"}, scratch, {}) == {
        "PATH": "/bin",
        "LANG": "C",
        "HOME": "/her/home",
        "TMPDIR": "/scratch/tmp",
    }


def test_a_pattern_does_not_cover_what_looks_secret() -> None:
    assert made(env_passthrough=("AWS_*",)).keys() == {"PATH", "LANG", "HOME", "AWS_REGION"}


def test_secrets_come_last() -> None:
    spec = ServerSpec(name="s", command="x", env_secrets={"API_KEY": "shop/key"})

    assert build_environment(spec, {}, {}, {"API_KEY": "hush"}) == {"API_KEY": "hush"}


@given(st.dictionaries(st.text("ABKEYTOKNSRP_", min_size=1, max_size=8), st.text(max_size=5)))
def test_nothing_undeclared_gets_through(own: dict[str, str]) -> None:
    spec = ServerSpec(name="s", command="x")

    assert build_environment(spec, own, {}, {}).keys() <= set(INHERITED)


def test_a_functions_body_is_not_a_value() -> None:
    spec = ServerSpec(name="s", command="x", env_passthrough=("EVIL",))

    assert build_environment(spec, {"EVIL": "() { :; }; echo hi"}, {}, {}) == {}


def test_a_program_is_looked_up_on_the_servers_own_path(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)

    assert find_program("tool", {"PATH": str(tmp_path)}, None) == str(tool)
    assert find_program("tool", {"PATH": "/nowhere"}, None) is None
    assert find_program("./tool", {"PATH": ""}, str(tmp_path)) == "./tool"
    assert find_program(str(tool), {}, None) == str(tool)
