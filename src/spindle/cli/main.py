"""Entry point of the `spindle` command: subcommands, exit codes and error reporting."""

import atexit
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.calls import CallOutcome, Err
from spindle.errors import CommandError, JournalDamagedError, SpindleError, UntrustedConfigError
from spindle.extras import install_command

if TYPE_CHECKING:
    from cyclopts import App


OK: Final = 0
FAILED: Final = 1
"""The tool returned an error, or a check of this machine failed."""
USAGE: Final = 2
"""The command line, the configuration or the arguments of a call are wrong."""
NOT_FOUND: Final = 3
"""The named tool, artifact or call does not exist."""
REFUSED: Final = 4
"""The call was denied or needs approval."""
ENDED: Final = 5
"""The call timed out or was cancelled."""
UNTRUSTED: Final = 6
"""The configuration was found in the working folder and `spindle trust` has not accepted it."""
INTERRUPTED: Final = 130
"""Interrupted by Ctrl-C."""
PIPE_CLOSED: Final = 141
"""The reader of standard output closed the pipe."""


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """Why a command failed: exit code, message and an optional hint."""

    code: int
    message: str
    hint: str | None = None


_BY_CODE = {
    "input_invalid": USAGE,
    "denied": REFUSED,
    "needs_approval": REFUSED,
    "timed_out": ENDED,
    "cancelled": ENDED,
}


def to_exit_code(outcome: CallOutcome) -> int:
    """Return the exit code for the outcome of a call."""
    return _BY_CODE.get(outcome.result.code, FAILED) if isinstance(outcome.result, Err) else OK


def to_report_exit_code(report: Mapping[str, object]) -> int:
    """Return the exit code for the report of an outcome."""
    return OK if report["code"] is None else _BY_CODE.get(str(report["code"]), FAILED)


_GC_THRESHOLD: Final = 50_000
_LONG_COMMANDS: Final = frozenset({"serve", "worker", "follow"})
"""Commands that run until they are stopped: their memory must not grow."""

COMMANDS = (
    ("list", "spindle.cli.commands.list:list_tools", "List the tools."),
    ("show", "spindle.cli.commands.show:show_tool", "Show one tool: its parameters and requirements."),
    ("call", "spindle.cli.commands.call:call_tool", "Call a tool and print its outcome."),
    ("serve", "spindle.cli.commands.serve:serve", "Serve the tools to MCP clients."),
    ("page", "spindle.cli.commands.page:page", "Print a link to the page of the running server."),
    ("worker", "spindle.cli.commands.worker:worker", "Run calls that a durable engine hands out."),
    ("spool", "spindle.cli.commands.spool:spool", "Read large results stored in full."),
    ("journal", "spindle.cli.commands.journal:journal", "Inspect recorded calls and their outcomes."),
    ("approvals", "spindle.cli.commands.approvals:approvals", "Answer calls that wait for a person's approval."),
    ("flow", "spindle.cli.commands.flow:flow", "Explain which calls a person is asked about, and replay them."),
    ("doctor", "spindle.cli.commands.doctor:doctor", "Check this machine and the configuration."),
    ("trust", "spindle.cli.commands.trust:trust", "Accept the configuration of the working folder."),
    ("lock", "spindle.cli.commands.lock:lock", "Write spindle.lock: what the servers offer now."),
    ("diff", "spindle.cli.commands.diff:diff", "Show what the servers changed since spindle.lock was written."),
    ("verify", "spindle.cli.commands.verify:verify", "Fail if the servers offer something else than spindle.lock."),
    ("lint", "spindle.cli.commands.lint:lint", "Check the definitions of tools for poison and poor quality."),
    ("add", "spindle.cli.commands.add:add", "Add an MCP server to spindle.toml."),
    ("discover", "spindle.cli.commands.discover:discover", "Find the MCP configurations of installed clients."),
    ("install", "spindle.cli.commands.install:install", "Put Spindle into the configuration of an MCP client."),
    ("login", "spindle.cli.commands.login:login", "Log in to an upstream server that uses OAuth."),
    ("completion", "spindle.cli.commands.completion:completion", "Print or install completion for your shell."),
)
"""Imported on use, so that start-up does not pay for dependencies of other commands."""

GLOBAL_OPTIONS = {"--config": 1, "--mcp-config": 1, "--kit": 0, "--state": 1, "--debug": 0}
"""Options also accepted before the command, with the number of values each takes."""

_HELP = """The tool layer between a language model and the world.

Start with `spindle list`, then `spindle call calculate expression=1+2`."""
_EPILOGUE = (
    "Exit codes: 0 ok, 1 tool error, 2 invalid usage or configuration, 3 not found, 4 refused, 5 timed out, "
    "6 untrusted configuration."
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit the process with its exit code.

    Without `argv` it is the program itself, which starts and ends as quickly as it can.
    """
    if argv is None and _LONG_COMMANDS.isdisjoint(sys.argv):
        # Starting creates many objects and no garbage: with the default threshold, collecting takes part of the time.
        gc.set_threshold(_GC_THRESHOLD)
    _reopen_closed_streams()
    ended_by = _handle_signals()
    try:
        code = _flush_stdout(run(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # outside of run(), which reports it
        code = INTERRUPTED
    if ended_by and code == INTERRUPTED:
        code = 128 + ended_by[0]
    if threading.active_count() > 1:
        # A thread still reads stdin or runs an abandoned sync tool: exit without waiting for it.
        sys.stderr.flush()
        os._exit(code)
    if argv is None:
        _exit_quickly(code)
    sys.exit(code)


def _exit_quickly(code: int) -> None:
    """Exit without destroying every module and object, which takes a fifth of a short command's time."""
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - the public way is to end the interpreter
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _reopen_closed_streams() -> None:
    """Replace closed standard streams with /dev/null, so that no file opened later gets their descriptors."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is `number`
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))


def _handle_signals() -> list[int]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that started MCP servers are shut down; return the received signals."""
    ended_by: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        ended_by.append(number)
        signal.raise_signal(signal.SIGINT)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # shells ignore it in background jobs
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, interrupt)
    return ended_by


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code.

    Failures are printed on stderr with a hint, and with `--json` also as a JSON document on stdout.
    """
    tokens = move_global_options(argv)
    try:
        if tokens == ["--version"]:
            print_version()
            return OK
        return _dispatch(tokens)
    except BrokenPipeError:
        return _discard_stdout()
    except (Exception, KeyboardInterrupt) as error:
        ended = _to_failure(error)
        if "--debug" in tokens and not isinstance(error, CommandError | KeyboardInterrupt):
            raise
        _report_failure(ended, as_json=wants_json(tokens))
        return ended.code


def _to_failure(error: BaseException) -> CommandFailure:
    """Translate an exception into the failure to report."""
    match _unwrap_group(error):
        case CommandError() as failed:
            return CommandFailure(failed.exit_code, str(failed), failed.hint)
        case KeyboardInterrupt():
            return CommandFailure(INTERRUPTED, "interrupted")
        case UntrustedConfigError() as untrusted:
            hint = (
                "`spindle trust` shows what it would start, import and pass on, and asks; --config FILE chooses a file"
            )
            return CommandFailure(UNTRUSTED, str(untrusted), hint)
        case SpindleError() as raised:
            is_usage = raised.code.startswith(("E_INVALID", "E_USAGE", "E_MISSING", "E_TOOL_AL"))
            return CommandFailure(USAGE if is_usage else FAILED, str(raised), _hint(raised))
        case OSError() as refused if refused.strerror:
            place = f": {refused.filename}" if refused.filename else ""
            return CommandFailure(FAILED, f"{refused.strerror}{place}", "run with --debug to see the traceback")
        case other:
            hint = "this is a bug in Spindle; run with --debug to see the traceback"
            return CommandFailure(FAILED, f"{type(other).__name__}: {other}", hint)


def _unwrap_group(error: BaseException) -> BaseException:
    """Unwrap exception groups that hold a single error."""
    whole = error
    if isinstance(error, BaseExceptionGroup):
        first, *others = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return whole if others else _unwrap_group(first)
    return whole


def _report_failure(failure: CommandFailure, *, as_json: bool) -> None:
    if find_spec("rich") is None:
        sys.stderr.write(f"spindle: {failure.message}\n{f'hint: {failure.hint}' if failure.hint else ''}\n")
    else:
        from spindle.cli.output import print_message  # noqa: PLC0415 - rich, which `--version` does not need

        print_message(failure.message, failure.hint)
    if as_json:
        answer = {"ok": False, "error": failure.message, "hint": failure.hint, "exit_code": failure.code}
        with suppress(OSError):  # stdout may be the cause of the failure
            sys.stdout.write(f"{json.dumps(answer)}\n")


def _dispatch(tokens: list[str]) -> int:
    for package in ("cyclopts", "rich"):
        if find_spec(package) is None:
            raise CommandError(f"the spindle command requires {package}", exit_code=USAGE, hint=install_command("cli"))
    from cyclopts import CycloptsError  # noqa: PLC0415 - an extra

    app = build_app()
    try:
        result: object = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        hint = f"`spindle {_find_command(tokens)}--help` shows the usage"
        raise CommandError(_format_usage_error(error), exit_code=USAGE, hint=hint) from error
    return result if isinstance(result, int) else OK


def build_app() -> "App":
    """Build the cyclopts app with all subcommands."""
    from cyclopts import App, Parameter  # noqa: PLC0415 - an extra

    app = App(
        name="spindle",
        help=_HELP,
        help_epilogue=_EPILOGUE,
        version_flags=["--version"],
        version=_version,
        help_formatter="default" if sys.stdout.isatty() else "plain",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(show_default=False),
    )
    for number, (name, place, summary) in enumerate(COMMANDS):
        if find_spec(place.partition(":")[0]) is not None:
            app.command(place, name=name, help=summary, sort_key=number)
    return app


def move_global_options(argv: Sequence[str]) -> list[str]:
    """Return the arguments with leading global options moved behind the command."""
    front: list[str] = []
    rest = list(argv)
    if rest[:1] == ["--install-completion"]:
        return ["completion", *rest[1:], "--install"]
    while rest and rest[0].partition("=")[0] in GLOBAL_OPTIONS:
        count = 0 if "=" in rest[0] else GLOBAL_OPTIONS[rest[0]]
        front += rest[: 1 + count]
        rest = rest[1 + count :]
    if not front or not rest or rest[0].startswith("-"):
        return _rewrite_json_flag(front + rest)
    behind = (
        2
        if rest[0] in {"spool", "journal", "approvals", "flow"} and len(rest) > 1 and not rest[1].startswith("-")
        else 1
    )
    return _rewrite_json_flag([*rest[:behind], *front, *rest[behind:]])


def _rewrite_json_flag(tokens: list[str]) -> list[str]:
    """Replace `call … --json` without a JSON object by `--output=json`."""
    if tokens[:1] != ["call"]:
        return tokens
    followed = zip(tokens, [*tokens[1:], ""], strict=True)
    return ["--output=json" if word == "--json" and not _is_object(after) else word for word, after in followed]


def _is_object(word: str) -> bool:
    return word == "-" or word.lstrip().startswith(("{", "@", "["))


def wants_json(tokens: Sequence[str]) -> bool:
    """Return whether JSON output is requested, so that errors are printed as JSON too."""
    if tokens[:1] != ["call"]:
        own = tokens[: tokens.index("--")] if "--" in tokens else tokens  # the rest is the command of a server
        return "--json" in own
    words = [*tokens, *map("=".join, pairwise(tokens))]
    return not {"--output=json", "-o=json", "-ojson"}.isdisjoint(words)


def print_version() -> None:
    """Print the version."""
    sys.stdout.write(f"{_version()}\n")


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - 20 ms that only --version needs

    return version("spindle")


def _format_usage_error(error: Any) -> str:
    error.verbose = False
    lines = [line.strip(" │╭╮╰╯─") for line in str(error).splitlines()]
    return " ".join(line for line in lines if line) or type(error).__name__


def _find_command(tokens: list[str]) -> str:
    known = {name for name, _, _ in COMMANDS}
    return f"{tokens[0]} " if tokens and tokens[0] in known else ""


def _hint(error: SpindleError) -> str | None:
    if error.code == "E_INVALID_CONFIG":
        return "`spindle doctor` shows which file is used; docs/configuration.md lists every key"
    if isinstance(error, JournalDamagedError):
        return f"to start a new journal, move {error.aside or error.path} to another folder"
    return None


def _flush_stdout(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _discard_stdout()
    except OSError as error:  # such as a full disk
        _discard_stdout()
        _report_failure(_to_failure(error), as_json=False)
        return FAILED
    return code


def _discard_stdout() -> int:
    # Python would print an error at exit because it cannot flush stdout.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


if __name__ == "__main__":
    main()
