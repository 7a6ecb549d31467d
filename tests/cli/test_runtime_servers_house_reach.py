"""What the tools of a configuration can get at."""

from pathlib import Path

import pytest

from spindle.cli.config import load_config
from spindle.cli.runtime_servers import build_backends
from spindle.errors import InvalidConfigError


def test_nobody_else_may_look_into_the_state_folder(tmp_path: Path) -> None:
    build_backends(load_config(None, state=tmp_path / "new" / "state"))

    assert (tmp_path / "new" / "state").stat().st_mode & 0o077 == 0


def test_a_state_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InvalidConfigError) as caught:
        build_backends(load_config(None, state=tmp_path / "file"))

    assert caught.value.field == "spindle.state"
    assert str(tmp_path / "file") in str(caught.value)
