import copy
import pickle
from typing import Any

import pytest

from spindle.stash import EMPTY, FrozenStash


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


def test_empty_frozen_stashes_are_one() -> None:
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
