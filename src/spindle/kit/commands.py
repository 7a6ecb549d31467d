"""The tool `terminal`: runs one command, on the process capability."""

import shlex
import signal as signals
from typing import Annotated, Any

from pydantic import Field

from spindle.calls import Err, Ok
from spindle.capabilities.declare import Capabilities
from spindle.capabilities.process.policy import Finished
from spindle.errors import CommandNotAllowedError
from spindle.json_types import JsonObject
from spindle.text import to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.trust.flow.roles import Content, Free, Setting, Target

_OPERATORS = "|&;<>()\n`"
_NAME_STARTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_{("


def find_shell_syntax(command: str) -> str | None:
    """Return the first shell operator or expansion in a command line, or `None` if it has none."""
    quote = ""
    characters = iter(enumerate(command.strip()))
    text = command.strip()
    for at, character in characters:
        if quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            next(characters, None)
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif character == "$" and text[at + 1 : at + 2] and text[at + 1] in _NAME_STARTS:
            return text[at : at + 2]
        elif character == "`" or (not quote and character in _OPERATORS):
            return character
    return None


MAX_SECONDS = 600
_MARGIN_SECONDS = 15
"""The command's own timeout must expire before the call's, so that its output until then is not lost."""

Word = Annotated[str, Field(max_length=100_000)]


def _would_run(args: Any, _ctx: object) -> str:
    return f"run {to_printable(_line(args['command']))} in {args['cwd'] or 'the workspace'}"


@tool(
    toolset="terminal",
    capabilities=Capabilities(process=["*"]),
    destructive=True,  # the words of a command can be put together to anything that was granted
    timeout_seconds=MAX_SECONDS + _MARGIN_SECONDS,
    max_result_chars=40_000,
    preview=_would_run,
)
async def terminal(
    command: Annotated[str, Field(min_length=1, max_length=100_000), Target()]
    | Annotated[list[Word], Field(min_length=1, max_length=1_000), Target()],
    cwd: Annotated[str, Field(min_length=1, max_length=4_096), Setting()] | None = None,
    stdin: Annotated[str, Content()] | None = None,
    timeout_seconds: Annotated[float, Field(gt=0, le=MAX_SECONDS), Free()] = 60,
    *,
    ctx: ToolContext,
) -> Ok | Err:
    """Run one command and return its stdout, then its stderr; a failure ends with the exit code.

    There is no shell unless one was granted: no pipes, redirections, variables, `*` patterns or `cd`. Only granted
    commands run.

    Args:
        command: One command, such as "git status --short", or its words: ["git", "commit", "-m", "two words"].
        cwd: The folder to run it in, relative to the workspace; leave it out for the workspace itself.
        stdin: Text that the command reads; leave it out for none.
        timeout_seconds: The command is stopped after this time.
    """
    found = find_shell_syntax(command) if isinstance(command, str) else None
    argv = _argv(command) if found is None else command
    if isinstance(argv, Err):
        return argv
    process = ctx.process
    try:
        done = await process.run(argv, cwd=cwd, stdin=stdin, timeout_seconds=timeout_seconds)
    except CommandNotAllowedError as error:
        if found is None:
            raise
        text = (
            f"There is no shell here, and {found!r} is shell syntax. Run one command per call; pass its words as a "
            f"list if they contain {found!r} literally, and use cwd instead of cd."
        )
        return Err("input_invalid", text, field="command", cause=error)
    return Ok(_format_output(done, timeout_seconds), structured=_facts(done))


def _argv(command: str | list[str]) -> list[str] | Err:
    if isinstance(command, list):
        return command
    try:
        return shlex.split(command)
    except ValueError:
        return Err("input_invalid", "A quotation mark in the command is not closed.", field="command")


def _line(command: str | list[str]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _facts(done: Finished) -> JsonObject:
    return {"exit_code": done.exit_code, "signal": done.signal, "timed_out": done.timed_out}


def _format_output(done: Finished, timeout_seconds: float) -> str:
    parts = [done.stdout, done.stderr]
    text = "\n".join(part.removesuffix("\n") for part in parts if part) + ("\n" if any(parts) else "")
    remarks = [*_describe_truncation(done), *(f"[{note}]" for note in done.notes)]
    if done.timed_out:
        remarks.append(f"[stopped: it ran longer than {timeout_seconds:g} s]")
    elif done.signal is not None:
        remarks.append(f"[killed by signal {done.signal}{_signal_name(done.signal)}]")
    elif done.exit_code != 0:
        remarks.append(f"[exit code {done.exit_code}]")
    return text + "\n".join(remarks)


def _describe_truncation(done: Finished) -> list[str]:
    streams = (
        ("output", done.stdout_truncated, done.stdout_bytes, done.stdout_artifact),
        ("errors", done.stderr_truncated, done.stderr_bytes, done.stderr_artifact),
    )
    return [
        f"[{name} truncated; {size} bytes in total{f', stored as {kept}' if kept else ''}]"
        for name, is_cut, size, kept in streams
        if is_cut
    ]


def _signal_name(number: int) -> str:
    try:
        return f", {signals.Signals(number).name}"
    except ValueError:
        return ""
