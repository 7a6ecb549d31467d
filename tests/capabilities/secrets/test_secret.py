"""The value that hides, who may ask for it, and masking it in what leaves."""

import copy
import json
import os
import pickle
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from spindle import Media, Ok
from spindle.capabilities.secrets.secret import MASK, Redactor, Secret, SecretMatcher, may_read

pytestmark = pytest.mark.anyio

# --- the value


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("hunter22", name="DOOR")

    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r}", f"{secret:>20}", f"{[secret]}"]

    assert secret.reveal() == "hunter22"
    assert not [text for text in shown if "hunter22" in text]
    assert str(secret) == MASK
    assert secret.name == "DOOR"


def test_a_secret_leaves_the_process_in_no_usual_way() -> None:
    secret = Secret("hunter22")

    ways: list[Callable[[Any], object]] = [pickle.dumps, json.dumps, vars, len, list, TypeAdapter(object).dump_json]
    ways += [Secret.__getstate__, "".join]
    for leave in ways:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each its own
            leave(secret)
        assert "hunter22" not in str(caught.value)
    assert json.dumps({"key": secret}, default=str) == '{"key": "***"}'


def test_a_secret_equals_itself_alone_and_keeps_its_hash() -> None:
    secret, twin = Secret("hunter22"), Secret("hunter22")

    assert secret != twin
    assert secret != "hunter22"
    assert {secret: 1}[secret] == 1
    assert copy.copy(secret) is copy.deepcopy(secret) is secret


def test_a_secret_cannot_be_changed() -> None:
    secret = Secret("hunter22")

    with pytest.raises(AttributeError):
        secret.name = "x"
    with pytest.raises(AttributeError):
        del secret.name


# --- who may ask


@pytest.mark.parametrize(
    ("declared", "name", "allowed"),
    [
        (["KEY"], "KEY", True),
        (["KEY"], "key", False),
        (["KEY"], "KEY2", False),
        ([], "KEY", False),
        (["shop/*"], "shop/key", True),
        (["shop/*"], "shop/eu/key", True),
        (["shop/*"], "shop", False),
        (["shop/*"], "shop/", False),
        (["shop/*"], "shop/*", False),
        (["shop/*"], "shop/../bank", False),
        (["shop/*"], "shop/./key", False),
        (["shop/*"], "shop//key", False),
        (["shop/*"], "shopping/key", False),
        (["a/../b"], "a/../b", True),
        (["KEY"], 5, False),
        (["KEY"], None, False),
    ],
)
def test_a_tool_may_ask_for_what_it_declared(declared: list[str], name: Any, allowed: bool) -> None:
    assert may_read(declared, name) is allowed


# --- masking


@dataclass(frozen=True, slots=True)
class Card:
    owner: str
    numbers: tuple[str, ...]


class Pair(NamedTuple):
    a: str
    b: str


class Model(BaseModel):
    key: str
    other: int = 3


def test_nested_values_are_masked_and_keep_their_shape() -> None:
    redactor = Redactor(["hunter22", "4711987"])
    given_value = {
        "text": "is hunter22",
        "hunter22": [1, "hunter22", None, True],
        "tuple": ("hunter22",),
        "pair": Pair("hunter22", "b"),
        "set": {"hunter22", "x"},
        "bytes": b"hunter22",
        "number": 4711987,
        "card": Card("ada", ("hunter22",)),
        "model": Model(key="hunter22"),
        "secret": Secret("whatever"),
    }

    clean = redactor.redact_value(given_value)

    assert clean == {
        "text": "is ***",
        "***": [1, "***", None, True],
        "tuple": ("***",),
        "pair": Pair("***", "b"),
        "set": {"***", "x"},
        "bytes": b"***",
        "number": "***",
        "card": Card("ada", ("***",)),
        "model": Model(key="***"),
        "secret": "***",
    }
    assert given_value["card"] == Card("ada", ("hunter22",))


def test_outcomes_and_media_are_masked_without_changing_the_original() -> None:
    redactor = Redactor(["hunter22"])
    media = Media.tool_generated(b"x", kind="image", mime_type="image/png", filename="hunter22.png")
    result = Ok(value="hunter22", structured={"k": "hunter22"}, media=(media,))

    clean = redactor.redact_value(result)

    assert isinstance(clean, Ok)
    assert (clean.value, clean.structured) == ("***", {"k": "***"})
    assert clean.media[0].filename == "***.png"
    assert (media.filename, result.value) == ("hunter22.png", "hunter22")


def test_a_value_that_holds_itself_or_is_very_deep_ends_in_a_mask() -> None:
    redactor = Redactor(["hunter22"])
    loop: list[Any] = ["hunter22"]
    loop.append(loop)
    deep: Any = "hunter22"
    for _ in range(5_000):
        deep = [deep]

    assert redactor.redact_value(loop) == ["***", "***"]
    assert "hunter22" not in str(redactor.redact_value(deep))


def test_an_error_and_those_behind_it_are_masked() -> None:
    redactor = Redactor(["hunter22"])
    try:
        try:
            raise OSError(2, "no hunter22", "/hunter22")
        except OSError as low:
            middle = ValueError("bad", {"key": "hunter22"})
            middle.detail = "hunter22"  # type: ignore[attr-defined]
            middle.add_note("note: hunter22")
            raise ExceptionGroup("all of hunter22", [middle, KeyError("hunter22")]) from low
    except ExceptionGroup as group:
        error = group
    redactor.redact_error(error)

    # The text of a group, its code lines and those of this file stay: only what it says is ours to mask.
    reported = [repr(one) + repr(vars(one)) for one in (error.__cause__, *error.exceptions)]
    assert not [text for text in reported if "hunter22" in text]


async def test_a_redactor_serves_many_threads_at_once() -> None:
    redactor = Redactor()
    values = [f"hunter22-{number:03}" for number in range(24)]
    dirty: list[str] = []

    def work(value: str) -> None:
        redactor.add(value)
        if value in redactor.redact(f"<{value}>"):
            dirty.append(value)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for value in values:
                group.start_soon(anyio.to_thread.run_sync, work, value)

    assert dirty == []


def test_ten_secrets_in_a_long_text_cost_little() -> None:
    text = json.dumps({"rows": [{"name": f"row {number}", "value": number} for number in range(4_000)]})
    redactor = Redactor([b64encode(os.urandom(30)).decode() for _ in range(10)])
    redactor.prepare()

    assert best_of_five(lambda: redactor.redact(text)) < 20 * best_of_five(lambda: json.loads(text))


def best_of_five(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(5):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


KEYS = ["hunter22", "4711", "ab"]
LEAVES = st.sampled_from(
    [
        *KEYS,
        "hunter",
        "22",
        "x hunter22 y",
        "aHVudGVyMjI=",
        "47",
        "11",
        "abc",
        "a",
        "b",
        "hunter\n22",
        "",
        4711,
        47112,
        22,
        None,
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=12
)


def redact_one_by_one(redactor: Redactor, value: Any) -> Any:
    if value.__class__ is dict:
        return {redactor.redact(key): redact_one_by_one(redactor, part) for key, part in value.items()}
    if value.__class__ is list:
        return [redact_one_by_one(redactor, part) for part in value]
    if value.__class__ is int:
        return value if redactor.redact(str(value)) == str(value) else MASK
    return value if value is None else redactor.redact(value)


@given(VALUES)
def test_texts_that_are_searched_together_are_masked_as_each_would_be_alone(value: Any) -> None:
    redactor = Redactor(KEYS)
    expected = redact_one_by_one(redactor, value)

    clean = redactor.redact_value(value)
    assert clean == expected
    assert (clean is value) is (expected == value)


def test_a_value_without_secrets_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    find = SecretMatcher.find

    def count(matcher: SecretMatcher, data: bytes) -> "list[tuple[int, int]]":
        searched.append(len(data))
        return find(matcher, data)

    monkeypatch.setattr(SecretMatcher, "find", count)
    rows: list[Any] = [{"id": number, "name": f"name {number}"} for number in range(500)]
    assert Redactor(["hunter22"]).redact_value(rows) is rows
    assert len(searched) == 1

    Redactor(["hunter22"]).redact_value([*rows, {"id": 500, "name": "hunter22"}])
    assert len(searched) == 3


def test_a_token_is_masked_in_common_encodings_until_it_is_discarded() -> None:
    token = "at-" + "0123456789abcdefABCDEF-_" * 3
    redactor = Redactor()
    redactor.add(token, is_token=True)
    written = [token, b64encode(token.encode()).decode(), token.encode().hex()]

    assert [redactor.redact(f"<{text}>") for text in written] == [f"<{MASK}>"] * 3
    redactor.discard(token)
    assert [redactor.redact(text) for text in written] == written
