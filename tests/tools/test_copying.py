from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from spindle.tools.copying import copier

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=20
)


def containers(value: Any) -> set[int]:
    if not isinstance(value, (dict, list)):
        return set()
    thing = cast("dict[str, Any] | list[Any]", value)
    parts = thing.values() if isinstance(thing, dict) else thing
    return {id(thing)}.union(*map(containers, parts))


@given(values)
def test_a_copy_is_equal_and_shares_no_container(value: Any) -> None:
    make = copier(value)
    one, two = make(), make()

    assert one == two == value
    assert not containers(one) & containers(two)
    assert not containers(one) & containers(value)
