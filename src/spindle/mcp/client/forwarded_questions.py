"""The questions of a server that a client of the newer protocol answers itself, made fit for its user."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import InvalidGateError
from spindle.json_types import JsonObject
from spindle.mcp.client.upstream_questions import MAX_QUESTIONS, check_url, clean_form, describe_question
from spindle.trust.sanitise import sanitise

_MAX_KEY_CHARS: Final = 200


def clean_requests(server: str, redactor: Redactor, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests with the server named and all texts sanitised, by the server's own keys.

    Raises:
        InvalidGateError: There are too many, one is not to a person, or a form or an address cannot be shown.
    """
    if len(asked) > MAX_QUESTIONS:
        raise InvalidGateError(f"Invalid gate: it asks more than {MAX_QUESTIONS} questions at once", field="questions")
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
