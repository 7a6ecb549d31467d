"""Which configuration files a confined command may read."""

from pathlib import Path

import pytest

from spindle.capabilities.process import backend_view
from spindle.capabilities.process.backend_sandbox import VisiblePaths
from spindle.capabilities.process.backend_view import add_configuration, skip_configuration


@pytest.fixture
def view(tmp_path: Path) -> VisiblePaths:
    return VisiblePaths.from_grants(str(tmp_path / "root"), (), (), network=False)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "gitconfig"
    monkeypatch.setattr(backend_view, "SYSTEM_GIT_CONFIG", str(path))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing here\n[init]\n\tdefaultBranch = main\n",
        "[core]\n\tautocrlf = input\n[safe]\n\tdirectory = *\n",
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n',
        '[url "https://mirror.example.com/"]\n\tinsteadOf = https://example.com/\n',
        "[user]\n\tname = A\n\temail = a@example.com\n",
        "[http]\n\tproxy = http://proxy.example.com:3128\n",
    ],
)
def test_plain_settings_are_seen_and_nothing_is_skipped(text: str, config: Path, view: VisiblePaths) -> None:
    config.write_text(text)

    seen = add_configuration(view)

    assert seen.can_read(str(config))
    assert skip_configuration(seen, {}, "/scratch") == {}


@pytest.mark.parametrize(
    "text",
    [
        '[credential "https://example.com"]\n\tusername = a\n',
        "[CORE]\n\taskPass = /usr/bin/answer\n",
        "[http]\n\textraHeader = X: y\n",
        "[http] cookieFile = /c\n",
        '[url "https://me:pw@example.com/"]\n\tinsteadOf = https://example.com/\n',
        '[url "https://me@example.com/"]\n\tinsteadOf = https://example.com/\n',
        "[http]\n\tproxy = http://a:b@proxy:3128\n",
        "# the TOKEN is x\n[init]\n\tdefaultBranch = main\n",
        "[sendemail]\n\tsmtpUser = a\n",
        "[user]\n\tsigningKey = ABC\n",
        "[core]\n\teditor = ed 0123456789abcdef0123456789abcdef\n",
        "[include]\n\tpath = /etc/gitconfig.d/more\n",
        '[includeIf "gitdir:/x/"]\n\tpath = more\n',
        "[core]\n\thooksPath = /etc/hooks\n",
        "[unheard]\n\tof = this\n",
        "[init]\n" + "# \n" * 30_000,
        "[init]\n\tdefaultBranch = \x00\udcff\n",
    ],
)
def test_anything_else_stays_unseen_and_git_skips_it(text: str, config: Path, view: VisiblePaths) -> None:
    config.write_text(text, encoding="utf-8", errors="surrogateescape")

    seen = add_configuration(view)

    assert not seen.can_read(str(config))
    assert skip_configuration(seen, {}, "/scratch") == {"GIT_CONFIG_NOSYSTEM": "1"}


def test_a_file_that_is_not_for_everybody_stays_unseen(config: Path, view: VisiblePaths) -> None:
    config.write_text("[init]\n")
    config.chmod(0o640)

    assert not add_configuration(view).can_read(str(config))


def test_a_folder_in_place_of_the_file_stays_unseen(config: Path, view: VisiblePaths) -> None:
    config.mkdir()

    assert not add_configuration(view).can_read(str(config))


def test_nothing_is_skipped_where_there_is_nothing(config: Path, view: VisiblePaths) -> None:
    assert not config.exists()
    assert skip_configuration(add_configuration(view), {}, "/scratch") == {}


def test_the_file_that_a_link_points_to_is_seen(config: Path, view: VisiblePaths, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("[init]\n")
    config.symlink_to(tmp_path / "elsewhere")

    assert add_configuration(view).can_read(str(config))


def test_a_home_that_cannot_be_read_is_skipped(config: Path, view: VisiblePaths) -> None:
    skipped = skip_configuration(view, {"HOME": "/nowhere/somebody"}, "/scratch")

    assert skipped == {"GIT_CONFIG_GLOBAL": "/dev/null", "NPM_CONFIG_CACHE": "/scratch/.npm"}


def test_a_home_that_can_be_read_is_not_skipped(config: Path, view: VisiblePaths) -> None:
    skipped = skip_configuration(view.with_read("/nowhere/somebody"), {"HOME": "/nowhere/somebody"}, "/scratch")

    assert skipped == {"NPM_CONFIG_CACHE": "/scratch/.npm"}
