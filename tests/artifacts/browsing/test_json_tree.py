import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import BytesReader
from spindle.artifacts.browsing import JsonMembers, JsonPlace, JsonTree, JsonTreeNode, ScanLimits
from spindle.artifacts.browsing.json_tree import MAX_MEMBERS, ROOT

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=6), inner, max_size=5),
    max_leaves=10,
)


def list_all(tree: JsonTree, byte: int, count: int = 2, max_bytes: int = 1 << 30) -> list[JsonTreeNode]:
    found: list[JsonTreeNode] = []
    place: JsonPlace | None = None
    while True:
        page = tree.list_members(byte, place=place, count=count, limits=ScanLimits(max_bytes=max_bytes, max_seconds=60))
        assert page.error is None
        found += page.nodes
        if page.next is None:
            return found
        assert page.next != place or page.is_out_of_time
        place = page.next


def rebuild(tree: JsonTree, node: JsonTreeNode, text: bytes) -> Any:
    if node.kind == "object":
        return {child.name: rebuild(tree, child, text) for child in list_all(tree, node.byte)}
    if node.kind == "array":
        return [rebuild(tree, child, text) for child in list_all(tree, node.byte)]
    assert node.byte_length is not None
    value = json.loads(text[node.byte : node.byte + node.byte_length])
    if node.kind == "string":
        assert value[:200] == node.preview
    return value


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_the_nodes_put_together_give_the_document(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    tree = JsonTree(BytesReader(text))
    (root,) = list_all(tree, ROOT)
    assert root.byte_length == len(text)
    assert rebuild(tree, root, text) == value


def test_the_lines_of_json_lines_are_records() -> None:
    tree = JsonTree(BytesReader('{"a":1}\n\n[2]\n"x"\n'))
    page = tree.list_members()
    assert [(node.index, node.kind, node.preview) for node in page.nodes] == [
        (0, "object", '{"a":1}'),
        (1, "array", "[2]"),
        (2, "string", "x"),
    ]
    assert (page.kind, page.next, page.error) == ("records", None, None)


def test_a_value_whose_end_is_far_away_is_listed_and_its_members_too() -> None:
    text = json.dumps({"small": 1, "big": [{"id": n, "t": '"}]\\'} for n in range(40_000)], "last": True})
    tree, limits = JsonTree(BytesReader(text)), ScanLimits(max_bytes=200_000, max_seconds=60)
    page = tree.list_members(limits=limits)
    (root,) = page.nodes
    assert (root.byte_length, page.is_out_of_time) == (None, True)
    page = tree.list_members(root.byte, limits=limits)
    assert [node.name for node in page.nodes] == ["small", "big"]
    assert tree.list_members(page.nodes[1].byte, limits=limits).nodes[0].preview == '{"id": 0, "t": "\\"}]\\\\"}'
    asked, names = 0, [node.name for node in page.nodes]
    while page.next is not None:
        page = tree.list_members(root.byte, place=page.next, limits=limits)
        names += [node.name for node in page.nodes]
        asked += 1
    assert names == ["small", "big", "last"]
    assert asked > 3
    # The end is known now.
    assert tree.list_members(root.byte, limits=limits).nodes[1].byte_length is not None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"a": 1, "b"}', ["a"]),
        ('{"a": 1,}', ["a"]),
        ('{"a": 1 "b": 2}', ["a"]),
        ('{"a": 1, "b": [1, 2', ["a", "b"]),
        ('{"a": 1, "b": "never', ["a", "b"]),
        ('{"a": 1, "b": "\\', ["a", "b"]),
        ('{"a": ?}', []),
        ("{a: 1}", []),
        ("{", []),
    ],
)
def test_members_are_listed_up_to_the_first_error(text: str, names: list[str]) -> None:
    page = JsonTree(BytesReader(text)).list_members(0)
    assert [node.name for node in page.nodes] == names
    assert page.error is not None


def test_text_that_is_not_json_has_no_members() -> None:
    page = JsonTree(BytesReader("plain text")).list_members()
    assert page.error is not None or page.nodes[0].kind == "number"
    assert JsonTree(BytesReader("")).list_members() == JsonMembers(kind="records", nodes=(), next=None)
    assert JsonTree(BytesReader("[1]")).list_members(10**9).nodes == ()
    assert JsonTree(BytesReader("[1]")).list_members(1).nodes == ()


def test_a_page_and_its_previews_are_bounded() -> None:
    text = json.dumps([["x" * 10_000, "long " * 1_000]] * 600 + ["é" * 5_000])
    tree = JsonTree(BytesReader(text))
    page = tree.list_members(0, count=10**6)
    assert len(page.nodes) == MAX_MEMBERS
    assert max(len(node.preview) for node in page.nodes) <= 200
    last = list_all(tree, 0, count=500)[-1]
    assert (last.preview, last.is_cut) == ("é" * 200, True)
    assert len(JsonTree(BytesReader(json.dumps({"n" * 50_000: 1}))).list_members(0).nodes[0].name or "") == 1_000


def test_deep_nesting_and_escapes_cost_no_more_than_other_content() -> None:
    deep = "[" * 300_000 + "]" * 300_000
    (root,) = JsonTree(BytesReader(deep)).list_members(limits=ScanLimits(max_seconds=60)).nodes
    assert root.byte_length == 600_000
    escapes = '["' + '\\"' * 500_000 + '", 2]'
    assert [node.kind for node in list_all(JsonTree(BytesReader(escapes)), 0)] == ["string", "number"]
