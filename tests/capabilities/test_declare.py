from typing import Any

import pytest

from spindle import Capabilities
from spindle.capabilities import FileReach
from spindle.errors import CapabilityError


def test_nothing_is_needed_by_default() -> None:
    assert Capabilities().declared() == ()


def test_needs_are_kept_as_tuples() -> None:
    needs = Capabilities(
        network=["api.shop.example", "*.cdn.example"],
        secrets=["SHOP_KEY"],
        storage="tool",
        files=FileReach(read=["data"], write=["out"]),
        process=["git", "rg"],
        attachments=["image", "document"],
    )

    assert needs.network == ("api.shop.example", "*.cdn.example")
    assert needs.files == FileReach(("data",), ("out",))
    assert needs.declared() == ("network", "secrets", "storage", "files", "process", "attachments")
    assert hash(needs) == hash(needs)


def test_an_empty_list_is_a_declared_need() -> None:
    assert Capabilities(secrets=[]).declared() == ("secrets",)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("network", "api.example"),
        ("network", [""]),
        ("network", [5]),
        ("secrets", {"A": 1}),
        ("storage", "global"),
        ("files", ["data"]),
        ("process", "git"),
        ("attachments", ["hologram"]),
    ],
)
def test_a_need_of_the_wrong_kind_is_named(field: str, value: Any) -> None:
    with pytest.raises(CapabilityError) as caught:
        Capabilities(**{field: value})

    assert caught.value.field == field


def test_needs_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        setattr(Capabilities(), "network", ["evil.example"])  # noqa: B010


def test_a_lone_path_is_not_a_reach() -> None:
    with pytest.raises(CapabilityError):
        FileReach(read="data")
