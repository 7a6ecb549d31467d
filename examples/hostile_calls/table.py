"""The printed report: the table of calls, one refusal in full, and the totals."""

import json
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from examples.hostile_calls.cases import CLASH_TITLE
from examples.hostile_calls.demonstration import SIBLING, DemoAnswer, Demonstration
from spindle import Call, CallOutcome, Err, Ok
from spindle.errors import ToolAlreadyRegisteredError

_MAX_SENT_CHARS, _MAX_ANSWER_CHARS = 60, 400
_WIDE_COLUMNS = 100
_WORLD = ("refund", "delete_files", "impostor")


def show(demo: Demonstration, *, console: Console | None = None) -> None:
    """Print the table, one refusal in full, the reads of the large result, and the totals."""
    out = Console(highlight=False) if console is None else console
    wide = out.width >= _WIDE_COLUMNS
    out.print(f"\n[bold]One reply of the model, {len(demo.answers)} calls, run in parallel[/]")
    out.print(_table(demo, wide=wide))
    refused = next((answer for answer in demo.answers if _is_refusal(answer.outcome)), None)
    if refused is not None:
        out.print(f"[bold]What the model reads for “{refused.asked.title}”, in full:[/]\n")
        out.print(Padding(Text(_get_model_text(refused.outcome)), (0, 0, 1, 4)))
    if demo.read_back:
        out.print("[bold]The large result is stored in full; the model reads the rest with tools forged for it:[/]")
        out.print(_readings(demo.read_back, wide=wide))
    out.print(Text(f"{_summarize_totals(demo)}\n"))


def _columns(*, wide: bool, ran: str | None) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True, leading=1)
    table.add_column("call", ratio=5 if wide else 3, overflow="fold")
    if ran is not None:
        table.add_column(ran, no_wrap=True)
    table.add_column("what the model saw", ratio=7 if wide else 5, overflow="fold")
    table.add_column("took", no_wrap=True, justify="right")
    return table


def _table(demo: Demonstration, *, wide: bool) -> Table:
    table = _columns(wide=wide, ran="what ran")
    siblings = [answer for answer in demo.answers if answer.asked.title == SIBLING]
    for answer in demo.answers:
        if answer.asked.title != SIBLING:
            call = _call(answer.asked.title, answer.asked.call, wide=wide)
            table.add_row(
                call,
                _describe_outcome(answer),
                _summarize(answer.outcome),
                format_duration(answer.outcome.duration_ms / 1000),
            )
    if siblings:
        table.add_row(*_siblings(siblings))
    if demo.clash is not None:
        table.add_row(*_clash(demo.clash))
    return table


def _siblings(answers: Sequence[DemoAnswer]) -> tuple[Text, Text, Text, str]:
    """Build one row for all good siblings."""
    call = Text.assemble(
        (f"{len(answers)} good siblings\n", "bold"), (", ".join(sorted({a.asked.call.name for a in answers})), "dim")
    )
    ran, ok = sum(answer.ran for answer in answers), sum(answer.outcome.ok for answer in answers)
    became = Text(f"{ran} ran\n{ok} ok", style="green" if ok == len(answers) else "red")
    slowest = max(answer.outcome.duration_ms for answer in answers) / 1000
    return (
        call,
        became,
        Text(", ".join(_get_model_text(answer.outcome) for answer in answers)),
        format_duration(slowest),
    )


def _clash(refused: ToolAlreadyRegisteredError) -> tuple[Text, Text, Text, str]:
    call = Text.assemble((f"{CLASH_TITLE}\n", "bold"), (f"a second tool called {refused.tool}", "dim"))
    return call, Text("rejected", style="yellow"), Text(f"nothing; the developer gets: {refused}"), ""


def _readings(answers: Sequence[DemoAnswer], *, wide: bool) -> Table:
    table = _columns(wide=wide, ran=None)
    for answer in answers:
        call, outcome = answer.asked.call, answer.outcome
        sent = Text.assemble((f"{call.name}\n", "bold"), (_sent(call), "dim"))
        lines = "\n".join(" ".join(line.split()) for line in _get_model_text(outcome).splitlines())
        table.add_row(sent, Text(lines, style="" if outcome.ok else "red"), format_duration(outcome.duration_ms / 1000))
    return table


def _call(title: str, call: Call, *, wide: bool) -> Text:
    """Build the cell of a call: title and tool name, and with enough width the arguments."""
    return Text.assemble((f"{title}\n", "bold"), (f"{call.name} {_sent(call)}" if wide else call.name, "dim"))


def _sent(call: Call) -> str:
    args = call.args
    sent = args.decode() if isinstance(args, bytes) else args if isinstance(args, str) else json.dumps(args)
    return sent if len(sent) <= _MAX_SENT_CHARS else f"{sent[:20]}… ({len(sent):,} characters)"


def _describe_outcome(answer: DemoAnswer) -> Text:
    match answer.outcome.result:
        case Ok():
            return Text("ran\nok", style="green")
        case Err(code="timed_out"):
            return Text("ran, left behind\ntimed_out", style="red")
        case Err(code=code) if answer.ran:
            return Text(f"ran, raised\n{code}", style="red")
        case Err(code=code):
            return Text(f"did not run\n{code}", style="yellow")


def _get_model_text(outcome: CallOutcome) -> str:
    result = outcome.result
    return result.value if isinstance(result, Ok) else result.error


def _summarize(outcome: CallOutcome) -> Text:
    """Shorten the text shown to the model: only the problems of an error, the start and end of a long result."""
    whole = _get_model_text(outcome)
    if len(whole) > _MAX_ANSWER_CHARS:
        last = whole.splitlines()[-2:] if isinstance(outcome.result, Ok) else []
        shown = f"{' '.join(whole[:200].split())[:29]}… ({len(whole):,} characters in all)"
        return Text("\n".join([shown, *last]))
    problems = [line.removeprefix("- ") for line in whole.splitlines() if line.startswith("- ")]
    return Text("\n".join(problems) or whole)


def _is_refusal(outcome: CallOutcome) -> bool:
    return isinstance(outcome.result, Err) and outcome.result.code == "input_invalid"


def _summarize_totals(demo: Demonstration) -> str:
    answers, count = demo.answers, len(demo.answers)
    ran = sum(answer.ran for answer in answers)
    failed = sum(answer.ran and not answer.outcome.ok for answer in answers)
    world = [text for text in demo.entered if text.startswith(_WORLD)]
    return (
        f"{count} calls, {count} answers, in the order of the calls. {ran} tools ran ({failed} raised or hung without "
        f"affecting the others); {count - ran} never ran. "
        f"Money paid, files deleted: {', '.join(world) or 'none'}."
    )


def format_duration(seconds: float) -> str:
    """Format a duration in s, ms or µs."""
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"
