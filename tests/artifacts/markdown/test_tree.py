import json
from typing import Any

import pytest

from spindle.artifacts.markdown.parse import MarkdownParser


def tree(text: str) -> list[dict[str, Any]]:
    count = text.count("\n") + 1
    return MarkdownParser().tree(text, range(count), 0)


def inside(text: str) -> list[dict[str, Any]]:
    [paragraph] = tree(text)
    return paragraph["children"]


@pytest.mark.parametrize(
    ("written", "node"),
    [
        ("*a*", {"type": "emphasis", "children": [{"type": "text", "value": "a"}]}),
        ("**a**", {"type": "strong", "children": [{"type": "text", "value": "a"}]}),
        ("~~a~~", {"type": "delete", "children": [{"type": "text", "value": "a"}]}),
        ("`a`", {"type": "inlineCode", "value": "a"}),
        ("![a *b*](/i.png)", {"type": "image", "url": "/i.png", "title": None, "alt": "a b"}),
        ('[a](/b "c")', {"type": "link", "url": "/b", "title": "c", "children": [{"type": "text", "value": "a"}]}),
    ],
)
def test_marks_inside_of_a_line(written: str, node: dict[str, Any]) -> None:
    assert inside(written) == [node]


def test_lines_of_one_text_are_one_text_and_hard_breaks_are_nodes() -> None:
    assert inside("a\nb &amp; \\*  \nc<br>") == [
        {"type": "text", "value": "a\nb & *"},
        {"type": "break"},
        {"type": "text", "value": "c"},
        {"type": "html", "value": "<br>"},
    ]


def test_a_bare_address_is_a_link_but_not_inside_of_one() -> None:
    text, link, dot = inside("see www.a.example/x.")

    assert (text["value"], link["url"], dot["value"]) == ("see ", "http://www.a.example/x", ".")
    [outer] = inside("[https://a.example](/b)")
    assert outer["children"] == [{"type": "text", "value": "https://a.example"}]


def test_lists_know_their_order_their_start_and_their_boxes() -> None:
    [todo] = tree("- [x] done\n- [ ] open\n- plain")
    [steps] = tree("3. a\n4. b")

    assert todo["ordered"] is False
    assert [item.get("checked") for item in todo["children"]] == [True, False, None]
    assert [item["children"][0]["children"][0]["value"] for item in todo["children"]] == ["done", "open", "plain"]
    assert (steps["ordered"], steps["start"]) == (True, 3)
    assert steps["children"][1]["position"] == {"start_line": 1, "end_line": 1}


def test_a_table_has_rows_of_cells_and_the_alignment_of_its_columns() -> None:
    [table] = tree("| a | b | c |\n|:--|--:|---|\n| 1 | 2 | *3* |")

    assert table["align"] == ["left", "right", None]
    assert [len(row["children"]) for row in table["children"]] == [3, 3]
    assert table["children"][1]["children"][2] == {
        "type": "tableCell",
        "children": [{"type": "emphasis", "children": [{"type": "text", "value": "3"}]}],
    }
    assert table["children"][1]["position"] == {"start_line": 2, "end_line": 2}


def test_blocks_that_hold_no_nodes() -> None:
    code, rule, html = tree("    a\n\n***\n\n<div>\nx\n</div>\n")

    assert (code["type"], code["value"], code["lang"]) == ("code", "a", None)
    assert rule == {"type": "thematicBreak", "position": {"start_line": 2, "end_line": 2}}
    assert html["value"] == "<div>\nx\n</div>"


@pytest.mark.parametrize(
    "hostile", ["*a " * 2000 + "b* " * 2000, "> " * 2000 + "a", "- " * 2000 + "a", "![" * 1000 + "a"]
)
def test_no_text_makes_a_tree_too_deep_for_json(hostile: str) -> None:
    assert "a" in json.dumps(tree(hostile))
