import time
from datetime import date

import pytest

from spindle.artifacts.markdown.model import Image, Link
from spindle.artifacts.markdown.parse import MarkdownParser, parse_frontmatter
from spindle.errors import InvalidArtifactError
from tests.bounds import bounded_cpu


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ('[a *b*](u "t")', [Link("a b", "u", "t")]),
        ("<http://a.b>", [Link("http://a.b", "http://a.b")]),
        ("[a][R] [R][] [r]", [Link("a", "/r", "T"), Link("R", "/r", "T"), Link("r", "/r", "T")]),
        (
            "see https://a.b/c_(d)). and www.x.y!",
            [Link("https://a.b/c_(d)", "https://a.b/c_(d)"), Link("www.x.y", "http://www.x.y")],
        ),
        ("[![alt](i)](u)", [Link("alt", "u")]),
        ("`[a](b)` and \\[a](b)", []),
        ("    [a](b)", []),
        ("| x |\n|---|\n| [a](b) |", [Link("a", "b")]),
        ("> - [a](b)", [Link("a", "b")]),
        ("[a](javascript:alert(1))", [Link("a", "javascript:alert(1)")]),
        ("[a](<b c>)", [Link("a", "b c")]),
        ("[nothing][nowhere]", []),
    ],
)
def test_links_are_found_in_every_spelling(text: str, links: list[Link]) -> None:
    assert MarkdownParser('[r]: /r "T"').links(text) == links


def test_images_are_found_inline_and_by_reference() -> None:
    parser = MarkdownParser("[r]: /r")

    assert parser.images('![a *b*](u "t") ![c][r] [![d](e)](f)') == [
        Image("a b", "u", "t"),
        Image("c", "/r"),
        Image("d", "e"),
    ]


def test_the_first_definition_of_a_name_counts() -> None:
    assert MarkdownParser("[r]: /first").links("[r]\n\n[r]: /second") == [Link("r", "/first")]


def test_link_definitions_do_not_leak_into_the_next_part() -> None:
    parser = MarkdownParser()

    assert parser.links("[x]\n\n[x]: /x") == [Link("x", "/x")]
    assert parser.links("[x]") == []


def test_text_has_no_markup() -> None:
    text = (
        "# A `b`\n\none *two*\nthree\n\n- x\n- y\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "```py\ncode()\n```\n\n<p>html</p>\n\n![alt](u)"
    )

    assert MarkdownParser().text(text) == ["A b", "one two\nthree", "x\ny", "a\tb\n1\t2", "code()", "html", "alt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 8_000,
        "![" * 3_000,
        "> " * 8_000,
        "- " * 8_000,
        "**a*" * 3_000,
        "`a " * 5_000,
        "[[](" * 2_000,
        "<a " * 8_000,
    ],
)
def test_hostile_nesting_ends(text: str) -> None:
    parser = MarkdownParser()
    with bounded_cpu(30):
        parser.links(text)
        parser.text(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("a: 1\nb: [x, y]", {"a": 1, "b": ["x", "y"]}),
        ("when: 2024-01-02", {"when": date(2024, 1, 2)}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("- a", ["a"]),
    ],
)
def test_frontmatter_is_yaml_of_plain_values(text: str, value: object) -> None:
    assert parse_frontmatter(text) == value


LAUGHS = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) or 'x'}]" for n in range(1, 12)).replace("*a0", "x")


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "a: &a [*a]",
        "a: !!python/object/apply:os.system ['true']",
        "a: [",
        "a: *nowhere",
        "--- 1\n--- 2",
        pytest.param("a: " + "[" * 5_000, marks=pytest.mark.slow),
        "a: " + "[" * 1_000,
        "x: " + "1" * 10_000,
        "y" * 70_000,
        "a: !!timestamp 9999-99-99",
    ],
)
def test_yaml_that_is_wrong_or_hostile_is_refused(text: str) -> None:
    with bounded_cpu(), pytest.raises(InvalidArtifactError):
        parse_frontmatter(text)


def cpu_seconds(text: str) -> float:
    parser = MarkdownParser()
    begun = time.process_time()
    assert parser.links(text) == []
    return time.process_time() - begun


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["[", "![", "[\n", "[[]"])
def test_brackets_without_end_take_work_in_proportion_to_the_text(piece: str) -> None:
    cpu_seconds(piece)  # loads the parser
    count = 50_000 // len(piece)

    short, long = cpu_seconds(piece * count), min(cpu_seconds(piece * count * 4) for _ in range(2))

    # Four times the text; work that grows with its square would take sixteen times as long.
    assert long < 9 * max(short, 0.02)


def test_links_of_a_usual_text_are_found_beside_open_brackets() -> None:
    text = "".join(f"A [ and [link {n}](https://x.example/{n}) and [ ] ![i](p{n}.png)\n\n" for n in range(500))

    assert len(MarkdownParser().links(text)) == 500
    assert len(MarkdownParser().images(text)) == 500
