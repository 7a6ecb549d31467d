"""Calls assembled from the deltas of a response; a call that is not complete never runs."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from spindle.bridges.definitions import Definitions, new_call_id
from spindle.bridges.provider import ResponseDelta
from spindle.bridges.provider_limits import ProviderLimits, wire_name
from spindle.bridges.wire import is_mapping
from spindle.calls import NO_NAME, Call, RawArgs
from spindle.errors import InvalidToolArgsError
from spindle.json_types import JsonObject
from spindle.tools.arguments import read_arguments

NAMELESS: Final = NO_NAME
"""Replaces a missing tool name; a record needs one."""

_LOST: Final = " …[a part of this was lost]"
"""Appended to damaged arguments: no text that ends like this is JSON."""
_OPEN: Final = "{"
_UNREADABLE: Final = "unreadable_arguments"
"""The key under which unparseable arguments are sent back."""
_CUSTOM: Final = "input of a custom tool, which has no arguments: "


class CallIds:
    """Unique call ids within a dispatch: results and artifacts are found by them."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = taken  # not copied: it has an id for every call of the turn
        self._claimed: set[str] = set()

    def claim(self, id: str, fallback_id: str | None = None) -> str:
        """Return the provider's id; if it is missing or already used, return `fallback_id` or a new one."""
        is_free = bool(id) and id not in self._taken and id not in self._claimed
        claimed = id if is_free else fallback_id or new_call_id()
        self._claimed.add(claimed)
        return claimed


class PartialCall:
    """One call while its deltas arrive."""

    __slots__ = ("_ids", "_parts", "id", "index", "is_custom", "is_damaged", "name", "provider_id")

    def __init__(
        self, provider_id: str = "", name: str = "", *, ids: CallIds | None = None, fallback_id: str | None = None
    ) -> None:
        self._ids = ids or CallIds()
        self.provider_id = provider_id
        """The provider's id, possibly used before; empty if there is none."""
        self.id = self._ids.claim(provider_id, fallback_id)
        self.name = name
        self.index: int | None = None
        """Position among the calls of one response, if the provider numbers them."""
        self.is_custom = False
        """Whether it is called with free text, which no tool of ours is."""
        self.is_damaged = False
        """Whether a delta was lost or invalid: the remaining arguments may look complete but are not."""
        self._parts: list[str] = []

    def identify(self, id: str) -> None:
        """Set the provider's id if it arrives late."""
        if id and not self.provider_id:
            self.provider_id, self.id = id, self._ids.claim(id, self.id)

    def add(self, arguments: object) -> str:
        """Append a fragment of the arguments, and return its text."""
        if isinstance(arguments, str):
            piece = arguments
        elif arguments is None:
            return ""
        elif is_mapping(arguments) and not self._parts:
            piece = _serialize(arguments)
        else:
            piece = ""
        if not piece and not isinstance(arguments, str):
            self.is_damaged = True
        elif piece:
            self._parts.append(piece)
        return piece

    def replace(self, arguments: object) -> None:
        """Replace all fragments by the complete arguments."""
        self._parts.clear()
        self.is_damaged = False
        self.add(arguments)

    @property
    def text(self) -> str:
        """The arguments received so far."""
        return "".join(self._parts)

    @property
    def is_closed(self) -> bool:
        """Whether the arguments so far are one complete JSON object."""
        text = self.text
        return text.rstrip().endswith("}") and is_json_object(text)

    def to_call(self, definitions: Definitions | None, *, is_whole: bool) -> Call:
        """Build the call; if it is incomplete or damaged, its arguments are ones that every executor rejects."""
        text = self.text
        if self.is_custom:
            text = _CUSTOM + text
        elif (self.is_damaged or not self.name) and (not text.strip() or is_json_object(text)):
            text += _LOST
        elif not is_whole and not text.strip():
            text = _OPEN
        name = self.name or NAMELESS
        return definitions.call(self.id, name, text) if definitions is not None else Call(self.id, name, text)

    def to_delta(self, text: str, definitions: Definitions | None) -> ResponseDelta:
        """Return a delta of this call for observers."""
        tool = self.name if definitions is None else definitions.names.to_own(self.name)
        return ResponseDelta("call", text, id=self.id, tool=tool)


def is_json_object(text: str) -> bool:
    """Return whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def format_arguments(arguments: RawArgs) -> str:
    """Serialize arguments for the conversation history: always a JSON object, since many servers parse them again."""
    text = _serialize(arguments) if is_mapping(arguments) else _to_text(arguments)
    if not text.strip():
        return "{}"
    return text if is_json_object(text) else json.dumps({_UNREADABLE: text})


def format_input(arguments: RawArgs, *, unreadable: str = _UNREADABLE) -> JsonObject:
    """Return arguments for the conversation history of APIs that only accept an object."""
    try:
        return dict(read_arguments(arguments, tool="", empty_ok=True))
    except InvalidToolArgsError:
        return {unreadable: _to_text(arguments) or str(arguments)}


def format_name(name: str, limits: ProviderLimits) -> str:
    """Return a tool name for the conversation history: a model may have called an invalid name."""
    return wire_name(name or NAMELESS, limits)


def _serialize(arguments: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(arguments), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def _to_text(arguments: object) -> str:
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "replace")
    return arguments if isinstance(arguments, str) else ""
