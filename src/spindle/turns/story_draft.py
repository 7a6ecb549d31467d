"""The story of a turn while it is written: a JSON value that grows with the turn, and stays within its bounds.

What does not fit is shortened for good: first the texts, then iterations in the middle are left out.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from spindle.calls import ArtifactLike, Call, ToolCallRecord
from spindle.execution.call_state import compute_call_checksum
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping
from spindle.text import escape_surrogates, shorten
from spindle.tools.identity import idempotency_key
from spindle.turns.context_shares import read_message
from spindle.turns.story import FORMAT

if TYPE_CHECKING:
    from spindle.turns.call_progress import CallProgress
    from spindle.turns.context import TurnContext

MAX_TEXT_CHARS: Final = 2_000
MAX_ITERATIONS: Final = 200
MAX_RECORD_BYTES: Final = 64 * 1024
_MAX_CALLS: Final = 50
"""Of one iteration."""
_MAX_GATES: Final = 100
_MAX_ARTIFACTS: Final = 200
_MAX_USAGE: Final = 30
_MAX_NAME_CHARS: Final = 200
_MAX_ID_CHARS: Final = 500
_MAX_CALLER_CHARS: Final = 2_000
_KEPT_FIRST: Final = 20
"""Iterations at the beginning of a long turn that are kept; later ones make room for the newest."""


class StoryDraft:
    """The story of one turn; what is put into it has to be free of secrets."""

    def __init__(self, turn: "TurnContext", iteration_count: int) -> None:
        now = build_time()
        self._text_chars = MAX_TEXT_CHARS
        self.facts: JsonObject = {
            "format": FORMAT,
            "turn_id": turn.id,
            "session_id": turn.session_id,
            "status": "running",
            "caller": _limit_caller(turn.events.redact(turn.caller)),
            "dry_run": turn.dry_run,
            "started_at": now,
            "updated_at": now,
            "ended_at": None,
            "request": self.shorten(turn.events.redact(_find_request(turn.messages))),
            "text": "",
            "error": None,
            "iteration_count": iteration_count,
            "call_count": 0,
            "error_count": 0,
            "resumed_count": 0,
            "iterations": [],
            "iterations_omitted": 0,
            "gates": [],
            "artifacts": [],
            "usage": {},
            "context": [],
        }

    @property
    def iterations(self) -> list[JsonObject]:
        """The iterations that are kept."""
        return self.facts["iterations"]

    def shorten(self, text: str) -> str:
        """Return a text as short as the texts of this story are."""
        return shorten(text, self._text_chars)

    def begin_iteration(self, number: int, calls: "Sequence[CallProgress] | None") -> JsonObject:
        """Add an iteration; with `calls`, the last one goes on if it has this number."""
        last = self.iterations[-1] if self.iterations and self.iterations[-1]["number"] == number else None
        if last is not None and calls is not None:
            return last
        if last is not None:  # a process died in it, and the model is asked again
            self.iterations.pop()
        added: JsonObject = {"number": number, "started_at": build_time(), "ended_at": None, "text": "", "thoughts": ""}
        added |= {"calls": [], "calls_omitted": 0, "usage": {}}
        self.iterations.append(added)
        self._drop_middle(MAX_ITERATIONS)
        self.facts["iteration_count"] = max(self.facts["iteration_count"], number + 1)
        self.add_calls(added, [item.call for item in calls or ()])
        return added

    def add_calls(self, iteration: JsonObject, calls: Iterable[Call]) -> None:
        """Add the calls that a model asked for."""
        for call in calls:
            if len(iteration["calls"]) >= _MAX_CALLS:
                iteration["calls_omitted"] += 1
            else:
                iteration["calls"].append(self._build_call(call))

    def _build_call(self, call: Call) -> JsonObject:
        key = self._build_key(call.tool_call_id, compute_call_checksum(call))
        named: JsonObject = {"tool_call_id": cut_name(call.tool_call_id), "tool": cut_name(call.name), "key": key}
        return {**named, "is_done": False, "code": None, "chars": None, "artifact_id": None}

    def _build_key(self, call_id: str, checksum: str) -> str:
        return idempotency_key(self.facts["session_id"], self.facts["turn_id"], escape_surrogates(call_id), checksum)

    def settle_call(self, iteration: JsonObject, record: ToolCallRecord) -> None:
        """Add what became of a call; one that the model did not ask for is added."""
        name, key = cut_name(record.id), self._build_key(record.id, record.checksum)
        same: list[JsonObject] = [each for each in iteration["calls"] if each["tool_call_id"] == name]
        known = [each for each in same if not each["is_done"]] or [each for each in same if each["key"] == key]
        if not known:
            if len(iteration["calls"]) >= _MAX_CALLS:
                iteration["calls_omitted"] += 1
                return
            known = [self._build_call(Call(record.id, record.tool))]
            iteration["calls"] += known
        shown = record.shown if record.shown is not None else record.results
        place = f"{self.facts['session_id']}/{self.facts['turn_id']}/{escape_surrogates(record.id)}"
        has_artifact = isinstance(record.results, ArtifactLike) and len(place) <= _MAX_ID_CHARS
        known[0] |= {"is_done": True, "code": record.code, "key": key, "artifact_id": place if has_artifact else None}
        known[0]["chars"] = len(shown) if isinstance(shown, str) else None
        artifacts: list[JsonObject] = self.facts["artifacts"]
        if has_artifact and len(artifacts) < _MAX_ARTIFACTS and all(each["id"] != place for each in artifacts):
            made: JsonObject = {"id": place, "tool": cut_name(record.tool), "tool_call_id": name}
            artifacts.append({**made, "iteration": iteration["number"]})

    def put_gate(self, id: str, **facts: JsonValue) -> None:
        """Add facts to the open gate of an id; with its `kind`, a new one is added if there is none."""
        gates: list[JsonObject] = self.facts["gates"]
        known = next((each for each in gates if each["id"] == id and each["closed_at"] is None), None)
        if known is not None:
            known |= {name: value for name, value in facts.items() if value not in (None, "")}
        elif "kind" in facts and len(gates) < _MAX_GATES:
            empty: JsonObject = dict.fromkeys(("tool", "tool_call_id", "closed_at", "result", "answer", "by"))
            number = self.iterations[-1]["number"] if self.iterations else 0
            gates.append({"id": id, "iteration": number, "opened_at": build_time(), "reason": "", **empty, **facts})

    def close_answered(self, item: "CallProgress") -> None:
        """Close the gates of a call whose answers came when the turn was resumed."""
        for gate in self.facts["gates"]:
            if gate["closed_at"] is not None or gate["tool_call_id"] != cut_name(item.call.tool_call_id):
                continue
            if gate["id"] in item.answers:
                answer = describe_answer(item.answers[gate["id"]])
                gate |= {"result": "resolved", "answer": answer, "closed_at": build_time()}
            elif gate["kind"] == "approval" and item.decision is not None:
                approved, args, by = item.decision
                gate |= {"result": "approved" if approved else "denied", "by": by, "closed_at": build_time()}
                gate["answer"] = approved if args is None else "with edited arguments"

    def close_gates(self) -> None:
        """Close the gates of a turn that has ended."""
        for gate in self.facts["gates"]:
            if gate["closed_at"] is None:
                gate |= {"result": "aborted", "closed_at": build_time()}

    def write(self) -> str:
        """Return the story as JSON of at most `MAX_RECORD_BYTES`; what does not fit is shortened for good."""
        while len(data := json.dumps(self.facts, allow_nan=False)) > MAX_RECORD_BYTES:
            if self._text_chars > _MAX_NAME_CHARS:
                self._text_chars //= 2
                for each in self.iterations:
                    each |= {name: self.shorten(each[name]) for name in ("text", "thoughts")}
                for each in self.facts["gates"]:
                    each["reason"] = self.shorten(each["reason"])
            elif len(self.iterations) > 1:
                self._drop_middle(len(self.iterations) * 3 // 4)
            elif self.facts["artifacts"] or self.facts["gates"]:
                self.facts |= {"gates": [], "artifacts": []}
            else:  # the names of its calls are long
                self.facts["iterations_omitted"] += len(self.iterations)
                self.facts |= {"iterations": [], "caller": None, "context": self.facts["context"][:5]}
                self.facts |= {name: self.shorten(self.facts[name] or "") for name in ("request", "text", "error")}
                return json.dumps(self.facts, allow_nan=False)
        return data

    def _drop_middle(self, most: int) -> None:
        if len(self.iterations) > most:
            first, dropped = min(_KEPT_FIRST, most // 2), len(self.iterations) - most
            self.facts["iterations"] = [*self.iterations[:first], *self.iterations[first + dropped :]]
            self.facts["iterations_omitted"] += dropped


def build_time() -> str:
    """Return the time now, as a story has it."""
    return datetime.now(UTC).isoformat()


def cut_name(text: object) -> str:
    """Return the beginning of a name or id."""
    return shorten(str(text), _MAX_NAME_CHARS)


def describe_answer(answer: object) -> JsonValue:
    """Return an answer as it may be read by all: a text or an object may be secret, and is described only."""
    if answer is None or isinstance(answer, (bool, int)):
        return answer
    if isinstance(answer, float):
        return answer if math.isfinite(answer) else str(answer)
    if isinstance(answer, str):
        return f"a text of {len(answer)} characters"
    if is_mapping(answer):
        return f"an object of {len(answer)} fields"
    return f"a list of {len(answer)} items" if is_list_or_tuple(answer) else f"a {type(answer).__name__}"


def add_usage(known: JsonObject, now: Mapping[str, Any], before: Mapping[str, Any]) -> JsonObject:
    """Return the figures by which a usage has grown, added to those that are known."""
    added = dict(known)
    for name, value in now.items():
        grown = value - before.get(name, 0) if _is_number(value) and _is_number(before.get(name, 0)) else 0
        if grown and (cut_name(name) in added or len(added) < _MAX_USAGE):
            added[cut_name(name)] = added.get(cut_name(name), 0) + grown
    return added


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _find_request(messages: Sequence[object]) -> str:
    for message in reversed(messages):
        role, text = read_message(message)
        if role == "user" and text:
            return text
    return ""


def _limit_caller(caller: JsonObject | None) -> JsonObject | None:
    if caller is None or len(json.dumps(caller)) <= _MAX_CALLER_CHARS:
        return caller
    return {cut_name(name): describe_answer(value) for name, value in list(caller.items())[:10]}
