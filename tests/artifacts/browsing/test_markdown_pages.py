from spindle.artifacts import BytesReader
from spindle.artifacts.browsing import MarkdownPages
from spindle.artifacts.markdown.bounded_tree import Node

TEXT = """---
title: x
---
# First

Some *text* with a [link](javascript:alert(1)) and <b>markup</b>.

## Second

| a | b |
| - | - |
| 1 | 2 |
"""


def test_a_page_has_the_blocks_and_the_outline_their_headings() -> None:
    pages = MarkdownPages(BytesReader(TEXT))
    assert [(heading.depth, heading.text) for heading in pages.read_outline().headings] == [(1, "First"), (2, "Second")]
    page = pages.read_page()
    assert [node["type"] for node in page.nodes] == ["yaml", "heading", "paragraph", "heading", "table"]
    assert page.next_line is None
    assert [node["type"] for node in pages.read_page(7).nodes] == ["heading", "table"]


def test_pages_put_together_cover_every_line_once() -> None:
    text = "".join(
        f"## Section {n}\n\nA paragraph of section {n}.\n\n```\ncode {n}\n\n# not a heading\n```\n\n"
        for n in range(2_100)
    )
    pages, found = MarkdownPages(BytesReader(text)), list[Node]()
    line: int | None = 0
    while line is not None:
        page = pages.read_page(line)
        found += page.nodes
        line = page.next_line
    kinds = [node["type"] for node in found]
    assert kinds == ["heading", "paragraph", "code"] * 2_100
    assert found[-1]["value"] == "code 2099\n\n# not a heading"
    assert len(pages.read_outline().headings) == 2_000
    assert not pages.read_outline().is_complete


def test_a_page_that_begins_inside_code_is_code() -> None:
    text = "```py\n" + "x = 1\n\n" * 15_000 + "```\n\n# End\n"
    pages = MarkdownPages(BytesReader(text))
    first = pages.read_page()
    assert first.next_line is not None
    second = pages.read_page(first.next_line)
    assert [node["type"] for node in (*first.nodes, *second.nodes)] == ["code", "code"]


def test_one_endless_line_is_cut_and_passed() -> None:
    pages = MarkdownPages(BytesReader("*a* " * 20_000 + "\n\n# After\n"))
    page = pages.read_page()
    assert page.nodes[-1]["type"] == "cut"
    assert page.next_line == 1
    assert [node["type"] for node in pages.read_page(1).nodes] == ["heading"]


def test_lines_out_of_range_have_no_blocks() -> None:
    assert MarkdownPages(BytesReader("# a")).read_page(99).nodes == ()
    assert MarkdownPages(BytesReader("")).read_page().nodes == ()
