"""The text of an approval request has every argument, and a reader sees each character of it."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from spindle import Call, Err, Executor, Tool, ToolContext, ToolRegistry, tool
from spindle.errors import UnshowableRequestError
from spindle.execution import ApprovalRequest, render_approval


def handle(args: Any, ctx: Any, meta: Any) -> str:
    return ""


PAY = Tool(name="pay", description="Pay.", input_schema={"type": "object"}, handler=handle)


def request(args: Any, name: Tool = PAY) -> ApprovalRequest:
    return ApprovalRequest(tool=name, args=args, checksum="c", ctx=ToolContext())


def render(args: Any, **options: Any) -> str:
    return render_approval(request(args), **options).text


class Colour(Enum):
    RED = "red"


class Mail(BaseModel):
    to: str
    hidden: str = Field(default="", exclude=True, repr=False)


@dataclass
class Payment:
    amount: int
    account: str = field(repr=False, default="")


def test_every_kind_of_value_is_written() -> None:
    args = {"a": None, "b": [True, 1, 1.5], "c": Colour.RED, "d": b"raw", "e": {1: "x"}}

    assert render(args) == 'Run pay with {"a": null, "b": [true, 1, 1.5], "c": "red", "d": "raw", "e": {"1": "x"}}?'


def test_fields_that_a_class_leaves_out_of_its_own_text_are_shown() -> None:
    shown = render({"mail": Mail(to="ann", hidden="attacker"), "pay": Payment(5, "evil")})

    assert "attacker" in shown
    assert "evil" in shown


def test_a_quotation_mark_cannot_end_a_value() -> None:
    assert render({"a": 'x", "to": "ann'}) == r'Run pay with {"a": "x\", \"to\": \"ann"}?'


def test_indented_arguments_have_lines_of_their_own() -> None:
    assert render({"a": "x\ny", "b": [1]}, indent=True) == 'Run pay with {\n  "a": "x\\ny",\n  "b": [\n    1\n  ]\n}?'


@pytest.mark.parametrize(
    "text", ["e" + "\u0301" * 50, "\u0301", " " * 200, "\u0600" * 3, "a\u2028b", "\ud800", "\u2800" * 50]
)
def test_text_that_would_cover_or_move_other_text_is_written_as_numbers(text: str) -> None:
    shown = render({"a": text, "to": "attacker"})

    assert shown.isprintable()
    assert " " * 20 not in shown
    assert "\u0301" * 3 not in shown
    assert '"\u0301' not in shown
    assert "\u2800" not in shown
    assert shown.endswith('"to": "attacker"}?')


@given(st.lists(st.tuples(st.text(min_size=1), st.text(max_size=2_000) | st.integers()), max_size=5))
def test_nothing_hides_the_argument_after_it(pairs: list[tuple[str, Any]]) -> None:
    shown = render({**dict(pairs), "to": "attacker@evil.example"})

    assert '"to": "attacker@evil.example"' in shown
    assert shown.isprintable()


@given(st.text(max_size=50), st.text(max_size=50))
def test_different_values_have_different_texts(one: str, other: str) -> None:
    assert (render({"a": one}) == render({"a": other})) is (one == other)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "args",
    [
        {"a": object()},
        {"a": "x" * 1_000_001},
        {f"key {n}": n for n in range(10_000)},
        {"a": nested(300)},
        {"a": 10**5_000},
        {"a": {1: "x", "1": "y"}},
    ],
    ids=["unknown type", "too long", "too many names", "too deep", "too many digits", "ambiguous names"],
)
def test_arguments_that_cannot_be_shown_are_refused(args: Any) -> None:
    with pytest.raises(UnshowableRequestError) as refused:
        render(args)
    assert refused.value.tool == "pay"


@pytest.mark.anyio
async def test_an_approver_that_cannot_show_the_arguments_denies_the_call() -> None:
    ran: list[str] = []

    @tool(requires_approval=True)
    def send(body: str) -> None:
        """Send a mail."""
        ran.append(body)

    async def approve(asked: ApprovalRequest) -> bool:
        return bool(render_approval(asked).text)

    executor = Executor(ToolRegistry([send]), approve=approve)
    long, _ = await executor.execute_parallel(
        [Call("1", "send", {"body": "x" * 1_000_001}), Call("2", "send", {"body": "x"})], ToolContext()
    )

    assert isinstance(long.result, Err)
    assert long.result.code == "denied"
    assert isinstance(long.result.cause, UnshowableRequestError)
    assert ran == ["x"]
