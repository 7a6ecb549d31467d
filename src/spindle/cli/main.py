"""The `spindle` command: which words it knows, and what it says when something is wrong."""

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.calls import CallOutcome, Err
from spindle.errors import CommandError, JournalDamagedError, SpindleError
from spindle.extras import install_command

if TYPE_CHECKING:
    from cyclopts import App


OK: Final = 0
FAILED: Final = 1
"""The tool answered with an error, or something is wrong with this machine."""
USAGE: Final = 2
"""The command line, the configuration or the arguments of a call are wrong."""
NOT_FOUND: Final = 3
"""There is no such tool, artifact or call."""
REFUSED: Final = 4
"""The call was refused, or waits for somebody's approval."""
ENDED: Final = 5
"""The call timed out or was cancelled."""
INTERRUPTED: Final = 130
"""Ctrl-C."""
PIPE_CLOSED: Final = 141
"""Whoever read the output has left."""


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """How a command ended that could not go on: its exit code, why, and what to do."""

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


def exit_code_of(outcome: CallOutcome) -> int:
    """The exit code of a call's outcome."""
    return _BY_CODE.get(outcome.result.code, FAILED) if isinstance(outcome.result, Err) else OK


COMMANDS = (
    ("list", "spindle.cli.commands.list:list_tools", "List the tools."),
    ("show", "spindle.cli.commands.show:show_tool", "Show one tool: what it takes, what it needs."),
    ("call", "spindle.cli.commands.call:call_tool", "Call a tool and see what became of it."),
    ("serve", "spindle.cli.commands.serve:serve", "Serve the tools to MCP clients."),
    ("spool", "spindle.cli.commands.spool:spool", "Read large results that were kept whole."),
    ("journal", "spindle.cli.commands.journal:journal", "See which calls were made, and what became of them."),
    ("doctor", "spindle.cli.commands.doctor:doctor", "See what this machine can do, and how to get the rest."),
    ("demo", "spindle.cli.commands.demo:demo", "Watch hostile calls among good ones."),
    ("completion", "spindle.cli.commands.completion:completion", "Print or install completion for your shell."),
)
"""Each is imported when it is used: starting must not cost what only some commands need."""

GLOBAL_OPTIONS = {"--config": 1, "--mcp-config": 1, "--state": 1, "--debug": 0}
"""May stand before the command too; with how many values each takes."""

_HELP = """The tool layer between a language model and the world.

Begin with `spindle list`, then `spindle call calculate expression=1+2`."""
_EPILOGUE = "Exit codes: 0 ok, 1 a tool's error, 2 wrong usage or configuration, 3 not found, 4 refused, 5 timed out."


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with a code that means something."""
    _open_streams()
    ended_by = _end_gently()
    try:
        code = _flushed(run(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before there were words to say so
        code = INTERRUPTED
    if ended_by and code == INTERRUPTED:
        code = 128 + ended_by[0]
    if threading.active_count() > 1:
        # Somebody still waits for a key, or runs a tool that was given up: leaving must not wait for them.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _open_streams() -> None:
    """Put nothing in the place of standard streams that were closed: or the next file that is opened is one of them."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))


def _end_gently() -> list[int]:
    """Take SIGTERM and a closed terminal as Ctrl-C: the MCP servers we started must not be left behind."""
    ended_by: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        ended_by.append(number)
        signal.raise_signal(signal.SIGINT)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background of a script it is ignored
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, interrupt)
    return ended_by


def run(argv: Sequence[str]) -> int:
    """Run the command; every failure is one line on stderr, and a hint; for programs a document on stdout too."""
    tokens = rearranged(argv)
    try:
        if tokens == ["--version"]:
            print_version()
            return OK
        return _dispatch(tokens)
    except BrokenPipeError:
        return _leave_quietly()
    except (Exception, KeyboardInterrupt) as error:
        ended = _ended_by(error)
        if "--debug" in tokens and not isinstance(error, CommandError | KeyboardInterrupt):
            raise
        _tell(ended, as_json=wants_json(tokens))
        return ended.code


def _ended_by(error: BaseException) -> CommandFailure:
    """What an error means for whoever typed the command."""
    match _alone(error):
        case CommandError() as told:
            return CommandFailure(told.exit_code, str(told), told.hint)
        case KeyboardInterrupt():
            return CommandFailure(INTERRUPTED, "interrupted")
        case SpindleError() as told:
            is_usage = told.code.startswith(("E_INVALID", "E_USAGE", "E_MISSING", "E_TOOL_AL"))
            return CommandFailure(USAGE if is_usage else FAILED, str(told), _hint(told))
        case OSError() as refused if refused.strerror:
            place = f": {refused.filename}" if refused.filename else ""
            return CommandFailure(FAILED, f"{refused.strerror}{place}", "--debug shows what was attempted")
        case other:
            hint = "this is a bug; --debug shows where it happened"
            return CommandFailure(FAILED, f"{type(other).__name__}: {other}", hint)


def _alone(error: BaseException) -> BaseException:
    """The one error of a group of tasks that failed with it."""
    whole = error
    if isinstance(error, BaseExceptionGroup):
        first, *others = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return whole if others else _alone(first)
    return whole


def _tell(ended: CommandFailure, *, as_json: bool) -> None:
    from spindle.cli.output import complain  # noqa: PLC0415 - so that even a broken install can say so

    complain(ended.message, ended.hint)
    if as_json:
        told = {"ok": False, "error": ended.message, "hint": ended.hint, "exit_code": ended.code}
        with suppress(OSError):  # it may be what is wrong
            sys.stdout.write(f"{json.dumps(told)}\n")


def _dispatch(tokens: list[str]) -> int:
    for package in ("cyclopts", "rich"):
        if find_spec(package) is None:
            raise CommandError(f"the command needs {package}", exit_code=USAGE, hint=install_command("cli"))
    from cyclopts import CycloptsError  # noqa: PLC0415 - an extra

    app = build_app()
    try:
        result: Any = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        hint = f"`spindle {_command_of(tokens)}--help` shows how it is used"
        raise CommandError(_in_words(error), exit_code=USAGE, hint=hint) from error
    return result if isinstance(result, int) else OK


def build_app() -> "App":
    """The command and its words."""
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
    for number, (name, place, told) in enumerate(COMMANDS):
        if find_spec(place.partition(":")[0]) is not None:
            app.command(place, name=name, help=told, sort_key=number)
    return app


def rearranged(argv: Sequence[str]) -> list[str]:
    """The words with the options that stand before the command put behind it."""
    front: list[str] = []
    rest = list(argv)
    if rest[:1] == ["--install-completion"]:
        return ["completion", *rest[1:], "--install"]
    while rest and rest[0].partition("=")[0] in GLOBAL_OPTIONS:
        count = 0 if "=" in rest[0] else GLOBAL_OPTIONS[rest[0]]
        front += rest[: 1 + count]
        rest = rest[1 + count :]
    if not front or not rest or rest[0].startswith("-"):
        return _plain_json(front + rest)
    behind = 2 if rest[0] in {"spool", "journal"} and len(rest) > 1 and not rest[1].startswith("-") else 1
    return _plain_json([*rest[:behind], *front, *rest[behind:]])


def _plain_json(tokens: list[str]) -> list[str]:
    """`call … --json` without an object means that the answer is wanted as JSON."""
    if tokens[:1] != ["call"]:
        return tokens
    followed = zip(tokens, [*tokens[1:], ""], strict=True)
    return ["--output=json" if word == "--json" and not _is_object(after) else word for word, after in followed]


def _is_object(word: str) -> bool:
    return word == "-" or word.lstrip().startswith(("{", "@", "["))


def wants_json(tokens: Sequence[str]) -> bool:
    """Whether a program reads the answer, so that an error must be a document too."""
    if tokens[:1] != ["call"]:
        return "--json" in tokens
    words = [*tokens, *map("=".join, pairwise(tokens))]
    return not {"--output=json", "-o=json", "-ojson"}.isdisjoint(words)


def print_version() -> None:
    """Print the version alone."""
    sys.stdout.write(f"{_version()}\n")


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - 20 ms that only --version needs

    return version("spindle")


def _in_words(error: Any) -> str:
    error.verbose = False
    lines = [line.strip(" │╭╮╰╯─") for line in str(error).splitlines()]
    return " ".join(line for line in lines if line) or type(error).__name__


def _command_of(tokens: list[str]) -> str:
    known = {name for name, _, _ in COMMANDS}
    return f"{tokens[0]} " if tokens and tokens[0] in known else ""


def _hint(error: SpindleError) -> str | None:
    if error.code == "E_INVALID_CONFIG":
        return "`spindle doctor` tells which files are read; docs/configuration.md has every key"
    if isinstance(error, JournalDamagedError):
        return f"to begin with a fresh journal, move {error.aside or error.path} to another folder"
    return None


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as error:  # such as a disk that is full
        _leave_quietly()
        _tell(_ended_by(error), as_json=False)
        return FAILED
    return code


def _leave_quietly() -> int:
    # Python would complain at exit that it cannot write the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


if __name__ == "__main__":
    main()
