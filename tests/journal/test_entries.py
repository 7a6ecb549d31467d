"""Keys of calls, and the values that every backend stores."""

import math
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import UsageError
from spindle.journal import idempotency_key
from spindle.tools import canonical_json
from tests.journal.conftest import Place
from tests.journal.sample_calls import NOON, finished, intent

texts = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["", "a", '"', ",", '","', "\ud800", "null"])
parts = st.tuples(st.none() | texts, st.none() | texts, texts, texts)


def test_key_is_the_same_in_every_process() -> None:
    canonical = b'{"checksum":"abc","session_id":"s1","tool_call_id":"call_1","turn_id":null}'

    assert idempotency_key("s1", None, "call_1", "abc") == sha256(canonical).hexdigest()


@given(names=parts)
def test_a_key_is_the_hash_of_canonical_json(names: tuple[str | None, str | None, str, str]) -> None:
    session_id, turn_id, tool_call_id, checksum = names
    whole = {"session_id": session_id, "turn_id": turn_id, "tool_call_id": tool_call_id, "checksum": checksum}

    assert idempotency_key(*names) == sha256(canonical_json(whole)).hexdigest()


@given(one=parts, other=parts)
def test_two_calls_share_a_key_only_if_they_are_the_same(
    one: tuple[str | None, str | None, str, str], other: tuple[str | None, str | None, str, str]
) -> None:
    assert (idempotency_key(*one) == idempotency_key(*other)) == (one == other)


def test_missing_session_differs_from_empty_session_id() -> None:
    keys = {idempotency_key(*names, "id", "sum") for names in [(None, None), ("", None), (None, ""), ("", "")]}

    assert len(keys) == 4


def test_key_depends_on_which_part_holds_a_value() -> None:
    assert idempotency_key("a", "b", "c", "d") != idempotency_key("a", "c", "b", "d")
    assert idempotency_key("ab", "", "c", "d") != idempotency_key("a", "b", "c", "d")


NASTY_TEXTS = [
    "",
    " ",
    "a\x00b",
    "line\nbreak",
    "\U0001f600",
    "lone \ud800 surrogate",
    "'; DROP TABLE calls; --",
    "x" * 70_000,
]


@pytest.mark.parametrize("args", [{"when": NOON}, {"self": None}, {(1, 2): 3}, 5, {"x": object()}])
@pytest.mark.anyio
async def test_args_that_are_not_json_are_rejected_and_nothing_is_begun(place: Place, args: Any) -> None:
    if isinstance(args, dict) and "self" in args:
        args["self"] = args
    async with place.journal() as journal:
        with pytest.raises(UsageError) as caught:
            await journal.begin([intent("a"), intent("b", args=args)])
        listed = await journal.list()

    assert (caught.value.field, caught.value.tool) == ("args", "search")
    assert listed == []


@pytest.mark.anyio
async def test_a_time_without_a_zone_is_refused(place: Place) -> None:
    async with place.journal() as journal:
        with pytest.raises(UsageError) as caught:
            await journal.begin([intent("a", started_at=NOON.replace(tzinfo=None))])

    assert caught.value.field == "started_at"


@pytest.mark.anyio
async def test_entry_does_not_change_with_the_values_it_was_made_from(place: Place) -> None:
    args: dict[str, Any] = {"list": [1]}
    async with place.journal() as journal:
        await journal.begin([intent("a", args=args)])
        args["list"].append(2)
        first = await journal.get("a")
        assert first is not None
        first.args["list"].append(3)
        second = await journal.get("a")

    assert second is not None
    assert second.args == {"list": [1]}


@pytest.mark.parametrize("text", NASTY_TEXTS)
@pytest.mark.anyio
async def test_any_text_is_kept_as_it_is(place: Place, text: str) -> None:
    async with place.journal() as journal:
        await journal.begin([intent(text, tool=text, session_id=text, idempotency_key=text, args={text: text})])
        await journal.finish([finished(text, idempotency_key=text, error=text, result={"value": text})])
        by_id, by_key = await journal.get(text), await journal.find(text)

    assert by_id is not None
    assert by_id == by_key
    assert (by_id.tool, by_id.session_id, by_id.args, by_id.error) == (text, text, {text: text}, text)
    assert by_id.result == {"value": text}


@pytest.mark.parametrize("text", NASTY_TEXTS)
@pytest.mark.anyio
async def test_caller_is_kept_by_begun_finished_and_repeated_calls(place: Place, text: str) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a", repeat=True, caller={"user": text}), intent("b")])
        begun = await journal.get("a")
        await journal.finish([finished("a")])
        ended = await journal.get("a")
        await journal.begin([intent("a", repeat=True, caller={"user": "other"})])
        repeated, without = await journal.get("a"), await journal.get("b")

    found = [None if entry is None else entry.caller for entry in (begun, ended, repeated, without)]
    assert found == [{"user": text}, {"user": text}, {"user": "other"}, None]


@pytest.mark.anyio
async def test_infinite_number_is_stored(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a", args={"x": math.inf})])
        entry = await journal.get("a")

    assert entry is not None
    assert entry.args == {"x": math.inf}


@pytest.mark.anyio
async def test_times_are_exact_and_in_utc_whatever_zone_they_came_from(place: Place) -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    early = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=there)
    async with place.journal() as journal:
        await journal.begin([intent("a", started_at=early)])
        await journal.finish([finished("a", ended_at=NOON.astimezone(there))])
        entry = await journal.get("a")

    assert entry is not None
    assert (entry.started_at, entry.ended_at) == (early, NOON)
    assert entry.started_at.utcoffset() == timedelta(0)


@pytest.mark.anyio
async def test_entry_has_all_fields_that_were_written(place: Place) -> None:
    args = {"query": "café \ud800", "deep": [{"n": None}, 2**70, 1.5, True]}
    result = {"ok": False, "error": "no", "structured": {"rows": [1, 2]}}
    async with place.journal() as journal:
        await journal.begin([intent("a", args=args, fingerprint="print")])
        await journal.finish(
            [
                finished(
                    "a",
                    code="timed_out",
                    error="too slow",
                    attempts=3,
                    result=result,
                    result_chars=12,
                    cost_usd=0.25,
                    trusted=True,
                    artifact_id="spooled",
                )
            ]
        )
        entry = await journal.get("a")

    assert entry is not None
    assert (entry.tool_call_id, entry.tool, entry.checksum) == ("a", "search", "sum")
    assert entry.idempotency_key == intent("a").idempotency_key
    assert (entry.session_id, entry.turn_id, entry.fingerprint) == ("session", "turn", "print")
    assert (entry.state, entry.code, entry.error, entry.attempts) == ("finished", "timed_out", "too slow", 3)
    assert (entry.args, entry.result, entry.result_chars) == (args, result, 12)
    assert (entry.cost_usd, entry.trusted, entry.artifact_id) == (0.25, True, "spooled")
    assert (entry.started_at, entry.ended_at) == (NOON, NOON + timedelta(seconds=1))
