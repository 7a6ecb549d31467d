import copy
import pickle
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidStashError
from spindle.stash import EMPTY, MAX_NESTING, MAX_SEGMENTS, FrozenStash, Stash

JSON_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
JSON = st.recursive(
    JSON_LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
STORES = st.dictionaries(st.text(max_size=3), JSON, max_size=4)
Maker = Callable[[Any], Stash | FrozenStash]
either = pytest.mark.parametrize("make", [Stash, FrozenStash])


class NeedsArguments(Exception):
    """Cannot be copied: its constructor wants more than its `args`."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@dataclass
class Basket:
    fruits: list[str]


# --- reading ---------------------------------------------------------------------------------------------------------


@either
def test_dot_path_reads_nested_values(make: Maker) -> None:
    stash = make({"user": {"name": "Ada", "tags": ["a", {"b": 1}]}})

    assert stash.get("user.name") == "Ada"
    assert stash.get("user.tags.1.b") == 1
    assert stash.get("user.tags.2") is None
    assert stash.get("user.name.first", "none") == "none"


@either
@pytest.mark.parametrize("value", [None, 0, "", False, [], {}])
def test_default_is_returned_only_for_absent_values(make: Maker, value: Any) -> None:
    stash = make({"a": {"b": value}})

    assert stash.get("a.b", "default") == value
    assert stash.has("a.b")
    assert stash.get("a.c", "default") == "default"
    assert not stash.has("a.c")
    assert stash.get("a.c") is None


@either
def test_a_list_path_addresses_keys_with_dots_and_keys_that_are_not_text(make: Maker) -> None:
    stash = make({"a.b": {"c": 1, 7: "seven"}, "a": {"b": 2}})

    assert stash.get(["a.b", "c"]) == 1
    assert stash.get(("a.b", 7)) == "seven"
    assert stash.get("a.b") == 2
    assert not stash.has(["a.b", "7"])


@either
@pytest.mark.parametrize("path", [[], (), 5, None, {"a": 1}, b"a", [["a"]], "a." * MAX_SEGMENTS])
def test_invalid_path_is_rejected(make: Maker, path: Any) -> None:
    with pytest.raises(InvalidStashError) as caught:
        make({"a": 1}).get(path)

    assert caught.value.field == "path"


@either
@pytest.mark.parametrize("segment", [-1, True, 99, "-1", "01", "x", "१"])
def test_invalid_list_index_is_absent(make: Maker, segment: Any) -> None:
    assert not make({"a": [1, 2]}).has(["a", segment])


@either
def test_a_stash_cannot_be_indexed(make: Maker) -> None:
    stash: Any = make({"a": 1})

    with pytest.raises(TypeError):
        stash["a"]
    with pytest.raises(TypeError):
        stash["a"] = 2
    with pytest.raises(AttributeError):
        _ = stash.a


@either
def test_keys_are_the_paths_of_the_leaves(make: Maker) -> None:
    stash = make({"a": {"b": 1, "c": [1, {"d": 2}], "n": None}, "empty": {}, "o": Basket([])})

    assert stash.keys() == ["a.b", "a.c", "a.n", "o"]


@either
def test_key_that_a_dot_path_cannot_express_is_a_tuple(make: Maker) -> None:
    stash = make({"a": {"b.c": 1}, 3: {"x": 2}})

    assert stash.keys() == [("a", "b.c"), (3, "x")]
    assert list(map(stash.get, stash.keys())) == [1, 2]


@given(STORES)
def test_every_key_has_a_value(store: dict[str, Any]) -> None:
    for stash in (Stash(store), FrozenStash(store)):
        assert all(map(stash.has, stash.keys()))
        assert stash.all() == store


@either
@pytest.mark.parametrize("initial", [[], (), [1], 0, 1, "", "text", True, {"a"}, object()])
def test_a_stash_is_made_of_a_mapping(make: Maker, initial: Any) -> None:
    with pytest.raises(InvalidStashError) as caught:
        make(initial)

    assert caught.value.code == "E_INVALID_INITIAL_REGISTRY_VALUE"
    assert caught.value.fatal


@either
@pytest.mark.parametrize(
    "initial", [OrderedDict({"a": 1}), MappingProxyType({"a": 1}), Stash({"a": 1}), FrozenStash({"a": 1})]
)
def test_stash_is_created_from_any_mapping_or_stash(make: Maker, initial: Any) -> None:
    assert make(initial).all() == {"a": 1}


# --- copying ---------------------------------------------------------------------------------------------------------


@either
def test_values_are_copied_in_and_out(make: Maker) -> None:
    given_in: dict[str, Any] = {"a": {"list": [1]}}
    stash = make(given_in)

    given_in["a"]["list"].append(2)
    stash.get("a")["list"].append(3)
    stash.get("a.list").append(4)
    stash.all()["a"]["list"].append(5)

    assert stash.get("a.list") == [1]


def test_set_copies_what_it_is_given() -> None:
    stash = Stash()
    value = Basket(["fig"])

    stash.set("basket", value)
    value.fruits.append("pear")
    stash.get("basket").fruits.append("plum")

    assert stash.get("basket") == Basket(["fig"])


def test_a_read_copies_only_what_it_addresses() -> None:
    copies: list[str] = []

    class Counted:
        def __init__(self, name: str) -> None:
            self.name = name

        def __deepcopy__(self, memo: Any) -> "Counted":
            copies.append(self.name)
            return self

    stash = Stash({"a": Counted("a"), "b": {"c": Counted("c")}})
    copies.clear()

    stash.get("b.c")
    stash.has("a")
    stash.keys()
    stash.set("b.d", 1)

    assert copies == ["c"]


@either
@pytest.mark.parametrize("thing", [NeedsArguments(1, 2), threading.Lock(), (letter for letter in "abc"), pytest])
def test_uncopyable_value_is_kept_by_reference(make: Maker, thing: Any) -> None:
    stash = make({"a": {"thing": thing, "list": [thing], "pair": (thing, [1])}, "b": 1})

    assert stash.get("b") == 1
    assert stash.get("a.thing") is thing
    assert stash.get("a.list") == [thing]
    assert stash.all()["a"]["thing"] is thing
    stash.get("a.pair")[1].append(2)
    assert stash.get("a.pair.1") == [1]


def test_a_dict_of_another_class_keeps_its_class_and_does_not_grow_when_read() -> None:
    stash = Stash({"hits": defaultdict(int, {"a": 1})})

    assert stash.get("hits.a") == 1
    assert stash.get("hits.b") is None
    stash.set("hits.c", 3)
    assert stash.get("hits") == {"a": 1, "c": 3}
    assert type(stash.get("hits")) is defaultdict


def list_of_itself() -> Any:
    loop: list[Any] = []
    loop.append((loop,))
    return loop


def dict_of_itself() -> Any:
    loop: dict[str, Any] = {}
    loop["self"] = [loop]
    return loop


@pytest.mark.parametrize("container", [list_of_itself(), dict_of_itself()])
def test_cyclic_value_is_rejected(container: Any) -> None:
    stash = Stash({"a": 1})

    with pytest.raises(InvalidStashError):
        stash.set("a", container)
    with pytest.raises(InvalidStashError):
        Stash({"a": container})
    assert stash.all() == {"a": 1}


def test_shared_value_is_copied_twice() -> None:
    shared = [1]
    stash = Stash({"a": shared, "b": shared})

    stash.set("a.0", 2)

    assert stash.all() == {"a": [2], "b": [1]}


def test_deepest_allowed_value_can_be_read_and_a_deeper_one_is_rejected() -> None:
    deep: Any = "end"
    for _ in range(MAX_NESTING):
        deep = [deep]
    stash = Stash()

    stash.set(["k"] * MAX_SEGMENTS, deep)

    assert stash.keys() == [".".join(["k"] * MAX_SEGMENTS)]
    assert stash.get(["k"] * MAX_SEGMENTS) == deep
    assert len(stash.all()) == 1
    with pytest.raises(InvalidStashError):
        stash.set("a", [deep])


# --- writing ---------------------------------------------------------------------------------------------------------


def test_set_creates_missing_parents() -> None:
    stash = Stash()

    stash.set("a.b.c", 1)
    stash.set("a.b.d", 2)

    assert stash.all() == {"a": {"b": {"c": 1, "d": 2}}}


def test_number_in_a_dot_path_creates_a_list() -> None:
    stash = Stash()

    stash.set("items.0.name", "x")
    stash.set("items.1.name", "y")
    stash.set("gap.2", "z")

    assert stash.all() == {"items": [{"name": "x"}, {"name": "y"}], "gap": [None, None, "z"]}


def test_text_is_a_key_and_int_an_index_in_a_list_path() -> None:
    stash = Stash()

    stash.set(["users", "31415926", "name"], "Ada")
    stash.set(["rows", 0], "first")

    assert stash.all() == {"users": {"31415926": {"name": "Ada"}}, "rows": ["first"]}
    assert stash.get("users.31415926.name") == "Ada"


def test_a_number_is_a_key_where_a_dict_already_is() -> None:
    stash = Stash({"users": {}})

    stash.set("users.0", "Ada")

    assert stash.all() == {"users": {"0": "Ada"}}


@pytest.mark.parametrize("primitive", [None, 1, 1.5, "text", True, b"bytes"])
def test_scalar_on_the_path_is_replaced(primitive: Any) -> None:
    stash = Stash({"a": primitive})

    stash.set("a.b", 1)

    assert stash.all() == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ({"a": [1]}, "a.name"),
        ({"a": [1]}, ["a", -1]),
        ({"a": [1]}, "a.99999999"),
        ({}, "users.31415926.name"),
        ({"a": (1, 2)}, "a.0"),
        ({"a": Basket(["fig"])}, "a.fruits"),
        ({"a": {1}}, "a.b.c"),
    ],
)
def test_write_that_would_lose_or_pad_values_is_rejected(store: Any, path: Any) -> None:
    stash = Stash(store)

    with pytest.raises(InvalidStashError) as caught:
        stash.set(path, 1)

    assert caught.value.field == "path"
    assert stash.all() == store


def test_a_long_list_can_still_be_appended_to() -> None:
    stash = Stash({"a": list(range(20_000))})

    stash.set("a.20000", "end")

    assert stash.get("a.20000") == "end"


def test_special_names_are_plain_keys() -> None:
    stash = Stash()

    stash.set("__proto__.constructor", 1)
    stash.set("__class__.__init__", 2)

    assert stash.all() == {"__proto__": {"constructor": 1}, "__class__": {"__init__": 2}}
    assert not Stash({"o": Basket([])}).has("o.__class__")


def test_delete_returns_whether_it_removed_a_value() -> None:
    stash = Stash({"a": {"b": 1, "n": None}, "list": [1, 2, 3], "pair": (1, 2)})

    assert stash.delete("a.b")
    assert stash.delete("a.n")
    assert stash.delete("list.0")
    assert not stash.delete("a.b")
    assert not stash.delete("list.9")
    assert not stash.delete("nobody.home")
    with pytest.raises(InvalidStashError):
        stash.delete("pair.0")
    assert stash.all() == {"a": {}, "list": [2, 3], "pair": (1, 2)}


PATHS = st.text(max_size=6) | st.lists(st.text(max_size=3) | st.integers(0, 4), min_size=1, max_size=4)


@given(STORES, PATHS, JSON)
def test_a_stored_value_can_be_read_and_deleted(store: dict[str, Any], path: Any, value: Any) -> None:
    stash = Stash(store)
    try:
        stash.set(path, value)
    except InvalidStashError:
        assert stash.all() == store
        return

    assert stash.has(path)
    assert stash.get(path, "default") == value
    assert stash.delete(path)


def test_stash_is_recognised_and_its_repr_hides_the_content() -> None:
    stash = Stash({"password": "hunter2"})

    assert Stash.is_stash(stash)
    assert not Stash.is_stash({})
    assert not Stash.is_stash(FrozenStash())
    assert "hunter2" not in repr(stash)


def test_a_stash_can_be_pickled_and_copied() -> None:
    stash = Stash({"a": {"b": 1}})

    copied = copy.deepcopy(stash)
    copied.set("a.b", 2)

    assert stash.get("a.b") == 1
    assert pickle.loads(pickle.dumps(stash)).all() == {"a": {"b": 1}}


def test_a_frozen_stash_cannot_be_changed() -> None:
    frozen: Any = FrozenStash({"a": 1})

    assert not hasattr(frozen, "set")
    assert not hasattr(frozen, "delete")
    with pytest.raises(AttributeError):
        frozen.b = 1
    with pytest.raises(AttributeError):
        frozen._data = {}
    with pytest.raises(AttributeError):
        del frozen._data


def test_frozen_stashes_are_equal_by_content() -> None:
    assert FrozenStash({"a": [1]}) == FrozenStash({"a": [1]})
    assert FrozenStash({"a": [1]}) == {"a": [1]}
    assert FrozenStash({"a": [1]}) != FrozenStash({"a": [2]})
    assert FrozenStash({"a": [1]}) != 1
    assert hash(FrozenStash({"a": [1]})) == hash(FrozenStash({"a": [1]}))


def test_empty_frozen_stashes_are_the_same_object() -> None:
    assert FrozenStash() is FrozenStash({}) is FrozenStash(None) is EMPTY
    assert len(EMPTY) == 0
    assert EMPTY == {}


def test_a_frozen_stash_has_a_length_and_gives_its_top_level_keys() -> None:
    frozen = FrozenStash({"a": {"b": 1}, "c.d": 2})

    assert len(frozen) == 2
    assert list(frozen) == ["a", "c.d"]
    assert dict(frozen.all()) == {"a": {"b": 1}, "c.d": 2}


@pytest.mark.parametrize("frozen", [EMPTY, FrozenStash({"a": {"b": [1]}})])
def test_a_frozen_stash_survives_copying_and_pickling(frozen: FrozenStash) -> None:
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
