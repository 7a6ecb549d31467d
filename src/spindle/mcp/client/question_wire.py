"""The questions of a server and their answers in the types of the SDK."""

from collections.abc import Sequence

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequest,
    ElicitRequest,
    ElicitResult,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    Root,
)
from pydantic import ValidationError

from spindle.mcp.client.upstream_questions import Action, Answered, Content, Question
from spindle.mcp.client_requests import Root as ClientRoot


def build_question(key: str, request: InputRequest) -> Question:
    """Build the question of a server on the newer protocol."""
    match request:
        case ElicitRequest(params=params):
            return Question(kind="elicitation", params=params, key=key)
        case ListRootsRequest():
            return Question(kind="roots", key=key)
        case CreateMessageRequest(params=params):
            return Question(kind="sampling", params=params, key=key)


def build_response(question: Question, answer: Answered) -> InputResponse:
    """Build the answer for the server.

    Raises:
        MCPError: The client's model has not answered.
    """
    if question.kind == "elicitation":
        return _build_elicit_result(answer.action, answer.content)
    if answer.problem is not None:
        raise MCPError(INVALID_REQUEST, f"it requested {question.kind}: {answer.problem}")
    if question.kind == "sampling":
        return answer.value
    return _build_roots(answer.value)


def _build_roots(found: Sequence[ClientRoot]) -> ListRootsResult:
    roots: list[Root] = []
    for each in found:
        try:
            roots.append(Root.model_validate({"uri": each.uri, "name": each.name}))
        except ValidationError:  # the protocol allows file: addresses only
            continue
    return ListRootsResult(roots=roots)


def _build_elicit_result(action: Action, content: Content | None) -> ElicitResult:
    try:
        return ElicitResult(action=action, content=content)
    except ValidationError:  # the protocol accepts flat forms only
        return ElicitResult(action="decline")
