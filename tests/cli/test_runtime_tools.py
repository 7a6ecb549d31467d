"""The tools that run here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.cli.config import load_config
from spindle.cli.runtime_servers import build_backends, build_secret_lookup, build_server_secret_lookup
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import InvalidConfigError, SecretError

Module = Callable[[str, str], None]


def names(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "spindle.toml"
    path.write_text(text, encoding="utf-8")
    config = load_config(path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})
    return [tool.name for tool in build_local_registry(config, build_backends(config))]


def modules(spot: str) -> str:
    return f'[tools]\nmodules = ["{spot}"]\npython_path = ["{Path.cwd()}"]\n'


def test_the_kit_is_what_the_reach_serves(tmp_path: Path) -> None:
    plain = names(tmp_path, "[tools]\nkit = true\n")
    more = names(tmp_path, '[tools]\nkit = true\n[reach]\ncommands = ["git"]\nhosts = ["example.com"]\n')

    assert "read_file" in plain
    assert {"terminal", "web_fetch"}.isdisjoint(plain)
    assert {"terminal", "web_fetch", "http_request"} <= set(more)
    assert "ask_user" not in more


def test_a_folder_of_the_users_is_read_only_until_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()

    reading = names(tmp_path, '[tools]\nkit = ["files"]\n[reach]\nroot = "mine"\n')
    writing = names(tmp_path, '[tools]\nkit = ["files"]\n[reach]\nroot = "mine"\nwrite = ["out"]\n')

    assert reading == ["read_file", "list_dir", "search_files"]
    assert {"write_file", "patch_file"} <= set(writing)


@pytest.mark.parametrize(
    "text",
    [
        '[tools]\nkit = ["fles"]\n',
        '[tools]\nkit = ["terminal"]\n',
        '[tools]\nkit = ["web"]\n',
        '[tools]\nkit = ["files"]\n[reach]\nroot = "nowhere"\n',
        '[tools]\nmodules = ["no_such_module_here:x"]\n',
        '[tools]\nmodules = ["json:no_such_name"]\n',
        '[tools]\nmodules = ["json:__name__"]\n',
        '[tools]\nkit = ["clock"]\nmodules = ["spindle.kit.clock:time_now"]\n',
        '[reach]\ncommands = ["a b/../c"]\n',
        '[reach]\nsecrets_file = "none.env"\n',
    ],
)
def test_an_unavailable_resource_is_a_problem_of_its_key(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        names(tmp_path, text)

    assert caught.value.path == str(tmp_path / "spindle.toml")
    assert str(caught.value.field).split(".")[0] in {"tools", "reach"}


def test_a_module_gives_a_tool_a_list_a_registry_or_a_function_of_these(tmp_path: Path, module: Module) -> None:
    module(
        "several",
        "from spindle import tool, ToolRegistry\n"
        "@tool\ndef one() -> str:\n    'One.'\n    return '1'\n"
        "@tool\ndef two() -> str:\n    'Two.'\n    return '2'\n"
        "both = [one, two]\nregistry = ToolRegistry(both)\n"
        "def made():\n    return registry\n"
        "class box:\n    inner = one\n",
    )

    assert names(tmp_path, modules("several:one")) == ["one"]
    assert names(tmp_path, modules("several:both")) == ["one", "two"]
    assert names(tmp_path, modules("several:registry")) == ["one", "two"]
    assert names(tmp_path, modules("several:made")) == ["one", "two"]
    assert names(tmp_path, modules("several:box.inner")) == ["one"]


@pytest.mark.parametrize(
    ("spot", "source"),
    [
        ("bad_raises:x", "raise RuntimeError('at import')"),
        ("bad_needs:x", "import no_such_thing_at_all"),
        ("bad_calls:x", "def x():\n    raise ValueError('no')"),
        ("bad_async:x", "async def x():\n    return []"),
        ("bad_list:x", "x = [1, 2]"),
        ("bad_number:x", "x = 3"),
        ("bad_text:x", "x = 'tools'"),
    ],
)
def test_a_module_that_gives_no_tools_says_why(tmp_path: Path, module: Module, spot: str, source: str) -> None:
    module(spot.partition(":")[0], source)

    with pytest.raises(InvalidConfigError) as caught:
        names(tmp_path, modules(spot))

    assert caught.value.field == "tools.modules"


def test_only_named_secrets_are_looked_up_the_environment_first(tmp_path: Path) -> None:
    dotenv = tmp_path / "secrets.env"
    dotenv.write_text("A=file\nB=file\nC=file\n")
    dotenv.chmod(0o600)
    path = tmp_path / "spindle.toml"
    path.write_text(
        '[reach]\nsecrets = ["A", "B"]\nsecrets_file = "secrets.env"\n'
        '[mcp.servers.s]\nurl = "http://127.0.0.1:1"\nheader_secrets = {Authorization = "D"}\n'
    )
    config = load_config(path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})

    look_up = build_secret_lookup(config, {"A": "env", "C": "env", "D": "env"})

    assert [look_up(name) for name in "ABCD"] == ["env", "file", None, "env"]
    with pytest.raises(SecretError) as caught:
        build_server_secret_lookup(config)("NOT_NAMED")
    assert "NOT_NAMED" in str(caught.value)


def test_http_request_may_send_the_secrets_that_are_named_for_it(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(
        '[tools]\nkit = ["web"]\nhttp_secrets = {SHOP_KEY = ["api.shop.example"]}\n'
        '[reach]\nhosts = ["api.shop.example"]\n'
    )
    config = load_config(path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})

    request = build_local_registry(config, build_backends(config)).get("http_request")

    assert request is not None
    assert "SHOP_KEY" in str(request.describe())
    assert build_secret_lookup(config, {"SHOP_KEY": "k", "OTHER": "o"})("SHOP_KEY") == "k"

    path.write_text('[tools]\nkit = ["web"]\nhttp_secrets = {SHOP_KEY = ["*"]}\n[reach]\nhosts = ["*"]\n')
    config = load_config(path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})
    with pytest.raises(InvalidConfigError) as caught:
        build_local_registry(config, build_backends(config))
    assert caught.value.field == "tools.http_secrets"
