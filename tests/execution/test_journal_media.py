"""An answer that is given again has its media, or says what it lacks."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Backends, Capabilities, Events, Journal, Media, Ok, Spool, Tool, ToolContext
from spindle.capabilities import SecretsBackend
from spindle.execution import journal_media
from tests.execution.calling import call, execute, make, ok

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200_000)


def picture(data: bytes = PNG, **facts: Any) -> Media:
    return Media.tool_generated(data, kind="image", mime_type="image/png", filename="chart.png", **facts)


def drawing(media: Media, **facts: Any) -> Tool:
    async def draw(_args: Any, _ctx: Any, _meta: Any) -> Ok:
        return Ok("drawn", media=(media,))

    return make("draw", draw, **facts)


async def ask(journal: Journal, tool: Tool, **settings: Any) -> Ok:
    ctx = settings.pop("ctx", None) or ToolContext("s1", turn_id="t1")
    with anyio.fail_after(30):
        (outcome,) = await execute([tool], [call("draw")], journal=journal, ctx=ctx, **settings)
    return ok(outcome)


async def test_media_is_given_again_also_after_a_restart(tmp_path: Path) -> None:
    made = picture(stash={"text:caption": {"value": "a chart", "trust_tier": "first-party"}}, source="plotter")
    results: list[Ok] = []
    for _ in range(2):
        spool = Spool.files(tmp_path / "spool")
        async with Journal.sqlite(tmp_path / "journal.db") as journal:
            results += [await ask(journal, drawing(made), spool=spool) for _ in range(2)]

    assert results[0].media == (made,)
    for again in results[1:]:
        (media,) = again.media
        assert media.to_dict() == made.to_dict()
        assert media.stash == made.stash
        assert await media.as_bytes() == PNG
        assert again.value == "drawn"


async def test_media_that_was_not_kept_is_named() -> None:
    journal = Journal.memory()
    await ask(journal, drawing(picture()), spool=None)
    again = await ask(journal, drawing(picture()), spool=None)

    assert again.media == ()
    assert again.value == f"drawn\n[media of this answer was not kept: image 'chart.png', image/png, {len(PNG)} bytes]"


async def test_a_value_that_is_no_longer_in_the_spool_is_named() -> None:
    journal, spool = Journal.memory(), Spool.memory()
    await ask(journal, drawing(picture()), spool=spool)
    (entry,) = await spool.entries()
    assert entry.turn_id == "t1"
    await spool.delete_turn("t1")

    again = await ask(journal, drawing(picture()), spool=spool)

    assert again.media == ()
    assert "'chart.png', image/png" in again.value


async def test_something_else_in_its_place_is_not_taken_for_it() -> None:
    journal, spool = Journal.memory(), Spool.memory()
    await ask(journal, drawing(picture()), spool=spool)
    (entry,) = await spool.entries()
    await spool.write(entry.id, b"other")

    assert (await ask(journal, drawing(picture()), spool=spool)).media == ()


class Endless:
    """Says nothing of its length, and gives and gives."""

    def stream(self) -> AsyncIterator[bytes]:
        async def zeros() -> AsyncIterator[bytes]:
            while True:
                await anyio.lowlevel.checkpoint()
                yield bytes(1 << 16)

        return zeros()

    def byte_length(self) -> None:
        return None


class Stuck(Endless):
    """Never gives anything."""

    def stream(self) -> AsyncIterator[bytes]:
        async def nothing() -> AsyncIterator[bytes]:
            await anyio.sleep_forever()
            yield b""

        return nothing()


class Broken(Endless):
    """Cannot be read."""

    def stream(self) -> AsyncIterator[bytes]:
        raise OSError("gone")


@pytest.mark.parametrize("reader", [Endless(), Stuck(), Broken()], ids=["endless", "stuck", "broken"])
async def test_media_that_cannot_be_kept_costs_nothing_but_itself(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_media, "MAX_KEPT_BYTES", 1 << 20)
    monkeypatch.setattr(journal_media, "KEEP_SECONDS", 0.2)
    made = Media.tool_generated(reader, kind="audio", mime_type="audio/wav", filename="a.wav")
    warnings: list[Any] = []
    events = Events()
    events.on("warning", warnings.append)
    journal, spool = Journal.memory(), Spool.memory()

    first = await ask(journal, drawing(made), spool=spool, ctx=ToolContext("s1", turn_id="t1", events=events))
    again = await ask(journal, drawing(made), spool=spool)

    assert first.media == (made,)
    assert len(warnings) == 1
    assert await spool.entries() == []
    assert again.value == "drawn\n[media of this answer was not kept: audio 'a.wav', audio/wav, size unknown]"


async def test_media_of_a_call_that_may_be_repeated_is_not_kept() -> None:
    spool = Spool.memory()
    await ask(Journal.memory(), drawing(picture(), read_only=True), spool=spool)

    assert await spool.entries() == []


async def test_a_secret_in_the_name_of_media_is_masked_in_the_journal() -> None:
    async def draw(_args: Any, ctx: ToolContext, _meta: Any) -> Media:
        key = (await ctx.secrets.get("KEY")).reveal()
        stash: Any = {"text:caption": {"value": f"of {key}", "trust_tier": "first-party"}}
        return Media.tool_generated(
            PNG, kind="image", mime_type="image/png", filename=f"{key}.png", source=f"http://x/?k={key}", stash=stash
        )

    tool = make("draw", draw, capabilities=Capabilities(secrets=["KEY"]))
    journal, backends = Journal.memory(), Backends(secrets=SecretsBackend({"KEY": "sk-live-4711"}))
    await ask(journal, tool, backends=backends)
    (entry,) = await journal.list()

    assert entry.result is not None
    assert [media["filename"] for media in entry.result["media"]] == ["***.png"]
    assert "sk-live-4711" not in repr(entry)


def _ignore(_message: str, _error: BaseException) -> None:
    return None


async def test_a_record_in_an_unknown_format_is_an_answer_without_media() -> None:
    media, lost = await journal_media.restore_media([{"kept": "x", "kind": 5}, 7], Spool.memory(), _ignore)
    assert (media, len(lost)) == ((), 2)
    assert "unnamed" in journal_media.format_lost_media(lost)
    assert await journal_media.restore_media("nonsense", None, _ignore) == ((), [])
