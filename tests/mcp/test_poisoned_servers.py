"""Six servers that turn against their users after they were locked: nothing they changed reaches a client.

A canary is put into every poison, together with a secret that the server was given. Neither is found in any sink.
"""

import json
import logging
import secrets
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from spindle import Events, Executor, Journal, ToolContext
from spindle.mcp import McpServers, ServerSpec, ToolServer
from spindle.mcp.client.survey import ServerSurvey, survey_servers
from spindle.mcp.lint import lint_registry
from spindle.mcp.lock import LockFile, LockPolicy, QuarantineWarning
from tests.bounds import wait_until
from tests.mcp.gateways import entry
from tests.mcp.serving import COMMAND, serving
from tests.mcp.upstreams import IN_TIME, SERVERS, changed_to

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

PROGRAM = (sys.executable, "-I", "-S", str(SERVERS / "poisoned.py"))
QUARANTINED = {
    "changed": {"read_note"},
    "hidden": {"read_note"},
    "renamed": {"read_note", "read_secret_note"},
    "shadowing": {"send_mail"},
    "per-client": {"read_note"},
    "schema": {"read_note"},
}
"""What each server turns into poison; `lint` flags hidden, shadowing and schema texts on the first day too."""
OFFERED = {kind: {"read_note", "turn", "list_notes"} - names for kind, names in QUARANTINED.items()}
OFFERED["renamed"] = {"turn"}


class Attack:
    """A poisoned server and an honest one beside it, the canaries, and every sink that was watched."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.canary, self.secret = f"canary-{secrets.token_hex(8)}", f"secret-{secrets.token_hex(8)}"
        self.day, self.log, self.mail_log = folder / "day", folder / "notes.log", folder / "mail.log"
        self.journal = folder / "journal.sqlite"
        self.sinks: list[str] = []
        self.warnings: list[Any] = []
        args = (kind, "--day", str(self.day), "--canary", self.canary, "--log", str(self.log))
        self.spec = ServerSpec(
            name="notes", command=PROGRAM[0], args=(*PROGRAM[1:], *args), env_secrets={"CANARY_SECRET": "TOKEN"}
        )
        mail = (*PROGRAM[1:], "changed", "--log", str(self.mail_log))
        self.mail = ServerSpec(name="mail", command=PROGRAM[0], args=mail)

    async def survey(self) -> ServerSurvey:
        [found] = await survey_servers([self.spec], secrets=lambda _: self.secret, events=self.watch())
        return found

    def watch(self) -> Events:
        events = Events()
        events.on("warning", self.warnings.append)
        events.on("log", lambda logged: self.sinks.append(repr(logged)))
        return events

    def open(self, policy: LockPolicy) -> McpServers:
        return McpServers([self.spec, self.mail], secrets=lambda _: self.secret, events=self.watch(), lock=policy)

    def find_leaks(self) -> list[str]:
        """Return the sinks with a canary; it may also be hidden in tag characters."""
        tags = "".join(chr(0xE0000 + ord(each)) for each in self.canary)
        kept = [*self.sinks, *map(repr, self.warnings), *(each.message for each in self.warnings)]
        for path in (self.mail_log, self.journal, Path(f"{self.journal}-wal")):
            if path.exists():
                kept.append(path.read_bytes().decode("utf-8", "replace"))
        words = (self.canary, self.secret, tags, json.dumps(tags)[1:-1])
        return [each[:300] for each in kept if any(word in each for word in words)]


async def lock(attack: Attack) -> LockPolicy:
    """Lock the honest server, as `spindle lock` does."""
    survey = await attack.survey()
    locked = survey.get_lockable()
    assert locked is not None
    file = LockFile(servers={"notes": locked})
    assert attack.secret not in file.to_text()
    return LockPolicy(file=LockFile.parse(file.to_text()))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("kind", QUARANTINED)
async def test_a_poisoned_definition_reaches_no_client_and_no_sink(
    kind: str, mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    attack = Attack(kind, tmp_path)
    with anyio.fail_after(IN_TIME):
        policy = await lock(attack)
        attack.sinks.clear()
        attack.day.touch()
        async with (
            Journal.sqlite(attack.journal) as journal,
            attack.open(policy) as servers,
        ):
            executor = Executor(servers.registry, journal=journal)
            # At every change: there is no moment at which a client could list what is withheld.
            servers.on_change(lambda: attack.sinks.append(json.dumps(servers.registry.to_definitions())))
            await servers.ready()
            async with Client(ToolServer(executor, servers.registry).sdk, mode=mode) as client:
                listed = (await client.list_tools()).tools
                attack.sinks += [each.model_dump_json() for each in listed]
                for name in QUARANTINED[kind]:
                    refused = await client.call_tool(f"mcp__notes__{name}", {"path": "x"})
                    attack.sinks.append(refused.model_dump_json())
                    assert refused.is_error
                for name in OFFERED[kind]:
                    assert not (await client.call_tool(f"mcp__notes__{name}", {})).is_error
                assert not (await client.call_tool("mcp__mail__list_notes", {})).is_error
            attack.sinks += [json.dumps(asdict(each)) for each in servers.status()]
            [status] = [each for each in servers.status() if each.name == "notes"]

    names = {each.name.removeprefix("mcp__notes__") for each in listed if each.name.startswith("mcp__notes__")}
    assert names == OFFERED[kind]
    assert {each.name for each in status.withheld} == QUARANTINED[kind]
    assert status.quarantined == len(QUARANTINED[kind])
    reported = [each for each in attack.warnings if isinstance(each, QuarantineWarning)]
    assert {(each.server, each.kind, each.name) for each in reported} == {
        ("notes", "tool", name) for name in QUARANTINED[kind]
    }
    called = {json.loads(line)["name"] for line in attack.log.read_text().splitlines()}
    assert called == OFFERED[kind], "a withheld tool was called"
    attack.sinks += [record.getMessage() for record in caplog.records]
    assert attack.find_leaks() == []


@pytest.mark.parametrize("kind", [kind for kind in QUARANTINED if kind != "per-client"])
async def test_a_server_that_turns_while_it_is_in_use_is_quarantined_too(kind: str, tmp_path: Path) -> None:
    attack = Attack(kind, tmp_path)
    with anyio.fail_after(IN_TIME):
        policy = await lock(attack)
        async with attack.open(policy) as servers:
            servers.on_change(lambda: attack.sinks.append(json.dumps(servers.registry.to_definitions())))
            await servers.ready()
            before = {each.name for each in servers.registry if each.name.startswith("mcp__notes__")}
            await Executor(servers.registry).execute_parallel(
                [{"tool_call_id": "1", "name": "mcp__notes__turn", "args": {}}], ToolContext()
            )
            await changed_to(servers, lambda: servers.status()[0].quarantined > 0)
            after = {each.name for each in servers.registry if each.name.startswith("mcp__notes__")}

    assert before == {f"mcp__notes__{name}" for name in ("read_note", "turn", "list_notes")}
    assert after == {f"mcp__notes__{name}" for name in OFFERED[kind]}
    assert attack.find_leaks() == []


@pytest.mark.parametrize("kind", [kind for kind in QUARANTINED if kind != "renamed"])
async def test_lint_flags_poison_that_was_there_before_any_lock(kind: str, tmp_path: Path) -> None:
    attack = Attack(kind, tmp_path)
    attack.day.touch()
    with anyio.fail_after(IN_TIME):
        async with attack.open(LockPolicy()) as servers:
            await servers.ready()
            findings = lint_registry(servers.registry, servers.definitions())

    flagged = {each.name for each in findings if each.severity == "error" and each.server == "notes"}
    assert flagged == QUARANTINED[kind]


async def test_without_a_lock_a_server_that_turns_is_named_in_a_warning(tmp_path: Path) -> None:
    attack = Attack("changed", tmp_path)
    with anyio.fail_after(IN_TIME):
        async with attack.open(LockPolicy()) as servers:
            await servers.ready()
            await Executor(servers.registry).execute_parallel(
                [{"tool_call_id": "1", "name": "mcp__notes__turn", "args": {}}], ToolContext()
            )
            await changed_to(servers, lambda: any("read_note" in each.message for each in attack.warnings))

    assert len([each for each in attack.warnings if "changed while it was in use" in each.message]) == 1


async def test_a_server_that_answers_clients_differently_is_found_and_not_locked(tmp_path: Path) -> None:
    attack = Attack("per-client", tmp_path)

    survey = await attack.survey()

    assert [(each.type, each.name) for each in survey.per_client.definitions] == [("changed", "read_note")]
    locked = survey.get_lockable()
    assert locked is not None
    assert set(locked.of_kind("tool")) == {"turn", "list_notes"}


async def test_an_honest_server_is_the_same_for_every_client(tmp_path: Path) -> None:
    survey = await Attack("changed", tmp_path).survey()

    assert not survey.per_client
    assert survey.found is not None
    assert survey.found.program == {"name": "poisoned-changed", "version": "1.0.0"}
    assert survey.found.capabilities == {"tools": {"listChanged": True}}


def read_health(address: str, token: str | None) -> Any:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{address.removesuffix('/mcp')}/health", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


ALL_OFFERED = {f"mcp__{kind}__{name}" for kind, names in OFFERED.items() for name in names}


def run_command(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    chosen = ["--config", str(folder / "spindle.toml"), "--state", str(folder / "state")]
    return subprocess.run(
        [*COMMAND, *words, *chosen], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


async def use_gateway(address: str, token: str) -> list[str]:
    """List the tools, call what is in quarantine, and return everything that was answered."""
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        listed = (await client.list_tools()).tools
        answers = [
            await client.call_tool(f"mcp__{kind}__{name}", {"path": "x"})
            for kind, names in QUARANTINED.items()
            for name in names
        ]
    assert all(answer.is_error for answer in answers)
    assert {each.name for each in listed if each.name.startswith("mcp__")} == ALL_OFFERED
    return [each.model_dump_json() for each in [*listed, *answers]]


def test_six_poisoned_servers_behind_one_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary, secret, token = (f"{kind}-{secrets.token_hex(16)}" for kind in ("canary", "secret", "token"))
    monkeypatch.setenv("CANARY_SECRET", secret)
    monkeypatch.setenv("GATEWAY_TOKEN", token)
    args, given = ["--day", str(tmp_path / "day"), "--canary", canary], {"CANARY_SECRET": "CANARY_SECRET"}
    tables = [entry(kind, [*PROGRAM, kind, *args], env_secrets=given) for kind in QUARANTINED]
    config = "\n".join([*tables, '[profiles.all]\ntoken_env = "GATEWAY_TOKEN"\n'])
    (tmp_path / "spindle.toml").write_text(config)

    assert run_command(tmp_path, "lock").returncode == 1, "one of them answers clients differently"
    (tmp_path / "day").touch()
    assert run_command(tmp_path, "verify").returncode == 1
    shown, checked = run_command(tmp_path, "list", "--json"), run_command(tmp_path, "doctor", "--json")
    assert {each["name"] for each in json.loads(shown.stdout)["tools"]} == ALL_OFFERED
    sinks = [shown.stdout, shown.stderr, checked.stdout, checked.stderr]
    assert sum("quarantine" in each["name"] for each in json.loads(checked.stdout)["checks"]) == len(QUARANTINED)
    with serving(tmp_path) as (_, address):
        wait_until(lambda: all(each["state"] == "ready" for each in read_health(address, token)["servers"]))
        sinks += anyio.run(use_gateway, address, token)
        health, public = read_health(address, token), read_health(address, None)

    withheld = {each["name"]: {one["name"] for one in each["withheld"]} for each in health["servers"]}
    assert withheld == QUARANTINED
    assert set(public) == {"status"}
    sinks += [json.dumps(health), (tmp_path / "stderr.txt").read_text()]
    with closing(sqlite3.connect(tmp_path / "state" / "journal.sqlite")) as database:
        sinks += database.iterdump()
    tags = "".join(chr(0xE0000 + ord(each)) for each in canary)
    words = (canary, secret, tags, json.dumps(tags)[1:-1])
    assert [each[:300] for each in sinks if any(word in each for word in words)] == []
    assert secret not in (tmp_path / "spindle.lock").read_text()
