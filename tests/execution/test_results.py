"""What handlers give becomes one kind of result; what cannot be one is an error, never an exception."""

import json
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, field_serializer

from spindle import Artifact, Err, JsonArtifact, Media, Ok, Spool, tool
from tests.execution.calling import artifact_of, err, execute_one, giving, ok
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio


async def settled(value: Any, **options: Any) -> Ok:
    return ok(await execute_one(giving(value, **options)))


async def refused(value: Any) -> Err:
    return err(await execute_one(giving(value)))


def image(**labels: Any) -> Media:
    return Media.tool_generated(b"\x89PNG", kind="image", mime_type="image/png", filename="a.png", **labels)


class Colour(StrEnum):
    RED = "red"


class Shout(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "LIES"

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("given", "text"),
    [("plain", "plain"), ("", ""), ("ünï 🎉", "ünï 🎉"), (None, ""), (Colour.RED, "red"), (Shout("truth"), "truth")],
)
async def test_text_is_text(given: Any, text: str) -> None:
    result = await settled(given)

    assert result == Ok(text)
    assert type(result.value) is str


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_bytes_are_read_as_utf8(kind: Any) -> None:
    assert await settled(kind("ünï".encode())) == Ok("ünï")
    assert await settled(kind(b"\xef\xbb\xbfmarked")) == Ok("marked")
    assert (await settled(kind(b"a\xffb"))).value == "a\ufffdb"


async def test_bytes_that_are_cut_are_kept_byte_for_byte() -> None:
    data = b"\xef\xbb\xbf\xff\x00" + b"x" * 500

    result = ok(await execute_one(giving(data, max_result_chars=10), spool=Spool.memory()))

    assert isinstance(result.artifact, Artifact)
    assert await artifact_of(result, Artifact).as_bytes() == data


async def test_halves_of_surrogate_pairs_are_replaced_in_what_is_shown_and_kept_in_what_is_kept() -> None:
    as_from_a_file_name = b"na\xefve".decode("utf-8", "surrogateescape") + "y" * 100

    short = await settled("a\ud800b")
    cut = ok(await execute_one(giving(as_from_a_file_name, max_result_chars=3)))

    assert short.value == "a\ufffdb"
    assert cut.value.startswith("na\ufffd\n[truncated")
    assert await artifact_of(cut, Artifact).as_bytes() == b"na\xefve" + b"y" * 100


@dataclass
class Point:
    x: int
    y: float


class Order(BaseModel):
    id: int
    key: SecretStr = SecretStr("hush")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"b": 1, "a": [None, True, 1.5, "ü"]}, '{"b":1,"a":[null,true,1.5,"ü"]}'),
        ([], "[]"),
        ({}, "{}"),
        ((1, 2), "[1,2]"),
        (0, "0"),
        (False, "false"),
        (10**30, "1" + "0" * 30),
        (Point(1, 2.5), '{"x":1,"y":2.5}'),
        ([Point(1, 2.0)], '[{"x":1,"y":2.0}]'),
        (Order(id=7), '{"id":7,"key":"**********"}'),
        ({"when": date(2026, 1, 2), "cost": Decimal("1.50")}, '{"when":"2026-01-02","cost":"1.50"}'),
        (OrderedDict([("z", 1), ("a", 2)]), '{"z":1,"a":2}'),
        (deque([1]), "[1]"),
        ({1: Path("a/b")}, '{"1":"a/b"}'),
    ],
)
async def test_json_values_become_json_text_with_their_structure(given: Any, text: str) -> None:
    result = await settled(given)

    assert result.value == text
    assert result.structured == json.loads(text)
    assert not result.trusted


async def test_numbers_without_a_json_form_are_written_as_text() -> None:
    result = await settled([float("nan"), float("inf"), -float("inf"), 1.0])

    assert result.structured == ["NaN", "Infinity", "-Infinity", 1.0]
    assert json.loads(result.value, parse_constant=pytest.fail) == result.structured


async def test_very_deeply_nested_json_is_still_written() -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]

    result = await settled(deep)

    assert result.value == "[" * 251 + "]" * 251
    assert result.structured is None


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=examples(60), deadline=None)
@given(value=st.lists(JSON_VALUES) | st.dictionaries(st.text(), JSON_VALUES))
async def test_json_comes_out_as_it_went_in(value: Any) -> None:
    result = await settled(value)

    assert result.structured == value
    assert json.loads(result.value) == value


async def test_the_structure_is_a_copy_that_the_handler_cannot_change_later() -> None:
    kept = {"a": [1]}
    result = await settled(kept)
    kept["a"].append(2)

    assert result.structured == {"a": [1]}


async def test_a_decorated_function_may_give_anything_json_can_say() -> None:
    @tool
    async def orders(limit: int) -> list[Point]:
        """List orders."""
        return [Point(n, 0.5) for n in range(limit)]

    result = ok(await execute_one(orders, {"limit": 2}))

    assert result.structured == [{"x": 0, "y": 0.5}, {"x": 1, "y": 0.5}]


class Unserialisable(BaseModel):
    n: int = 1

    @field_serializer("n")
    def fail(self, _n: int) -> int:
        raise SystemExit(3)


class Liar:
    """Raises when it is looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyboardInterrupt(name)


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def very_deep() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


async def never_awaited() -> None:
    """Never runs."""


@pytest.mark.parametrize(
    "make_value",
    [object, lambda: {"a": object()}, lambda: int, lambda: print, lambda: ValueError("x"), cyclic, very_deep,
     lambda: iter([1]), lambda: (n for n in iter(int, 1)), lambda: map(int, "12"), never_awaited, Unserialisable, Liar,
     lambda: [image(), "beside"], lambda: {"m": image()}, lambda: {"a": b"\xff"}, lambda: {"a": "\ud800"}],
)  # fmt: skip
async def test_a_value_that_is_not_a_result_is_an_error(make_value: Any) -> None:
    failed = await refused(make_value())

    assert failed.code == "execution_failed"
    assert "'give'" in failed.error
    assert not failed.retryable


async def test_media_comes_with_a_line_of_text() -> None:
    one, two = image(), image()

    alone, both = await settled(one), await settled([one, two])

    assert alone.media == (one,)
    assert both.media == (one, two)
    assert one.id in alone.value
    assert "a.png" in alone.value
    assert both.value.count("\n") == 1


async def test_media_of_others_makes_a_trusted_tools_result_untrusted() -> None:
    foreign = Media.retrieved_public(b"x", kind="document", mime_type="text/plain", filename="a.txt")

    assert (await settled(image(), trusted=True)).trusted is True
    assert (await settled(foreign, trusted=True)).trusted is False
    assert (await settled([image(), foreign], trusted=True)).trusted is False
    assert (await settled(Ok("see", media=(foreign,), trusted=True), trusted=True)).trusted is False


async def test_an_artifact_is_shown_by_its_beginning() -> None:
    artifact = Artifact.from_text("line\n" * 3)

    result = await settled(artifact)

    assert result.artifact is artifact
    assert result.value.startswith("line")


async def test_json_that_is_cut_is_kept_as_json() -> None:
    rows = [{"id": n, "name": "x" * 20} for n in range(50)]

    result = await settled(rows, max_result_chars=200)

    assert isinstance(result.artifact, JsonArtifact)
    assert await result.artifact.get("$[49].id") == [49]
    assert result.structured == rows


async def test_an_ok_keeps_everything_it_says_but_its_trust() -> None:
    said = Ok("done", structured={"a": 1}, media=(image(),), cost_usd=0.25, trusted=True)

    result = await settled(said)

    assert result == replace(said, trusted=False)
    assert await settled(said, trusted=True) == said


async def test_an_err_is_the_tools_own_answer() -> None:
    said = Err("stale_write", "the file changed", field="path", retryable=True, cause="etag")

    assert await refused(said) == said


@pytest.mark.parametrize(
    "wrong",
    [{"value": 5}, {"value": None}, {"value": b"x"}, {"media": 5}, {"media": ("x",)}, {"media": {}},
     {"artifact": "x"}, {"cost_usd": "1"}, {"cost_usd": float("nan")}, {"cost_usd": True}],
    ids=str,
)  # fmt: skip
async def test_an_ok_with_a_wrong_field_is_an_error_that_names_it(wrong: dict[str, Any]) -> None:
    failed = await refused(Ok(**wrong))

    assert failed.code == "execution_failed"
    assert f"Ok.{next(iter(wrong))}" in failed.error


@pytest.mark.parametrize(
    "wrong", [{"error": 5}, {"error": None}, {"code": "oops"}, {"code": 5}, {"field": 5}, {"retryable": "yes"}], ids=str
)
async def test_an_err_with_a_wrong_field_is_an_error_that_names_it(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"code": "execution_failed", "error": "x"}

    failed = await refused(Err(**(given | wrong)))

    assert failed.code == "execution_failed"
    assert f"Err.{next(iter(wrong))}" in failed.error


async def test_media_in_a_list_will_do_in_an_ok() -> None:
    listed: Any = [image()]
    nothing: Any = []

    assert isinstance((await settled(Ok("x", media=listed))).media, tuple)
    assert (await settled(Ok("x", media=nothing))).media == ()
