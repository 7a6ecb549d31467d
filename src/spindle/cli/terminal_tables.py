"""Tables and trees for a terminal, wrapped to its width without truncating."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from spindle.cli.output import Branch, Output, escape_controls, flatten, measure_width

_GAP_COLUMNS = 3
_ROOM_COLUMNS = 20
"""Minimum width of the last column."""


def build_console(out: Output) -> Console:
    """Build a rich console with the stream, width and colours of `out`."""
    return Console(
        file=out.stream,
        force_terminal=True,
        no_color=not out.has_colour,
        width=out.width,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def print_table(out: Output, head: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Write a table whose last column takes the remaining width."""
    cells = [[flatten(escape_controls(cell)) for cell in row] for row in rows]
    if _is_narrow(out, [list(head), *cells]):
        _print_cards(out, cells, styles)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold" if out.has_colour else "")
    for number, name in enumerate(head):
        is_last = number + 1 == len(head)
        style = styles[number] if out.has_colour and number < len(styles) else ""
        table.add_column(Text(name), style=style, overflow="fold", no_wrap=not is_last)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    build_console(out).print(table)


def _is_narrow(out: Output, lines: Sequence[Sequence[str]]) -> bool:
    """Return whether the other columns leave too little width for the last one."""
    if out.width is None:
        return False
    *before, last = (max(measure_width(line[number]) for line in lines) for number in range(len(lines[0])))
    return out.width - sum(width + _GAP_COLUMNS for width in before) < min(last, _ROOM_COLUMNS)


def _print_cards(out: Output, rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Write each row as separate lines, for terminals too narrow for columns."""
    console = build_console(out)
    style = styles[0] if out.has_colour and styles else ""
    for first, *others in rows:
        console.print(Text(first, style=style), overflow="fold")
        rest = " · ".join(cell for cell in others if cell)
        console.print(Padding(Text(rest), (0, 0, 0, 2)), overflow="fold")


def print_tree(out: Output, root: str, branches: Sequence[Branch]) -> None:
    """Write a tree."""
    tree = Tree(
        Text(escape_controls(root), style="bold" if out.has_colour else ""), guide_style="dim" if out.has_colour else ""
    )
    _add_branches(tree, branches)
    build_console(out).print(tree)


def _add_branches(tree: Tree, branches: Sequence[Branch]) -> None:
    for text, below in branches:
        _add_branches(tree.add(Text(flatten(escape_controls(text)))), below)
