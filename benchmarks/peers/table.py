"""The measurements as tables for a terminal or a pipe."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from benchmarks.peers.adapters.driving import SYNC_CALLS, SYNC_SECONDS, TRIVIAL_CALLS, Line, Seen, Speed
from examples.hostile_calls.cases import CASES, CLASH_TITLE, DEADLINE_SECONDS, LOG_CHARS
from examples.hostile_calls.table import format_duration

GOOD, BAD, PLAIN = "green", "red", ""
SLACK_SECONDS = 0.5
"""An answer this long after the deadline still counts as in time, on a busy machine."""

TITLES = {case.key: f"{case.title}: {case.hostile.name} {case.hostile.args}" for case in CASES}
TITLES["clash"] = f"{CLASH_TITLE}: two tools want to be refund"


class Verdict(NamedTuple):
    """A short text, and whether it is good."""

    text: str
    style: str


def show(lines: Sequence[Line], missing: Mapping[str, str], console: Console | None = None) -> None:
    """Print the six calls, the speed, and how each library was driven."""
    out = Console(highlight=False) if console is None else console
    out.print("\n[bold]The same six hostile calls, each beside good ones, through each library[/]")
    out.print(_six(lines, max_chars=max(54, out.width - 30)))
    out.print("[bold]Speed, against a floor measured in the same process[/]")
    out.print(_speeds(lines))
    out.print("[bold]How each was driven; no model was asked[/]\n")
    for line in lines:
        out.print(Padding(Text(f"{line.library} {line.version}: {line.driven}"), (0, 0, 0, 2)))
    for library, reason in missing.items():
        out.print(Padding(Text(f"{library}: not measured; {reason}", style=BAD), (0, 0, 0, 2)))
    out.print()


def _six(lines: Sequence[Line], *, max_chars: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("library", no_wrap=True)
    table.add_column("what ran", ratio=4, overflow="fold")
    table.add_column("what the model saw", ratio=6, overflow="fold")
    table.add_column("took", no_wrap=True, justify="right")
    for key, title in TITLES.items():
        name, _, sent = title.partition(": ")
        table.add_row(Text(name, style="bold"), "", Text(sent, style="dim"), "")
        for library, seen in _rows(lines, key):
            if seen.skipped is not None:
                table.add_row(f"  {library}", "-", Text(seen.skipped, style="dim"), "")
            else:
                shown = saw(key, seen)
                text = Text(_one_line(shown.text, max_chars), style=shown.style)
                table.add_row(f"  {library}", _happened(key, seen), text, "" if key == "clash" else _took(seen))
        table.add_section()
    return table


def _happened(key: str, seen: Seen) -> Text:
    entered, kept = ran(key, seen), siblings(seen)
    return Text("\n").join(Text(part.text, style=part.style) for part in (entered, kept) if part is not None)


def _one_line(text: str, max_chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


def _took(seen: Seen) -> str:
    return format_duration(seen.seconds)


def _rows(lines: Sequence[Line], key: str) -> Iterator[tuple[str, Seen]]:
    for line in lines:
        yield line.library, line.cases[key]
        if (streamed := line.cases.get(f"{key}_streamed")) is not None:
            yield f"{line.library}, streamed", streamed


def ran(key: str, seen: Seen) -> Verdict:
    """What the hostile call made happen."""
    entered = "; ".join(seen.entered)
    if key in {"truncated", "wrong_type"}:
        return Verdict(f"RAN with {_arguments(entered)}", BAD) if entered else Verdict("did not run", GOOD)
    if key == "hanging":
        in_time = seen.seconds < DEADLINE_SECONDS + SLACK_SECONDS
        return Verdict("left in time", GOOD) if in_time else Verdict("WAITED FOR", BAD)
    if key == "clash":
        if not entered:
            return Verdict("was not let in", GOOD)
        second = entered.startswith("impostor")
        return Verdict("RAN, the second one", BAD) if second else Verdict("ran, the first one", PLAIN)
    return Verdict("ran, raised" if key == "raising" else "ran", PLAIN)


def _arguments(entered: str) -> str:
    return entered.partition("(")[2].removesuffix(")")


def siblings(seen: Seen) -> Verdict | None:
    """How many of the good calls in the same batch have an answer; `None` where there are none."""
    if not seen.siblings:
        return None
    lost, noun = seen.siblings - seen.siblings_answered, "sibling" if seen.siblings == 1 else "siblings"
    return Verdict(f"{lost} {noun} LOST", BAD) if lost else Verdict(f"{seen.siblings} {noun} ok", GOOD)


def saw(key: str, seen: Seen) -> Verdict:
    """What the model reads for the hostile call."""
    if seen.answer is None:
        if key == "clash":
            return Verdict(f"nothing; the developer: {seen.raised}", PLAIN)
        return Verdict(f"nothing; out came {seen.raised}" if seen.raised else "nothing; the call has no answer", BAD)
    if key == "large":
        whole = seen.answer_chars >= LOG_CHARS
        return Verdict(f"{seen.answer_chars:,} characters", BAD if whole else GOOD)
    return Verdict(seen.answer, PLAIN)


def _speeds(lines: Sequence[Line]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("library", no_wrap=True)
    table.add_column(f"a call, in a\nbatch of {TRIVIAL_CALLS}", justify="right")
    table.add_column("x gather of\nbare calls", justify="right")
    table.add_column(f"{SYNC_CALLS} sync calls\nof {SYNC_SECONDS:g} s", justify="right")
    table.add_column(f"x {SYNC_CALLS} bare\nthreads", justify="right")
    for line in lines:
        table.add_row(line.library, *_speed(line.trivial), *_speed(line.sync))
    return table


def _speed(speed: Speed) -> tuple[str, str]:
    return format_duration(speed.seconds), f"{speed.ratio:.1f}"
