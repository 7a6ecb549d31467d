"""What `spindle doctor` and `spindle lint` say about roles and labels, with and without `[flow]`."""

import json
from collections.abc import Callable

import pytest

from spindle.cli.checks.check import Check
from spindle.cli.checks.flow import check_flow
from spindle.cli.config import load_config
from tests.cli.conftest import Command, Place

TOOLS = """
from spindle import tool
from spindle.capabilities import Capabilities

@tool(output="first-party")
async def order(item: str, amount: int) -> str:
    "Order an item from the shop."
    return item

@tool(read_only=True, trusted=True, capabilities=Capabilities(network=["shop.example"]))
async def read_reviews() -> str:
    "Read what customers wrote."
    return ""

tools = [order, read_reviews]
"""
CONFIG = '[tools]\nmodules = ["shop:tools"]\npython_path = ["."]\n'


@pytest.fixture(autouse=True)
def shop(module: Callable[[str, str], None]) -> None:
    module("shop", TOOLS)


def check(place: Place, text: str) -> dict[str, Check]:
    return {each.name: each for each in check_flow(load_config(place.configure(text)))}


def test_without_a_policy_it_only_says_that_flow_is_off(place: Place) -> None:
    for text in (CONFIG, CONFIG + "[flow]\nenabled = false\n"):
        [(name, found)] = check(place, text).items()
        assert (name, found.status) == ("policy", "ok")
        assert "off" in found.detail


def test_undeclared_arguments_and_trusted_outsiders_are_warnings(place: Place) -> None:
    found = check(place, CONFIG + "[flow]\n")

    assert found["policy"].status == "ok"
    assert found["roles of this machine"].status == "warning"
    assert found["roles of this machine"].facts == {"order": "item counts as target, amount counts as setting"}
    assert list(found["sources of this machine"].facts) == ["read_reviews"]


def test_declarations_of_the_operator_silence_them(place: Place) -> None:
    text = """
[flow]
[flow.tools.order.roles]
item = "setting"
amount = "setting"
[flow.tools.read_reviews]
output = "third-party-public"
"""
    assert check(place, CONFIG + text).keys() == {"policy"}


def test_lint_has_the_same_findings(spindle: Command, place: Place) -> None:
    place.configure(CONFIG)
    silent = json.loads(spindle("lint", "--rule", "SP6", "--json").out)["findings"]
    place.configure(CONFIG + "[flow]\n")
    found = json.loads(spindle("lint", "--rule", "SP6", "--json").out)["findings"]

    assert silent == []
    assert [(each["rule"], each["name"]) for each in found] == [("SP602", "read_reviews"), ("SP601", "order")]
