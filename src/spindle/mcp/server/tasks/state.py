"""The state of one task, and the only transitions it may make; no I/O.

A task works, may wait for input and work again, and ends exactly once: completed, failed or cancelled.
"""

import json
from dataclasses import dataclass, field, replace
from secrets import token_urlsafe
from typing import Final, Literal, TypeAlias

from spindle.json_types import JsonObject
from spindle.text import shorten

Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""`failed` means a protocol error; a tool's own error is `completed` with `is_error`."""

ENDS: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled"})
MAX_MESSAGE_CHARS: Final = 500
_ID_BYTES: Final = 24


def create_task_id() -> str:
    """Return a new task id, which cannot be guessed."""
    return token_urlsafe(_ID_BYTES)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskState:
    """What is known about a task; a change is a copy."""

    id: str
    owner: str
    """The only one that may see the task: the token of the request that created it, or the pipe."""
    session: str
    """The key of the session that made the call, under which the journal knows it."""
    call_id: str
    tool: str
    process: str
    """The server that runs the call."""
    created_at: int
    """In microseconds since 1970, as all times of records."""
    updated_at: int
    ttl_ms: int
    status: Status = "working"
    message: str | None = None
    requests: JsonObject = field(default_factory=dict[str, object])
    """The open questions to the client by their keys, as they are sent."""
    asked: int = 0
    """How many questions were asked so far; their keys are never used again."""
    is_error: bool = False
    """Whether the tool returned an error."""
    is_waiting: bool = False
    """Whether the call waits for an approval in the journal, and no process runs it."""
    has_artifact: bool = False
    """Whether the result is only the beginning of an artifact that can be read."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ENDS

    @property
    def expires_at(self) -> int:
        """When the task is forgotten."""
        return self.created_at + self.ttl_ms * 1_000

    def ask(self, requests: JsonObject, *, now: int) -> "TaskState | None":
        """Return the state in which the client is asked; `None` if the task has ended."""
        if self.is_ended:
            return None
        return replace(
            self,
            status="input_required" if requests else "working",
            requests=requests,
            asked=self.asked + len(requests),
            updated_at=now,
            is_waiting=False,
        )

    def answer(self, keys: frozenset[str], *, now: int) -> "TaskState | None":
        """Return the state without the questions that were answered; `None` if the task has ended."""
        if self.is_ended:
            return None
        left = {key: request for key, request in self.requests.items() if key not in keys}
        return replace(self, status="input_required" if left else "working", requests=left, updated_at=now)

    def wait(self, message: str, *, now: int) -> "TaskState | None":
        """Return the state in which the call waits for an approval elsewhere; `None` if the task has ended."""
        if self.is_ended:
            return None
        return replace(
            self,
            status="working",
            requests={},
            is_waiting=True,
            message=shorten(message, MAX_MESSAGE_CHARS),
            process="",
            updated_at=now,
        )

    def take_over(self, process: str, *, call_id: str | None = None) -> "TaskState | None":
        """Return the state in which another process runs the call; `None` if the task has ended."""
        if self.is_ended:
            return None
        return replace(
            self, process=process, call_id=call_id or self.call_id, status="working", requests={}, is_waiting=False
        )

    def end(
        self,
        status: Literal["completed", "failed", "cancelled"],
        *,
        now: int,
        message: str | None = None,
        is_error: bool = False,
        has_artifact: bool = False,
    ) -> "TaskState | None":
        """Return the last state; `None` if the task has ended already."""
        if self.is_ended:
            return None
        return replace(
            self,
            status=status,
            message=None if message is None else shorten(message, MAX_MESSAGE_CHARS),
            requests={},
            is_waiting=False,
            is_error=is_error,
            has_artifact=has_artifact,
            updated_at=now,
        )


_FIELDS: Final = (
    *("owner", "session", "call_id", "tool", "process", "updated_at", "ttl_ms", "message", "requests", "asked"),
    *("is_error", "is_waiting", "has_artifact"),
)


def dump_state(state: TaskState) -> str:
    """Serialize a state for its record, without its id, status and time of creation."""
    return json.dumps({name: getattr(state, name) for name in _FIELDS})


def load_state(id: str, status: str, created_at: int, data: str) -> TaskState:
    """Read a state from its record."""
    found: JsonObject = json.loads(data)
    known = {name: found[name] for name in _FIELDS}
    return TaskState(id=id, status=_read_status(status), created_at=created_at, **known)


def _read_status(status: str) -> Status:
    for known in ("working", "input_required", "completed", "failed", "cancelled"):
        if status == known:
            return known
    raise ValueError(f"unknown status of a task: {status!r:.80}")
