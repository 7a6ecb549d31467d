"""What a program needs to run."""

import os
from pathlib import Path

import pytest

from spindle.capabilities.process.backend_installation import Installation, find_installation, is_wide, resolve_outside


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the home of a user in it."""
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path


def make(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def find(program: Path, *args: str, cwd: Path | None = None, writable: tuple[str, ...] = ()) -> Installation:
    return find_installation(
        str(program), args, search_path=os.defpath, cwd=str(cwd or program.parent), writable=writable
    )


def test_a_program_of_the_system_needs_nothing_more() -> None:
    assert find(Path("/usr/bin/env")) == Installation()


def test_a_script_of_an_environment_needs_the_environment_its_python_and_editable_packages(base: Path) -> None:
    python = make(base / "pythons" / "3.12" / "bin" / "python3")
    venv = base / "venv"
    make(venv / "pyvenv.cfg", f"home = {python.parent}\n")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(python)
    (base / "source").mkdir()
    make(venv / "lib/python3.12/site-packages/_editable.pth", f"{base}/source\n/nowhere\nimport os\n")
    script = make(venv / "bin" / "server", f"#!{venv}/bin/python\n")

    found = find(script)

    assert {str(venv), str(python.parent.parent), str(base / "source")} <= set(found.files)
    assert str(script) not in found.files
    assert found.folders == ()


def test_a_program_of_node_modules_needs_all_packages_beside_it(base: Path) -> None:
    target = make(base / "tools/node_modules/pkg/dist/index.js", "#!/usr/bin/env sh\n")
    link = base / "tools/node_modules/.bin/server"
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(target, link.parent))

    assert find(link).files == (str(base / "tools/node_modules"),)


def test_the_script_of_an_interpreter_needs_its_folder_and_the_packages_above(base: Path) -> None:
    script = make(base / "project/dist/index.js")
    make(base / "project/package.json")
    make(base / "project/node_modules/x/index.js")
    make(base / "project/notes.txt")

    found = find(Path("/usr/bin/node"), "--no-warnings", "index.js", cwd=script.parent)

    assert found.folders == (str(script.parent),)
    assert set(found.files) == {
        str(script),
        str(base / "project/package.json"),
        str(base / "project/node_modules"),
    }


@pytest.mark.parametrize("place", ["", "Downloads", ".local/share"])
def test_a_script_in_a_personal_folder_shows_only_itself(base: Path, place: str) -> None:
    script = make(base / "user" / place / "server.py")

    found = find(Path("/usr/bin/python3"), str(script))

    assert (found.files, found.folders) == ((str(script),), ())


def test_a_program_below_the_users_bin_does_not_show_the_home(base: Path) -> None:
    make(base / "user/.local/lib/python3/site-packages/x.py")
    program = make(base / "user/.local/bin/server")

    assert set(find(program).files) == {str(program), str(base / "user/.local/lib")}


@pytest.mark.parametrize("prefix", [".nvm/versions/node/v24", ".bun", ".pyenv"])
def test_a_version_manager_shows_the_installation_only(base: Path, prefix: str) -> None:
    folder = base / "user" / prefix
    program = make(folder / ("shims" if prefix == ".pyenv" else "bin") / "npx")
    (folder / "lib").mkdir()

    assert find(program).files == (str(folder),)


def test_paths_among_the_arguments_are_named_unless_they_are_wide(base: Path) -> None:
    folder = base / "data"
    folder.mkdir()

    found = find(
        Path("/usr/bin/env"), str(folder), f"--db={folder}", "/", str(base / "user"), "./none", "data", "-x", cwd=base
    )

    assert found.named == (str(folder),)


def test_facts_that_the_program_may_write_are_not_believed(base: Path) -> None:
    venv = base / "work/venv"
    secret = make(base / "secret/lib/key")
    make(venv / "pyvenv.cfg", f"home = {secret.parent.parent}/bin\n")
    script = make(venv / "bin/server", f"#!{secret}\n")
    (base / "work/link.py").symlink_to(secret)

    assert find(script, writable=(str(base / "work"),)) == Installation()
    assert find(Path("/usr/bin/python3"), str(base / "work/link.py"), writable=(str(base / "work"),)).files == ()


def test_a_link_in_a_writable_folder_is_not_followed(base: Path) -> None:
    (base / "secret").mkdir()
    (base / "work").mkdir()
    (base / "work/link").symlink_to(base / "secret")
    (base / "outer").symlink_to(base / "work/link")
    (base / "loop").symlink_to(base / "loop")
    writable = (str(base / "work"),)

    assert resolve_outside(str(base / "work/link"), writable) is None
    assert resolve_outside(str(base / "outer"), writable) is None
    assert resolve_outside(str(base / "outer"), ()) == str(base / "secret")
    assert resolve_outside(str(base / "work/../secret"), writable) is None
    assert resolve_outside(str(base / "none/x"), writable) == str(base / "none/x")
    with pytest.raises(OSError, match="too many"):
        resolve_outside(str(base / "loop"), writable)


def test_folders_above_the_home_are_wide(base: Path) -> None:
    assert is_wide("/")
    assert is_wide(str(base))
    assert is_wide(str(base / "user"))
    assert not is_wide(str(base / "user/project"))
