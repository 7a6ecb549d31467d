"""Spool, journal and storage by URL: embedded ones in every run, real servers in slow tests."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from spindle.cli.main import FAILED, OK, USAGE
from tests.capabilities.conftest import redis_url
from tests.cli.conftest import Command, Place
from tests.contracts.conftest import Bucket, moto_bucket
from tests.journal.postgres_fixtures import postgres, postgres_dsn
from tests.journal.postgres_server import PASSWORD

__all__ = ["moto_bucket", "postgres", "postgres_dsn", "redis_url"]

MODULE = """
from spindle import Capabilities, ToolContext, tool

@tool
def log(lines: int = 30_000) -> str:
    "A log."
    return "\\n".join(f"line {number}" for number in range(lines))

@tool(capabilities=Capabilities(storage="tool"))
async def count(*, ctx: ToolContext) -> int:
    "Count the calls."
    seen = await ctx.storage.get("seen", 0) + 1
    await ctx.storage.set("seen", seen)
    return seen

tools = [log, count]
"""
TOOLS = '[tools]\nmodules = ["store_tools:tools"]\npython_path = ["."]\n'


@pytest.fixture
def shop(place: Place, module: Callable[[str, str], None]) -> Place:
    module("store_tools", MODULE)
    return place


def check_of(spindle: Command, name: str) -> tuple[int, dict[str, Any]]:
    ran = spindle("doctor", "--json")
    [check] = [each for each in json.loads(ran.out)["checks"] if each["name"] == name]
    assert PASSWORD not in ran.out + ran.err
    return ran.code, check


def read_back(spindle: Command) -> str:
    reported = json.loads(spindle("call", "log", "--json").out)
    return spindle("spool", "tail", reported["artifact"]["id"], "-n", "1").out


def test_a_spool_by_url_keeps_results_and_is_checked(spindle: Command, shop: Place) -> None:
    shop.configure(f'{TOOLS}[spool]\nurl = "file://{shop.work}/kept"\n')

    assert read_back(spindle) == "line 29999\n"
    assert list((shop.work / "kept").rglob("*"))
    code, check = check_of(spindle, "spool")
    assert (code, check["status"]) == (OK, "ok")
    assert len(json.loads(spindle("spool", "list", "--json").out)["artifacts"]) == 1  # the check left nothing


@pytest.mark.slow
def test_an_object_store_is_reached_with_options_and_named_secrets(
    spindle: Command, shop: Place, moto_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = moto_bucket()
    monkeypatch.setenv("SPOOL_ID", options["access_key_id"])
    monkeypatch.setenv("SPOOL_KEY", options["secret_access_key"])
    shop.configure(
        f'{TOOLS}[spool]\nurl = "{url}"\n[spool.options]\nendpoint = "{options["endpoint"]}"\nregion = "us-east-1"\n'
        'allow_http = true\naccess_key_id = "SPOOL_ID"\nsecret_access_key = "SPOOL_KEY"\n'
    )

    assert read_back(spindle) == "line 29999\n"
    assert check_of(spindle, "spool")[1]["status"] == "ok"

    monkeypatch.delenv("SPOOL_KEY")
    refused = spindle("call", "log")
    assert refused.code == USAGE
    assert "SPOOL_KEY" in refused.err
    assert check_of(spindle, "spool")[1]["status"] == "failed"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("journal", "postgresql://u:hunter22@127.0.0.1:{port}/db"),
        ("storage", "redis://u:hunter22@127.0.0.1:{port}/0"),
    ],
)
def test_a_server_that_is_down_fails_its_check_without_showing_a_password(
    spindle: Command, place: Place, name: str, url: str
) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        place.configure(f'[{name}]\nurl = "{url.format(port=taken.getsockname()[1])}"\n')
        ran = spindle("doctor", "--json")

    [check] = [each for each in json.loads(ran.out)["checks"] if each["name"] == name]
    assert (ran.code, check["status"]) == (FAILED, "failed")
    assert "127.0.0.1" in check["fix"]
    assert "hunter22" not in ran.out + ran.err


@pytest.mark.slow
def test_a_journal_in_postgresql_records_calls_and_is_checked(
    spindle: Command, shop: Place, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_URL", postgres_dsn)
    shop.configure(f'{TOOLS}[journal]\nurl = "${{JOURNAL_URL}}"\n')

    assert check_of(spindle, "journal")[1]["status"] == "ok"
    assert check_of(spindle, "journal")[1]["status"] == "ok"
    reported = json.loads(spindle("call", "log", "lines=1", "--json").out)
    shown = json.loads(spindle("journal", "show", reported["tool_call_id"], "--json").out)
    listed = json.loads(spindle("journal", "list", "--json").out)["calls"]

    assert (shown["tool"], shown["state"]) == ("log", "finished")
    assert sorted(each["tool"] for each in listed) == ["log", "spindle doctor"]
    assert not list(shop.state.glob("journal*"))


@pytest.mark.slow
def test_storage_in_redis_is_shared_by_processes_and_checked(spindle: Command, shop: Place, redis_url: str) -> None:
    shop.configure(f'{TOOLS}[storage]\nurl = "{redis_url}"\n')

    assert check_of(spindle, "storage")[1]["status"] == "ok"
    counted = [json.loads(spindle("call", "count", "--json").out)["value"] for _ in range(2)]

    assert counted == ["1", "2"]
    assert not list(shop.state.glob("storage*"))
