from typing import Any

import pytest

from spindle.errors import AlreadySignalledError, NackError, UsageError
from spindle.turns.signals import Signals


def test_ack_runs_its_handlers_in_order() -> None:
    signals, seen = Signals(), list[str]()
    signals.on_ack(lambda: seen.append("first"))
    signals.on_ack(lambda: seen.append("second"))

    signals.ack()

    assert seen == ["first", "second"]
    assert signals.is_acked
    assert signals.is_signalled
    assert signals.nack_error is None


def test_a_failing_handler_does_not_stop_the_others() -> None:
    signals, seen = Signals(), list[str]()

    def broken() -> None:
        raise LookupError

    signals.on_ack(broken)
    signals.on_ack(lambda: seen.append("still"))
    signals.ack()

    assert seen == ["still"]


def test_nack_runs_no_handlers_and_keeps_its_error() -> None:
    signals, seen = Signals(), list[str]()
    signals.on_ack(lambda: seen.append("no"))
    error = ValueError("why")

    signals.nack(error)

    assert seen == []
    assert signals.nack_error is error
    assert not signals.is_acked


def test_nack_without_a_reason_has_a_general_error() -> None:
    signals = Signals()
    signals.nack()

    assert isinstance(signals.nack_error, NackError)


@pytest.mark.parametrize("first", ["ack", "nack"])
@pytest.mark.parametrize("second", ["ack", "nack"])
def test_second_signal_raises_and_the_first_counts(first: str, second: str) -> None:
    signals = Signals()
    getattr(signals, first)()

    with pytest.raises(AlreadySignalledError) as caught:
        getattr(signals, second)()

    assert caught.value.code == "E_LLM_EXECUTION_ALREADY_SIGNALLED"
    assert signals.is_acked is (first == "ack")


def test_unsubscribing_twice_is_harmless() -> None:
    signals, seen = Signals(), list[str]()
    forget = signals.on_ack(lambda: seen.append("no"))
    forget()
    forget()
    signals.ack()
    forget()

    assert seen == []


def test_a_handler_added_after_the_ack_never_fires() -> None:
    signals, seen = Signals(), list[str]()
    signals.ack()
    signals.on_ack(lambda: seen.append("late"))

    assert seen == []


def test_on_ack_rejects_what_is_not_callable() -> None:
    nothing: Any = None

    with pytest.raises(UsageError):
        Signals().on_ack(nothing)
