"""A batch's room: how it is shared, where a result is cut, what the cut says, and what survives it."""

import json
from typing import Any

import pytest

from spindle import Artifact, Budget, Call, Err, JsonArtifact, Media, Ok, Spool, ToolContext, TurnContext
from spindle.errors import InvalidBudgetError
from tests.execution.calling import artifact_of, call, err, execute, execute_one, giving, make, ok, raising

pytestmark = pytest.mark.anyio

READERS = "artifact_head, artifact_tail, artifact_grep or artifact_cat"


def kept(call_id: str) -> str:
    return f'\n[the whole result is kept: call {READERS} with call_id "{call_id}"]'


def cut(text: str, room: int, *, total: int | None = None) -> str:
    return f"{text[:room]}\n[truncated — {total or len(text)} chars total]"


def calls_of(*names: str) -> list[Call]:
    return [call(name, call_id=f"c{place}") for place, name in enumerate(names)]


def reporting_share(name: str = "share", **options: Any) -> Any:
    async def report(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        return str(ctx.result_budget_chars)

    return make(name, report, **options)


@pytest.mark.parametrize(("calls", "share"), [(1, 80_000), (3, 26_666), (5, 16_000), (7, 11_428)])
async def test_each_call_sees_its_fair_share_of_eighty_thousand(calls: int, share: int) -> None:
    outcomes = await execute([reporting_share()], calls_of(*["share"] * calls))

    assert [ok(outcome).value for outcome in outcomes] == [str(share)] * calls


async def test_refused_calls_count_in_the_split() -> None:
    calls = [call("share", call_id="a"), call("nobody", call_id="b"), call("share", "{", call_id="c")]

    first, *refused = await execute([reporting_share()], calls, budget=Budget(chars=3_000))

    assert ok(first).value == "1000"
    assert [err(each).code for each in refused] == ["not_available", "input_invalid"]


async def test_a_tools_own_cap_only_lowers_its_share() -> None:
    tools = [reporting_share("low", max_result_chars=70), reporting_share("high", max_result_chars=10_000)]

    low, high = await execute(tools, calls_of("low", "high"), budget=Budget(chars=2_000))

    assert (ok(low).value, ok(high).value) == ("70", "1000")


async def test_the_contexts_budget_replaces_the_executors_for_that_batch() -> None:
    ctx = ToolContext("s1", result_budget_chars=50)
    tools = [reporting_share(), giving("x" * 200, "long")]

    share, long = await execute(tools, calls_of("share", "long"), ctx=ctx, spool=None)

    assert ok(share).value == "25"
    assert ok(long).value == cut("x" * 200, 48)
    assert ctx.result_budget_chars == 50


async def test_a_context_without_any_room_shows_nothing_but_the_marker() -> None:
    outcome = await execute_one(giving("long"), ctx=ToolContext("s1", result_budget_chars=0), spool=None)

    assert ok(outcome).value == cut("long", 1)


@pytest.mark.parametrize("bad", [-1, "many", 1.5])
async def test_a_contexts_budget_that_is_not_a_number_is_refused_before_anything_runs(bad: Any) -> None:
    ctx = ToolContext("s1")
    ctx.result_budget_chars = bad

    with pytest.raises(InvalidBudgetError):
        await execute_one(giving("text"), ctx=ctx)


async def test_a_result_is_cut_after_exactly_its_share_and_the_marker_comes_on_top() -> None:
    text = "é" * 1_234 + "z"

    outcome = await execute_one(giving(text), budget=Budget(chars=100), spool=None)

    assert ok(outcome).value == "é" * 100 + "\n[truncated \N{EM DASH} 1235 chars total]"
    assert ok(outcome).artifact is None


async def test_a_result_that_just_fits_is_not_touched() -> None:
    outcome = await execute_one(giving("x" * 100), budget=Budget(chars=100))

    assert ok(outcome) == Ok("x" * 100)


async def test_a_spooled_result_says_in_a_second_line_how_to_read_the_rest() -> None:
    outcome = await execute_one(giving("word " * 1_000), budget=Budget(chars=100))

    assert ok(outcome).value == cut("word " * 1_000, 100) + kept("c1")
    assert isinstance(ok(outcome).artifact, Artifact)
    assert await artifact_of(ok(outcome), Artifact).as_text() == "word " * 1_000


async def test_a_spooled_result_that_does_not_fit_is_shown_in_preview_chars() -> None:
    budget = Budget(chars=1_000, preview_chars=100)

    fits = await execute_one(giving("a" * 1_000), budget=budget)
    too_long = await execute_one(giving("word " * 1_000), budget=budget)

    assert ok(fits) == Ok("a" * 1_000)
    assert ok(too_long).value == cut("word " * 1_000, 100) + kept("c1")
    assert await artifact_of(ok(too_long), Artifact).as_text() == "word " * 1_000


async def test_the_whole_share_is_shown_of_what_is_not_spooled() -> None:
    budget = Budget(chars=1_000, preview_chars=100)

    unspooled = await execute_one(giving("word " * 1_000), budget=budget, spool=None)
    failed = await execute_one(giving(Err("denied", "word " * 1_000)), budget=budget)

    assert ok(unspooled).value == cut("word " * 1_000, 1_000)
    assert err(failed).error == cut("word " * 1_000, 1_000)


async def test_a_reader_of_a_spooled_result_may_use_its_whole_share() -> None:
    budget = Budget(chars=1_000, preview_chars=100)
    outcomes = await execute([giving("word " * 1_000)], [call("give")], budget=budget)
    readers = Artifact.forge_tools(TurnContext(tool_calls=[outcomes[0].to_record()]))

    (read,) = await execute(readers, [call("artifact_cat", {"call_id": "c1"}, call_id="r1")], budget=budget)

    assert len(ok(read).value) > 500


async def test_a_preview_is_never_larger_than_the_share() -> None:
    large, other = await execute(
        [giving("a" * 500, "large"), giving("b" * 500, "capped", max_result_chars=20)],
        calls_of("large", "capped"),
        budget=Budget(chars=70, preview_chars=100),
    )

    assert ok(large).value == cut("a" * 500, 50) + kept("c0")
    assert ok(other).value == cut("b" * 500, 20) + kept("c1")


async def test_a_returned_artifact_that_does_not_fit_is_shown_in_preview_chars() -> None:
    outcome = await execute_one(
        giving(Artifact.from_text("word " * 1_000)), budget=Budget(chars=1_000, preview_chars=100)
    )

    assert ok(outcome).value == cut("word " * 1_000, 100) + kept("c1")


async def test_structured_previews_keep_to_preview_chars() -> None:
    rows = json.dumps([{"id": n, "note": "[truncated by hand]"} for n in range(1_000)])
    table = "id,name\n" + "".join(f"{n},item {n}\n" for n in range(1_000))

    for text in (rows, table):
        for budget in (Budget(1_000, preview_chars=200), Budget(tokens=1_000, preview_chars=200)):
            shown = ok(await execute_one(giving(text), budget=budget)).value.partition("\n[truncated — ")[0]
            assert 100 < len(shown) <= 200
            assert " more of 1000" in shown


async def test_the_contexts_budget_keeps_the_preview() -> None:
    ctx = ToolContext("s1", result_budget_chars=500)

    outcome = await execute_one(giving("word " * 1_000), ctx=ctx, budget=Budget(preview_chars=100))

    assert ok(outcome).value == cut("word " * 1_000, 100) + kept("c1")


async def test_a_preview_in_characters_holds_under_a_budget_of_tokens() -> None:
    outcome = await execute_one(giving("word " * 9_000), budget=Budget(tokens=1_000, preview_chars=100))

    assert ok(outcome).value == cut("word " * 9_000, 100) + kept("c1")


async def test_the_unused_share_of_small_results_is_split_equally() -> None:
    tools = [giving("s" * 10, "small"), giving("a" * 500, "large"), giving("b" * 600, "larger"), giving("", "none")]

    outcomes = await execute(tools, calls_of("small", "large", "larger", "none"), budget=Budget(chars=400), spool=None)

    small, large, larger, none = [ok(outcome).value for outcome in outcomes]
    assert (small, none) == ("s" * 10, "")
    assert large == cut("a" * 500, 195)
    assert larger == cut("b" * 600, 195)


async def test_a_share_that_a_capped_tool_cannot_use_goes_to_the_others() -> None:
    tools = [giving("a" * 500, "capped", max_result_chars=20), giving("b" * 170, "open")]

    capped, open_ = await execute(tools, calls_of("capped", "open"), budget=Budget(chars=200), spool=None)

    assert ok(capped).value == cut("a" * 500, 20)
    assert ok(open_).value == "b" * 170


async def test_a_cap_holds_although_the_batch_has_room() -> None:
    short, long = await execute(
        [giving("a" * 5, "short", max_result_chars=5), giving("a" * 6, "long", max_result_chars=5)],
        calls_of("short", "long"),
        spool=None,
    )

    assert ok(short).value == "a" * 5
    assert ok(long).value == cut("a" * 6, 5)


async def test_structure_cost_media_and_trust_survive_the_cut() -> None:
    media = Media.tool_generated(b"\x89PNG", kind="image", mime_type="image/png", filename="a.png")
    whole = Ok("x" * 500, structured={"rows": 500}, media=(media,), cost_usd=0.25)

    outcome = await execute_one(giving(whole, trusted=True), budget=Budget(chars=10), spool=None)

    result = ok(outcome)
    assert result.value == cut("x" * 500, 10)
    assert (result.structured, result.media, result.cost_usd) == ({"rows": 500}, (media,), 0.25)
    assert result.trusted


@pytest.mark.parametrize("cap", [None, 30])
async def test_error_texts_obey_the_budget_and_the_cap(cap: int | None) -> None:
    tool = giving(Err("stale_write", "e" * 500, field="path"), max_result_chars=cap)

    outcome = await execute_one(tool, budget=Budget(chars=100))

    assert err(outcome).error == cut("e" * 500, cap or 100)
    assert (err(outcome).code, err(outcome).field) == ("stale_write", "path")


async def test_an_error_over_its_tools_cap_is_cut_although_the_batch_has_room() -> None:
    tool = raising(ValueError("v" * 300), expose_errors=True, max_result_chars=20)

    assert len(err(await execute_one(tool)).error.split("\n[truncated — ")[0]) == 20


async def test_a_refusal_before_any_tool_is_known_takes_part_in_the_split() -> None:
    long, unknown = await execute([giving("x" * 500)], calls_of("give", "nobody"), budget=Budget(chars=200), spool=None)

    shown = ok(long).value.split("\n[truncated — ")[0]
    assert len(shown) + len(err(unknown).error) == 200


async def test_a_dry_run_preview_is_shown_whole() -> None:
    ctx = ToolContext("s1", dry_run=True, result_budget_chars=10)

    outcome = await execute_one(giving("never", max_result_chars=1), {"a": "b" * 100}, ctx=ctx)

    assert ok(outcome).value == '[dry-run] give would be called with: {"a":"' + "b" * 100 + '"}'
    assert ok(outcome).artifact is None


async def test_a_long_preview_of_a_dry_run_is_cut_as_any_text() -> None:
    def report(_args: Any, _ctx: Any) -> str:
        return "p" * 1_000

    tool = giving("never", preview=report)
    ctx = ToolContext("s1", dry_run=True, result_budget_chars=100)

    assert len(ok(await execute_one(tool, ctx=ctx, spool=None)).value) == len(cut("p" * 1_010, 100))


async def test_more_calls_than_characters_still_have_an_answer_each() -> None:
    outcomes = await execute([giving("abc")], calls_of(*["give"] * 20), budget=Budget(chars=7), spool=None)

    assert [ok(outcome).value for outcome in outcomes] == [cut("abc", 0)] * 20


async def test_a_json_preview_keeps_its_structure() -> None:
    rows = [{"id": number, "name": f"row {number}"} for number in range(2_000)]

    outcome = await execute_one(giving(rows), budget=Budget(chars=300))

    shown, marker = ok(outcome).value.split("\n[truncated — ")
    found = json.loads(shown)
    assert found[0] == rows[0]
    assert found[-1].endswith("more of 2000")
    assert len(shown) <= 300
    assert marker.startswith(f"{len(json.dumps(rows, separators=(',', ':')))} chars total]\n")
    assert "artifact_json_get" in marker
    assert ok(outcome).structured == rows


async def test_json_text_without_a_structure_is_shown_and_kept_as_json_too() -> None:
    text = json.dumps({"items": list(range(5_000)), "next": "page-2"})

    outcome = await execute_one(giving(text), budget=Budget(chars=200))

    shown = json.loads(ok(outcome).value.split("\n[truncated — ")[0])
    assert shown["next"] == "page-2"
    assert await artifact_of(ok(outcome), JsonArtifact).get("$.next") == ["page-2"]


async def test_a_text_beside_a_structure_is_kept_as_the_text_it_is() -> None:
    outcome = await execute_one(giving(Ok("log line\n" * 200, structured={"lines": 200})), budget=Budget(chars=90))

    assert type(ok(outcome).artifact) is Artifact
    assert ok(outcome).value.startswith("log line\n" * 10 + "\n[truncated — 1800 chars total]\n")


async def test_a_table_keeps_its_header_and_whole_rows() -> None:
    table = "id,name\n" + "".join(f"{n},row {n}\n" for n in range(5_000))

    shown = ok(await execute_one(giving(table), budget=Budget(chars=200))).value.split("\n[truncated — ")[0]

    lines = shown.split("\n")
    assert lines[:2] == ["id,name", "0,row 0"]
    assert lines[-1] == "4999,row 4999"
    assert len(shown) <= 200


@pytest.mark.parametrize("tokens", [50, 333])
async def test_a_budget_of_tokens_is_not_overdrawn(tokens: int) -> None:
    budget, prose = Budget(tokens=tokens), "The quick brown fox jumps over the lazy dog. " * 500
    tools = [giving(prose, "prose"), giving("ok", "short"), giving([{"n": n} for n in range(9_000)], "json")]

    outcomes = await execute(tools, calls_of("prose", "short", "json"), budget=budget)

    shown = [ok(outcome).value.split("\n[truncated — ")[0] for outcome in outcomes]
    assert shown[1] == "ok"
    assert tokens * 0.7 < sum(Budget(tokens=1).size(text) for text in shown) <= tokens
    assert prose.startswith(shown[0])


async def test_a_token_budget_gives_a_call_characters_that_surely_fit() -> None:
    outcomes = await execute([reporting_share()], calls_of("share", "share"), budget=Budget(tokens=1_000))

    assert [ok(outcome).value for outcome in outcomes] == ["1000", "1000"]


async def test_a_cap_in_characters_holds_under_a_budget_of_tokens() -> None:
    tool = giving("abcd " * 60, max_result_chars=101)

    outcome = await execute_one(tool, budget=Budget(tokens=10_000), spool=None)

    assert ok(outcome).value == cut("abcd " * 60, 101)


async def test_ten_megabytes_are_shown_in_part_and_kept_whole(tmp_path: Any) -> None:
    text = "0123456789abcde\n" * 655_360

    outcome = await execute_one(giving(text), spool=Spool.files(tmp_path))

    assert ok(outcome).value == cut(text, 80_000) + kept("c1")
    assert await artifact_of(ok(outcome), Artifact).byte_length() == 10_485_760
    assert await artifact_of(ok(outcome), Artifact).tail(2) == ["0123456789abcde", ""]
