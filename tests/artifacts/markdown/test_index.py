from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.markdown.index import MAX_FRONTMATTER_LINES, MarkdownIndex, MarkdownIndexer, find_frontmatter_end
from spindle.artifacts.markdown.model import CodeBlock, Heading, Section


def index_of(text: str) -> MarkdownIndex:
    lines = text.split("\n")
    indexer = MarkdownIndexer(find_frontmatter_end(lines))
    indexer.feed(lines)
    return indexer.finish()


def test_a_heading_governs_the_lines_up_to_the_next_of_its_depth_or_above() -> None:
    index = index_of("# A\na\n## B\nb\n### C\n## D\n# E\ne")

    assert list(index.headings) == [
        Heading(1, "A", 0, 5),
        Heading(2, "B", 2, 4),
        Heading(3, "C", 4, 4),
        Heading(2, "D", 5, 5),
        Heading(1, "E", 6, 7),
    ]
    assert index.sections()[1] == Section(2, "B", 2, 3, 4)


def test_headings_begin_with_hashes_at_the_start_of_a_line_and_a_space() -> None:
    index = index_of("#no\n # no\n####### no\n#\tyes\n## yes ##  \nUnderlined\n===\n# \n#")

    assert [(heading.depth, heading.text) for heading in index.headings] == [(1, "yes"), (2, "yes ##"), (1, "")]


def test_a_fence_is_closed_by_its_own_kind_and_at_least_its_length() -> None:
    text = "````py x\n# no\n```\n~~~~\n`````js\n# yes\n  ~~~\n```\n~~~\n``` py\n```\n```glued"

    assert list(index_of(text).code_blocks) == [
        CodeBlock("py", 0, 4),
        CodeBlock(None, 6, 8),
        CodeBlock(None, 9, 10),
        CodeBlock("glued", 11, 11),
    ]
    assert [heading.text for heading in index_of(text).headings] == ["yes"]


def test_an_unclosed_fence_reaches_to_the_end() -> None:
    assert list(index_of("a\n```\n# no\n").code_blocks) == [CodeBlock(None, 1, 3)]


def test_code_inside_a_line_opens_no_fence() -> None:
    index = index_of("```one``` line\n# yes")

    assert not index.code_blocks
    assert len(index.headings) == 1


def test_frontmatter_is_skipped_and_an_unclosed_one_is_none() -> None:
    assert index_of("---\n# no\n---\n# yes").frontmatter_end == 2
    assert [h.text for h in index_of("---\n# no\n---\n# yes").headings] == ["yes"]
    assert index_of("---\n# yes").frontmatter_end is None
    assert [h.text for h in index_of("---\n# yes").headings] == ["yes"]
    assert index_of("\n---\na: 1\n---").frontmatter_end is None


def test_frontmatter_must_close_within_its_first_lines() -> None:
    last = MAX_FRONTMATTER_LINES - 1
    assert find_frontmatter_end(["---", *["a: 1"] * (last - 1), "---"]) == last
    assert find_frontmatter_end(["---", *["a: 1"] * last, "---"]) is None


def test_pieces_cover_every_line_once_and_never_cut_code() -> None:
    paragraph = "word " * 400 + "\n\n"
    text = paragraph * 40 + "```\n" + paragraph * 80 + "```\n" + paragraph * 40
    index = index_of(text)
    pieces = index.pieces(None, None)

    assert len(pieces) > 2
    assert [line for piece in pieces for line in piece] == list(range(index.line_count))
    block = index.code_blocks[0]
    assert not any(block.start_line < piece.start <= block.end_line for piece in pieces)


def test_a_line_knows_the_fence_round_it() -> None:
    index = index_of("a\n~~~\ncode\n~~~\nb")

    assert [index.find_enclosing_fence(line) for line in range(5)] == [None, None, "~~~", "~~~", None]


@given(st.text(alphabet="#`~- \nab[]:", max_size=200))
def test_any_text_has_an_outline_inside_of_it(text: str) -> None:
    index = index_of(text)

    for heading in index.headings:
        assert 0 <= heading.start_line <= heading.end_line < index.line_count
    for block in index.code_blocks:
        assert 0 <= block.start_line <= block.end_line < index.line_count
    assert [line for piece in index.pieces(None, None) for line in piece] == list(
        range(index.body_start, index.line_count)
    )


@given(st.lists(st.integers(1, 6), max_size=30))
def test_ends_of_headings_agree_with_a_plain_search(depths: list[int]) -> None:
    index = index_of("\n".join("#" * depth + " x" for depth in depths))

    for heading in index.headings:
        later = [h.start_line for h in index.headings if h.start_line > heading.start_line and h.depth <= heading.depth]
        assert heading.end_line == (later[0] if later else index.line_count) - 1
