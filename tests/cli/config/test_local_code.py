"""Of the code of an accepted configuration, only accepted files are imported, and from their source."""

import os
import py_compile
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command, compile_unchecked


def test_bytecode_beside_an_accepted_module_is_never_run(clone: Path, spindle: Command) -> None:
    source = clone / "helper.py"
    place = compile_unchecked(clone / "helper.py", "WORD = 'from bytecode'\n")
    spindle("trust", "--yes")
    assert "from bytecode" not in spindle("call", "hello").out

    # With the time and the size of the source, Python takes bytecode for that of the source.
    sys.modules.pop("helper")
    sys.modules.pop("greeting")
    place.unlink()
    (clone / "other.txt").write_text("WORD = 'olleh'\n")
    os.utime(clone / "other.txt", (1_700_000_000, 1_700_000_000))
    os.utime(source, (1_700_000_000, 1_700_000_000))
    py_compile.compile(str(clone / "other.txt"), cfile=str(place))
    spindle("trust", "--yes")
    shown = spindle("call", "hello").out
    assert ("hello" in shown, "olleh" in shown) == (True, False)


def test_a_local_file_that_was_not_accepted_is_not_imported(
    clone: Path, spindle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could take the place of any library that is imported later, or be imported by a computed name."""
    monkeypatch.delitem(sys.modules, "sly_library", raising=False)
    (clone / "helper.py").write_text("WORD = __import__('importlib').import_module('sly_' + 'library').WORD\n")
    (clone / "sly_library.py").write_text("from pathlib import Path\nPath('IMPORTED_LATER').touch()\nWORD = 'x'\n")
    spindle("trust", "--yes")

    ran = spindle("call", "hello")

    assert (ran.code, "sly_library.py was not accepted" in ran.err) == (2, True)
    assert not (clone / "IMPORTED_LATER").exists()
    chosen = spindle("call", "hello", "--config", str(clone / "spindle.toml"))
    assert chosen.code == 0, "a configuration that was chosen is not guarded"


@pytest.mark.parametrize(
    "setting",
    [
        f'python_path = ["{"a" * 300}"]',
        f'python_path = ["/{"b/" * 3_000}"]',
        r'python_path = ["\u0000"]',
        f'modules = ["{"c" * 300}:tools"]',
        f'python_path = ["/"]\nmodules = ["{"d." * 3_000}d:tools"]',
    ],
)
def test_names_that_no_file_can_have_are_shown_like_others(clone: Path, spindle: Command, setting: str) -> None:
    (clone / "spindle.toml").write_text(f"[tools]\n{setting}\n")

    assert spindle("trust", "--yes").code == 0
