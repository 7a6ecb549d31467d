from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.markdown.bounded_tree import BoundedTree, as_compact_json
from spindle.artifacts.markdown.parse import MarkdownParser

PARSER = MarkdownParser()
LINES = st.sampled_from(
    ["# A", '- item "x"', "  - inner", "> quote", "text é *b*", "| a | b |", "|--|--|", "    code", ""]
)


def grown(text: str, max_chars: int, start: int = 0) -> dict[str, Any]:
    lines = text.split("\n")
    tree = BoundedTree(start, len(lines), max_chars=max_chars)
    tree.add(PARSER.tree("\n".join(lines[start:]), range(start, len(lines)), start))
    return tree.finish()


@given(st.lists(LINES, min_size=1, max_size=30).map("\n".join), st.integers(min_value=150, max_value=2000))
def test_every_tree_has_room_and_every_cut_tree_goes_on_further_down(text: str, max_chars: int) -> None:
    line: int | None = 0
    while line is not None:
        tree = grown(text, max_chars, line)
        following = tree.get("next_line")

        assert len(as_compact_json(tree)) < max_chars
        assert following is None or following > line
        assert (following is not None) == ("truncated" in tree)
        line = following


def test_a_list_that_is_too_long_goes_on_with_the_item_that_had_no_room() -> None:
    text = "\n".join(f"- item {n}" for n in range(100))
    tree = grown(text, 2000)
    [items] = tree["children"]

    assert items["truncated"] is True
    assert tree["next_line"] == len(items["children"])
    [rest] = grown(text, 100_000, tree["next_line"])["children"]
    assert len(items["children"]) + len(rest["children"]) == 100


def test_code_that_is_too_long_is_cut_and_says_so() -> None:
    tree = grown("```\n" + '"quoted"\n' * 1000 + "```\nlast", 1000)
    [code] = tree["children"]

    assert code["truncated"] is True
    assert code["value"].startswith('"quoted"\n')
    assert 900 < len(as_compact_json(tree)) < 1000
    assert tree["next_line"] == 1002


def test_a_block_that_would_fit_alone_is_left_whole_for_the_next_answer() -> None:
    tree = grown("# A\n\n" + "word " * 60, 600)

    assert [node["type"] for node in tree["children"]] == ["heading"]
    assert tree["next_line"] == 2
    assert "next_line" not in grown("# A\n\n" + "word " * 60, 600, 2)
