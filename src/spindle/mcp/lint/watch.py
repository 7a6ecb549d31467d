"""Watch for poison while a gateway runs: each new or changed definition of an upstream is linted once."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import anyio
from anyio import to_thread

from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.mcp import lint
from spindle.mcp.lint.findings import Finding
from spindle.mcp.lint.subjects import Subject
from spindle.text import shorten

PAUSE_SECONDS: Final = 2.0
"""Between two rounds: a server that changes all the time does not take the gateway's time."""
MAX_WARNINGS: Final = 100
"""Warnings of one server; one with more is reported as such."""
_MAX_SEEN: Final = 20_000


class ListingSource(Protocol):
    """The part of `McpServers` that is watched."""

    def definitions(self) -> Mapping[str, Iterable[JsonObject]]:
        """Return the definitions of each server as listed."""
        ...

    def on_change(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call `fn` after changes; return a function that unsubscribes it."""
        ...


async def watch_poison(servers: ListingSource, events: Events, *, ignore: Iterable[str] = ()) -> None:
    """Emit a warning for each poisoned definition, now and after every change; runs until it is cancelled."""
    watch = PoisonWatch(events, ignore=ignore)
    changed = anyio.Event()

    def wake() -> None:
        changed.set()

    stop = servers.on_change(wake)
    try:
        while True:
            # In a thread: the listings are kept as text, and thousands of tools take long to read.
            for finding in await to_thread.run_sync(lambda: watch.find_new(servers.definitions())):
                watch.warn(finding)
            await changed.wait()
            changed = anyio.Event()
            await anyio.sleep(PAUSE_SECONDS)
    finally:
        stop()


class PoisonWatch:
    """The definitions that were linted, so that each is linted and reported once."""

    def __init__(self, events: Events, *, ignore: Iterable[str] = ()) -> None:
        self._events = events
        self._ignore = tuple(ignore)
        self._seen: set[bytes] = set()
        self._warned: dict[str, int] = {}

    def find_new(self, listings: Mapping[str, Iterable[JsonObject]]) -> list[Finding]:
        """Return the poison in definitions that were not linted before."""
        new: list[Subject] = []
        for server, listed in listings.items():
            for raw in listed:
                key = hashlib.sha256(json.dumps([server, raw], sort_keys=True).encode()).digest()
                if key not in self._seen:
                    new.append(Subject(raw=raw, server=server))
                    self._seen.add(key)
        if len(self._seen) > _MAX_SEEN:
            self._seen.clear()  # some are linted again, which costs time and repeats warnings, but loses none
        # Through the lazy door: the first round, in its thread, pays for the patterns and all that they need.
        return list(lint.lint_poison(new, ignore=self._ignore)) if new else []

    def warn(self, finding: Finding) -> None:
        """Emit a warning that names the tool and the rule."""
        server = finding.server or ""
        count = self._warned[server] = self._warned.get(server, 0) + 1
        if count <= MAX_WARNINGS:
            place = shorten(finding.place, 80)
            message = f"{finding.rule}: the tool {finding.subject} {finding.message}, at {place}: {finding.quote}"
            self._events.warn(f"{message}; see `spindle lint`", source="lint")
        elif count == MAX_WARNINGS + 1:
            self._events.warn(f"MCP server {server!r} has more poisoned definitions; see `spindle lint`", source="lint")
