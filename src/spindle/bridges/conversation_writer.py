"""Writers of a conversation in the form of an API; each step is written once in a dispatch.

A conversation grows at its end, so a writer keeps what it wrote and adds the new steps. Where an earlier step changed,
because middleware changed a record, it writes everything anew.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from spindle.bridges.definitions import Definitions
from spindle.bridges.transcript import Step, ToolStep
from spindle.bridges.wire import replace_lone_surrogates
from spindle.json_types import JsonObject


class ConversationWriter(ABC):
    """Writes one conversation as a list of messages, which the caller must not change."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._messages: list[JsonObject] = []

    def write(self, steps: Sequence[Step], definitions: Definitions) -> list[JsonObject]:
        """Return the messages of a conversation; only steps that were not written before are written."""
        if steps[: len(self._steps)] != self._steps:
            self.clear()
        for step in steps[len(self._steps) :]:
            self.write_step(step, definitions)
            self._steps.append(step)
        return list(self._messages)

    def clear(self) -> None:
        """Forget what was written."""
        self._steps, self._messages = [], []

    @abstractmethod
    def write_step(self, step: Step, definitions: Definitions) -> None:
        """Write one step, with `add`."""

    def add(self, messages: Sequence[JsonObject]) -> None:
        """Append messages."""
        self._messages += replace_lone_surrogates([*messages])


class AlternatingWriter(ConversationWriter):
    """Writes messages with alternating roles, the user first: consecutive blocks of one role become one message.

    Texts of system messages are collected, because these APIs take them beside the conversation.
    """

    content_field: ClassVar[str]
    """The API's field name for the content of a message."""
    first_block: ClassVar[JsonObject]
    """What the user says if the conversation begins with another role, which these APIs reject."""

    def __init__(self) -> None:
        super().__init__()
        self._system_texts: list[str] = []

    def write(self, steps: Sequence[Step], definitions: Definitions) -> list[JsonObject]:
        """Return the messages of a conversation; only steps that were not written before are written."""
        messages = super().write(steps, definitions)
        if not messages or messages[0]["role"] != "user":
            return [{"role": "user", self.content_field: [self.first_block]}, *messages]
        return messages

    def clear(self) -> None:
        """Forget what was written."""
        super().clear()
        self._system_texts = []

    def write_step(self, step: Step, definitions: Definitions) -> None:
        """Write one step; a text of the system is only collected."""
        if isinstance(step, ToolStep) or step.role != "system":
            self.write_spoken(step, definitions)
        else:
            self._system_texts.append(step.text)

    @abstractmethod
    def write_spoken(self, step: Step, definitions: Definitions) -> None:
        """Write a step that is not of the system, with `add_blocks`."""

    def add_blocks(self, role: str, blocks: Sequence[JsonObject]) -> None:
        """Append blocks of a role; an empty list adds no message."""
        if not blocks:
            return
        last = self._messages[-1] if self._messages else None
        if last is None or last["role"] != role:
            self.add([{"role": role, self.content_field: [*blocks]}])
        else:
            # A new message: the last one may be part of a request that was already returned.
            added = replace_lone_surrogates([*blocks])
            self._messages[-1] = {**last, self.content_field: [*last[self.content_field], *added]}

    def collect_system_texts(self, system_prompt: str) -> list[str]:
        """Return the system prompt followed by the texts of all system messages."""
        return [text for text in (system_prompt, *self._system_texts) if text.strip()]
