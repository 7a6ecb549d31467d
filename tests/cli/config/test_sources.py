"""Which file configures a run."""

from pathlib import Path

import pytest

from spindle.cli.config.sources import config_home, find_config, state_home
from spindle.errors import InvalidConfigError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "home/project/deep").mkdir(parents=True)
    return tmp_path


def env(tree: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tree / "home"), **more}


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("", encoding="utf-8")
    return path


def test_the_named_file_wins_then_the_variable_then_the_nearest_then_the_users_own(tree: Path) -> None:
    deep = tree / "home/project/deep"
    own, near, other, named = (
        write(tree / "home/.config/spindle/spindle.toml"),
        write(tree / "home/project/spindle.toml"),
        write(tree / "other.toml"),
        write(tree / "named.toml"),
    )
    variable = env(tree, SPINDLE_CONFIG=str(other))

    assert find_config(named, cwd=deep, environ=variable) == named
    assert find_config(None, cwd=deep, environ=variable) == other
    assert find_config(None, cwd=deep, environ=env(tree)) == near
    near.unlink()
    assert find_config(None, cwd=deep, environ=env(tree)) == own
    own.unlink()
    assert find_config(None, cwd=deep, environ=env(tree)) is None


def test_above_the_home_folder_nothing_is_looked_for(tree: Path) -> None:
    write(tree / "spindle.toml")

    assert find_config(None, cwd=tree / "home/project", environ=env(tree)) is None


def test_a_named_file_that_is_not_there_is_an_error(tree: Path) -> None:
    for given, environ in ((tree / "no.toml", env(tree)), (None, env(tree, SPINDLE_CONFIG="no.toml"))):
        with pytest.raises(InvalidConfigError):
            find_config(given, cwd=tree, environ=environ)


def test_a_found_file_that_anybody_may_write_is_not_trusted(tree: Path) -> None:
    path = write(tree / "home/project/spindle.toml")
    path.chmod(0o666)

    with pytest.raises(InvalidConfigError) as caught:
        find_config(None, cwd=path.parent, environ=env(tree))

    assert caught.value.path == str(path)
    assert find_config(path, cwd=tree, environ=env(tree)) == path, "named, it is"


def test_relative_base_folders_do_not_count(tree: Path) -> None:
    environ = env(tree, XDG_CONFIG_HOME="relative", XDG_STATE_HOME=str(tree / "s"))

    assert config_home(environ) == tree / "home/.config/spindle"
    assert state_home(environ) == tree / "s/spindle"
