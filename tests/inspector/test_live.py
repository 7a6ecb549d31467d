"""Live updates: batches, keys, feeds that fail, the number of pages, and the end of a connection."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle.errors import JournalError, RequestConflictError
from spindle.inspector import live
from spindle.inspector.endpoints import PageUser
from spindle.inspector.live import LiveUpdates, Publish, get_listener
from spindle.inspector.workbench import Workbench
from tests.inspector.benching import Bench

pytestmark = pytest.mark.anyio


class Listener:
    """A page that listens, over ASGI; it may leave, or read slowly."""

    def __init__(self) -> None:
        self.text = ""
        self.left = anyio.Event()
        self.is_stuck = False
        self._changed = anyio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.text += message.get("body", b"").decode()
        self._changed.set()
        if self.is_stuck:
            await anyio.sleep_forever()

    async def wait_for(self, text: str) -> None:
        with anyio.fail_after(30):
            while text not in self.text:
                self._changed = anyio.Event()
                await self._changed.wait()

    def read(self, topic: str) -> list[Any]:
        events = [each.split("\n") for each in self.text.split("\n\n")]
        return [json.loads(each[1][6:]) for each in events if each[0] == f"event: {topic}"]


@asynccontextmanager
async def listening(updates: LiveUpdates, *topics: str, **options: Any) -> AsyncGenerator[Listener]:
    listener, response = Listener(), updates.open(set(topics), **options)
    scope = {"type": "http", "method": "GET"}
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(response, scope, listener.receive, listener.send)
            await listener.wait_for("hello")
            yield listener
            listener.left.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(live, "_RETRY_SECONDS", 0.0)


async def test_values_of_one_key_replace_each_other_and_others_are_all_sent() -> None:
    async def feed(_bench: Workbench, publish: Publish) -> None:
        for number in range(3):
            publish({"n": number}, key="state")
            publish({"line": number})
        await anyio.sleep_forever()

    async with listening(LiveUpdates(Bench().bench, {"a": feed}), "a", "unknown") as page:
        await page.wait_for('"line": 2')

    assert page.read("a") == [{"n": 2}, {"line": 0}, {"line": 1}, {"line": 2}]


async def test_feeds_end_when_the_page_leaves_even_if_it_reads_nothing() -> None:
    ended: list[str] = []

    async def feed(_bench: Workbench, publish: Publish) -> None:
        try:
            while True:
                publish({"x": "y"})
                await anyio.lowlevel.checkpoint()
        finally:
            ended.append("feed")

    updates = LiveUpdates(Bench().bench, {"a": feed})
    async with listening(updates, "a") as page:
        page.is_stuck = True
        await page.wait_for('"y"')
        assert updates.pages == 1

    assert (updates.pages, ended) == (0, ["feed"])


async def test_a_feed_that_fails_is_started_again_and_the_others_go_on() -> None:
    starts: list[str] = []

    async def broken(_bench: Workbench, _publish: Publish) -> None:
        starts.append("broken")
        if len(starts) > 2:
            await anyio.sleep_forever()
        raise KeyError("hunter2") if len(starts) % 2 else JournalError("the disk is full")

    async def good(_bench: Workbench, publish: Publish) -> None:
        while len(starts) < 3:
            await anyio.lowlevel.checkpoint()
        publish({"good": True})
        await anyio.sleep_forever()

    async with listening(LiveUpdates(Bench().bench, {"broken": broken, "good": good}), "broken", "good") as page:
        await page.wait_for('"good"')

    assert "the disk is full" in page.text
    assert "hunter2" not in page.text


async def test_a_value_that_is_not_json_is_left_out() -> None:
    async def feed(_bench: Workbench, publish: Publish) -> None:
        publish(float("nan"))
        publish({"ok": 1})
        await anyio.sleep_forever()

    async with listening(LiveUpdates(Bench().bench, {"a": feed}), "a") as page:
        await page.wait_for('"ok"')

    assert page.read("a") == [{"ok": 1}]


async def test_a_slow_page_loses_the_oldest_values_and_is_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_BATCH", 3)

    async def feed(_bench: Workbench, publish: Publish) -> None:
        for number in range(10):
            publish({"n": number})
        await anyio.sleep_forever()

    async with listening(LiveUpdates(Bench().bench, {"a": feed}), "a") as page:
        await page.wait_for('"n": 9')

    assert page.read("a") == [{"n": 7}, {"n": 8}, {"n": 9}]
    assert page.read("lost") == [{"topics": ["a"]}]


async def test_more_pages_than_the_limit_are_refused_until_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PAGES", 1)
    updates = LiveUpdates(Bench().bench, {})
    async with listening(updates):
        with pytest.raises(RequestConflictError):
            updates.open(set())
    async with listening(updates):
        pass


async def test_one_login_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PAGES_OF_ONE", 1)
    updates = LiveUpdates(Bench().bench, {})
    one, other = (PageUser(session=name, role="viewer", by=name) for name in ("one", "other"))
    async with listening(updates, user=one), listening(updates, user=other):
        with pytest.raises(RequestConflictError):
            updates.open(set(), one)
    async with listening(updates, user=one):
        assert updates.pages == 1


async def test_a_profile_has_no_more_room_by_logging_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PAGES_OF_ONE", 2)
    monkeypatch.setattr(live, "MAX_PAGES", 5)
    updates = LiveUpdates(Bench().bench, {})

    def log_in(name: str, profile: str | None) -> PageUser:
        return PageUser(session=name, role="viewer", by=name, profile=profile)

    async with listening(updates, user=log_in("a", "reader")), listening(updates, user=log_in("b", "reader")):
        with pytest.raises(RequestConflictError):
            updates.open(set(), log_in("c", "reader"))
        async with listening(updates, user=log_in("d", "writer")):
            with pytest.raises(RequestConflictError):
                updates.open(set(), log_in("e", "other"))
            async with listening(updates, user=log_in("f", None)), listening(updates, user=log_in("f", None)):
                assert updates.pages == 5
    async with listening(updates, user=log_in("e", "other")):
        assert updates.pages == 1


async def test_pages_that_were_opened_together_do_not_exceed_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PAGES", 1)
    updates = LiveUpdates(Bench().bench, {})
    late, response = Listener(), updates.open(set())
    async with listening(updates):
        await response({"type": "http", "method": "GET"}, late.receive, late.send)

    assert late.text == ""


async def test_a_page_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STUCK_SECONDS", 0.01)
    updates = LiveUpdates(Bench().bench, {})
    stuck, response = Listener(), updates.open(set())

    async def send(message: Any) -> None:
        stuck.is_stuck = message["type"] == "http.response.body"
        await stuck.send(message)

    with anyio.fail_after(20):
        await response({"type": "http", "method": "GET"}, stuck.receive, send)

    assert updates.pages == 0


async def test_a_stream_ends_when_the_server_stops() -> None:
    updates = LiveUpdates(Bench().bench, {})
    async with listening(updates):
        updates.close()
        while updates.pages:
            await anyio.lowlevel.checkpoint()


async def test_a_stream_ends_after_its_user_has_logged_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_BEAT_SECONDS", 0.0)

    async def is_logged_in() -> bool:
        return False

    updates = LiveUpdates(Bench().bench, {})
    async with listening(updates, is_logged_in=is_logged_in):
        while updates.pages:
            await anyio.lowlevel.checkpoint()


async def test_a_feed_knows_whose_page_it_runs_for() -> None:
    seen: list[PageUser | None] = []

    async def feed(_bench: Workbench, publish: Publish) -> None:
        seen.append(get_listener())
        publish({"done": 1})
        await anyio.sleep_forever()

    user = PageUser(session="s", role="viewer", by="ann", profile="reader")
    async with listening(LiveUpdates(Bench().bench, {"a": feed}), "a", user=user) as page:
        await page.wait_for('"done"')

    assert seen == [user]
    assert get_listener() is None
