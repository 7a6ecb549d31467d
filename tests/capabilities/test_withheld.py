"""Files that no grant opens: credential files unless they are named, and the files that Spindle itself uses."""

import os
from pathlib import Path
from typing import Any

import pytest

from spindle import Backends, Call, Executor, Journal, Spool, ToolContext, ToolRegistry
from spindle.capabilities import CallScope, FileReach, FilesBackend, StorageBackend, from_file
from spindle.cli import load_config, open_runtime
from spindle.errors import CapabilityError, PathNotReachableError
from spindle.kit import kit_tools
from spindle.turns import Records

pytestmark = pytest.mark.anyio

BAIT = "canary-4f1d"

CREDENTIALS = [
    *(".ssh/id_rsa", ".ssh/config", ".aws/credentials", ".gnupg/secring.gpg", ".netrc", "_netrc", ".npmrc", ".pypirc"),
    *(".git-credentials", ".docker/config.json", ".kube/config", ".bash_history", ".zsh_history", ".python_history"),
    *(".pgpass", ".azure/token", ".vault-token", ".cargo/credentials.toml", ".config/gh/hosts.yml", ".m2/settings.xml"),
    *(".config/gcloud/credentials.db", ".local/share/keyrings/login", "Library/Keychains/login.keychain-db"),
    *("home/alice/.ssh/id_rsa", "a/b/c/.netrc", "project/.npmrc", "etc/../.ssh"),
]
SPELLINGS = [
    *(".SSH/id_rsa", ".Ssh/id_rsa", "./.ssh/id_rsa", ".ssh//id_rsa", ".ssh/./id_rsa", ".ssh/id_rsa/", ".ssh", ".ssh/"),
    *(".s\u200csh/id_rsa", ".\uff53sh/id_rsa", ".\u017fsh/id_rsa", ".ssh./id_rsa", ".ssh /id_rsa", ".NETRC", ".netrc."),
    *(".docker/CONFIG.json", ".Docker/config.json", "a/.ssh", ".ssh/../.ssh/id_rsa", "/.ssh/id_rsa", "~/.ssh/id_rsa"),
]


def plant(root: Path, path: str) -> None:
    """Write the bait to a path below the root."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{BAIT}\n")


def list_names(root: Path) -> list[str]:
    """Return the paths below a root."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def open_files(root: Path, **options: Any) -> Any:
    """Return a handle of a tool that declared everything below a root."""
    return FilesBackend(root, **options).open(FileReach(read=["."], write=["."]), CallScope(tool="t", session_id="s"))


async def refuse_all(files: Any, path: str) -> None:
    """Check that every operation on a path is refused."""
    operations = (
        lambda: files.read_bytes(path),
        lambda: files.read_text(path),
        lambda: files.write_text(path, "x"),
        lambda: files.write_bytes(path, b"x"),
        lambda: files.stat(path),
        lambda: files.exists(path),
        lambda: files.list(path),
        lambda: files.make_dir(path),
        lambda: files.remove(path),
    )
    for operation in operations:
        with pytest.raises(PathNotReachableError) as caught:
            await operation()
        assert caught.value.path == path


@pytest.mark.parametrize("path", [path for path in CREDENTIALS if ".." not in path])
async def test_credential_files_are_withheld_under_any_root(path: str, tmp_path: Path) -> None:
    plant(tmp_path, path)

    await refuse_all(open_files(tmp_path), path)

    assert (tmp_path / path).read_text() == f"{BAIT}\n"


@pytest.mark.parametrize("path", SPELLINGS)
async def test_no_spelling_opens_a_credential_file(path: str, tmp_path: Path) -> None:
    plant(tmp_path, ".ssh/id_rsa")
    plant(tmp_path, ".docker/config.json")

    await refuse_all(open_files(tmp_path), path)


@pytest.mark.parametrize(
    "path", [".sshd/x", "ssh/id_rsa", "netrc", ".docker/daemon.json", "config.json", ".env", ".gitconfig"]
)
async def test_similar_names_are_not_withheld(path: str, tmp_path: Path) -> None:
    plant(tmp_path, path)

    assert await open_files(tmp_path).read_text(path) == f"{BAIT}\n"


async def test_a_grant_that_names_the_folder_does_not_open_it(tmp_path: Path) -> None:
    plant(tmp_path, ".ssh/id_rsa")
    backend = FilesBackend(tmp_path, read=[".ssh"], write=[".ssh"])

    files = backend.open(FileReach(read=[".ssh/id_rsa"], write=[".ssh"]), CallScope(tool="t", session_id="s"))

    await refuse_all(files, ".ssh/id_rsa")


async def test_credential_files_are_opened_by_name_and_only_those(tmp_path: Path) -> None:
    for path in (".npmrc", ".ssh/config", ".ssh/id_rsa", "sub/.npmrc"):
        plant(tmp_path, path)
    files = open_files(tmp_path, credential_files=[".npmrc", ".ssh/config"])

    assert await files.read_text(".npmrc") == f"{BAIT}\n"
    assert await files.read_text(".ssh/config") == f"{BAIT}\n"
    for path in (".ssh/id_rsa", ".ssh", "sub/.npmrc"):
        await refuse_all(files, path)


@pytest.mark.parametrize("root", [".ssh", ".aws/sso", ".config/gcloud"])
async def test_a_root_within_a_credential_folder_has_to_be_opened_by_name(root: str, tmp_path: Path) -> None:
    plant(tmp_path / root, "token")
    (tmp_path / "link").symlink_to(root)

    for path in (tmp_path / root, tmp_path / "link"):
        with pytest.raises(CapabilityError):
            FilesBackend(path)
    assert await open_files(tmp_path / root, credential_files=["."]).read_text("token") == f"{BAIT}\n"


async def test_a_root_above_half_of_a_name_withholds_the_other_half(tmp_path: Path) -> None:
    plant(tmp_path, ".docker/config.json")

    await refuse_all(open_files(tmp_path / ".docker"), "config.json")


@pytest.mark.parametrize(("root", "path"), [("/", "etc/shadow"), ("/etc", "shadow"), ("/etc", "sudoers.d/x")])
async def test_the_credentials_of_the_machine_are_withheld(root: str, path: str) -> None:
    files = open_files(Path(root))

    for operation in (files.read_bytes, files.stat, files.list):
        with pytest.raises(PathNotReachableError):
            await operation(path)


async def test_listings_show_withheld_entries_without_their_size(tmp_path: Path) -> None:
    plant(tmp_path, ".ssh/id_rsa")
    plant(tmp_path, ".netrc")
    plant(tmp_path, "plain.txt")

    entries = await open_files(tmp_path).list(".")

    found = {entry.name: (entry.kind, entry.size_bytes) for entry in entries}
    assert found == {".ssh": ("withheld", 0), ".netrc": ("withheld", 0), "plain.txt": ("file", len(BAIT) + 1)}


async def run_tools(executor: Executor, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Run calls of the kit's tools and return their results."""
    batch = [Call(f"c{number}", name, args) for number, (name, args) in enumerate(calls)]
    outcomes = await executor.execute_parallel(batch, ToolContext(session_id="s1"))
    return [outcome.result for outcome in outcomes]


async def test_the_tools_of_the_kit_neither_read_search_nor_write_withheld_files(tmp_path: Path) -> None:
    plant(tmp_path, ".ssh/id_rsa")
    plant(tmp_path, "sub/.netrc")
    plant(tmp_path, "secrets.env")
    (tmp_path / "secrets.env").write_text(f"SHOP_KEY={BAIT}\n")
    (tmp_path / "secrets.env").chmod(0o600)
    backends = Backends.local(tmp_path, secrets=from_file(tmp_path / "secrets.env"))
    executor = Executor(ToolRegistry(kit_tools(["files"])), backends=backends)

    listed, nested, searched, *refused = await run_tools(
        executor,
        ("list_dir", {}),
        ("list_dir", {"path": "sub"}),
        ("search_files", {"pattern": "canary"}),
        ("search_files", {"pattern": "canary", "path": ".ssh"}),
        ("search_files", {"pattern": "canary", "path": "secrets.env"}),
        ("read_file", {"path": ".ssh/id_rsa"}),
        ("read_file", {"path": "secrets.env"}),
        ("write_file", {"path": "secrets.env", "content": "SHOP_KEY=mine"}),
        ("patch_file", {"path": "secrets.env", "old": "SHOP", "new": "X"}),
        ("list_dir", {"path": ".ssh"}),
    )

    assert listed.value.splitlines() == ["sub/", ".ssh  (withheld)", "secrets.env  (withheld)"]
    assert nested.value == ".netrc  (withheld)"
    assert searched.value == "No hits. 0 files searched; skipped: 3 withheld."
    assert not any(result.ok for result in refused)
    assert BAIT not in repr([searched, *refused])
    assert (tmp_path / "secrets.env").read_text() == f"SHOP_KEY={BAIT}\n"


async def test_the_stores_of_spindle_are_out_of_reach(tmp_path: Path) -> None:
    files = open_files(tmp_path, credential_files=["."])
    spool = Spool.files(tmp_path / "spool")
    await spool.write("one", "words")
    Records.sqlite(tmp_path / "records.sqlite")
    await StorageBackend.sqlite(tmp_path / "kv.sqlite").open("tool", CallScope(tool="t", session_id="s")).set("k", 1)
    async with Journal.sqlite(tmp_path / "journal.sqlite"):
        names = list_names(tmp_path)
        (stored,) = (path for path in names if path.endswith(".data"))
        own = [*names, "records.sqlite", stored, "spool/new", "journal.sqlite-wal", "JOURNAL.sqlite"]

        assert {"journal.sqlite", "kv.sqlite", "spool"} <= set(names)
        for path in own:
            await refuse_all(files, path)


async def test_a_spool_in_the_root_itself_is_out_of_reach(tmp_path: Path) -> None:
    plant(tmp_path, "plain.txt")
    spool, files = Spool.files(tmp_path), open_files(tmp_path)
    await spool.write("one", BAIT)

    for path in [path for path in list_names(tmp_path) if path != "plain.txt"]:
        await refuse_all(files, path)

    assert await files.read_text("plain.txt") == f"{BAIT}\n"


async def test_the_target_of_a_link_to_a_secrets_file_is_out_of_reach_even_after_a_change(tmp_path: Path) -> None:
    for name in ("first.env", "second.env"):
        (tmp_path / name).write_text(f"KEY={BAIT}\n")
        (tmp_path / name).chmod(0o600)
    (tmp_path / "secrets.env").symlink_to("first.env")
    from_file(tmp_path / "secrets.env")
    files = open_files(tmp_path)
    await refuse_all(files, "first.env")

    (tmp_path / "secrets.env").unlink()
    (tmp_path / "secrets.env").symlink_to("second.env")

    for operation in (files.read_bytes, files.stat, files.remove):
        with pytest.raises(PathNotReachableError):
            await operation("second.env")


async def test_a_hard_link_to_a_secrets_file_is_out_of_reach_where_hard_links_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secrets.env").write_text(f"KEY={BAIT}\n")
    (tmp_path / "secrets.env").chmod(0o600)
    os.link(tmp_path / "secrets.env", tmp_path / "root" / "copy")
    from_file(tmp_path / "secrets.env")

    with pytest.raises(PathNotReachableError):
        await open_files(tmp_path / "root", hard_links=True).read_bytes("copy")


async def test_the_files_of_a_configuration_are_out_of_reach_of_its_tools(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text(
        '[spindle]\nstate = "state"\n[tools]\nkit = ["files"]\n'
        '[reach]\nroot = "."\nwrite = ["."]\nsecrets = ["KEY"]\nsecrets_file = "secrets.env"\n'
        '[mcp]\nimport = ["desktop.json"]\n[server]\ntls_certificate = "chain.pem"\ntls_key = "key.pem"\n'
    )
    (tmp_path / "key.pem").write_text(BAIT)
    (tmp_path / "secrets.env").write_text(f"KEY={BAIT}\n")
    (tmp_path / "secrets.env").chmod(0o600)
    (tmp_path / "desktop.json").write_text('{"mcpServers": {}}')
    config = load_config(tmp_path / "spindle.toml")

    async with open_runtime(config) as runtime:
        paths = [
            "spindle.toml",
            "secrets.env",
            "desktop.json",
            "key.pem",
            "state",
            "state/journal.sqlite",
            "state/spool/x",
        ]
        refused = await run_tools(
            runtime.executor,
            *(("read_file", {"path": path}) for path in paths),
            *(("write_file", {"path": path, "content": "x"}) for path in paths),
        )
        (listed,) = await run_tools(runtime.executor, ("list_dir", {}))

    assert not any(result.ok for result in refused)
    assert listed.value.splitlines() == [f"{name}  (withheld)" for name in sorted(paths[:5])]
    assert (tmp_path / "secrets.env").read_text() == f"KEY={BAIT}\n"


async def test_a_scratch_workspace_within_the_state_folder_works(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text('[tools]\nkit = ["files"]\n')
    config = load_config(tmp_path / "spindle.toml", state=tmp_path / "state")

    async with open_runtime(config) as runtime:
        written, read = await run_tools(
            runtime.executor, ("write_file", {"path": "a.txt", "content": "a"}), ("read_file", {"path": "a.txt"})
        )

    assert (written.ok, read.value) == (True, "a")
