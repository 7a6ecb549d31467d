"""A command sees exactly the files that its tool may reach: in every sandbox, or it does not run."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from spindle import Backends, Call, Capabilities, Executor, Journal, ToolContext, ToolRegistry, tool
from spindle.capabilities import CallScope, FileReach, ProcessBackend, from_file
from spindle.cli import load_config, open_runtime
from spindle.errors import CapabilityError, SandboxUnavailableError
from spindle.kit import kit_tools

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

BAIT, SECRET = "canary-77c0", "secret-5e1b"
KINDS = [
    "namespaces",
    "landlock",
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(
            shutil.which("bwrap") is None, reason="bubblewrap is not installed: apt-get install bubblewrap"
        ),
    ),
]
HIDING = [kind for kind in KINDS if kind != "landlock"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with readable, writable and other files."""
    folder = tmp_path / "root"
    for path in ("src.py", "data/in.txt", "out/old.txt", "private/key.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{BAIT} {path}\n")
    return folder


def plant(root: Path, path: str) -> None:
    """Write the bait to a path below the root."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{SECRET}\n")


def open_shell(root: Path, kind: Any, *, declared: FileReach | None = None, **options: Any) -> Any:
    """Return the handle of a tool that runs shell command lines; skip if this machine lacks the sandbox."""
    backend = ProcessBackend(["sh"], root=root, shell=True, sandbox_kinds=(kind,), **options)
    if backend.sandbox().kind != kind:
        pytest.skip(f"{kind} is not available here: {backend.sandbox().missing}")
    if kind == "namespaces" and "root" not in backend.sandbox().enforced:
        pytest.skip(f"{kind} has no root of its own here: {backend.sandbox().missing}")
    return backend.open(("sh",), CallScope(tool="t", session_id="s", files=declared))


def snapshot(root: Path) -> dict[str, str]:
    """Return the text of every file below a folder."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_command_writes_only_where_writing_is_granted(kind: Any, root: Path) -> None:
    before = snapshot(root)
    process = open_shell(root, kind, write=["out"])

    for line in (
        "sed -i s/canary/x/ src.py",
        "echo x > src.py",
        "echo x >> data/in.txt",
        "rm src.py",
        "mv src.py out/",
        "mv out away",
        "ln src.py out/hard && echo x > out/hard",
        "mkdir new",
        "echo x > new.txt",
        "chmod 777 src.py && false",
        "ln -s ../src.py out/soft && echo x > out/soft",
        "rm -rf data private",
        f"echo x > {root}/src.py",
        "cp src.py data/copy",
    ):
        done = await process.run(line)
        assert done.exit_code != 0, (line, done)
    done = await process.run("cat src.py data/in.txt && echo new > out/new.txt && cat out/new.txt")

    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "new"), done
    after = snapshot(root)
    assert {path: after.get(path) for path in before} == before
    assert sorted(path for path in set(after) - set(before) if not path.startswith("out/")) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_command_reads_only_where_reading_is_granted(kind: Any, root: Path) -> None:
    process = open_shell(root, kind, read=["data"], write=["out"])

    done = await process.run(
        "cat data/in.txt; cat src.py private/key.txt out/old.txt out/../src.py data/../private/key.txt;"
        " cp -r private out/; cat out/private/key.txt; ln -s ../src.py out/l; cat out/l; echo made > out/made"
    )

    assert done.stdout.splitlines() == [f"{BAIT} data/in.txt"], done
    assert (root / "out" / "made").read_text() == "made\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_root_without_a_writable_folder_is_read_only(kind: Any, root: Path) -> None:
    before = snapshot(root)

    done = await open_shell(root, kind, write=[]).run("cat src.py; echo x > src.py; echo x > $HOME/x && cat $HOME/x")

    assert done.stdout.splitlines() == [f"{BAIT} src.py", "x"], done
    assert snapshot(root) == before


@pytest.mark.parametrize("kind", HIDING)
async def test_unreadable_files_are_absent(kind: Any, root: Path) -> None:
    done = await open_shell(root, kind, read=["data"], write=[]).run(
        "ls -A data; for path in src.py private out; do test -e $path || echo no $path; done; pwd"
    )

    assert done.stdout.splitlines() == ["in.txt", "no src.py", "no private", "no out", str(root)], done


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_declares_files_runs_commands_on_these_only(kind: Any, root: Path) -> None:
    declared = FileReach(read=["data", "out"], write=["out"])

    done = await open_shell(root, kind, declared=declared, write=["out", "private"]).run(
        "cat data/in.txt src.py private/key.txt; echo x > private/new; echo x > data/new;"
        " echo made > out/new; cat out/new"
    )

    assert done.stdout.splitlines() == [f"{BAIT} data/in.txt", "made"], done
    assert "private/new" not in snapshot(root)
    assert "data/new" not in snapshot(root)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_granted_path_that_is_a_link_leads_nowhere(kind: Any, root: Path, tmp_path: Path) -> None:
    plant(tmp_path, "outside/secret")
    (root / "link").symlink_to(tmp_path / "outside")

    done = await open_shell(root, kind, read=["link", "data"], write=["link"]).run(
        "cat link/secret; echo x > link/new; cat data/in.txt"
    )

    assert done.stdout.splitlines() == [f"{BAIT} data/in.txt"], done
    assert snapshot(tmp_path / "outside") == {"secret": f"{SECRET}\n"}


CREDENTIALS = [
    ".ssh/id_rsa",
    ".netrc",
    "home/alice/.aws/credentials",
    ".docker/config.json",
    "a/b/.npmrc",
    "c/.SSH/key",
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [[], ["out"]])
async def test_credential_files_are_hidden_in_a_readable_root(kind: Any, write: list[str], root: Path) -> None:
    for path in CREDENTIALS:
        plant(root, path)

    done = await open_shell(root, kind, write=write).run(
        f"cat {' '.join(CREDENTIALS)}; cat src.py; grep -r secret-5e1b .ssh a"
    )

    assert done.stdout.splitlines() == [f"{BAIT} src.py"], done


@pytest.mark.slow
@pytest.mark.parametrize("kind", HIDING)
async def test_credential_files_are_hidden_in_a_writable_root_and_stay_so(kind: Any, root: Path) -> None:
    for path in CREDENTIALS:
        plant(root, path)
    process = open_shell(root, kind)

    for line in (
        f"cat {' '.join(CREDENTIALS)}",
        "mv home elsewhere; mv .docker d; mv a b; mv home/alice home/bob; mv .ssh s; mv .netrc n",
        "rm -rf .ssh .netrc home .docker",
        "cp -r . copy; ln .netrc n; ln -s .netrc l; cat l; tar cf - . | tar xf - -C $HOME; cat $HOME/.netrc",
        "umount .ssh .netrc; mount --bind / home",
        "grep -rh secret-5e1b elsewhere d b home copy s n l",
    ):
        done = await process.run(f"{line} 2>/dev/null; true")
        assert SECRET not in done.stdout, (line, done)

    assert {path: snapshot(root).get(path) for path in CREDENTIALS} == dict.fromkeys(CREDENTIALS, f"{SECRET}\n")
    assert (await process.run("echo fine > src.py && cat src.py")).stdout == "fine\n"


async def test_landlock_alone_refuses_commands_that_could_write_around_a_hidden_file(root: Path) -> None:
    plant(root, ".netrc")

    with pytest.raises(SandboxUnavailableError) as caught:
        await open_shell(root, "landlock").run("cat .netrc")

    assert tuple(caught.value.missing) == ("root",)


@pytest.mark.parametrize("kind", KINDS)
async def test_credential_files_are_opened_by_name_for_commands_too(kind: Any, root: Path) -> None:
    plant(root, ".npmrc")
    plant(root, ".netrc")

    done = await open_shell(root, kind, write=[], credential_files=[".npmrc"]).run("cat .npmrc .netrc")

    assert done.stdout == f"{SECRET}\n", done


def test_a_root_of_commands_within_a_credential_folder_has_to_be_opened(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()

    with pytest.raises(CapabilityError):
        ProcessBackend(["true"], root=tmp_path / ".aws")
    ProcessBackend(["true"], root=tmp_path / ".aws", credential_files=["."])


@pytest.mark.slow
@pytest.mark.parametrize("kind", HIDING)
async def test_the_files_of_spindle_are_hidden_from_commands(kind: Any, root: Path) -> None:
    (root / "conf").mkdir()
    (root / "conf" / "secrets.env").write_text(f"KEY={SECRET}-own\n")
    (root / "conf" / "secrets.env").chmod(0o600)
    from_file(root / "conf" / "secrets.env")
    async with Journal.sqlite(root / "journal.sqlite"):
        process = open_shell(root, kind, credential_files=["."])
        for line in (
            "cat conf/secrets.env journal.sqlite journal.sqlite-wal",
            "mv conf c; cat c/secrets.env; rm conf/secrets.env; echo x > conf/secrets.env",
            "mv conf/secrets.env y; cat y",
            "echo x > journal.sqlite; rm -f journal.sqlite",
        ):
            done = await process.run(f"{line}; true")
            assert f"{SECRET}-own" not in done.stdout, (line, done)
            assert "SQLite format" not in done.stdout, (line, done)

    assert (root / "conf" / "secrets.env").read_text() == f"KEY={SECRET}-own\n"
    assert (root / "journal.sqlite").read_bytes()[:6] == b"SQLite"


@pytest.mark.parametrize("kind", KINDS)
async def test_hard_links_to_withheld_files_are_hidden_from_commands(kind: Any, root: Path, tmp_path: Path) -> None:
    """With Landlock, a link that can be read opens the file by its withheld name too."""
    for path in ("secrets.env", "home/.ssh/id_rsa", ".npmrc"):
        plant(root, path)
    (tmp_path / "outside.env").write_text(f"KEY={SECRET}\n")
    for number, target in enumerate([root / "secrets.env", root / "home/.ssh/id_rsa", root / ".npmrc"]):
        (root / "data" / f"link{number}.txt").hardlink_to(target)
    (root / "data" / "link3.txt").hardlink_to(tmp_path / "outside.env")
    (root / "data" / "harmless.txt").hardlink_to(root / "src.py")
    for secrets in (root / "secrets.env", tmp_path / "outside.env"):
        secrets.write_text(f"KEY={SECRET}\n")
        secrets.chmod(0o600)
        from_file(secrets)
    process = open_shell(root, kind, write=["out"])

    found = await process.run("cat data/* secrets.env .npmrc home/.ssh/id_rsa; cp data/link* out; cat out/*")

    assert SECRET not in found.stdout
    assert f"{BAIT} src.py" in found.stdout, "other hard links can be read"


@pytest.mark.parametrize("kind", KINDS)
async def test_the_files_beside_a_database_are_hidden_in_further_paths(kind: Any, root: Path, tmp_path: Path) -> None:
    plant(tmp_path, "more/journal.sqlite-wal")
    Journal.sqlite(tmp_path / "more" / "journal.sqlite")
    process = open_shell(root, kind, read_paths=[str(tmp_path / "more")])

    found = await process.run(f"cat {tmp_path}/more/journal.sqlite-wal")

    assert (found.ok, SECRET in found.stdout) == (False, False)


@pytest.mark.parametrize(
    "options", [{"write": ["out"]}, {"read": ["data"]}, {"write": []}, {"read": ["data"], "write": ["out"]}]
)
async def test_without_a_sandbox_a_command_with_less_reach_than_the_root_is_refused(
    options: dict[str, Any], root: Path
) -> None:
    refused = ProcessBackend(["touch"], root=root, sandbox_kinds=(), **options)
    spoken = ProcessBackend(["touch"], root=root, sandbox="none", **options)
    scope = CallScope(tool="t", session_id="s")

    with pytest.raises(SandboxUnavailableError) as caught:
        await refused.open(("touch",), scope).run(["touch", "made"])
    assert "sandbox" in str(caught.value)
    assert not (root / "made").exists()

    assert (await spoken.open(("touch",), scope).run(["touch", "made"])).ok


async def test_without_a_sandbox_a_command_with_all_of_the_root_runs(root: Path) -> None:
    process = ProcessBackend(["touch"], root=root, sandbox_kinds=()).open(
        ("touch",), CallScope(tool="t", session_id="s")
    )

    assert (await process.run(["touch", "made"])).ok
    plant(root, "sub/.netrc")
    with pytest.raises(SandboxUnavailableError):
        await process.run(["touch", "made"])


async def test_reach_binds_the_terminal_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text(
        '[spindle]\nstate = "state"\n[tools]\nkit = ["files", "terminal"]\n'
        '[reach]\nroot = "."\nwrite = ["out"]\ncommands = ["sed", "cat", "touch"]\nsecrets = ["KEY"]\n'
        'secrets_file = "secrets.env"\n'
    )
    (tmp_path / "secrets.env").write_text(f"KEY={BAIT}\n")
    (tmp_path / "secrets.env").chmod(0o600)
    (tmp_path / "src.py").write_text("a = 1\n")
    (tmp_path / "out").mkdir()
    files = [tmp_path / name for name in ("src.py", "spindle.toml", "secrets.env")]
    before = [file.read_text() for file in files]
    config = load_config(tmp_path / "spindle.toml")

    async with open_runtime(config) as runtime:
        lines = ["sed -i s/1/2/ src.py", "sed -i s/out/./ spindle.toml", "cat secrets.env", "cat spindle.toml"]
        calls = [
            Call(f"c{n}", "terminal", {"command": line})
            for n, line in enumerate([*lines, "touch out/made", "cat src.py"])
        ]
        outcomes = await runtime.executor.execute_parallel(calls, ToolContext(session_id="s1"))

    texts = [getattr(outcome.result, "value", "") for outcome in outcomes]
    if "sandbox" in str(getattr(outcomes[-1].result, "error", "")):
        pytest.skip("this machine has no sandbox that can enforce it")
    assert BAIT not in "".join(texts)
    assert all("[exit code" in text for text in texts[:4]), texts
    assert texts[5] == "a = 1\n"
    assert (tmp_path / "out" / "made").exists()
    assert [file.read_text() for file in files] == before


async def test_a_tool_of_the_executor_is_bound_by_its_own_declaration(root: Path) -> None:
    @tool(capabilities=Capabilities(process=["cat"], files=FileReach(read=["data"])))
    async def show(path: str, *, ctx: ToolContext) -> str:
        """Show a file."""
        return (await ctx.process.run(["cat", path])).stdout

    executor = Executor(ToolRegistry([show, *kit_tools(["terminal"])]), backends=Backends.local(root, commands=["cat"]))
    paths = ["data/in.txt", "src.py"]
    calls = [Call(path, "show", {"path": path}) for path in paths]
    calls.append(Call("t", "terminal", {"command": "cat src.py"}))

    outcomes = await executor.execute_parallel(calls, ToolContext(session_id="s1"))

    texts = [getattr(outcome.result, "value", None) for outcome in outcomes]
    if None in texts:
        pytest.skip("this machine has no sandbox that can enforce it")
    assert texts == [f"{BAIT} data/in.txt\n", "", f"{BAIT} src.py\n"]
