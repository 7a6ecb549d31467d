"""A start that its caller gave up leaves nothing behind."""

from pathlib import Path

import pytest

from spindle.capabilities.process.backend_run import CommandStart
from tests.capabilities.confined import HOLD, PYTHON, backend, is_held, names


def test_an_unclaimed_launcher_is_ended_with_its_command(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    code = HOLD + "hold('lock'); time.sleep(600)"
    start = CommandStart(backend(tmp_path), PYTHON, [PYTHON, "-I", "-S", "-c", code], {}, str(tmp_path))

    launched = start.launch(False)
    start.clean_up()

    assert launched.process.returncode is not None
    assert not is_held(tmp_path / "lock")
    assert names(tmp_path) == ["lock"]


def test_a_start_that_was_given_up_does_not_begin(tmp_path: Path) -> None:
    start = CommandStart(backend(tmp_path), PYTHON, [PYTHON, "--version"], {}, str(tmp_path))
    start.clean_up()

    with pytest.raises(ProcessLookupError):
        start.launch(False)

    assert names(tmp_path) == []
