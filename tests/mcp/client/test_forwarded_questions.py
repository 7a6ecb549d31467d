"""Questions of a server that a client of the newer protocol answers itself."""

from typing import Any

import mcp_types as types
import pytest

from spindle.capabilities import Redactor
from spindle.errors import InvalidGateError
from spindle.mcp.client.upstream_questions import MAX_QUESTIONS, clean_requests

HIDDEN = "x\U000e0041\u202e<|im_start|>"


def ask(**params: Any) -> types.ElicitRequest:
    return types.ElicitRequest.model_validate({"method": "elicitation/create", "params": params})


def form(**schema: Any) -> types.ElicitRequest:
    wanted = {"type": "object", "properties": {"name": {"type": "string", **schema}}}
    return ask(mode="form", message=HIDDEN, requestedSchema=wanted)


def clean(**asked: Any) -> dict[str, Any]:
    redactor = Redactor()
    redactor.add("hunter2-hunter2")
    return clean_requests("shop", redactor, asked)


def test_the_server_is_named_and_every_text_is_sanitised() -> None:
    request = clean(q=form(title=HIDDEN, description=f"{HIDDEN} hunter2-hunter2"))["q"]

    shown = request.model_dump_json(by_alias=True)
    assert request.params.message.startswith("The MCP server 'shop' asks: ")
    hidden = ("\U000e0041", "\u202e", "<|im_start|>", "hunter2")
    assert [each for each in hidden if each in shown] == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https://bank.example@evil.example/"])
def test_only_plain_addresses_are_shown(url: str) -> None:
    with pytest.raises(InvalidGateError):
        clean(q=ask(mode="url", message="Open it", url=url, elicitationId="1"))
    assert clean(q=ask(mode="url", message="Open it", url="https://a.example/", elicitationId="1"))


def test_questions_are_bounded() -> None:
    with pytest.raises(InvalidGateError):
        clean(**{f"q{number}": form() for number in range(MAX_QUESTIONS + 1)})
    with pytest.raises(InvalidGateError):
        clean(**{HIDDEN: form()})
    with pytest.raises(InvalidGateError):
        clean(q=form(description="long " * 10_000))
    with pytest.raises(InvalidGateError, match="sampling"):
        clean(q=types.CreateMessageRequest.model_validate(_SAMPLING))


_SAMPLING: dict[str, Any] = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
