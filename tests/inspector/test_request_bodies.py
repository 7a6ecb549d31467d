"""Bodies of requests are parsed only if they are small enough for the event loop."""

import json

import pytest

from spindle.errors import InvalidRequestError
from spindle.inspector.request_bodies import MAX_VALUES, check_values
from tests.inspector.benching import Bench

pytestmark = pytest.mark.anyio

MANY = "[" + ",".join(["[]"] * MAX_VALUES) + "]"
TEXT = 'a, b [ { " \\ \\" ' * 20_000
"""Commas, brackets and quotes inside of a string do not count as values."""


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"text": TEXT}), json.dumps([[0]] * (MAX_VALUES // 2 - 1))])
def test_a_text_with_few_values_passes(text: str) -> None:
    check_values(text)
    check_values(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        MANY,
        json.dumps(dict.fromkeys(map(str, range(MAX_VALUES + 1)))),
        json.dumps([""] * (MAX_VALUES + 1)),
        json.dumps(["\\"] + [0] * MAX_VALUES),
        json.dumps(['"'] + [0] * MAX_VALUES),
        '""' * 3 * MAX_VALUES,
    ],
)
def test_a_text_with_too_many_values_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_values(text)


@pytest.mark.parametrize(
    "content",
    [
        f'{{"tool": "pay", "args": {{"to": {MANY}}}}}'.encode(),
        json.dumps({"tool": "pay", "args": f'{{"to": {MANY}}}'}).encode(),
        json.dumps({f"field {number}": 0 for number in range(1_000)}).encode(),
        json.dumps({"tool": "pay", "args": {}}).encode("utf-16"),
    ],
)
async def test_a_large_call_is_refused_and_makes_no_trial(content: bytes) -> None:
    bench = Bench()
    async with bench.log_in() as client:
        headers = client.headers | {"Content-Type": "application/json"}
        answer = await client.http.post("/api/v1/trials", content=content, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "E_INVALID_REQUEST")
    assert not (await bench.journal.search()).calls


async def test_a_body_with_too_many_values_is_not_parsed() -> None:
    async with Bench().log_in() as client:
        headers = client.headers | {"Content-Type": "application/json"}
        answer = await client.http.post("/api/v1/trials", content=MANY + "no JSON", headers=headers)

    assert answer.status_code == 400
    assert "values" in answer.json()["error"]["message"]


async def test_arguments_of_an_approval_may_not_have_too_many_values() -> None:
    bench = Bench()
    ticket = await bench.ask()
    async with bench.log_in() as client:
        answer = await client.post(f"/approvals/{ticket}/approve", {"args": f'{{"amount": 5, "to": {MANY}}}'})

    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "args")
    assert bench.runs == []
