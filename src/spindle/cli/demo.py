"""`python -m spindle.cli.demo`: six hostile calls among good ones, and a table of what became of each.

With `--all`, everything else that a model may send and that looks nearly right, in the same batch.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import anyio

from spindle.cli.demo_calls import every_call, six_calls
from spindle.cli.demo_run import demonstrate
from spindle.extras import needs_extra


def main(argv: Sequence[str] | None = None) -> None:
    """Run the batch and show the table.

    Raises:
        MissingExtraError: rich is not installed.
    """
    parser = ArgumentParser(prog="python -m spindle.cli.demo", description="Hostile calls, and what became of each.")
    parser.add_argument("--all", action="store_true", help="good and hostile calls of every kind, not only the six")
    options = parser.parse_args(argv)
    with needs_extra("cli", purpose="the demonstration"):
        from spindle.cli.demo_table import show  # noqa: PLC0415 - rich is an extra
    if hasattr(sys.stdout, "reconfigure"):
        cast("Any", sys.stdout).reconfigure(errors="replace")  # a terminal that knows only ASCII gets a table too
    show(anyio.run(partial(demonstrate, every_call() if options.all else six_calls())))


if __name__ == "__main__":
    main()
