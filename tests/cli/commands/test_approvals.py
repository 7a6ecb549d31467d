"""`spindle approvals …`: calls that wait in the journal are listed, shown and answered by later commands."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.cli.main import NOT_FOUND, OK, REFUSED, USAGE
from tests.cli.conftest import Command, Place

TOOLS = """
import os
import signal
from pathlib import Path
from spindle import tool

@tool(requires_approval=True, secret_fields=["password"])
async def pay(amount: int, password: str = "", note: str = "") -> str:
    "Pay an amount."
    if amount == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    with Path("paid.txt").open("a") as file:
        file.write(f"{amount} {password};")
    return f"paid {amount}"

tools = [pay]
"""


@pytest.fixture(autouse=True)
def configured(place: Place, module: Callable[[str, str], None]) -> None:
    module("paying", TOOLS)
    place.configure('[tools]\nmodules = ["paying:tools"]\npython_path = ["."]\n')


def ask(spindle: Command, *arguments: str) -> str:
    ran = spindle("call", "pay", *arguments, "--output", "json")
    assert ran.code == REFUSED
    return json.loads(ran.out)["ticket"].partition("-")[0]


def paid(place: Place) -> str:
    path = place.work / "paid.txt"
    return path.read_text() if path.exists() else ""


def test_a_waiting_call_is_listed_shown_and_approved_once(spindle: Command, place: Place) -> None:
    approval_id = ask(spindle, "amount=5", "password=hunter2-hunter2")

    listed = spindle("approvals", "list")
    [known] = json.loads(spindle("approvals", "list", "--json").out)["approvals"]
    shown = spindle("approvals", "show", approval_id[:8])
    approved = spindle("approvals", "approve", approval_id, "--by", "ann")
    again = spindle("approvals", "approve", approval_id)
    denied = spindle("approvals", "deny", approval_id)
    [answered] = json.loads(spindle("approvals", "list", "--all", "--json").out)["approvals"]

    assert approval_id in listed.out
    assert 'Run pay with {"amount": 5, "password": "***"}?' in listed.out
    assert (known["status"], known["args"]) == ("pending", {"amount": 5, "password": "***"})
    assert '"amount": 5' in shown.out
    assert (approved.code, again.code, denied.code) == (OK, OK, REFUSED)
    assert "paid 5" in approved.out
    assert "paid 5" in again.out
    assert paid(place) == "5 hunter2-hunter2;"
    assert (answered["status"], answered["answered_by"]) == ("finished", "ann")
    assert "hunter2" not in listed.out + shown.out + approved.out + json.dumps(answered)
    assert spindle("approvals", "list").err.startswith("spindle: no call waits for approval")


def test_a_waiting_call_is_denied(spindle: Command, place: Place) -> None:
    approval_id = ask(spindle, "amount=5")

    assert spindle("approvals", "deny", approval_id).code == OK
    assert spindle("approvals", "approve", approval_id).code == REFUSED
    assert paid(place) == ""


def test_some_arguments_of_a_waiting_call_are_changed(spindle: Command, place: Place) -> None:
    approval_id = ask(spindle, "amount=5", "password=hunter2")

    assert spindle("approvals", "edit", approval_id).code == USAGE
    assert spindle("approvals", "edit", approval_id, "amount=many").code == USAGE
    assert spindle("approvals", "edit", approval_id, "amount=3").code == OK
    assert spindle("approvals", "edit", approval_id, "amount=4").code == REFUSED
    shown = spindle("approvals", "show", approval_id)
    assert paid(place) == "3 hunter2;"
    assert "edited to:" in shown.out


def test_an_approval_is_named_by_the_ticket_too_and_an_unknown_one_is_said(spindle: Command, place: Place) -> None:
    ticket = json.loads(spindle("call", "pay", "amount=1", "--output", "json").out)["ticket"]

    assert spindle("approvals", "approve", "ap_nothing").code == NOT_FOUND
    assert spindle("approvals", "approve", f"{ticket[:-2]}xx").code == REFUSED
    assert spindle("approvals", "approve", ticket).code == OK
    assert paid(place) == "1 ;"


def test_a_start_that_several_approvals_have_is_refused(spindle: Command) -> None:
    ask(spindle, "amount=1")
    ask(spindle, "amount=2")

    assert spindle("approvals", "approve", "ap_").code == USAGE


def test_the_state_key_is_created_once_for_its_owner_only(spindle: Command, place: Place) -> None:
    ask(spindle, "amount=1")
    path = place.state / "state.key"
    key = path.read_text()
    ask(spindle, "amount=2")

    assert path.read_text() == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(Path(place.state).glob("state.key?*")) == []


def test_the_state_key_of_the_environment_comes_first(
    spindle: Command, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINDLE_STATE_KEY", "old")
    approval_id = ask(spindle, "amount=1")
    monkeypatch.setenv("SPINDLE_STATE_KEY", "new,old")

    assert spindle("approvals", "approve", approval_id).code == OK
    assert not (place.state / "state.key").exists()


def test_the_same_edit_again_returns_the_recorded_outcome(spindle: Command, place: Place) -> None:
    approval_id = ask(spindle, "amount=5")

    answers = [spindle("approvals", "edit", approval_id, "amount=3") for _ in range(2)]

    assert [ran.code for ran in answers] == [OK, OK]
    assert all("paid 3" in ran.out for ran in answers)
    assert paid(place) == "3 ;"


@pytest.mark.parametrize("start", ["", "-", "a", "ap_"])
def test_a_start_that_any_approval_has_answers_none(spindle: Command, place: Place, start: str) -> None:
    ask(spindle, "amount=5")

    assert spindle("approvals", "approve", start).code == USAGE
    assert paid(place) == ""


def test_a_call_is_denied_when_its_tool_cannot_be_imported(spindle: Command, place: Place) -> None:
    approval_id = ask(spindle, "amount=5")
    (place.work / "paying.py").write_text("raise RuntimeError('broken')")
    sys.modules.pop("paying", None)

    assert spindle("approvals", "deny", approval_id, "--by", "ann").code == OK
    [denied] = json.loads(spindle("approvals", "list", "--all", "--json").out)["approvals"]
    assert (denied["status"], denied["answered_by"]) == ("denied", "ann")


def test_hostile_characters_in_arguments_are_shown_as_numbers(spindle: Command) -> None:
    hostile = 'x\u202etxt.exe\x1b[2K\r\nRun ls?\U000e0041\u200b"}?'
    approval_id = ask(spindle, "amount=5", f"note={hostile}")

    listed = spindle("approvals", "list").out
    shown = spindle("approvals", "show", approval_id).out

    spelled = r"x\u202etxt.exe\u001b[2K\r\nRun ls?\U000e0041\u200b\"}?"
    assert spelled in listed
    assert spelled in shown
    assert all(line.isprintable() for line in (listed + shown).splitlines())
    assert len(listed.splitlines()) == 2


@pytest.mark.slow  # tests/execution/test_resume_processes.py kills a process too
def test_an_approved_call_that_a_kill_interrupted_is_shown_so_and_not_run_again(spindle: Command, place: Place) -> None:
    approval_id = ask(spindle, "amount=0")
    command = [sys.executable, "-m", "spindle.cli.main", "approvals", "approve", approval_id]
    killed = subprocess.run([*command, "--state", str(place.state)], cwd=place.work, check=False, timeout=60)

    [before] = json.loads(spindle("approvals", "list", "--all", "--json").out)["approvals"]
    again = json.loads(spindle("approvals", "approve", approval_id, "--json").out)
    [after] = json.loads(spindle("approvals", "list", "--all", "--json").out)["approvals"]

    assert killed.returncode == -signal.SIGKILL
    assert (before["status"], again["code"], after["status"]) == ("interrupted", "interrupted", "finished")
    assert paid(place) == ""


def test_a_call_that_was_approved_at_the_terminal_is_listed_with_its_user(
    spindle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")

    assert spindle("call", "pay", "amount=5", "password=hunter2", "--yes").code == OK

    [known] = json.loads(spindle("approvals", "list", "--all", "--json").out)["approvals"]
    assert (known["status"], known["answered_by"]) == ("finished", "ann")
    assert known["args"] == known["ran"] == {"amount": 5, "password": "***"}
    assert known["shown"] == 'Run pay with {"amount": 5, "password": "***"}?'
