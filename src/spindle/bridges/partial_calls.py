"""Calls as they come in, piece by piece; what is not whole is never run."""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from spindle.bridges.definitions import Definitions, new_call_id
from spindle.bridges.provider import ResponseDelta
from spindle.bridges.provider_limits import Limits, wire_name
from spindle.calls import Call
from spindle.errors import InvalidToolArgsError
from spindle.tools.arguments import read_arguments

NAMELESS: Final = "(no name)"
"""Stands for the name a model left out; a record needs one."""

_LOST: Final = " …[a part of this was lost]"
"""No text that ends like this is JSON, whatever is before it."""
_OPEN: Final = "{"
_UNREADABLE: Final = "unreadable_arguments"
"""Under which name arguments are repeated that are none."""
_CUSTOM: Final = "input of a custom tool, which takes no arguments: "


class CallIds:
    """Ids of calls, none of which is given twice: answers and artifacts are found by them."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = set(taken)

    def claim(self, id: str, made: str | None = None) -> str:
        """Give the provider's id; where it is missing, or somebody else's already, one that is `made` or new."""
        claimed = id if id and id not in self._taken else made or new_call_id()
        self._taken.add(claimed)
        return claimed


class PartialCall:
    """One call, while it is being written."""

    __slots__ = ("_ids", "_parts", "given_id", "id", "index", "is_custom", "is_damaged", "name")

    def __init__(
        self, given_id: str = "", name: str = "", *, ids: CallIds | None = None, made: str | None = None
    ) -> None:
        self._ids = ids or CallIds()
        self.given_id = given_id
        """The provider's id for it, which it may have used before; empty where there is none."""
        self.id = self._ids.claim(given_id, made)
        self.name = name
        self.index: int | None = None
        """Its place among the calls of one answer, where the provider gives each of them one."""
        self.is_custom = False
        """Called with free text: no tool of ours is."""
        self.is_damaged = False
        """A piece was lost, or was none: what is left may look whole and is not."""
        self._parts: list[str] = []

    def identify(self, id: str) -> None:
        """Take the provider's id, where one comes late."""
        if id and not self.given_id:
            self.given_id, self.id = id, self._ids.claim(id, self.id)

    def add(self, arguments: Any) -> str:
        """Take a piece of the arguments, and give its text."""
        if isinstance(arguments, str):
            piece = arguments
        elif arguments is None:
            return ""
        elif isinstance(arguments, Mapping) and not self._parts:
            piece = _written(cast("Mapping[str, Any]", arguments))
        else:
            piece = ""
        if not piece and not isinstance(arguments, str):
            self.is_damaged = True
        elif piece:
            self._parts.append(piece)
        return piece

    def replace(self, arguments: Any) -> None:
        """Take the arguments as a whole, in the place of the pieces."""
        self._parts.clear()
        self.is_damaged = False
        self.add(arguments)

    @property
    def text(self) -> str:
        """The arguments so far, as they came."""
        return "".join(self._parts)

    @property
    def is_closed(self) -> bool:
        """Whether what came so far is one whole JSON object."""
        text = self.text
        return text.rstrip().endswith("}") and is_object(text)

    def to_call(self, definitions: Definitions | None, *, is_whole: bool) -> Call:
        """Make the call; one that is not whole, or damaged, has arguments that every executor refuses."""
        text = self.text
        if self.is_custom:
            text = _CUSTOM + text
        elif (self.is_damaged or not self.name) and (not text.strip() or is_object(text)):
            text += _LOST
        elif not is_whole and not text.strip():
            text = _OPEN
        name = self.name or NAMELESS
        return definitions.call(self.id, name, text) if definitions is not None else Call(self.id, name, text)

    def piece(self, text: str, definitions: Definitions | None) -> ResponseDelta:
        """Give what is new in it, for who watches."""
        tool = self.name if definitions is None else definitions.names.to_own(self.name)
        return ResponseDelta("call", text, id=self.id, tool=tool)


def is_object(text: str) -> bool:
    """Say whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def repeated(arguments: Any) -> str:
    """Write arguments as the conversation repeats them: always a JSON object, for many servers read them again."""
    text = _written(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else _decoded(arguments)
    if not text.strip():
        return "{}"
    return text if is_object(text) else json.dumps({_UNREADABLE: text})


def repeated_input(arguments: Any, *, unreadable: str = _UNREADABLE) -> dict[str, Any]:
    """Give arguments as the conversation repeats them to APIs that take nothing but an object."""
    try:
        return dict(read_arguments(arguments, tool="", empty_ok=True))
    except InvalidToolArgsError:
        return {unreadable: _decoded(arguments) or str(arguments)}


def repeated_name(name: str, limits: Limits) -> str:
    """Write a name as the conversation repeats it: a model may have called what no tool could be called."""
    return wire_name(name or NAMELESS, limits)


def _written(arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(arguments), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def _decoded(arguments: Any) -> str:
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "replace")
    return arguments if isinstance(arguments, str) else ""
