import pytest

from spindle.artifacts.markdown.inline_text import find_bare_urls


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://a.example/b, then", (4, "https://a.example/b", "https://a.example/b")),
        ("(www.a.example)", (1, "www.a.example", "http://www.a.example")),
        ("https://a.example/b_(c).", (0, "https://a.example/b_(c)", "https://a.example/b_(c)")),
        ("https://a.example/(b))", (0, "https://a.example/(b)", "https://a.example/(b)")),
    ],
)
def test_an_address_ends_before_the_marks_of_its_sentence(text: str, found: tuple[int, str, str]) -> None:
    assert list(find_bare_urls(text)) == [found]


def test_a_million_brackets_are_not_part_of_an_address() -> None:
    [(_, written, _)] = find_bare_urls("https://a.example" + ")" * 1_000_000)

    assert written == "https://a.example"
