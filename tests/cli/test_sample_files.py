"""The scratch workspace of the embedded defaults gets samples; no other folder does."""

from pathlib import Path

from spindle.cli.config.loader import Config, load_config
from spindle.cli.sample_files import LOG_NAME, TABLE_NAME, has_empty_scratch, suggest_arguments, write_samples


def load(folder: Path, text: str | None = None) -> Config:
    if text is not None:
        (folder / "spindle.toml").write_text(text, encoding="utf-8")
    named = None if text is None else folder / "spindle.toml"
    config = load_config(named, cwd=folder, environ={"HOME": str(folder)}, state=folder / "state")
    config.root.mkdir(parents=True, exist_ok=True)
    return config


def test_samples_are_written_once_and_are_larger_than_a_result(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert has_empty_scratch(config)
    assert suggest_arguments(config) == {}
    write_samples(config)
    log = (config.root / LOG_NAME).read_text(encoding="utf-8")
    assert 250_000 < len(log) < 400_000
    assert " 503 " in log
    table = (config.root / TABLE_NAME).read_text(encoding="utf-8").splitlines()
    assert (table[0].count(","), len(table)) == (5, 401)
    assert not has_empty_scratch(config)
    assert suggest_arguments(config)["read_file"][0] == {"path": LOG_NAME}


def test_samples_are_the_same_everywhere(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        write_samples(load(folder))
    for name in (LOG_NAME, TABLE_NAME):
        one, other = (load(folder).root / name for folder in (first, second))
        assert one.read_bytes() == other.read_bytes()


def test_a_workspace_of_the_user_is_left_alone(tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    config = load(tmp_path, f'[tools]\nkit = true\n\n[reach]\nroot = "{chosen}"\n')
    assert not has_empty_scratch(config)
    assert suggest_arguments(config) == {}


def test_a_scratch_folder_with_a_file_is_left_alone(tmp_path: Path) -> None:
    config = load(tmp_path)
    (config.root / "mine.txt").write_text("", encoding="utf-8")
    assert not has_empty_scratch(config)


def test_a_configuration_without_a_root_gets_no_samples(tmp_path: Path) -> None:
    assert not has_empty_scratch(load(tmp_path, "[tools]\nkit = true\n"))
