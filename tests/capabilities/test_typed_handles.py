"""Handles and backends have types: `make types` checks the types in this file, and the tests run its code."""
# pyright: reportUnnecessaryTypeIgnoreComment=true
# Each ignore below is an error that a type checker must report.

from pathlib import Path
from typing import assert_type

import pytest

from spindle import Backends, Call, Capabilities, Executor, Media, Ok, ToolContext, ToolRegistry, tool
from spindle.capabilities import (
    Attachments,
    CallScope,
    CapabilityBackend,
    FileReach,
    Files,
    FilesBackend,
    Network,
    Process,
    Secret,
    Secrets,
    Storage,
    StorageBackend,
)
from spindle.capabilities.files import Entries, FileStat
from spindle.capabilities.network import Response
from spindle.capabilities.process import Finished

pytestmark = pytest.mark.anyio


class UpperCaseSecrets:
    """A handle of a user's own; nothing of Spindle is inherited."""

    def __init__(self, scope: CallScope) -> None:
        self._scope = scope

    async def get(self, name: str) -> Secret:
        if self._scope.redactor is not None:
            self._scope.redactor.add(name.upper())
        return Secret(name.upper(), name=name)


class UpperCaseBackend:
    """A backend of a user's own."""

    def open(self, need: tuple[str, ...], scope: CallScope) -> UpperCaseSecrets:
        return UpperCaseSecrets(scope)


class NumberBackend:
    """A backend whose handle has nothing to do with secrets."""

    def open(self, need: tuple[str, ...], scope: CallScope) -> int:
        return 1


async def reveal_types(ctx: ToolContext) -> None:
    """Assert the type of each handle, and of what its methods return; checked by `make types`, never run."""
    assert_type(ctx.network, Network)
    assert_type(ctx.files, Files)
    assert_type(ctx.process, Process)
    assert_type(ctx.secrets, Secrets)
    assert_type(ctx.storage, Storage)
    assert_type(ctx.attachments, Attachments)
    assert_type(await ctx.network.get("https://a.example"), Response)
    assert_type(await ctx.files.read_text("a"), str)
    assert_type(await ctx.files.list(), Entries)
    assert_type(await ctx.files.stat("a"), FileStat | None)
    assert_type(await ctx.process.run(["git", "status"]), Finished)
    assert_type((await ctx.secrets.get("KEY")).reveal(), str)
    assert_type(await ctx.storage.keys(), list[str])
    assert_type(await ctx.attachments.list(), list[Media])
    assert_type(ctx.checksum, str | None)
    await ctx.files.read_txt("a")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    await ctx.files.read_text(5)  # pyright: ignore[reportArgumentType]
    _ = ctx.netwrok  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def check_backends(root: Path) -> None:
    """Assert which backends fit which capability; checked by `make types`, never run."""
    own: CapabilityBackend[tuple[str, ...], Secrets] = UpperCaseBackend()
    shipped: CapabilityBackend[FileReach, Files] = FilesBackend(root)
    Backends(secrets=own, files=shipped, storage=StorageBackend.memory())
    Backends(secrets=NumberBackend())  # pyright: ignore[reportArgumentType]
    Backends(network=FilesBackend(root))  # pyright: ignore[reportArgumentType]
    Backends(storage={"a": 1})  # pyright: ignore[reportArgumentType]


@tool(capabilities=Capabilities(secrets=["key"]))
async def sign(*, ctx: ToolContext) -> str:
    """Sign."""
    return (await ctx.secrets.get("key")).reveal()


async def test_a_backend_of_a_users_own_serves_a_call_and_its_secret_is_masked() -> None:
    executor = Executor(ToolRegistry([sign]), backends=Backends(secrets=UpperCaseBackend()))

    (outcome,) = await executor.execute_parallel([Call("1", "sign")], ToolContext())

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == "***"


async def test_a_handle_can_be_given_in_place_of_a_backend() -> None:
    handle = UpperCaseSecrets(CallScope(tool="sign", session_id="s1"))
    executor = Executor(ToolRegistry([sign]), backends=Backends(secrets=handle))

    (outcome,) = await executor.execute_parallel([Call("1", "sign")], ToolContext())

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == "KEY"


async def test_a_context_takes_handles_by_name() -> None:
    ctx = ToolContext(handles={"secrets": UpperCaseSecrets(CallScope(tool="sign", session_id="s1"))})

    assert (await ctx.secrets.get("key")).reveal() == "KEY"
