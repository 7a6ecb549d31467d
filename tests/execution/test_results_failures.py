"""What the model is told of a failure: our own words, the handler's only where its tool says so, secrets never."""

import json
from typing import Any

import pytest

from spindle import Err, ToolContext, tool
from spindle.errors import ArtifactQueryError, CallError, CapabilityError, InvalidToolArgsError, UsageError
from tests.execution.calling import counting, err, execute_one, giving, make, raising

pytestmark = pytest.mark.anyio


def sync_raising(error: BaseException, **options: Any) -> Any:
    def fail(_args: Any, _ctx: Any, _meta: Any) -> Any:
        raise error

    return make("fail", fail, **options)


@pytest.mark.parametrize("maker", [raising, sync_raising])
async def test_a_handlers_exception_is_not_shown(maker: Any) -> None:
    error = ValueError("the key id_rsa is missing")

    failed = err(await execute_one(maker(error)))

    assert failed.code == "execution_failed"
    assert failed.cause is error
    assert "'fail'" in failed.error
    assert "id_rsa" not in failed.error
    assert "ValueError" not in failed.error
    assert not failed.retryable


@pytest.mark.parametrize("maker", [raising, sync_raising])
@pytest.mark.parametrize(
    "error", [ValueError("too big"), SystemExit("too big"), GeneratorExit("too big"), BaseException("too big")]
)
async def test_a_tool_that_exposes_errors_shows_their_class_and_message(maker: Any, error: BaseException) -> None:
    failed = err(await execute_one(maker(error, expose_errors=True)))

    assert failed.code == "execution_failed"
    assert f"{type(error).__name__}: too big" in failed.error


async def test_an_end_of_iteration_in_a_thread_is_shown_as_what_it_is() -> None:
    failed = err(await execute_one(sync_raising(StopIteration("too big"), expose_errors=True)))

    assert failed.error.endswith("StopIteration: too big")


async def test_an_exception_without_words_shows_its_class() -> None:
    assert err(await execute_one(raising(KeyError(), expose_errors=True))).error.endswith("KeyError")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class OwnCallError(CallError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [Unspeakable(), OwnCallError("x")])
async def test_an_error_whose_text_raises_is_still_an_answer(error: Exception) -> None:
    failed = err(await execute_one(raising(error, expose_errors=True)))

    assert failed.code == "execution_failed"
    assert "cannot be shown" in failed.error


async def test_an_exposed_message_is_bounded_and_printable() -> None:
    failed = err(await execute_one(raising(ValueError("\x1b[31m\n" + "x" * 100_000), expose_errors=True)))

    assert failed.error.isprintable()
    assert len(failed.error) < 3000


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArtifactQueryError("no such line", field="line"), "input_invalid"),
        (CapabilityError("not granted", field="network"), "execution_failed"),
        (InvalidToolArgsError("n must be small"), "input_invalid"),
        (UsageError("wired up wrongly"), "execution_failed"),
    ],
)
async def test_our_own_errors_speak_to_the_model_if_it_can_act(error: Exception, code: str) -> None:
    failed = err(await execute_one(raising(error)))

    assert failed.code == code
    assert (str(error) in failed.error) is isinstance(error, CallError)


async def test_touching_a_handle_that_was_not_declared_says_so() -> None:
    @tool
    async def fetch(*, ctx: ToolContext) -> str:
        """Fetch."""
        return await ctx.network.get("https://a.example")

    failed = err(await execute_one(fetch))

    assert failed.code == "execution_failed"
    assert failed.field == "network"
    assert isinstance(failed.cause, CapabilityError)


async def test_a_tools_own_timeout_is_a_failure_and_not_ours() -> None:
    assert err(await execute_one(raising(TimeoutError("mine")))).code == "execution_failed"


SECRETS: dict[str, Any] = {
    "text": "hunter2\nand 'more' \"ü\"",
    "number": 48151623,
    "list": ["first-secret", {"deep": "second-secret"}],
    "short": "ab",
    "flag": True,
    "nothing": None,
}


@pytest.mark.parametrize("spell", [str, repr, json.dumps, "<{}>".format])
async def test_an_error_never_shows_a_secret_however_it_is_spelled(spell: Any) -> None:
    async def leak(args: Any, _ctx: Any, _meta: Any) -> Any:
        raise RuntimeError(" ".join(spell(args[name]) for name in SECRETS))

    async def give_back(args: Any, _ctx: Any, _meta: Any) -> Any:
        return Err("execution_failed", " ".join(spell(args[name]) for name in SECRETS), retryable=True)

    async def refuse(args: Any, _ctx: Any) -> None:
        raise ValueError(" ".join(spell(args[name]) for name in SECRETS))

    options: dict[str, Any] = {"secret_fields": list(SECRETS), "expose_errors": True}
    checked, runs = counting(checks=[refuse], **options)

    for each in (make("leak", leak, **options), make("leak", give_back, **options), checked):
        failed = err(await execute_one(each, SECRETS))
        for secret in ("hunter2", "48151623", "first-secret", "second-secret"):
            assert secret not in failed.error
        assert "***" in failed.error
    assert runs == []


async def test_words_that_are_no_secret_stay() -> None:
    async def fail(_args: Any, _ctx: Any, _meta: Any) -> Any:
        return Err("stale_write", "the file about ab changed; True", field="path", retryable=True)

    tool_ = make("fail", fail, secret_fields=["short", "flag", "nothing", "absent"])

    expected = Err("stale_write", "the file about ab changed; True", field="path", retryable=True)
    assert err(await execute_one(tool_, SECRETS)) == expected


async def test_a_failure_of_a_trusted_tool_is_told_alike() -> None:
    assert err(await execute_one(giving(object(), trusted=True))).code == "execution_failed"
