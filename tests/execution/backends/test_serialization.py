"""What a worker process sends is data: its types survive, and nothing in it runs."""

import json
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from spindle import Artifact, Err, Media, Ok, Spool, ToolContext
from spindle.artifacts import JsonArtifact
from spindle.errors import ArtifactGoneError, InvalidToolArgsError, NotSendableError, StaleWriteError
from spindle.execution.backends.child import ChildLink, encode_frame
from spindle.execution.backends.processes import ProcessRunner
from spindle.execution.backends.serialization import dump, load
from tests.execution.calling import call, err, execute_one, make, ok

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")]

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda parts: (
        st.lists(parts)
        | st.lists(parts).map(tuple)
        | st.dictionaries(st.text() | st.sampled_from(["$", "value"]), parts)
        | st.dictionaries(st.integers(), parts)
    ),
)


@pytest.mark.slow
@given(PLAIN)
def test_plain_data_crosses_unchanged(value: object) -> None:
    arrived = load(dump(value))

    assert arrived == value
    assert type(arrived) is type(value)


class Model(BaseModel):
    name: str
    price: Decimal


@dataclass
class Point:
    x: int


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "expected"),
    [(Model(name="a", price=Decimal("1.5")), {"name": "a", "price": "1.5"}), (Point(1), {"x": 1}), ({1}, [1])],
)
async def test_json_values_cross_as_json(value: object, expected: object) -> None:
    def give(_args: Any, _ctx: Any, _meta: Any) -> object:
        return value

    outcome = await execute_one(make("give", give, isolation="process"))

    assert ok(outcome).structured == expected


class Plain:
    """A class of a handler."""


@pytest.mark.slow
@pytest.mark.parametrize(("value", "name"), [(Plain(), "Plain"), ([1, Plain()], "Plain"), (lambda: 1, "function")])
async def test_anything_else_fails_and_names_the_type(value: object, name: str) -> None:
    def give(_args: Any, _ctx: Any, _meta: Any) -> object:
        return value

    outcome = await execute_one(make("give", give, isolation="process"))

    assert err(outcome).code == "execution_failed"
    assert isinstance(err(outcome).cause, NotSendableError)
    assert name in err(outcome).error


async def test_a_result_with_media_and_all_its_parts_crosses() -> None:
    picture = Media.from_bytes(
        b"bytes of it",
        kind="image",
        mime_type="image/png",
        filename="dot.png",
        trust_tier="first-party",
        modality_hazard="inert",
        source="here",
    )
    given_result = Ok("text", structured={"a": [1]}, media=(picture,), cost_usd=0.5)

    def give(_args: Any, _ctx: Any, _meta: Any) -> Ok:
        return given_result

    result = ok(await execute_one(make("give", give, isolation="process")))

    assert (result.value, result.structured, result.cost_usd) == ("text", {"a": [1]}, 0.5)
    (arrived,) = result.media
    assert (arrived.id, arrived.filename, arrived.trust_tier, arrived.source) == (
        picture.id,
        "dot.png",
        "first-party",
        "here",
    )
    assert await arrived.as_bytes() == b"bytes of it"


@pytest.mark.slow
async def test_an_artifact_in_memory_crosses_with_its_class_and_options() -> None:
    def give(_args: Any, _ctx: Any, _meta: Any) -> Ok:
        return Ok("rows", artifact=JsonArtifact.from_text('{"a": 1}\n{"a": 2}\n', format="jsonl"))

    artifact = ok(await execute_one(make("give", give, isolation="process"))).artifact

    assert isinstance(artifact, JsonArtifact)
    assert await artifact.as_text() == '{"a": 1}\n{"a": 2}\n'


@pytest.mark.slow
async def test_an_artifact_in_a_spool_of_files_crosses_by_reference(tmp_path: Path) -> None:
    async def spooled() -> Artifact:
        return Artifact(await Spool.files(tmp_path).write("big", b"one\ntwo\n"))

    arrived = await ProcessRunner(1).run(lambda link: anyio.run(spooled))

    assert await arrived.as_text() == "one\ntwo\n"
    assert await arrived.reader.line(1) == "two"
    for path in tmp_path.rglob("*.data"):  # noqa: ASYNC240
        path.unlink()
    with pytest.raises(ArtifactGoneError):
        await arrived.as_text()


@pytest.mark.slow
async def test_errors_of_the_tree_keep_their_facts() -> None:
    def refuse(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise StaleWriteError("the file changed", path="a.txt", tool="save")

    outcome = await execute_one(make("refuse", refuse, isolation="process"))

    assert err(outcome).code == "stale_write"
    assert isinstance(err(outcome).cause, StaleWriteError)


@pytest.mark.slow
async def test_refused_arguments_keep_their_problems() -> None:
    inner = make("inner", print, input_schema={"type": "object", "required": ["n"]})

    def refuse(_args: Any, _ctx: Any, _meta: Any) -> None:
        anyio.run(inner.validate, dict[str, Any]())

    outcome = await execute_one(make("refuse", refuse, isolation="process"))

    assert err(outcome).code == "input_invalid"
    cause = err(outcome).cause
    assert isinstance(cause, InvalidToolArgsError)
    assert [problem.path for problem in cause.problems] == ["n"]


@pytest.mark.slow
async def test_a_handlers_own_error_keeps_its_code_and_cause() -> None:
    def give(_args: Any, _ctx: Any, _meta: Any) -> Err:
        return Err("denied", "no", field="f", retryable=True, cause=OSError(2, "gone"))

    result = err(await execute_one(make("give", give, isolation="process")))

    assert (result.code, result.field, result.retryable, result.by) == ("denied", "f", True, "tool")
    assert isinstance(result.cause, FileNotFoundError)


MARK = "EXECUTED"


def touch(path: str) -> str:
    Path(path).touch()
    return path


class Exploit:
    """A value that would run code in the program if the program unpickled it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return touch, (str(self.folder / MARK),)


@pytest.mark.slow
async def test_nothing_that_a_worker_sends_is_executed(tmp_path: Path) -> None:
    import pickle

    frames = [
        encode_frame(b"r", pickle.dumps(Exploit(tmp_path))),
        encode_frame(b"f", pickle.dumps(Exploit(tmp_path))),
        encode_frame(b"m", pickle.dumps(Exploit(tmp_path))),
        encode_frame(b"r", json.dumps({"$": "error", "module": "os", "class": "system", "args": []}).encode()),
        encode_frame(b"r", json.dumps({"$": "record", "class": "Path", "value": {}}).encode()),
        encode_frame(b"r", json.dumps({"$": "artifact", "module": "pathlib", "class": "Path", "value": ""}).encode()),
        encode_frame(b"r", b"[" * 100_000),
    ]
    for frame in frames:

        def forge(link: ChildLink, frame: bytes = frame) -> None:
            os.write(link._descriptor, frame)  # pyright: ignore[reportPrivateUsage]  what a hostile handler could do
            os._exit(0)

        with pytest.raises(NotSendableError):
            await ProcessRunner(1).run(forge, on_message=print)

    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"$": 5}', b'{"$": "bytes", "value": 1}', b'{"$": "dict"}'])
def test_a_value_that_is_not_an_encoding_is_refused(data: bytes) -> None:
    with pytest.raises(NotSendableError):
        load(data)


async def test_progress_of_a_worker_arrives_with_its_types() -> None:
    seen: list[Any] = []

    def work(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("half", 50)
        return "done"

    from spindle import Events, Executor, ToolRegistry

    events = Events()
    events.on("tool_progress", seen.append)
    executor = Executor(ToolRegistry([make("work", work, isolation="process")]))
    await executor.execute_parallel([call("work")], ToolContext(events=events))

    assert [(each.message, each.percent, each.tool_name) for each in seen] == [("half", 50, "work")]
