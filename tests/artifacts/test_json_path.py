from typing import Any, cast

import jsonpath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.json_path import MAX_PATH_CHARS, PathLimits, PathQuery
from spindle.errors import ArtifactQueryError
from tests.bounds import bounded_cpu

SHOP: Any = {
    "items": [
        {"id": 1, "price": 5, "tag": "new", "name": "cup"},
        {"id": 2, "price": 15.5, "tag": "old", "name": "pan\nlid"},
        {"id": 3, "price": 25, "name": "pot", "inside": {"price": 1, "id": 4}},
    ],
    "note": None,
    "odd key": True,
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.items[0].name", ["cup"]),
        ("$.items[-1].id", [3]),
        ("$.items[*].id", [1, 2, 3]),
        ("$..id", [1, 2, 3, 4]),
        ("$.items[0:2].id", [1, 2]),
        ("$.items[::-1].id", [3, 2, 1]),
        ("$['odd key']", [True]),
        ("$.note", [None]),
        ("$.nothing", []),
        ("$.items[0]['id','price']", [1, 5]),
        ("$.items[?@.price > 10].id", [2, 3]),
        ("$.items[?@.tag == 'new' || @.id == 3].id", [1, 3]),
        ("$.items[?!@.tag].id", [3]),
        ("$.items[?match(@.name, 'p.t')].id", [3]),
        ("$.items[?search(@.name, '^p')].id", [2, 3]),
        ("$.items[?match(@.name, 'pan.lid')].id", []),
        ("$.items[?match(@.name, 'pan[.\\n]lid')].id", [2]),
        ("$.items[?length(@.name) == 3].id", [1, 3]),
        ("$.items[?count(@.*) > 4].id", []),
        ("$.items[?@.id == true].id", []),
        ("$..[?@.price == 1].id", [4]),
    ],
)
def test_paths_find_what_the_rfc_says(path: str, found: list[Any]) -> None:
    assert PathQuery(path).select(SHOP) == found


def test_the_root_is_found_whatever_it_is() -> None:
    roots: list[Any] = [SHOP, [], 5, "text", None, False]
    for root in roots:
        assert PathQuery("$").select(root) == [root]


def test_a_record_that_is_text_is_not_read_as_json() -> None:
    assert PathQuery("$.a").select('{"a": 1}') == []
    assert PathQuery("$.items[*].a").select({"items": ['{"a": 1}']}) == []


@pytest.mark.parametrize(
    "path",
    [
        "",
        "items",
        "$.",
        "$.items[",
        "$.items[?]",
        "$.items[?(",
        "$ | $.a",
        "$.a & $.b",
        "$.items[?@.name =~ /p/]",
        "$.items[?isinstance(@.id, 'number')]",
        "$.items[(@.length-1)]",
        "$.items[?__import__('os').system('true')]",
        "$.items.~",
        "^.items",
        "$.items[?_.x]",
        " $.items",
        "$[" + "?(" * 3000,
        "$" + ".a" * MAX_PATH_CHARS,
        "$[99999999999999999999]",
        "$.a\x00",
    ],
)
def test_a_value_that_is_not_a_path_of_the_rfc_is_refused(path: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        PathQuery(path).select(SHOP)

    assert caught.value.field == "path"


@pytest.mark.parametrize("pattern", ["(", "(?=p)", "(p)\\\\1"])
def test_a_pattern_outside_the_dialect_is_refused(pattern: str) -> None:
    with pytest.raises(ArtifactQueryError):
        PathQuery(f"$.items[?search(@.name, '{pattern}')]").select(SHOP)


def test_a_path_that_is_not_text_is_refused() -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        PathQuery(cast("str", 5))
    assert caught.value.field == "path"


def test_a_pattern_made_to_explode_answers_at_once() -> None:
    with bounded_cpu():
        assert PathQuery("$[?match(@, '(a+)+$')]").select(["a" * 50_000 + "b"]) == []


def test_a_path_made_to_explode_is_ended() -> None:
    data = [[n] for n in range(500)]

    with pytest.raises(ArtifactQueryError):
        PathQuery("$..[?$..[?$..[?$..x]]]", PathLimits(max_steps=50_000)).select(data)
    with pytest.raises(ArtifactQueryError):
        PathQuery("$..[?$..[?$..[?$..x]]]", PathLimits(max_seconds=0.05)).select(data)
    with pytest.raises(ArtifactQueryError):
        PathQuery("$[*]..*", PathLimits(max_steps=2_000)).select([data] * 5)


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"a": deep}
    assert len(PathQuery("$..a").select(deep)) == 150

    with pytest.raises(ArtifactQueryError):
        PathQuery("$..a", PathLimits(max_depth=100)).select(deep)


def test_a_limit_ends_the_search_early() -> None:
    asked = PathQuery("$[*]", PathLimits(max_steps=5_000))

    assert asked.select(list(range(1_000_000)), 2) == [0, 1]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def descendants(value: Any) -> list[Any]:
    below: list[Any] = []
    if isinstance(value, dict):
        below = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        below = cast("list[Any]", value)
    return [inner for child in below for inner in (child, *descendants(child))]


@given(json_values)
def test_everything_below_the_root_is_found(value: Any) -> None:
    found = PathQuery("$..*").select(value)

    assert sorted(map(repr, found)) == sorted(map(repr, descendants(value)))


PATHS = [
    "$",
    "$.a",
    "$[0]",
    "$[-1]",
    "$['a', 0, *]",
    "$[1:]",
    "$[::-2]",
    "$[-2:0:-1]",
    "$.*.*",
    "$..a",
    "$..[0, ?@.a]",
    "$[?@]",
    "$[?!@.a]",
    "$[?@.a == 1]",
    "$[?@.a != @.b]",
    "$[?@ < 'b' || @ >= 2]",
    "$[?@.a <= $[0].a && @ != null]",
    "$[?length(@) > 1]",
    "$[?count(@.*) == 2]",
    "$[?value(@..a) == true]",
    "$[?$..a]",
    "$[?match(@, 'a.*')]",
    "$..[?search(@.a, '[ab]')]",
]
known_names = st.sampled_from(["a", "b", "c"])
values_for_paths = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.floats(0, 3) | st.sampled_from(["a", "b", "ab", "é"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(known_names, inner, max_size=3),
    max_leaves=20,
)


@given(st.sampled_from(PATHS), st.lists(values_for_paths, max_size=4) | st.dictionaries(known_names, values_for_paths))
def test_values_are_selected_as_by_another_implementation(path: str, value: Any) -> None:
    other = jsonpath.JSONPathEnvironment(strict=True)

    assert repr(PathQuery(path).select(value)) == repr(other.findall(path, value))


def test_a_text_too_long_for_a_pattern_is_refused() -> None:
    with pytest.raises(ArtifactQueryError):
        PathQuery("$[?search(@, 'b')]").select(["a" * (5 << 20)])


def test_a_query_ends_when_it_is_interrupted() -> None:
    def interrupt() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        PathQuery("$..x", interrupt=interrupt).select([[0]] * 2000)
