"""Against real package managers; those that need a registry, or build a package, are slow."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.kit.reducers.installs import get_install_noise

Shell = Callable[..., Any]
Need = Callable[[str], None]

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tiny-thing"
version = "{version}"

[tool.hatch.build.targets.wheel]
packages = ["tiny_thing"]
"""
NO_SETTINGS = {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
slow = pytest.mark.slow
patient = pytest.mark.timeout(300)


def project(folder: Path, *, version: str = "1.0") -> None:
    (folder / "tiny_thing").mkdir(exist_ok=True)
    (folder / "tiny_thing" / "__init__.py").touch()
    text = PROJECT.format(version=version)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def pip(shell: Shell, line: str) -> Any:
    return shell(f"{sys.executable} -m pip {line}", called=f"pip {line}", env=NO_SETTINGS)


@slow
def test_pip_says_what_it_installed(shell: Shell, tmp_path: Path) -> None:
    project(tmp_path)

    ran = pip(shell, "install --no-index --no-build-isolation --target out .")

    assert ran.exit_code == 0, ran.text
    assert "Successfully installed tiny-thing-1.0" in ran.reduced
    assert "Building wheel" not in ran.reduced
    assert len(ran.reduced) < len(ran.text) / 2


@pytest.mark.slow
def test_pip_says_what_it_could_not_find(shell: Shell) -> None:
    ran = pip(shell, "install --no-index --target out no-such-thing-anywhere")

    assert ran.exit_code == 1
    assert "ERROR: No matching distribution found for no-such-thing-anywhere" in ran.reduced


@slow
def test_pip_says_why_a_build_failed(shell: Shell, tmp_path: Path) -> None:
    project(tmp_path, version="not a version")

    ran = pip(shell, "install --no-index --no-build-isolation --target out .")

    assert ran.exit_code == 1
    assert "Invalid version" in ran.reduced


@slow
def test_pip_says_what_was_there_already(shell: Shell) -> None:
    ran = pip(shell, "install --no-index anyio hypothesis")

    assert ran.exit_code == 0
    assert "Requirement already satisfied: anyio" in ran.reduced
    assert "(from anyio)" not in ran.reduced


@slow
@patient
def test_pip_and_uv_say_what_they_replaced(shell: Shell) -> None:
    shell(f"{sys.executable} -m venv env", ok=True)
    shell("env/bin/python -m pip install 'idna==3.7' requests", at_home=True, ok=True)
    lines = [
        ("env/bin/python -m pip install 'idna==3.6'", ["Successfully uninstalled idna-3.7", "installed idna-3.6"]),
        (f"{sys.executable} -m uv pip install --python env 'idna==3.7'", [" - idna==3.6", " + idna==3.7"]),
        ("env/bin/python -m pip uninstall -y idna", ["Successfully uninstalled idna-3.7"]),
    ]
    for line, expected in lines:
        called = line.replace(f"{sys.executable} -m uv", "uv")
        ran = shell(line, called=called, at_home=True)
        assert [part for part in expected if part not in ran.reduced] == []
        assert "left out" in ran.reduced


@slow
@patient
def test_node_package_managers_say_what_they_added_and_what_failed(shell: Shell, tmp_path: Path, need: Need) -> None:
    need("npm")
    (tmp_path / "package.json").write_text('{"name": "app", "version": "1.0.0", "license": "MIT"}', encoding="utf-8")
    shell("npm install --prefix tools pnpm@9 yarn@1", at_home=True, ok=True)

    npm = shell("npm install is-odd@3 rimraf@2", at_home=True)
    ci = shell("npm ci --loglevel=http", at_home=True)
    missing = shell("npm install no-such-package-of-anybody-0", at_home=True)
    shell("rm -rf node_modules package-lock.json", ok=True)
    pnpm = shell("tools/node_modules/.bin/pnpm add is-odd@3", at_home=True)
    shell("rm -rf node_modules pnpm-lock.yaml", ok=True)
    yarn = shell("tools/node_modules/.bin/yarn", at_home=True)

    assert "added" in npm.reduced
    for line in npm.text.split("\n"):
        assert not line.startswith("npm warn") or line in npm.reduced
    assert "added" in ci.reduced
    assert "npm http fetch" in ci.text
    assert "npm http fetch" not in ci.reduced
    assert "npm error code E404" in missing.reduced
    assert "+ is-odd 3.0.1" in pnpm.reduced
    assert "Progress: " not in pnpm.reduced
    assert "success Saved lockfile." in yarn.reduced
    assert "[1/4]" not in yarn.reduced


@slow
@patient
def test_apt_says_what_it_would_install(shell: Shell, need: Need) -> None:
    need("apt-get")
    listed = shell("apt-cache pkgnames | head -1")
    if not listed.text.strip():
        pytest.skip("apt has no package lists here; its output is not tested")

    ran = shell("apt-get install -s --reinstall bash coreutils nothing-of-this-name", called="apt-get install bash")
    again = shell("apt-get install -s --reinstall bash coreutils", called="sudo apt-get -y install bash")

    assert "E: Unable to locate package nothing-of-this-name" in ran.reduced
    assert "Reading package lists" not in again.reduced
    assert "newly installed" in again.reduced


@slow
@patient
def test_cargo_says_what_it_installed_and_what_did_not_compile(shell: Shell, tmp_path: Path, need: Need) -> None:
    need("cargo")
    shell("cargo init --quiet --name thing .", at_home=True, ok=True)
    (tmp_path / "src" / "main.rs").write_text("fn idle() {}\nfn main() {}\n", encoding="utf-8")

    installed = shell("cargo install --offline --path . --root out", at_home=True)
    (tmp_path / "src" / "main.rs").write_text("fn main() { nothing() }\n", encoding="utf-8")
    failed = shell("cargo build --offline", at_home=True)

    assert "Installed package `thing v0.1.0" in installed.reduced
    assert "warning: function `idle` is never used" in installed.reduced
    assert "Compiling" in installed.text
    assert "Compiling" not in installed.reduced
    assert "error[E0425]" in failed.reduced
    assert "could not compile `thing`" in failed.reduced


@pytest.mark.parametrize(
    "command",
    [
        "pip install x",
        "pip3.11 install -r requirements.txt",
        "python -m pip install x",
        "uv pip install x",
        "uv sync",
        "uv add x",
        "npm ci",
        "npm i",
        "npm install",
        "cd app && npm install --save-dev x",
        "pnpm install",
        "yarn",
        "yarn install --frozen-lockfile",
        "yarn --frozen-lockfile",
        "sudo apt-get install -y x",
        "DEBIAN_FRONTEND=noninteractive apt-get -y install x",
        "apt install x",
        "cargo build --release",
        "cargo +nightly install x",
    ],
)
def test_an_install_is_known(command: str) -> None:
    assert get_install_noise(command)


@pytest.mark.parametrize(
    "command",
    [
        "yarn build",
        "yarn run lint",
        "npm run build",
        "npm ls",
        "pip list",
        "pip freeze",
        "uv run main.py",
        "uv pip list",
        "uv",
        "apt-get --version",
        "apt-cache search x",
        "cargo run",
        "echo npm install",
        "npm install && make",
        "npm install | tail",
        "",
    ],
)
def test_another_command_is_not_taken_for_an_install(command: str) -> None:
    assert get_install_noise(command) is None


def test_of_a_very_long_install_what_it_did_stays(shell: Shell) -> None:
    script = "; ".join(
        [
            "echo 'error: first'",
            'for i in $(seq 400); do echo "chatter of some length, number $i"; done',
            "echo 'warning: amid the chatter'; echo ' + thing==1.0'",
            'for i in $(seq 400); do echo "chatter of some length, number $i"; done',
            "echo 'added 3 packages'",
        ]
    )
    ran = shell(script, called="npm install")

    for part in ("error: first", "warning: amid the chatter", " + thing==1.0", "added 3 packages", "left out: 74"):
        assert part in ran.reduced
    assert len(ran.reduced) < 8192
