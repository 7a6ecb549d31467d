"""What an SDK does not know still reaches the server."""

from typing import Any

from spindle.bridges.wire import split_request


def create(*, model: str, extra_body: Any = None) -> None:
    del model, extra_body


def test_what_the_sdk_does_not_know_goes_into_the_body() -> None:
    assert split_request(create, {"model": "m"}) == {"model": "m"}
    assert split_request(create, {"model": "m", "new": 1, "extra_body": {"old": 2}}) == {
        "model": "m",
        "extra_body": {"old": 2, "new": 1},
    }


def test_who_stands_before_the_sdk_is_given_everything() -> None:
    async def watched(*args: Any, **kwargs: Any) -> None:
        del args, kwargs

    assert split_request(watched, {"model": "m", "new": 1}) == {"model": "m", "new": 1}
