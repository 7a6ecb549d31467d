"""One suite for every place where tools keep values: memory, a SQLite file, a Redis server."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.capabilities.declare import CallScope, StorageScope
from spindle.capabilities.secrets.secret import Secret
from spindle.capabilities.storage.store import Storage, StorageBackend, StorageQuota, namespace_of
from spindle.errors import CapabilityError, StorageError, StorageQuotaError, UsageError
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

Make = Callable[..., StorageBackend]


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Make:
    """Make a backend of one kind; those of one test share their place."""
    store: dict[str, Any] = {}

    def of_kind(**settings: Any) -> StorageBackend:
        settings.setdefault("clock", clock)
        if request.param == "sqlite":
            return StorageBackend.sqlite(tmp_path / "new" / "storage.db", **settings)
        if request.param == "redis":
            prefix = store.setdefault("prefix", uuid.uuid4().hex)
            return StorageBackend.redis(request.getfixturevalue("redis_url"), prefix=prefix, **settings)
        if "backend" not in store:
            from spindle.capabilities.storage.backend_local import MemoryKeyValueStore

            store["backend"] = MemoryKeyValueStore()
        return StorageBackend(store["backend"], **settings)

    return of_kind


def opened(
    backend: StorageBackend, need: StorageScope = "tool", *, tool: str = "notes", session: str = "s1", turn: str = "t1"
) -> Storage:
    return backend.open(need, CallScope(tool=tool, session_id=session, turn_id=turn))


# --- values


async def test_a_value_is_kept_replaced_and_removed(make: Make) -> None:
    storage = opened(make())

    assert await storage.get("a") is None
    assert await storage.get("a", "nothing") == "nothing"
    await storage.set("a", {"n": 1})
    assert await opened(make()).get("a") == {"n": 1}
    await storage.set("a", None)
    assert await storage.get("a", "nothing") is None
    assert await storage.delete("a") is True
    assert await storage.delete("a") is False
    assert await storage.get("a", "nothing") == "nothing"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.dictionaries(st.text(st.characters(), min_size=1, max_size=30), json_values, max_size=4))
def test_any_json_value_round_trips_under_any_key(make: Make, pairs: dict[str, Any]) -> None:
    async def round_trip() -> None:
        storage = opened(make(), tool=f"tool {uuid.uuid4()}")
        for key, value in pairs.items():
            await storage.set(key, value)
        assert await storage.keys() == sorted(pairs)
        assert {key: await storage.get(key) for key in pairs} == pairs

    anyio.run(round_trip)


async def test_stored_values_are_copies(make: Make) -> None:
    storage = opened(make())
    value = {"list": [1]}
    await storage.set("a", value)
    value["list"].append(2)
    (await storage.get("a"))["list"].append(3)

    assert await storage.get("a") == {"list": [1]}


def endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def doubling() -> list[Any]:
    value: list[Any] = ["x"]
    for _ in range(60):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [b"x", {1: "a"}, {None: 1}, float("nan"), float("inf"), object(), {"a": {1}}, Secret("hunter22"), 10**5000],
    ids=lambda value: type(value).__name__,
)
async def test_a_value_that_is_not_json_value_is_refused_and_nothing_changes(make: Make, value: Any) -> None:
    storage = opened(make())
    await storage.set("a", "before")

    with pytest.raises(StorageError) as caught:
        await storage.set("a", value)

    assert (caught.value.field, caught.value.tool) == ("value", "notes")
    assert await storage.get("a") == "before"


@pytest.mark.parametrize("make_value", [endless, doubling])
async def test_a_value_that_never_ends_is_refused_in_time(make_value: Callable[[], Any]) -> None:
    with anyio.fail_after(30), pytest.raises(StorageError):
        await opened(StorageBackend.memory()).set("a", make_value())


@pytest.mark.parametrize("key", ["", None, 5, b"a"])
async def test_a_value_that_is_not_a_key_is_refused(make: Make, key: Any) -> None:
    storage = opened(make())

    for step in (storage.get(key), storage.set(key, 1), storage.delete(key)):
        with pytest.raises(StorageError) as caught:
            await step
        assert caught.value.field == "key"


async def test_keys_are_sorted_and_chosen_by_a_plain_prefix(make: Make) -> None:
    storage = opened(make())
    for key in ("b", "a:2", "a:1", "a%", "a_", "*", "é", "😀", "a"):
        await storage.set(key, 1)

    assert await storage.keys() == sorted(["b", "a:2", "a:1", "a%", "a_", "*", "é", "😀", "a"])
    assert await storage.keys("a:") == ["a:1", "a:2"]
    assert await storage.keys("a%") == ["a%"]
    assert await storage.keys("*") == ["*"]
    assert await storage.keys("absent") == []


# --- namespaces


async def test_each_tool_has_its_own_place_in_each_scope(make: Make) -> None:
    backend = make()
    names: list[tuple[StorageScope, str, str, str]] = [
        ("tool", "a", "s1", "t1"),
        ("tool", "b", "s1", "t1"),
        ("session", "a", "s1", "t1"),
        ("session", "b", "s1", "t1"),
        ("session", "a", "s2", "t1"),
        ("turn", "a", "s1", "t1"),
        ("turn", "a", "s1", "t2"),
        ("turn", "a", "s2", "t1"),
        ("turn", "b", "s1", "t1"),
    ]
    places = [opened(backend, need, tool=a, session=b, turn=c) for need, a, b, c in names]
    for number, place in enumerate(places):
        await place.set("key", number)

    assert [await place.get("key") for place in places] == list(range(len(places)))
    assert [await place.keys() for place in places] == [["key"]] * len(places)


async def test_a_scope_lasts_as_long_as_its_name_says(make: Make) -> None:
    backend = make()
    for need in get_args(StorageScope):
        await opened(backend, need).set("key", need)

    assert await opened(backend, "tool", session="s2", turn="t2").get("key") == "tool"
    assert await opened(backend, "session", turn="t2").get("key") == "session"
    assert await opened(backend, "session", session="s2").get("key") is None
    assert await opened(backend, "turn", turn="t2").get("key") is None


parts = st.text(st.characters(), max_size=6)


@given(st.lists(st.tuples(st.sampled_from(["tool", "session", "turn"]), parts, parts, parts), min_size=2, max_size=2))
def test_no_two_places_share_a_name(places: list[Any]) -> None:
    names = [namespace_of(need, CallScope(tool=a, session_id=b, turn_id=c)) for need, a, b, c in places]
    depth = {"tool": 2, "session": 3, "turn": 4}
    same = places[0][: depth[places[0][0]]] == places[1][: depth[places[1][0]]]

    assert (names[0] == names[1]) is same


def test_a_turns_storage_needs_a_turn() -> None:
    with pytest.raises(CapabilityError) as caught:
        StorageBackend.memory().open("turn", CallScope(tool="notes", session_id="s1"))

    assert (caught.value.tool, caught.value.field) == ("notes", "storage")


# --- time


async def test_expired_entries_are_invisible(make: Make, clock: Clock) -> None:
    storage = opened(make())
    await storage.set("short", 1, ttl_seconds=10)
    await storage.set("long", 2)

    clock.now += 9.5
    assert await storage.get("short") == 1
    clock.now += 0.5  # to the very moment: it must be later than now
    assert await storage.get("short", "gone") == "gone"
    assert await storage.keys() == ["long"]
    assert await storage.delete("short") is False


async def test_a_new_value_has_a_new_time_to_live(make: Make, clock: Clock) -> None:
    storage = opened(make())
    await storage.set("a", 1, ttl_seconds=10)
    await storage.set("a", 2)
    await storage.set("b", 1)
    await storage.set("b", 2, ttl_seconds=10)
    clock.now += 11

    assert await storage.get("a") == 2
    assert await storage.get("b") is None


async def test_a_turns_values_are_kept_for_a_day_and_the_rule_can_be_changed(make: Make, clock: Clock) -> None:
    turn = opened(make(), "turn")
    session = opened(make(ttl_seconds={"session": 60}), "session")
    await turn.set("a", 1)
    await turn.set("b", 1, ttl_seconds=10**6)
    await session.set("a", 1, ttl_seconds=3600)
    await session.set("b", 1, ttl_seconds=5)

    clock.now += 59
    assert (await session.keys(), await turn.keys()) == (["a"], ["a", "b"])
    clock.now += 1
    assert (await session.keys(), await turn.keys()) == ([], ["a", "b"])
    clock.now += 86_400
    assert await turn.keys() == []


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "5", True, 1e12])
async def test_a_time_to_live_that_is_none_is_refused(ttl: Any) -> None:
    storage = opened(StorageBackend.memory())

    with pytest.raises(StorageError) as caught:
        await storage.set("a", 1, ttl_seconds=ttl)

    assert caught.value.field == "ttl_seconds"
    assert await storage.keys() == []


# --- quotas


async def test_a_quota_refuses_and_changes_nothing(make: Make) -> None:
    storage = opened(make(quota=StorageQuota(max_keys=2, max_key_bytes=8, max_value_bytes=20, max_total_bytes=30)))
    await storage.set("a", "x" * 10)
    await storage.set("b", "x" * 10)

    for key, value, quota in [
        ("c", 1, "max_keys"),
        ("a", "x" * 19, "max_value_bytes"),
        ("a", "x" * 17, "max_total_bytes"),
        ("ééééé", 1, "max_key_bytes"),
    ]:
        with pytest.raises(StorageQuotaError) as caught:
            await storage.set(key, value)
        assert (caught.value.quota, caught.value.tool) == (quota, "notes")
        assert caught.value.asked > caught.value.limit

    assert {key: await storage.get(key) for key in await storage.keys()} == {"a": "x" * 10, "b": "x" * 10}


async def test_replaced_removed_and_expired_values_do_not_count_towards_the_quota(make: Make, clock: Clock) -> None:
    storage = opened(make(quota=StorageQuota(max_keys=2, max_total_bytes=32)))
    for _ in range(5):
        await storage.set("a", "x" * 10, ttl_seconds=10)
        await storage.set("b", "x" * 10)
    await storage.delete("b")
    await storage.set("c", "x" * 10)
    clock.now += 10
    await storage.set("d", "x" * 10)

    assert await storage.keys() == ["c", "d"]


async def test_one_tools_quota_is_not_anothers(make: Make) -> None:
    backend = make(quota=StorageQuota(max_keys=1))
    await opened(backend, tool="a").set("key", 1)

    await opened(backend, tool="b").set("key", 1)


@pytest.mark.parametrize("quota", [{"max_keys": 0}, {"max_total_bytes": 1.5}, {"max_value_bytes": True}])
def test_a_quota_that_is_not_a_count_is_refused(quota: Any) -> None:
    with pytest.raises(UsageError) as caught:
        StorageQuota(**quota)

    assert caught.value.field in quota


# --- many at once


async def test_writers_at_the_same_time_lose_nothing_and_keep_the_quota(make: Make) -> None:
    backend = make(quota=StorageQuota(max_keys=20))
    refused: list[int] = []

    async def write(number: int) -> None:
        try:
            await opened(backend).set(f"key {number}", number)
        except StorageQuotaError:
            refused.append(number)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(write, number)

    kept = await opened(backend).keys()
    assert len(kept) == 20
    assert len(refused) == 10
