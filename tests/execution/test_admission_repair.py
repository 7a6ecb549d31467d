"""A broken call is refused; on request the error suggests the repaired call, and still nothing runs."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle import Err
from tests.bounds import bounded_cpu
from tests.execution.calling import counting, err, execute_one
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

ORDER = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["customer"],
    "additionalProperties": False,
}
MEANT = '{"customer":"ada","limit":5}'


async def refused(args: Any, *, repair: str | None = "explain", **options: Any) -> Err:
    tool, runs = counting(input_schema=ORDER, **options)
    refusal = err(await execute_one(tool, args, repair=repair))
    assert runs == []
    assert refusal.code == "input_invalid"
    return refusal


BROKEN = [
    '```json\n{"customer": "ada", "limit": 5}\n```',
    'Sure, here it is: {"customer": "ada", "limit": 5}. Anything else?',
    '{"customer": "ada", "limit": 5,}',
    "{'customer': 'ada', 'limit': 5}",
    '{customer: "ada", limit: 5}',
    '{"customer": "ada", "limit": 5} trailing',
    '[{"customer": "ada", "limit": 5}]',
    b'```\n{"customer": "ada", "limit": 5,}\n```',
]


@pytest.mark.parametrize("args", BROKEN)
async def test_a_repaired_call_is_suggested_and_never_run(args: str | bytes) -> None:
    reported, unreported = await refused(args), await refused(args, repair=None)

    assert reported.error.endswith(MEANT)
    assert reported.error.startswith(unreported.error)
    assert MEANT not in unreported.error
    assert (reported.code, reported.field) == (unreported.code, unreported.field)


@pytest.mark.parametrize("args", BROKEN)
async def test_a_suggested_repair_runs_when_it_is_sent(args: str | bytes) -> None:
    reported = await refused(args)
    tool, runs = counting(input_schema=ORDER)

    assert (await execute_one(tool, reported.error.rsplit(": ", 1)[1], repair="explain")).ok
    assert runs == [{"customer": "ada", "limit": 5}]


@pytest.mark.parametrize(
    "args",
    [
        '{"customer": "ada", "limit": 5',
        '{"customer": "ada", "limit": ',
        '{"customer": "ad',
        '{"customer": "{ada}',
        '[{"customer": "ada", "limit": 5',
        '{"customer": {"name": "ada"}',
        "{",
        "}{",
        "",
    ],
)
async def test_an_object_that_is_cut_off_is_never_completed(args: str) -> None:
    assert (await refused(args)).error == (await refused(args, repair=None)).error


@pytest.mark.parametrize(
    "args",
    [
        '{"customer": 5,}',
        '{"customer": "ada", "colour": "red",}',
        '{"limit": 5,}',
        '{"customer": "ada", "customer": "bob",}',
        '{"customer": "ada", "limit": NaN,}',
        '{"customer": "ada", "limit": 1e999,}',
        '{"customer": "ada"} {"customer": "bob"}',
        '{"customer": "ada", "limit": "five"}',
        {"customer": 5},
        5,
        "no object at all",
        "\ud800{}",
    ],
)
async def test_invalid_repairs_are_not_suggested(args: Any) -> None:
    assert (await refused(args)).error == (await refused(args, repair=None)).error


async def test_a_suggestion_never_shows_a_secret() -> None:
    reported = await refused('{"customer": "hunter2", "limit": 5,}', secret_fields=["customer"])

    assert "hunter2" not in reported.error
    assert '{"customer":"***","limit":5}' in reported.error


async def test_a_long_suggestion_is_not_passed_off_as_whole() -> None:
    reported = await refused(f'{{"customer": "{"x" * 5000}",}}')

    assert len(reported.error) < 3000
    assert "exactly" not in reported.error


async def test_a_suggestion_is_found_quickly_in_hostile_text() -> None:
    with bounded_cpu():
        for text in (
            " " * 90_000 + "`",
            "{" + "," * 90_000 + "}",
            "{" + "a" * 90_000 + "}",
            "{'" * 45_000,
            ",\n " * 30_000 + "}",
        ):
            await refused(text)
            await refused("{" + text + "}")
        await refused("{'a': '" + "x" * 5_000_000 + "'}")


@settings(max_examples=examples(80), deadline=None)
@given(text=st.text(alphabet="{}[]\"',:abc1 \n`", max_size=60))
async def test_whatever_is_sent_only_a_valid_object_or_blank_text_runs(text: str) -> None:
    tool, runs = counting(input_schema={"type": "object", "properties": {"a": {}}})

    outcome = await execute_one(tool, text, repair="explain")

    # Nothing is required here, so that a blank text means no arguments.
    assert outcome.ok is (_is_object(text) or not text.strip())
    assert len(runs) == outcome.ok


def _is_object(text: str) -> bool:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    try:
        return isinstance(json.loads(text, object_pairs_hook=once), dict)
    except ValueError:
        return False
