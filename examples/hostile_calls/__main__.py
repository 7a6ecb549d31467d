"""`python -m examples.hostile_calls`: run the hostile calls in one batch and print a table of the outcomes."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

import anyio

from examples.hostile_calls.demonstration import demonstrate, every_call, six_calls
from examples.hostile_calls.table import show


def main(argv: Sequence[str] | None = None) -> None:
    """Run the batch and print the table."""
    parser = ArgumentParser(
        prog="python -m examples.hostile_calls",
        description="Run hostile calls among good ones and print the outcomes.",
    )
    parser.add_argument("--all", action="store_true", help="run malformed calls of every kind, not only the six cases")
    options = parser.parse_args(argv)
    if callable(reconfigure := getattr(sys.stdout, "reconfigure", None)):
        reconfigure(errors="replace")  # so that the table prints on an ASCII terminal
    show(anyio.run(demonstrate, every_call() if options.all else six_calls()))


if __name__ == "__main__":
    main()
