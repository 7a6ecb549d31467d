import os
import subprocess
import sys

import pytest

from spindle.calls import Call, Err
from spindle.cli.demo import answer_all, clash, main
from spindle.cli.demo_calls import Answer, Case, batch, shop
from spindle.errors import MissingExtraError
from spindle.stash import Stash

pytestmark = pytest.mark.anyio

RUN = {"plain", "a number sent as text", "arguments as bytes", "changes something", "plain, at the end"}


async def answered(stash: Stash | None = None) -> list[Answer]:
    return await answer_all(shop(), batch(), Stash() if stash is None else stash)


async def test_each_call_gets_its_own_answer_in_order() -> None:
    cases = batch()

    answers = await answer_all(shop(), cases, Stash())

    assert [answer.case for answer in answers] == cases
    assert len({case.call.tool_call_id for case in cases}) == len(cases)


async def test_only_good_calls_succeed_and_only_the_raising_handler_ran_without_a_result() -> None:
    answers = await answered()

    assert {answer.case.title for answer in answers if answer.result.ok} == RUN
    assert {answer.case.title for answer in answers if answer.ran} == RUN | {"handler raises"}


async def test_a_refused_call_changes_nothing() -> None:
    stash = Stash()

    await answered(stash)

    assert stash.get("refunded") == 250  # the one good refund of the batch


async def test_each_failure_has_the_code_that_says_what_kind_it_is() -> None:
    results = {answer.case.title: answer.result for answer in await answered()}
    codes = {title: result.code for title, result in results.items() if isinstance(result, Err)}

    assert codes.pop("handler raises") == "execution_failed"
    assert codes.pop("unknown tool") == "not_available"
    assert len(codes) == 11
    assert set(codes.values()) == {"input_invalid"}


async def test_the_words_of_a_handlers_exception_do_not_reach_the_model() -> None:
    failed = next(answer.result for answer in await answered() if answer.case.title == "handler raises")

    assert isinstance(failed, Err)
    assert isinstance(failed.cause, ConnectionError)
    assert str(failed.cause) not in failed.error


async def test_a_name_that_resembles_no_tool_is_answered_too() -> None:
    nonsense = Case(title="nonsense", call=Call("c1", "qqqqqqqq", "{}"))

    (answer,) = await answer_all(shop(), [nonsense], Stash())

    assert isinstance(answer.result, Err)
    assert answer.result.code == "not_available"


def test_a_second_tool_of_the_same_name_is_refused_and_replaces_nothing() -> None:
    registry = shop()
    before = registry.get("refund")

    refused = clash(registry)

    assert refused is not None
    assert refused.tool == "refund"
    assert registry.get("refund") is before


@pytest.mark.parametrize("columns", [80, 120])
def test_the_demonstration_ends_by_itself_and_fits_the_screen(columns: int) -> None:
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
    environment.pop("FORCE_COLOR", None)

    done = subprocess.run(
        [sys.executable, "-m", "spindle.cli.demo"],
        env=environment, capture_output=True, encoding="utf-8", timeout=50, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= columns
    assert f"{len(batch())} calls, {len(batch())} answers" in done.stdout


def test_a_terminal_that_knows_only_ascii_gets_a_table_too() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}

    done = subprocess.run(
        [sys.executable, "-m", "spindle.cli.demo"], env=environment, capture_output=True, timeout=50, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_without_rich_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "spindle.cli.demo_table", raising=False)
    monkeypatch.setitem(sys.modules, "rich.box", None)  # what Python takes for “not installed”

    with pytest.raises(MissingExtraError) as caught:
        main()

    assert "spindle[cli]" in str(caught.value)
