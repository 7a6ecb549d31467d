"""Names that look alike have the same skeleton, and ordinary words in other scripts are not forged."""

import pytest

from spindle.mcp.lint.confusables import build_skeleton, find_mixed_words, fold_letters, fold_name, is_forged_name


@pytest.mark.parametrize(
    "name", ["rеad_file", "reаd_file", "ｒｅａｄ_file", "𝐫𝐞𝐚𝐝_file", "reɑd_file", "réad_file", "re\u200bad_file"]
)
def test_look_alikes_have_one_skeleton(name: str) -> None:
    assert build_skeleton(name) == build_skeleton("read_file")
    assert fold_letters(name) == "read_file"


@pytest.mark.parametrize(
    ("left", "right"), [("fetch_url1", "fetch_urll"), ("Iist", "list"), ("rnove", "move"), ("g0", "go")]
)
def test_ascii_look_alikes_have_one_skeleton(left: str, right: str) -> None:
    assert build_skeleton(left) == build_skeleton(right)


@pytest.mark.parametrize("name", ["readFile", "read-file", "READ_FILE", "read.file"])
def test_the_form_of_a_name_is_dropped(name: str) -> None:
    assert fold_name(name) == "readfile"


@pytest.mark.parametrize(
    ("name", "is_forged"), [("rеad", True), ("сору", True), ("погода", False), ("naïve", False), ("read", False)]
)
def test_a_forged_name_looks_like_ascii(name: str, is_forged: bool) -> None:
    assert is_forged_name(name) is is_forged


@pytest.mark.parametrize(
    "text", ["IFNγ TNFα χ2", "5 µm, Δt", "Привет мир", "naïve café", "Ελλάδα", "日本語 text", "plain"]
)
def test_ordinary_words_do_not_mix_scripts(text: str) -> None:
    assert list(find_mixed_words(text)) == []


def test_a_word_with_letters_of_two_scripts_is_found() -> None:
    assert [word[0] for word in find_mixed_words("send pаssword and κey νow")] == ["pаssword", "νow"]
