"""The state of a turn as one JSON value: built from a running turn, signed, checked, and read again.

Secret arguments and the stash are sealed under the state key; everything else can be read. `FORMAT` is raised whenever
the meaning of a field changes, and `MIGRATIONS` then converts older states.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from spindle.calls import Call, ToolCallRecord
from spindle.errors import (
    InvalidToolArgsError,
    InvalidTurnStateError,
    NotCanonicalError,
    SecretError,
    UnsavableTurnError,
)
from spindle.execution.state_key import StateKey
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.tools.arguments import build_redactor, mask_arguments, read_arguments
from spindle.tools.context import find_ledger
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.identity import canonical_json
from spindle.tools.registry import ToolRegistry
from spindle.turns import flow_parts
from spindle.turns.call_progress import CallProgress, Decision, WaitingGate
from spindle.turns.context import DispatchContext
from spindle.turns.state_content import ContentReader, ContentWriter, to_plain_json

if TYPE_CHECKING:
    from spindle.media import Media
    from spindle.turns.record_types import MessageLike

FORMAT: Final = 1
"""The format of the states that this version writes."""
MIGRATIONS: Final[Mapping[int, Callable[[JsonObject], JsonObject]]] = {}
"""From each older format to the next one; a format that is missing here is refused."""

_PURPOSE: Final = "spindle turn state"
_TEXTS: Final = ("results", "shown", "raw_args")
_KINDS: Final = ("thought", "memory", "retrievable", "tool_call")


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedTurn:
    """What a state contains, read and checked."""

    signed: JsonObject
    """The state as it was given."""
    state: JsonObject
    private: JsonObject
    step: int
    """The version of the turn's record in the journal when the state was made."""

    @property
    def turn_id(self) -> str:
        """The id of the turn."""
        return self.state["turn_id"]

    @property
    def waiting(self) -> set[str]:
        """The tickets and gate ids that the turn waits for."""
        return {each["id"] for each in self.state["pending"]}


class StateWriter:
    """Builds the states of one running turn."""

    def __init__(self, ctx: DispatchContext, key: StateKey, callback: object) -> None:
        self._ctx = ctx
        self._key = key
        self._callback = callback
        turn = ctx.turn
        self._content = ContentWriter(turn.spool, session_id=turn.session_id, turn_id=turn.id, events=turn.events)

    async def build(
        self, calls: Sequence[CallProgress], *, step: int, status: str, text: str = "", **facts: JsonValue
    ) -> JsonObject:
        """Return the signed state of the turn as it is now.

        Raises:
            UnsavableTurnError: A part of the turn is not JSON.
        """
        ctx, turn = self._ctx, self._ctx.turn
        records, private_records = await self._write_records()
        shown, private_calls = await self._write_calls(calls)
        private: JsonObject = {
            "stash": to_plain_json(turn.stash.all(), "stash"),
            "records": private_records,
            "calls": private_calls,
            "callback": self._save_callback(),
        }
        ledger = find_ledger(ctx.tool_context())
        if ledger is not None or turn.flow_feed is not None:
            private["flow"] = flow_parts.save_flow(turn, ledger)
        state: JsonObject = {
            "format": FORMAT,
            "spindle": _get_version(),
            "key": self._key.id,
            "turn_id": turn.id,
            "session_id": turn.session_id,
            "step": step,
            "status": status,
            "text": text,
            "created_at": datetime.now(UTC).isoformat(),
            "iteration": ctx.iteration,
            "usage": to_plain_json(ctx.usage, "usage"),
            "system_prompt": turn.system_prompt,
            "caller": turn.caller,
            "settings": {
                "dry_run": turn.dry_run,
                "working_dir": None if turn.working_dir is None else str(turn.working_dir),
                "filter": _write_filter(turn.filter),
                "tainted": ctx.tool_context().tainted,
            },
            "messages": [await self._content.write_message(each) for each in turn.messages],
            "records": records,
            "attachments": [await self._content.write_media(each) for each in turn.given_attachments],
            "calls": shown,
            "pending": [_describe_wait(item, turn.tools) for item in calls if item.waits_for is not None],
            **facts,
        }
        sealed = self._key.seal(json.dumps(private).encode(), bound=f"turn {turn.id} {step}")
        return sign_state({**state, "sealed": base64.b64encode(sealed).decode()}, self._key)

    def _save_callback(self) -> JsonValue:
        """Return what the model callback wants to have again; without it, it reads the records of the turn."""
        save = getattr(self._callback, "save_state", None)
        try:
            return json.loads(json.dumps(save(self._ctx))) if callable(save) else None
        except (TypeError, ValueError) as error:
            self._ctx.events.warn("the model callback cannot be saved with the turn", source="journal", error=error)
            return None

    async def _write_records(self) -> tuple[JsonObject, JsonObject]:
        turn = self._ctx.turn
        written: JsonObject = {}
        private: JsonObject = {}
        for kind in _KINDS:
            plain = [await self._content.write_record(each) for each in getattr(turn.records, kind)]
            if kind == "tool_call":
                pairs = [_protect(each, turn.tools) for each in plain]
                plain = [public for public, _ in pairs]
                private = {str(place): kept for place, (_, kept) in enumerate(pairs) if kept}
            written[kind] = plain
        return written, private

    async def _write_calls(self, calls: Sequence[CallProgress]) -> tuple[list[JsonObject], list[JsonObject]]:
        shown: list[JsonObject] = []
        private: list[JsonObject] = []
        for item in calls:
            call, tool = item.call, self._ctx.tools.get(item.call.name)
            record, kept = (None, {}) if item.record is None else (await self._content.write_record(item.record), {})
            if record is not None:
                record, kept = _protect(record, self._ctx.tools)
            public: JsonObject = {"id": call.tool_call_id, "tool": call.name, "args": _mask_call(call, tool)}
            shown.append({**public, "fingerprint": item.fingerprint, "record": record, "waits_for": item.waits_for})
            private.append(
                {
                    "args": _write_args(call),
                    "record": kept,
                    "ticket": item.ticket,
                    "gate": None if item.gate is None else list(item.gate),
                    "decision": None if item.decision is None else list(item.decision),
                    "answers": item.answers,
                    "problem": item.problem,
                }
            )
        return shown, private


def sign_state(state: JsonObject, key: StateKey) -> JsonObject:
    """Return a state with its signature.

    Raises:
        UnsavableTurnError: It has a number that JSON cannot represent.
    """
    return {**state, "signature": key.sign(_digest(state), bound=_PURPOSE)}


def amend_state(state: JsonObject, key: StateKey, *, step: int, **facts: JsonValue) -> JsonObject:
    """Return a signed state of a later step with other facts; what was sealed stays the same."""
    saved = read_state(state, key)
    sealed = key.seal(json.dumps(saved.private).encode(), bound=f"turn {saved.turn_id} {step}")
    kept = {name: value for name, value in saved.state.items() if name != "private"}
    facts = {"key": key.id, "step": step, "sealed": base64.b64encode(sealed).decode(), **facts}
    return sign_state({**kept, **facts}, key)


def read_state(given: object, key: StateKey) -> SavedTurn:
    """Check a state, convert it from an older format, and unseal its private part.

    Raises:
        InvalidTurnStateError: It cannot be resumed here.
    """
    if isinstance(given, Mapping):
        given = dict(cast("Mapping[str, JsonValue]", given))
    if not is_object(given) or type(given.get("format")) is not int:
        raise InvalidTurnStateError("Expected the state of a suspended turn (TurnReport.state).", reason="invalid")
    state = dict(given)
    number: int = state["format"]
    if number != FORMAT and number not in MIGRATIONS:
        action = "upgrade Spindle" if number > FORMAT else "resume it with the version that wrote it"
        raise InvalidTurnStateError(
            f"The state of the turn has the format {number}, and this version reads {FORMAT}; {action}.",
            reason="format",
            format=number,
        )
    key_id, signature = state.get("key"), state.pop("signature", None)
    if isinstance(key_id, str) and not key.knows(key_id):
        raise InvalidTurnStateError(
            "The state of the turn was made with another state key; pass that key too: state_key=[new, old].",
            reason="foreign",
        )
    if not isinstance(signature, str) or not _is_signed(state, signature, key):
        raise InvalidTurnStateError("The state of the turn was changed; nothing was run.", reason="tampered")
    try:
        sealed = base64.b64decode(state["sealed"])
        private = json.loads(key.unseal(sealed, bound=f"turn {state['turn_id']} {state['step']}"))
    except (SecretError, binascii.Error, ValueError, LookupError) as error:
        raise InvalidTurnStateError("The state of the turn was changed; nothing was run.", reason="tampered") from error
    step: int = state["step"]
    whole: JsonObject = {**state, "private": private}
    while (number := whole["format"]) != FORMAT:
        whole = MIGRATIONS[number](whole)
    return SavedTurn(signed=dict(given), state=whole, private=whole["private"], step=step)


class RestoredTurn(NamedTuple):
    """The parts of a saved turn, as a running turn takes them."""

    messages: "list[MessageLike]"
    records: dict[str, list[Any]]
    attachments: "list[Media]"
    calls: list[CallProgress]
    filter: ToolFilter | None


async def restore_turn(saved: SavedTurn, content: ContentReader) -> RestoredTurn:
    """Read the messages, the records and the calls of a saved turn."""
    state, private = saved.state, saved.private
    records: dict[str, list[Any]] = {}
    for kind in _KINDS:
        plain = state["records"][kind]
        if kind == "tool_call":
            plain = [each | private["records"].get(str(place), {}) for place, each in enumerate(plain)]
        records[kind] = [await content.read_record(kind, each) for each in plain]
    calls: list[CallProgress] = []
    for public, kept in zip(state["calls"], private["calls"], strict=True):
        plain = public["record"]
        record = None if plain is None else await content.read_call(plain | kept["record"])
        calls.append(_read_call(public, kept, record))
    return RestoredTurn(
        [await content.read_message(each) for each in state["messages"]],
        records,
        [await content.read_media(each) for each in state["attachments"]],
        calls,
        _read_filter(state["settings"]["filter"]),
    )


def _read_call(public: JsonObject, kept: JsonObject, record: ToolCallRecord | None) -> CallProgress:
    gate, decision = kept["gate"], kept["decision"]
    return CallProgress(
        Call(public["id"], public["tool"], _read_args(kept["args"])),
        public["fingerprint"],
        record,
        kept["ticket"],
        None if gate is None else WaitingGate(*gate),
        None if decision is None else Decision(*decision),
        kept["answers"],
        kept["problem"],
    )


def _describe_wait(item: CallProgress, tools: ToolRegistry) -> JsonObject:
    """Return what a person needs to answer: the question, without secrets."""
    tool = tools.get(item.call.name)
    shown: JsonObject = {
        "id": item.waits_for,
        "tool": item.call.name,
        "tool_call_id": item.call.tool_call_id,
        "args": _mask_call(item.call, tool),
    }
    if item.gate is None:
        return {**shown, "kind": "approval", "problem": item.problem}
    gate, redactor = item.gate, build_redactor(_parse_args(item.call), () if tool is None else tool.secret_fields)
    question = {"reason": gate.reason, "payload": gate.payload, "problem": gate.problem}
    return {**shown, "kind": "gate", **redactor.redact_value(question)}


def _protect(plain: JsonObject, tools: ToolRegistry) -> tuple[JsonObject, JsonObject]:
    """Split the record of a call into what may be read, and the exact values of what was masked."""
    tool = tools.get(plain["tool"])
    if tool is None:  # its secret fields are not known
        public: JsonObject = {**plain, "args": {}, "raw_args": None}
    elif not tool.secret_fields:
        return plain, {}
    else:
        redactor = build_redactor(plain["args"], tool.secret_fields)
        public = {**plain, "args": mask_arguments(plain["args"], tool.secret_fields)}
        public |= {name: redactor.redact_value(plain[name]) for name in _TEXTS}
    return public, {name: value for name, value in plain.items() if public[name] != value}


def _mask_call(call: Call, tool: Tool | None) -> JsonValue:
    """Return the arguments of a call without secrets; none if it is not known which ones are secret."""
    args = None if tool is None else _parse_args(call)
    return {} if tool is None or args is None else mask_arguments(args, tool.secret_fields)


def _parse_args(call: Call) -> JsonObject | None:
    try:
        return read_arguments(call.args, tool=call.name, empty_ok=True)
    except InvalidToolArgsError:
        return None


def _write_args(call: Call) -> JsonObject:
    if isinstance(call.args, bytes):
        return {"bytes": base64.b64encode(call.args).decode()}
    return {"json": to_plain_json(dict(call.args) if isinstance(call.args, Mapping) else call.args, "calls")}


def _read_args(plain: JsonObject) -> Any:
    return base64.b64decode(plain["bytes"]) if "bytes" in plain else plain["json"]


def _write_filter(filter: ToolFilter | None) -> JsonValue:
    if filter is None:
        return None
    lists = {name: getattr(filter, name) for name in _FILTER_LISTS}
    written: JsonObject = {name: None if names is None else sorted(names) for name, names in lists.items()}
    by_server = filter.allowed_mcp_tools
    written["allowed_mcp_tools"] = None if by_server is None else {name: sorted(by_server[name]) for name in by_server}
    return written


_FILTER_LISTS: Final = (
    *("allowed_tools", "allowed_mcp_servers", "allowed_plugins", "exclude_tools"),
    *("allowed_resources", "allowed_prompts"),
)


def _read_filter(plain: JsonValue) -> ToolFilter | None:
    return ToolFilter(**plain) if is_object(plain) else None


def _digest(state: JsonObject) -> str:
    try:
        return sha256(canonical_json(state)).hexdigest()
    except NotCanonicalError as error:
        raise UnsavableTurnError(f"The turn cannot be saved: {error}", field="state") from error


def _is_signed(state: JsonObject, signature: str, key: StateKey) -> bool:
    try:
        digest = _digest(state)
    except UnsavableTurnError:
        return False
    return signature.startswith(f"{digest}.") and key.verify(signature, bound=_PURPOSE)


@cache
def _get_version() -> str:
    try:
        return version("spindle")
    except PackageNotFoundError:
        return "unknown"
