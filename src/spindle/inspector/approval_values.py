"""The arguments of a call that waits, value by value: how each is shown, and whether untrusted content wrote it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import anyio

from spindle.concurrency import WorkerThreads
from spindle.errors import SpindleError
from spindle.execution.approval_text import reveal
from spindle.execution.flow_explanation import ExplainedValue, Origin, explain_flow
from spindle.execution.flow_history import MAX_ENTRIES
from spindle.inspector.endpoints import ApiModel
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.trust.flow.ledger import to_text
from spindle.trust.flow.policy import FlowPolicy

if TYPE_CHECKING:
    from spindle.execution.tickets import StoredTicket

MAX_VALUES: Final = 1_000
"""Further values are counted, and shown with the arguments as a whole."""
MAX_VALUE_CHARS: Final = 20_000
_EXPLAIN_SECONDS: Final = 3.0
_MAX_DEPTH: Final = 200
_WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_THREADS: Final = WorkerThreads()


class ApprovalValue(ApiModel):
    """One value in the arguments of a call."""

    path: str
    """Such as `items[0].name`; a name that is not one word is quoted, as in `items["a.b"]`."""
    text: str
    """As it is shown: quoted if it is text, and with invisible characters as numbers."""
    more_chars: int = 0
    """How many characters are left out of `text`."""
    origin: Origin | None = None
    """Where the value comes from, if that is known; `foreign` if only untrusted results have it."""
    detail: str | None = None


class ShownValues(NamedTuple):
    """The values of a call."""

    values: list[ApprovalValue]
    more: int
    """How many values are left out."""
    origins: Literal["known", "unknown"]
    """Whether it could be found out where the values come from."""


async def show_values(bench: Workbench, ticket: "StoredTicket") -> ShownValues:
    """Return the values of a call that waits, with their origins if the journal has the past of its session."""
    args: JsonObject = ticket.facts["args"]
    explained = await _explain(bench, ticket)
    known = {} if explained is None else {(each.path, each.value): each for each in explained}
    if not isinstance(bench.policy, FlowPolicy):  # without a policy, no values are expected to be vouched for
        known = {key: each for key, each in known.items() if each.origin != "nowhere"}
    # A name that the caller chose is a value, too.
    names = {each.value for each in known.values() if each.origin == "foreign"} if known else set[str]()
    found = list(islice(_walk(args), MAX_VALUES + 1))
    values = [_build(path, plain, value, known, names) for path, plain, value in found[:MAX_VALUES]]
    more = 0 if len(found) <= MAX_VALUES else sum(1 for _ in _walk(args)) - MAX_VALUES
    return ShownValues(values, more, "unknown" if explained is None else "known")


def _build(
    path: str, plain: str, value: JsonValue, known: Mapping[tuple[str, str], ExplainedValue], names: set[str]
) -> ApprovalValue:
    shown = f'"{reveal(value[:MAX_VALUE_CHARS])}"' if isinstance(value, str) else _to_json_text(value)
    more = max(0, len(value) - MAX_VALUE_CHARS) if isinstance(value, str) else 0
    given = known.get((plain, to_text(value))) if isinstance(value, (str, int, float)) else None
    origin, detail = (None, None) if given is None else (given.origin, reveal(given.detail))
    if origin != "foreign" and not names.isdisjoint(plain.split(".")):
        origin, detail = "foreign", "its name is only in a result that is not trusted"
    return ApprovalValue(path=path, text=shown, more_chars=more, origin=origin, detail=detail)


async def _explain(bench: Workbench, ticket: "StoredTicket") -> tuple[ExplainedValue, ...] | None:
    """Return the origins of the values of a call; `None` if the journal does not say, or it takes too long."""
    key, session = ticket.record.group, ticket.facts["session_id"]
    if key is None:
        return None
    policy = bench.policy if isinstance(bench.policy, FlowPolicy) else FlowPolicy()
    try:
        with anyio.fail_after(_EXPLAIN_SECONDS):
            call = await bench.journal.find(key)
            if call is None:
                return None
            is_alone = session is None or _is_typed(ticket)
            entries = [call] if is_alone else await bench.journal.list(limit=MAX_ENTRIES, session_id=session)
            if not call.attempts and call.code is not None:
                # It was asked about, and not run: judge it as it would run now.
                start = call.started_at if call.ended_at is None else min(call.started_at, call.ended_at)
                call = replace(call, state="started", code=None, error=None, started_at=start, ended_at=None)
            entries = [*(each for each in entries if each.idempotency_key != key), call]
            explained = await _THREADS.run_abandonable(explain_flow, entries, bench.registry, policy, call)
    except (SpindleError, TimeoutError):
        return None
    return explained.values


def _is_typed(ticket: "StoredTicket") -> bool:
    """Return whether a person typed the arguments into the form of a tool: what was read before did not write them."""
    caller = ticket.facts.get("caller")
    return is_object(caller) and "page" in caller and "replay_of" not in caller


def _walk(value: JsonValue, path: str = "", plain: str = "", depth: int = 0) -> Iterator[tuple[str, str, JsonValue]]:
    """Yield each value with its path, and with its path without positions, by which the flow policy names it."""
    if depth > _MAX_DEPTH and isinstance(value, (dict, list)):
        yield path, plain, f"a value at depth {depth}"
    elif is_object(value) and value:
        for name, part in value.items():
            yield from _walk(part, _join(path, name), f"{plain}.{name}" if plain else name, depth + 1)
    elif is_array(value) and value:
        for number, part in enumerate(value):
            yield from _walk(part, f"{path}[{number}]", plain, depth + 1)
    else:
        yield path, plain, value


def _join(path: str, name: str) -> str:
    """Add a name to a path so that no other names make the same one: `a.b` is not the member `b` of `a`."""
    if _WORD.fullmatch(name) is None:
        return f'{path}["{reveal(name)}"]'
    return f"{path}.{name}" if path else name


def _to_json_text(value: JsonValue) -> str:
    return "{}" if is_object(value) else "[]" if is_array(value) else json.dumps(value)
