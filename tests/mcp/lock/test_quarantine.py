"""The guard of a server's definitions: what was not accepted is withheld, and reported without its text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle import Events
from spindle.capabilities import Redactor
from spindle.events import Warned
from spindle.mcp.lock import DefinitionGuard, Listing, LockedServer, LockFile, LockPolicy, QuarantineWarning


class Watched:
    """A guard and the warnings it emitted."""

    def __init__(self, *locked: Any, has_lock: bool = True, **policy: Any) -> None:
        self.warnings: list[Warned] = []
        events = Events()
        events.on("warning", self.warnings.append)
        server = LockedServer(definitions={"tool": Listing.read("tool", locked).definitions})
        file = LockFile(servers={"s": server} if locked else {}) if has_lock else None
        self.redactor = Redactor()
        self.guard = DefinitionGuard("s", LockPolicy(file=file, **policy), events=events, redactor=self.redactor)

    def take(self, *listed: Any) -> list[str]:
        """Take a listing and return the names that may be offered."""
        checked = self.guard.check("tool", listed)
        self.guard.apply(checked)
        names = [each["name"] for each in listed]
        assert [checked.is_withheld(name) for name in names] == [self.guard.is_withheld("tool", name) for name in names]
        return [name for name in names if not self.guard.is_withheld("tool", name)]

    def quarantined(self) -> list[tuple[str, str]]:
        return [(each.kind, each.name) for each in self.warnings if isinstance(each, QuarantineWarning)]


def tool(name: str, description: str = "Reads.") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


def test_a_listing_as_it_was_locked_is_offered_without_a_word() -> None:
    watched = Watched(tool("a"), tool("b"))

    assert watched.take(tool("b"), tool("a")) == ["b", "a"]
    assert watched.warnings == []
    assert watched.guard.is_locked is True


def test_changed_new_and_renamed_definitions_are_withheld_and_reported_once() -> None:
    watched = Watched(tool("a"), tool("b", "Writes."), tool("c", "Deletes."))
    listed = [tool("a", "Reads. POISON"), tool("e", "POISON"), tool("b", "Writes."), tool("d", "Deletes.")]

    assert watched.take(*listed) == ["b"]
    assert watched.take(*listed) == ["b"]

    assert sorted(watched.quarantined()) == [("tool", "a"), ("tool", "d"), ("tool", "e")]
    assert not any("POISON" in repr(each) for each in (*watched.warnings, *watched.guard.get_withheld()))
    reasons = {each.name: each.reason for each in watched.guard.get_withheld()}
    assert "description" in reasons["a"]
    assert "'c'" in reasons["d"]


def test_exchanged_names_are_withheld_both() -> None:
    watched = Watched(tool("read", "Reads."), tool("delete", "Deletes."))

    assert watched.take(tool("read", "Deletes."), tool("delete", "Reads.")) == []


def test_a_definition_that_is_honest_again_is_offered_again() -> None:
    watched = Watched(tool("a"))

    assert watched.take(tool("a", "Poison.")) == []
    assert watched.take(tool("a")) == ["a"]
    assert watched.guard.get_withheld() == ()
    assert watched.take(tool("a", "Poison.")) == []
    assert len(watched.quarantined()) == 2


def test_a_name_listed_twice_with_different_definitions_is_withheld() -> None:
    assert Watched(tool("a")).take(tool("a"), tool("a", "Poison.")) == []


def test_a_name_that_is_too_long_to_lock_is_withheld() -> None:
    assert Watched(tool("a")).take(tool("a"), tool("n" * 2000)) == ["a"]


def test_what_was_never_listed_is_withheld_only_from_a_locked_server() -> None:
    assert Watched(tool("a")).guard.is_withheld("prompt", "p")
    assert Watched(unlocked="quarantine").guard.is_withheld("tool", "a")
    assert not Watched().guard.is_withheld("tool", "a")


def test_a_server_that_is_not_locked_is_offered_with_one_warning() -> None:
    watched = Watched()

    assert watched.take(tool("a")) == ["a"]
    assert watched.take(tool("a")) == ["a"]
    assert [each.source for each in watched.warnings] == ["mcp"]
    assert watched.guard.is_locked is False


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_server_that_is_not_locked_can_be_withheld_whole(has_lock: bool) -> None:
    watched = Watched(has_lock=has_lock, unlocked="quarantine")

    assert watched.take(tool("a"), tool("b")) == []
    assert watched.quarantined() == [("tool", "a"), ("tool", "b")]


def test_without_a_lock_a_change_in_use_is_a_warning() -> None:
    watched = Watched(has_lock=False)

    assert watched.take(tool("a"), tool("b", "Writes.")) == ["a", "b"]
    assert watched.warnings == []
    assert watched.take(tool("a", "Poison."), tool("b", "Writes."), tool("new", "New.")) == ["a", "b", "new"]
    assert watched.take(tool("a", "Poison."), tool("new", "New.")) == ["a", "new"]
    assert watched.take(tool("c", "Writes.")) == ["c"]

    assert ["'a'" in watched.warnings[0].message, "'c'" in watched.warnings[1].message] == [True, True]
    assert len(watched.warnings) == 2
    assert watched.guard.is_locked is None


def test_thousands_of_new_definitions_are_reported_in_a_few_events() -> None:
    watched = Watched(tool("a"))

    assert watched.take(tool("a"), *(tool(f"t{number}") for number in range(2_000))) == ["a"]

    assert len(watched.warnings) <= 25
    assert len(watched.guard.get_withheld()) == 2_000


def test_secrets_are_masked_before_anything_is_compared_or_kept() -> None:
    watched = Watched(tool("a", "Uses ***."))
    watched.redactor.add("sesame-4711-open")

    assert watched.take(tool("a", "Uses sesame-4711-open.")) == ["a"]
    assert "sesame" not in repr(watched.guard.get_listing("tool").definitions["a"].value)


def test_another_lock_applies_to_the_next_check() -> None:
    watched = Watched(tool("a"))
    assert watched.take(tool("b")) == []

    watched.guard.policy = Watched(tool("b")).guard.policy

    assert watched.take(tool("b")) == ["b"]


names = st.sampled_from("abc")
tools: Any = st.builds(tool, names, st.sampled_from(["One.", "Two.", "Three."]))


@given(st.lists(tools, min_size=1, max_size=3), st.lists(st.lists(tools, max_size=4), max_size=3))
def test_only_what_is_locked_word_for_word_is_ever_offered(locked: list[Any], listings: list[list[Any]]) -> None:
    accepted = list({each["name"]: each for each in locked}.values())
    watched = Watched(*accepted)
    for listed in listings:
        watched.take(*listed)
        for each in listed:
            alike = [other for other in listed if other["name"] == each["name"]]
            may_be_offered = each in accepted and all(other == each for other in alike)
            assert watched.guard.is_withheld("tool", each["name"]) is not may_be_offered
