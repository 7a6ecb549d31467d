"""`spindle worker` before it takes calls: what is missing or wrong in the configuration is said at once."""

import json

import pytest

from tests.cli.conftest import Command, Place


def test_without_an_engine_it_says_what_to_configure(spindle: Command) -> None:
    ran = spindle("worker")

    assert ran.code == 2
    assert "[engine]" in ran.err


@pytest.mark.parametrize("url", ["http://127.0.0.1:7233", "temporal"])
def test_another_url_is_refused(spindle: Command, url: str) -> None:
    ran = spindle("worker", "--engine", url)

    assert ran.code == 2
    assert "temporal://" in ran.err


def test_a_spool_in_memory_is_refused(spindle: Command, place: Place) -> None:
    place.configure('[spool]\npath = "memory"\n[engine]\nurl = "temporal://127.0.0.1:1"\n')
    ran = spindle("worker")

    assert ran.code == 2
    assert "spool.path" in ran.err


def test_a_secret_that_is_not_set_is_named(spindle: Command, place: Place) -> None:
    place.configure('[engine]\nurl = "dbos+postgresql://u@127.0.0.1:1/d"\noptions = { password = "DB_PASSWORD" }\n')
    ran = spindle("worker")

    assert ran.code == 2
    assert "DB_PASSWORD" in ran.err


def test_an_unknown_queue_is_refused(spindle: Command, place: Place) -> None:
    place.configure('[engine]\nurl = "temporal://127.0.0.1:1"\ntask_queues = { shop = "orders" }\n')
    ran = spindle("worker", "--queue", "order")

    assert ran.code == 2
    assert "spindle, orders" in ran.err


@pytest.mark.slow
def test_a_password_in_the_url_is_reported(spindle: Command, place: Place) -> None:
    place.configure('[engine]\nurl = "dbos+postgresql://u:pw@127.0.0.1:1/d"\n')
    ran = spindle("doctor")

    assert "engine.url" in ran.out + ran.err


def test_without_any_queue_it_says_so(spindle: Command, place: Place) -> None:
    place.configure('[engine]\nurl = "temporal://127.0.0.1:1"\nqueue = false\n')
    ran = spindle("worker")

    assert ran.code == 2
    assert "task_queues" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("url", ["temporal://127.0.0.1:1", "dbos+postgresql://u@127.0.0.1:1/d"])
def test_doctor_reports_an_engine_that_cannot_be_reached(spindle: Command, place: Place, url: str) -> None:
    place.configure(f'[engine]\nurl = "{url}"\n')
    ran = spindle("doctor", "--json")

    (check,) = [each for each in json.loads(ran.out)["checks"] if each["name"] == "engine"]
    assert (ran.code, check["status"]) == (1, "failed")


@pytest.mark.parametrize(
    ("spot", "problem"),
    [
        ("json:dumps", "failed with TypeError"),
        ("json:missing", "has no 'missing'"),
        ("builtins:dict", "expected a TurnRunner"),
    ],
)
def test_a_runner_of_turns_that_cannot_be_built_is_named(
    spindle: Command, place: Place, spot: str, problem: str
) -> None:
    place.configure(f'[engine]\nurl = "temporal://127.0.0.1:1"\nturns = {{ reports = "{spot}" }}\n')
    ran = spindle("worker")

    assert ran.code == 2
    assert "engine.turns" in ran.err
    assert problem in ran.err


def test_turns_need_a_journal_that_callers_share(spindle: Command, place: Place) -> None:
    settings = '[engine]\nurl = "temporal://127.0.0.1:1"\nturns = { reports = "builtins:dict" }\n'
    place.configure(f'[journal]\npath = "memory"\n{settings}')
    ran = spindle("worker")

    assert ran.code == 2
    assert "journal.path" in ran.err
