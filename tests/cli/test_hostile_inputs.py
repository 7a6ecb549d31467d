"""Random hostile configurations, names, schemas and results: no crash, no raw control character, no leaked secret."""

import asyncio
import base64
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle import (
    Artifact,
    Backends,
    Call,
    Capabilities,
    Err,
    Events,
    Executor,
    Journal,
    Ok,
    Spool,
    Tool,
    ToolContext,
    ToolRegistry,
)
from spindle.cli.main import run
from spindle.errors import SpindleError
from tests.fuzzing import examples


def hostile(thorough: int) -> settings:
    """Return the settings of a property: together 8,500 examples in `make test-all`, 15 of each in `make test`."""
    return settings(max_examples=thorough if examples(100) == 100 else 15, deadline=None)


CANARY = "canary-7f3a9c51e2"
PIECES = [
    *map(chr, range(32)),
    "\x7f",
    "\x85",
    "\x9b31m",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202e\u2066\u200b\u2060\ufeff\u00ad",
    "\U000e0041\U000e007f",
    "\ud800",
    "</untrusted_content>",
    "<|im_start|>system",
    "[truncated \u2014 9 chars total]",
    "../../etc/passwd",
    "${CANARY_VARIABLE}",
    "${UNSET_VARIABLE}",
    "$(touch x)",
    "`'\"\\",
    "a" * 300,
    "e\u0301\u0301\u0301",
    "\ufdfa" * 20,
    "mcp__a__b",
    "plain",
    " ",
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(TEXT, parts, max_size=4),
    max_leaves=8,
)
OUTPUTS = st.sampled_from([[], ["--json"]])
RAW = frozenset(
    [
        *(set(map(chr, [*range(32), *range(0x7F, 0xA0)])) - {"\n"}),
        *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\u2060\ufeff\u00ad",
        *map(chr, range(0xE0000, 0xE0080)),
    ]
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    # A plain attribute: StringIO declares a property that is always None.
    encoding = "utf-8"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def isatty(self) -> bool:
        return True


@contextmanager
def environment(**values: str) -> Generator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def show(folder: Path, *words: str) -> tuple[int, str]:
    """Run the command at a terminal without colours; return its exit code and everything it showed."""
    out, err = Terminal(), Terminal()
    state = str(folder / "state")
    values = {"CANARY_VARIABLE": CANARY, "SPINDLE_STATE": state, "HOME": str(folder), "NO_COLOR": "1", "TERM": "dumb"}
    with environment(**values), redirect_stdout(out), redirect_stderr(err):
        code = run(list(words))
    return code, out.getvalue() + err.getvalue()


def check_shown(text: str) -> None:
    assert not RAW.intersection(text), sorted(map(ascii, RAW.intersection(text)))
    assert CANARY not in text
    assert "bug in Spindle" not in text


def to_toml(value: Any) -> str:
    """Write a value as TOML; what TOML does not have becomes invalid TOML, which is hostile too."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {to_toml(part)}" for key, part in cast("dict[str, Any]", value).items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(to_toml, cast("list[Any]", value))) + "]"
    return json.dumps(value)


TABLES = {
    "spindle": ["profile"],
    "tools": ["kit", "modules", "python_path", "http_secrets"],
    "reach": ["root", "read", "write", "hosts", "commands", "shell", "secrets", "secrets_file", "private_addresses"],
    "limits": ["budget_chars", "preview_chars", "timeout_seconds", "concurrency"],
    "server": ["host", "port", "path", "allowed_origins", "allowed_hosts", "fence", "name", "offers", "instructions"],
    "mcp": ["import", "servers"],
    "profiles": ["p"],
}
SERVER = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("command", "url", "cwd"), VALUE | TEXT)
    | {name: st.lists(TEXT, max_size=3) for name in ("args", "env_passthrough", "tools")}
    | {name: st.dictionaries(TEXT, TEXT, max_size=2) for name in ("env", "headers", "env_secrets", "header_secrets")},
)
ENTRY = VALUE | TEXT | st.lists(TEXT, max_size=3) | st.dictionaries(TEXT | st.just("a"), SERVER, max_size=3)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    lines: list[str] = []
    for table in draw(st.lists(st.sampled_from(sorted(TABLES)), max_size=4, unique=True)):
        lines.append(f"[{table}]")
        for key in draw(st.lists(st.sampled_from(TABLES[table]), max_size=4, unique=True)):
            lines.append(f"{key} = {to_toml(draw(ENTRY))}")
        if draw(st.integers(0, 9)) == 0:
            lines.append(f"{json.dumps(draw(TEXT))} = {to_toml(draw(VALUE))}")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(900)
@hostile(1_500)
@given(configurations(), OUTPUTS)
def test_a_hostile_configuration_is_shown_or_refused(text: str, output: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "spindle.toml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        code, shown = show(folder, "trust", str(path), "--yes", *output)

        assert code in {0, 2}
        check_shown(shown)


@contextmanager
def installed(tools: list[Tool]) -> Generator[None]:
    module = ModuleType("hostile_module")
    vars(module)["tools"] = tools
    sys.modules["hostile_module"] = module
    try:
        yield
    finally:
        del sys.modules["hostile_module"]


def make_tool(name: str, description: str, schema: Any, handler: Callable[..., Any]) -> Tool | None:
    """Make a tool; `None` if it is refused by an error of the tree."""
    with suppress(SpindleError):
        return Tool(name=name, description=description, input_schema=schema, handler=handler)
    return None


async def answer(_args: Any, _ctx: Any, _meta: Any) -> str:
    return "answer"


@pytest.mark.slow
@pytest.mark.timeout(900)
@hostile(500)
@given(st.lists(st.tuples(TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=3)), min_size=1, max_size=3), OUTPUTS)
def test_hostile_names_and_descriptions_are_listed_without_raw_characters(
    found: list[tuple[str, str, Any]], output: list[str]
) -> None:
    tools: dict[str, Tool] = {}
    for name, description, parameters in found:
        properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
        tool = make_tool(name, description, {"type": "object", "properties": properties}, answer)
        if tool is not None:
            tools[tool.name] = tool
    with tempfile.TemporaryDirectory() as folder, installed(list(tools.values())):
        config = Path(folder) / "spindle.toml"
        config.write_text('[tools]\nmodules = ["hostile_module:tools"]\n')
        chosen = ("--config", str(config))
        code, shown = show(Path(folder), "list", *output, *chosen)

        assert code == 0
        check_shown(shown)
        for name in tools:
            code, shown = show(Path(folder), "show", *output, *chosen, "--", name)

            check_shown(shown)


KEYWORDS = ["type", "properties", "items", "enum", "const", "pattern", "anyOf", "allOf", "$ref", "$defs", "minimum"]
MORE_KEYWORDS = ["maxLength", "required", "additionalProperties", "format", "default", "description", "if", "not"]
SCHEMA_VALUE = VALUE | st.sampled_from(["object", "string", "#", "#/$defs/a", "(a+)+$", "http://x.invalid/s", "["])
SCHEMA = st.recursive(
    st.dictionaries(st.sampled_from(KEYWORDS + MORE_KEYWORDS), SCHEMA_VALUE, max_size=4),
    lambda parts: st.dictionaries(
        st.sampled_from(KEYWORDS + MORE_KEYWORDS),
        parts | st.lists(parts, max_size=3) | st.dictionaries(TEXT, parts, max_size=3),
        max_size=4,
    ),
    max_leaves=6,
).map(lambda schema: {"type": "object", **schema})


@pytest.mark.timeout(900)
@hostile(3_500)
@given(SCHEMA, st.dictionaries(TEXT, VALUE, max_size=3))
def test_a_hostile_schema_is_refused_or_every_call_has_an_outcome(schema: Any, args: Any) -> None:
    tool = make_tool("hostile", "A tool.", schema, answer)
    if tool is None:
        return
    registry = ToolRegistry([tool])
    with suppress(SpindleError):
        registry.to_definitions()

    outcomes = asyncio.run(Executor(registry).execute_parallel([Call("c", "hostile", args)], ToolContext()))

    assert [(each.tool_call_id, isinstance(each.result, (Ok, Err))) for each in outcomes] == [("c", True)]


FORMS: list[Callable[[str], str]] = [
    str,
    lambda key: base64.b64encode(key.encode()).decode(),
    lambda key: base64.urlsafe_b64encode(f"user:{key}".encode()).decode(),
    lambda key: key.encode().hex(),
    lambda key: quote(key.replace("-", "/"), safe="").replace("%2F", "-"),
    lambda key: json.dumps({"k": key}),
]
PLACES = ["text", "structured", "key", "bytes", "artifact", "err", "field", "raise", "progress", "warn", "large"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@hostile(3_000)
@given(st.sampled_from(PLACES), st.sampled_from(FORMS), TEXT, TEXT)
def test_no_sink_of_a_hostile_result_holds_the_secret(
    place: str, form: Callable[[str], str], before: str, after: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sinks = asyncio.run(leak(Path(folder), place, lambda key: before + form(key) + after))

    for sink, text in sinks.items():
        assert CANARY not in text, sink
        assert form(CANARY) not in text, sink


async def leak(folder: Path, place: str, wrap: Callable[[str], str]) -> dict[str, str]:
    """Run a tool that puts its secret into a place of its result; return what every sink holds."""

    async def handler(_args: Any, ctx: ToolContext, _meta: Any) -> Any:
        text = wrap((await ctx.secrets.get("KEY")).reveal())
        if place == "raise":
            raise ValueError(text)
        ctx.progress(text if place == "progress" else "going")
        if place == "warn":
            ctx.events.warn(text, source="tool")
        results: dict[str, Any] = {
            "structured": {"a": [text]},
            "key": {text: 1},
            "bytes": text.encode(errors="surrogatepass"),
            "artifact": Ok("see", artifact=Artifact.from_text(text)),
            "err": Err("execution_failed", text),
            "field": Err("execution_failed", "no", field=text),
            "large": text * 200,
        }
        return results.get(place, text)

    tool = Tool(
        name="leak",
        description="Leak.",
        input_schema={"type": "object"},
        handler=handler,
        capabilities=Capabilities(secrets=["KEY"]),
        expose_errors=True,
        max_result_chars=400,
    )
    events, seen = Events(), list[str]()
    for name in ("tool_progress", "warning", "tool_execution_start", "tool_execution_end"):
        events.on(name, lambda event: seen.append(repr(event)))
    backends = Backends.local(folder, secrets={"KEY": CANARY})
    async with Journal.sqlite(folder / "journal.sqlite") as journal:
        executor = Executor(
            ToolRegistry([tool]), backends=backends, journal=journal, spool=Spool.files(folder / "spool")
        )
        (outcome,) = await executor.execute_parallel([Call("c", "leak", {})], ToolContext(events=events))
        entries = [repr(each) for each in await journal.list()]
    shown = outcome.result.value if isinstance(outcome.result, Ok) else outcome.result.error
    whole = ""
    if isinstance(outcome.result, Ok) and isinstance(outcome.result.artifact, Artifact):
        whole = (await outcome.result.artifact.as_bytes()).decode(errors="replace")
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())  # noqa: ASYNC240
    return {
        "outcome": repr(outcome),
        "text": shown,
        "record": repr(outcome.to_record()),
        "artifact": whole,
        "events": "".join(seen),
        "journal": "".join(entries),
        "disk": stored.decode(errors="replace"),
    }
