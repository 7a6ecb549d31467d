"""Tells observers of an answer while it comes in: words, thoughts, and calls without what must stay secret."""

from collections.abc import Collection
from typing import Any

from spindle.bridges.provider import Answered, Piece
from spindle.calls import Call
from spindle.errors import InvalidToolArgsError
from spindle.tools.arguments import read_arguments
from spindle.tools.masking import MASK, masked
from spindle.turns.context import DispatchContext
from spindle.turns.reporting import Helpers


class Telling:
    """Reports pieces as they come, and completes what they began."""

    def __init__(self, ctx: DispatchContext, helpers: Helpers, message_id: str) -> None:
        self._ctx = ctx
        self._helpers = helpers
        self._message_id = message_id
        self._begun: set[str] = set()
        self._arguments: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        self._told: dict[str, tuple[str, Any]] = {}

    def tell(self, piece: Piece) -> None:
        """Report what is new."""
        if piece.kind == "text":
            self._begun.add("message")
            self._helpers.report_message(self._message_id, piece.text)
        elif piece.kind == "thought":
            self._begun.add("thought")
            self._helpers.report_thought(self._message_id, piece.text)
        else:
            self._arguments[piece.id] = self._arguments.get(piece.id, "") + piece.text
            tool = self._tools[piece.id] = piece.tool or self._tools.get(piece.id, "")
            # Half a text cannot be masked, and whose arguments they are must be known before they are shown.
            is_open = bool(tool) and not self._secret_fields(tool)
            self._tell_call(piece.id, tool, self._arguments[piece.id] if is_open else MASK)

    def tell_whole(self, answered: Answered) -> None:
        """Report an answer that did not come in pieces."""
        if answered.text:
            self._helpers.report_message(self._message_id, answered.text, is_complete=True)
        self._tell_calls(answered)

    def finish(self, answered: Answered) -> None:
        """Say that there are no more pieces, and what the calls have become."""
        if "thought" in self._begun:
            self._helpers.report_thought(self._message_id, "", is_complete=True)
        if "message" in self._begun:
            self._helpers.report_message(self._message_id, "", is_complete=True)
        self._tell_calls(answered)

    def _tell_calls(self, answered: Answered) -> None:
        for call in answered.calls:
            self._tell_call(call.tool_call_id, call.name, self._shown(call))

    def _tell_call(self, id: str, tool: str, args: Any) -> None:
        if self._told.get(id) != (tool, args):
            self._told[id] = (tool, args)
            self._helpers.report_tool_call(id, tool=tool, args=args)

    def _shown(self, call: Call) -> Any:
        secret = self._secret_fields(call.name)
        if not secret:
            return call.args
        try:
            return masked(read_arguments(call.args, tool=call.name, empty_ok=True), secret)
        except InvalidToolArgsError:
            return MASK

    def _secret_fields(self, tool: str) -> Collection[str]:
        found = self._ctx.tools.get(tool)
        return found.secret_fields if found is not None else ()
