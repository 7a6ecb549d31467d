"""Ordinary programs work in every sandbox, whatever configuration the machine and its users have."""

import shutil
from pathlib import Path

import pytest

from spindle.capabilities.process import backend_view
from spindle.capabilities.process.backend import LocalProcess
from spindle.capabilities.process.backend_sandbox import SandboxKind
from spindle.capabilities.process.policy import SEARCH_PATH, ProcessLimits
from tests.capabilities.confined import KINDS, handle

pytestmark = pytest.mark.anyio

PLAIN = "[init]\n\tdefaultBranch = trunk\n[safe]\n\tdirectory = *\n"
SECRET = '[init]\n\tdefaultBranch = trunk\n[credential "https://example.com"]\n\thelper = store\n'
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.com")
LIMITS = ProcessLimits(memory_bytes=None)  # Node.js reserves more address space than it uses

PROGRAMS = [
    [["git", "init", "-q", "."], ["git", "status"], ["git", *IDENTITY, "commit", "-q", "--allow-empty", "-m", "x"]],
    [["python3", "-c", "import ssl, sqlite3, tempfile; tempfile.TemporaryFile()"]],
    pytest.param(
        [["python3", "-m", "pip", "--version"], ["python3", "-m", "pip", "list", "--disable-pip-version-check"]],
        marks=pytest.mark.slow,
    ),
    [["node", "-e", "require('fs').writeFileSync('made', '')"]],
    pytest.param([["npm", "--version"], ["npm", "init", "-y"], ["npm", "config", "list"]], marks=pytest.mark.slow),
    [["make", "-s", "all"]],
    [["curl", "--version"]],
    [["rg", "echo"]],
    [["sh", "-c", "echo a >/dev/null && echo b >/dev/stdout && test -r /dev/urandom && mktemp"]],
]


@pytest.fixture
def anyio_backend() -> str:
    """One event loop is enough: these tests are about what happens inside the command."""
    return "asyncio"


def program_id(commands: list[list[str]]) -> str:
    return " ".join(commands[0][:3])


async def run_all(process: LocalProcess, commands: list[list[str]]) -> None:
    """Run commands of one program; skip, and say so, where it is not installed."""
    name = commands[0][0]
    if shutil.which(name, path=SEARCH_PATH) is None:
        pytest.skip(f"{name} is not installed")
    for command in commands:
        done = await process.run(command)
        if "No module named pip" in done.stderr:
            pytest.skip("the system's python3 has no pip")
        assert done.exit_code == 0, (command, done.stdout, done.stderr)
        assert "ermission denied" not in done.stderr, (command, done.stderr)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "Makefile").write_text("all:\n\t@echo made > made\n")
    return folder


@pytest.fixture
def git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that git and the backend take for the system's; it is outside the root."""
    path = tmp_path / "etc" / "gitconfig"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(backend_view, "SYSTEM_GIT_CONFIG", str(path))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("commands", PROGRAMS, ids=program_id)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_works_beside_a_secret_system_configuration(
    kind: SandboxKind, commands: list[list[str]], root: Path, git_config: Path
) -> None:
    write(git_config, SECRET)

    await run_all(handle(root, kind, env={"GIT_CONFIG_SYSTEM": str(git_config)}, limits=LIMITS), commands)


@pytest.mark.slow
@pytest.mark.parametrize("commands", PROGRAMS, ids=program_id)
@pytest.mark.parametrize("kind", KINDS[1:])
async def test_a_program_works_with_a_home_that_was_not_granted(
    kind: SandboxKind, commands: list[list[str]], root: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for name in (".gitconfig", ".config/git/config", ".config/pip/pip.conf", ".npmrc", ".curlrc"):
        write(home / name, "this is no configuration")

    await run_all(handle(root, kind, env={"HOME": str(home)}, limits=LIMITS), commands)


@pytest.mark.parametrize("kind", KINDS)
async def test_git_follows_a_plain_system_configuration(kind: SandboxKind, root: Path, git_config: Path) -> None:
    write(git_config, PLAIN)
    process = handle(root, kind, env={"GIT_CONFIG_SYSTEM": str(git_config)})

    done = await process.run(["git", "config", "init.defaultBranch"])

    assert (done.exit_code, done.stdout) == (0, "trunk\n"), done.stderr


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_a_configuration_becomes_unreadable_once_it_holds_a_secret(
    kind: SandboxKind, root: Path, git_config: Path
) -> None:
    process = handle(root, kind)
    write(git_config, PLAIN)
    plain = await process.run(["cat", str(git_config)])

    write(git_config, SECRET)
    secret = await process.run(["cat", str(git_config)])

    assert (plain.exit_code, plain.stdout) == (0, PLAIN)
    assert (secret.exit_code, secret.stdout) == (1, "")


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_granted_configuration_is_not_skipped(
    kind: SandboxKind, root: Path, git_config: Path, tmp_path: Path
) -> None:
    write(git_config, SECRET)
    home = tmp_path / "home"
    write(home / ".gitconfig", "[user]\n\tname = Somebody\n")
    env = {"GIT_CONFIG_SYSTEM": str(git_config), "HOME": str(home)}
    process = handle(root, kind, env=env, read_paths=[str(git_config), str(home)])

    system = await process.run(["git", "config", "init.defaultBranch"])
    own = await process.run(["git", "config", "user.name"])

    assert (system.stdout, own.stdout) == ("trunk\n", "Somebody\n"), (system.stderr, own.stderr)
