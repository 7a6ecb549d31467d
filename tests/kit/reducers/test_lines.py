import pytest

from spindle.kit.reducers.lines import (
    MAX_COMMAND_CHARS,
    drop_options,
    get_program,
    split_command,
)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("make all", ["make", "all"]),
        ("A=1 B='2 3' make", ["make"]),
        ("sudo -E env A=1 make", ["make"]),
        ("make 2>&1", ["make"]),
        ("make 2> /dev/null", ["make"]),
        ("echo 'a && b' \"c | d\"", ["echo", "a && b", "c | d"]),
        ("echo grün", ["echo", "grün"]),
        ("", []),
        ("make > log", None),
        ("make >& log", None),
        ("make | tail", None),
        ("make & ", None),
        ("make; ls", None),
        ("make\nls", None),
        ("make `ls`", None),
        ("make $(ls)", None),
        ("make <<EOF\nx\nEOF", None),
        ("make 'unfinished", None),
        ("x" * (MAX_COMMAND_CHARS + 1), None),
    ],
)
def test_only_a_single_plain_command_is_split(command: str, words: list[str] | None) -> None:
    assert split_command(command) == words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cd a && make", ["make"]),
        ("cd a; cd 'b c' && A=1 make x 2>&1", ["make", "x"]),
        ("cd a\nmake", ["make"]),
        ("cd a", ["cd", "a"]),
        ("cd a || make", None),
        ("cd a && make && ls", None),
    ],
)
def test_a_leading_cd_is_skipped(command: str, words: list[str] | None) -> None:
    assert split_command(command) == words


def test_the_program_is_named_without_its_folder_and_options_are_distinguished_from_words() -> None:
    assert get_program(["/usr/bin/git", "status"]) == "git"
    assert get_program([]) == ""
    assert drop_options(["+nightly", "-v", "test", "--x=1", "y"]) == ["test", "y"]
