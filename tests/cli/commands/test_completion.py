"""Completion: real shells take the scripts, and Tab offers what there is."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from cyclopts import App
from cyclopts.completion._base import extract_completion_data

from spindle import Tool, ToolRegistry
from spindle.cli.commands.completion import ZSH_REGISTRATION
from spindle.cli.completers import cache_tool_names
from spindle.cli.config import load_config
from spindle.cli.main import OK, USAGE, build_app, run
from tests.cli.conftest import Place

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture
def on_path(place: Place, tmp_path: Path) -> dict[str, str]:
    """An environment in which `spindle` is this command."""
    command = tmp_path / "bin" / "spindle"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m spindle.cli.main "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "SPINDLE_STATE": str(place.state)}


def found(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed; make test-all installs it where it can")
    return path


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Path]]:
    """The scripts; the command takes them from here too, since the options of all commands take a second to collect."""
    folder = tmp_path_factory.mktemp("completion")
    app = build_app()
    collected = extract_completion_data(app)

    def take_collected(_app: App) -> object:
        return collected

    with pytest.MonkeyPatch.context() as patch:
        for shell in SHELLS:  # the same for each of them
            patch.setattr(f"cyclopts.completion.{shell}.extract_completion_data", take_collected)
        generated = {shell: app.generate_completion(shell=cast("Any", shell)) for shell in SHELLS}
    written = {shell: folder / f"spindle.{shell}" for shell in SHELLS}
    for shell, path in written.items():
        path.write_text(generated[shell] + (ZSH_REGISTRATION if shell == "zsh" else ""), encoding="utf-8")

    def take_generated(_app: App, *, shell: str, **_: object) -> str:
        return generated[shell]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "generate_completion", take_generated)
        yield written


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(
    place: Place, shell: str, scripts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == OK

    assert capsys.readouterr().out == scripts[shell].read_text(encoding="utf-8")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_finds_no_fault_with_its_script(shell: str, scripts: dict[str, Path]) -> None:
    done = subprocess.run([found(shell), "-n", str(scripts[shell])], capture_output=True, check=True, timeout=50)

    assert done.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["spindle", "jour"], "journal"),
        (["spindle", "spool", "gr"], "grep"),
        (["spindle", "call", "calc"], "calculate"),
        (["spindle", "list", "--too"], "--toolset"),
    ],
)
def test_bash_offers_commands_options_and_tools(
    scripts: dict[str, Path], on_path: dict[str, str], words: list[str], offered: str
) -> None:
    program = (
        f"source {scripts['bash']}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        "COMP_LINE=${COMP_WORDS[*]}; COMP_POINT=${#COMP_LINE}; _spindle; printf '%s\\n' \"${COMPREPLY[@]}\""
    )

    done = subprocess.run(
        [found("bash"), "-c", program], capture_output=True, text=True, env=on_path, timeout=50, check=True
    )

    assert offered in [line.strip() for line in done.stdout.splitlines()]


@pytest.mark.slow  # starts the command several times; bash does so in the quick tests
def test_fish_offers_commands_and_tools(scripts: dict[str, Path], on_path: dict[str, str]) -> None:
    program = f"source {scripts['fish']}; complete -C 'spindle jour'; complete -C 'spindle call calc'"

    done = subprocess.run(
        [found("fish"), "-c", program], capture_output=True, text=True, env=on_path, timeout=50, check=True
    )

    names = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert {"journal", "calculate"} <= set(names)


@pytest.mark.slow
def test_zsh_loads_the_script_as_a_completion(scripts: dict[str, Path], on_path: dict[str, str], place: Place) -> None:
    folder = place.work / "functions"
    folder.mkdir()
    shutil.copy(scripts["zsh"], folder / "_spindle")
    program = f"fpath=({folder} $fpath); autoload -Uz compinit && compinit -u -D && print -r -- $_comps[spindle]"

    done = subprocess.run(
        [found("zsh"), "-f", "-c", program], capture_output=True, text=True, env=on_path, timeout=50, check=True
    )

    assert done.stdout.strip() == "_spindle"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["show", "read_"], "read_file"),
        (["list", "--toolset", "cl"], "clock"),
        (["list", "--server", ""], "up"),
        (["call", "time_now", "--profile", "re"], "reader"),
        (["spool", "head", ""], "cli/x/log-1"),
    ],
)
def test_tab_offers_what_the_configuration_has(
    place: Place, words: list[str], offered: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyio

    from spindle import Spool

    monkeypatch.setenv("SPINDLE_STATE", str(place.state))
    place.configure('[tools]\nkit = true\n[mcp.servers.up]\ncommand = "never-started"\n[profiles.reader]\n')
    anyio.run(Spool.files(place.state / "spool").write, "cli/x/log-1", "text")
    capsys.readouterr()

    run(["__complete", *words])

    assert offered in [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]


def test_completion_is_empty_and_silent_with_a_broken_configuration(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.configure("[tols]\n")

    run(["__complete", "call", "c"])

    printed = capsys.readouterr()
    assert "calculate" not in printed.out
    assert printed.err == ""


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize("shell", SHELLS)
def test_installing_puts_it_under_the_home_folder(
    place: Place, shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: place.home)
    monkeypatch.delenv("ZSH_CUSTOM", raising=False)

    assert run(["--install-completion", shell]) == OK

    assert str(place.home) in capsys.readouterr().err
    assert [path for path in place.home.rglob("*spindle*") if path.is_file()]


def test_an_unknown_shell_is_refused(place: Place) -> None:
    assert run(["completion", "tcsh"]) == USAGE


def test_tab_offers_the_tools_of_servers_as_they_were_last_seen(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINDLE_STATE", str(place.state))
    place.configure('[mcp.servers.up]\ncommand = "never-started"\n')
    place.state.mkdir()

    async def nothing(_args: object, _ctx: object, _meta: object) -> str:
        return ""

    registry = ToolRegistry()
    for name in ("mcp__up__add", "mcp__up__$(reboot)"):
        registry.register(
            Tool(name=name, description="…", input_schema={"type": "object"}, handler=nothing),
            mcp=("up", name.removeprefix("mcp__up__")),
        )
    cache_tool_names(load_config(), registry)

    run(["__complete", "call", "mcp__"])
    here = capsys.readouterr().out
    place.configure("[tools]\n")
    run(["__complete", "call", "mcp__"])

    assert [line.split("\t")[0] for line in here.splitlines() if line.startswith("mcp__")] == ["mcp__up__add"]
    assert "mcp__" not in capsys.readouterr().out
