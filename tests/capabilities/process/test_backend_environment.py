"""Variables that a tool passes to a command: those that decide which code runs need a grant of their own."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from spindle import Backends, Call, Capabilities, Executor, ToolContext, ToolRegistry, tool
from spindle.capabilities import CallScope, ProcessBackend
from spindle.capabilities.process import check_env, is_code_variable
from spindle.errors import CapabilityError

pytestmark = pytest.mark.anyio

SCOPE = CallScope(tool="runner", session_id="s1")

STEERING = [
    *("PATH", "HOME", "TMPDIR", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "GCONV_PATH"),
    *("BASH_ENV", "ENV", "BASH_FUNC_ls%%", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "ZDOTDIR", "IFS"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONBREAKPOINT"),
    *("NODE_OPTIONS", "NODE_PATH", "npm_config_script_shell", "NPM_CONFIG_NODE_OPTIONS", "PERL5OPT", "PERL5LIB"),
    *("RUBYOPT", "RUBYLIB", "GEM_PATH", "BUNDLE_GEMFILE", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_INIT_5_4"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "MAVEN_OPTS", "DOTNET_STARTUP_HOOKS"),
    *("CORECLR_PROFILER_PATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR"),
    *("GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG_GLOBAL", "GIT_DIR"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "GIT_CONFIG_PARAMETERS", "XDG_CONFIG_HOME"),
    *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "SSH_ASKPASS", "SUDO_ASKPASS"),
    *("RUSTC_WRAPPER", "CARGO_HOME", "GOFLAGS", "GOTOOLCHAIN", "MAKEFLAGS", "CC", "CFLAGS", "RSYNC_RSH", "TAR_OPTIONS"),
    *("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PIP_INDEX_URL", "OPENSSL_CONF", "KUBECONFIG", "TF_CLI_CONFIG_FILE"),
    *("VIMINIT", "EMACSLOADPATH", "R_PROFILE_USER", "ERL_FLAGS", "SOME_TOOL_OPTIONS", "pythonpath"),
    *("RIPGREP_CONFIG_PATH", "BAT_CONFIG_PATH", "WGETRC", "CURL_HOME", "CCACHE_PREFIX", "MAGICK_CONFIGURE_PATH"),
    *("GDAL_DRIVER_PATH", "TS_NODE_COMPILER", "MYPYPATH", "AWKLIBPATH", "GNUPGHOME", "CHROME_EXECUTABLE"),
]
PLAIN = [
    *(
        "LANG",
        "LC_ALL",
        "TZ",
        "TERM",
        "NO_COLOR",
        "CI",
        "COLUMNS",
        "DEBUG",
        "API_URL",
        "MODE",
        "DATA_DIR",
        "APP_CONFIG",
    ),
    *("PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONIOENCODING", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL"),
    *("GIT_TERMINAL_PROMPT", "NODE_ENV", "RUST_BACKTRACE"),
]


@pytest.mark.parametrize("name", STEERING)
def test_variables_that_decide_which_code_runs_are_refused_unless_granted(name: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        check_env({name: "x"}, pinned=True, tool="runner")

    assert is_code_variable(name)
    assert (caught.value.field, caught.value.tool) == ("env", "runner")
    assert name in str(caught.value)
    assert check_env({name: "x"}, pinned=True, allowed=[name]) == {name: "x"}


@pytest.mark.parametrize("name", PLAIN)
def test_ordinary_variables_need_no_grant(name: str) -> None:
    assert check_env({name: "x"}, pinned=True) == {name: "x"}


def test_granting_one_variable_grants_no_other_of_its_family() -> None:
    for name in ("PYTHONHOME", "PYTHONPATHS", "pythonpath"):
        with pytest.raises(CapabilityError):
            check_env({name: "x"}, pinned=True, allowed=["PYTHONPATH"])


@pytest.mark.parametrize("names", ["PYTHONPATH", b"PYTHONPATH", {"PYTHONPATH": "x"}, ["PYTHON*"], [""], ["A=B"], [1]])
def test_a_grant_of_variables_is_a_list_of_exact_names(names: Any, tmp_path: Path) -> None:
    with pytest.raises(CapabilityError):
        ProcessBackend(["env"], root=tmp_path, allowed_env=names)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with code that runs if the loader of git's commands is pointed at it."""
    (tmp_path / "evil.sh").write_text("#!/bin/sh\necho planted code ran\n")
    (tmp_path / "evil.sh").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("name", ["BASH_ENV", "ENV"])
async def test_a_planted_start_file_of_a_shell_runs_only_with_a_grant(name: str, planted: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    argv = ["bash", "-c", "true"] if name == "BASH_ENV" else ["bash", "--posix", "-i", "-c", "true"]
    env = {name: str(planted / "evil.sh")}
    refused = ProcessBackend(["bash"], root=planted).open(("bash",), SCOPE)
    granted = ProcessBackend(["bash"], root=planted, allowed_env=[name]).open(("bash",), SCOPE)

    with pytest.raises(CapabilityError):
        await refused.run(argv, env=env)
    done = await granted.run(argv, env=env)

    assert "planted code ran" in done.stdout


@pytest.mark.parametrize("granted", [False, True])
async def test_a_tool_is_refused_through_the_executor(granted: bool, planted: Path) -> None:
    @tool(capabilities=Capabilities(process=["git"]))
    async def diff(*, ctx: ToolContext) -> str:
        """Compare two files with a program that the environment names."""
        (planted / "a").write_text("a\n")
        (planted / "b").write_text("b\n")
        env = {"GIT_EXTERNAL_DIFF": str(planted / "evil.sh")}
        done = await ctx.process.run(["git", "diff", "--no-index", "--ext-diff", "a", "b"], env=env)
        return done.stdout

    allowed = ["GIT_EXTERNAL_DIFF"] if granted else []
    backends = Backends.local(planted, commands=["git"], allowed_env=allowed)
    executor = Executor(ToolRegistry([diff]), backends=backends)

    (outcome,) = await executor.execute_parallel([Call("c1", "diff", {})], ToolContext(session_id="s1"))

    assert outcome.result.ok is granted
    assert ("planted code ran" in getattr(outcome.result, "value", "")) is granted
