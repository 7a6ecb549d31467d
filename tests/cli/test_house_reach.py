"""What the tools of a configuration can get at."""

from pathlib import Path

from spindle.cli.config import load_config
from spindle.cli.house_reach import backends_of


def test_nobody_else_may_look_into_the_state_folder(tmp_path: Path) -> None:
    backends_of(load_config(None, state=tmp_path / "new" / "state"))

    assert (tmp_path / "new" / "state").stat().st_mode & 0o077 == 0
