"""A secret that was handed out is masked wherever an outcome could show it: the cause and the artifact too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from spindle import (
    Artifact,
    Backends,
    Call,
    CallOutcome,
    Capabilities,
    Err,
    Executor,
    JsonArtifact,
    Media,
    Ok,
    Tool,
    ToolContext,
    ToolRegistry,
)
from spindle.errors import HandlerFailedError
from spindle.execution.fit_results import MAX_ARTIFACT_BYTES

pytestmark = pytest.mark.anyio

KEY = "sk-live-0123456789"
PLAIN = {"type": "object", "properties": {"password": {"type": "string"}}}


class Count(BaseModel):
    n: int


class Sealed(Exception):
    """Keeps its content read-only."""

    def __str__(self) -> str:
        return f"no {KEY}"


async def outcome_of(root: Path, give: Callable[[str], Any], **options: Any) -> CallOutcome:
    async def handler(_args: Any, ctx: ToolContext, _meta: Any) -> Any:
        return give((await ctx.secrets.get("KEY")).reveal())

    tool = Tool(
        name="leak",
        description="Leak.",
        input_schema=PLAIN,
        handler=handler,
        capabilities=Capabilities(secrets=["KEY"]),
        **options,
    )
    executor = Executor(ToolRegistry([tool]), backends=Backends.local(root, secrets={"KEY": KEY}))
    return (await executor.execute_parallel([Call("c", "leak", {})], ToolContext()))[0]


def raised(error: Exception) -> Any:
    raise error


async def test_the_exception_stays_the_cause_with_the_secret_masked(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, lambda key: raised(KeyError(key)))

    assert isinstance(outcome.result, Err)
    assert isinstance(outcome.result.cause, KeyError)
    assert outcome.result.cause.args == ("***",)
    assert KEY not in repr(outcome)


async def test_a_cause_that_cannot_be_masked_is_only_described(tmp_path: Path) -> None:
    ways: dict[str, Callable[[str], Any]] = {
        "ValidationError": lambda key: Count.model_validate({"n": key}),
        "Sealed": lambda _key: raised(Sealed()),
        "ExceptionGroup": lambda key: raised(ExceptionGroup(key, [ValueError()])),
    }
    for class_name, give in ways.items():
        outcome = await outcome_of(tmp_path, give)

        assert isinstance(outcome.result, Err)
        assert isinstance(outcome.result.cause, HandlerFailedError)
        assert outcome.result.cause.class_name == class_name
        assert KEY not in repr(outcome) + outcome.result.cause.text


async def test_a_cause_that_a_handler_wrote_down_is_masked(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, lambda key: Err("execution_failed", "no", cause={"key": key}))

    assert isinstance(outcome.result, Err)
    assert outcome.result.cause == {"key": "***"}


async def test_an_artifact_that_a_handler_made_is_masked_and_stays_of_its_kind(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, lambda key: JsonArtifact.from_text(f'["{key}"]\n[2]', format="jsonl"))

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == '["***"]\n[2]'
    assert isinstance(outcome.result.artifact, JsonArtifact)
    assert await outcome.result.artifact.json_type() == "jsonl"


async def test_of_a_huge_artifact_what_is_shown_is_masked(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, lambda key: Artifact.from_text(f"{key} " + "x" * MAX_ARTIFACT_BYTES))

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value.startswith("*** xxx")


async def test_a_medium_is_named_without_the_secret(tmp_path: Path) -> None:
    def picture(key: str) -> Media:
        return Media.tool_generated(b"1", kind="image", mime_type="image/png", filename=f"{key}.png")

    outcome = await outcome_of(tmp_path, picture)

    assert isinstance(outcome.result, Ok)
    assert KEY not in outcome.result.media[0].filename
    assert await outcome.result.media[0].as_bytes() == b"1"


async def test_a_secret_field_is_masked_in_what_was_raised() -> None:
    def handler(args: Any, _ctx: Any, _meta: Any) -> str:
        raise ValueError(f"bad {args['password']}")

    tool = Tool(name="log_in", description="Log in.", input_schema=PLAIN, handler=handler, secret_fields=["password"])
    calls = [Call("c", "log_in", {"password": "hunter22"})]
    (outcome,) = await Executor(ToolRegistry([tool])).execute_parallel(calls, ToolContext())

    assert isinstance(outcome.result, Err)
    assert str(outcome.result.cause) == "bad ***"
