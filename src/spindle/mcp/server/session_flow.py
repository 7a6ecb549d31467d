"""Information flow of the clients of a server: one ledger for each conversation.

A conversation is a session of the older protocol, or a token and its client on the newer one. The words of its user are
his answers to questions; results, resources and prompts that it was shown are foreign.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from spindle.execution.executor import Executor
from spindle.mcp.server.peer import CallClient
from spindle.mcp.server.user_words import find_user_words
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.trust.flow.roles import ToolFlow
from spindle.trust.flow.sessions import FlowSessions
from spindle.trust.labels import TAINTING, UNKNOWN
from spindle.turns.gates import Gate

if TYPE_CHECKING:  # it needs the extra `tickets`
    from spindle.mcp.server.shared_ledgers import SharedLedgers

MAX_TEXTS: Final = 1_000
"""Parts of one resource or prompt that are kept."""


class SessionFlow:
    """The ledgers of an executor as the conversations of a server use them; nothing happens without a policy."""

    def __init__(self, executor: Executor, shared: "SharedLedgers | None" = None) -> None:
        self._sessions = find_sessions(executor)
        self._shared = shared

    async def open(self, conversation: str, ctx: ToolContext, peer: CallClient) -> None:
        """Let a call be judged by the ledger of its conversation, and keep the words of its user in it.

        Raises:
            JournalError: The store that replicas share cannot be read.
        """
        if self._sessions is None:
            return
        ctx.flow.session_id = conversation
        ledger = self._sessions.get(conversation)
        if self._shared is not None:
            await self._shared.restore(conversation, ledger)

        def listen(gates: Sequence[Gate], values: Sequence[Any]) -> None:
            for gate, value in zip(gates, values, strict=True):
                for text in find_user_words(gate, value):
                    ctx.flow.add_user_text(text)

        peer.on_answers = listen

    async def keep(self, conversation: str) -> None:
        """Let other replicas know what the user said and what was made; a failure makes them ask more."""
        if self._sessions is not None and self._shared is not None:
            await self._shared.keep(conversation, self._sessions.get(conversation))

    def add_read(self, conversation: str, name: str, result: object) -> None:
        """Add the texts of a resource or a prompt that the client was shown."""
        if self._sessions is None:
            return
        source, ledger = ToolFlow(name=name, output=UNKNOWN, read_only=True), self._sessions.get(conversation)
        parts = list(_iter_parts(result))
        texts = [text for text in islice(parts, MAX_TEXTS) if text is not None]
        ledger.add_result(source, "\n".join(texts), call_id=name)
        if len(texts) < len(parts):
            ledger.has_lost_private = True  # what a picture shows is in no text

    def forget(self, conversation: str) -> None:
        """Forget a conversation that has ended."""
        if self._sessions is not None:
            self._sessions.forget(conversation)


def find_sessions(executor: Executor) -> FlowSessions | None:
    """Return the ledgers of an executor's sessions; `None` if it has no policy."""
    return None if executor.flow is None else executor.flow.sessions


def may_taint(tool: Tool | None) -> bool:
    """Return whether a call of a tool may bring third-party content into its conversation."""
    return tool is not None and tool.output in TAINTING


def _iter_parts(result: object) -> Iterator[str | None]:
    """Yield the contents of a resource, or of the messages of a prompt: their texts, `None` for anything else."""
    parts: Any = getattr(result, "contents", None) or getattr(result, "messages", None) or ()
    for part in parts:
        content: Any = getattr(part, "content", part)
        inner: Any = getattr(content, "resource", content)
        text: object = getattr(inner, "text", None)
        yield text if isinstance(text, str) else None
