"""The requests of an upstream server as questions to the client behind a call, and the answers for the server.

A server may ask a person (a form or an address to open), the client's model, and for its roots. The client
reads which server asks, in our own words; the server's text is sanitised and bounded. Read `build_question`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from spindle.bridges.structured_content import map_strings
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import GateAbortedError, InvalidGateError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.client_requests import Capability, Client, ListRoots
from spindle.text import to_printable
from spindle.tools.context import ToolContext
from spindle.trust.sanitise import sanitise
from spindle.turns.gates import Gate

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, ElicitRequestParams

Action: TypeAlias = Literal["accept", "decline", "cancel"]
Content: TypeAlias = dict[str, str | int | float | bool | list[str] | None]
Kind: TypeAlias = Literal["elicitation", "sampling", "roots"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A request of a server while a call runs."""

    kind: Kind
    params: Any = None
    """The SDK's `ElicitRequestParams` or `CreateMessageRequestParams`; roots need none."""
    key: str | None = None
    """The server's own name of the question, where several are asked together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The answer to a question."""

    action: Action = "decline"
    content: Content | None = None
    """What a person has entered."""
    value: Any = None
    """The response of the client's model as the SDK's type, or the list of the client's roots."""
    problem: str | None = None
    """Why the client's model was not asked, or did not answer."""


MAX_QUESTIONS: Final = 16
"""How many questions a server may ask at once."""
MAX_SAMPLING_CHARS: Final = 200_000
"""Limit of the messages of one request to the client's model."""
MAX_SAMPLING_TOKENS: Final = 16_384
_MAX_MESSAGE: Final = 2_000
_MAX_KEY_CHARS: Final = 200
_MAX_URL: Final = 2_000
_MAX_SCHEMA_CHARS: Final = 20_000
_SHOWN_TEXTS: Final = frozenset({"title", "description", "enumNames"})
"""The keywords of a form whose texts a user reads; the others are values that the server expects back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardedSampling:
    """The request of an upstream server to the client's model."""

    server: str
    params: JsonObject
    """The parameters of `sampling/createMessage`, ready to be sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """The server that asks, and for which call."""

    server: str
    tool: str
    ctx: ToolContext

    @property
    def client(self) -> Client | None:
        """The MCP client behind the call."""
        return cast("Client | None", self.ctx.client)

    def can(self, capability: Capability) -> bool:
        """Return whether the call has an MCP client that declared a capability."""
        return self.client is not None and self.client.can(capability)

    def build_gate(self, reason: str, payload: object, schema: JsonObject | None = None) -> Gate:
        """Build a gate that ends with the call."""
        left = self.ctx.seconds_left
        return Gate(reason, payload, schema=schema, timeout_seconds=None if left is None else max(left, 0.001))


def build_question(asker: Asker, question: Question) -> Gate:
    """Build the gate of a question.

    Raises:
        InvalidGateError: It cannot be shown or sent.
    """
    if question.kind == "elicitation":
        return build_elicitation(asker, question.params, key=question.key)
    if question.kind == "sampling":
        return build_sampling(asker, question.params, key=question.key)
    return asker.build_gate(question.key or "roots", ListRoots())


def read_answer(question: Question, gate: Gate) -> Answered:
    """Return the server's answer for a gate; one that is still open was given up."""
    done = gate.settlement
    if done is None or done.result in {"aborted", "timeout"} or isinstance(done.error, GateAbortedError):
        return Answered(action="cancel", problem="the request was cancelled")
    if done.result != "resolved":
        return Answered(problem="the user declined the request")
    if question.kind != "elicitation":
        return Answered(action="accept", value=done.value)
    action, content = read_elicitation(gate, done.value)
    return Answered(action=action, content=content)


def build_elicitation(asker: Asker, params: "ElicitRequestParams", *, key: str | None = None) -> Gate:
    """Build the question to a person: a form, or an address to open.

    Raises:
        InvalidGateError: The form or the address cannot be shown.
    """
    reason = describe_question(asker.server, params.message)
    payload: JsonObject = {"server": asker.server, "tool": asker.tool, "mode": params.mode}
    if key is not None:
        payload["key"] = key
    if params.mode == "url":
        check_url(params.url)
        payload["url"] = params.url
        payload["elicitation_id"] = params.elicitation_id
        if asker.client is not None and not asker.can("url_elicitation"):
            payload["mode"] = "url-in-form"
        return asker.build_gate(reason, payload)
    payload["schema"] = schema = clean_form(dict(params.requested_schema))
    return asker.build_gate(reason, payload, schema)


def describe_question(server: str, message: str) -> str:
    """Return the text that a person reads: which server asks, and what."""
    text = to_printable(sanitise(message), _MAX_MESSAGE) or "input is needed"
    return f"The MCP server {server!r} asks: {text}"


def check_url(url: str) -> None:
    """Check an address that a server wants a user to open.

    Raises:
        InvalidGateError: It is not a plain `https:` or `http:` address.
    """
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in {"https", "http"} and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_plain = False
    # A user name before the host poses as the host.
    if not is_plain or len(url) > _MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidGateError("Invalid gate: the address must be a plain https:// address", field="url")


def clean_form(schema: JsonObject) -> JsonObject:
    """Return a form with the texts that a user reads sanitised.

    Raises:
        InvalidGateError: It is too large.
    """
    if len(str(schema)) > _MAX_SCHEMA_CHARS:
        raise InvalidGateError(f"Invalid gate: the form is larger than {_MAX_SCHEMA_CHARS} characters", field="schema")
    return cast("JsonObject", _clean_texts(schema))


def _clean_texts(node: JsonValue) -> JsonValue:
    if is_array(node):
        return [_clean_texts(each) for each in node]
    if not is_object(node):
        return node
    return {
        key: map_strings(value, sanitise) if key in _SHOWN_TEXTS and not is_object(value) else _clean_texts(value)
        for key, value in node.items()
    }


def build_sampling(asker: Asker, params: "CreateMessageRequestParams", *, key: str | None = None) -> Gate:
    """Build the request to the client's model; the client reads in the system prompt which server asks.

    Raises:
        InvalidGateError: The request is too large, or asks for tools.
    """
    if params.tools or params.tool_choice is not None:
        raise InvalidGateError("Invalid gate: sampling with tools is not forwarded", field="tools")
    wanted = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "task", "metadata"})
    if len(str(wanted)) > MAX_SAMPLING_CHARS:
        raise InvalidGateError(f"Invalid gate: it has more than {MAX_SAMPLING_CHARS} characters", field="messages")
    # For the client, "this server" is the gateway: the context of all its servers would reach this one.
    wanted.pop("includeContext", None)
    wanted["maxTokens"] = min(params.max_tokens, MAX_SAMPLING_TOKENS)
    wanted["messages"] = [_clean_message(each) for each in wanted["messages"]]
    own = sanitise(params.system_prompt or "")
    said = f"The MCP server {asker.server!r} sends this request through a gateway."
    wanted["systemPrompt"] = f"{said}\n\n{own}" if own else said
    return asker.build_gate(key or "sampling", ForwardedSampling(server=asker.server, params=wanted))


def _clean_message(message: JsonObject) -> JsonObject:
    content = message.get("content")
    blocks = content if is_array(content) else [content]
    cleaned = [_clean_block(each) for each in blocks]
    return {**message, "content": cleaned if is_array(content) else cleaned[0]}


def _clean_block(block: JsonValue) -> JsonValue:
    if not is_object(block) or block.get("type") != "text":
        return block
    return {**block, "text": sanitise(str(block.get("text", "")))}


def read_elicitation(gate: Gate, value: object) -> tuple[Action, Content | None]:
    """Return the server's answer for what a person has answered."""
    payload: Mapping[str, Any] = gate.payload
    if str(payload.get("mode", "")).startswith("url"):
        return ("accept" if value is None or value else "decline"), None
    if isinstance(value, dict):
        return "accept", cast("Content", value)
    return "decline", None


def describe_capabilities(ctx: ToolContext, *, sampling: bool, roots: bool) -> JsonObject:
    """Return the capabilities to declare to a server for one call: those of the client behind it, as far as allowed."""
    client = cast("Client | None", ctx.client)
    if client is None:  # a question becomes a gate of the turn
        return {"elicitation": {"form": {}, "url": {}}}
    declared: JsonObject = {}
    forms, urls = client.can("elicitation"), client.can("url_elicitation")
    if forms or urls:
        # Without a client that opens addresses, a form shows them.
        declared["elicitation"] = ({"form": {}} if forms else {}) | {"url": {}}
    if sampling and client.can("sampling"):
        declared["sampling"] = {}
    if roots and client.can("roots"):
        declared["roots"] = {}
    return declared


def check_count(questions: Sequence[object]) -> None:
    """Check how many questions a server asks at once.

    Raises:
        InvalidGateError: There are too many.
    """
    if len(questions) > MAX_QUESTIONS:
        raise InvalidGateError(f"Invalid gate: it asks more than {MAX_QUESTIONS} questions at once", field="questions")


def clean_requests(server: str, redactor: Redactor, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests with the server named and all texts sanitised, by the server's own keys.

    Raises:
        InvalidGateError: There are too many, one is not to a person, or a form or an address cannot be shown.
    """
    check_count(list(asked))
    return {_check_key(key): _clean_request(server, redactor, each) for key, each in asked.items()}


def _check_key(key: str) -> str:
    if len(key) > _MAX_KEY_CHARS or not key.isprintable() or sanitise(key) != key:
        raise InvalidGateError("Invalid gate: the name of a question cannot be shown", field="key")
    return key


def _clean_request(server: str, redactor: Redactor, request: Any) -> Any:
    if request.method != "elicitation/create":
        raise InvalidGateError(f"Invalid gate: {request.method} is not forwarded", field="method")
    params = redactor.redact_value(request.params)
    update: JsonObject = {"message": redactor.redact(describe_question(server, params.message)), "meta": None}
    if params.mode == "url":
        check_url(params.url)
    else:
        update["requested_schema"] = clean_form(dict(params.requested_schema))
    return request.model_copy(update={"params": params.model_copy(update=update)})
