"""A home, a working folder and a state folder of the test's own, and the command run in this process."""

import importlib.util
import json
import py_compile
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spindle.cli.main import run


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a test's command runs."""

    work: Path
    state: Path
    home: Path
    monkeypatch: pytest.MonkeyPatch

    def configure(self, text: str) -> Path:
        """Write the working folder's `spindle.toml` and choose it; one that is only found needs `spindle trust`."""
        path = self.work / "spindle.toml"
        path.write_text(text, encoding="utf-8")
        self.monkeypatch.setenv("SPINDLE_CONFIG", str(path))
        return path


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(work=tmp_path / "work", state=tmp_path / "state", home=tmp_path / "home", monkeypatch=monkeypatch)
    for folder in (found.work, found.home):
        folder.mkdir()
    for name in ("SPINDLE_CONFIG", "SPINDLE_STATE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(found.work)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return found


@pytest.fixture
def spindle(place: Place, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in this process, with the place's state folder."""

    def command(*words: str) -> Ran:
        capsys.readouterr()
        code = run([*words, "--state", str(place.state)] if "--state" not in words else list(words))
        printed = capsys.readouterr()
        return Ran(code=code, out=printed.out, err=printed.err)

    return command


@pytest.fixture
def module(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write a Python module into the working folder; it is forgotten after the test."""

    def write(name: str, source: str) -> None:
        monkeypatch.delitem(sys.modules, name, raising=False)
        (place.work / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.setitem(sys.modules, name, sys)  # so that it is taken away again afterwards
        del sys.modules[name]

    return write


MODULE = """
from pathlib import Path
Path(__file__).with_name("IMPORTED").touch()
from spindle import tool
import helper

@tool(description="Say hello.")
def hello() -> str:
    return helper.WORD
"""
SERVER = "from pathlib import Path; Path(__file__).with_name('STARTED').touch()"


@pytest.fixture
def clone(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a configuration that imports a module, starts a server and reads a variable."""
    for name in ("greeting", "helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (place.work / "greeting.py").write_text(MODULE)
    (place.work / "helper.py").write_text("WORD = 'hello'\n")
    (place.work / "server.py").write_text(SERVER)
    (place.work / "spindle.toml").write_text(f"""
[tools]
modules = ["greeting:hello"]
python_path = ["."]

[mcp.servers.sly]
command = {json.dumps(sys.executable)}
args = ["server.py", "${{CANARY_VARIABLE}}"]
cwd = "."
""")
    monkeypatch.setenv("CANARY_VARIABLE", "canary-value")
    return place.work


def compile_unchecked(module: Path, source: str) -> Path:
    """Write bytecode that Python runs in place of a module's source, without comparing them."""
    other = module.with_suffix(".txt")
    other.write_text(source)
    place = importlib.util.cache_from_source(str(module))
    py_compile.compile(str(other), cfile=place, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    return Path(place)
