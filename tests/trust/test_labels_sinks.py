"""After a stranger's words came in, what can do harm waits for a person."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import CallOutcome, Err, Ok, Tool
from spindle.errors import InvalidTrustError
from spindle.trust.labels import SinkPolicy, is_tainting


@dataclass(frozen=True)
class Facts:
    """A tool, as far as a policy looks at it."""

    name: str
    read_only: bool = False
    trusted: bool = True


POLICY = SinkPolicy(["send_mail", "peek"])
SEND, FETCH, CLOCK = Facts("send_mail"), Facts("fetch", trusted=False), Facts("clock")


def test_a_dangerous_tool_needs_approval_in_a_tainted_turn() -> None:
    assert POLICY.needs_approval(SEND, tainted=True, batch=[SEND])
    assert not POLICY.needs_approval(SEND, tainted=False, batch=[SEND])


def test_tools_that_only_read_or_are_not_named_never_need_it() -> None:
    assert not POLICY.needs_approval(Facts("peek", read_only=True), tainted=True, batch=[])
    assert not POLICY.needs_approval(Facts("write_file"), tainted=True, batch=[])


def test_an_untrusted_call_beside_it_is_enough_in_any_order() -> None:
    for batch in permutations([SEND, FETCH, CLOCK]):
        assert POLICY.needs_approval(SEND, tainted=False, batch=batch)
        assert dict(zip(batch, POLICY.judge(batch, tainted=False), strict=True)) == {
            SEND: True,
            FETCH: False,
            CLOCK: False,
        }


def test_trusted_calls_beside_it_change_nothing() -> None:
    assert POLICY.judge([SEND, CLOCK, SEND], tainted=False) == (False, False, False)


def test_a_dangerous_tool_that_is_itself_untrusted_taints_others_and_not_itself() -> None:
    send = Facts("send_mail", trusted=False)

    assert POLICY.judge([send], tainted=False) == (False,)
    assert POLICY.judge([send, send], tainted=False) == (True, True)


@given(
    st.lists(
        st.builds(Facts, st.sampled_from(["send_mail", "peek", "fetch"]), st.booleans(), st.booleans()), max_size=5
    ),
    st.booleans(),
)
def test_judging_a_batch_is_judging_each_call(batch: Sequence[Facts], tainted: bool) -> None:
    calls = [Facts(each.name, each.read_only, each.trusted) for each in batch]

    alone = tuple(POLICY.needs_approval(each, tainted=tainted, batch=iter(calls)) for each in calls)

    assert POLICY.judge(iter(calls), tainted=tainted) == alone


def test_a_tool_has_the_facts_that_a_policy_asks_for() -> None:
    def handle(args: Any, ctx: Any, meta: Any) -> str:
        return ""

    tool = Tool(name="send_mail", description="Send.", input_schema={"type": "object"}, handler=handle)

    assert POLICY.is_dangerous(tool)


def test_a_policy_does_not_change() -> None:
    names = ["send_mail"]
    policy = SinkPolicy(names)
    names.clear()

    assert policy == SinkPolicy({"send_mail"})
    with pytest.raises(FrozenInstanceError):
        policy.dangerous = frozenset()  # pyright: ignore[reportAttributeAccessIssue]  the test is that it raises


@pytest.mark.parametrize("dangerous", ["send_mail", None, 3, [""], [3], b"x"])
def test_what_names_no_tools_is_refused(dangerous: Any) -> None:
    with pytest.raises(InvalidTrustError) as caught:
        SinkPolicy(dangerous)

    assert caught.value.field == "dangerous"


def outcome(result: Ok | Err, *, attempts: int) -> CallOutcome:
    return CallOutcome("c1", "fetch", "0" * 64, result, attempts=attempts)


def test_untrusted_results_and_the_errors_of_handlers_taint_a_turn() -> None:
    assert is_tainting(outcome(Ok("x"), attempts=1))
    assert is_tainting(outcome(Ok("x"), attempts=0))
    assert is_tainting(outcome(Err("denied", "x"), attempts=1))
    assert is_tainting(outcome(Err("execution_failed", "x"), attempts=0))


def test_trusted_results_and_refusals_do_not_taint_it() -> None:
    assert not is_tainting(outcome(Ok("x", trusted=True), attempts=1))
    assert not is_tainting(outcome(Err("denied", "x"), attempts=0))
