import json

import pytest

from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.markdown.bounded_tree import as_compact_json
from spindle.artifacts.markdown.model import CodeBlock, Heading, Image, Link, Section
from spindle.errors import InvalidArtifactError

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

PAGE = """\
---
title: Wheels
---
# One
See [here](/a) and [there][r].

## Two
```py
# not a heading
[not](a-link)
```
![pic][r]
```
plain
```

[r]: /ref "Ref"
"""


@pytest.fixture
def page() -> MarkdownArtifact:
    return MarkdownArtifact.from_text(PAGE)


async def test_frontmatter_distinguishes_empty_from_missing(page: MarkdownArtifact) -> None:
    assert await page.frontmatter() == {"title": "Wheels"}
    assert await MarkdownArtifact.from_text("---\n---\n# A").frontmatter() == {}
    assert await MarkdownArtifact.from_text("# A").frontmatter() is None
    assert await MarkdownArtifact.from_text("---\ntitle: unclosed\n# A").frontmatter() is None
    assert await MarkdownArtifact.from_text("").frontmatter() is None


async def test_frontmatter_that_is_not_yaml_is_an_error_and_the_rest_still_works() -> None:
    page = MarkdownArtifact.from_text("---\na: [\n---\n# A")

    with pytest.raises(InvalidArtifactError):
        await page.frontmatter()
    assert [heading.text for heading in await page.headings()] == ["A"]


async def test_the_outline(page: MarkdownArtifact) -> None:
    assert await page.headings() == [Heading(1, "One", 3, 17), Heading(2, "Two", 6, 17)]
    assert await page.headings(2) == [Heading(2, "Two", 6, 17)]
    assert await page.headings(3) == []
    assert await page.sections(1) == [Section(1, "One", 3, 4, 17)]
    assert await page.cat(6, 7) == ["## Two"]


async def test_code_blocks_are_filtered_by_language_and_the_empty_one_is_none(page: MarkdownArtifact) -> None:
    assert await page.code_blocks() == [CodeBlock("py", 7, 10), CodeBlock(None, 12, 14)]
    assert await page.code_blocks("py") == [CodeBlock("py", 7, 10)]
    assert await page.code_blocks("") == [CodeBlock(None, 12, 14)]
    assert await page.code_blocks("js") == []


async def test_links_and_images_by_reference_are_known_in_any_range(page: MarkdownArtifact) -> None:
    assert await page.links() == [Link("here", "/a"), Link("there", "/ref", "Ref")]
    assert await page.links(4, 5) == [Link("here", "/a"), Link("there", "/ref", "Ref")]
    assert await page.links(limit=1) == [Link("here", "/a")]
    assert await page.images() == [Image("pic", "/ref", "Ref")]
    assert await page.images(0, 11) == []


async def test_a_range_that_begins_inside_of_code_is_code(page: MarkdownArtifact) -> None:
    assert await page.links(9, 11) == []
    assert await page.text(9, 11) == "[not](a-link)"


async def test_text_leaves_out_markup_and_frontmatter(page: MarkdownArtifact) -> None:
    assert await page.text(0, 7) == "One\n\nSee here and there.\n\nTwo"
    assert await page.text(5, 5) == ""
    assert await page.text(-3, 5) == "One\n\nSee here and there."


async def test_a_long_text_is_parsed_in_pieces_and_nothing_is_lost() -> None:
    blocks = [f"[l{n}](/u{n}) {'word ' * 50}\n" for n in range(1500)]
    page = MarkdownArtifact.from_text("\n".join(blocks))

    assert [link.url for link in await page.links()] == [f"/u{n}" for n in range(1500)]
    assert len(await page.text(max_chars=100)) < 100_000


async def test_the_tree_has_the_frontmatter_the_blocks_and_their_lines(page: MarkdownArtifact) -> None:
    tree = await page.ast()

    assert json.loads(as_compact_json(tree)) == tree
    assert [(node["type"], node["position"]["start_line"]) for node in tree["children"]] == [
        ("yaml", 0),
        ("heading", 3),
        ("paragraph", 4),
        ("heading", 6),
        ("code", 7),
        ("paragraph", 11),
        ("code", 12),
    ]
    assert tree["children"][4] == {
        "type": "code",
        "lang": "py",
        "meta": None,
        "value": "# not a heading\n[not](a-link)",
        "position": {"start_line": 7, "end_line": 10},
    }
    assert tree["position"] == {"start_line": 0, "end_line": 17}


async def test_the_tree_of_a_range_knows_what_the_whole_text_defines(page: MarkdownArtifact) -> None:
    [words] = (await page.ast(4, 5))["children"]
    [code] = (await page.ast(9, 11))["children"]

    assert [node["url"] for node in words["children"] if node["type"] == "link"] == ["/a", "/ref"]
    assert (code["lang"], code["value"], code["position"]) == (
        "py",
        "[not](a-link)",
        {"start_line": 9, "end_line": 10},
    )
    assert (await page.ast(5, 5))["children"] == []
    assert (await page.ast(99))["children"] == []


@pytest.mark.slow
async def test_a_tree_that_is_too_large_says_where_it_goes_on_and_nothing_is_lost() -> None:
    page = MarkdownArtifact.from_text("\n".join(f"# H{n}\n\nword {n}\n" for n in range(3000)))
    headings, line = list[str](), 0
    while line is not None and len(headings) < 400:
        tree = await page.ast(line, max_chars=20_000)
        assert len(as_compact_json(tree)) < 20_000
        headings += [node["children"][0]["value"] for node in tree["children"] if node["type"] == "heading"]
        line = tree.get("next_line")

    assert headings == [f"H{n}" for n in range(len(headings))]
    assert "next_line" not in await page.ast(11_900)
