"""Assembles a response of Gemini's generateContent, and keeps it in the form the API requires back."""

import json
import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final
from uuid import uuid4

from spindle.bridges.definitions import Definitions
from spindle.bridges.partial_calls import CallIds, PartialCall, format_name
from spindle.bridges.provider import ModelResponse, ResponseDelta
from spindle.bridges.provider_limits import GEMINI
from spindle.bridges.wire import get_count, get_field, get_list, get_str, to_plain
from spindle.calls import Call
from spindle.errors import ModelStoppedError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object

_PATH: Final = re.compile(r"\$(?:\.[^.\[\]]+|\[\d{1,4}\]|\['[^']*'\])+")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialArgs:
    """The arguments of one call while they arrive as path and value pairs."""

    def __init__(self) -> None:
        self.args: JsonObject = {}
        self.is_done = False
        self.is_damaged = False
        """Whether a value could not be placed: the arguments may look complete but are not."""
        self._growing: str | None = None

    @property
    def text(self) -> str:
        """The arguments as JSON; without the closing brace while more is expected, so that they are not valid."""
        text = json.dumps(self.args, ensure_ascii=False)
        return text if self.is_done else text[:-1]

    def feed(self, function_call: JsonObject) -> None:
        """Add the next values."""
        whole = function_call.get("args")
        if is_object(whole):
            self.args |= whole
        for piece in get_list(function_call, "partialArgs"):
            self._put(piece)
        if function_call.get("willContinue") is not True:
            self.is_done = True
            self.is_damaged = self.is_damaged or self._growing is not None

    def _put(self, piece: object) -> None:
        path = get_str(piece, "jsonPath")
        names = [name for name in _VALUES if get_field(piece, name) is not None]
        if not _PATH.fullmatch(path) or len(names) != 1 or (self._growing is not None and self._growing != path):
            self.is_damaged = True
            return
        value = None if names == ["nullValue"] else get_field(piece, names[0])
        if names == ["numberValue"] and isinstance(value, float) and value.is_integer():
            # The wire format has floats only; restore the integer the model wrote.
            value = int(value)
        steps = [int(index) if index else name or quoted for name, index, quoted in _STEP.findall(path)]
        try:
            _place(self.args, steps, value, goes_on=self._growing == path)
        except (TypeError, IndexError):
            self.is_damaged = True
        self._growing = path if get_field(piece, "willContinue") is True else None


def _place(args: JsonObject, steps: list[str | int], value: JsonValue, *, goes_on: bool) -> None:
    """Set the value at a path, creating missing containers."""
    place: JsonValue = args
    for step, following in pairwise(steps):
        empty: JsonValue = [] if isinstance(following, int) else {}
        place = _inner(place, step, empty)
    before = _inner(place, steps[-1], "" if goes_on else None)
    place[steps[-1]] = before + value if goes_on else value


def _inner(place: JsonValue, step: str | int, empty: JsonValue) -> JsonValue:
    if isinstance(step, str) and is_object(place):
        return place.setdefault(step, empty)
    if isinstance(step, int) and is_array(place):
        if step == len(place):
            place.append(empty)
        return place[step]
    raise TypeError("the path does not match the existing value")


_WHOLE: Final = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})
_CUT: Final = frozenset({"MAX_TOKENS"})
MALFORMED: Final = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
"""The model failed to write a call; a retry may succeed."""
_MADE: Final = "made_"
"""Prefix of ids that the API did not assign, which must not be sent to it."""


def is_local_id(id: str) -> bool:
    """Return whether an id was made here and not by the API."""
    return id.startswith(_MADE)


class _FunctionCall:
    """One function call, and the response part that holds it."""

    __slots__ = ("call", "part", "partial")

    def __init__(self, part: JsonObject, ids: CallIds) -> None:
        self.part = part
        given = part["functionCall"]
        made = f"{_MADE}{uuid4().hex}"
        self.call = PartialCall(get_str(given, "id"), get_str(given, "name"), ids=ids, fallback_id=made)
        self.partial: PartialArgs | None = None


class Stream:
    """Assembles one response, streamed or not."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.usage: dict[str, int] | None = None
        self.finish_reason: str | None = None
        self._definitions = definitions
        self._parts: list[JsonObject] = []
        self._function_calls: list[_FunctionCall] = []
        self._ids = CallIds(taken)
        self._finish_message = ""

    def feed_response(self, response: object) -> None:
        """Process a response that was not streamed: it has the form of a chunk."""
        self.feed(response)

    def feed(self, event: object) -> Sequence[ResponseDelta]:
        """Process one chunk of the stream and return its deltas."""
        chunk = to_plain(event)
        self.usage = parse_usage(get_field(chunk, "usageMetadata")) or self.usage
        blocked = get_str(get_field(chunk, "promptFeedback"), "blockReason")
        if blocked:
            self.finish_reason = f"prompt blocked: {blocked}"
        pieces: list[ResponseDelta] = []
        for candidate in get_list(chunk, "candidates"):
            # A request may ask for several candidates; only the first continues the conversation.
            if not get_count(candidate, "index"):
                for part in get_list(get_field(candidate, "content"), "parts"):
                    if is_object(part):
                        pieces += self._take(part)
                self.finish_reason = get_str(candidate, "finishReason") or self.finish_reason
                self._finish_message = get_str(candidate, "finishMessage") or self._finish_message
                break
        return pieces

    @property
    def text(self) -> str:
        """The model's text so far."""
        return "".join(get_str(part, "text") for part in self._parts if part.get("thought") is not True)

    @property
    def thoughts(self) -> str:
        """The model's visible thoughts so far."""
        return "".join(get_str(part, "text") for part in self._parts if part.get("thought") is True)

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        return self.finish_reason is not None

    @property
    def raw(self) -> list[JsonObject]:
        """The parts as sent back to the API, with each thought signature on the part it came with."""
        repeated = {id(function_call.part): function_call for function_call in self._function_calls}
        parts: list[JsonObject] = []
        for part in self._parts:
            function_call = repeated.get(id(part))
            if function_call is not None:
                parts.append(part | {"functionCall": _repeat(function_call)})
            elif get_str(part, "text") or part.keys() - {"text", "thought"}:
                parts.append(part)
        return parts

    def calls(self) -> list[Call]:
        """Return the calls so far; a call that was cut off gets arguments that executors reject."""
        if self.finish_reason in MALFORMED:
            return []
        return [self._call(function_call) for function_call in self._function_calls]

    def build_response(self) -> ModelResponse:
        """Return the complete response.

        Raises:
            ModelStoppedError: It was blocked, a call was malformed, or the model stopped without text or calls.
        """
        calls, text, reason = self.calls(), self.text or None, self.finish_reason
        is_cut = reason in _CUT
        if (reason not in _WHOLE and not is_cut) or (is_cut and not calls and not text):
            description = f"{reason} ({self._finish_message})" if self._finish_message else reason
            raise ModelStoppedError(
                f"the model stopped without a response: {description}", reason=reason, text=self.text
            )
        return ModelResponse(
            text=text, calls=calls, usage=self.usage, finish_reason=reason, raw=self.raw, is_truncated=is_cut
        )

    def _call(self, function_call: _FunctionCall) -> Call:
        call = function_call.call
        is_last = function_call.part is self._parts[-1]
        if function_call.partial is not None:
            return self._call_of_pieces(call, function_call.partial)
        given = function_call.part["functionCall"].get("args")
        may_be_cut = is_last and self.finish_reason not in _WHOLE
        is_cut = is_last and self.finish_reason in _CUT
        if call.name and is_object(given) and not is_cut and (given or not may_be_cut):
            named = (call.id, call.name, dict(given))
            return self._definitions.call(*named) if self._definitions is not None else Call(*named)
        if not call.text and not (given is None or given == {}):
            call.add(given)
            # Objects always arrive closed, so a cut inside one cannot be detected.
            call.is_damaged = call.is_damaged or is_cut
        elif not call.text and not may_be_cut:
            # The API omits the arguments of a call that has none.
            call.add({})
        return call.to_call(self._definitions, is_whole=not may_be_cut)

    def _call_of_pieces(self, call: PartialCall, partial: PartialArgs) -> Call:
        call.replace(partial.text)
        call.is_damaged = partial.is_damaged
        return call.to_call(self._definitions, is_whole=partial.is_done)

    def _take(self, part: JsonObject) -> Sequence[ResponseDelta]:
        if "functionCall" in part:
            return self._take_call(part) if isinstance(part["functionCall"], dict) else ()
        text = part.get("text")
        if not isinstance(text, str):
            if part.keys() - {"text", "thought"}:
                self._parts.append(part)
            return ()
        before = self._parts[-1] if self._parts else None
        if before is not None and _is_bare(before) and _is_bare(part) and _thinks(before) == _thinks(part):
            before["text"] += text
        else:
            self._parts.append(part)
        return (ResponseDelta("thought" if _thinks(part) else "text", text),) if text else ()

    def _take_call(self, part: JsonObject) -> Sequence[ResponseDelta]:
        given: JsonObject = part["functionCall"]
        last = self._function_calls[-1] if self._function_calls else None
        if last is not None and last.partial is not None and not last.partial.is_done and not given.get("name"):
            last.partial.feed(given)
            return ()
        function_call = _FunctionCall(part, self._ids)
        if given.get("willContinue") or given.get("partialArgs"):
            function_call.partial = PartialArgs()
            function_call.partial.feed(given)
        self._parts.append(part)
        self._function_calls.append(function_call)
        return (function_call.call.to_delta("", self._definitions),)


def _repeat(function_call: _FunctionCall) -> JsonObject:
    given = function_call.part["functionCall"]
    args = given.get("args") if function_call.partial is None else function_call.partial.args
    name = format_name(function_call.call.name, GEMINI)
    repeated: JsonObject = {"name": name, "args": args if isinstance(args, dict) else {}}
    return repeated | ({} if is_local_id(function_call.call.id) else {"id": function_call.call.id})


def _is_bare(part: JsonObject) -> bool:
    """Return whether a part is only text: other parts must not be extended."""
    return isinstance(part.get("text"), str) and not part.keys() - {"text", "thought"}


def _thinks(part: JsonObject) -> bool:
    return part.get("thought") is True


def parse_usage(usage: object) -> dict[str, int] | None:
    """Return the token counts under the names all bridges use; thoughts are included in `output_tokens`."""
    prompt, candidates = get_count(usage, "promptTokenCount"), get_count(usage, "candidatesTokenCount")
    total, thought = get_count(usage, "totalTokenCount"), get_count(usage, "thoughtsTokenCount")
    if prompt is None and candidates is None and total is None:
        return None
    inputs = (prompt or 0) + (get_count(usage, "toolUsePromptTokenCount") or 0)
    outputs = (candidates or 0) + (thought or 0)
    figures = {"input_tokens": inputs, "output_tokens": outputs}
    apart = {"cached_input_tokens": get_count(usage, "cachedContentTokenCount"), "reasoning_tokens": thought}
    figures |= {name: count for name, count in apart.items() if count is not None}
    return figures | {"total_tokens": inputs + outputs if total is None else total}
