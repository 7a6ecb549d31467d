"""Conversations of APIs in which user and model speak by turns, and the program at one place only."""

from collections.abc import Iterable, Sequence
from typing import Any

from spindle.bridges.rendering import MediaPart, Part
from spindle.bridges.transcript import Said, Step


class ByTurns:
    """Messages as they are written: what one role says in a row becomes one message."""

    def __init__(self, content: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self._content = content
        """What the API calls the content of a message."""

    def say(self, role: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Add what a role says; nothing is no message."""
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1][self._content] += blocks
        else:
            self.messages.append({"role": role, self._content: list(blocks)})

    def begun_by_user(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        """Give the messages; where the user did not speak first, `block` is said, for the API wants it so."""
        if not self.messages or self.messages[0]["role"] != "user":
            return [{"role": "user", self._content: [block]}, *self.messages]
        return self.messages


def system_of(system_text: str, steps: Iterable[Step]) -> list[str]:
    """Give everything the program says, the system prompt first."""
    said = [step.text for step in steps if isinstance(step, Said) and step.role == "system"]
    return [text for text in (system_text, *said) if text.strip()]


def says_something(part: Part) -> bool:
    """Say whether a part is more than blanks, which such APIs refuse."""
    return isinstance(part, MediaPart) or bool(part.text.strip())
