"""The folders of a server that is started here."""

import stat
from pathlib import Path

import pytest

from spindle.errors import UpstreamError
from spindle.mcp.client.home import ServerHome


def test_a_home_without_a_place_is_private_stays_the_same_and_goes() -> None:
    home = ServerHome()
    first, second = home.create(), home.create()

    assert first == second
    assert Path(first.home).stat().st_mode & 0o077 == 0
    assert {path for name, path in first.variables.items() if name.startswith(("HOME", "XDG", "TMP"))} > {first.home}
    home.remove()
    assert not Path(first.home).exists()
    assert not Path(first.scratch).exists()


def test_a_home_with_a_place_is_kept_and_its_scratch_folders_are_not(tmp_path: Path) -> None:
    place = tmp_path / "state" / "servers" / "a"
    first = ServerHome(str(place))
    folders = first.create()
    (place / ".npm").mkdir()
    (place / ".npm" / "package").write_text("cached")
    first.remove()

    again = ServerHome(str(place)).create()

    assert again.home == folders.home == str(place)
    assert again.variables["npm_config_cache"] == str(place / ".npm")
    assert (place / ".npm" / "package").read_text() == "cached"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert not Path(folders.scratch).exists()


def test_links_that_a_server_left_in_its_home_are_not_followed(tmp_path: Path) -> None:
    place, outside = tmp_path / "home", tmp_path / "outside"
    ServerHome(str(place)).create()
    outside.mkdir()
    (place / ".local" / "share").rmdir()
    (place / ".local" / "state").rmdir()
    (place / ".local").rmdir()
    (place / ".local").symlink_to(outside)

    ServerHome(str(place)).create()

    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("is_link", [True, False])
def test_a_home_that_is_not_a_folder_is_refused(tmp_path: Path, is_link: bool) -> None:
    place = tmp_path / "home"
    if is_link:
        place.symlink_to(tmp_path)
    else:
        place.write_text("")

    with pytest.raises(UpstreamError) as caught:
        ServerHome(str(place), server="s").create()

    assert caught.value.server == "s"
