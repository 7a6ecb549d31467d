"""Puts a streamed answer of Chat Completions together, whoever serves it.

Servers that speak this API differ: some send no ids, no index or index 0 for every call, some repeat a call's name in
each piece, some send a call whole and its arguments as an object. What cannot be said for certain is not guessed.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, cast

from spindle.bridges.definitions import Definitions
from spindle.bridges.limits import OPENAI_CHAT
from spindle.bridges.openai_usage import usage_of
from spindle.bridges.partial_calls import CallIds, PartialCall, repeated, repeated_name
from spindle.bridges.provider import Answered, Piece
from spindle.bridges.reading import count_of, field_of, is_record, items_of, text_of
from spindle.calls import Call
from spindle.errors import ModelStoppedError

_WHOLE: Final = frozenset({"stop", "tool_calls", "function_call"})
"""Ends that leave nothing unsaid; any other may have cut a call short."""
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where servers other than OpenAI's put what a model thinks."""


class Stream:
    """One answer, as it comes in."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.usage: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self._definitions = definitions
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: dict[str, list[str]] = {}
        self._ids = CallIds(taken)
        self._calls: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}
        self._legacy: PartialCall | None = None

    def feed(self, event: Any) -> Sequence[Piece]:
        """Take one chunk of the stream, and give what is new in it."""
        usage = field_of(event, "usage")
        if usage is not None:
            self.usage = usage_of(usage) or self.usage
        pieces: list[Piece] = []
        for choice in items_of(event, "choices"):
            # More than one answer may be asked for; there is one conversation, and the first goes on with it.
            index = field_of(choice, "index")
            if index is None or index == 0:
                self._take(field_of(choice, "delta"), pieces)
                self._end(choice)
        return pieces

    def feed_whole(self, response: Any) -> None:
        """Take an answer that was not streamed."""
        self.usage = usage_of(field_of(response, "usage"))
        for choice in items_of(response, "choices")[:1]:
            self._take(field_of(choice, "message"), [], is_whole=True)
            self._end(choice)

    @property
    def text(self) -> str:
        """What the model said so far, or why it would not."""
        return "".join(self._text) or "".join(self._refusal)

    @property
    def is_complete(self) -> bool:
        """Whether the provider said that this is the end."""
        return self.finish_reason is not None

    def calls(self) -> list[Call]:
        """Give the calls so far; one that was cut short has arguments that are refused."""
        is_whole = self.finish_reason in _WHOLE
        return [each.to_call(self._definitions, is_whole=is_whole) for each in self._begun_calls]

    @property
    def _begun_calls(self) -> Sequence[PartialCall]:
        """Give them in their order, which pieces may not keep; servers that know both ways may say a call in both."""
        if not self._calls and self._legacy is not None:
            return [self._legacy]
        places = [call.index for call in self._calls]
        return self._calls if None in places else sorted(self._calls, key=lambda call: call.index or 0)

    def answered(self) -> Answered:
        """Give the whole answer.

        Raises:
            ModelStoppedError: It was stopped before it said anything.
        """
        calls, text, reason = self.calls(), self.text, self.finish_reason
        if reason is not None and reason not in _WHOLE and not text and not calls:
            raise ModelStoppedError(f"the model stopped without an answer: {reason}", reason=reason)
        return Answered(
            text=text or None,
            calls=calls,
            usage=self.usage,
            finish_reason=reason,
            raw=self._message(calls),
            is_cut=reason not in _WHOLE,
        )

    def _message(self, calls: Sequence[Call]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text) or None}
        if self._refusal:
            message["refusal"] = "".join(self._refusal)
        message |= {name: "".join(parts) for name, parts in self._thoughts.items()}
        if calls:
            message["tool_calls"] = [_repeated(each) for each in self._begun_calls]
        return message

    def _end(self, choice: Any) -> None:
        self.finish_reason = text_of(choice, "finish_reason") or self.finish_reason

    def _take(self, delta: Any, pieces: list[Piece], *, is_whole: bool = False) -> None:
        content = field_of(delta, "content")
        if content:
            self._say(content, pieces)
        for name in ("refusal", *_THOUGHTS):
            said = text_of(delta, name)
            if said:
                self._say_aside(name, said, pieces)
        for entry in items_of(delta, "tool_calls"):
            self._take_call(entry, pieces, is_whole=is_whole)
        legacy = field_of(delta, "function_call")
        if legacy is not None:
            self._take_legacy(legacy, pieces)

    def _say(self, content: Any, pieces: list[Piece]) -> None:
        parts = [content] if isinstance(content, str) else [text_of(each, "text") for each in _listed(content)]
        for part in filter(None, parts):
            self._text.append(part)
            pieces.append(Piece("text", part))

    def _say_aside(self, name: str, said: str, pieces: list[Piece]) -> None:
        if name == "refusal":
            self._refusal.append(said)
            pieces.append(Piece("text", said))
            return
        self._thoughts.setdefault(name, []).append(said)
        if len(self._thoughts) == 1 or name == next(iter(self._thoughts)):
            pieces.append(Piece("thought", said))

    def _take_call(self, entry: Any, pieces: list[Piece], *, is_whole: bool) -> None:
        custom = field_of(entry, "custom")
        function = custom if custom is not None else field_of(entry, "function")
        call_id, name = text_of(entry, "id"), text_of(function, "name")
        begins = is_whole and bool(call_id or name)
        call = self._begun(call_id, None) if begins else self._owner(entry, call_id, name, function)
        if call is None:
            self._lose()
            return
        call.identify(call_id)
        call.is_custom = call.is_custom or custom is not None
        self._add(call, function, pieces)

    def _take_legacy(self, function: Any, pieces: list[Piece]) -> None:
        self._legacy = self._legacy or PartialCall(ids=self._ids)
        self._add(self._legacy, function, pieces)

    def _add(self, call: PartialCall, function: Any, pieces: list[Piece]) -> None:
        name = text_of(function, "name")
        if name != call.name:
            # A name may come in pieces, too, and servers repeat it.
            call.name += name
        if function is not None and not is_record(function):
            call.is_damaged = True
        piece = call.add(field_of(function, "input" if call.is_custom else "arguments"))
        pieces.append(call.piece(piece, self._definitions))

    def _owner(self, entry: Any, id: str, name: str, function: Any) -> PartialCall | None:
        """Find or begin the call that a piece belongs to; `None` where nobody can say which that is."""
        index = count_of(entry, "index")
        if index is not None:
            known = self._by_index.get(index)
            if known is None:
                return self._begun(id, index)
            if id and known.given_id and id != known.given_id:
                return self._begun(id, index) if name else None
            is_another = bool(name) and not id and bool(field_of(function, "arguments")) and known.is_closed
            return self._begun(id, index) if is_another else known
        last = self._calls[-1] if self._calls else None
        if id:
            goes_on = last is not None and last.given_id == id and not (name and last.is_closed)
            return last if goes_on else self._begun(id, None)
        if field_of(entry, "index") is not None or not is_record(entry):
            return None
        return self._begun(id, None) if name else last

    def _begun(self, id: str, index: int | None) -> PartialCall:
        call = PartialCall(id, ids=self._ids)
        self._calls.append(call)
        if index is not None:
            call.index, self._by_index[index] = index, call
        return call

    def _lose(self) -> None:
        """A piece belongs to nobody: any call begun so far may lack it."""
        for call in self._calls:
            call.is_damaged = True


def _listed(content: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else ()


def _repeated(call: PartialCall) -> dict[str, Any]:
    name = repeated_name(call.name, OPENAI_CHAT)
    if call.is_custom:
        return {"id": call.id, "type": "custom", "custom": {"name": name, "input": call.text}}
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": repeated(call.text)}}
