"""A secret that a tool received is masked in every form at every sink: the tables of docs/secrets.md."""

import base64
import html
import json
import logging
import quopri
import re
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from spindle import (
    Artifact,
    Backends,
    Budget,
    Call,
    Capabilities,
    Err,
    Events,
    Executor,
    Gate,
    Journal,
    Media,
    Ok,
    Spool,
    Tool,
    ToolContext,
    ToolRegistry,
)
from spindle.capabilities import Redactor
from spindle.execution import ApprovalRequest, render_approval
from spindle.trust import render_outcome

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

CANARY = "sk-live/Ünïcode+4711=canary"
PARTS = ("canary", "nïcode")


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "percent-encoded": lambda text: quote(text, safe=""),
    "HTML entities": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "HTML entities in hex": lambda text: "".join(f"&#x{ord(each):X};" for each in text),
    "HTML named entities": lambda text: html.escape(text).replace("/", "&sol;").replace("=", "&equals;"),
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "0x hex": lambda text: "0x" + text.encode().hex(),
    "0x hex bytes": lambda text: ", ".join(f"0x{byte:02X}" for byte in text.encode()),
    "base64": lambda text: encode_base64(text.encode()),
    "base64 inside": lambda text: encode_base64(b"u:" + text.encode() + b"\n"),
    "URL-safe base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "double base64": lambda text: encode_base64(base64.b64encode(text.encode())),
    "base64 of hex": lambda text: encode_base64(text.encode().hex().encode()),
    "hex of base64": lambda text: base64.b64encode(text.encode()).hex(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base32 inside": lambda text: base64.b32encode(b"key:" + text.encode() + b"\n").decode().lower(),
    "base85": lambda text: base64.b85encode(text.encode()).decode(),
    "Ascii85": lambda text: base64.a85encode(text.encode()).decode(),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "zero-width splits": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "full-width letters": lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
}

Leak = Callable[[str, ToolContext], Awaitable[Any]]


class Trial:
    """One call whose handler leaks a form of its secret; `seen` collects what leaves the executor."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: list[str] = []
        self.events = Events()
        self.journal = Journal.memory()
        for name in ("tool_execution_start", "tool_progress", "log", "warning"):
            self.events.on(name, lambda payload: self.seen.append(repr(payload)))

    async def run(self, form: Callable[[str], str], leak: Leak, **args: str) -> Any:
        async def handler(_args: Any, ctx: ToolContext, _meta: Any) -> Any:
            return await leak(form((await ctx.secrets.get("KEY")).reveal()), ctx)

        async def approve(request: ApprovalRequest) -> bool:
            self.seen += [repr(request.args), render_approval(request).text]
            return True

        async def open_gate(gate: Gate) -> None:
            self.seen.append(repr((gate.reason, gate.payload, gate.schema)))

        tool = Tool(
            name="leak",
            description="Leak.",
            input_schema={"type": "object", "additionalProperties": True},
            handler=handler,
            capabilities=Capabilities(secrets=["KEY"], process=["sh"]),
            requires_approval=True,
        )
        backends = Backends.local(self.root, secrets={"KEY": CANARY}, commands=["sh"])
        executor = Executor(
            ToolRegistry([tool]),
            backends=backends,
            journal=self.journal,
            approve=approve,
            spool=Spool.files(self.root / "spool"),
            budget=Budget(chars=4_000),
        )
        context = ToolContext(events=self.events, open_gate=open_gate)
        outcome = None
        for number in range(2):  # the first call makes the secret known
            given = (
                {} if number == 0 else {name: form(CANARY) if text == "<form>" else text for name, text in args.items()}
            )
            [outcome] = await executor.execute_parallel([Call(f"c{number}", "leak", given)], context)
            self.seen += [repr(outcome.result), render_outcome(outcome)]
            if isinstance(outcome.result, Ok):
                self.seen += [(await each.as_bytes()).decode() for each in outcome.result.media]
        await self.events.flush()
        self.seen += [repr(entry) for entry in await self.journal.list()]
        return outcome


async def nothing(_text: str, _ctx: ToolContext) -> str:
    return ""


async def text(leaked: str, _ctx: ToolContext) -> str:
    return f"before {leaked} after"


async def structured(leaked: str, _ctx: ToolContext) -> Ok:
    return Ok("see", structured={"a": [{leaked: leaked}]})


async def error(leaked: str, _ctx: ToolContext) -> Err:
    return Err("execution_failed", f"bad {leaked}", field=f"/x/{leaked}", cause=ValueError(leaked))


async def exception(leaked: str, _ctx: ToolContext) -> str:
    raise ValueError(leaked) from KeyError(leaked)


async def progress(leaked: str, ctx: ToolContext) -> str:
    ctx.progress(f"at {leaked}")
    ctx.log("info", f"at {leaked}", found=leaked)
    return ""


async def warning(leaked: str, ctx: ToolContext) -> str:
    ctx.events.warn(f"careful, {leaked}", source="tool", error=ValueError(leaked))
    return ""


async def gate(leaked: str, ctx: ToolContext) -> str:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": leaked}}}
    await ctx.wait_for(
        Gate(f"about {leaked}", {"question": leaked, "more": [leaked]}, schema=schema, timeout_seconds=5)
    )
    return ""


async def spooled(leaked: str, _ctx: ToolContext) -> str:
    return "x" * 5_000 + leaked + "y" * 5_000


async def text_media(leaked: str, _ctx: ToolContext) -> Media:
    data = f"before {leaked} after".encode()
    return Media.tool_generated(data, kind="document", mime_type="application/json", filename="a.json")


SINKS: dict[str, tuple[Leak, dict[str, str]]] = {
    "result text": (text, {}),
    "structured result": (structured, {}),
    "media of text types": (text_media, {}),
    "Err: text, field, cause": (error, {}),
    "exception and its causes": (exception, {}),
    "progress and log": (progress, {}),
    "events.warn": (warning, {}),
    "gate: reason, payload, schema": (gate, {}),
    "spooled result": (spooled, {}),
    "argument: journal, start event, approval": (nothing, {"body": "<form>", "nested": "<form>"}),
}


def read_spool(root: Path) -> list[str]:
    return [path.read_bytes().decode("utf-8", "replace") for path in (root / "spool").rglob("*") if path.is_file()]


def check(seen: list[str], form: Callable[[str], str], root: Path) -> None:
    for each in [*seen, *read_spool(root)]:
        shown = re.sub(r"[\u200b\u00ad]", "", each)
        for leaked in (form(CANARY), CANARY, unicodedata.normalize("NFD", CANARY), repr(form(CANARY))[1:-1]):
            assert leaked not in each
            assert leaked not in shown
        assert not any(part in unicodedata.normalize("NFKC", shown) for part in PARTS)


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("form", FORMS)
async def test_no_sink_shows_a_secret_in_any_form(tmp_path: Path, sink: str, form: str) -> None:
    leak, args = SINKS[sink]
    trial = Trial(tmp_path)

    await trial.run(FORMS[form], leak, **args)

    assert any("***" in each for each in [*trial.seen, *read_spool(tmp_path)])
    check(trial.seen, FORMS[form], tmp_path)


async def test_output_of_a_command_is_masked_in_the_spool(tmp_path: Path) -> None:
    (tmp_path / "leak.sh").write_text(
        'head -c 2000000 /dev/zero | tr "\\0" x; printf "%s" "$KEY"; head -c 200000 /dev/zero'
    )

    async def run(_leaked: str, ctx: ToolContext) -> str:
        key = (await ctx.secrets.get("KEY")).reveal()
        finished = await ctx.process.run(["sh", "leak.sh"], env={"KEY": key})
        return f"{finished.notes}"

    trial = Trial(tmp_path)
    outcome = await trial.run(str, run)

    assert isinstance(outcome.result, Ok), outcome.result
    spooled_files = [path.read_bytes() for path in (tmp_path / "spool").rglob("*") if path.is_file()]
    assert any(len(data) > 2_000_000 for data in spooled_files)
    assert not any(b"canary" in data for data in spooled_files)


@pytest.mark.parametrize(
    "place", [(8 << 20) - 10, *(pytest.param(place, marks=pytest.mark.slow) for place in (0, 1 << 20, 9 << 20))]
)
async def test_large_artifacts_are_masked(tmp_path: Path, place: int) -> None:
    async def make(leaked: str, _ctx: ToolContext) -> Artifact:
        return Artifact.from_text("x" * place + leaked + "y" * ((10 << 20) - place) + "\nend")

    outcome = await Trial(tmp_path).run(FORMS["base64"], make)

    assert isinstance(outcome.result, Ok)
    assert outcome.result.artifact is not None
    data = await outcome.result.artifact.as_text()
    assert FORMS["base64"](CANARY)[4:-8] not in data
    assert data.endswith("y\nend")
    assert "***" in data


async def test_a_warning_without_an_observer_is_masked_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trial = Trial(tmp_path)
    trial.events = Events()

    with caplog.at_level(logging.WARNING):
        await trial.run(str, warning)

    assert "careful, ***" in caplog.text
    assert "canary" not in caplog.text


def test_every_piece_of_a_stream_may_hold_a_part_of_a_secret() -> None:
    redactor = Redactor([CANARY])
    data = (b"a" * 70_000 + CANARY.encode()) * 5

    for size in (1, 7_001, 100_000):
        masked = redactor.mask_stream()
        pieces = [data[at : at + size] for at in range(0, len(data), size)] if size > 1 else [data]
        clean = b"".join([*map(masked.feed, pieces), masked.close()])
        assert clean == (b"a" * 70_000 + b"***") * 5


def test_the_documentation_lists_every_form_and_every_sink() -> None:
    page = Path(__file__).parents[2].joinpath("docs/secrets.md").read_text(encoding="utf-8")

    assert [name for name in [*FORMS, *SINKS] if name not in page] == []
