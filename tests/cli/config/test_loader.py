"""The configuration: found, read, checked; every problem is one line that can be acted on."""

from pathlib import Path

import pytest

from spindle.cli.config import load_config
from spindle.errors import InvalidConfigError

ENV = {"HOME": "/nowhere"}


def problems(tmp_path: Path, text: str) -> list[str]:
    """What is wrong with a file."""
    path = tmp_path / "spindle.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfigError) as caught:
        load_config(path, environ=ENV)
    assert caught.value.path == str(path)
    assert all("\n" not in problem for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}") for problem in caught.value.problems]


def test_without_a_file_the_kit_works_on_a_scratch_folder(tmp_path: Path) -> None:
    config = load_config(cwd=tmp_path, environ={"HOME": str(tmp_path / "home")})

    assert config.file is None
    assert config.tools.kit is True
    assert config.state == tmp_path / "home/.local/state/spindle"
    assert config.root == config.state / "workspace"
    assert config.spool == str(config.state / "spool")
    assert config.journal == config.state / "journal.sqlite"


def test_servers_of_a_desktop_client_alone_do_not_add_the_kit_unless_asked(tmp_path: Path) -> None:
    theirs = tmp_path / "client.json"
    theirs.write_text('{"mcpServers": {"one": {"command": "one"}}}', encoding="utf-8")

    alone = load_config(mcp_configs=[theirs], cwd=tmp_path, environ=ENV)
    asked = load_config(mcp_configs=[theirs], kit=True, cwd=tmp_path, environ=ENV)

    assert list(alone.servers) == list(asked.servers) == ["one"]
    assert alone.tools.kit is False
    assert asked.tools.kit is True


def test_the_kit_can_be_added_to_the_tools_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[tools]\nkit = ["clock"]\nmodules = ["a.b:c"]\n', encoding="utf-8")

    config = load_config(path, kit=True, environ=ENV)

    assert config.tools.kit is True
    assert config.tools.modules == ("a.b:c",)


def test_a_file_grants_nothing_that_it_does_not_name(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text("", encoding="utf-8")

    config = load_config(path, environ=ENV)

    assert config.tools.kit is False
    assert config.reach.hosts == ()
    assert config.reach.commands == ()
    assert config.servers == {}


def test_paths_are_taken_from_the_files_own_folder(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    path = tmp_path / "conf" / "spindle.toml"
    path.write_text(
        '[spindle]\nstate = "../state"\n[reach]\nroot = "${PLACE}/data"\n'
        '[spool]\npath = "memory"\n[journal]\npath = "j.db"\n',
        encoding="utf-8",
    )

    config = load_config(path, cwd=tmp_path, environ=ENV | {"PLACE": "here"})

    assert config.state == tmp_path / "state"
    assert config.root == tmp_path / "conf/here/data"
    assert config.spool is None
    assert config.journal == tmp_path / "conf/j.db"


def test_the_state_folder_of_the_command_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[spindle]\nstate = "own"\n', encoding="utf-8")
    named = ENV | {"SPINDLE_STATE": str(tmp_path / "env")}

    assert load_config(path, state=tmp_path / "given", environ=named).state == tmp_path / "given"
    assert load_config(path, environ=named).state == tmp_path / "env"
    assert load_config(path, environ=ENV).state == tmp_path / "own"


def test_the_url_of_an_object_store_is_not_a_path(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[spool]\npath = "s3://bucket/prefix"\n', encoding="utf-8")

    assert load_config(path, environ=ENV).spool == "s3://bucket/prefix"


def test_every_problem_is_reported_at_once_with_its_line(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        '[tools]\nmodles = ["a:b"]\n[limits]\nbudget_chars = "many"\n'
        '[mcp.servers.git]\ncomand = "x"\n[reach]\nhosts = "a"\n',
    )

    assert found == [
        ":2: tools.modles: unknown key; did you mean 'modules'?",
        ":4: limits.budget_chars: expected a whole number, got 'many'",
        ":8: reach.hosts: expected a list in square brackets, got 'a'",
        ":6: mcp.servers.git.comand: unknown key; did you mean 'command'?",
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[bogus]\n", "bogus"),
        ("tools = 3\n", "tools"),
        ("[tools]\nkit = 3\n", "tools.kit"),
        ('[tools]\nmodules = ["no colon"]\n', "tools.modules"),
        ("[limits]\nconcurrency = 0\n", "limits.concurrency"),
        ("[limits]\nconcurrency = true\n", "limits.concurrency"),
        ("[limits]\ntimeout_seconds = inf\n", "limits.timeout_seconds"),
        ("[server]\nport = 70000\n", "server.port"),
        ('[server]\npath = "mcp"\n', "server.path"),
        ('[profiles.a]\ntoken_sha256 = "abc"\n', "profiles.a.token_sha256"),
        ('[profiles.a]\ntoken_env = "A"\ntoken_sha256 = "%s"\n' % ("0" * 64), "profiles.a"),
        ('[profiles."a b"]\n', "profiles.a b"),
        ('[spindle]\nprofile = "nobody"\n', ""),
        ("[mcp.servers.a]\n", "mcp.servers.a"),
        ('[mcp.servers.a]\ncommand = "x"\nurl = "http://x"\n', "mcp.servers.a"),
        ('[mcp.servers.a]\nurl = "ftp://x"\n', "mcp.servers.a.url"),
        ('[mcp.servers.a]\ncommand = "x"\nheaders = {a = "b"}\n', "mcp.servers.a"),
        ('[mcp.servers.a]\nurl = "http://x"\nargs = ["b"]\n', "mcp.servers.a"),
        ('[mcp.servers.a]\ncommand = "x"\nenv = {A = 1}\n', "mcp.servers.a.env.A"),
        ('[mcp.servers.a]\nurl = "http://x"\nheader_secrets = {A = "two words"}\n', "mcp.servers.a.header_secrets.A"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path, environ=ENV)

    assert caught.value.field == (key or None)
    assert caught.value.problems[0].startswith(f"{path}:1:" if text.count("\n") == 1 else str(path))


def test_the_error_of_a_union_names_both_types(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, '[tools]\nkit = "files"\n')

    assert problem.endswith(":2: tools.kit: expected true or false or a list in square brackets, got 'files'")


@pytest.mark.parametrize("text", ["[tools\n", 'a = "\n', "a = 1\na = 2\n", "x"])
def test_invalid_toml_is_reported_with_its_place(tmp_path: Path, text: str) -> None:
    [problem] = problems(tmp_path, text)

    assert "invalid TOML" in problem


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InvalidConfigError):
        load_config(path, environ=ENV)


@pytest.mark.parametrize(
    "line",
    [
        'env = {GITHUB_TOKEN = "abcdefgh12345"}',
        'env = {HOME_PAGE = "ghp_0123456789abcdefghij0123"}',
        'env = {API_KEY = "a-long-literal-value"}',
        'args = ["--key", "sk-0123456789abcdefghijkl"]',
    ],
)
def test_a_credential_in_the_file_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(f'[mcp.servers.a]\ncommand = "x"\n{line}\n', encoding="utf-8")

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path, environ=ENV)

    assert str(caught.value.field).startswith("mcp.servers.a.")
    for secret in ("abcdefgh12345", "ghp_0123", "a-long-literal", "sk-0123"):
        assert secret not in str(caught.value)


def test_a_literal_bearer_header_is_refused_and_a_variable_is_not(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[mcp.servers.a]\nurl = "http://x"\nheaders = {Authorization = "Bearer abcdefgh12"}\n')
    with pytest.raises(InvalidConfigError):
        load_config(path, environ=ENV)
    path.write_text('[mcp.servers.a]\nurl = "http://x"\nheaders = {Authorization = "Bearer ${TOK}"}\n')

    config = load_config(path, environ=ENV | {"TOK": "from-the-environment"})

    assert config.servers["a"].headers == {"Authorization": "Bearer from-the-environment"}


def test_variables_are_filled_in_where_a_server_is_described(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(
        '[mcp.servers.a]\ncommand = "${BIN}/x"\nargs = ["${NOT_SET:-plain}", "$HOME"]\n'
        'cwd = "sub"\nenv = {A = "${BIN}"}\n'
    )

    entry = load_config(path, environ=ENV | {"BIN": "/bin"}).servers["a"]

    assert entry.command == "/bin/x"
    assert entry.args == ("plain", "$HOME")
    assert entry.cwd == str(tmp_path / "sub")
    assert entry.env == {"A": "/bin"}


def test_a_variable_that_is_not_set_is_a_problem_of_its_key_unless_the_server_is_off(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[mcp.servers.a]\ncommand = "x"\nargs = ["${NOT_SET}"]\n')
    with pytest.raises(InvalidConfigError) as caught:
        load_config(path, environ=ENV)
    assert caught.value.field == "mcp.servers.a.args"
    assert "NOT_SET" in str(caught.value)

    path.write_text('[mcp.servers.a]\ncommand = "x"\nargs = ["${NOT_SET}"]\nenabled = false\n')
    assert not load_config(path, environ=ENV).servers["a"].enabled


def test_other_files_are_imported_and_a_name_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "desktop.json").write_text('{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}')
    (tmp_path / "more.json").write_text('{"servers": {"web": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}')
    path = tmp_path / "spindle.toml"
    path.write_text('[mcp]\nimport = ["desktop.json"]\n[mcp.servers.own]\ncommand = "x"\n')

    config = load_config(path, mcp_configs=[tmp_path / "more.json"], environ=ENV)

    assert list(config.servers) == ["own", "git", "web"]
    assert config.servers["git"].args == ("mcp-server-git",)
    path.write_text('[mcp]\nimport = ["desktop.json"]\n[mcp.servers.git]\ncommand = "x"\n')
    with pytest.raises(InvalidConfigError) as caught:
        load_config(path, environ=ENV)
    assert caught.value.path == str(tmp_path / "desktop.json")


def test_a_server_of_another_file_that_cannot_be_filled_in_is_left_out_alone(tmp_path: Path) -> None:
    other = tmp_path / "editor.json"
    other.write_text('{"servers": {"a": {"command": "x", "env": {"K": "${input:key}"}}, "b": {"command": "y"}}}')

    config = load_config(mcp_configs=[other], cwd=tmp_path, environ=ENV)

    assert {name: entry.enabled for name, entry in config.servers.items()} == {"a": False, "b": True}
    [why] = config.skipped
    assert why.startswith(f"{other}:1: servers.a.env: ")
    assert "${input:key}" in why


def test_a_wrong_value_in_another_file_names_that_file(tmp_path: Path) -> None:
    other = tmp_path / "desktop.json"
    other.write_text('{\n "mcpServers": {\n  "git": {\n   "command": "x",\n   "args": "not a list"\n  }\n }\n}')

    with pytest.raises(InvalidConfigError) as caught:
        load_config(mcp_configs=[other], cwd=tmp_path, environ=ENV)

    assert caught.value.problems[0].startswith(f"{other}:5: mcpServers.git.args: ")


@pytest.mark.parametrize("name", ["a__b", "a_", "a__"])
def test_a_server_name_that_would_blur_into_its_tools_is_refused(tmp_path: Path, name: str) -> None:
    [problem] = problems(tmp_path, f'[mcp.servers.{name}]\ncommand = "x"\n')

    assert "__" in problem
    assert name in problem


def test_an_imported_server_whose_name_would_blur_into_its_tools_is_skipped(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.json"
    theirs.write_text('{"mcpServers": {"a__b": {"command": "x"}, "good": {"command": "y"}}}', encoding="utf-8")

    config = load_config(cwd=tmp_path, mcp_configs=[theirs], environ=ENV)

    assert [name for name, entry in config.servers.items() if entry.enabled] == ["good"]
    assert any("a__b" in note for note in config.skipped)
