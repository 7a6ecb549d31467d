"""The demonstration's table, for a terminal or a pipe."""

import json
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from spindle.calls import Err, Ok
from spindle.cli.demo_calls import Answer, Case
from spindle.errors import ToolAlreadyRegisteredError

_MAX_SENT_CHARS = 60
_WIDE_COLUMNS = 100


def show(
    answers: Sequence[Answer],
    *,
    clash: ToolAlreadyRegisteredError | None,
    refunded_cents: int,
    console: Console | None = None,
) -> None:
    """Print the table, one refusal in full, and the sums."""
    out = Console(highlight=False) if console is None else console
    out.print("\n[bold]One batch, all calls side by side[/]\n")
    out.print(_table(answers, clash, wide=out.width >= _WIDE_COLUMNS))
    refused = next((answer for answer in answers if _is_refusal(answer.result)), None)
    if refused is not None:
        out.print(f"[bold]What the model reads for “{refused.case.title}”, whole:[/]\n")
        out.print(Padding(Text(_told(refused.result)), (0, 4)))
    out.print(f"\n{_sums(answers)} Paid back in all: {refunded_cents} cents.\n")


def _table(answers: Sequence[Answer], clash: ToolAlreadyRegisteredError | None, *, wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True, leading=1)
    table.add_column("call", ratio=5 if wide else 3, overflow="fold")
    table.add_column("the tool", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("what the model is told", ratio=6 if wide else 5, overflow="fold")
    for answer in answers:
        call, told = _call(answer.case, wide=wide), Text(_gist(_told(answer.result)))
        table.add_row(call, *_became(answer), told)
    if clash is not None:
        title = Text.assemble(("name clash\n", "bold"), (f"a second tool called {clash.tool}", "dim"))
        words = f"nothing; the developer is told: {clash}"
        table.add_row(title, Text("did not run", style="yellow"), Text("refused", style="yellow"), Text(words))
    return table


def _call(case: Case, *, wide: bool) -> Text:
    """The title and the tool's name; where there is room, what was sent too."""
    args = case.call.args
    sent = args.decode() if isinstance(args, bytes) else args if isinstance(args, str) else json.dumps(args)
    if len(sent) > _MAX_SENT_CHARS:
        sent = f"{sent[:20]}… ({len(sent):,} characters)"
    return Text.assemble((f"{case.title}\n", "bold"), (f"{case.call.name} {sent}" if wide else case.call.name, "dim"))


def _became(answer: Answer) -> tuple[Text, Text]:
    match answer.result:
        case Ok():
            return Text("ran", style="green"), Text("ok", style="green")
        case Err(code=code) if answer.ran:
            return Text("ran, raised", style="red"), Text(code, style="red")
        case Err(code=code):
            return Text("did not run", style="yellow"), Text(code, style="yellow")


def _told(result: Ok | Err) -> str:
    return result.value if isinstance(result, Ok) else result.error


def _gist(told: str) -> str:
    """The lines of a refusal that say what is wrong, without the greeting and the farewell."""
    problems = [line.removeprefix("- ") for line in told.splitlines() if line.startswith("- ")]
    return "\n".join(problems) or told


def _is_refusal(result: Ok | Err) -> bool:
    return isinstance(result, Err) and result.code == "input_invalid"


def _sums(answers: Sequence[Answer]) -> str:
    count, ran = len(answers), sum(answer.ran for answer in answers)
    raised = sum(answer.ran and not answer.result.ok for answer in answers)
    return (
        f"{count} calls, {count} answers, in the order they were asked. {ran} tools ran ({raised} raised, and no "
        f"sibling noticed); {count - ran} never ran."
    )
