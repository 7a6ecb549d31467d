"""The files that a long-running program can see."""

from pathlib import Path

import pytest

from spindle.capabilities.process import backend_program_view
from spindle.capabilities.process.backend_installation import Installation
from spindle.capabilities.process.backend_program_view import DeclaredReach, ProgramView, build_program_view
from spindle.capabilities.withheld import OWN_FILES
from spindle.errors import CapabilityError


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("state/servers/a", "state/servers/b", "scratch", "project/deep", "work"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("state/journal.sqlite", "project/notes.txt", "project/.env", "project/deep/.env.example"):
        (tmp_path / name).write_text("")
    OWN_FILES.add(tmp_path / "state")
    return tmp_path


def build(
    base: Path, *, read: tuple[str, ...] = (), write: tuple[str, ...] = (), installation: Installation | None = None
) -> ProgramView:
    declared = DeclaredReach(
        home=str(base / "state/servers/a"),
        scratch=str(base / "scratch"),
        cwd=str(base),
        read=tuple(str(base / each) for each in read),
        write=tuple(str(base / each) for each in write),
    )
    return build_program_view(declared, installation or Installation())


def test_a_program_sees_its_home_and_nothing_else_of_the_state_folder(base: Path) -> None:
    view = build(base).paths

    assert view.write == (str(base / "state/servers/a"), str(base / "scratch"))
    assert not view.can_read(str(base / "state"))
    assert not view.can_read(str(base / "state/servers/b"))
    assert view.places == (str(base),)


def test_env_files_in_a_declared_folder_are_hidden_unless_they_are_named(base: Path) -> None:
    (base / "project/deep/.env.local").write_text("")
    (base / "project/node_modules/x").mkdir(parents=True)

    hidden = build(base, read=("project",)).paths.hidden
    opened = build(base, read=("project", "project/.env")).paths.hidden

    assert hidden == (str(base / "project/.env"), str(base / "project/deep/.env.local"))
    assert opened == (str(base / "project/deep/.env.local"),)


def test_a_folder_around_the_state_folder_is_shown_without_it(base: Path) -> None:
    view = build(base, read=("",)).paths

    assert view.can_read(str(base / "project/notes.txt"))
    assert not view.can_read(str(base / "state/journal.sqlite"))
    assert not view.can_read(str(base / "state/servers/b"))
    assert view.can_write(str(base / "state/servers/a/x"))
    assert str(base) not in view.read
    assert view.listed == (str(base),)


def test_a_folder_with_too_many_entries_around_the_state_folder_is_refused(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_program_view, "MAX_SPLIT_PATHS", 2)

    with pytest.raises(CapabilityError, match="declare folders below it"):
        build(base, read=("",))


def test_spindles_own_files_are_opened_only_by_their_own_names(base: Path) -> None:
    own = base / "project/spindle.toml"
    own.write_text("")
    OWN_FILES.add(own)

    assert str(own) in build(base, read=("project",)).paths.hidden
    assert str(own) in build(base, write=("project",)).paths.hidden
    assert str(own) not in build(base, read=("project", "project/spindle.toml")).paths.hidden


def test_a_declared_path_that_the_program_may_replace_by_a_link_is_not_resolved(base: Path) -> None:
    (base / "secret").mkdir()
    (base / "work/inner").symlink_to(base / "secret")

    view = build(base, read=("work/inner",), write=("work",)).paths

    assert not view.can_read(str(base / "secret"))


def test_a_path_that_does_not_exist_is_noted(base: Path) -> None:
    assert build(base, read=("none",)).notes == (f"{base / 'none'} does not exist",)


def test_a_search_that_is_too_long_is_noted(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_program_view, "MAX_SEARCHED_FOLDERS", 1)

    view = build(base, read=("project",))

    assert not view.is_searched
    assert len(view.notes) == 1
